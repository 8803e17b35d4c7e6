// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/seed"
)

var errBad = errors.New("bad data")

// driver sends requests to a slot, and knows the assignment that they are to carry.
type driver struct {
	*Slot
	n    int
	mine *Assignment
}

func newDriver() *driver {
	d := &driver{Slot: NewSlot("life"), mine: &Assignment{"e", "r", 3}}
	d.Open()
	return d
}

func (d *driver) ask(s State) Step {
	d.n++
	r := Request{ID: fmt.Sprint(d.n), Incarnation: "life", State: s, Assignment: d.mine}
	if s == Exited {
		r.Assignment = d.Assignment() // a server without one can be asked to exit, too
	}
	return d.Ask(r)
}

// to brings a new server into a state.
func to(t *testing.T, s State) *driver {
	t.Helper()
	d := newDriver()
	reach := func(states ...State) {
		for _, want := range states {
			if step := d.ask(want); step.Task != Nothing {
				d.Done(step.Number, nil)
			}
		}
	}
	switch s {
	case Created:
		d.Slot = NewSlot("life")
	case Reserved:
		reach(Reserved)
	case Initializing:
		reach(Reserved)
		d.ask(Ready)
	case Ready:
		reach(Reserved, Ready)
	case Active:
		reach(Reserved, Ready, Active)
	case Paused:
		reach(Reserved, Ready, Active, Paused)
	case Terminated:
		reach(Reserved)
		d.ask(Terminated)
	case Exited:
		reach(Exited)
	case Broken:
		d.Break("no disk")
	}
	if d.State() != s {
		t.Fatalf("came to %v, want %v", d.State(), s)
	}
	return d
}

