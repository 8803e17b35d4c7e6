// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/disco-sim/disco/shm"
)

// within fails the test if f doesn't return.
func within(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { f(); close(done) }()
	select {
	case <-done:
	case <-time.After(testTimeout):
		t.Fatalf("%s doesn't end", what)
	}
}

// until polls a condition.
func until(t testing.TB, what string, ready func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); !ready(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, testTimeout)
		}
	}
}

// held is what waits in a flow, as cost.
func held(c *carrier, id flowID) (cost uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.flows[id]; f != nil {
		for _, it := range f.items {
			cost += it.cost
		}
	}
	return cost
}

// full waits until a window of a flow is used up, but for what was passed on since the last credit.
func full(t testing.TB, c *carrier, id flowID) {
	t.Helper()
	until(t, "a full window", func() bool { return held(c, id) > windowBytes/4*3 })
}

// failure is a message of many bytes.
func failure(text string) *worker.Message {
	return &worker.Message{Type: worker.TypeFailed, Failed: &worker.Failed{Error: text}}
}

// Neither a launcher that doesn't read a worker's control stream, nor a worker that doesn't, holds another worker;
// memory for them is bounded; and all arrives when they read.
func TestSlowReaders(t *testing.T) {
	r := newRig(t, 1, nil)
	defer r.close()
	large := failure(strings.Repeat("something went wrong; ", 100_000)) // 2.2 MB, several windows
	read := make(chan struct{})
	r.sites[0].run = func(f *fake) {
		switch f.index {
		case 0: // sends much
			f.ok = worker.WriteMessage(f.spec.Control, large) == nil
		case 1: // reads late
			select {
			case <-read:
			case <-f.killed:
			}
			m, err := worker.ReadMessage(f.spec.Control)
			f.ok = err == nil && m.Failed.Error == large.Failed.Error
		default:
			f.obey()
		}
	}
	s := r.newSet(0, 1, 0, 0, 0)
	defer s.close()
	for w := range 3 {
		s.start(w, false)
	}
	sent := make(chan error, 1)
	go func() { sent <- worker.WriteMessage(s.ours[1], large) }()
	up, down := r.hub.machines[0].express, r.spokes[0].express
	full(t, up, flowID{0, 0})
	full(t, down, flowID{0, 1})
	for n := range 100 { // nobody else waits for them
		s.ask(2, &worker.Message{Type: worker.TypePrepare, Prepare: &worker.Prepare{Replication: n}}, worker.TypeReady)
		s.ask(2, &worker.Message{Type: worker.TypeGo}, worker.TypeDone)
	}
	for _, end := range []struct {
		c  *carrier
		id flowID
	}{{up, flowID{0, 0}}, {down, flowID{0, 1}}} {
		if cost := held(end.c, end.id); cost > windowBytes+costMost {
			t.Errorf("%d bytes wait, at most %d are allowed", cost, windowBytes+costMost)
		}
	}
	close(read)
	if m, err := worker.ReadMessage(s.ours[0]); err != nil || m.Failed.Error != large.Failed.Error {
		t.Error("what was sent up hasn't come: ", err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	for w := range 2 {
		if exit := r.to.awaitExit(0, w); !exit.OK {
			t.Errorf("worker %d: %+v", w, exit)
		}
	}
	if _, err := worker.ReadMessage(s.ours[0]); err != io.EOF {
		t.Errorf("behind the last message: %v, want %v", err, io.EOF)
	}
}

// Output that the launcher doesn't take waits, within its window; notes and other machines' workers don't wait for it.
func TestSlowOutput(t *testing.T) {
	r := newRig(t, 2, nil)
	defer r.close()
	r.to.hold = make(chan struct{})
	const lines = 20_000
	r.sites[0].run = func(f *fake) {
		for n := range lines {
			f.output(fmt.Sprintf("a line with the number %d\n", n))
		}
	}
	s := r.newSet(0, 1, 0, 1)
	defer s.close()
	s.start(0, false)
	s.start(1, false)
	full(t, r.hub.machines[0].express, flowID{0, 0})
	s.ask(1, &worker.Message{Type: worker.TypePrepare, Prepare: &worker.Prepare{}}, worker.TypeReady)
	r.spokes[0].Note("all is well")
	r.to.await("a note", func() bool { return len(r.to.notes) == 1 && r.to.notes[0] == "h0: all is well" })
	close(r.to.hold)
	r.to.awaitExit(0, 0)
	got := r.to.outputs[[2]int{0, 0}]
	if n := bytes.Count(got, []byte("\n")); n != lines || !bytes.HasSuffix(got, fmt.Appendf(nil, "%d\n", lines-1)) {
		t.Errorf("%d lines have come, want %d", n, lines)
	}
}

// A set with the same input as another one shares its segment; another input comes by itself. Segments are there as
// long as a set has them.
func TestSharedInput(t *testing.T) {
	r := newRig(t, 2, nil)
	defer r.close()
	sets := []*made{r.newSet(0, 1<<20, 0)}
	for set, machine := range []int32{1: 0, 2: 1, 3: 0} {
		if set == 0 {
			continue
		}
		m := r.newOrder(set, 1<<20, machine)
		if set < 3 {
			m.order.Input.Close()
			m.order.Input = sets[0].order.Input
		}
		var err error
		if m.ws, _, err = r.hub.Make(m.order); err != nil {
			t.Fatal(err)
		}
		sets = append(sets, m)
	}
	at := func(machine, set int) *shm.Segment { return r.sites[machine].sets[set].order.Input }
	if at(0, 0) != at(0, 1) || at(0, 0) == at(0, 3) || at(0, 0) == at(1, 2) {
		t.Error("sets share an input that they shouldn't, or don't share one")
	}
	sets[0].ws.Close()
	until(t, "the end of set 0", func() bool { return r.spokes[0].worker(0, 0) == nil && r.sets(0) == 2 })
	for set := 1; set < 4; set++ {
		m := r.sites[sets[set].order.Plan.Machine[0]].sets[set]
		if !bytes.Equal(m.order.Input.Body(), sets[set].order.Input.Body()) {
			t.Errorf("set %d has another input", set)
		}
	}
	for _, m := range sets {
		m.close()
	}
}

// sets is how many there are on a machine.
func (r *rig) sets(machine int) int {
	r.spokes[machine].mu.Lock()
	defer r.spokes[machine].mu.Unlock()
	return len(r.spokes[machine].sets)
}

// As many sets are there as may be; one more waits for the end of one.
func TestManySets(t *testing.T) {
	r := newRig(t, 2, nil)
	defer r.close()
	var all []*made
	for set := range child.SetsMax {
		all = append(all, r.newSet(set, 100+set, int32(set%2)))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		one := r.newSet(child.SetsMax, 100, 0, 1)
		one.close()
	}()
	all[7].close()
	within(t, "one more set", func() { <-done })
	for set, m := range all {
		if set != 7 {
			m.close()
		}
	}
	until(t, "the end of all sets", func() bool { return r.sets(0)+r.sets(1) == 0 })
	until(t, "the hub's end of them", func() bool {
		r.hub.mu.Lock()
		defer r.hub.mu.Unlock()
		return len(r.hub.sets) == 0
	})
	for _, m := range r.hub.machines {
		if len(m.express.flows) != 1 || len(m.bulk.flows) != 0 { // nobody changes them any more
			t.Error("the hub still has flows of sets")
		}
	}
}

// What a site says about its machine reaches the launcher, with what is refused marked as such, and ends a Make.
func TestMachineFails(t *testing.T) {
	for what, c := range map[string]struct {
		err     error
		refused bool
	}{"failed": {errors.New("no memory"), false}, "refused": {child.Refuse(errors.New("no memory")), true}} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, 2, nil)
			defer r.close()
			r.sites[1].making = func(child.Order) error { return c.err }
			m := r.newOrder(0, 1, 0, 1)
			defer m.close()
			_, _, err := r.hub.Make(m.order)
			if err == nil || !strings.Contains(err.Error(), "h1: no memory") ||
				child.NewFailed(err).Refused != c.refused {
				t.Errorf("%v", err)
			}
			r.to.await("the failure", func() bool { return len(r.to.failed) > 0 })
			if got := child.NewFailed(r.to.failed[0]); got.Refused != c.refused || got.Text != "h1: no memory" {
				t.Errorf("%+v", got)
			}
		})
	}
}

