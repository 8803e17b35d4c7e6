// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/metastore"
)

// bench is a state, with what its servers do.
type bench struct {
	testing.TB
	*State
	at      time.Duration
	last    []Action
	version uint64
}

// newBench has so many machines, m0 and so on, with so many servers each.
func newBench(t testing.TB, machines, servers int, rules Rules) *bench {
	b := &bench{TB: t, State: NewState("m0", 7, rules)}
	var members []cluster.Member
	for i := range machines {
		name := fmt.Sprintf("m%d", i)
		members = append(members, cluster.Member{Name: name, Status: cluster.Up, Version: "v1",
			Address: name + ":1", Roles: []string{Role, RoleGang}})
		for j := range servers {
			b.PutServer(cluster.Server{Name: fmt.Sprintf("%s-%d", name, j), Status: cluster.Status{
				State: cluster.Available, Incarnation: "i"}, Info: cluster.Info{Member: name, Slot: j}})
		}
	}
	b.PutMembers(members, nil)
	return b
}

// submit adds an experiment of one step.
func (b *bench) submit(id string, pieces, workers int, change ...func(s *Spec)) {
	spec := Spec{ID: id, User: "ann", Steps: []Step{{Name: "a", Points: make([][]string, 1), Replications: pieces,
		Workers: workers}}}
	for _, f := range change {
		f(&spec)
	}
	b.version++
	b.PutExperiment(spec, b.version)
	b.PutWish(id, Wish{Number: 1, Want: WantRun, Priority: Normal})
}

// decide decides behind a time, and again as long as there is something to decide at once.
func (b *bench) decide(wait time.Duration) {
	b.at += wait
	b.last = nil
	for range 100 {
		b.Looked(b.at)
		b.last = append(b.last, Decide(b.State, b.at)...)
		if when, any := b.Next(); !any || when > b.at {
			return
		}
	}
	b.Fatal("it decides for ever")
}

// obey does what servers were asked for.
func (b *bench) obey() {
	for _, a := range b.last {
		if a.Do == DoAsk {
			b.be(a.Server, a.State, &a.Assignment)
		}
	}
}

// be puts a server into a state; TERMINATED is AVAILABLE at once.
func (b *bench) be(name string, state cluster.State, a *cluster.Assignment) {
	sv := b.servers[name].Server
	sv.State, sv.Info.Assignment = state, a
	if state == cluster.Terminated || state == cluster.Available {
		sv.State, sv.Info.Assignment = cluster.Available, nil
	}
	sv.Writing++
	b.PutServer(sv)
}

// run has gangs get as far as they are led.
func (b *bench) run() {
	b.decide(time.Second)
	for range 10 {
		b.obey()
		b.decide(time.Second)
	}
}

func (b *bench) piece(id string, n int) *piece {
	p := b.experiments[id].pieces[PieceID{0, 0, n}]
	if p == nil {
		return &piece{Piece: Piece{State: Waiting}}
	}
	return p
}

// report has the agent of partition 0 report.
func (b *bench) report(id string, n int, r Report) {
	p := b.piece(id, n)
	b.version++
	if r.Attempt == 0 {
		r.Attempt = p.Attempt
	}
	b.PutReport(ReportAt{p.Gang[0].Member, id, PieceID{0, 0, n}, r, metastore.Version{Created: 1, Changed: b.version}})
}

// want fails unless a piece is in a state.
func (b *bench) want(id string, n int, state PieceState) {
	b.Helper()
	if p := b.piece(id, n); p.State != state {
		b.Errorf("piece %d of %s is %v, want %v: %+v", n, id, p.State, state, p.Piece)
	}
}

// asks are what servers were asked for last.
func (b *bench) asks() string {
	var all []string
	for _, a := range b.last {
		if a.Do == DoAsk {
			all = append(all, fmt.Sprintf("%s %v", a.Server, a.State))
		}
	}
	return strings.Join(all, ", ")
}

func (b *bench) wantAsks(want string) {
	b.Helper()
	if got := b.asks(); got != want {
		b.Errorf("asked %q, want %q", got, want)
	}
}

