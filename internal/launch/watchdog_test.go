// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/procfs"
	"github.com/disco-sim/disco/internal/worker"
)

// watched is a watchdog over two workers, with a clock and boards of the test's own.
type watched struct {
	watchdog
	clock time.Time
	board testBoards
	notes []string
	done  [2]bool
	procs [2]string
	gone  bool // a machine is away
}

func newWatched(limit time.Duration, name Phase) *watched {
	w := &watched{clock: time.Unix(1000, 0), board: make(testBoards, 2), procs: [2]string{"running", "running"}}
	c := newConnections()
	for i := range 2 {
		c.workers = append(c.workers, &connection{index: i, number: i, pid: 1 + i,
			queue: make(chan *worker.Message, 100)})
	}
	w.watchdog = watchdog{
		conns: c, boards: w.board, limit: limit,
		note:         func(text string) { w.notes = append(w.notes, text) },
		now:          func() time.Time { return w.clock },
		processState: func(pid int) string { return w.procs[pid-1] },
		away:         func() bool { return w.gone },
	}
	w.begin(stage{phase: name}, func(i int) bool { return !w.done[i] })
	return w
}

// testBoards are boards that show how far workers are, and nothing else.
type testBoards []float64

func (b testBoards) reached(i int) (float64, bool)  { return b[i], b[i] > 0 }
func (b testBoards) lastCall(int) (string, float64) { return "", 0 }
func (b testBoards) progress() (float64, uint64)    { return 0, 0 }
func (b testBoards) waits() Waits                   { return Waits{On: -1} }
func (b testBoards) gathering() bool                { return true }
func (b testBoards) outside() bool                  { return false }
func (b testBoards) loads() []load                  { return nil }

// pass lets time go by, one tick after the other.
func (w *watched) pass(t *testing.T, d time.Duration, every func()) error {
	t.Helper()
	for end := w.clock.Add(d); w.clock.Before(end); {
		w.clock = w.clock.Add(w.period())
		if every != nil {
			every()
		}
		if err := w.check(); err != nil {
			return err
		}
	}
	return nil
}

// questions counts, and removes, the requests for a status that worker i got.
func (w *watched) questions(i int) (n int) {
	for len(w.conns.workers[i].queue) > 0 {
		if m := <-w.conns.workers[i].queue; m.Type != worker.TypeAsk {
			panic(m.Type)
		}
		n++
	}
	return n
}

// A run whose time rises, on any worker and however slowly, or whose workers answer that
// it does though their boards are old, has not stalled.
func TestStallNone(t *testing.T) {
	for _, c := range []struct {
		what  string
		every func(w *watched)
	}{
		{"boards rise", func(w *watched) { w.board[0]++ }},
		{"one board rises by little", func(w *watched) { w.board[0] = 1e6; w.board[1] += 1e-3 }},
		{"a machine is cut off", func(w *watched) { w.gone = true }},
		{"only answers rise", func(w *watched) {
			if w.questions(1) > 0 {
				w.handleStatus(1, &worker.Status{State: worker.StateWork, Peer: -1, Handler: "a/b",
					Epoch: float64(w.clock.Unix())})
			}
		}},
	} {
		w := newWatched(time.Minute, PhaseRun)
		if err := w.pass(t, time.Hour, func() { c.every(w) }); err != nil || len(w.notes) > 0 {
			t.Errorf("%s: %v, %q", c.what, err, w.notes)
		}
	}
}

