// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"os"
	"runtime/pprof"
	"strings"

	"github.com/disco-sim/disco/internal/outfile"
)

// profileFlag is the argument of a worker process for the file of its CPU profile.
const profileFlag = "--cpuprofile="

// startProfile begins the CPU profile that the arguments ask for.
func startProfile(args []string) (stop func(), err error) {
	path := ""
	for _, arg := range args {
		if given, ok := strings.CutPrefix(arg, profileFlag); ok {
			path = given
		}
	}
	if path == "" {
		return func() {}, nil
	}
	return ProfileTo(path)
}

// ProfileTo profiles this process into a file until stop is called.
func ProfileTo(path string) (stop func(), err error) {
	out, err := outfile.Create(path)
	if err != nil {
		return nil, fmt.Errorf("machine: profile: %w", err)
	}
	if err := pprof.StartCPUProfile(out); err != nil {
		out.Abort()
		return nil, fmt.Errorf("machine: profile: %w", err)
	}
	return func() {
		pprof.StopCPUProfile()
		if err := out.Commit(); err != nil {
			fmt.Fprintln(os.Stderr, "machine: profile:", err)
		}
	}, nil
}
