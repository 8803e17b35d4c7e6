// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/checkpointtest"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/worker"
)

// newRepo is a place for the checkpoints of a run, in memory.
func newRepo(t testing.TB, cfg Config, blobs checkpoint.Blobs) *checkpoint.Repo {
	t.Helper()
	cfg.Transport = TransportInproc
	l, err := Prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	repo, err := checkpoint.Create(context.Background(), blobs, checkpoint.Run{Disco: "test", Kind: "test",
		Text: cfg.Text, Trace: cfg.Trace != "" && cfg.Resume == nil, Replications: cfg.Replications,
		Seed: cfg.Seed, Horizon: l.Scenario().Horizon(),
		Nodes: int64(l.Structure().NumNodes()), Simprocs: int64(l.Structure().NumSimprocs()), GroupNodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { repo.Close() })
	return repo
}

// text is all that an outcome says of a run's results.
func text(t testing.TB, out *Outcome) string {
	t.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, "hash %s, %d events, %d activations\n", out.TraceHash, out.Events, out.Activations)
	for _, r := range out.Replications {
		fmt.Fprintf(&b, "replication %d: %s, %d events, %d calls until %v\n", r.Index, r.TraceHash, r.Events,
			r.Activations, r.Reached)
	}
	if err := out.Summary.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A run that goes on from any checkpoint of another one, with any number of workers, gives what that gave.
func TestResume(t *testing.T) {
	for i, transport := range append(everywhere(), over3) {
		for j, spread := range []string{SpreadNodes, SpreadReplications} {
			if testing.Short() && j == i/2%2 {
				continue
			}
			t.Run(transport+" "+spread, func(t *testing.T) {
				cfg := config(transport, 3, launchtest.Scenario(6, 30, ""))
				cfg.Replications, cfg.Spread, cfg.Partition = 3, spread, ""
				cfg.Trace = filepath.Join(t.TempDir(), "trace")
				if (i+j)%2 == 1 {
					cfg.Tuning = worker.Tuning{Ingress: worker.IngressGoroutine, Sync: worker.SyncLink}
				}
				out, err := run(t, cfg)
				if err != nil {
					t.Fatal(err)
				}
				want := text(t, out) + readTrace(t, cfg.Trace)
				cfg.Checkpoint = &Checkpoint{Repo: newRepo(t, cfg, checkpointtest.NewMem()), Every: 4, Keep: 100,
					At: []LabelledEpoch{{1.5, "early"}, {17, "middle"}, {17.25, ""}}}
				out, err = run(t, cfg)
				if err != nil {
					t.Fatal(err)
				}
				if got := text(t, out) + readTrace(t, cfg.Trace); got != want {
					t.Fatalf("with checkpoints: %s", differing(got, want))
				}
				if c := out.Checkpoints; c.Failed > 0 || c.Made+c.Skipped != 3*10 || c.Made < 9 {
					t.Errorf("found %+v, want 30 made or skipped", c)
				}
				resumeAll(t, cfg, want)
			})
		}
	}
}

// checkResumes checks that a run, changed in a way that changes no results, gives with checkpoints what it gives
// without either, and so do those that go on from any of its checkpoints. check is for what the change has done.
func checkResumes(t *testing.T, transport string, change func(*Config), check func(*Outcome)) {
	t.Helper()
	cfg := config(transport, 3, launchtest.Scenario(6, 30, ""))
	cfg.Replications, cfg.Spread, cfg.Partition = 2, SpreadNodes, ""
	cfg.Trace = filepath.Join(t.TempDir(), "trace")
	out, err := run(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := text(t, out) + readTrace(t, cfg.Trace)
	change(&cfg)
	cfg.Checkpoint = &Checkpoint{Repo: newRepo(t, cfg, checkpointtest.NewMem()), Every: 2, Keep: 100,
		At: []LabelledEpoch{{1.5, "early"}, {17, "middle"}, {17.25, ""}}}
	if out, err = run(t, cfg); err != nil {
		t.Fatal(err)
	}
	if got := text(t, out) + readTrace(t, cfg.Trace); got != want {
		t.Fatalf("%s: %s", transport, differing(got, want))
	}
	check(out)
	resumeAll(t, cfg, want)
}

// resumeAll goes on from all checkpoints of a run.
func resumeAll(t *testing.T, cfg Config, want string) {
	ctx, repo := context.Background(), cfg.Checkpoint.Repo
	points, err := repo.Points(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ats := []string{"latest", "early", "middle"}
	for _, p := range points {
		if !p.Finished && p.Replication == 0 {
			ats = append(ats, fmt.Sprint(p.Epoch))
		}
	}
	if testing.Short() {
		ats = ats[:3]
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, at := range ats {
		other := cfg
		other.Workers, other.Spread = 1+rnd.IntN(6), []string{SpreadNodes, SpreadReplications}[rnd.IntN(2)]
		if other.Resume, err = ResumeAt(ctx, repo, at); err != nil {
			t.Fatal(err)
		}
		switch rnd.IntN(3) {
		case 0:
			other.Checkpoint = nil
		case 1: // into the same place: the same again
		case 2:
			other.Trace = ""
			other.Checkpoint = &Checkpoint{Repo: newRepo(t, other, checkpointtest.NewMem()), Every: 3, Keep: 1}
		}
		out, err := run(t, other)
		if err != nil {
			t.Fatalf("from %s: %v", at, err)
		}
		got, want := text(t, out)+readTrace(t, other.Trace), want
		if other.Trace == "" {
			want = want[:min(len(got), len(want))]
		}
		if got != want {
			t.Fatalf("from %s with %d workers by %s: %s", at, other.Workers, other.Spread, differing(got, want))
		}
	}
}

// A trace is whole, too, where the run goes on from a checkpoint in the middle of a chunk of the manifest that has it.
func TestResumeWithinChunkOfTrace(t *testing.T) {
	cfg := config("inproc", 2, launchtest.Scenario(6, 30, ""))
	cfg.Trace = filepath.Join(t.TempDir(), "trace")
	repo := newRepo(t, cfg, checkpointtest.NewMem())
	from := func(at string, next float64) string {
		cfg.Checkpoint = &Checkpoint{Repo: repo, At: []LabelledEpoch{{next, ""}}, Keep: 100}
		if at != "" {
			var err error
			if cfg.Resume, err = ResumeAt(context.Background(), repo, at); err != nil {
				t.Fatal(err)
			}
		}
		out, err := run(t, cfg)
		if err != nil {
			t.Fatal(err)
		}
		return text(t, out) + readTrace(t, cfg.Trace)
	}
	want := from("", 1.5) // its end has a chunk that begins at 1.5, and stays
	for _, leg := range []struct {
		at   string
		next float64
	}{{"1.5", 4}, {"4", 9}, {"9", 12}} {
		if got := from(leg.at, leg.next); got != want {
			t.Fatalf("from %s: %s", leg.at, differing(got, want))
		}
	}
}

// differing is the first line in which two texts differ, with their lengths: a trace has thousands of lines.
func differing(got, want string) string {
	g, w := strings.SplitAfter(got, "\n"), strings.SplitAfter(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d of %d: found %q, want %q (of %d)", i+1, len(g), g[i], w[i], len(w))
		}
	}
	return fmt.Sprintf("found %d lines, want %d", len(g), len(w))
}

// readTrace reads a trace and removes it; "" for none.
func readTrace(t testing.TB, path string) string {
	if path == "" {
		return ""
	}
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestWorseIsSaid: what goes wrong with checkpoints is said once, and again where it becomes worse: one that isn't
// written behind one that is there, but.
func TestWorseIsSaid(t *testing.T) {
	there, lost, s := &saving{written: &written{}}, &saving{}, &store{}
	for i, c := range []struct {
		v           *saving // nil: one at which nothing went wrong
		first       bool
		failedSoFar int
	}{
		{there, true, 0}, {there, false, 0}, {lost, true, 1}, {lost, false, 2}, {there, false, 2}, {nil, true, 2},
		{nil, false, 2}, {lost, true, 3}, {there, false, 3}, {nil, true, 3},
	} {
		got := false
		if c.v == nil {
			got = s.recovered()
		} else {
			got = s.failed(c.v)
		}
		if got != c.first || s.done.Failed != c.failedSoFar {
			t.Errorf("%d: found %v with %d failed, want %v with %d", i, got, s.done.Failed, c.first, c.failedSoFar)
		}
	}
}

// Where a checkpoint can't be written it is said which one there is.
func TestWhichCheckpointStays(t *testing.T) {
	base, last := &checkpoint.Manifest{Epoch: 3}, &written{epoch: 5}
	for _, c := range []struct {
		k       checkpointing
		damaged bool
		want    string
	}{
		{checkpointing{}, false, "there is none of this replication yet"},
		{checkpointing{base: base}, false, "the one at 3 s, with which the replication began, stays"},
		{checkpointing{base: base, last: last}, false, "the one at 5 s stays"},
		{checkpointing{base: base}, true, "`checkpoints verify` says which are whole"},
	} {
		if got := c.k.stays(c.damaged); got != c.want {
			t.Errorf("found %q, want %q", got, c.want)
		}
	}
}

// A store that is full costs a checkpoint, not the run.
func TestCheckpointsThatFail(t *testing.T) {
	var remarks bytes.Buffer
	cfg := config(TransportShm, 2, launchtest.Scenario(6, 30, ""))
	cfg.Stderr = &remarks
	out, err := run(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := text(t, out)
	full := &fullBlobs{Blobs: checkpointtest.NewMem(), puts: 5}
	cfg.Checkpoint = &Checkpoint{Repo: newRepo(t, cfg, full), Keep: 2} // at epochs of their own none is left out
	for epoch := 4.0; epoch < 30; epoch += 4 {
		cfg.Checkpoint.At = append(cfg.Checkpoint.At, LabelledEpoch{Epoch: epoch})
	}
	if out, err = run(t, cfg); err != nil {
		t.Fatal(err)
	}
	if got := text(t, out); got != want {
		t.Errorf("found\n%s, want\n%s", got, want)
	}
	if c := out.Checkpoints; c.Made != 2 || c.Failed != 6 || c.Last != 8 {
		t.Errorf("found %+v, want 2 made, and 5 others and the end failed", c)
	}
	const stays = "couldn't be written: the store is full; the one at 8 s stays"
	if !strings.Contains(remarks.String(), stays) || strings.Count(remarks.String(), "the run goes on") != 1 {
		t.Errorf("found remarks %q, want %q, once", remarks.String(), stays)
	}
	cfg.Checkpoint = nil
	if cfg.Resume, err = ResumeAt(context.Background(), full.repo(t), "latest"); err != nil {
		t.Fatal(err)
	}
	if out, err = run(t, cfg); err != nil {
		t.Fatal(err)
	}
	if got := text(t, out); got != want {
		t.Errorf("from the last one that is safe: %s", differing(got, want))
	}
}

// A store that is full and has room again says both, once.
func TestCheckpointsThatFailForAWhile(t *testing.T) {
	var remarks bytes.Buffer
	cfg := config("inproc", 2, launchtest.Scenario(6, 30, ""))
	cfg.Stderr = &remarks
	store := &fullBlobs{Blobs: checkpointtest.NewMem(), puts: 5, refused: 2}
	cfg.Checkpoint = &Checkpoint{Repo: newRepo(t, cfg, store), Keep: 2}
	for epoch := 4.0; epoch < 30; epoch += 4 {
		cfg.Checkpoint.At = append(cfg.Checkpoint.At, LabelledEpoch{Epoch: epoch})
	}
	out, err := run(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if c := out.Checkpoints; c.Made != 5 || c.Failed != 2 || c.Last != 28 {
		t.Errorf("found %+v, want 5 made and 2 others failed", c)
	}
	for _, want := range []string{"the checkpoint at 12 s couldn't be written", "the one at 20 s is there"} {
		if strings.Count(remarks.String(), want) != 1 {
			t.Errorf("found remarks %q, want %q, once", remarks.String(), want)
		}
	}
	if strings.Contains(remarks.String(), "at 16 s") {
		t.Errorf("found remarks %q, want none of the second one", remarks.String())
	}
}

// A store that hangs is told of while the run goes on, again when that has lasted twice as long; then it takes what it
// was given.
func TestStoreThatHangs(t *testing.T) {
	told := &textWatch{text: "the checkpoint at 4 s isn't written after 80ms", done: make(chan struct{})}
	cfg := config(TransportShm, 2, launchtest.Scenario(6, 30, ""))
	cfg.Stderr = told
	cfg.Checkpoint = &Checkpoint{Repo: newRepo(t, cfg, &hangingBlobs{Blobs: checkpointtest.NewMem(), puts: 1,
		until: told.done}), Keep: 2, At: []LabelledEpoch{{Epoch: 4}, {Epoch: 8}}}
	l, err := Prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l.timeouts.slowStore = 40 * time.Millisecond
	out, err := l.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c := out.Checkpoints; c.Made != 2 || c.Failed != 0 || c.Last != 8 {
		t.Errorf("found %+v, want 2 made", c)
	}
}

// A store that hangs at the end of a replication isn't waited for when the run is to end; the results are whole.
func TestEndThatHangs(t *testing.T) {
	if testing.Short() {
		t.Skip("the store has 5 s then")
	}
	cfg := config("inproc", 2, launchtest.Scenario(6, 30, ""))
	out, err := run(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := text(t, out)
	var remarks bytes.Buffer
	stop := make(chan struct{})
	cfg.Stderr, cfg.Stop = &remarks, stop
	cfg.Checkpoint = &Checkpoint{Repo: newRepo(t, cfg, &endless{checkpointtest.NewMem(), stop}), Keep: 2,
		At: []LabelledEpoch{{Epoch: 4}}}
	if out, err = run(t, cfg); err != nil {
		t.Fatal(err)
	}
	if got := text(t, out); got != want {
		t.Errorf("found\n%s, want\n%s", got, want)
	}
	if c := out.Checkpoints; c.Made != 1 || c.Failed != 1 {
		t.Errorf("found %+v, want 1 made, and the end failed", c)
	}
	const told = "the end of replication 0 couldn't be saved: the store hasn't taken it within 5s"
	if !strings.Contains(remarks.String(), told) {
		t.Errorf("found remarks %q, want %q", remarks.String(), told)
	}
}

// endless is a store that takes no end of a replication until its context ends; by then the run is to end.
type endless struct {
	checkpoint.Blobs
	stop chan struct{}
}

func (e *endless) Put(ctx context.Context, name string, r io.Reader, size int64, onlyNew bool) error {
	if !strings.HasPrefix(name, "done/") {
		return e.Blobs.Put(ctx, name, r, size, onlyNew)
	}
	close(e.stop)
	<-ctx.Done()
	return ctx.Err()
}

// hangingBlobs takes so many, and no more until a channel is closed.
type hangingBlobs struct {
	checkpoint.Blobs
	puts  int
	until <-chan struct{}
}

func (h *hangingBlobs) Put(ctx context.Context, name string, r io.Reader, size int64, onlyNew bool) error {
	if h.puts--; h.puts < 0 {
		<-h.until
	}
	return h.Blobs.Put(ctx, name, r, size, onlyNew)
}

// fullBlobs has room for so many, and behind so many that it refuses again; 0: never.
type fullBlobs struct {
	checkpoint.Blobs
	puts    int
	refused int
}

func (f *fullBlobs) Put(ctx context.Context, name string, r io.Reader, size int64, onlyNew bool) error {
	if f.puts--; f.puts < 0 && (f.refused == 0 || f.puts >= -f.refused) {
		return errors.New("the store is full")
	}
	return f.Blobs.Put(ctx, name, r, size, onlyNew)
}

func (f *fullBlobs) repo(t testing.TB) *checkpoint.Repo {
	repo, err := checkpoint.Open(context.Background(), f.Blobs)
	if err != nil {
		t.Fatal(err)
	}
	return repo
}

// anyWorker is the process of one of the run's workers.
func anyWorker(t testing.TB) int {
	t.Helper()
	pids := children(t, os.Getpid())
	if len(pids) == 0 {
		t.Error("found no worker to end")
		return 0
	}
	return slices.Max(pids)
}

// killPID ends a process; 0: none.
func killPID(t testing.TB, pid int) {
	t.Helper()
	if pid == 0 {
		return
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

// A run that is asked to end is saved before, and another one goes on from there.
func TestStopIsSaved(t *testing.T) {
	for _, transport := range transports() {
		for _, spread := range []string{SpreadNodes, SpreadReplications} {
			cfg := config(transport, 2, launchtest.Scenario(4, 60, trouble(1, 0, launchtest.Slow)))
			cfg.Replications, cfg.Spread, cfg.Partition = 2, spread, ""
			out, err := run(t, cfg)
			if err != nil {
				t.Fatal(err)
			}
			want := text(t, out)
			stop := make(chan struct{})
			cfg.Stop = stop
			cfg.Checkpoint = &Checkpoint{Repo: newRepo(t, cfg, checkpointtest.NewMem()), Keep: 1}
			var once sync.Once
			cfg.Progress = func(p Progress) {
				if p.Now > 3 || p.Elapsed > 300*time.Millisecond { // one worker alone rarely shows how far it is
					once.Do(func() { close(stop) })
				}
			}
			if out, err = run(t, cfg); err != nil {
				t.Fatal(err)
			}
			if !out.Interrupted || out.Checkpoints.Made == 0 {
				t.Errorf("%s, %s: interrupted %v, %+v; want a checkpoint", transport, spread, out.Interrupted,
					out.Checkpoints)
			}
			cfg.Stop, cfg.Progress, cfg.Workers = nil, nil, 3
			if cfg.Resume, err = ResumeAt(context.Background(), cfg.Checkpoint.Repo, "latest"); err != nil {
				t.Fatal(err)
			}
			if m := cfg.Resume.From[0]; m == nil || m.Finished {
				t.Errorf("%s, %s: found the checkpoint %+v, want one", transport, spread, m)
			}
			if out, err = run(t, cfg); err != nil {
				t.Fatal(err)
			}
			if got := text(t, out); got != want {
				t.Errorf("%s, %s: %s", transport, spread, differing(got, want))
			}
		}
	}
}

// A run goes back when a worker dies, as often as it may.
func TestRecover(t *testing.T) {
	cfg := config(TransportShm, 3, launchtest.Scenario(6, 40, trouble(1, 0, launchtest.Slow)))
	cfg.Replications, cfg.Spread, cfg.Partition = 2, SpreadNodes, ""
	out, err := run(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := text(t, out)
	for i, times := range []int{0, 1, 3, 3} {
		for _, saves := range []bool{true, false} {
			cfg := cfg
			alone := i%2 == 1
			if alone {
				cfg.Spread = SpreadReplications
			}
			if saves {
				cfg.Checkpoint = &Checkpoint{Repo: newRepo(t, cfg, checkpointtest.NewMem()), Every: 2, Keep: 2}
			}
			var mu sync.Mutex // guards the next three
			kills, told, sent := 0, 0, 0
			kill := func(pid int) { // once each time
				if kills < 2 && kills == told {
					kills, sent = kills+1, 0
					killPID(t, pid)
				}
			}
			if !saves && !alone { // one worker alone rarely shows how far it is
				cfg.Progress = func(p Progress) {
					mu.Lock()
					defer mu.Unlock()
					if p.Now > 0 {
						kill(anyWorker(t))
					}
				}
			}
			l, err := Prepare(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if saves || alone {
				l.onStep = func(s *supervisor, at string) { // its own worker: another set's may have given its results
					mu.Lock()
					defer mu.Unlock()
					if !s.want.has(worker.TypeDone) || !strings.HasPrefix(at, "sent") {
						return
					}
					if sent++; !saves || sent >= 4 { // a checkpoint is there when the leg behind the next one begins
						kill(s.conns.workers[len(s.conns.workers)-1].pid)
					}
				}
			}
			out, err := l.RunRecovering(context.Background(), times, func(r Recovery, _ error) {
				mu.Lock()
				defer mu.Unlock()
				if told++; r.From > 0 && !saves || r.From == 0 && saves && !alone ||
					r.Workers < 1 || r.Reason == "" || !(r.Seconds > 0) {
					t.Errorf("saves %v: found %+v", saves, r)
				}
			})
			if times < 2 {
				var w *WorkerError
				if !errors.As(err, &w) || !w.Died || told != times {
					t.Errorf("may go back %d times, did %d times: found %v, want that a worker has died", times, told,
						err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := text(t, out); got != want || len(out.Recoveries) != 2 || told != 2 {
				t.Errorf("saves %v: recovered %d times, want 2: %s", saves, told, differing(got, want))
			}
		}
	}
}

// A run that goes on from an older checkpoint makes those behind it again, on the base of its own and not of the newest
// ones, and has the whole trace at its end, though what it began with is gone by then.
func TestResumeFromAnOlderOne(t *testing.T) {
	cfg := config(TransportShm, 2, launchtest.Scenario(6, 60, ""))
	cfg.Trace = filepath.Join(t.TempDir(), "trace")
	repo := newRepo(t, cfg, checkpointtest.NewMem())
	cfg.Checkpoint = &Checkpoint{Repo: repo, Keep: 9, At: []LabelledEpoch{{Epoch: 0.5}, {Epoch: 30}, {Epoch: 50}}}
	out, err := run(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := text(t, out) + readTrace(t, cfg.Trace)
	for _, workers := range []int{1, 3} {
		other := cfg
		other.Workers = workers
		if other.Resume, err = ResumeAt(context.Background(), repo, "0.5"); err != nil {
			t.Fatal(err)
		}
		other.Checkpoint = &Checkpoint{Repo: repo, Keep: 1, At: []LabelledEpoch{{Epoch: 10}, {Epoch: 20}, {Epoch: 40}}}
		if workers == 1 {
			other.Checkpoint.Keep = 9 // the next one begins there, too
		}
		out, err := run(t, other)
		if err != nil {
			t.Fatal(err)
		}
		if got := text(t, out) + readTrace(t, cfg.Trace); got != want || out.Checkpoints.Failed > 0 {
			t.Errorf("%d workers: %d bytes, want %d; %+v", workers, len(got), len(want), out.Checkpoints)
		}
	}
}

// A checkpoint that is asked for between two legs, behind the one of the first, is made.
func TestAskedBetweenLegs(t *testing.T) {
	for _, transport := range transports() {
		cfg := config(transport, 2, launchtest.Scenario(4, 40, trouble(1, 0, launchtest.Slow)))
		now := make(chan struct{})
		repo := newRepo(t, cfg, checkpointtest.NewMem())
		cfg.Checkpoint = &Checkpoint{Repo: repo, Now: now, Keep: 100}
		l, err := Prepare(cfg)
		if err != nil {
			t.Fatal(err)
		}
		asked, ready := 0, "sent, waiting for "+worker.TypeReady.String()
		l.onStep = func(s *supervisor, at string) {
			first := asked == 0 && s.want.has(worker.TypeDone)
			if s.stage.phase == PhaseRun && (first || asked == 1 && at == ready) {
				now <- struct{}{}
				time.Sleep(askAgain / 4) // EndNow is called meanwhile
				asked++
			}
		}
		if _, err := l.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		points, err := repo.Points(t.Context())
		saved := 0
		for _, p := range points {
			if !p.Finished {
				saved++
			}
		}
		if err != nil || asked != 2 || saved != 2 {
			t.Errorf("%s: asked for %d, and found %v, %v; want 2 beside the end", transport, asked, points, err)
		}
	}
}

// A checkpoint that is asked for while the last one is being written is made behind it; no leg ends for it before.
func TestAskedWhileWritten(t *testing.T) {
	for _, transport := range transports() {
		cfg := config(transport, 2, launchtest.Scenario(4, 100, trouble(1, 0, launchtest.Slow)))
		now, stop := make(chan struct{}), make(chan struct{})
		blobs := &slowPoints{Blobs: checkpointtest.NewMem(), now: now, stop: stop}
		cfg.Checkpoint, cfg.Stop = &Checkpoint{Repo: newRepo(t, cfg, blobs), Now: now, Keep: 100}, stop
		l, err := Prepare(cfg)
		if err != nil {
			t.Fatal(err)
		}
		var once sync.Once
		l.onStep = func(s *supervisor, at string) {
			if s.stage.phase == PhaseRun {
				once.Do(func() { now <- struct{}{} })
			}
		}
		out, err := l.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if points := int(blobs.points.Load()); points < 4 || out.Checkpoints.Skipped > 0 {
			t.Errorf("%s: %d checkpoints, %+v; want one for each of three requests, and the last", transport, points,
				out.Checkpoints)
		}
	}
}

// slowPoints is a store in which the first two checkpoints take long; meanwhile another one is asked for. Behind the
// third the run is to end.
type slowPoints struct {
	checkpoint.Blobs
	points    atomic.Int32
	now, stop chan struct{}
}

func (s *slowPoints) Put(ctx context.Context, name string, r io.Reader, size int64, onlyNew bool) error {
	if !strings.HasPrefix(name, "points/") {
		return s.Blobs.Put(ctx, name, r, size, onlyNew)
	}
	switch s.points.Add(1) {
	case 1, 2:
		s.now <- struct{}{}
		time.Sleep(3 * askAgain)
	case 3:
		close(s.stop)
	}
	return s.Blobs.Put(ctx, name, r, size, onlyNew)
}
