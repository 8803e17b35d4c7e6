// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Agent is what an agent is, as long as it lives.
type Agent struct {
	Disco    string
	Cluster  string
	Name     string
	Instance [16]byte
	Program  [32]byte // digests, as in Offer
	Bridge   [32]byte
	Slots    int
}

// Book is which runs an agent has, and how many slots are free. Any goroutine may use it.
type Book struct {
	agent Agent

	mu      sync.Mutex
	claims  func(run string) (slots int, is bool)
	runs    []entry
	ending  bool
	changed chan struct{} // closed with the next change
}

// entry is a run.
type entry struct {
	offer   *Offer
	slots   int
	claimed bool // they aren't the book's
	from    string
	since   time.Time

	unreachable []unreachable // by machine
}

// unreachable is another machine of a run, from which nothing comes.
type unreachable struct {
	machine int
	name    string
	since   time.Time
}

// NewBook is the book of an agent without runs.
func NewBook(a Agent) *Book { return &Book{agent: a, changed: make(chan struct{})} }

// Claims has the slots of some runs be those that another one has reserved, by their names: f says how many these are,
// or that a run is none of them. f must not call the book.
func (b *Book) Claims(f func(run string) (slots int, is bool)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.claims = f
}

// claim is the slots that another one has reserved for a run.
func (b *Book) claim(run string) (slots int, is bool) {
	if b.claims == nil {
		return 0, false
	}
	return b.claims(run)
}

// Take reserves what an offer wants, until Free, or says why not. from is where the offer came from. Of Accepted, what
// the book doesn't know is left out.
func (b *Book) Take(o *Offer, from string) (*Accepted, *Refused) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := &b.agent
	switch {
	case b.ending:
		return nil, b.no(CodeEnding, "the agent is ending: start it again")
	case o.Cluster != a.Cluster:
		return nil, b.no(CodeCluster, "found the group %q, and the agent belongs to %q: --group names it for both",
			o.Cluster, a.Cluster)
	case o.Disco != a.Disco:
		return nil, b.no(CodeVersion, "found version %s of disco, and the agent has %s: use one build on all machines",
			o.Disco, a.Disco)
	case o.Program != a.Program:
		return nil, b.no(CodeProgram, "found a program with the digest %.4x, and the agent's has %.4x: use one build "+
			"on all machines, and start the agent again", o.Program, a.Program)
	case o.Bridge != a.Bridge:
		return nil, b.no(CodeProgram, "found a disco-group with the digest %.4x, and the agent's is %.4x: use one "+
			"build of it on all machines, too, and start the agent again", o.Bridge, a.Bridge)
	}
	for i := range b.runs {
		switch e := &b.runs[i]; {
		case e.offer.Run == o.Run:
			return nil, b.no(CodeTwice, "the run %q is here already, as machine %d: both addresses lead to this agent",
				o.Name, e.offer.Machine)
		case e.offer.Name == o.Name:
			return nil, b.no(CodeName, "a run %q is here already, from %s: wait for it, or give this one another "+
				"--name", o.Name, e.from)
		}
	}
	free, slots := b.free(), o.Slots
	claimed, is := b.claim(o.Name)
	if is {
		free = claimed
	}
	if slots == 0 {
		slots = min(max(free, 1), o.Most)
	}
	if slots > free && is {
		return nil, b.no(CodeSlots, "slots wanted: %d, and %d servers here are promised to it: the run %q is an "+
			"attempt that doesn't count any more, or not yet", slots, free, o.Name)
	}
	if slots > free {
		return nil, b.no(CodeSlots, "slots wanted: %d, free: %d of %d%s", slots, free, a.Slots, b.users())
	}
	b.runs = append(b.runs, entry{offer: o, slots: slots, claimed: is, from: from, since: time.Now()})
	b.change()
	return &Accepted{Name: a.Name, Instance: a.Instance, Slots: slots, Free: free - slots}, nil
}

