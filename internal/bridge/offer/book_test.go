// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var theAgent = Agent{Disco: "v1", Cluster: "disco", Name: "h1", Instance: [16]byte{9}, Program: [32]byte{0xab, 0xcd, 1,
	2}, Bridge: [32]byte{0xcd, 1, 2, 3},
	Slots: 4}

// asked is an offer that the agent takes, but for what change changes.
func asked(run byte, change func(*Offer)) *Offer {
	o := &Offer{Disco: "v1", Cluster: "disco", Program: theAgent.Program, Bridge: theAgent.Bridge,
		Run: [16]byte{run}, Token: [32]byte{7},
		Name: "run " + string('a'+rune(run)), Slots: 1, Most: 64}
	if change != nil {
		change(o)
	}
	return o
}

// instead is what to do while others have the slots.
const instead = "wait for it, or run without this machine, by a file without it or by --labels: "

// TestBook: what is refused is refused in these words, with what is wanted, what there is, and who has it; and nothing
// is reserved by it.
func TestBook(t *testing.T) {
	b := NewBook(theAgent)
	take := func(o *Offer, want string) {
		t.Helper()
		before := b.Status().Free
		a, refused := b.Take(o, "10.0.0.9:5")
		switch {
		case refused == nil && (want != "" || a.Name != "h1" || a.Instance != theAgent.Instance ||
			a.Slots != before-a.Free || a.Free != b.Status().Free):
			t.Errorf("accepted: %+v, want %q", a, want)
		case refused != nil && (refused.Text != want || refused.Instance != theAgent.Instance ||
			b.Status().Free != before):
			t.Errorf("found %q\nwant  %q", refused.Text, want)
		}
	}
	take(asked(0, func(o *Offer) { o.Slots = 5 }),
		"slots wanted: 5, free: 4 of 4: want fewer, or start the agent with more --slots")
	take(asked(0, func(o *Offer) { o.Slots = 3 }), "")
	take(asked(1, func(o *Offer) { o.Slots = 2 }),
		`slots wanted: 2, free: 1 of 4: `+instead+`the run "run a" from 10.0.0.9:5 has 3`)
	take(asked(0, func(o *Offer) { o.Name = "another" }),
		`the run "another" is here already, as machine 0: both addresses lead to this agent`)
	take(asked(1, func(o *Offer) { o.Name = "run a" }),
		`a run "run a" is here already, from 10.0.0.9:5: wait for it, or give this one another --name`)
	take(asked(1, func(o *Offer) { o.Cluster = "other" }),
		`found the group "other", and the agent belongs to "disco": --group names it for both`)
	take(asked(1, func(o *Offer) { o.Disco = "v2" }),
		"found version v2 of disco, and the agent has v1: use one build on all machines")
	take(asked(1, func(o *Offer) { o.Program[3] = 3 }),
		"found a program with the digest abcd0103, and the agent's has "+
			"abcd0102: use one build on all machines, and start the agent again")
	take(asked(1, func(o *Offer) { o.Bridge[3] = 4 }),
		"found a disco-group with the digest cd010204, and the agent's is "+
			"cd010203: use one build of it on all machines, too, and start the agent again")
	few := asked(3, func(o *Offer) { o.Slots, o.Most = 0, 2 })
	if a, refused := NewBook(theAgent).Take(few, "x:1"); refused != nil || a.Slots != 2 || a.Free != 2 {
		t.Errorf("%+v, %+v: want 2 slots of 4, for which the run has use", a, refused)
	}
	take(asked(1, func(o *Offer) { o.Slots = 0 }), "") // all that are free
	take(asked(2, func(o *Offer) { o.Slots = 0 }),
		`slots wanted: 1, free: 0 of 4: `+instead+`the run "run a" from 10.0.0.9:5 has 3, `+
			`the run "run b" from 10.0.0.9:5 has 1`)
	const more = "found 4 slots to be kept, want at most 3"
	if err := b.Keep([16]byte{0}, 4); err == nil || !strings.Contains(err.Error(), more) {
		t.Errorf("%v, want %q", err, more)
	}
	if err := errors.Join(b.Keep([16]byte{0}, 1), b.Keep([16]byte{5}, 9)); err != nil { // that one isn't here
		t.Error(err)
	}
	take(asked(2, func(o *Offer) { o.Slots = 3 }), `slots wanted: 3, free: 2 of 4: `+instead+`the run "run a" from `+
		`10.0.0.9:5 has 1, the run "run b" from 10.0.0.9:5 has 1`)
	b.Free([16]byte{5}) // likewise
	b.Free([16]byte{0})
	take(asked(2, func(o *Offer) { o.Slots = 3 }), "")
	b.End()
	b.Free([16]byte{2})
	take(asked(3, nil), "the agent is ending: start it again")
}