// All machines that refuse a set are named, in their order, whichever is first; one that says nothing of it is waited
// for no longer than that may take. Of many that refuse it with long reasons the last are named alone.
func TestManyRefuse(t *testing.T) {
	const machines = 5
	for _, c := range []struct {
		name   string
		limit  time.Duration
		reason string
		silent bool // of the last one
		want   string
	}{
		{"in another order", testTimeout, "no memory", false,
			"h0: no memory\nh1: no memory\nh2: no memory\nh3: no memory\nh4: no memory"},
		{"one says nothing", time.Second, "no memory", true,
			"h0: no memory\nh1: no memory\nh2: no memory\nh3: no memory"},
		{"long reasons", testTimeout, strings.Repeat("x", 1400), false, "h0: " + strings.Repeat("x", 1400) +
			"\nh1: " + strings.Repeat("x", 1400) + "\nrefused as well by h2, h3, h4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, machines, nil)
			defer r.close()
			r.hub.cfg.RefuseTimeout = c.limit
			release := make(chan struct{})
			var turn [machines + 1]chan struct{}
			for m := range turn {
				turn[m] = make(chan struct{})
			}
			close(turn[machines])
			for m := range machines {
				r.sites[m].making = func(child.Order) error {
					<-turn[m+1]
					close(turn[m])
					if c.silent && m == machines-1 {
						<-release
						return nil
					}
					return child.Refuse(errors.New(c.reason))
				}
			}
			m := r.newOrder(0, 1, 0, 1, 2, 3, 4)
			_, _, err := r.hub.Make(m.order)
			close(release)
			if err == nil || err.Error() != c.want || !child.NewFailed(err).Refused {
				t.Errorf("found %v, want %s, refused", err, c.want)
			}
			r.to.await("the failure", func() bool { return len(r.to.failed) > 0 })
			if got := child.NewFailed(r.to.failed[0]); len(r.to.failed) > 1 || !got.Refused || got.Text != c.want {
				t.Errorf("the launcher is told %v, want %s once", r.to.failed, c.want)
			}
			m.close()
		})
	}
}

