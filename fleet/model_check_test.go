// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/disco-sim/disco/cluster"
)

// moved checks a move that the store is about to make.
func (w *world) moved(m *Move) {
	piece := pieceKey(m.ID, m.Piece)
	s := w.store
	was := Piece{State: Waiting}
	if m.Was != nil {
		was = *m.Was
	}
	if was.State == m.To.State && m.Was != nil {
		w.noted(m, piece, &was)
		return
	}
	w.tally.moves[[2]PieceState{was.State, m.To.State}]++
	w.movedUntil(m, piece)
	w.bounded(m, piece, &was)
	if m.To.Attempt < w.tops[piece] {
		w.violated(2, "%s goes back to attempt %d", piece, m.To.Attempt)
	}
	if m.Takes != nil && m.Takes.Report.Attempt != was.Attempt {
		w.violated(2, "%s takes the report of attempt %d, where %d counts", piece, m.Takes.Report.Attempt, was.Attempt)
	}
	if m.Takes != nil && s.reports[m.Takes.key()].Report.Attempt != was.Attempt {
		w.violated(2, "%s takes a report of attempt %d, where %d counts", piece,
			s.reports[m.Takes.key()].Report.Attempt, was.Attempt)
	}
	w.tops[piece] = m.To.Attempt
	w.movedPipeline(m, &was)
	if was.State.Ended() && s.wishes[m.ID].Retry <= s.standings[m.ID].Retry {
		w.violated(3, "%s leaves %v, and nobody has asked for a retry", piece, was.State)
	}
	if m.Takes != nil && was.State != Canceling {
		if err := s.reports[m.Takes.key()].Report.Error; err != nil && err.Final() {
			w.erred[piece] = s.standings[m.ID].Retry + 1
		}
	}
	switch m.To.State {
	case Held:
		w.held[piece] = w.c.Now()
		w.faults[piece] = append(w.faults[piece], m.To.Fault...)
		if was.State == Paused && m.To.Spared > was.Spared {
			w.tries[piece]--
		}
		w.spared(m, piece, &was)
	case Finished:
		if w.parts[piece] != partOf(piece) || m.To.Kept.Hash != partOf(piece) {
			w.violated(4, "%s is FINISHED, and its part is %q", piece, w.parts[piece])
		}
	case Dispatched:
		w.dispatched(m, piece)
	case Waiting:
		w.nothingLeft(m, piece, &was)
		if was.State.Ended() {
			w.tries[piece], w.faults[piece] = 0, nil
		}
	}
}

// spared checks which attempts don't count: one that was ended since the agent left, and one for which memory was
// scarce, once for each machine at most.
func (w *world) spared(m *Move, piece string, was *Piece) {
	e := m.To.Error
	if e.Type == ErrorLeft && (m.Takes == nil || m.Takes.Report.State != Canceled || m.To.Spared != was.Spared+1) {
		w.violated(7, "%s was ended as one whose agent has left: %+v", piece, m.Takes)
	}
	if m.To.Spared == was.Spared || !e.Scarce && e.Type != ErrorLeft {
		return
	}
	w.tries[piece]--
	if e.Type == ErrorLeft {
		w.tally.gone++
		return
	}
	if w.tally.scarce++; len(m.To.Fault) != len(was.Fault)+1 {
		w.violated(7, "%s is spared for scarce memory, and no machine is at fault that wasn't: %v", piece, m.To.Fault)
	}
}

// dispatched checks a gang.
func (w *world) dispatched(m *Move, piece string) {
	s := w.store
	spec := s.specs[m.ID]
	if w.erred[piece] > s.wishes[m.ID].Retry {
		w.violated(7, "%s is tried again, which has a model's error", piece)
	}
	limit := spec.Limits.Attempts
	if limit == 0 {
		limit = attemptsDefault
	}
	if w.tries[piece]++; w.tries[piece] > limit {
		w.violated(7, "%s is tried more than %d times", piece, limit)
	}
	w.well(m, piece)
	w.together(m, piece)
	w.budgeted(m, piece)
	names := map[string]bool{}
	for _, g := range m.To.Gang {
		names[g.Name] = true
	}
	if want := spec.Steps[m.Piece.Step].Workers; len(names) != want && !(spec.IsClosing(m.Piece) && len(names) == 1) {
		w.violated(5, "%s has %d servers: %v", piece, len(names), m.To.Gang)
	}
	for _, g := range m.To.Gang {
		many := slices.ContainsFunc(m.To.Gang, func(o Server) bool { return o.Member != g.Member })
		if many && (!slices.Contains(w.roles(g.Member), RoleGang) || g.Address == "") {
			w.violated(5, "%s has %v, which %s takes no part in", piece, m.To.Gang, g.Member)
		}
		if slices.Contains(w.faults[piece], g.Member) && w.elsewhere(m, w.faults[piece]) {
			w.violated(7, "%s is tried at %s again, which is at fault: %v", piece, g.Member, w.faults[piece])
		}
	}
}

