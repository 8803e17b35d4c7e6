// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"

	"github.com/disco-sim/disco/internal/outfile"
)

// profileFlag is the argument of a worker process for the file of its CPU profile.
const profileFlag = "--cpuprofile="

// profileName is the file of one worker's profile in the directory that was asked for.
func profileName(index int) string { return fmt.Sprintf("worker-%d.pprof", index) }

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
	return profileTo(path)
}

// profileTo profiles this process into a file until stop is called.
func profileTo(path string) (stop func(), err error) {
	out, err := outfile.Create(path)
	if err != nil {
		return nil, fmt.Errorf("launch: profile: %w", err)
	}
	if err := pprof.StartCPUProfile(out); err != nil {
		out.Abort()
		return nil, fmt.Errorf("launch: profile: %w", err)
	}
	return func() {
		pprof.StopCPUProfile()
		if err := out.Commit(); err != nil {
			fmt.Fprintln(os.Stderr, "launch: profile:", err)
		}
	}, nil
}

// profilePath is the profile of worker index, absolute because a worker is free to
// change its directory.
func profilePath(dir string, index int) (string, error) {
	path, err := filepath.Abs(filepath.Join(dir, profileName(index)))
	if err != nil {
		return "", fmt.Errorf("launch: profile: %w", err)
	}
	return path, nil
}
