// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/fleet"
)

// What waits to be tried again is shown with the reason, some of it beside what runs, and all where that is asked for.
func TestShowsTriedAgain(t *testing.T) {
	s := shownExperiment{}
	for r := range triedAgainMost + 3 {
		p := shownPiece{ID: fleet.PieceID{Replication: r}}
		p.State, p.Attempt = fleet.Waiting, 1
		p.Error = &fleet.Error{Type: fleet.ErrorMachine, Message: "disk full\nat /x"}
		s.Begun = append(s.Begun, p)
	}
	var runs, ended shownPiece
	runs.ID.Point, runs.State, ended.ID.Point, ended.State = 1, fleet.Running, 2, fleet.Finished
	s.Begun = append(s.Begun, runs, ended)
	for _, c := range []struct {
		all               bool
		waits, runs, ends int
		more              string
	}{{false, triedAgainMost, 1, 0, "and 3 more that wait to be tried again"}, {true, triedAgainMost + 3, 1, 1, ""}} {
		out := &strings.Builder{}
		s.pieces(out, c.all)
		got := out.String()
		if strings.Count(got, "WAITING") != c.waits || strings.Count(got, "machine: disk full\n") != c.waits ||
			strings.Count(got, "RUNNING") != c.runs || strings.Count(got, "FINISHED") != c.ends ||
			!strings.Contains(got, c.more) || strings.Contains(got, "and 3 more") != (c.more != "") {
			t.Errorf("all %v: found\n%s", c.all, got)
		}
	}
}

// An experiment that has ended took as long as from its submission to its end, whenever that is asked for.
func TestListsEnded(t *testing.T) {
	began := time.Now().Add(-5 * time.Hour)
	end := began.Add(90 * time.Second)
	e := fleet.Experiment{ID: "x", Spec: &fleet.Spec{Submitted: began}, Standing: &fleet.Standing{EndedAt: &end}}
	for _, ended := range []bool{true, false} {
		e.Standing.Ended = ended
		if got := fmt.Sprint(listRow(&e)); strings.Contains(got, "1m30s") != ended {
			t.Errorf("ended %v: found %s", ended, got)
		}
	}
}