// elsewhere tells whether servers that aren't at fault would do, of machines that have been there for so long that who
// leads must have known it when it decided.
func (w *world) elsewhere(m *Move, fault []string) bool {
	alone, together := 0, 0
	for _, h := range w.hosts {
		here := 0
		session := w.store.members[h.name]
		if slices.Contains(fault, h.name) || session == 0 || w.c.Now()-w.store.born[session] < 60 {
			continue
		}
		for _, sl := range h.slots {
			if v := w.store.servers[sl.name]; v.there && v.State != cluster.Broken && v.State != cluster.Exited {
				here++
			}
		}
		alone = max(alone, here)
		if slices.Contains(w.roles(h.name), RoleGang) {
			together += here
		}
	}
	return max(alone, together) >= len(m.To.Gang)
}

// nothingLeft checks that nothing of an attempt is left that has another one behind it: no server that the store has in
// the same life, and that was told in time, simulates it.
func (w *world) nothingLeft(m *Move, piece string, was *Piece) {
	if was.State != Held {
		return
	}
	attempt := AttemptID{m.Piece, was.Attempt}.String()
	for _, g := range was.Gang {
		v := w.store.servers[g.Name]
		if !v.there || v.Incarnation != g.Incarnation || v.Info.Assignment == nil || w.stoppedLong(piece) {
			continue
		}
		if v.State >= cluster.Ready && v.State <= cluster.Terminated && v.Info.Assignment.Experiment == m.ID &&
			v.Info.Assignment.Replication == attempt {
			w.violated(5, "%s leaves attempt %d behind at %s, which is %v", piece, was.Attempt, g.Name, v.State)
		}
	}
}

// stoppedLong tells whether a piece was held for so long that what is left was given up, or may seem so by a clock that
// has jumped.
func (w *world) stoppedLong(piece string) bool { return w.c.Now()-w.held[piece] >= 2*60-1 || w.jumped }

// check checks what holds between commits.
func (w *world) check() {
	promised := map[string]string{}
	s := w.store
	for _, key := range slices.Sorted(maps.Keys(w.answers)) {
		id := w.answers[key]
		if s.submitted[key] != id || s.specs[id].Key != key {
			w.violated(1, "the submission %s was answered with %s, and isn't there", key, id)
		}
	}
	keys := map[string]string{}
	for _, id := range s.ids {
		if other := keys[s.specs[id].Key]; other != "" {
			w.violated(1, "the key %s has the experiments %s and %s", s.specs[id].Key, other, id)
		}
		keys[s.specs[id].Key] = id
		var holding []PieceID
		for at, p := range s.pieces[id] {
			if p.State.Holds() {
				holding = append(holding, at)
			}
		}
		slices.SortFunc(holding, PieceID.compare)
		for _, at := range holding {
			for _, g := range s.pieces[id][at].Gang {
				if other := promised[g.Name]; other != "" {
					w.violated(5, "%s is promised to %s and %s", g.Name, other, pieceKey(id, at))
				}
				promised[g.Name] = pieceKey(id, at)
				if w.ways.measured {
					w.ways.busy[g.Member] = w.c.Now()
				}
			}
		}
	}
}

// ended tells whether all experiments have, and nothing runs any more.
func (w *world) ended() bool {
	if len(w.answers) < len(w.specs) {
		return false
	}
	for _, id := range w.store.ids {
		if x := w.store.standings[id]; !x.Ended || x.Retry < w.store.wishes[id].Retry {
			return false
		}
	}
	for _, h := range w.hosts {
		for _, sl := range h.slots {
			if sl.sm.Assignment() != nil && sl.sm.State() != cluster.Available || sl.run != nil {
				return false
			}
		}
	}
	return len(w.store.reports) == 0
}

// final checks what holds at the end.
func (w *world) final() {
	for _, id := range w.store.ids {
		spec, x := w.store.specs[id], w.store.standings[id]
		total, counts := 0, map[PieceState]int{}
		for _, n := range x.Pieces {
			total += n
		}
		for _, p := range w.store.pieces[id] {
			counts[p.State]++
		}
		if total != spec.Count() || counts[Finished] != x.Pieces[Finished] {
			w.violated(8, "%s has %v, of %d pieces, of which %v have begun", id, x.Pieces, spec.Count(), counts)
		}
	}
	w.finalPipelines()
}

// left says what hasn't ended.
func (w *world) left() string {
	var text strings.Builder
	for _, id := range w.store.ids {
		fmt.Fprintf(&text, "\n%s: wish %+v, standing %+v", id, w.store.wishes[id], w.store.standings[id])
		for _, at := range inOrder(w.store.pieces[id]) {
			p := w.store.pieces[id][at]
			fmt.Fprintf(&text, "\n  %v %v attempt %d %v", at, p.State, p.Attempt, p.Gang)
		}
	}
	for _, h := range w.hosts {
		fmt.Fprintf(&text, "\n%s: alive %v, session %d, leads %v", h.name, h.alive, h.session, h.lead != nil)
		for _, sl := range h.slots {
			fmt.Fprintf(&text, "\n  %s %v %v run %v", sl.name, sl.sm.State(), sl.sm.Assignment(), sl.run != nil)
		}
	}
	fmt.Fprintf(&text, "\nreports %d, answers %d of %d", len(w.store.reports), len(w.answers), len(w.specs))
	return text.String()
}
