// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"runtime"
	"syscall"
)

// usage is what a process has used so far.
type usage struct {
	cpu     float64 // seconds, user and system
	mallocs uint64
}

// usageNow reads the usage of this process. It takes some 20 µs, so it stands outside
// of what is measured.
func usageNow() usage {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return usage{cpu: cpuSeconds(syscall.RUSAGE_SELF), mallocs: stats.Mallocs}
}

func (u usage) since(before usage) usage {
	return usage{cpu: u.cpu - before.cpu, mallocs: u.mallocs - before.mallocs}
}

// cpuSeconds is the CPU time of this process (syscall.RUSAGE_SELF) or of the children
// that it has waited for (syscall.RUSAGE_CHILDREN).
func cpuSeconds(who int) float64 {
	var r syscall.Rusage
	if syscall.Getrusage(who, &r) != nil {
		return 0
	}
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}
