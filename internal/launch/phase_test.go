// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/procfs"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
)

// runAt runs with a look at every step of the protocol.
func runWithSteps(t *testing.T, cfg Config, at func(s *supervisor, point string)) (*Outcome, error) {
	t.Helper()
	cfg, done := settled(t, cfg)
	defer done()
	l, err := Prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l.onStep = at
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	out, err := l.Run(ctx)
	if ctx.Err() != nil {
		t.Fatalf("nothing came of it within %v: %v", testTimeout, err)
	}
	return out, err
}

// A worker that is killed in any phase ends the run within a second, with its name and
// its signal; and only when it had delivered all, with results.
func TestKilledInEveryPhase(t *testing.T) {
	const within = time.Second
	ready, done := worker.TypeReady.String(), worker.TypeDone.String()
	for _, c := range []struct {
		point string
		skip  int // how often the point is passed before
		phase Phase
	}{
		{"started", 0, PhaseStart},
		{"sent, waiting for " + ready, 0, PhaseStart},
		{"received " + ready, 0, PhaseStart}, // or the next
		{"sent, waiting for " + ready, 1, PhasePrepare},
		{"received " + ready, 1, PhaseRun},
		{"sent, waiting for " + done, 0, PhaseRun},
		{"sent, waiting for " + ready, 2, PhasePrepare},
		{"sent, waiting for " + done, 1, PhaseRun},
		{"received " + done, 1, PhaseExit},
		{"sent exit", 0, PhaseExit},
	} {
		for i, victim := range []int{0, 2, 1, 2} {
			transport := []string{TransportShm, TransportShm, away, over2}[i]
			t.Run(fmt.Sprintf("%s %d, worker %d, %s", c.point, c.skip, victim, transport), func(t *testing.T) {
				best := time.Hour
				for try := 0; try < 5 && best > within; try++ {
					best = min(best, killAt(t, transport, c.point, c.skip, victim, c.phase))
				}
				if best > within {
					t.Errorf("the run ended %v after the death, want at most %v", best, within)
				}
			})
		}
	}
	nothingLeft(t, t.TempDir())
}

// killAt kills one of three workers at a point and returns how long the run went on.
func killAt(t *testing.T, transport, point string, skip, victim int, phase Phase) time.Duration {
	t.Helper()
	cfg := config(transport, 3, launchtest.Scenario(6, 100, ""))
	cfg.Replications = 2
	var killed time.Time
	pid := 0
	kill := func(s *supervisor, signal syscall.Signal) {
		if err := syscall.Kill(pid, signal); err != nil {
			t.Error(err)
		}
	}
	dones := 0
	out, err := runWithSteps(t, cfg, func(s *supervisor, at string) {
		if pid == 0 { // at the first step: it may take long to find it
			until(t, "the worker's process", func() bool {
				pid = processOf(t, s.conns.workers[victim])
				return pid != 0
			})
		}
		if at == "received "+worker.TypeDone.String() {
			if dones++; dones == 2 && point == "sent exit" {
				kill(s, syscall.SIGSTOP) // it must not exit by itself before
			}
		}
		if at == point {
			if skip--; skip == -1 {
				kill(s, syscall.SIGKILL)
				killed = time.Now()
			}
		}
	})
	took := time.Since(killed)
	var w *WorkerError
	if !errors.As(err, &w) || w.Worker != victim || !w.Died || !strings.Contains(w.Status, "SIGKILL") ||
		len(w.Others) > 0 {
		t.Fatalf("error is %v, want the death of worker %d by SIGKILL", err, victim)
	}
	// Where it had answered before the signal came, the run is a phase further.
	further := phase == PhaseStart && w.Phase == PhasePrepare || phase == PhasePrepare && w.Phase == PhaseRun
	if w.Phase != phase && !further {
		t.Errorf("phase %s, want %s", w.Phase, phase)
	}
	if w.Delivered != (phase == PhaseExit) || (out != nil) != w.Delivered {
		t.Errorf("in phase %s, delivered is %v, outcome %v", phase, w.Delivered, out)
	}
	if out != nil && (out.Interrupted || len(out.Replications) != 2 || out.TraceHash == "" ||
		!tokens(t, out).Complete) {
		t.Errorf("the outcome is %+v, want a complete one", out)
	}
	return took
}