// A control message that the site refuses isn't passed on, and the run fails; so does it by a worker that sends no
// message.
func TestRefusedMessages(t *testing.T) {
	r := newRig(t, 1, nil)
	defer r.close()
	r.sites[0].run = func(f *fake) {
		if f.index == 1 {
			_, _ = f.spec.Control.WriteString("no message at all")
		}
		f.obey()
	}
	s := r.newSet(0, 1, 0, 0)
	defer s.close()
	ws := r.sites[0].sets[0]
	ws.refuse = worker.TypeGo
	s.start(0, false)
	s.ask(0, &worker.Message{Type: worker.TypePrepare, Prepare: &worker.Prepare{}}, worker.TypeReady)
	if err := worker.WriteMessage(s.ours[0], &worker.Message{Type: worker.TypeGo}); err != nil {
		t.Fatal(err)
	}
	r.to.await("a failure", func() bool { return len(r.to.failed) == 1 })
	s.start(1, false)
	r.to.await("a failure", func() bool { return len(r.to.failed) == 2 })
	a, b := r.to.failed[0].Error(), r.to.failed[1].Error()
	if a != "h0: refused: go" || !strings.Contains(b, "version") {
		t.Errorf("%q, %q", a, b)
	}
	s.ws.Kill(0)
	s.ws.Kill(1)
	s.ws.Kill(1) // says nothing
	r.to.awaitExit(0, 0)
	r.to.awaitExit(0, 1)
}