// TestScarce: an attempt for which a machine had too little memory doesn't count while there are machines that haven't
// been tried, and counts once all have.
func TestScarce(t *testing.T) {
	for _, c := range []struct {
		scarce bool
		tries  int
	}{{false, attemptsDefault}, {true, 4 + attemptsDefault}} {
		b := newBench(t, 5, 1, Rules{})
		b.submit("e", 1, 1)
		tried := map[string]bool{}
		for b.piece("e", 0).State != Failed {
			b.run()
			b.want("e", 0, Running)
			if b.Failed() {
				return
			}
			tried[b.piece("e", 0).Gang[0].Member] = true
			b.report("e", 0, Report{State: Held, Error: &Error{Type: ErrorMachine, Message: "no memory",
				Scarce: c.scarce}})
			b.run()
			b.decide(backoffMax)
		}
		if p := b.piece("e", 0); p.Attempt != c.tries || len(tried) != min(c.tries, 5) {
			t.Errorf("scarce %v: found %d attempts at %d machines, want %d", c.scarce, p.Attempt, len(tried), c.tries)
		}
	}
}

func TestBarriers(t *testing.T) {
	b := newBench(t, 2, 1, Rules{})
	b.submit("e", 1, 2)
	b.decide(0)
	b.want("e", 0, Dispatched)
	if a := b.last[0]; a.Do != DoMove || !a.Begins || a.To.Attempt != 1 || a.To.Token != 7 {
		t.Errorf("the piece isn't written before servers are asked: %+v", b.last)
	}
	b.wantAsks("m0-0 RESERVED, m1-0 RESERVED")
	a0, a1 := b.piece("e", 0).assignment(0), b.piece("e", 0).assignment(1)
	b.be("m0-0", cluster.Reserved, &a0)
	b.decide(0)
	b.wantAsks("") // the other one isn't there yet
	b.be("m1-0", cluster.Reserved, &a1)
	b.decide(0)
	b.wantAsks("m0-0 READY, m1-0 READY")
	b.be("m0-0", cluster.Ready, &a0)
	b.be("m1-0", cluster.Initializing, &a1)
	b.decide(0)
	b.wantAsks("")
	b.be("m1-0", cluster.Ready, &a1)
	b.decide(0)
	b.wantAsks("m0-0 ACTIVE, m1-0 ACTIVE")
	b.be("m0-0", cluster.Active, &a0)
	b.decide(0)
	b.want("e", 0, Dispatched)
	b.be("m1-0", cluster.Active, &a1)
	b.decide(0)
	b.want("e", 0, Running)
	b.report("e", 0, Report{State: Finished, Kept: &Kept{Hash: "h"}})
	b.decide(0)
	b.want("e", 0, Finished)
	b.wantAsks("m0-0 TERMINATED, m1-0 TERMINATED") // who held their slots only don't end by themselves
	b.obey()
	b.decide(0)
	if x := b.experiments["e"].standing; !x.Ended || x.Status != StatusFinished || x.Wish != 1 {
		t.Errorf("found %+v", x)
	}
}

func TestAsksAgain(t *testing.T) {
	b := newBench(t, 1, 1, Rules{})
	b.submit("e", 1, 1)
	b.decide(0)
	b.wantAsks("m0-0 RESERVED")
	b.decide(4 * time.Second)
	b.wantAsks("")
	b.decide(time.Second)
	b.wantAsks("m0-0 RESERVED")
	b.decide(startDefault)
	b.want("e", 0, Waiting)
	if p := b.piece("e", 0); p.Error.Type != ErrorDeadline || !slices.Equal(p.Fault, []string{"m0"}) {
		t.Errorf("found %+v", p.Piece)
	}
}

