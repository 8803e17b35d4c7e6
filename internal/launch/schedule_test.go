// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/disco-sim/disco/scenario"
)

// recorded is the tiny model under its own name; the sum of its replications records
// what is added to it.
type recorded struct {
	added   *atomic.Int64 // replications
	refused int           // index of the one that Add refuses; -1: none
}

type recordedScenario struct {
	*launchtest.Tiny
	*recorded
}

type recordedSum struct {
	scenario.Accumulator
	*recorded
	last int
}

func (w *recorded) kind() scenario.Kind {
	kind := launchtest.Kind()
	load := kind.Load
	kind.Load = func(doc *scenario.Document, opt scenario.Options) (scenario.Scenario, error) {
		s, err := load(doc, opt)
		if err != nil {
			return nil, err
		}
		return recordedScenario{s.(*launchtest.Tiny), w}, nil
	}
	return kind
}

func (s recordedScenario) Name() string { return s.Tiny.Name() }

func (s recordedScenario) Accumulate() scenario.Accumulator {
	return &recordedSum{s.Tiny.Accumulate(), s.recorded, -1}
}

func (s *recordedSum) Add(r scenario.Replication) error {
	if r.Index <= s.last || r.Index == s.refused {
		return fmt.Errorf("replication %d after %d", r.Index, s.last)
	}
	s.last = r.Index
	s.added.Add(1)
	return s.Accumulator.Add(r)
}

// many is a run of replications that are spread over goroutines.
func many(t *testing.T, workers, replications, refused int) (Config, *atomic.Int64) {
	t.Helper()
	w := &recorded{added: new(atomic.Int64), refused: refused}
	cfg := config(TransportInproc, workers, launchtest.Scenario(3, 1, ""))
	r, err := scenario.NewRegistry(w.kind())
	if err != nil {
		t.Fatal(err)
	}
	cfg.Registry, cfg.Replications, cfg.Spread, cfg.Partition = r, replications, SpreadReplications, ""
	return cfg, w.added
}

// answerOf is everything about an outcome that mustn't depend on who did what when.
func answerOf(t *testing.T, out *Outcome) string {
	t.Helper()
	text, err := json.Marshal(out.Summary)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %s %d", text, out.TraceHash, out.Events)
}

