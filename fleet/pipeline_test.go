// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// All that is wrong with a pipeline's steps is said at once.
func TestCheckSteps(t *testing.T) {
	good := []Step{{Name: "warm", Export: map[string]string{"p99": "latency_s.p99.mean"}},
		{Name: "mid", After: []string{"warm"}, Require: []string{"a < 1"}},
		{Name: "sweep", After: []string{"mid"}, Args: []string{"--set", "users={warm.p99}"},
			Sweep: []string{"cpu=1,2"}},
		{Name: "hot", Args: []string{"--checkpoint-at", "0.5=" + HandedOn}},
		{Name: "vary", From: "hot", After: []string{"hot"}, Replications: 3, Sweep: []string{"cpu=1,2"}}}
	if err := CheckSteps(good); err != nil {
		t.Error(err)
	}
	many := map[string]string{}
	for i := range outputsMost + 1 {
		many[fmt.Sprint("x", i)] = "y"
	}
	for _, c := range []struct {
		steps []Step
		want  []string
	}{
		{[]Step{{Name: "a", Args: []string{"--set", "x={b.y}"}}, {Name: "b", Export: map[string]string{"y": "z"}},
			{Name: "c", After: []string{"b"}, Args: []string{"--set", "x={b.z}", "--set", "w={d.z} {a.x}"}}},
			[]string{`step "a": set: found {b.y}, which isn't before: want b in after`,
				`step "c": set: found {b.z}, which b doesn't export: want one that it exports: y`,
				`step "c": set: found {d.z}, want the name of a step: "a", "b", "c"`,
				`step "c": set: found {a.x}, which isn't before: want a in after`}},
		{[]Step{{Name: "a"}, {Name: "b", After: []string{"a"}, Args: []string{"{a.x}"}, Sweep: []string{"k={a.x},2"}}},
			[]string{`step "b": set: found {a.x}, which a doesn't export: want export: {x: FIGURE} there`,
				`step "b": sweep: found {a.x}, want values: points are fixed when a pipeline is submitted`}},
		{[]Step{{Name: "a", After: []string{"b"}}, {Name: "b", After: []string{"a", "x"}}, {Name: "1.2"}},
			[]string{`step "b": after: found "x"`, `steps wait for each other: "a" after "b" after "a"`,
				`step "1.2": found this name, want a letter`}},
		{[]Step{{Name: "a", Sweep: []string{"k=1,2"}, Export: map[string]string{"x y": ""}, Priority: "urgent"}},
			[]string{`export: found the name "x y"`, "export: x y: found nothing",
				`export: x y: found "" with a sweep, whose points have figures of their own each`,
				`priority: found "urgent"`}},
		{[]Step{{Name: "a", Replications: 2}, {Name: "b", From: "a", Until: []string{"x ± 1"}},
			{Name: "c", From: "z"}},
			[]string{`step "b": from: found a, which isn't in after`, `step "b": from: found a, which is several runs`,
				`step "b": from: found a, which makes no checkpoint to go on from: want checkpoint: SECONDS there`,
				`step "b": until: found it with from`, `step "c": from: found "z", want the name of a step: "a"`}},
		{[]Step{{Name: "a", Export: many, Require: make([]string, requiresMost+1)}},
			[]string{"exports: found 65, want 0 to 64", "requirements: found 65, want 0 to 64",
				"require: found nothing"}},
		{slices.Repeat([]Step{{Name: "a"}}, MaxSteps+1), []string{"steps: found 101, want 1 to 100"}},
	} {
		err := CheckSteps(c.steps)
		if err == nil {
			t.Errorf("%+v passes", c.steps)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("found %v, want %q", err, want)
			}
		}
	}
}

// What is no import stays as it is; each that is one gets its figure, in all its digits.
func TestFill(t *testing.T) {
	tenths := []float64{1, 2} // no constants, which Go adds up exactly
	texts := []string{"--set", "users={warm.p99}", "--set", "x={a: 1}", "y={warm.n}0 {warm.p99}", "{warm.}", "{1.a}",
		"z={warm.who}"}
	got, err := Fill(texts, func(m Import) (string, error) {
		text, ok := Value(m.Name, Outputs{"p99": tenths[0]/10 + tenths[1]/10, "n": 1e21}, Texts{"who": "a word"})
		if !ok {
			t.Errorf("there is no %v", m)
		}
		return text, nil
	})
	want := []string{"--set", "users=0.30000000000000004", "--set", "x={a: 1}", "y=1e+210 0.30000000000000004",
		"{warm.}", "{1.a}", "z=a word"}
	if err != nil || !slices.Equal(got, want) || texts[1] != "users={warm.p99}" {
		t.Errorf("found %q, %v", got, err)
	}
	missing := errors.New("there is none")
	if _, err := Fill(texts, func(Import) (string, error) { return "", missing }); !errors.Is(err, missing) {
		t.Errorf("found %v", err)
	}
}