// TestEnds has attempts end in each way.
func TestEnds(t *testing.T) {
	model, machine := &Error{Type: ErrorModel, Message: "m"}, &Error{Type: ErrorMachine, Where: "m1-0", Message: "m"}
	for _, c := range []struct {
		name   string
		report Report
		want   PieceState
		fault  string
	}{
		{"finished", Report{State: Finished, Kept: &Kept{Hash: "h"}}, Finished, "[]"},
		{"finished without a part", Report{State: Finished}, Waiting, "[m0]"},
		{"a model's error", Report{State: Failed, Error: model}, Failed, "[]"},
		{"a failure of a machine", Report{State: Failed, Error: machine}, Waiting, "[m1]"},
		{"a process was killed", Report{State: Held, Error: machine}, Waiting, "[m1]"},
		{"its agent has left", Report{State: Canceled}, Waiting, "[]"},
		{"progress", Report{State: Running}, Running, "[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 2, 1, Rules{})
			b.submit("e", 1, 2)
			b.run()
			b.want("e", 0, Running)
			b.report("e", 0, c.report)
			b.decide(0)
			if c.want == Waiting {
				b.want("e", 0, Held)
				b.wantAsks("m0-0 TERMINATED, m1-0 TERMINATED")
				b.obey()
				b.decide(0)
			}
			b.want("e", 0, c.want)
			if got := fmt.Sprint(b.piece("e", 0).Fault); got != c.fault {
				t.Errorf("at fault are %s, want %s", got, c.fault)
			}
		})
	}
}

func TestOldReportsAreRemoved(t *testing.T) {
	b := newBench(t, 2, 1, Rules{})
	b.submit("e", 1, 1)
	b.run()
	b.report("e", 0, Report{State: Held, Error: &Error{Type: ErrorMachine}})
	b.run()
	b.want("e", 0, Running)
	if p := b.piece("e", 0); p.Attempt != 2 || p.Gang[0].Member != "m1" {
		t.Fatalf("found %+v", p.Piece)
	}
	b.report("e", 0, Report{Attempt: 1, State: Finished, Kept: &Kept{Hash: "h"}})
	b.decide(0)
	b.want("e", 0, Running)
	if len(b.last) != 1 || b.last[0].Do != DoDrop || b.last[0].Report.Report.Attempt != 1 {
		t.Errorf("found %+v", b.last)
	}
}

// TestAttempts has a machine's failures be tried again, so many times.
func TestAttempts(t *testing.T) {
	b := newBench(t, 1, 1, Rules{})
	b.submit("e", 1, 1)
	for attempt := 1; attempt <= 3; attempt++ {
		b.run()
		b.want("e", 0, Running)
		b.report("e", 0, Report{State: Held, Error: &Error{Type: ErrorMachine, Message: "killed"}})
		b.decide(0)
		b.obey()
		b.decide(0)
		if p := b.piece("e", 0); attempt < 3 && (p.State != Waiting || p.Wait <= 0 || p.Wait > time.Second<<attempt) {
			t.Errorf("attempt %d: %+v", attempt, p.Piece)
		}
	}
	b.want("e", 0, Failed)
	if p := b.piece("e", 0); p.Error.Message != "killed" || p.Error.Decided != "given up by m0 after 3 of 3 attempts" {
		t.Errorf("found %+v", p.Error)
	}
	b.PutWish("e", Wish{Number: 2, Want: WantRun, Retry: 1})
	b.run()
	b.want("e", 0, Running)
	if p := b.piece("e", 0); p.Attempt != 4 || p.Spared != 3 || len(p.Fault) > 0 {
		t.Errorf("found %+v", p.Piece)
	}
	if x := b.experiments["e"].standing; x.Retry != 1 || x.Ended || x.Wish != 2 {
		t.Errorf("found %+v", x)
	}
}