// TestClaims: runs for which another one has reserved slots have these, and no others; they take nothing of the book's.
func TestClaims(t *testing.T) {
	b := NewBook(theAgent)
	claimed := 2
	b.Claims(func(run string) (int, bool) { return claimed, run != "run d" })
	claims := func(run byte, slots, free int, want string) {
		t.Helper()
		a, refused := b.Take(asked(run, func(o *Offer) { o.Slots = slots }), "x")
		if refused != nil && refused.Text != want || refused == nil && want != "" || b.Status().Free != free {
			t.Errorf("found %+v, %+v, %d free; want %q, %d", a, refused, b.Status().Free, want, free)
		}
	}
	const gone = ` is an attempt that doesn't count any more, or not yet`
	claims(0, 3, 4, `slots wanted: 3, and 2 servers here are promised to it: the run "run a"`+gone)
	claims(0, 2, 4, "")
	claims(3, 4, 0, "") // one of the book's own
	claims(1, 0, 0, "") // what is promised to it
	claimed = 0
	claims(2, 1, 0, `slots wanted: 1, and 0 servers here are promised to it: the run "run c"`+gone)
	b.Free([16]byte{0})
	if s := b.Status(); s.Free != 0 || len(s.Runs) != 2 {
		t.Errorf("found %+v", s)
	}
}

// TestServing: the agent serves while a slot is free, a run while it is here; changes are noticed.
func TestServing(t *testing.T) {
	b := NewBook(theAgent)
	is := func(name string, serving, known bool) <-chan struct{} {
		t.Helper()
		s, k, changed := b.Serving(name)
		if s != serving || k != known {
			t.Errorf("%q: serving %v, known %v", name, s, k)
		}
		return changed
	}
	changed := is("", true, true)
	is("run a", false, false)
	if _, refused := b.Take(asked(0, func(o *Offer) { o.Slots = 4 }), "x"); refused != nil {
		t.Fatal(refused)
	}
	<-changed
	changed = is("", false, true)
	is("run a", true, true)
	if names := b.Names(); len(names) != 2 || names[1] != "run a" {
		t.Errorf("%q", names)
	}
	b.Free([16]byte{0})
	<-changed
	changed = is("", true, true)
	b.End()
	<-changed
	is("", false, true)
}

// TestContacts: a run's status has the machines from which nothing comes, and for how long, also where they are not
// connected any more by then; those that are reachable again, and other runs' ones, aren't in it.
func TestContacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBook(theAgent)
		for run := range byte(2) {
			if _, refused := b.Take(asked(run, nil), "x"); refused != nil {
				t.Fatal(refused)
			}
		}
		report := func(machine int, state ContactState, silence time.Duration, want string) {
			t.Helper()
			b.Contact([16]byte{1}, fmt.Sprint("h", machine), &Contact{Machine: machine, State: state, For: silence})
			s := b.Status()
			if got := s.Runs[1].Unreachable; got != want || s.Runs[0].Unreachable != "" {
				t.Errorf("found %q and %q, want %q and none", got, s.Runs[0].Unreachable, want)
			}
			time.Sleep(time.Second)
		}
		report(2, ContactUp, 0, "")
		report(2, ContactUnreachable, 2*time.Second, "h2 for 2s")
		report(2, ContactUnreachable, 0, "h2 for 3s")
		report(1, ContactInterrupted, 0, "h1 for 0s, h2 for 4s")
		report(2, ContactInterrupted, 0, "h1 for 1s, h2 for 5s")
		report(1, ContactUp, 0, "h2 for 6s")
		report(2, ContactUp, 0, "")
		report(2, ContactUnreachable, 0, "h2 for 0s")
		b.Contact([16]byte{9}, "h9", &Contact{Machine: 9, State: ContactUnreachable}) // a run that isn't here
		b.Free([16]byte{1})
		if _, refused := b.Take(asked(1, nil), "x"); refused != nil {
			t.Fatal(refused)
		}
		report(2, ContactUp, 0, "")
		long := strings.Repeat("x", NameBytesMax)
		for m := range MachinesMax {
			b.Contact([16]byte{1}, long, &Contact{Machine: m, State: ContactUnreachable})
		}
		if _, err := Append(nil, &Message{Type: TypeStatus, Status: func() *Status {
			s := b.Status()
			s.Processors = 1
			return s
		}()}); err != nil {
			t.Error(err)
		}
	})
}
