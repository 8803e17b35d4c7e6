// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Under real limits of the system a segment that can't be had is an error that says what
// to change, and no signal; what the limits allow works.
func TestRealLimits(t *testing.T) {
	for _, name := range []string{"limit-files", "limit-memory", "limit-locked"} {
		cmd := startChild(t, name)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, cmd.Stderr)
		}
	}
}

// limitedCreate sets a limit of the process and creates a segment, which must fail with
// errno and this advice, or succeed without one.
func limitedCreate(resource int, limit uint64, size int, errno error, advice string) error {
	if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		return err
	}
	s, err := Create(Config{Name: "limited", Kind: testKind, Size: size})
	if s != nil {
		defer s.Close()
		for i := 0; i < size; i += os.Getpagesize() {
			s.Body()[i] = 1
		}
	}
	if !errors.Is(err, errno) || err != nil && !strings.Contains(err.Error(), advice) {
		return fmt.Errorf("limit %d at %d: %v, want %v with advice %q", resource, limit, err, errno, advice)
	}
	return nil
}

func childLimitFiles() error {
	open, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		return err
	}
	most := uint64(len(open))
	for range 64 { // whatever is free below the limit
		if f, err := os.Open("/dev/null"); err == nil {
			defer f.Close()
			most = max(most, uint64(f.Fd()))
		}
	}
	return limitedCreate(unix.RLIMIT_NOFILE, most+1, 4096, unix.EMFILE, "ulimit -n")
}

func childLimitMemory() error {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return err
	}
	var pages uint64
	if _, err := fmt.Sscan(string(text), &pages); err != nil {
		return err
	}
	return limitedCreate(unix.RLIMIT_AS, pages*uint64(os.Getpagesize())+16<<20, 64<<20, unix.ENOMEM, "ulimit -v")
}

// Nothing is locked into memory, so that limit has no effect.
func childLimitLocked() error {
	return limitedCreate(unix.RLIMIT_MEMLOCK, 0, 4<<20, nil, "")
}
