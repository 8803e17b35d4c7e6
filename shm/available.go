// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/internal/infile"
)

// A memfd has no file system whose size limits it: when the memory runs out
// under an fallocate, the kernel picks a process and kills it, often the one that
// called. So Create first checks how much memory is available, and returns an error
// instead.

// keepShare is the part of the available memory that a segment must leave to
// others: one sixteenth.
const keepShare = 16

// checkAvailable refuses a segment of total bytes that would take (nearly) all memory
// there is. Where the machine doesn't report it, every segment passes.
func checkAvailable(sys *system, total int) error {
	available := sys.available()
	if most := available - available/keepShare; int64(total) > most {
		return fmt.Errorf("%w: %d bytes are available to this process, %d of them may be taken: free memory, raise "+
			"the memory limit of the container, or ask for less", ErrMemory, available, most)
	}
	return nil
}

// AvailableBytes is the least of what the machine and each control group above
// this process have left, caches that the kernel can drop included. Where neither is
// known it is the largest number.
func AvailableBytes() int64 {
	least := machineBytes(readText("/proc/meminfo"))
	for line := range strings.Lines(readText("/proc/self/cgroup")) {
		for _, dir := range groupDirs(line) {
			least = min(least, groupBytes(dir))
		}
	}
	return least
}

// machineBytes reads MemAvailable in the text of /proc/meminfo.
func machineBytes(meminfo string) int64 {
	for line := range strings.Lines(meminfo) {
		if kib, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			return min(parseBytes(strings.TrimSuffix(strings.TrimSpace(kib), " kB")), math.MaxInt64>>10) << 10
		}
	}
	return math.MaxInt64
}

// groupDir is a control group's directory, and how the files in it are called.
type groupDir struct {
	path         string
	limit, usage string
}

// groupDirs lists the directories of the group in one line of /proc/self/cgroup,
// and of those above it. Only the groups that control memory are of interest:
// those of version 2 (hierarchy 0) and of version 1's memory controller. In a
// container the path may be that of the machine outside, and not exist: then the
// root above it is the container's own.
func groupDirs(line string) []groupDir {
	fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
	if len(fields) != 3 {
		return nil
	}
	dir := groupDir{path: "/sys/fs/cgroup", limit: "memory.max", usage: "memory.current"}
	if fields[0] != "0" {
		if fields[1] != "memory" {
			return nil
		}
		dir = groupDir{path: "/sys/fs/cgroup/memory", limit: "memory.limit_in_bytes", usage: "memory.usage_in_bytes"}
	}
	var dirs []groupDir
	root := dir.path
	for at := path.Clean("/" + fields[2]); ; at = path.Dir(at) {
		dir.path = path.Join(root, at)
		dirs = append(dirs, dir)
		if at == "/" {
			return dirs
		}
	}
}

// groupBytes is what one control group has left.
func groupBytes(dir groupDir) int64 {
	limit := parseBytes(strings.TrimSpace(readText(path.Join(dir.path, dir.limit))))
	if limit == math.MaxInt64 {
		return limit
	}
	used := parseBytes(strings.TrimSpace(readText(path.Join(dir.path, dir.usage))))
	if used == math.MaxInt64 {
		return used
	}
	return leftBytes(limit, used, cacheBytes(readText(path.Join(dir.path, "memory.stat"))))
}

// leftBytes is what a group has left, of whose memory the kernel takes the file caches back when it is wanted. The
// numbers are read one after the other: the caches may be larger than what was used before, and version 1's limit for
// none is nearly the largest number, so nothing is added to it.
func leftBytes(limit, used, caches int64) int64 {
	return max(limit-max(used-caches, 0), 0)
}

// cacheBytes sums up the file caches in the text of a memory.stat, which version
// 1 lists for the group alone and, with "total_", with everything below it.
func cacheBytes(stat string) (sum int64) {
	prefix := ""
	if strings.Contains(stat, "total_active_file ") {
		prefix = "total_"
	}
	for line := range strings.Lines(stat) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == prefix+"active_file" || name == prefix+"inactive_file" {
			if n := parseBytes(value); n != math.MaxInt64 {
				sum += min(n, math.MaxInt64-sum)
			}
		}
	}
	return sum
}

// parseBytes reads a number; what isn't one ("max", or a file that isn't there)
// is no limit.
func parseBytes(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return math.MaxInt64
	}
	return n
}

// readText is the contents of a file of the kernel's, or nothing.
func readText(name string) string {
	text, err := infile.Read(name, infile.Kind{Name: "a file of the kernel's", BytesMax: 1 << 20})
	if err != nil {
		return ""
	}
	return string(text)
}
