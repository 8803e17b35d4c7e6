// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/cluster"
)

// triedAgain is how many pieces of an experiment have a second attempt.
func (b *bench) triedAgain(id string, pieces int) (n int) {
	for i := range pieces {
		if b.piece(id, i).Attempt > 1 {
			n++
		}
	}
	return n
}

// TestRetries: when everything fails at one time, ten attempts are tried again at once, and then one a second; users
// are served in turn; people are told; and what they ask for themselves waits for nothing.
func TestRetries(t *testing.T) {
	b := newBench(t, 4, 10, Rules{})
	b.submit("g", 1, 1)
	b.run()
	b.report("g", 0, Report{State: Failed, Error: &Error{Type: ErrorModel, Message: "m"}})
	b.run()
	b.want("g", 0, Failed)
	b.submit("e", 30, 1)
	b.submit("f", 5, 1, func(s *Spec) { s.User = "bob" })
	b.run()
	for id, pieces := range map[string]int{"e": 30, "f": 5} {
		for i := range pieces {
			b.want(id, i, Running)
			b.report(id, i, Report{State: Held, Error: &Error{Type: ErrorMachine, Message: "the place is away"}})
		}
	}
	began, said, asked := b.at, false, false
	for b.triedAgain("e", 30)+b.triedAgain("f", 5) < 35 {
		b.decide(100 * time.Millisecond)
		b.obey()
		ann, bob, passed := b.triedAgain("e", 30), b.triedAgain("f", 5), (b.at - began).Seconds()
		if float64(ann+bob) > 11+passed {
			t.Fatalf("%d are tried again in %.1f s", ann+bob, passed)
		}
		if bob < 5 && ann > 20 {
			t.Fatalf("%d of ann's are tried again, and %d of bob's", ann, bob)
		}
		said = said || strings.Contains(b.experiments["e"].standing.Reason,
			"waits to be tried again: at most 10 are in 10s, and one for each ten that begin")
		if ann+bob >= 15 && !asked {
			asked = true
			b.PutWish("g", Wish{Number: 2, Want: WantRun, Priority: Normal, Retry: 1})
			b.decide(0)
			if b.piece("g", 0).Attempt != 2 {
				t.Errorf("what people have asked for waits: %+v", b.piece("g", 0).Piece)
			}
		}
		if passed > 40 {
			t.Fatalf("%d and %d of 30 and 5 are tried again in %.0f s", ann, bob, passed)
		}
	}
	if !said || !asked {
		t.Errorf("nobody was told, or nothing had to wait: %v, %v", said, asked)
	}
	if len(b.retries.users) > 0 || len(b.retries.lines) > 0 {
		t.Errorf("found %v in line when all are tried again", b.retries.lines)
	}
}

// TestRetriesLarge: what one of ten machines of a large fleet had is tried elsewhere at once; what was given up in line
// takes no token.
func TestRetriesLarge(t *testing.T) {
	b := newBench(t, 10, 30, Rules{})
	b.submit("e", 240, 1, func(s *Spec) { s.Limits.Attempts = 5 })
	b.run()
	fail := func(member string) (failed int) {
		for i := range 240 {
			if p := b.piece("e", i); p.State == Running && p.Gang[0].Member == member {
				b.report("e", i, Report{State: Held, Error: &Error{Type: ErrorMachine, Message: "m"}})
				failed++
			}
		}
		return failed
	}
	if n := fail("m3"); n != 24 {
		t.Fatalf("m3 has %d, want 24", n)
	}
	for range 5 {
		b.decide(time.Second)
		b.obey()
	}
	if n := b.triedAgain("e", 240); n != 24 {
		t.Errorf("%d of 24 are tried again", n)
	}
	for _, m := range []string{"m4", "m5", "m6"} {
		fail(m)
	}
	for n := 0; n < 50 && len(b.retries.lines["ann"]) == 0; n++ {
		b.decide(100 * time.Millisecond)
		b.obey()
	}
	if len(b.retries.lines["ann"]) == 0 {
		t.Fatal("nothing waits")
	}
	b.PutWish("e", Wish{Number: 2, Want: WantCancel, Priority: Normal})
	for range 3 {
		b.decide(time.Second)
		b.obey()
	}
	if len(b.retries.lines) > 0 || b.retries.budget.Wait(b.at) > 0 {
		t.Errorf("found %d in line behind a cancellation", len(b.retries.lines["ann"]))
	}
}