// Without progress the run says so after the limit and not before, again after twice the
// time, and when it gets on; with EndStalled it ends.
func TestStallReport(t *testing.T) {
	waits := &worker.Status{State: worker.StateBound, Peer: 1, Epoch: 5, Text: "class 0: waits for worker 1\n"}
	hangs := &worker.Status{State: worker.StateWork, Peer: -1, Handler: "n1/cpu", Epoch: 5.5, Activations: 77,
		Text: "main.loop()\n\t/x.go:1"}
	for _, c := range []struct {
		what  string
		every func(w *watched)
	}{
		{"nothing moves", func(*watched) {}},
		// 60 looks at a step of 2^-50 each.
		{"ever smaller steps", func(w *watched) { w.board[1] += w.board[1] * 0x1p-50 }},
	} {
		w := newWatched(time.Minute, PhaseRun)
		w.board[0], w.board[1] = 5, 5
		every := func() {
			c.every(w)
			if w.questions(0)+w.questions(1) > 0 {
				w.handleStatus(0, waits)
				w.handleStatus(1, hangs)
			}
		}
		if err := w.pass(t, 58*time.Second, every); err != nil || len(w.notes) > 0 {
			t.Fatalf("%s: too early: %v, %q", c.what, err, w.notes)
		}
		if err := w.pass(t, 65*time.Second, every); err != nil || len(w.notes) != 1 {
			t.Fatalf("%s: %v, %q, want one report", c.what, err, w.notes)
		}
		for _, want := range []string{"no progress in simulated time", "all wait for worker 1",
			"worker 0 (process 1) waits for worker 1; everything before 5 is handled", "class 0: waits for worker 1",
			"worker 1 (process 2) is in the handler of n1/cpu at epoch 5.5, 77 calls", "main.loop()"} {
			if !strings.Contains(w.notes[0], want) {
				t.Errorf("%s: report lacks %q:\n%s", c.what, want, w.notes[0])
			}
		}
		if err := w.pass(t, 20*time.Minute, every); err != nil || len(w.notes) > 8 || len(w.notes) < 3 {
			t.Errorf("%s: %v, %d reports in 20 minutes", c.what, err, len(w.notes))
		}
		w.notes, w.board[0] = nil, 6
		if err := w.pass(t, time.Second, every); err != nil || len(w.notes) != 1 ||
			!strings.Contains(w.notes[0], "progress again") {
			t.Errorf("%s: %v, %q when it gets on", c.what, err, w.notes)
		}
		w.endStalled = true
		if err := w.pass(t, 3*time.Minute, every); !errors.Is(err, ErrStalled) ||
			!strings.Contains(err.Error(), "worker 1") {
			t.Errorf("%s: %v, want ErrStalled that names worker 1", c.what, err)
		}
	}
}

// Workers that don't answer are named; a limit of 0 says nothing; time in which the
// launcher itself was stopped doesn't count; workers that never get ready are reported.
func TestStallOthers(t *testing.T) {
	w := newWatched(time.Minute, PhaseRun)
	if err := w.pass(t, 70*time.Second, nil); err != nil || len(w.notes) != 1 ||
		strings.Count(w.notes[0], "doesn't answer") != 2 {
		t.Errorf("no answers: %v, %q", err, w.notes)
	}
	w = newWatched(0, PhaseRun)
	if err := w.pass(t, 24*time.Hour, nil); err != nil || len(w.notes) > 0 {
		t.Errorf("off: %v, %q", err, w.notes)
	}
	w = newWatched(time.Minute, PhaseRun)
	w.clock = w.clock.Add(time.Hour)
	if err := w.pass(t, 30*time.Second, nil); err != nil || len(w.notes) > 0 {
		t.Errorf("after a pause of the launcher: %v, %q", err, w.notes)
	}
	w = newWatched(time.Minute, PhaseStart)
	w.done[0] = true
	if err := w.pass(t, 70*time.Second, nil); err != nil || len(w.notes) != 1 ||
		!strings.Contains(w.notes[0], "while workers get ready") ||
		!strings.Contains(w.notes[0], "all wait for worker 1") {
		t.Errorf("start: %v, %q", err, w.notes)
	}
	w = newWatched(time.Minute, PhaseRun)
	w.procs[1] = "stopped"
	if err := w.pass(t, time.Second, nil); err != nil || len(w.notes) != 1 ||
		!strings.Contains(w.notes[0], "worker 1 (process 2) is stopped") {
		t.Errorf("stopped: %v, %q", err, w.notes)
	}
	w.procs[1] = "running"
	if err := w.pass(t, time.Second, nil); err != nil || len(w.notes) != 2 || !strings.Contains(w.notes[1], "goes on") {
		t.Errorf("goes on: %v, %q", err, w.notes)
	}
}