// What isn't read of a record is bounded, and outputs are there with an end alone.
func TestOutputsRefused(t *testing.T) {
	kept := &Kept{Hash: "h"}
	for want, p := range map[string]Piece{
		"":                             {State: Finished, Kept: kept, Outputs: Outputs{"x": 1}, Inputs: Inputs{"a": 2}},
		"outputs: found some":          {State: Running, Outputs: Outputs{"x": 1}},
		"outputs: found texts":         {State: Held, Texts: Texts{"x": "a"}},
		"found a tab or the end":       {State: Finished, Kept: kept, Texts: Texts{"x": "a\nb"}},
		"count: found -1":              {State: Running, Counts: -1},
		"want a finite number":         {State: Finished, Kept: kept, Outputs: Outputs{"x": math.NaN()}},
		"attempt of an input: found 0": {State: Running, Inputs: Inputs{"a": 0}},
	} {
		if err := p.check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: found %v, want %q", p, err, want)
		}
	}
	x := Standing{Status: StatusActive, Steps: []StepStanding{{Name: "a"}}}
	if err := x.check(); err == nil || !strings.Contains(err.Error(), "a step's status") {
		t.Errorf("found %v", err)
	}
}

// diamond is a pipeline: b and c wait for a, and d for both.
func diamond(s *Spec) {
	of := func(name string, priority Priority, after ...string) Step {
		return Step{Name: name, After: after, Priority: priority, Points: make([][]string, 1), Replications: 1,
			Workers: 1}
	}
	s.Steps = []Step{of("a", ""), of("b", Low, "a"), of("c", "", "a"), of("d", "", "b", "c"), of("e", High)}
	s.Steps[0].Export = map[string]string{"x": "latency"}
	s.Steps[2].Args = []string{"--set", "y={a.x}"}
}

// end has the agent of a piece report its end.
func (b *bench) end(at PieceID, r Report) {
	b.Helper()
	p := b.experiments["p"].pieces[at]
	if p == nil || !p.State.Holds() {
		b.Fatalf("piece %v doesn't run: %+v", at, p)
	}
	b.version++
	r.Attempt = p.Attempt
	if r.State == 0 {
		r.State, r.Kept = Finished, &Kept{Hash: "h"}
	}
	b.PutReport(ReportAt{p.Gang[0].Member, "p", at, r, metastore.Version{Created: 1, Changed: b.version}})
	b.run()
}

// states are the pieces of p that have begun, in their order.
func (b *bench) states() string {
	var all []string
	for _, at := range inOrder(b.experiments["p"].pieces) {
		all = append(all, fmt.Sprint(at, " ", b.experiments["p"].pieces[at].State))
	}
	return strings.Join(all, ", ")
}

func (b *bench) wantStates(want string) {
	b.Helper()
	if got := b.states(); got != want {
		b.Errorf("found %s\nwant  %s", got, want)
	}
}