// no is a refusal.
func (b *Book) no(code Code, format string, args ...any) *Refused {
	return &Refused{Code: code, Text: Text(fmt.Sprintf(format, args...)), Instance: b.agent.Instance}
}

// users lists who has the slots.
func (b *Book) users() string {
	var all []string
	for _, e := range b.runs {
		if !e.claimed {
			all = append(all, fmt.Sprintf("the run %q from %s has %d", e.offer.Name, e.from, e.slots))
		}
	}
	if len(all) == 0 {
		return ": want fewer, or start the agent with more --slots"
	}
	return ": wait for it, or run without this machine, by a file without it or by --labels: " +
		strings.Join(all, ", ")
}

// free are slots that no run has.
func (b *Book) free() int {
	n := b.agent.Slots
	for _, e := range b.runs {
		if !e.claimed {
			n -= e.slots
		}
	}
	return n
}

func (b *Book) change() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// Keep gives back all but so many slots of a run, of which it has more, or as many.
func (b *Book) Keep(run [16]byte, slots int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.runs {
		e := &b.runs[i]
		if e.offer.Run != run {
			continue
		}
		if slots > e.slots {
			return fmt.Errorf("offer: found %d slots to be kept, want at most %d, which the run has", slots, e.slots)
		}
		e.slots = slots
		b.change()
	}
	return nil
}

// Free gives back what a run has.
func (b *Book) Free(run [16]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.runs {
		if b.runs[i].offer.Run == run {
			b.runs = append(b.runs[:i], b.runs[i+1:]...)
			b.change()
			return
		}
	}
}

// Contact takes what the bridge of a run reports about another machine, which people call by that name. A machine that
// is no more connected stays unreachable as long as it was before.
func (b *Book) Contact(run [16]byte, name string, c *Contact) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.IndexFunc(b.runs, func(e entry) bool { return e.offer.Run == run })
	if at < 0 {
		return
	}
	e := &b.runs[at]
	byMachine := func(u unreachable, machine int) int { return u.machine - machine }
	i, known := slices.BinarySearchFunc(e.unreachable, c.Machine, byMachine)
	switch {
	case known && c.State == ContactUp:
		e.unreachable = slices.Delete(e.unreachable, i, i+1)
	case !known && c.State != ContactUp:
		e.unreachable = slices.Insert(e.unreachable, i, unreachable{c.Machine, name, time.Now().Add(-c.For)})
	}
}

// End refuses whatever comes from now on.
func (b *Book) End() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ending = true
	b.change()
}

// Serving tells whether a run of that name is here, and for the name "" whether a worker could be started. known is
// whether there is such a name; changed is closed with the next change of any.
func (b *Book) Serving(name string) (serving, known bool, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if name == "" {
		return !b.ending && b.free() > 0, true, b.changed
	}
	for _, e := range b.runs {
		serving = serving || e.offer.Name == name
	}
	return serving, serving, b.changed
}

// Names are those for which Serving tells something.
func (b *Book) Names() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	names := []string{""}
	for _, e := range b.runs {
		names = append(names, e.offer.Name)
	}
	return names
}

// Status is what the book knows of the agent's.
func (b *Book) Status() *Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := &b.agent
	s := &Status{Disco: a.Disco, Cluster: a.Cluster, Name: a.Name, Instance: a.Instance, Program: a.Program,
		Bridge: a.Bridge, Slots: a.Slots, Free: b.free()}
	for _, e := range b.runs {
		all := make([]string, len(e.unreachable))
		for i, u := range e.unreachable {
			all[i] = fmt.Sprintf("%s for %v", u.name, time.Since(u.since).Round(100*time.Millisecond))
		}
		s.Runs = append(s.Runs, RunStatus{Name: e.offer.Name, Run: e.offer.Run, Slots: e.slots, From: e.from,
			For: time.Since(e.since), Unreachable: limited(strings.Join(all, ", "), NameBytesMax)})
	}
	return s
}
