// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/child/childtest"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/procfs"
)

// A worker that dies, panics or returns an error ends the run with an error that
// names it, says how it ended, and shows what it left behind; and nothing is left.
func TestWorkerThatFails(t *testing.T) {
	for _, c := range []struct {
		how        string
		transports []string
		died       bool
		status     string
		want       []string // in the whole text
	}{
		{launchtest.Panic, everywhere(), false, "", []string{"tiny: a token broke", "launchtest.(*handler)"}},
		{launchtest.Fail, everywhere(), false, "", []string{"n2/token", "tiny: a token is lost"}},
		{launchtest.Exit, []string{TransportShm, away}, true, "exit status 3", []string{"tiny: going home"}},
		{launchtest.Kill, []string{TransportShm, away}, true, "killed by SIGKILL", []string{"it wrote nothing"}},
	} {
		for _, transport := range c.transports {
			t.Run(c.how+"/"+transport, func(t *testing.T) {
				dir := t.TempDir()
				cfg := config(transport, 2, launchtest.Scenario(4, 50, trouble(2, 3, c.how)))
				cfg.Trace = filepath.Join(dir, "trace.txt")
				cfg.Replications = 3
				_, err := run(t, cfg)
				var w *WorkerError
				if !errors.As(err, &w) {
					t.Fatalf("error is %v, want a WorkerError", err)
				}
				if w.Worker != 1 || w.Died != c.died || !strings.Contains(w.Status, c.status) {
					t.Errorf("worker %d, died %v, %q; want worker 1, died %v, %q", w.Worker, w.Died, w.Status,
						c.died, c.status)
				}
				name := "worker 1"
				if transport == away {
					name = "worker 1 on " + childtest.Name
				}
				text := err.Error()
				for _, want := range append(c.want, name) {
					if !strings.Contains(text, want) {
						t.Errorf("the error doesn't say %q:\n%s", want, text)
					}
				}
				if strings.Contains(text, "closed") {
					t.Errorf("the error complains about what follows from it:\n%s", text)
				}
				nothingLeft(t, dir)
			})
		}
	}
}

// Whoever of many workers fails is the one who is named, though all the others lose
// their lanes to it.
func TestCauseAmongMany(t *testing.T) {
	for _, how := range []string{launchtest.Fail, launchtest.Panic, launchtest.Kill} {
		for victim := range 4 {
			if testing.Short() && victim != 2 {
				continue
			}
			cfg := config(TransportShm, 4, launchtest.Scenario(4, 1000, trouble(victim, 2, how)))
			l, err := Prepare(cfg)
			if err != nil {
				t.Fatal(err)
			}
			want := int(l.Placement().Of[victim])
			_, err = run(t, cfg)
			var w *WorkerError
			if !errors.As(err, &w) || w.Worker != want {
				t.Errorf("%s on worker %d: %v", how, want, err)
			}
		}
	}
	nothingLeft(t, t.TempDir())
}

// Worker processes that are killed from outside, in any phase of a run.
func TestWorkerKilledFromOutside(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGABRT} {
		var killed sync.Once
		cfg := config(TransportShm, 2, launchtest.Scenario(4, 1e9, ""))
		cfg.Progress = func(Progress) {
			killed.Do(func() {
				pids := children(t, os.Getpid())
				if len(pids) != 2 {
					t.Errorf("%d processes, want 2", len(pids))
				}
				if err := syscall.Kill(pids[0], signal); err != nil {
					t.Error(err)
				}
			})
		}
		_, err := runQuick(t, cfg)
		var w *WorkerError
		if !errors.As(err, &w) || !w.Died {
			t.Errorf("%v: error is %v", signal, err)
			continue
		}
		// The Go runtime answers SIGABRT with its goroutines and exit status 2.
		if signal != syscall.SIGABRT && !strings.Contains(w.Status, "SIG") {
			t.Errorf("%v: status %q", signal, w.Status)
		}
	}
	nothingLeft(t, t.TempDir())
}