// Steps begin when all before them have finished and their outputs are there; of those that may, by priority.
func TestPipeline(t *testing.T) {
	b := newBench(t, 1, 1, Rules{})
	b.submit("p", 1, 1, diamond)
	b.run()
	b.wantStates("4.0.0 RUNNING") // of high priority
	b.end(PieceID{4, 0, 0}, Report{})
	b.end(PieceID{0, 0, 0}, Report{})
	b.wantStates("0.0.0 FINISHED, 0.1.0 RUNNING, 4.0.0 FINISHED") // nothing before the outputs are there
	b.end(PieceID{0, 1, 0}, Report{})                             // without them
	b.wantStates("0.0.0 FINISHED, 0.1.0 RUNNING, 4.0.0 FINISHED")
	if p := b.experiments["p"].pieces[PieceID{0, 1, 0}]; p.Attempt != 2 {
		t.Errorf("found %+v", p.Piece)
	}
	b.end(PieceID{0, 1, 0}, Report{State: Finished, Kept: &Kept{Hash: "h"}, Outputs: Outputs{"x": 7}})
	b.wantStates("0.0.0 FINISHED, 0.1.0 FINISHED, 2.0.0 RUNNING, 4.0.0 FINISHED") // b is low
	if p := b.experiments["p"].pieces[PieceID{2, 0, 0}]; !maps.Equal(p.Inputs, Inputs{"a": 2}) {
		t.Errorf("found %+v", p.Piece)
	}
	b.end(PieceID{2, 0, 0}, Report{})
	b.wantStates("0.0.0 FINISHED, 0.1.0 FINISHED, 1.0.0 RUNNING, 2.0.0 FINISHED, 4.0.0 FINISHED")
	x := b.experiments["p"].standing
	got := ""
	for _, s := range x.Steps {
		got += fmt.Sprintf("%s %v %s; ", s.Name, s.Status, s.Reason)
	}
	if want := "a FINISHED ; b ACTIVE ; c FINISHED ; d SUBMITTED it waits for b, c; e FINISHED ; "; got != want {
		t.Errorf("found %s", got)
	}
	b.end(PieceID{1, 0, 0}, Report{})
	b.end(PieceID{3, 0, 0}, Report{})
	if x := b.experiments["p"].standing; !x.Ended || x.Status != StatusFinished || x.Pieces[Finished] != 6 {
		t.Errorf("found %+v", x)
	}
}

// A step that fails cancels those that wait for it, and nothing else, unless it is to be fast.
func TestPipelineFails(t *testing.T) {
	for fast, want := range map[bool]string{
		false: "a FAILED; b CANCELED dependency: it waits for a, which won't be finished; " +
			"c CANCELED dependency: it waits for a, which won't be finished; " +
			"d CANCELED dependency: it waits for a, b, c, which won't be finished; e ACTIVE; ",
		true: "a FAILED; b CANCELED dependency: it waits for a, which won't be finished; " +
			"c CANCELED dependency: it waits for a, which won't be finished; " +
			"d CANCELED dependency: it waits for a, b, c, which won't be finished; e CANCELED; ",
	} {
		b := newBench(t, 1, 2, Rules{})
		b.submit("p", 1, 1, diamond, func(s *Spec) { s.FailFast = fast })
		b.run()
		b.end(PieceID{0, 0, 0}, Report{})
		b.end(PieceID{0, 1, 0}, Report{State: Failed, Error: &Error{Type: ErrorRequire, Message: "1 of 1 not met"}})
		got := ""
		for _, s := range b.experiments["p"].standing.Steps {
			got += strings.TrimSpace(fmt.Sprintf("%s %v %s", s.Name, s.Status, s.Reason)) + "; "
		}
		want = strings.ReplaceAll(want, "a, b, c, which", "a, which") // what never began has failed nowhere
		if got != want {
			t.Errorf("fast %v: found %s\nwant %s", fast, got, want)
		}
		if fast != b.experiments["p"].standing.Ended {
			t.Errorf("fast %v: found %+v", fast, b.experiments["p"].standing)
		}
	}
}

// A retry from a step on cancels what runs of those that wait for it, and opens them behind it; others stay.
func TestRetryFrom(t *testing.T) {
	b := newBench(t, 1, 2, Rules{})
	b.submit("p", 1, 1, diamond)
	b.run()
	b.end(PieceID{4, 0, 0}, Report{})
	b.end(PieceID{0, 0, 0}, Report{})
	b.end(PieceID{0, 1, 0}, Report{State: Finished, Kept: &Kept{Hash: "h"}, Outputs: Outputs{"x": 7}})
	b.end(PieceID{2, 0, 0}, Report{})
	b.wantStates("0.0.0 FINISHED, 0.1.0 FINISHED, 1.0.0 RUNNING, 2.0.0 FINISHED, 4.0.0 FINISHED")
	b.PutWish("p", Wish{Number: 2, Want: WantRun, Priority: Normal, Retry: 1, From: "a"})
	b.decide(0)
	b.wantStates("0.0.0 FINISHED, 0.1.0 FINISHED, 1.0.0 CANCELING, 2.0.0 FINISHED, 4.0.0 FINISHED")
	b.obey()
	b.at += time.Second
	opened := ""
	for range 10 {
		for _, a := range Decide(b.State, b.at) {
			if a.Do == DoMove && a.To.State == Waiting {
				opened += a.Piece.String() + " "
			}
		}
	}
	if opened != "0.0.0 0.1.0 1.0.0 2.0.0 " {
		t.Errorf("opened %s, want each behind those that it waits for", opened)
	}
	b.run()
	b.wantStates("0.0.0 RUNNING, 0.1.0 WAITING, 1.0.0 WAITING, 2.0.0 WAITING, 4.0.0 FINISHED")
	if x := b.experiments["p"].standing; x.Retry != 1 || x.Ended {
		t.Errorf("found %+v", x)
	}
	p := b.experiments["p"].pieces[PieceID{0, 1, 0}]
	if p.Outputs != nil || p.Kept != nil {
		t.Errorf("found %+v", p.Piece)
	}
}

