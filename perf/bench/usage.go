// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"runtime"

	"github.com/disco-sim/disco/internal/cputime"
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
	return usage{cpu: cputime.Self(), mallocs: stats.Mallocs}
}

func (u usage) since(before usage) usage {
	return usage{cpu: u.cpu - before.cpu, mallocs: u.mallocs - before.mallocs}
}