// TestLeft: attempts that were ended since their agent left don't count, however many they are, and no machine is at
// fault with them.
func TestLeft(t *testing.T) {
	b := newBench(t, 1, 1, Rules{})
	b.submit("e", 1, 1, func(s *Spec) { s.Limits.Attempts = 1 })
	for try := range 5 {
		b.run()
		b.want("e", 0, Running)
		b.report("e", 0, Report{State: Canceled})
		b.be("m0-0", cluster.Available, nil)
		b.decide(time.Second)
		p := b.piece("e", 0)
		if p.Error == nil || p.Error.Type != ErrorLeft || p.Spared != try+1 || len(p.Fault) != 0 {
			t.Fatalf("behind attempt %d: found %+v", try+1, p.Piece)
		}
		b.decide(retriesIn)
	}
	b.run()
	b.report("e", 0, Report{State: Finished, Kept: &Kept{Hash: "h"}})
	b.run()
	b.want("e", 0, Finished)
}

// TestGangLeft: it is the same where another machine of a gang leaves, which is seen by its server, or told by the run.
// One that goes without a word is at fault.
func TestGangLeft(t *testing.T) {
	for _, c := range []struct {
		leaves, told, back bool // back: it is started again before anybody looks
		kind, fault        string
	}{{true, false, false, ErrorLeft, "[]"}, {true, true, false, ErrorLeft, "[]"}, {true, false, true, ErrorLeft, "[]"},
		{false, false, false, ErrorMachine, "[m1]"}, {false, true, false, ErrorMachine, "[m1]"},
		{false, false, true, ErrorMachine, "[m1]"}} {
		b := newBench(t, 2, 1, Rules{})
		b.submit("e", 1, 2)
		b.run()
		b.want("e", 0, Running)
		members := b.members()
		if c.leaves {
			members[1].Status = cluster.Leaving
			b.PutMembers(members, nil)
		}
		b.decide(0)
		sv := b.servers["m1-0"].Server
		b.DropServer("m1-0")
		b.PutMembers(members[:1], nil)
		if c.back {
			b.decide(time.Second)
			sv.State, sv.Info.Assignment, sv.Incarnation = cluster.Available, nil, "j"
			b.PutServer(sv)
			members[1].Status = cluster.Up
			b.PutMembers(members, nil)
		}
		if c.told {
			b.report("e", 0, Report{State: Held, Error: &Error{Type: ErrorMachine, Where: "m1", Message: "m"}})
		}
		b.decide(0)
		b.decide(b.rules.Settle)
		p := b.piece("e", 0)
		if p.Error == nil || p.Error.Type != c.kind || fmt.Sprint(p.Fault) != c.fault || p.Spared != b2i(c.leaves) {
			t.Errorf("%+v: found %+v, %+v", c, p.Error, p.Piece)
		}
	}
}

// TestLeavesAgain: a machine that leaves and comes back at once, several times, costs no attempt.
func TestLeavesAgain(t *testing.T) {
	b := newBench(t, 1, 1, Rules{})
	b.submit("e", 1, 1, func(s *Spec) { s.Limits.Attempts = 1 })
	for try := range 3 {
		b.run()
		b.want("e", 0, Running)
		members := b.members()
		for _, status := range []cluster.MemberStatus{cluster.Leaving, cluster.Up} {
			members[0].Status = status
			b.PutMembers(members, nil)
		}
		sv := b.servers["m0-0"].Server
		sv.State, sv.Info.Assignment, sv.Incarnation = cluster.Available, nil, fmt.Sprint("again", try)
		b.PutServer(sv)
		b.decide(0)
		b.decide(b.rules.Settle)
		if p := b.piece("e", 0); p.Error == nil || p.Error.Type != ErrorLeft || p.Spared != try+1 || len(p.Fault) != 0 {
			t.Fatalf("behind attempt %d: found %+v, %+v", try+1, p.Error, p.Piece)
		}
		b.decide(retriesIn)
	}
}