// A worker whose launcher closes its end of the control stream gets to know, and a disk that is full ends the run.
func TestStreamsThatEnd(t *testing.T) {
	r := newRig(t, 1, nil)
	defer r.close()
	s := r.newSet(0, 1, 0, 0)
	defer s.close()
	s.start(0, false).Close()
	if exit := r.to.awaitExit(0, 0); exit.OK {
		t.Errorf("%+v", exit)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	ours, theirs, err := workerproc.ControlStream()
	if err != nil {
		t.Fatal(err)
	}
	s.ours[1] = ours
	s.ws.Start(1, child.Spec{Control: theirs, Trace: full})
	s.ask(1, &worker.Message{Type: worker.TypePrepare, Prepare: &worker.Prepare{}}, worker.TypeReady)
	if err := worker.WriteMessage(ours, &worker.Message{Type: worker.TypeGo}); err != nil {
		t.Fatal(err)
	}
	r.to.await("the failure", func() bool { return len(r.to.failed) > 0 })
	const want = "on the launcher's machine: writing the trace of worker 1: no space left on device"
	if got := r.to.failed; len(got) != 1 || got[0].Error() != want {
		t.Errorf("%v, want %q", got, want)
	}
	_ = ours.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if m, err := worker.ReadMessage(ours); err == nil {
		t.Errorf("%v is passed on, though what it is about isn't in the file", m.Type)
	}
}

// A machine whose folder for temporary files is gone says so in the place of a worker, which it doesn't start, and
// goes on with the others.
func TestNoFolder(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	r := newRig(t, 1, nil)
	defer r.close()
	s := r.newSet(0, 1, 0, 0)
	defer s.close()
	t.Setenv("TMPDIR", gone)
	theirs, trace := s.file() // in a folder of the test
	s.trace[0] = trace
	ours, control, err := workerproc.ControlStream()
	if err != nil {
		t.Fatal(err)
	}
	s.ours[0] = ours
	s.ws.Start(0, child.Spec{Control: control, Trace: theirs})
	_ = ours.SetReadDeadline(time.Now().Add(testTimeout))
	got, err := worker.ReadMessage(ours)
	want := worker.Failed{Wrong: true, File: true, Error: "relay: a temporary file for a worker's trace, profile or " +
		"checkpoints: " + gone + " can't be written: no such file or directory"}
	if err != nil || got.Failed == nil || *got.Failed != want {
		t.Errorf("found %+v, %v, want %+v", got, err, want)
	}
	if exit := r.to.awaitExit(0, 0); exit.OK || exit.Lost || exit.Text != want.Error {
		t.Errorf("%+v", exit)
	}
	s.start(1, false)
	s.ask(1, &worker.Message{Type: worker.TypePrepare, Prepare: &worker.Prepare{}}, worker.TypeReady)
	if f := r.sites[0].fake(0, 0); f != nil || r.to.ends() {
		t.Errorf("the worker was started: %v, or the run has ended", f)
	}
}

// Boards follow while a worker runs, over connections that are cut too; one that can't be read is left as it was.
func TestBoards(t *testing.T) {
	r := newRig(t, 1, func() int { return 40 })
	defer r.close()
	var broken sync.Map
	r.sites[0].shows = func() error {
		if _, ok := broken.Load(0); ok {
			return errors.New("broken")
		}
		return nil
	}
	s := r.newSet(0, 1, 0)
	defer s.close()
	s.start(0, false)
	until(t, "a worker", func() bool { return r.sites[0].fake(0, 0) != nil })
	f := r.sites[0].fake(0, 0)
	for n := uint64(1); n < 4; n++ {
		f.show(n)
		until(t, "its board", func() bool { return s.number(0) == n })
	}
	broken.Store(0, true)
	f.show(9)
	if err := worker.WriteMessage(s.ours[0], &worker.Message{Type: worker.TypeExit}); err != nil {
		t.Fatal(err)
	}
	r.to.awaitExit(0, 0)
	if n := s.number(0); n != 3 {
		t.Errorf("a board that can't be read shows %d", n)
	}
}

// fake is a worker that was started; nil: none.
func (s *site) fake(set, index int) *fake {
	s.mu.Lock()
	ws := s.sets[set]
	s.mu.Unlock()
	if ws == nil {
		return nil
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.all[index]
}

// phases are moments at which something ends; each returns when it has come.
var phases = []struct {
	name string
	run  func(r *rig, m *made, blocked chan struct{})
}{
	{"while its memory is made", func(r *rig, m *made, blocked chan struct{}) { <-blocked }},
	{"when it was made", func(r *rig, m *made, _ chan struct{}) { m.await() }},
	{"while workers run", func(r *rig, m *made, _ chan struct{}) {
		m.await()
		for w := range 3 {
			m.start(w, true)
			m.ask(w, &worker.Message{Type: worker.TypePrepare, Prepare: &worker.Prepare{}}, worker.TypeReady)
		}
	}},
	{"with full windows", func(r *rig, m *made, _ chan struct{}) {
		m.await()
		large := failure(strings.Repeat("x", 3<<20))
		run := func(f *fake) { f.ok = worker.WriteMessage(f.spec.Control, large) == nil }
		for _, s := range r.sites {
			s.run = run
		}
		for w := range 3 {
			ours := m.start(w, true)
			go func() { _ = worker.WriteMessage(ours, large) }()
		}
		full(r.t, r.hub.machines[1].express, flowID{0, 2})
		full(r.t, r.spokes[1].express, flowID{0, 2})
	}},
	{"while a worker doesn't end", func(r *rig, m *made, _ chan struct{}) {
		m.await()
		for _, s := range r.sites {
			s.run = func(f *fake) { <-f.killed }
		}
		m.start(0, false)
		m.start(2, false)
		until(r.t, "a worker", func() bool { return r.sites[1].fake(0, 2) != nil })
	}},
}

// begin makes a set in the background.
func (r *rig) begin(m *made) {
	m.done = make(chan struct{})
	go func() {
		defer close(m.done)
		m.ws, m.remark, m.err = r.hub.Make(m.order)
	}()
}

func (m *made) await() {
	m.r.t.Helper()
	within(m.r.t, "Make", func() { <-m.done })
	if m.err != nil {
		m.r.t.Fatal(m.err)
	}
}

// ends are how a run ends in the middle, on the second of two machines.
var ends = []struct {
	name string
	run  func(r *rig)
	lost string // text of the loss; "": none
}{
	{"a session that fails", func(r *rig) { r.far[1][0].Close("its agent is gone") }, "its agent is gone"},
	{"the other session", func(r *rig) { r.far[1][1].Close("its disk is full") }, "its disk is full"},
	{"a loss that is known", func(r *rig) { r.hub.Lost(1, "h1 was killed"); r.hub.Lost(1, "twice") }, "h1 was killed"},
	{"the end of the hub", func(r *rig) { r.hub.Close() }, ""},
}

// A machine that is lost, and a hub that is closed, in each phase of a set: whatever waits ends, the loss is reported
// once, and nothing is left.
func TestLoss(t *testing.T) {
	for _, p := range phases {
		for _, e := range ends {
			t.Run(p.name+", "+e.name, func(t *testing.T) {
				r := newRig(t, 2, nil)
				blocked, release := make(chan struct{}), make(chan struct{})
				if p.name == phases[0].name {
					r.sites[1].making = func(child.Order) error {
						close(blocked)
						<-release
						return nil
					}
				}
				m := r.newOrder(0, 1<<20, 0, 0, 1)
				r.begin(m)
				p.run(r, m, blocked)
				within(t, e.name, func() { e.run(r) })
				if e.lost != "" {
					r.to.await("the loss", func() bool { return strings.Contains(r.to.lost[1], e.lost) })
				}
				within(t, "Make", func() { <-m.done })
				if p.name == phases[0].name && (m.err == nil || !strings.Contains(m.err.Error(), e.lost)) {
					t.Errorf("Make: %v", m.err)
				}
				if m.ws != nil && e.lost != "" {
					late(t, r, m)
				}
				close(release)
				within(t, "the set's end", m.close)
				within(t, "the spokes' end", func() { r.spokes[0].Close(); r.spokes[1].Close() })
				within(t, "the end", func() { r.hub.Close(); r.closeSessions("the test is over"); r.serving.Wait() })
				if got := r.to.failed; len(got) > 0 {
					t.Errorf("failed: %v", got)
				}
			})
		}
	}
}

// late uses workers of a machine that is lost: one that was to be started has ended.
func late(t *testing.T, r *rig, m *made) {
	if m.ours[2] == nil {
		m.start(2, false)
		if exit := r.to.awaitExit(0, 2); !exit.Lost || exit.Text == "" {
			t.Errorf("started later: %+v", exit)
		}
	}
	m.ws.Kill(2)
	m.ws.Release()
}

// A spoke that is closed in any phase ends its workers, and nothing of it is left.
func TestSpokeCloses(t *testing.T) {
	for _, p := range phases[1:] {
		t.Run(p.name, func(t *testing.T) {
			r := newRig(t, 2, nil)
			m := r.newOrder(0, 1<<20, 0, 0, 1)
			r.begin(m)
			p.run(r, m, nil)
			within(t, "the spoke", r.spokes[1].Close)
			if n := r.sets(1); n != 0 {
				t.Errorf("%d sets are left", n)
			}
			r.far[1][session.Express].Close("closed")
			r.to.await("the loss", func() bool { return r.to.lost[1] != "" })
			within(t, "the set's end", m.close)
			r.spokes[0].Close()
			within(t, "the end", func() { r.hub.Close(); r.closeSessions("the test is over"); r.serving.Wait() })
		})
	}
}

// A machine that doesn't answer is named when the time is over; time begins anew with what moves.
func TestMakeTimeout(t *testing.T) {
	r := newRig(t, 2, nil)
	r.hub.cfg.MakeTimeout = 50 * time.Millisecond
	release := make(chan struct{})
	r.sites[1].making = func(child.Order) error { <-release; return nil }
	m := r.newOrder(0, 1<<20, 0, 1)
	_, _, err := r.hub.Make(m.order)
	if err == nil || !strings.Contains(err.Error(), "h1 about the memory of set 0") || !child.NewFailed(err).Refused {
		t.Errorf("%v", err)
	}
	close(release)
	m.close()
	until(t, "the end of the set", func() bool { return r.sets(0)+r.sets(1) == 0 })
	r.close()
}

// A launcher that gives a set up while it is made isn't held by a machine that takes long.
func TestGivenUp(t *testing.T) {
	r := newRig(t, 2, nil)
	release := make(chan struct{})
	r.sites[1].making = func(child.Order) error { <-release; return nil }
	m := r.newOrder(0, 1<<20, 0, 1)
	givenUp := make(chan struct{})
	m.order.GivenUp = givenUp
	r.begin(m)
	close(givenUp)
	within(t, "Make", func() { <-m.done })
	if m.err == nil {
		t.Error("a set that was given up is there")
	}
	close(release)
	m.close()
	until(t, "the end of the set", func() bool { return r.sets(0)+r.sets(1) == 0 })
	r.close()
}
