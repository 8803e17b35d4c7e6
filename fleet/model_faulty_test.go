// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/race"
)

// breaks gives some pieces a model's error.
func (w *world) breaks(spec *Spec) {
	bad := map[PieceID]bool{}
	for i, t := range spec.Steps {
		for p := range t.Replications * len(t.Points) {
			bad[PieceID{i, p / t.Replications, p % t.Replications}] = w.chance(0.05)
		}
	}
	for tries := 1; tries < 100; tries++ { // of whichever id it gets
		for at, is := range bad {
			if is {
				w.broken[pieceKey(fmt.Sprintf("%s-%d", spec.Name, tries), at)] = true
			}
		}
	}
}

// altered is a report as a faulty leader reads it.
func (w *world) altered(s *State, r ReportAt) ReportAt {
	e := s.experiments[r.ID]
	if e == nil || e.pieces[r.Piece] == nil {
		return r
	}
	p := e.pieces[r.Piece]
	switch {
	case w.faulty == "old reports count" && r.Report.Attempt < p.Attempt:
		r.Report.Attempt = p.Attempt
	case w.faulty == "a model's error is a machine's" && r.Report.Error != nil:
		r.Report.State, r.Report.Error = Held, &Error{Type: ErrorMachine}
	case w.faulty == "progress is an end" && r.Report.State == Running:
		r.Report.State, r.Report.Kept = Finished, &Kept{Hash: "x"}
	}
	return r
}

// mutate is what a faulty leader does in place of what was decided.
func (w *world) mutate(s *State, actions []Action) []Action {
	for i := range actions {
		a := &actions[i]
		if a.Do != DoMove {
			continue
		}
		switch {
		case w.faulty == "servers are promised twice" && a.To.State == Dispatched:
			for _, name := range slices.Sorted(maps.Keys(s.servers)) {
				if sv := s.servers[name]; sv.promised != nil && sv.promised.id != a.Piece {
					a.To.Gang = slices.Clone(a.To.Gang)
					a.To.Gang[0] = Server{Name: sv.Name, Member: sv.machine.Name, Incarnation: sv.Incarnation}
				}
			}
		case w.faulty == "half a gang will do" && a.To.State == Dispatched && len(a.To.Gang) > 1:
			a.To.Gang = a.To.Gang[1:]
		case w.faulty == "tries aren't counted" && a.To.State == Failed && a.From == Held && a.Report == nil:
			a.To.State, a.To.Spared = Waiting, a.To.Attempt
			s.experiments[a.ID].pieces[a.Piece].Spared = a.To.Attempt
		case w.faulty == "scarce memory never counts" && a.To.State == Held && a.To.Error.Scarce &&
			len(a.To.Fault) == len(s.experiments[a.ID].pieces[a.Piece].Fault) && a.From != Held:
			a.To.Spared++
			s.experiments[a.ID].pieces[a.Piece].Spared = a.To.Spared
		case w.faulty == "faults are forgotten" && a.To.State == Waiting:
			a.To.Fault = nil
			s.experiments[a.ID].pieces[a.Piece].Fault = nil
		case w.faulty == "extensions aren't counted" && a.To.State == Running && a.To.Extended != nil:
			x := *a.To.Extended
			x.Count = 1
			a.To.Extended, s.experiments[a.ID].pieces[a.Piece].Extended = &x, &x
		case w.faulty == "what is left isn't said":
			a.To.Left = nil
		case w.faulty == "ends are left" && a.To.State == Finished:
			a.To.State, a.To.Kept = Waiting, nil
		}
	}
	actions = w.mutateSteps(s, actions)
	if w.faulty == "nothing is placed" {
		return slices.DeleteFunc(actions, func(a Action) bool { return a.Do == DoMove && a.To.State == Dispatched })
	}
	return actions
}

// TestSchedulesFind puts faults in, and wants the invariants to find each.
func TestSchedulesFind(t *testing.T) {
	if race.Enabled {
		t.Skip("one goroutine, half a minute of it, and about the invariants, not about races")
	}
	for _, c := range []struct {
		fault     mutation
		invariant int
		first     int // the schedule that finds it comes soon behind this one
	}{
		{"keys don't count", 1, 1},
		{"old reports count", 2, 340},
		{"ends are left", 3, 1},
		{"progress is an end", 4, 1},
		{"servers are promised twice", 5, 1},
		{"half a gang will do", 5, 1},
		{"late commits count", 5, 3380},
		{"lets go at once", 5, 1},
		{"no guard", 6, 1},
		{"a model's error is a machine's", 7, 1},
		{"tries aren't counted", 7, 710},
		{"faults are forgotten", 7, 1},
		{"scarce memory never counts", 7, 1},
		{"nothing is placed", 8, 1},
		{"outputs are left", 12, 1},
		{"texts are left", 12, 1},
		{"all parts are put together", 14, 1},
		{"steps begin at once", 13, 1},
		{"old outputs count", 13, 1},
		{"dependents stay", 13, 120},
		{"what runs of dependents stays", 13, 120},
		{"who ended first counts", 14, 1},
		{"the rule is forgotten", 14, 1},
		{"evictions wait for ever", 8, 1},
		{"vitals aren't read", 15, 1},
		{"ways aren't read", 17, 1495},
		{"each leader counts anew", 16, 1},
		{"nobody minds the start", 16, 1},
		{"nobody looks", 16, 20},
		{"extensions aren't counted", 16, 660},
		{"what is left isn't said", 16, 1640},
		{"tries cost nothing", 18, 145},
	} {
		t.Run(string(c.fault), func(t *testing.T) {
			_, err := runSchedules(t, c.first, 5_000, c.fault)
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("invariant %d:", c.invariant)) {
				t.Fatalf("found %v, want invariant %d to find the fault", err, c.invariant)
			}
			t.Log(err)
		})
	}
}
