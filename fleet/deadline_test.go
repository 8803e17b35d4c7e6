// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/metastore"
)

// next is a bench with another leader, who knows what the store and the cluster have of one experiment of one piece.
func (b *bench) next(report *ReportAt) *bench {
	n := &bench{TB: b.TB, State: NewState("m9", b.token+1, b.rules), version: b.version}
	for _, m := range b.machines {
		for _, sv := range m.servers {
			n.PutServer(sv.Server)
		}
	}
	n.PutMembers(b.members(), nil)
	e := b.experiments["e"]
	n.PutExperiment(e.Spec, e.order)
	n.PutPiece("e", PieceID{}, b.piece("e", 0).Piece)
	n.PutWish("e", e.wish)
	if report != nil {
		n.PutReport(*report)
	}
	n.decide(0)
	return n
}

// TestSilenceAdopted: a run that stands still is ended when its time is over, however many leaders count it, each of
// which is there for a short time; and so is an attempt as a whole. One that moves isn't.
func TestSilenceAdopted(t *testing.T) {
	const leaders, each = 11, 11 * time.Second // 121 s
	for _, c := range []struct {
		moves bool
		total time.Duration
		want  PieceState
		why   string
	}{
		{false, 0, Held, "simulated time has stood at 5 s for 2m1s, with 0 extensions"},
		{true, 0, Running, ""},
		{true, 2 * time.Minute, Held, "took longer than 2m0s"},
	} {
		b := newBench(t, 2, 1, Rules{})
		b.submit("e", 1, 1, func(s *Spec) { s.Limits.Total = c.total })
		b.run()
		for i := range leaders {
			ran := time.Duration(i) * each
			x := Progress{Now: 5, Horizon: 100, Events: 50, MovedEvents: 50, Ran: ran, Still: ran}
			if c.moves {
				x.Now, x.Still = 5+float64(i), time.Second
			}
			r := ReportAt{b.piece("e", 0).Gang[0].Member, "e", PieceID{}, Report{Attempt: 1, State: Running,
				Progress: x},
				metastore.Version{Created: 1, Changed: uint64(100 + i)}}
			b = b.next(&r)
			b.want("e", 0, Running)
			b.decide(each)
		}
		b.want("e", 0, c.want)
		if p := b.piece("e", 0); c.want == Held && (p.Error.Decided != "m9" ||
			!strings.Contains(p.Error.Message, c.why) || len(p.Past) != 1 || p.Past[0].Decided != "m9" ||
			p.Past[0].Attempt != 1) {
			t.Errorf("found %+v, %+v, want %q", p.Error, p.Past, c.why)
		}
	}
}

// TestStartAdopted: a gang that doesn't begin is given up when its time is over, though each leader saw it only for a
// part of that; what a leader has counted and not yet noted is lost.
func TestStartAdopted(t *testing.T) {
	b := newBench(t, 2, 1, Rules{})
	b.submit("e", 1, 2)
	b.decide(0)
	for range 10 { // of 14 s, 10 of which are noted
		b.want("e", 0, Dispatched)
		b.decide(10 * time.Second)
		b.decide(4 * time.Second)
		if p := b.piece("e", 0); p.Age < 10*time.Second {
			t.Fatalf("found %v noted", p.Age)
		}
		b = b.next(nil)
	}
	b.decide(49 * time.Second)
	b.want("e", 0, Dispatched)
	b.decide(time.Second)
	b.want("e", 0, Waiting) // nothing of it is anywhere
	if p := b.piece("e", 0); p.Age != 0 || len(p.Past) != 1 ||
		!strings.Contains(p.Past[0].Message, "0 of 2 servers were ready") {
		t.Errorf("found %+v, %+v", p.Piece, p.Past)
	}
}

// TestPausedUnseen: what a run was paused for, which its agent doesn't count and no leader has seen, isn't time for
// which it has stood. (Schedule 506053 of the model.)
func TestPausedUnseen(t *testing.T) {
	b := newBench(t, 1, 1, Rules{})
	b.submit("e", 1, 1)
	b.run()
	still := time.Duration(0)
	standsFor := func(seconds int) {
		for range seconds {
			b.report("e", 0, Report{State: Running, Progress: Progress{Now: 5, Events: 5, MovedEvents: 5,
				Ran: 5*time.Second + still, Still: still}})
			b.decide(time.Second)
			still += time.Second
		}
	}
	standsFor(20)
	still = 0
	standsFor(int(noProgressDefault.Seconds()))
	b.want("e", 0, Running)
	standsFor(2)
	b.want("e", 0, Held)
}