// A stopped worker (Ctrl-Z, a debugger) isn't dead, and the run ends all the same when
// it is asked to.
func TestFrozenWorker(t *testing.T) {
	for _, transport := range []string{TransportShm, over2} {
		stop := make(chan struct{})
		var once sync.Once
		cfg := config(transport, 2, launchtest.Scenario(4, 1e9, trouble(1, 3, launchtest.Stop)))
		cfg.Stop = stop
		cfg.Progress = func(Progress) {
			for _, pid := range workers(t) {
				if procfs.State(pid) == procfs.Stopped {
					once.Do(func() { close(stop) })
				}
			}
		}
		_, err := runQuick(t, cfg)
		if !errors.Is(err, ErrUnresponsive) || !strings.Contains(err.Error(), "worker 0") {
			t.Errorf("%s: error is %v, want ErrUnresponsive of worker 0", transport, err)
		}
		nothingLeft(t, t.TempDir())
	}
}

// textWatch closes a channel when something with the given text is written.
type textWatch struct {
	text string
	once sync.Once
	done chan struct{}
}

func (w *textWatch) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(w.text)) {
		w.once.Do(func() { close(w.done) })
	}
	return len(p), nil
}

// A handler that never returns can't answer Stop: the run says so and ends.
func TestHandlerThatHangs(t *testing.T) {
	defer launchtest.Release()
	for _, transport := range transports() {
		hangs := &textWatch{text: "tiny: hanging", done: make(chan struct{})}
		cfg := config(transport, 2, launchtest.Scenario(4, 1e9, trouble(1, 3, launchtest.Hang)))
		cfg.Stop, cfg.Stderr = hangs.done, hangs
		restore := captureStderr(t, hangs)
		l, err := Prepare(cfg)
		if err != nil {
			t.Fatal(err)
		}
		l.timeouts.killed = 300 * time.Millisecond // a goroutine that hangs can't be ended
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		_, err = l.Run(ctx)
		restore()
		if !errors.Is(err, ErrUnresponsive) {
			t.Errorf("%s: error is %v, want ErrUnresponsive", transport, err)
		}
	}
	if pids := children(t, os.Getpid()); len(pids) > 0 {
		t.Errorf("processes are left: %v", pids)
	}
}

// captureStderr shows w what this process writes to standard error, which is where
// models of the in-process transport write to.
func captureStderr(t *testing.T, w io.Writer) (restore func()) {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stderr
	os.Stderr = writer
	go func() {
		_, _ = io.Copy(w, reader) // until writer is closed
		reader.Close()
	}()
	return func() {
		os.Stderr = before
		writer.Close()
	}
}

// runQuick runs with progress shown every few milliseconds.
func runQuick(t *testing.T, cfg Config) (*Outcome, error) {
	t.Helper()
	cfg, done := settled(t, cfg)
	defer done()
	l, err := Prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l.timeouts.progress = 5 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	return l.Run(ctx)
}

// Stop ends a run early, with the results up to there; in any phase and of any
// replication.
func TestStop(t *testing.T) {
	for _, c := range []struct {
		transport, spread string
		at                int
	}{
		{TransportShm, SpreadNodes, 0},
		{TransportShm, SpreadNodes, 2},
		{TransportShm, SpreadReplications, 2},
		{TransportInproc, SpreadNodes, 0},
		{TransportInproc, SpreadReplications, 2},
		{away, SpreadNodes, 0},
		{away, SpreadNodes, 2},
		{away, SpreadReplications, 2},
		{over2, SpreadNodes, 0},
		{over2, SpreadNodes, 2},
		{over2, SpreadReplications, 2},
	} {
		transport, at := c.transport, c.at
		t.Run(fmt.Sprintf("%s/%s/%d", transport, c.spread, at), func(t *testing.T) {
			dir := t.TempDir()
			stop := make(chan struct{})
			var once sync.Once
			horizon := 1e9
			if at > 0 {
				horizon = 50
			}
			cfg := config(transport, 2, launchtest.Scenario(4, horizon, ""))
			if cfg.Spread = c.spread; c.spread == SpreadReplications {
				cfg.Partition = ""
			}
			cfg.Replications, cfg.Stop, cfg.Trace = 1000, stop, filepath.Join(dir, "trace.txt.zst")
			cfg.Progress = func(p Progress) {
				// Where each worker has replications of its own, a later one may be under way before an earlier one
				// has begun.
				if p.Replication >= at && p.Done >= at && p.Events > 0 {
					once.Do(func() { close(stop) })
				}
			}
			out, err := runQuick(t, cfg)
			if err != nil {
				t.Fatal(err)
			}
			if !out.Interrupted || out.TraceHash != "" || out.Events == 0 || len(out.Replications) < max(at, 1) {
				t.Errorf("interrupted %v, hash %q, %d events, %d replications", out.Interrupted, out.TraceHash,
					out.Events, len(out.Replications))
			}
			s := tokens(t, out)
			if s.Handled != out.Events {
				t.Errorf("%d tokens, %d events", s.Handled, out.Events)
			}
			last := out.Replications[len(out.Replications)-1]
			if last.Interrupted && (last.Reached <= 0 || last.Reached >= horizon || last.TraceHash == "") {
				t.Errorf("the last replication reached %v, hash %q", last.Reached, last.TraceHash)
			}
			if err := os.Remove(cfg.Trace); err != nil {
				t.Error(err)
			}
			nothingLeft(t, dir)
		})
	}
}

