// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// memoryAvailable is how many bytes may still be used: what the system says, or what
// the control group that a container lives in says, whichever is less. ok is false
// where neither is known.
func memoryAvailable() (bytes int, ok bool) {
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		bytes, ok = meminfoAvailable(string(text))
	}
	limit, errLimit := os.ReadFile("/sys/fs/cgroup/memory.max")
	used, errUsed := os.ReadFile("/sys/fs/cgroup/memory.current")
	if errLimit != nil || errUsed != nil {
		return bytes, ok
	}
	if room, limited := cgroupRoom(string(limit), string(used)); limited && (!ok || room < bytes) {
		return room, true
	}
	return bytes, ok
}

// filesAllowed is how many files a process may have open.
func filesAllowed() (uint64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("limit of open files: %w", err)
	}
	return limit.Cur, nil
}

// meminfoAvailable finds the line "MemAvailable:  123 kB".
func meminfoAvailable(text string) (bytes int, ok bool) {
	for line := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(line, "MemAvailable:"); found {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			return kib << 10, err == nil
		}
	}
	return 0, false
}

// cgroupRoom is the limit less what is used; limited is false for the limit "max".
func cgroupRoom(limit, used string) (bytes int, limited bool) {
	l, err := strconv.Atoi(strings.TrimSpace(limit))
	if err != nil {
		return 0, false
	}
	u, err := strconv.Atoi(strings.TrimSpace(used))
	if err != nil {
		return 0, false
	}
	return max(l-u, 0), true
}