// TestTransitions asks for every state in every state, and holds what follows against the table of docs/cluster.md,
// written out again here.
func TestTransitions(t *testing.T) {
	want := map[[2]State]struct {
		during, after State
		result        Result
	}{
		{Available, Reserved}: {Reserved, Reserved, ""},
		{Reserved, Ready}:     {Initializing, Ready, ""},
		{Ready, Active}:       {Ready, Active, ""}, {Paused, Active}: {Paused, Active, ""},
		{Active, Paused}:       {Active, Paused, ""},
		{Reserved, Terminated}: {Terminated, Available, ""}, {Initializing, Terminated}: {Terminated, Available, ""},
		{Ready, Terminated}:  {Terminated, Available, PartitionCanceled},
		{Active, Terminated}: {Terminated, Available, PartitionCanceled},
		{Paused, Terminated}: {Terminated, Available, PartitionCanceled},
	}
	for from := Created; from <= Broken; from++ {
		if from != Exited {
			want[[2]State{from, Exited}] = struct {
				during, after State
				result        Result
			}{from, Exited, ""}
		}
		for desired := Created; desired <= Broken; desired++ {
			d := to(t, from)
			step := d.ask(desired)
			w, ok := want[[2]State{from, desired}]
			if !ok {
				if step.Ack.Phase != Refused || step.Ack.Error == "" || d.State() != from || step.Task != Nothing {
					t.Errorf("%v asked for %v: %+v, now %v: want a refusal with a reason", from, desired, step.Ack,
						d.State())
				}
				continue
			}
			if d.State() != w.during {
				t.Errorf("%v asked for %v: %v meanwhile, want %v", from, desired, d.State(), w.during)
			}
			if step.Task != Nothing {
				if step.Ack.Phase != Accepted {
					t.Errorf("%v asked for %v: first %v", from, desired, step.Ack.Phase)
				}
				step = d.Done(step.Number, nil)
			}
			if step.Ack.Phase != Applied || step.Ack.State != w.after || d.State() != w.after ||
				step.Ack.Result != w.result {
				t.Errorf("%v asked for %v: %+v, now %v, want %v %q", from, desired, step.Ack, d.State(), w.after,
					w.result)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	other := &Assignment{"e", "r", 4}
	for _, c := range []struct {
		in   State
		r    Request
		want string
	}{
		{Available, Request{Incarnation: "before", State: Reserved, Assignment: other}, "incarnation"},
		{Available, Request{Incarnation: "life", State: Reserved}, "needs an assignment"},
		{Available, Request{Incarnation: "life", State: Reserved, Assignment: &Assignment{"e", "", 1}},
			"isn't whole"},
		{Available, Request{Incarnation: "life", State: Active}, "may be asked for: RESERVED, EXITED"},
		{Active, Request{Incarnation: "life", State: Terminated, Assignment: other},
			"e/r/4, and this server has e/r/3"},
		{Active, Request{Incarnation: "life", State: Paused}, "none, and this server has e/r/3"},
		{Active, Request{Incarnation: "life", State: Exited, Assignment: other}, "e/r/4"},
		{Initializing, Request{Incarnation: "life", State: Active, Assignment: other}, "TERMINATED, EXITED"},
		{Exited, Request{Incarnation: "life", State: Exited}, "may be asked for: nothing"},
	} {
		d := to(t, c.in)
		c.r.ID = "x"
		step := d.Ask(c.r)
		if step.Ack == nil || step.Ack.Phase != Refused || !strings.Contains(step.Ack.Error, c.want) ||
			d.State() != c.in {
			t.Errorf("%v, %+v: %+v, now %v; want a refusal with %q", c.in, c.r, step.Ack, d.State(), c.want)
		}
		if again := d.Ask(c.r); again != (Step{}) {
			t.Errorf("the same request again: %+v", again)
		}
	}
}

// TestPartitionFails: what goes wrong with a partition keeps the server, what goes wrong with giving it up breaks it.
func TestPartitionFails(t *testing.T) {
	for _, c := range []struct{ in, ask State }{{Reserved, Ready}, {Ready, Active}, {Active, Paused}} {
		d := to(t, c.in)
		ack := d.Done(d.ask(c.ask).Number, errBad).Ack
		if ack.Phase != Failed || ack.Result != PartitionFailed || ack.Error != "bad data" || d.State() != Available {
			t.Errorf("%v to %v: %+v, now %v", c.in, c.ask, ack, d.State())
		}
		if d.Last() == nil || d.Last().Assignment != *d.mine || d.Last().Result != PartitionFailed ||
			d.Assignment() != nil {
			t.Errorf("%v to %v: kept %+v", c.in, c.ask, d.Last())
		}
	}
	d := to(t, Active)
	if ack := d.Done(d.ask(Terminated).Number, errBad).Ack; ack.Phase != Failed || d.State() != Broken ||
		d.Reason() == "" {
		t.Errorf("giving up failed: %+v, now %v", ack, d.State())
	}
	d = to(t, Active)
	if step := d.Ended(nil); step != (Step{}) || d.State() != Available || d.Last().Result != PartitionFinished {
		t.Errorf("all done: %+v, now %v, %+v", step, d.State(), d.Last())
	}
	d = to(t, Active)
	n := d.ask(Paused).Number
	if step := d.Ended(errBad); step.Ack.Phase != Failed || step.Ack.Result != PartitionFailed ||
		d.State() != Available {
		t.Errorf("ended while it was to pause: %+v", step.Ack)
	}
	if late := d.Done(n, nil); late != (Step{}) || d.State() != Available {
		t.Errorf("the pause's end came later: %+v, now %v", late, d.State())
	}
}

// TestSuperseded: a request that is overtaken is named by the ack of its successor, and its task's end changes
// nothing.
func TestSuperseded(t *testing.T) {
	d := to(t, Reserved)
	first := d.ask(Ready)
	step := d.ask(Terminated)
	if step.Ack.Supersedes != first.Ack.Request || step.Task != Terminate {
		t.Fatalf("%+v, want it to supersede %s", step.Ack, first.Ack.Request)
	}
	if late := d.Done(first.Number, errBad); late != (Step{}) || d.State() != Terminated {
		t.Errorf("the first one's end: %+v, now %v", late, d.State())
	}
	if ack := d.Done(step.Number, nil).Ack; ack.Phase != Applied || ack.Supersedes != first.Ack.Request ||
		ack.Result != "" {
		t.Errorf("%+v", ack)
	}
	d = newDriver()
	if ack := d.Ask(Request{ID: "2", Incarnation: "life", State: Reserved, Assignment: d.mine,
		Replaces: "1"}).Ack; ack.Supersedes != "1" {
		t.Errorf("%+v doesn't name the request that was overwritten before it was read", ack)
	}
}

// TestNotSuperseded: a request that was read isn't superseded by one that is refused, or comes after its answer, even
// if who made that one had not seen so.
func TestNotSuperseded(t *testing.T) {
	ask := func(d *driver, number uint64, s State, replaces string) *Ack {
		return d.Ask(Request{ID: requestID("life", number, "x"), Incarnation: "life", State: s, Assignment: d.mine,
			Replaces: replaces}).Ack
	}
	d := to(t, Reserved)
	first := ask(d, 1, Ready, "")
	refused := ask(d, 2, Active, first.Request)
	if refused.Phase != Refused || refused.Supersedes != "" || refused.Pending != first.Request || refused.Seen != 2 {
		t.Errorf("refused while another is carried out: %+v", refused)
	}
	if last := d.Done(d.pending.number, nil).Ack; last.Request != first.Request || last.Phase != Applied ||
		last.Seen != 2 {
		t.Errorf("the end of that one: %+v", last)
	}
	d = newDriver()
	first = ask(d, 7, Reserved, "")
	if next := ask(d, 8, Terminated, first.Request); first.Phase != Applied || next.Supersedes != "" ||
		next.Seen != 8 {
		t.Errorf("after the answer %+v: %+v", first, next)
	}
	d.Renew("next life")
	if late := ask(d, 9, Reserved, ""); late.Phase != Refused || late.Seen != 0 {
		t.Errorf("for the life before: %+v", late)
	}
}

// TestSlotInvariants throws random requests and events at a server. An assignment is there just where the state
// says so,
// every accepted request is answered for good exactly once, and a server can always be made to exit.
func TestSlotInvariants(t *testing.T) {
	r := seed.Rand(t)
	for run := range 2000 {
		d, open, numbers := newDriver(), map[string]bool{}, []int{}
		note := func(step Step) {
			if step.Ack == nil {
				return
			}
			if s := step.Ack.Supersedes; s != "" {
				delete(open, s)
			}
			switch id := step.Ack.Request; {
			case step.Ack.Phase == Accepted:
				open[id] = true
				numbers = append(numbers, step.Number)
			case step.Ack.Phase != Refused && step.Task == Nothing:
				delete(open, id)
			}
		}
		for range 30 {
			switch k := r.IntN(20); {
			case k < 12:
				note(d.ask(State(1 + r.IntN(int(Broken)))))
			case k < 17 && len(numbers) > 0:
				var err error
				if r.IntN(4) == 0 {
					err = errBad
				}
				note(d.Done(numbers[r.IntN(len(numbers))], err))
			case k == 17:
				note(d.Ended(nil))
			case k == 18:
				note(d.Ended(errBad))
			case r.IntN(3) == 0:
				if step := d.Abandon(errBad); step.Task != Nothing {
					numbers = append(numbers, step.Number)
				}
			case r.IntN(5) == 0:
				note(d.Break("gone"))
			}
			if len(open) > 1 || d.State() != Exited && (d.Assignment() != nil) != d.State().hosts() {
				t.Fatalf("run %d: %v hosts %v; open %v", run, d.State(), d.Assignment(), open)
			}
		}
		if d.State() == Exited {
			continue
		}
		step := d.ask(Exited)
		if step.Ack.Phase == Accepted {
			note(step)
			note(d.Done(step.Number, nil))
		}
		if d.pending == nil && (d.State() != Exited || len(open) > 0) {
			t.Fatalf("run %d: %v after Exited, open %v", run, d.State(), open)
		}
	}
}

func TestAbandon(t *testing.T) {
	for _, in := range []State{Reserved, Initializing, Ready, Active, Paused} {
		d := to(t, in)
		step := d.Abandon(errBad)
		if step.Task != Terminate || step.Ack != nil || d.State() != Terminated {
			t.Fatalf("%v: %+v, now %v", in, step, d.State())
		}
		ack := d.Done(step.Number, nil).Ack
		if d.State() != Available || d.Last() == nil || d.Last().Result != PartitionFailed ||
			d.Last().Error != "bad data" {
			t.Errorf("%v: now %v, %+v", in, d.State(), d.Last())
		}
		if (in == Initializing) != (ack != nil) { // only there a request was being carried out
			t.Errorf("%v: acked %+v", in, ack)
		}
	}
	for _, in := range []State{Available, Terminated, Broken, Exited} {
		if step := to(t, in).Abandon(errBad); step != (Step{}) {
			t.Errorf("%v: %+v", in, step)
		}
	}
}

func TestStateText(t *testing.T) {
	for s := Created; s <= Broken; s++ {
		text, err := json.Marshal(s)
		var back State
		if err != nil || json.Unmarshal(text, &back) != nil || back != s {
			t.Errorf("%v: %s, %v, %v", s, text, err, back)
		}
	}
	if _, err := ParseState("ALLOCATED"); err == nil || !strings.Contains(err.Error(), "RESERVED") {
		t.Errorf("%v", err)
	}
	if _, err := State(0).MarshalText(); err == nil {
		t.Error("no state has a name")
	}
}
