// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// chain is a pipeline with a step that ends by its rule: tune waits for warm, report for tune, and late for report;
// side waits for nothing.
func chain(s *Spec) {
	of := func(name string, after ...string) Step {
		return Step{Name: name, After: after, Points: make([][]string, 1), Replications: 1, Workers: 1}
	}
	s.Steps = []Step{of("late", "report"), of("report", "tune"), of("tune", "warm"), of("side"), of("warm")}
	s.Steps[2].Until, s.Steps[2].Replications = []string{"x ± 50 %"}, 40
	s.Steps[1].Args = []string{"--set", "y={tune.best}"}
	s.Steps[2].Export = map[string]string{"best": "policy"}
	s.Steps[4].Priority = High
}

// tuned has the agents of all pieces of a step of p that run report a figure, until none runs.
func (b *bench) tuned(step int, x float64) {
	for again := true; again; {
		again = false
		for _, at := range inOrder(b.experiments["p"].pieces) {
			p := b.experiments["p"].pieces[at]
			if at.Step != step || !p.State.Holds() || p.State == Canceling || p.step.closes != nil {
				continue
			}
			b.end(at, Report{State: Finished, Kept: &Kept{Hash: "h", Figures: map[string]float64{"x": x}}})
			again = true
		}
	}
}

// opens are the pieces that are opened until nothing more is decided, and from which they come.
func (b *bench) opens() string {
	var all []string
	b.at += time.Second
	for range 10 {
		for _, a := range Decide(b.State, b.at) {
			if a.Do == DoMove && a.To.State == Waiting {
				all = append(all, a.Piece.String()+" "+a.From.String())
			}
		}
	}
	return strings.Join(all, ", ")
}

// TestRetryOfSteps: a step with a rule that fails for good has those cancelled that wait for it, and no others; a
// retry queues it, and them, again, each behind what it waits for, and what it hands on is a text. A cancel is undone
// so, too.
func TestRetryOfSteps(t *testing.T) {
	b := newBench(t, 1, 2, Rules{FirstSample: 3})
	b.submit("p", 1, 1, chain)
	b.run()
	b.end(PieceID{4, 0, 0}, Report{})
	b.end(PieceID{3, 0, 0}, Report{})
	b.tuned(2, 7)
	tune, closing := b.experiments["p"].stepOf(PieceID{2, 0, 0}), PieceID{2, 1, 0}
	if p := b.experiments["p"].pieces[closing]; tune.until.enough != 3 || p == nil || p.Counts != 3 {
		t.Fatalf("found %+v, %+v", tune.until, p)
	}
	b.end(closing, Report{State: Failed, Error: &Error{Type: ErrorRequire, Message: "not met"}})
	x := b.experiments["p"].standing
	got := ""
	for _, s := range x.Steps {
		got += fmt.Sprintf("%s %v; ", s.Name, s.Status)
	}
	if want := "late CANCELED; report CANCELED; tune FAILED; side FINISHED; warm FINISHED; "; got != want || !x.Ended ||
		!strings.Contains(x.Steps[0].Reason, "it waits for tune, which won't be finished") {
		t.Errorf("found %s %v %q", got, x.Ended, x.Steps[0].Reason)
	}
	b.PutWish("p", Wish{Number: 2, Want: WantRun, Priority: Normal, Retry: 1})
	if opened := b.opens(); opened != "2.1.0 FAILED" {
		t.Errorf("opened %s", opened)
	}
	b.run()
	b.end(closing, Report{State: Finished, Kept: &Kept{Hash: "h"}, Texts: Texts{"best": "lifo"}})
	p := b.experiments["p"].pieces[PieceID{1, 0, 0}]
	if p == nil || p.State != Running || p.Inputs["tune"] != 2 {
		t.Fatalf("found %s, %+v", b.states(), p)
	}
	b.PutWish("p", Wish{Number: 3, Want: WantCancel, Priority: Normal, Retry: 1})
	b.run()
	if x := b.experiments["p"].standing; x.Status != StatusCanceled || x.Steps[1].Status != StatusCanceled ||
		x.Steps[2].Status != StatusFinished {
		t.Errorf("found %+v", x)
	}
	b.PutWish("p", Wish{Number: 4, Want: WantRun, Priority: Normal, Retry: 2, From: "tune"})
	var numbers []int
	for _, one := range strings.Split(b.opens(), ", ") {
		at, err := ParsePieceID(strings.Fields(one)[0])
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, map[int]int{2: 0, 1: 1, 0: 2}[at.Step])
	}
	if !slices.IsSorted(numbers) || numbers[0] != 0 || !slices.Contains(numbers, 1) {
		t.Errorf("opened by the rank of steps %v, want each behind what it waits for", numbers)
	}
	b.run()
	b.tuned(2, 7)
	b.end(closing, Report{State: Finished, Kept: &Kept{Hash: "h"}, Texts: Texts{"best": "fifo"}})
	b.end(PieceID{1, 0, 0}, Report{})
	b.end(PieceID{0, 0, 0}, Report{})
	if x := b.experiments["p"].standing; x.Status != StatusFinished || !x.Ended {
		t.Errorf("found %s, %+v", b.states(), x)
	}
}

// TestCyclesOfMany: each cycle is printed once, as people can follow it, whatever else waits for it.
func TestCyclesOfMany(t *testing.T) {
	steps := []Step{{Name: "out", After: []string{"c"}}, {Name: "a", After: []string{"c"}}, {Name: "b",
		After: []string{"a"}}, {Name: "c", After: []string{"b"}}, {Name: "self", After: []string{"self"}}}
	err := CheckSteps(steps)
	for _, want := range []string{`"c" after "b" after "a" after "c"`, `"self" after "self"`} {
		if err == nil || strings.Count(err.Error(), want) != 1 {
			t.Errorf("found %v, want %s once", err, want)
		}
	}
	c := newClient(t, inMemory()(), "g", Options{})
	s := shop("k")
	s.Steps = slices.Repeat(s.Steps[:1], 2)
	s.Steps[0].Name, s.Steps[1].Name = "x", "y"
	s.Steps[0].After, s.Steps[1].After = []string{"y"}, []string{"x"}
	if _, _, err := c.Submit(t.Context(), s); err == nil || !strings.Contains(err.Error(), `"x" after "y" after "x"`) {
		t.Errorf("found %v", err)
	}
	if all, err := c.List(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("found %v, %v", all, err)
	}
}
