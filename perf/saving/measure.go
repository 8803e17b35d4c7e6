// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/disco-sim/disco/internal/cputime"
	"github.com/disco-sim/disco/perf/bench"
)

// watch measures what is between its start and its stop, as often as these are called: wall and processor time.
type watch struct {
	wall           time.Duration
	cpu            float64
	began          time.Time
	cpuBegan       float64
	mallocs, heaps uint64
}

func (w *watch) start() {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	w.heaps, w.began, w.cpuBegan = m.Mallocs, time.Now(), cputime.Self()
}

func (w *watch) stop() {
	w.cpu += cputime.Self() - w.cpuBegan
	w.wall += time.Since(w.began)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	w.mallocs += m.Mallocs - w.heaps
}

// timed is a loop: it starts and stops the watch around what counts, and returns how many it was.
type timed func(w *watch) (int, error)

// wallMost is how many times longer than its processor time a loop may take.
const wallMost = 100

// repeated calls a loop again and again until it has had its processor time, and gives its rate by that time: what the
// loop is kept waiting for by other programs of the machine doesn't count.
func repeated(do timed) func(context.Context, bench.Task) (bench.Result, error) {
	return repeatedBy(do, false)
}

// repeatedBy is repeated, with the rate by wall time where that is asked for.
func repeatedBy(do timed, wall bool) func(context.Context, bench.Task) (bench.Result, error) {
	return func(ctx context.Context, t bench.Task) (bench.Result, error) {
		runtime.GC() // what was left by the loop before
		var w watch
		var r bench.Result
		for w.cpu < t.Time.Seconds() && w.wall < wallMost*t.Time {
			if err := ctx.Err(); err != nil {
				return r, bench.ErrAborted
			}
			n, err := do(&w)
			if err != nil {
				return r, err
			}
			r.Events += uint64(n)
		}
		if w.cpu <= 0 {
			return r, fmt.Errorf("saving: found %v s of processor time in %v", w.cpu, w.wall)
		}
		r.Nanos, r.CPU, r.Mallocs, r.Steady = w.wall.Nanoseconds(), w.cpu, w.mallocs, float64(r.Events)/w.cpu
		if wall {
			r.Steady = float64(r.Events) / w.wall.Seconds()
		}
		return r, nil
	}
}