func TestStopBeforeAnything(t *testing.T) {
	stop := make(chan struct{})
	close(stop)
	cfg := config(TransportShm, 2, launchtest.Scenario(4, 10, ""))
	cfg.Stop = stop
	out, err := run(t, cfg)
	if err != nil || !out.Interrupted || out.Summary != nil {
		t.Errorf("%+v, %v; want an interrupted run without results", out, err)
	}
	nothingLeft(t, t.TempDir())
}

// The end of the context ends a run at once.
func TestEndAtOnce(t *testing.T) {
	for _, transport := range everywhere() {
		dir := t.TempDir()
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		cfg, done := settled(t, config(transport, 2, launchtest.Scenario(4, 1e9, "")))
		cfg.Trace = filepath.Join(dir, "trace")
		cfg.Progress = func(Progress) { cancel() }
		out, err := Run(ctx, cfg)
		done()
		if out != nil || !errors.Is(err, ErrEnded) {
			t.Errorf("%s: %v, %v; want ErrEnded", transport, out, err)
		}
		nothingLeft(t, dir)
	}
}

// What may take how long after a failure adds up to less than two seconds, and so does
// an interruption of a run with small results.
func TestTimeoutsAllowTwoSeconds(t *testing.T) {
	const left = 300 * time.Millisecond // for the system
	d := defaultTimeouts(1000)
	if sum := d.collect + d.lastExit + d.end + left; sum > 2*time.Second {
		t.Errorf("a failure may take %v", sum)
	}
	if sum := d.stop + d.end + left; sum > 2*time.Second {
		t.Errorf("an interruption may take %v", sum)
	}
}

// What workers write reaches the launcher's Stderr with their names, and never its
// standard output.
func TestWorkersOutput(t *testing.T) {
	var said bytes.Buffer
	cfg := config(TransportShm, 2, launchtest.Scenario(4, 5, trouble(2, 1, launchtest.Print)))
	cfg.Stderr = &said
	if _, err := run(t, cfg); err != nil {
		t.Fatal(err)
	}
	if got, want := said.String(), "worker 1: tiny: said to standard output\nworker 1: tiny: said to standard "+
		"error\n"; got != want {
		t.Errorf("Stderr got %q, want %q", got, want)
	}
}

// A model's program that can't be the worker (its main doesn't begin with IsWorker, or
// it has other kinds) is an error and not a hang.
func TestWorkerWithOtherKinds(t *testing.T) {
	t.Setenv("DISCO_TEST_NO_KINDS", "1")
	_, err := run(t, config(TransportShm, 2, launchtest.Scenario(4, 5, "")))
	var w *WorkerError
	if !errors.As(err, &w) || !strings.Contains(err.Error(), "tiny") {
		t.Errorf("error is %v, want a WorkerError about the model tiny", err)
	}
	nothingLeft(t, t.TempDir())
}