// A handler that never returns ends the run when that was asked for, and the error says
// whose it is, at what time, and where the model's code stands.
func TestStalledHandler(t *testing.T) {
	defer launchtest.Release()
	for _, transport := range append(transports(), over2) {
		cfg := config(transport, 2, launchtest.Scenario(4, 1e9, trouble(1, 3, launchtest.Hang)))
		cfg.Stall, cfg.EndStalled = 300*time.Millisecond, true
		cfg, done := settled(t, cfg)
		defer done()
		l, err := Prepare(cfg)
		if err != nil {
			t.Fatal(err)
		}
		l.timeouts.killed = 300 * time.Millisecond // a goroutine that hangs can't be ended
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		_, err = l.Run(ctx)
		if !errors.Is(err, ErrStalled) {
			t.Fatalf("%s: error is %v, want ErrStalled", transport, err)
		}
		for _, want := range []string{"all wait for worker 0", "the handler of n1/token at epoch 3", "launchtest.",
			"worker 1 ", "waits for worker 0"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error lacks %q:\n%v", transport, want, err)
			}
		}
	}
}

// lines keeps what is written to it.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A worker that is stopped for a while is named, and the run goes on with it to the same
// end.
func TestStoppedWorker(t *testing.T) {
	text := launchtest.Scenario(4, 400, "")
	want, err := run(t, config(TransportShm, 1, text))
	if err != nil {
		t.Fatal(err)
	}
	for _, transport := range []string{TransportShm, over2} {
		stoppedWorker(t, transport, want)
	}
}

func stoppedWorker(t *testing.T, transport string, want *Outcome) {
	var said lines
	cfg := config(transport, 2, launchtest.Scenario(4, 400, trouble(1, 3, launchtest.Stop)))
	cfg.Stderr, cfg.Stall = &said, 100*time.Millisecond
	awaited := "is stopped, by a signal"
	if transport == over2 {
		awaited = "worker 0 on h1 doesn't answer"
	}
	cfg.Progress = func(Progress) {
		// On a busy machine workers that get ready may stand still for as long, too, which is said before.
		if !strings.Contains(said.String(), "no progress") || !strings.Contains(said.String(), awaited) {
			return
		}
		for _, pid := range workers(t) {
			if procfs.State(pid) == procfs.Stopped {
				_ = syscall.Kill(pid, syscall.SIGCONT)
			}
		}
	}
	got, err := run(t, cfg)
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	if got.TraceHash != want.TraceHash {
		t.Errorf("trace hash %s after the pause, want %s", got.TraceHash, want.TraceHash)
	}
	texts := []string{"worker 0 (process ", "is stopped, by a signal or a debugger: the run waits for it",
		"all wait for worker 0", "goes on"}
	if transport == over2 {
		texts = []string{"all wait for worker 0 on h1", "worker 0 on h1 doesn't answer",
			"worker 1 on h2 waits for worker 0"}
	}
	for _, text := range texts {
		if !strings.Contains(said.String(), text) {
			t.Errorf("the run didn't say %q:\n%s", text, said.String())
		}
	}
}

// That results are collected is said once, and only when nothing is left to be simulated.
func TestReportGathering(t *testing.T) {
	var said []string
	s := supervisor{boards: testBoards{}, doing: func(format string, args ...any) {
		said = append(said, fmt.Sprintf(format, args...))
	}}
	s.reportGathering(&stopRequest{})
	if len(said) > 0 {
		t.Errorf("%q, before the last replication", said)
	}
	s.last = true
	for range 2 {
		s.reportGathering(&stopRequest{})
	}
	if len(said) != 1 || said[0] != "collecting the workers' results" {
		t.Errorf("%q", said)
	}
	// A run that was stopped says how far it has come before its results are there.
	s.last, s.stopping, s.gathered = false, true, false
	s.reportGathering(&stopRequest{limited: true, epoch: 2.5})
	if _, n := s.boards.progress(); said[1] != fmt.Sprintf("collecting the results of %d events up to 2.5 simulated "+
		"seconds", n) {
		t.Errorf("%q", said)
	}
}