// TestRefused: what a machine refuses to start isn't tried, however often, and it is at fault with nothing.
func TestRefused(t *testing.T) {
	b := newBench(t, 1, 1, Rules{})
	b.submit("e", 1, 1)
	for range 5 {
		b.run()
		b.want("e", 0, Running)
		b.report("e", 0, Report{State: Held, Error: &Error{Where: "m0", Type: ErrorRefused, Message: "disk full"}})
		b.decide(0)
		b.obey()
		b.decide(0)
		b.want("e", 0, Waiting)
	}
	if p := b.piece("e", 0); p.Attempt != 5 || p.Spared != 5 || len(p.Fault) > 0 || p.Wait <= 0 {
		t.Errorf("found %+v", p.Piece)
	}
	b.run()
	b.report("e", 0, Report{State: Held, Error: &Error{Where: "m0", Type: ErrorMachine, Message: "killed"}})
	b.decide(0)
	if p := b.piece("e", 0); p.Attempt != 6 || p.Spared != 5 || len(p.Fault) != 1 {
		t.Errorf("found %+v", p.Piece)
	}
}

// TestLost has a server of a gang be lost in each way.
func TestLost(t *testing.T) {
	other := cluster.Assignment{Experiment: "x", Replication: "0", Partition: 0}
	for _, c := range []struct {
		name string
		lose func(b *bench, sv cluster.Server)
		want PieceState
	}{
		{"gone", func(b *bench, sv cluster.Server) { b.DropServer(sv.Name) }, Held},
		{"back in time", func(b *bench, sv cluster.Server) {
			b.DropServer(sv.Name)
			b.decide(3 * time.Second)
			sv.Incarnation = "j"
			b.PutServer(sv)
		}, Running},
		{"back in time, and empty", func(b *bench, sv cluster.Server) {
			sv.Incarnation, sv.State, sv.Info.Assignment = "j", cluster.Available, nil
			b.PutServer(sv)
		}, Held},
		{"broken", func(b *bench, sv cluster.Server) {
			sv.State = cluster.Broken
			b.PutServer(sv)
		}, Held},
		{"somebody else's", func(b *bench, sv cluster.Server) {
			sv.Info.Assignment, sv.Writing = &other, sv.Writing+1
			b.PutServer(sv)
		}, Held},
		{"its partition failed", func(b *bench, sv cluster.Server) {
			sv.Last = &cluster.Outcome{Assignment: *sv.Info.Assignment, Result: cluster.PartitionFailed,
				Error: "no room"}
			sv.State, sv.Info.Assignment = cluster.Available, nil
			b.PutServer(sv)
		}, Held},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 2, 1, Rules{})
			b.submit("e", 1, 2)
			b.run()
			c.lose(b, b.servers["m1-0"].Server)
			b.decide(0)
			b.want("e", 0, Running) // a report may come yet
			b.decide(5 * time.Second)
			b.want("e", 0, c.want)
			if c.want == Held {
				b.wantAsks("m0-0 TERMINATED")
				b.obey()
				b.decide(0)
				b.want("e", 0, Waiting)
			}
		})
	}
}

// TestNeverEnds has a server not give its partition up.
func TestNeverEnds(t *testing.T) {
	b := newBench(t, 2, 1, Rules{})
	b.submit("e", 1, 1)
	b.run()
	b.report("e", 0, Report{State: Held, Error: &Error{Type: ErrorMachine}})
	b.decide(0)
	b.wantAsks("m0-0 TERMINATED")
	a := b.piece("e", 0).assignment(0)
	b.be("m0-0", cluster.Active, &a)
	b.decide(59 * time.Second)
	b.want("e", 0, Held)
	b.decide(time.Second)
	b.wantAsks("m0-0 EXITED")
	b.decide(60 * time.Second)
	b.decide(3 * time.Second)
	b.want("e", 0, Dispatched)
	if p := b.piece("e", 0); p.Gang[0].Name != "m1-0" {
		t.Errorf("found %+v", p.Piece)
	}
}