// RetryFrom is refused where there is no such step, and where a retry is under way.
func TestRetryFromWish(t *testing.T) {
	c := newClient(t, inMemory()(), "g", Options{By: "bob@h2"})
	s := shop("k")
	s.Steps[0].Attached, s.Steps[0].Name = nil, "warm"
	second := s.Steps[0]
	second.Name, second.After = "check", []string{"warm"}
	s.Steps = append(s.Steps, second)
	id, _, err := c.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.RetryFrom(t.Context(), id, "worm", ""); err == nil || !strings.Contains(err.Error(), `"check"`) {
		t.Errorf("found %v", err)
	}
	standing(t, c, id, Standing{Status: StatusActive})
	w, err := c.RetryFrom(t.Context(), id, "warm", "lost")
	if err != nil || w.From != "warm" || w.Retry != 1 || w.Want != WantRun {
		t.Errorf("found %+v, %v", w, err)
	}
	refused := (*RefusedError)(nil)
	if _, err := c.RetryFrom(t.Context(), id, "warm", ""); !errors.As(err, &refused) {
		t.Errorf("found %v", err)
	}
	entries, _, err := c.Audit(t.Context())
	if err != nil || entries[len(entries)-1].What != "retry --step warm" && entries[0].What != "retry --step warm" {
		t.Errorf("found %+v, %v", entries, err)
	}
}

// A step's status is that of its pieces, and these move as their table says. So this is the table of a step's moves
// (docs/fleet.md has it), over all pairs of pieces: every move that isn't here can't be. Those of a retry are apart.
func TestStepMoves(t *testing.T) {
	checkStepMoves(t, Waiting, Canceling, map[Status]string{
		StatusSubmitted: "ASSIGNED ACTIVE CANCELED FAILED",
		StatusAssigned:  "SUBMITTED ACTIVE PAUSED FINISHED CANCELED FAILED",
		StatusActive:    "SUBMITTED ASSIGNED PAUSED FINISHED CANCELED FAILED",
		StatusPaused:    "SUBMITTED ASSIGNED ACTIVE FINISHED CANCELED FAILED",
		StatusCanceled:  "FAILED",
	})
	checkStepMoves(t, Finished, Canceled, map[Status]string{
		StatusActive:   "SUBMITTED",
		StatusFinished: "ACTIVE",
		StatusCanceled: "SUBMITTED ASSIGNED ACTIVE PAUSED",
		StatusFailed:   "SUBMITTED ASSIGNED ACTIVE PAUSED CANCELED",
	})
}

// checkStepMoves enumerates what becomes of a step by moves of pieces out of some states.
func checkStepMoves(t *testing.T, first, last PieceState, want map[Status]string) {
	t.Helper()
	found := map[Status]map[Status]bool{}
	for one := first; one <= last; one++ {
		for other := Waiting; other <= Canceled; other++ {
			for _, to := range moves[one] {
				from, now := All(statuses(one, other)), All(statuses(to, other))
				if found[from] == nil {
					found[from] = map[Status]bool{}
				}
				found[from][now] = found[from][now] || from != now
			}
		}
	}
	for from := StatusCreated; from <= StatusFailed; from++ {
		var to []string
		for s := StatusCreated; s <= StatusFailed; s++ {
			if found[from][s] {
				to = append(to, s.String())
			}
		}
		if got := strings.Join(to, " "); got != want[from] {
			t.Errorf("%v: found %s, want %s", from, got, want[from])
		}
	}
}

// statuses count those of two pieces.
func statuses(one, other PieceState) map[Status]int {
	parts := map[Status]int{one.Status(): 1}
	parts[other.Status()]++
	return parts
}
