// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
)

// profileFlag is the argument of a worker process whose last descriptor gets its CPU profile.
const profileFlag = "--cpuprofile"

// startProfile begins the CPU profile that the arguments ask for, and takes its file from those that were handed over.
func startProfile(args []string, files []*os.File) (rest []*os.File, stop func(), err error) {
	if !slices.Contains(args, profileFlag) {
		return files, func() {}, nil
	}
	last := len(files) - 1
	if last < 0 {
		return nil, nil, fmt.Errorf("machine: profile: %s without a descriptor for it", profileFlag)
	}
	end, err := ProfileTo(files[last])
	return files[:last], func() {
		end()
		files[last].Close()
	}, err
}

// ProfileTo profiles this process into a file until stop is called, which stays the caller's. What was written is a
// profile from then on, and nothing before.
func ProfileTo(file *os.File) (stop func(), err error) {
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, fmt.Errorf("machine: profile: %w", err)
	}
	return pprof.StopCPUProfile, nil
}