func TestCancel(t *testing.T) {
	b := newBench(t, 1, 2, Rules{})
	b.submit("e", 10, 1)
	b.run()
	b.want("e", 1, Running)
	b.PutWish("e", Wish{Number: 2, Want: WantCancel, By: "ann", Why: "wrong seed"})
	b.decide(0)
	b.want("e", 0, Canceling)
	b.wantAsks("m0-0 TERMINATED, m0-1 TERMINATED")
	b.report("e", 1, Report{State: Finished, Kept: &Kept{Hash: "h"}}) // it had ended before
	b.obey()
	b.decide(0)
	b.want("e", 0, Canceled)
	b.want("e", 1, Finished)
	x := b.experiments["e"].standing
	if !x.Ended || x.Status != StatusCanceled || x.Pieces[Canceled] != 9 || x.Pieces[Finished] != 1 || x.Wish != 2 ||
		x.Reason != "cancelled by ann: wrong seed" {
		t.Errorf("found %+v", x)
	}
	b.PutWish("e", Wish{Number: 3, Want: WantCancel, By: "ann", Why: "wrong seed"})
	if b.decide(0); len(b.last) > 0 {
		t.Errorf("cancelled again: %+v", b.last)
	}
	b.PutWish("e", Wish{Number: 4, Want: WantRun, Retry: 1})
	b.run()
	b.want("e", 0, Running)
	b.want("e", 1, Finished)
	b.want("e", 2, Running)
}

func TestPause(t *testing.T) {
	b := newBench(t, 1, 1, Rules{})
	b.submit("e", 2, 1)
	b.run()
	b.PutWish("e", Wish{Number: 2, Want: WantPause})
	b.decide(0)
	b.wantAsks("m0-0 PAUSED")
	b.obey()
	b.decide(0)
	b.want("e", 0, Paused)
	if x := b.experiments["e"].standing; x.Wish != 2 {
		t.Errorf("found %+v", x)
	}
	b.PutWish("e", Wish{Number: 3, Want: WantRun})
	b.decide(0)
	b.wantAsks("m0-0 ACTIVE")
	b.obey()
	b.decide(0)
	b.want("e", 0, Running)
	b.PutWish("e", Wish{Number: 4, Want: WantPause})
	b.decide(0)
	b.obey()
	b.decide(0)
	b.decide(10 * time.Minute)
	b.want("e", 0, Held)
	b.wantAsks("m0-0 TERMINATED")
	b.obey()
	b.decide(0)
	b.decide(time.Minute)
	b.want("e", 0, Waiting)
	b.want("e", 1, Waiting)
	if p := b.piece("e", 0); p.Spared != 1 || len(p.Fault) > 0 {
		t.Errorf("found %+v", p.Piece)
	}
	b.PutWish("e", Wish{Number: 5, Want: WantRun})
	b.run()
	b.want("e", 0, Running)
}

// TestSilence has a gang's simulated time stand still.
func TestSilence(t *testing.T) {
	b := newBench(t, 2, 1, Rules{})
	b.submit("e", 1, 1)
	b.run()
	events := uint64(0)
	step := func(wait time.Duration, now float64, more uint64, want PieceState) {
		t.Helper()
		events += more
		b.report("e", 0, Report{State: Running, Progress: Progress{Now: now, Events: events}})
		b.decide(0)
		b.decide(wait)
		b.want("e", 0, want)
	}
	step(119*time.Second, 1, 1, Running)
	step(119*time.Second, 2, 1, Running)
	b.report("e", 0, Report{State: Running, Progress: Progress{Now: 2, Events: 50}})
	events = 50
	b.decide(time.Second) // looked at: 30 s more, as events happen
	step(29*time.Second, 2, 1, Running)
	step(time.Second, 2, 1, Running) // 15 s more
	step(14*time.Second, 2, 1, Running)
	step(time.Second, 2, 0, Running) // 7.5 s more
	step(8*time.Second, 2, 0, Held)
	if p := b.piece("e", 0); p.Error.Type != ErrorDeadline || !strings.Contains(p.Error.Message, "stood at 2 s") {
		t.Errorf("found %+v", p.Error)
	}
}

func TestTotal(t *testing.T) {
	b := newBench(t, 1, 1, Rules{})
	b.submit("e", 1, 1, func(s *Spec) { s.Limits.Total = time.Minute })
	b.run()
	for range 2 {
		b.report("e", 0, Report{State: Running, Progress: Progress{Now: float64(b.version)}})
		b.decide(20 * time.Second)
		b.want("e", 0, Running)
	}
	b.decide(20 * time.Second)
	b.want("e", 0, Held)
}