// TestLostWhileStarting: a gang that lost a server while so many machines fall that evictions wait keeps the others'
// servers no longer than it may take to start. (Schedule 605131 of the model.)
func TestLostWhileStarting(t *testing.T) {
	const limit = 20 * time.Second
	b := newBench(t, 2, 1, Rules{})
	b.submit("e", 1, 2, func(s *Spec) { s.Limits.Start = limit })
	b.decide(0)
	b.decide(15 * time.Second)
	b.want("e", 0, Dispatched)
	b.hush(2, 2)
	b.DropServer(b.piece("e", 0).Gang[0].Name)
	b.decide(0)
	b.decide(limit - 15*time.Second - time.Millisecond)
	b.want("e", 0, Dispatched)
	b.decide(time.Millisecond)
	if p := b.piece("e", 0); p.State == Dispatched || p.Attempt != 1 {
		t.Errorf("found %v, attempt %d, want its servers free", p.State, p.Attempt)
	}
}

// TestOldView: what a new leader sees of a server may be older than what it has read of the pieces, so what it doesn't
// see yet isn't taken for gone; what a server shows to have let go, it has. (Schedule 817523 of the model.)
func TestOldView(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(sv *cluster.Server)
		waits   bool
		catches bool // the view shows what is so before the moment has passed
	}{
		{"another attempt", func(sv *cluster.Server) {
			sv.Info.Assignment = &cluster.Assignment{Experiment: "e", Replication: "0.0.5.1"}
		}, true, true},
		{"free", func(sv *cluster.Server) { sv.State, sv.Info.Assignment = cluster.Available, nil }, true, false},
		{"let go", func(sv *cluster.Server) {
			sv.Last = &cluster.Outcome{Assignment: *sv.Info.Assignment}
			sv.State, sv.Info.Assignment = cluster.Available, nil
		}, false, false},
		{"another incarnation", func(sv *cluster.Server) {
			sv.Incarnation, sv.State, sv.Info.Assignment = "new", cluster.Available, nil
		}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 1, 1, Rules{})
			b.submit("e", 1, 1)
			b.run()
			b.PutWish("e", Wish{Number: 2, Want: WantCancel, Priority: Normal, By: "ann"})
			b.decide(0)
			b.want("e", 0, Canceling)
			name := b.piece("e", 0).Gang[0].Name
			now := b.servers[name].Server
			old := now
			old.Writing--
			c.change(&old)
			b.PutServer(old)
			if b = b.next(nil); !c.waits {
				b.want("e", 0, Canceled)
				return
			}
			b.want("e", 0, Canceling)
			b.decide(b.rules.Settle - time.Millisecond)
			b.want("e", 0, Canceling)
			if !c.catches {
				b.decide(time.Millisecond)
				b.want("e", 0, Canceled)
				return
			}
			b.PutServer(now)
			b.decide(time.Millisecond)
			b.want("e", 0, Canceling)
			b.wantAsks(name + " TERMINATED")
		})
	}
}

// TestExtensionsAdopted: another leader goes on with the extensions that were granted.
func TestExtensionsAdopted(t *testing.T) {
	b := newBench(t, 2, 1, Rules{})
	b.submit("e", 1, 1)
	b.run()
	still, events := noProgressDefault, uint64(60)
	for n := range extensionsMax + 1 {
		r := ReportAt{b.piece("e", 0).Gang[0].Member, "e", PieceID{}, Report{Attempt: 1, State: Running,
			Progress: Progress{Now: 5, Events: events, MovedEvents: 50, Still: still, Ran: still}},
			metastore.Version{Created: 1, Changed: uint64(100 + n)}}
		b = b.next(&r)
		if n < extensionsMax {
			b.want("e", 0, Running)
			if x := b.piece("e", 0).Extended; x == nil || x.Count != n+1 || x.By != "m9" || x.Events != events {
				t.Fatalf("found %+v, want extension %d", x, n+1)
			}
		}
		still += extension >> n
		events += 10
	}
	b.want("e", 0, Held)
	if why := b.Why("e", PieceID{}); !strings.Contains(why, "attempt 1 ended: deadline") ||
		!strings.Contains(why, "with 5 extensions") || !strings.Contains(why, "(decided by m9)") {
		t.Errorf("found %s", why)
	}
}