// TestMergedInOrder: whichever worker set is the slow one, the answer is that of one set, and
// reports are added while the run goes on.
func TestMergedInOrder(t *testing.T) {
	const replications = 60
	cfg, _ := many(t, 1, replications, -1)
	out, err := run(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := answerOf(t, out)
	for slow := range 3 {
		cfg, added := many(t, 3, replications, -1)
		dones, most := 0, 0
		var mu sync.Mutex
		out, err := runWithSteps(t, cfg, func(s *supervisor, point string) {
			if point != "received "+worker.TypeDone.String() {
				return
			}
			if s.conns.workers[0].number == slow {
				time.Sleep(5 * time.Millisecond)
			}
			mu.Lock()
			defer mu.Unlock()
			dones++
			most = max(most, dones-int(added.Load()))
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := answerOf(t, out); got != want {
			t.Errorf("worker %d is slow: %s, want %s", slow, got, want)
		}
		// What is being added hasn't been counted yet, nor what has just been delivered.
		if most > 3*windowOfSet+1 {
			t.Errorf("worker %d is slow: %d replications were kept at once, want at most %d", slow, most, 3*windowOfSet)
		}
	}
}

// held runs two worker sets, one of which is held at the end of its first replication until
// the other, whose window is full then, is idle.
func held(t *testing.T, cfg Config, idle func()) (out *Outcome, begun int, err error) {
	t.Helper()
	atIdle, release := make(chan struct{}), make(chan struct{})
	var once, first sync.Once
	var count atomic.Int64
	go func() {
		<-atIdle
		idle()
		close(release)
	}()
	var begunThen int64
	out, err = runWithSteps(t, cfg, func(s *supervisor, point string) {
		switch {
		case point == "sent, waiting for "+worker.TypeDone.String():
			count.Add(1)
		case point == "idle":
			once.Do(func() { begunThen = count.Load(); close(atIdle) })
		case point == "received "+worker.TypeDone.String() && s.conns.workers[0].number == 0:
			first.Do(func() { <-release })
		}
	})
	return out, int(begunThen), err
}

// TestWindowFull: when the window is full nothing more is begun, and the run goes on when
// what is waited for is there.
func TestWindowFull(t *testing.T) {
	const replications = 100
	cfg, _ := many(t, 1, replications, -1)
	out, err := run(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := answerOf(t, out)
	cfg, added := many(t, 2, replications, -1)
	var merged int
	out, begun, err := held(t, cfg, func() {
		time.Sleep(50 * time.Millisecond) // it must really be idle
		merged = int(added.Load())
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := answerOf(t, out); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// One may have been taken and not be asked for yet.
	if begun > merged+2*windowOfSet || begun < 2*windowOfSet-1 {
		t.Errorf("%d replications had begun and %d were added, want %d more", begun, merged, 2*windowOfSet)
	}
}

// TestStopWithFullWindow: a worker set that is idle is stopped like others, and what waited for
// an earlier replication counts.
func TestStopWithFullWindow(t *testing.T) {
	cfg, added := many(t, 2, 100_000, -1)
	stop := make(chan struct{})
	cfg.Stop = stop
	var began time.Time
	out, begun, err := held(t, cfg, func() {
		close(stop)
		began = time.Now()
	})
	if err != nil || !out.Interrupted {
		t.Fatalf("%+v, %v", out, err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the end took %v", took)
	}
	// One may have been stopped before anything had happened in it.
	if n := len(out.Replications); n < begun-1 || n != int(added.Load()) || tokens(t, out).Handled != out.Events {
		t.Errorf("%d replications, %d added, %d had begun; %d tokens in %d events", n, added.Load(), begun,
			tokens(t, out).Handled, out.Events)
	}
}

// TestStopOfMany: when a long run is stopped, nearly everything has been summed up before.
func TestStopOfMany(t *testing.T) {
	const least = 500
	cfg, added := many(t, 2, ReplicationsMax, -1)
	stop := make(chan struct{})
	cfg.Stop = stop
	dones := 0
	var once sync.Once
	var mu sync.Mutex
	var began time.Time
	out, err := runWithSteps(t, cfg, func(_ *supervisor, point string) {
		if point != "received "+worker.TypeDone.String() {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if dones++; dones >= least {
			once.Do(func() {
				if n := int(added.Load()); n < dones-2*windowOfSet {
					t.Errorf("%d of %d replications were added", n, dones)
				}
				began = time.Now()
				close(stop)
			})
		}
	})
	if err != nil || !out.Interrupted || len(out.Replications) < least {
		t.Fatalf("%+v, %v", out, err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the end took %v", took)
	}
}

// TestMergeBehindGap: a replication that was stopped before anything had happened in it
// leaves a gap, and those behind it count.
func TestMergeBehindGap(t *testing.T) {
	cfg, added := many(t, 2, 10, -1)
	l, err := Prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	a := newSchedule(l)
	merged := make(chan error)
	go func() { merged <- a.merge() }()
	for range 6 {
		if _, ok, _ := a.take(); !ok {
			t.Fatal("nothing to do")
		}
	}
	for _, i := range []int{4, 2, 0} {
		a.add(&result{Replication: Replication{Index: i}})
	}
	until(t, "the first is added", func() bool { return added.Load() == 1 })
	a.close(false)
	if err := <-merged; err != nil || added.Load() != 3 {
		t.Errorf("%d were added, %v", added.Load(), err)
	}
}

// TestRefusedReport: a model that refuses a report ends the run with its error, at once.
func TestRefusedReport(t *testing.T) {
	for _, workers := range []int{1, 2} {
		cfg, added := many(t, workers, ReplicationsMax, 3)
		_, err := run(t, cfg)
		if err == nil || !strings.Contains(err.Error(), "can't sum up its results: replication 3 after 2") ||
			added.Load() != 3 {
			t.Errorf("%d workers: error is %v after %d replications", workers, err, added.Load())
		}
	}
}

// TestWaitIdle: a worker set that waits for others sees a death, an end, and Stop.
func TestWaitIdle(t *testing.T) {
	stop, over := make(chan struct{}), make(chan struct{})
	fresh := func() (*supervisor, *deadStream, chan workerproc.Exit) {
		ended := make(chan workerproc.Exit, 1)
		control := &deadStream{closed: make(chan struct{})}
		l := &Launch{timeouts: defaultTimeouts(1), cfg: Config{Stop: stop}, log: workerproc.NewLineWriter(io.Discard)}
		s := newSupervisor(newConnections(), make(testBoards, 1), l)
		s.add(&connection{control: control}, func() workerproc.Exit { return <-ended })
		return s, control, ended
	}
	s, control, ended := fresh()
	control.Close()
	ended <- workerproc.Exit{Signal: syscall.SIGKILL, Text: "killed by SIGKILL"}
	var w *WorkerError
	if err := s.waitIdle(context.Background(), over); !errors.As(err, &w) || !w.Died {
		t.Errorf("a death: %v", err)
	}
	s.terminate(true)
	s, _, ended = fresh()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.waitIdle(ctx, over); !errors.Is(err, ErrEnded) {
		t.Errorf("an end: %v", err)
	}
	close(stop)
	if err := s.waitIdle(context.Background(), over); err != nil || !s.stopping {
		t.Errorf("Stop: %v, stopping is %v", err, s.stopping)
	}
	close(over)
	if err := s.waitIdle(context.Background(), over); err != nil {
		t.Errorf("the moment has come: %v", err)
	}
	ended <- workerproc.Exit{OK: true}
	s.terminate(true)
	if !s.states.ended() {
		t.Error("a worker is left")
	}
}

// TestEnough: a run that ends behind a replication is one of so many, whichever worker is slow and whatever is under
// way then, with its trace; what there is too much of is ended.
func TestEnough(t *testing.T) {
	const enough = 17
	dir := t.TempDir()
	cfg, _ := many(t, 1, enough, -1)
	cfg.Trace = filepath.Join(dir, "want")
	out, err := run(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := answerOf(t, out)
	for _, workers := range []int{1, 3} {
		for slow := range workers {
			for _, spread := range []string{SpreadReplications, SpreadNodes} {
				cfg, added := many(t, workers, 1000, -1)
				cfg.Spread, cfg.Trace = spread, filepath.Join(dir, "got")
				asked := 0
				cfg.Enough = func() bool {
					asked++
					return asked == enough
				}
				out, err := runWithSteps(t, cfg, func(s *supervisor, point string) {
					if s.conns.workers[0].number == slow && point == "received "+worker.TypeDone.String() {
						time.Sleep(2 * time.Millisecond)
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				if got := answerOf(t, out); got != want || out.Interrupted || len(out.Replications) != enough {
					t.Errorf("%d workers, %s, worker %d slow: %d replications, %s\nwant %d, %s", workers, spread, slow,
						len(out.Replications), got, enough, want)
				}
				if asked != enough || added.Load() != enough {
					t.Errorf("%d workers, %s: asked %d times, added %d, want %d", workers, spread, asked, added.Load(),
						enough)
				}
				if !sameFiles(t, filepath.Join(dir, "want"), filepath.Join(dir, "got")) {
					t.Errorf("%d workers, %s: another trace", workers, spread)
				}
			}
		}
	}
}

// TestEnoughEndsOthers: a worker whose replication isn't wanted any more is ended in its midst, also one that stands
// still, and one that waits for its turn.
func TestEnoughEndsOthers(t *testing.T) {
	cfg := config(TransportShm, 3, launchtest.Scenario(3, 20, ""))
	cfg.Replications, cfg.Spread, cfg.Partition = 100, SpreadReplications, ""
	cfg.Enough = func() bool { return true }
	began := time.Now()
	out, err := runWithSteps(t, cfg, func(s *supervisor, point string) {
		if point == "sent, waiting for "+worker.TypeDone.String() && s.stage.replication > 0 {
			if err := syscall.Kill(s.conns.workers[0].pid, syscall.SIGSTOP); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil || out.Interrupted || len(out.Replications) != 1 || out.TraceHash == "" {
		t.Fatalf("%+v, %v", out, err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

// sameFiles reports whether two files have the same bytes.
func sameFiles(t *testing.T, a, b string) bool {
	t.Helper()
	one, errA := os.ReadFile(a)
	other, errB := os.ReadFile(b)
	if err := errors.Join(errA, errB); err != nil || len(one) == 0 {
		t.Fatalf("%v, %d bytes", err, len(one))
	}
	return bytes.Equal(one, other)
}
