// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/disco-sim/disco/cluster"
)

// ways are what lies between machines, in schedules in which it is measured: some of them are cut off from each other
// for a time, while both reach the store.
type ways struct {
	measured bool
	until    map[[2]string]float64 // of pairs that are cut off, from either end
	known    map[[2]string]float64 // since when the vitals of the first say that it can't reach the second
	busy     map[string]float64    // when a piece had a server of a machine last
}

// part has pairs of machines be cut off in some schedules. It has random numbers of its own, so that schedules without
// it are as they were.
func (w *world) part() {
	r := rand.New(rand.NewPCG(uint64(w.seed), 19))
	w.ways = ways{measured: r.IntN(4) == 0, until: map[[2]string]float64{}, known: map[[2]string]float64{},
		busy: map[string]float64{}}
	if !w.ways.measured {
		return
	}
	for range 1 + r.IntN(2) {
		order := r.Perm(len(w.hosts))
		a, b := w.hosts[order[0]].name, w.hosts[order[1]].name
		at, long := 60*r.Float64(), 20+100*r.Float64()
		w.after(at, func() {
			w.ways.until[[2]string{a, b}] = w.c.Now() + long
			w.ways.until[[2]string{b, a}] = w.c.Now() + long
		})
	}
}

// isCut tells whether two machines are cut off from each other.
func (w *world) isCut(a, b string) bool { return !w.quiet && w.c.Now() < w.ways.until[[2]string{a, b}] }

// measure fills in what an agent finds of the ways to others, and notes what the store has then.
func (w *world) measure(h *host) {
	if !w.ways.measured {
		return
	}
	h.vital.Far, h.vital.Unreachable = map[string]float64{}, map[string]string{}
	for i, other := range w.hosts {
		pair := [2]string{h.name, other.name}
		switch {
		case other == h || !other.alive:
		case w.isCut(h.name, other.name):
			h.vital.Unreachable[other.name] = "no route"
			if w.ways.known[pair] == 0 {
				w.ways.known[pair] = w.c.Now()
			}
			continue
		default:
			h.vital.Far[other.name] = 0.001 * float64(1+i)
		}
		delete(w.ways.known, pair)
	}
}

// unmeasured notes that an agent's vitals are gone.
func (w *world) unmeasured(h *host) {
	for _, other := range w.hosts {
		delete(w.ways.known, [2]string{h.name, other.name})
	}
}

// parted ends a run of several machines of which two are cut off from each other for 3 s. Its agent measures before it
// reports, unless it is of an older build. Who is to blame the run knows, or not.
func (r *run) parted() (ended bool) {
	w, h := r.slot.host.w, r.slot.host
	p := w.store.pieces[r.id][r.attempt.PieceID]
	if !w.ways.measured || p.Attempt != r.attempt.Attempt {
		return false
	}
	names := membersOf(p.Gang)
	for i, a := range names {
		for _, b := range names[:i] {
			if w.isCut(a, b) {
				if r.cutFor++; r.cutFor < 3 {
					return false
				}
				if h.session != 0 && max(h.cutUntil, w.store.downUntil) <= w.c.Now() && w.chance(0.8) {
					h.vital.Number++
					w.measure(h)
					w.store.vitals[h.name] = h.vital
				}
				w.tally.parted++
				r.end(Report{State: Held, Error: &Error{Where: []string{"", a}[w.r.IntN(2)], Type: ErrorMachine,
					Message: "it is cut off"}})
				return true
			}
		}
	}
	r.cutFor = 0
	return false
}

// together checks that a gang isn't given to two machines that its leader must know to be cut off from each other,
// where others would do.
func (w *world) together(m *Move, piece string) {
	names := membersOf(m.To.Gang)
	if !w.ways.measured || len(names) < 2 {
		return
	}
	known := false
	for _, a := range names {
		for _, b := range names {
			since := w.ways.known[[2]string{a, b}]
			known = known || since != 0 && w.c.Now()-since >= knownLong
		}
	}
	if w.c.Now()-w.read[m.To.Token] < knownLong || !w.calmAt(m.To.Token) || w.underway() > 1 {
		return
	}
	if !known {
		return
	}
	if others := w.reach(m); others != nil {
		w.violated(17, "%s is given to %v, of which two are cut off from each other, and %v aren't", piece, names,
			others)
	}
}

// knownLong is for how long vitals have said something until its leader must know: as fullLong, but that they count at
// once.
const knownLong = 20

// calmAt tells whether a leader, and the store, haven't been held up for a while.
func (w *world) calmAt(token uint64) bool {
	for _, h := range w.hosts {
		if h.lead != nil && h.lead.token == token {
			return max(h.cutUntil, h.stoppedUntil, w.store.downUntil)+knownLong < w.c.Now()
		}
	}
	return false
}

// underway is how many experiments haven't ended: what others have reserved isn't known here.
func (w *world) underway() (count int) {
	for _, id := range w.store.ids {
		if !w.store.standings[id].Ended {
			count++
		}
	}
	return count
}

// givenAway tells whether the leader has promised a server to another piece, as by a move of the same commit.
func (w *world) givenAway(m *Move, server string) bool {
	for _, h := range w.hosts {
		if h.lead == nil || h.lead.token != m.To.Token || h.lead.state == nil {
			continue
		}
		if sv := h.lead.state.servers[server]; sv != nil && sv.promised != nil {
			p := sv.promised
			return p.step.experiment.ID != m.ID || p.id != m.Piece
		}
	}
	return false
}

// reach is a set of machines that would do for a gang, and of which each reaches each other; nil: there is none that
// its leader must know to be free.
func (w *world) reach(m *Move) []string {
	was := w.store.pieces[m.ID][m.Piece].Piece
	doubted := was.doubted()
	for _, pieces := range w.store.pieces { // what the same commit has given away a moment ago is gone, too
		for _, p := range pieces {
			if p.State.Holds() {
				for _, g := range p.Gang {
					w.ways.busy[g.Member] = w.c.Now()
				}
			}
		}
	}
	free := map[string]int{}
	for _, h := range w.hosts {
		session := w.store.members[h.name]
		if session == 0 || w.c.Now()-w.store.born[session] < knownLong || slices.Contains(was.Fault, h.name) ||
			!slices.Contains(w.roles(h.name), RoleGang) || h.fullUntil+fullLong > w.c.Now() && h.fullUntil > 0 ||
			w.ways.busy[h.name]+5 > w.c.Now() || max(h.cutUntil, h.stoppedUntil)+knownLong > w.c.Now() {
			continue
		}
		for _, sl := range h.slots {
			v := w.store.servers[sl.name]
			if v.there && v.State == cluster.Available && w.store.freed[sl.name]+5 <= w.c.Now() &&
				!w.givenAway(m, sl.name) {
				free[h.name]++
			}
		}
	}
	names := slices.Sorted(maps.Keys(free))
	for set := range 1 << len(names) {
		var chosen []string
		servers, apart := 0, false
		for i, name := range names {
			if set>>i&1 == 0 {
				continue
			}
			for _, other := range chosen {
				apart = apart || w.isCut(name, other) || w.ways.known[[2]string{name, other}] != 0 ||
					w.ways.known[[2]string{other, name}] != 0 || doubted[name] && doubted[other]
			}
			chosen, servers = append(chosen, name), servers+free[name]
		}
		if !apart && servers >= len(m.To.Gang) {
			return chosen
		}
	}
	return nil
}