// TestNothingEndsUnseen: a time that has come ends nothing before reports were read behind it.
func TestNothingEndsUnseen(t *testing.T) {
	b := newBench(t, 1, 1, Rules{})
	b.submit("e", 1, 1)
	b.run()
	b.report("e", 0, Report{State: Running, Progress: Progress{Now: 5, Events: 5, MovedEvents: 5}})
	b.decide(time.Second)
	seen := b.looked
	b.at += noProgressDefault
	for range 3 {
		Decide(b.State, b.at)
		if b.looked != seen || !b.WantsLook() {
			t.Fatalf("looked at %v, wants to look: %v", b.looked, b.WantsLook())
		}
	}
	b.want("e", 0, Running)
	b.report("e", 0, Report{State: Running, Progress: Progress{Now: 6, Events: 6, MovedEvents: 6}})
	b.decide(0)
	if b.want("e", 0, Running); b.WantsLook() {
		t.Error("it wants to look again")
	}
}

// TestBegunAnew: a run whose simulated time begins again, as it does behind the pilot replication for a warm-up,
// doesn't stand; one that says less of simulated time alone, or does nothing behind its new begin, does.
func TestBegunAnew(t *testing.T) {
	for _, c := range []struct {
		then  Progress
		state PieceState
	}{
		{Progress{Now: 3, Events: 30}, Running},
		{Progress{Now: 3, Events: 900}, Held},
		{Progress{Now: 90, Events: 900}, Held},
	} {
		b := newBench(t, 1, 1, Rules{})
		b.submit("e", 1, 1)
		b.run()
		b.report("e", 0, Report{State: Running, Progress: Progress{Now: 90, Horizon: 100, Events: 900}})
		b.decide(time.Second)
		c.then.Horizon = 100
		b.report("e", 0, Report{State: Running, Progress: c.then})
		b.decide(noProgressDefault)
		if b.want("e", 0, c.state); c.state == Running {
			b.decide(noProgressDefault)
			b.want("e", 0, Held)
		}
	}
}

// TestStopping: a run that gets on with its end is given longer before its servers are told to exit; what doesn't stop
// is listed, in the piece and in the experiment's standing, and isn't waited for any longer.
func TestStopping(t *testing.T) {
	for _, moves := range []bool{false, true} {
		b := newBench(t, 1, 1, Rules{})
		b.submit("e", 1, 1)
		b.run()
		events := uint64(5)
		report := func() {
			if moves {
				events++
			}
			b.report("e", 0, Report{State: Running, Progress: Progress{Now: 5, Events: events, Stopping: true}})
		}
		report()
		b.PutWish("e", Wish{Number: 2, Want: WantCancel, Priority: Normal, By: "ann"})
		b.decide(0)
		b.want("e", 0, Canceling)
		exits := time.Duration(0)
		for waited := time.Duration(0); b.piece("e", 0).State == Canceling && waited < time.Hour; waited += 2500 *
			time.Millisecond {
			report()
			b.decide(2500 * time.Millisecond)
			if exits == 0 && strings.Contains(b.asks(), cluster.Exited.String()) {
				exits = waited
			}
		}
		want := time.Minute
		if moves {
			want += granted(extensionsMax)
		}
		if exits < want-5*time.Second || exits > want+5*time.Second {
			t.Errorf("moves: %v: told to exit behind %v, want %v", moves, exits, want)
		}
		b.want("e", 0, Canceled)
		if p := b.piece("e", 0); len(p.Left) != 1 || p.Left[0] != (Left{"m0-0", "m0", 1, "ACTIVE"}) {
			t.Errorf("found %+v", p.Left)
		}
		x := b.experiments["e"].standing
		if len(x.Left) != 1 || x.Left[0] != "m0-0 of m0, with attempt 0.0.0.1, ACTIVE" {
			t.Errorf("found %q", x.Left)
		}
	}
}

// TestFormerRecords: pieces and reports of earlier programs are read, and counted from when a leader sees them.
func TestFormerRecords(t *testing.T) {
	b := newBench(t, 1, 1, Rules{})
	b.submit("e", 1, 1)
	b.run()
	p := b.piece("e", 0).Piece
	p.Age, p.Extended, p.Past, p.Left = 0, nil, nil, nil
	if err := p.check(); err != nil {
		t.Error(err)
	}
	for i := range 13 { // events go on, as an agent without these fields says
		b.report("e", 0, Report{State: Running, Progress: Progress{Now: 5, Events: uint64(i + 1)}})
		b.decide(10 * time.Second)
	}
	if x := b.piece("e", 0).Extended; x == nil || x.Count != 1 {
		t.Errorf("found %+v, want an extension", x)
	}
	for range 6 {
		b.report("e", 0, Report{State: Running, Progress: Progress{Now: 5, Events: 100}})
		b.decide(10 * time.Second)
	}
	b.want("e", 0, Held)
}
