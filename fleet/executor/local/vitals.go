// SPDX-License-Identifier: Apache-2.0

package local

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
)

var _ executor.Vital = (*Local)(nil)

// busy is how much time the machine's processors have had, and how much of it they were idle, in ticks.
type busy struct{ all, idle uint64 }

// Vitals implements executor.Vital: shares of this machine. What the kernel doesn't say is 0.
func (l *Local) Vitals(v *fleet.Vitals) {
	stat, _ := os.ReadFile("/proc/stat") // shares are 0 then
	now := parseBusy(string(stat))
	l.mu.Lock()
	was := l.busy
	l.busy = now
	l.mu.Unlock()
	if all := now.all - was.all; was.all > 0 && now.all > was.all && now.idle >= was.idle {
		v.Processors = share(all-min(all, now.idle-was.idle), all)
	}
	meminfo, _ := os.ReadFile("/proc/meminfo") // the same
	v.Memory = parseMemory(string(meminfo))
	var fs syscall.Statfs_t
	if syscall.Statfs(l.o.Work, &fs) == nil {
		used := fs.Blocks - fs.Bfree
		v.Disk = share(used, used+fs.Bavail)
	}
}

// share is a part of a whole, 0 where that is none.
func share(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return min(1, float64(part)/float64(whole))
}

// parseBusy reads the first line of /proc/stat.
func parseBusy(stat string) (b busy) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 6 || fields[0] != "cpu" {
		return busy{}
	}
	for i, f := range fields[1:min(len(fields), 9)] { // what guests have had is in the others
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return busy{}
		}
		b.all += n
		if i == 3 || i == 4 { // idle, and waiting for a disk
			b.idle += n
		}
	}
	return b
}

// parseMemory is the share of memory in use in the text of /proc/meminfo, but for what the kernel can drop.
func parseMemory(meminfo string) float64 {
	kib := map[string]uint64{}
	for line := range strings.Lines(meminfo) {
		if name, rest, ok := strings.Cut(line, ":"); ok {
			n, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err == nil {
				kib[name] = n
			}
		}
	}
	total, free := kib["MemTotal"], kib["MemAvailable"]
	return share(total-min(total, free), total)
}
