// SPDX-License-Identifier: Apache-2.0

package outfile

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// LockedError says that another process has a directory.
type LockedError struct {
	Path string
	PID  int // of that process; 0: unknown
}

// Error names the directory, and the process where that is known.
func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s: another process has it", e.Path)
	}
	return fmt.Sprintf("%s: process %d has it", e.Path, e.PID)
}

// LockDir locks a directory with flock, until unlock or the end of this process, however that ends; nothing is put into
// it. *LockedError where another one has it. A file system that has no such locks, as some over a network, locks
// nothing.
func LockDir(path string) (unlock func(), err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, Error(path, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		defer f.Close()
		return nil, &LockedError{path, holder(f)}
	}
	return func() { f.Close() }, nil
}

// holder is the process that has locked a file; 0: unknown. It is only for messages.
func holder(f *os.File) int {
	var stat unix.Stat_t
	text, err := os.ReadFile("/proc/locks")
	if err != nil || unix.Fstat(int(f.Fd()), &stat) != nil {
		return 0
	}
	inode := ":" + strconv.FormatUint(stat.Ino, 10)
	for line := range strings.Lines(string(text)) {
		// 1: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE 0 EOF
		word := strings.Fields(line)
		if len(word) < 6 || word[1] != "FLOCK" || word[3] != "WRITE" || !strings.HasSuffix(word[5], inode) {
			continue
		}
		if pid, err := strconv.Atoi(word[4]); err == nil && pid > 0 {
			return pid
		}
	}
	return 0
}
