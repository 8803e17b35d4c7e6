// SPDX-License-Identifier: Apache-2.0

package fleet

import "math/rand/v2"

// modelRetries is Rules.Retries of schedules: so few that some wait.
const modelRetries = 2

// takePlace has a fault of all in some schedules: every run ends for a time. It has random numbers of its own, so that
// schedules without it are as they were.
func (w *world) takePlace() {
	r := rand.New(rand.NewPCG(uint64(w.seed), 20))
	if r.IntN(3) == 0 {
		w.away[0] = 60 * r.Float64()
		w.away[1] = w.away[0] + 10 + 30*r.Float64()
	}
}

// retriesAtOnce is what a leader takes for it.
func (w *world) retriesAtOnce() int {
	if w.faulty == "tries cost nothing" {
		return 1_000_000
	}
	return modelRetries
}

// leads notes since when somebody leads.
func (w *world) leads(token uint64) {
	if _, known := w.since[token]; !known {
		w.since[token] = w.c.Now()
	}
}

// budgeted checks that a leader has tried no more again than its budget gives: what it is full with, what time adds,
// and a tenth of what the leader has begun, with one more for what it wasn't let begin. A clock that has jumped adds
// more.
func (w *world) budgeted(m *Move, piece string) {
	token := m.To.Token
	if m.Was == nil || m.Was.Attempt == 0 {
		w.begun[token]++
		return
	}
	was := m.Was
	if was.Error == nil || !was.Error.isSpared() && was.Attempt == was.Spared {
		return // people have asked for it, or it was paused
	}
	w.again[token]++
	w.tally.again++
	passed := w.c.Now() - w.since[token]
	most := modelRetries*(1+passed/retriesIn.Seconds()) + retriesShare*float64(w.begun[token]) + 1
	if float64(w.again[token]) > most+1e-6 && !w.jumped {
		w.violated(18, "%s is tried again, the %d. of this leader, of %.1f that may be in %.1f s", piece,
			w.again[token], most, passed)
	}
}
