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

// A reason of many words is as long as it is, and no other entry is for that.
func TestReasonsDontWiden(t *testing.T) {
	long := strings.Repeat("long ", 100)
	out := &strings.Builder{}
	columnsOfDeeds(out, []shownDeed{{fleet.Deed{By: "ann", What: "submit", From: "disco-run submit"}, true},
		{fleet.Deed{By: "ann", What: "pause", Why: long, From: "disco-run pause"}, true}}, true)
	for i, line := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
		if has := strings.Contains(line, "long long"); has != (i == 2) || !has && len(line) > 100 {
			t.Errorf("line %d: found %d bytes: %s", i, len(line), line)
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