// What a death has cost: the error says how far the worker had come.
func TestDeathNamesEpoch(t *testing.T) {
	cfg := config(TransportShm, 2, launchtest.Scenario(4, 1e9, ""))
	l, err := Prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var s *supervisor
	l.onStep = func(now *supervisor, _ string) { s = now }
	l.timeouts.progress = time.Millisecond
	killed := false
	l.cfg.Progress = func(p Progress) {
		if epoch, ok := s.boards.reached(1); ok && epoch > 10 && !killed {
			killed = true
			if err := syscall.Kill(s.conns.workers[1].pid, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	_, err = l.Run(ctx)
	var w *WorkerError
	if !errors.As(err, &w) || w.Worker != 1 || w.Phase != PhaseRun || !w.ReachedKnown || w.Reached < 10 {
		t.Fatalf("error is %#v", err)
	}
	if text := err.Error(); !strings.Contains(text, "worker 1 died: killed by SIGKILL") ||
		!strings.Contains(text, " in replication 0, having reached ") {
		t.Errorf("error is %v", text)
	}
}

// A worker that panics after it has delivered everything doesn't cost the results, and its
// panic is shown, not a peer's exit with status 0.
func TestPanicAfterLastResult(t *testing.T) {
	cfg := config(TransportShm, 2, launchtest.Scenario(4, 10, trouble(3, 0, launchtest.Late)))
	out, err := runWithSteps(t, cfg, func(s *supervisor, point string) {
		if point == "received "+worker.TypeDone.String() {
			until(t, "the panic", func() bool {
				stat, err := procfs.Stat(s.conns.workers[1].pid)
				return err != nil || stat.State == "dead"
			})
		}
	})
	var w *WorkerError
	if !errors.As(err, &w) || w.Worker != 1 || !w.Delivered || w.Phase != PhaseExit {
		t.Fatalf("error is %v, want that of worker 1 after its last result", err)
	}
	for _, want := range []string{"panic: tiny: broke when all was done", "exit status 2", "the results are complete"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error doesn't say %q:\n%v", want, err)
		}
	}
	if out == nil || !tokens(t, out).Complete || out.TraceHash == "" {
		t.Errorf("the outcome is %+v, want a complete one", out)
	}
	nothingLeft(t, t.TempDir())
}

// An exit with status 0 in the middle of a run is named for what it is.
func TestExitZeroTooEarly(t *testing.T) {
	_, err := run(t, config(TransportShm, 2, launchtest.Scenario(4, 50, trouble(2, 3, launchtest.Zero))))
	var w *WorkerError
	if !errors.As(err, &w) || w.Worker != 1 || !strings.Contains(err.Error(), "ended too early") ||
		strings.Contains(err.Error(), "died") {
		t.Errorf("error is %v", err)
	}
}

// A message that can't be sent ends the run with that, instead of a wait for its answer.
func TestUnsentMessage(t *testing.T) {
	ended := make(chan workerproc.Exit, 1)
	broken := &deadStream{closed: make(chan struct{})}
	l := &Launch{timeouts: defaultTimeouts(1), log: workerproc.NewLineWriter(os.Stderr)}
	s := newSupervisor(newConnections(), make(testBoards, 1), l)
	s.add(&connection{control: broken}, func() workerproc.Exit { return <-ended })
	_, err := s.request(context.Background(), toAll(&worker.Message{Type: worker.TypeGo}), worker.TypeDone)
	if !errors.Is(err, errFull) || !strings.Contains(err.Error(), "can't be sent to worker 0") {
		t.Errorf("error is %v, want %v", err, errFull)
	}
	ended <- workerproc.Exit{OK: true}
	s.terminate(true)
}

var errFull = errors.New("no space left")

// deadStream can't be written to, and nothing comes of it.
type deadStream struct{ closed chan struct{} }

func (d *deadStream) Write([]byte) (int, error) { return 0, errFull }
func (d *deadStream) Read([]byte) (int, error)  { <-d.closed; return 0, os.ErrClosed }
func (d *deadStream) Close() error {
	select {
	case <-d.closed:
	default:
		close(d.closed)
	}
	return nil
}

// A handler that ends its process can say nothing any more: the board has which one it was,
// and when.
func TestDeathNamesHandler(t *testing.T) {
	for _, how := range []string{launchtest.Exit, launchtest.Kill, launchtest.Zero} {
		_, err := run(t, config(TransportShm, 2, launchtest.Scenario(4, 1e9, trouble(2, 3, how))))
		var w *WorkerError
		if !errors.As(err, &w) || w.Worker != 1 || w.Handler != "n2/token" ||
			!(w.HandlerEpoch >= 3 && w.HandlerEpoch < 5) {
			t.Fatalf("%s: error is %#v", how, err)
		}
		if text := err.Error(); !strings.Contains(text, "; it had called the handler of n2/token at epoch 3") &&
			!strings.Contains(text, "; it had called the handler of n2/token at epoch 4") {
			t.Errorf("%s: error is %v", how, text)
		}
	}
}