// TestAdopted has another leader go on with what runs, and end what doesn't count.
func TestAdopted(t *testing.T) {
	b := newBench(t, 2, 2, Rules{})
	b.submit("e", 3, 1)
	gang := func(name string) []Server { return []Server{{Name: name, Member: name[:2], Incarnation: "i"}} }
	id := func(n int) PieceID { return PieceID{0, 0, n} }
	b.PutPiece("e", id(0), Piece{State: Running, Attempt: 2, Gang: gang("m0-0")})
	b.PutPiece("e", id(1), Piece{State: Dispatched, Attempt: 1, Gang: gang("m0-1")})
	b.PutPiece("e", id(2), Piece{State: Finished, Attempt: 1, Kept: &Kept{}, Gang: gang("m1-0")})
	a := b.piece("e", 0).assignment(0)
	b.be("m0-0", cluster.Active, &a)
	old := cluster.Assignment{Experiment: "e", Replication: "0.0.0.1", Partition: 0}
	b.be("m1-1", cluster.Active, &old)
	run := cluster.Assignment{Experiment: "night", Replication: "0", Partition: 0}
	b.be("m1-0", cluster.Active, &run)
	b.decide(0)
	b.want("e", 0, Running)
	b.want("e", 1, Dispatched)
	b.wantAsks("m0-1 RESERVED, m1-1 TERMINATED")
}

func TestSteps(t *testing.T) {
	b := newBench(t, 1, 4, Rules{})
	b.submit("e", 1, 1, func(s *Spec) {
		s.Steps = append(s.Steps, Step{Name: "b", After: []string{"a"}, Points: make([][]string, 1), Replications: 1,
			Workers: 1}, Step{Name: "c", After: []string{"b"}, Points: make([][]string, 1), Replications: 2,
			Workers: 1})
	})
	b.run()
	if len(b.experiments["e"].pieces) != 1 {
		t.Errorf("found %v", b.experiments["e"].pieces)
	}
	b.report("e", 0, Report{State: Finished, Kept: &Kept{}})
	b.run()
	second := b.experiments["e"].pieces[PieceID{1, 0, 0}]
	if second == nil || second.State != Running {
		t.Fatalf("found %+v", second)
	}
	b.version++
	b.PutReport(ReportAt{"m0", "e", second.id, Report{Attempt: 1, State: Failed, Error: &Error{Type: ErrorModel}},
		metastore.Version{Created: 1, Changed: b.version}})
	b.run()
	x := b.experiments["e"].standing
	if !x.Ended || x.Status != StatusFailed || x.Pieces[Canceled] != 2 || x.Pieces[Failed] != 1 {
		t.Errorf("what depends on a failed step isn't cancelled: %+v", x)
	}
}

func TestKeep(t *testing.T) {
	b := newBench(t, 1, 1, Rules{Keep: 2})
	for i := range 4 {
		b.submit(fmt.Sprint("e", i), 1, 1)
	}
	b.run()
	for range 4 {
		for i := range 4 {
			if b.piece(fmt.Sprint("e", i), 0).State == Running {
				b.report(fmt.Sprint("e", i), 0, Report{State: Finished, Kept: &Kept{}})
			}
		}
		b.run()
	}
	if len(b.experiments) != 4 {
		t.Errorf("found %d before a retry of a submission can't come any more", len(b.experiments))
	}
	b.decide(300 * time.Second)
	if len(b.experiments) != 2 || b.experiments["e0"] != nil || b.experiments["e1"] != nil {
		t.Errorf("found %v", b.experiments)
	}
	var removed []string
	for _, a := range b.last {
		if a.Do == DoRemove {
			removed = append(removed, a.ID)
		}
	}
	if !slices.Equal(removed, []string{"e0", "e1"}) {
		t.Errorf("found %v removed, by %+v", removed, b.last)
	}
}
