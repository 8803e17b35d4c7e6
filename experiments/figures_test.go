// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"fmt"
	"strings"
	"testing"

	"github.com/disco-sim/disco/fleet"
)

// TestCutLines: no line is wider than the terminal, in characters, there are no more than it has, with one for the
// cursor, and nothing is cut where it isn't one.
func TestCutLines(t *testing.T) {
	const text = "± abc\nab\n\nabcdef\n"
	for _, c := range []struct {
		width, height int
		want          string
	}{
		{0, 0, text}, {4, 0, "± a…\nab\n\nabc…\n"}, {6, 5, text}, {1, 24, "…\n…\n\n…\n"}, {0, 1, text}, {0, 2, text},
		{80, 4, "± abc\nab\n… and 2 more lines: `show` has them all\n"}, {5, 3, "± abc\n… an…\n"},
	} {
		if found := cutLines(text, c.width, c.height); found != c.want {
			t.Errorf("%d columns, %d lines: found %q, want %q", c.width, c.height, found, c.want)
		}
	}
}

// TestShownFigures: each figure with the replications that are there, those of a rule with the width that is wanted,
// and not more of a sweep than people read.
func TestShownFigures(t *testing.T) {
	e := &fleet.Experiment{ID: "e", Spec: &fleet.Spec{Steps: []fleet.Step{{Replications: 50, Points: [][]string{nil},
		Until: []string{"x+-20%"}, Figures: []string{"y", "zebra"}}}},
		Standing: &fleet.Standing{Enough: []fleet.Enough{{Replications: 40}}}}
	pieces := map[fleet.PieceID]fleet.PieceAt{}
	for r := range 45 {
		pieces[fleet.PieceID{Replication: r}] = fleet.PieceAt{Piece: fleet.Piece{State: fleet.Finished,
			Kept: &fleet.Kept{Figures: map[string]float64{"x.mean": 10 + float64(r%2), "y": 3}}}}
	}
	s := &shownExperiment{Spec: e.Spec, Standing: e.Standing, Figures: fleet.FiguresOf(e, pieces)}
	var out strings.Builder
	s.figures(&out)
	s.rule(&out)
	for _, want := range []string{"x.mean", "± 20 %: reached", "zebra",
		"zebra: no replication that has finished has such a figure",
		"the first 40 replications are enough",
		" 10.5 "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("found %s, want %q", &out, want)
		}
	}
	if line := lineOf(&s.Figures[2]); line != ", no zebra" {
		t.Errorf("found %q", line)
	}
	if f := s.Figures; len(f) != 3 || f[0].Interval.N != 40 || f[1].Interval.N != 40 || f[1].Interval.HalfWidth != 0 ||
		f[2].Name != "" || f[2].Interval.N != 0 {
		t.Errorf("found %+v", f)
	}
	delete(pieces, fleet.PieceID{Replication: 7}) // those behind one that is missing don't count by a rule
	e.Standing = nil
	if f := fleet.FiguresOf(e, pieces); f[0].Interval.N != 7 || f[0].Reached {
		t.Errorf("found %+v, want 7 replications", f[0])
	}
	e.Spec.Steps[0].Until = nil
	if f := fleet.FiguresOf(e, pieces); f[0].Asked != "y" || f[0].Interval.N != 44 {
		t.Errorf("found %+v, want all 44 replications", f[0])
	}
	s.Figures = make([]fleet.Figure, figuresMost+3)
	out.Reset()
	if s.figures(&out); !strings.Contains(out.String(), fmt.Sprintf("and %d more", 3)) ||
		strings.Count(out.String(), "\n") != figuresMost+3 {
		t.Errorf("found %s", &out)
	}
}
