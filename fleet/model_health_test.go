// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"math/rand/v2"
)

// fill has machines' memories be full for a time in some schedules. It has random numbers of its own, so that schedules
// without it are as they were.
func (w *world) fill() {
	r := rand.New(rand.NewPCG(uint64(w.seed), 18))
	for range r.IntN(3) {
		at, h, long := 100*r.Float64(), w.hosts[r.IntN(len(w.hosts))], 20+180*r.Float64()
		w.after(at, func() { h.fullUntil = w.c.Now() + long })
	}
}

// fullLong is for how long a machine's vitals have said that it is full, until its leader must know: three vitals, of
// which a look may see every other one, a leader that is stopped, and the store's outages.
const fullLong = 60

// well checks that a gang has no machine which its leader must know to be full.
func (w *world) well(m *Move, piece string) {
	for _, g := range m.To.Gang {
		for _, h := range w.hosts {
			if h.fullSince != 0 && h.name != g.Member {
				w.tally.passed++
			}
			if h.name != g.Member || h.fullSince == 0 || w.c.Now()-h.fullSince < fullLong ||
				w.c.Now()-w.read[m.To.Token] < fullLong {
				continue
			}
			w.violated(15, "%s is given to %s, which has been full for %.0f s", piece, h.name, w.c.Now()-h.fullSince)
		}
	}
}

// alteredVitals are vitals as a faulty leader reads them.
func (w *world) alteredVitals(all map[string]Vitals) map[string]Vitals {
	switch w.faulty {
	case "vitals aren't read":
		return nil
	case "ways aren't read":
		altered := map[string]Vitals{}
		for name, v := range all {
			far := map[string]float64{} // what can't be reached is taken for what is near
			for other := range v.Unreachable {
				far[other] = 1e-6
			}
			v.Far, v.Unreachable = far, nil
			altered[name] = v
		}
		return altered
	}
	return all
}
