// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/disco-sim/disco/internal/infile"
	"github.com/disco-sim/disco/perf/bench"
)

// runs are whole runs of one scenario: each round is one run of disco-run, with all of its processes.
type runs struct {
	*given
	dir  string
	hash string // of all runs of the scenario
	n    int
}

// outcome is what a run says of itself, and what it took.
type outcome struct {
	Events      uint64  `json:"events"`
	Wall        float64 `json:"wall_s"`
	Hash        string  `json:"trace_hash"`
	Checkpoints struct {
		Made  int     `json:"made"`
		Pause float64 `json:"pause_s"`
		Raw   uint64  `json:"raw_bytes"`
	} `json:"checkpoints"`
	cpu float64 // seconds of all processes
}

const (
	workers = "2"              // where a row doesn't say how many
	endTime = 20 * time.Second // for a run that was told to end

	// ofWithout is how fast a run with checkpoints is to be, one a minute, and one without beside the program before.
	ofWithout = 0.98

	// ofSaved is how fast a run with a journal of activations is to be, beside one with checkpoints alone.
	ofSaved = 0.97
)

// open makes the place for files of runs.
func (r *runs) open() (err error) {
	for _, program := range []string{r.program, r.before} {
		if _, err := os.Stat(program); program != "" && err != nil {
			return err
		}
	}
	r.dir, err = os.MkdirTemp("", "disco-bench-")
	return err
}

// specs are the rows: a scenario with checkpoints beside the same without, by processor and by wall time; one with a
// journal of activations beside that with checkpoints alone; that without beside another program; and how long a run of
// PHOLD stands still.
func (r *runs) specs() []bench.Spec {
	with := func(ctx context.Context) (outcome, error) {
		return r.scenarioRun(ctx, r.program, "--checkpoint-every", fmt.Sprint(r.between), "--checkpoint-to",
			r.fresh())
	}
	journal := func(ctx context.Context) (outcome, error) {
		return r.scenarioRun(ctx, r.program, "--checkpoint-every", fmt.Sprint(r.between), "--checkpoint-to", r.fresh(),
			"--replayable")
	}
	without := func(ctx context.Context) (outcome, error) { return r.scenarioRun(ctx, r.program) }
	list := both("checkpoint-run", with, "without", without, 0)
	rare := minutely{with: with, without: without}
	list = append(list, both("checkpoint-minute", rare.run, "without", rare.beside, ofWithout)...)
	for i := range list {
		list[i].Remark = fmt.Sprintf("%s with a checkpoint each %v simulated seconds of %v, %d workers",
			filepath.Base(r.scenario), r.between, r.horizon, r.workers)
		if i > 1 {
			list[i].Remark += "; what they cost, as often as one a minute"
		}
	}
	list = append(list, both("checkpoint-replayable", journal, "checkpoints", with, ofSaved)...)
	if r.before != "" {
		before := func(ctx context.Context) (outcome, error) { return r.scenarioRun(ctx, r.before) }
		list = append(list, both("checkpoint-none", without, "before", before, ofWithout)...)
	}
	return append(list, bench.Spec{Bench: "checkpoint-pause", Row: bench.Task{Payload: kibi}, Processes: 2,
		Limit: bench.Task{Job: "limit-memcpy", Payload: kibi}, LimitName: "limit-memcpy", By: bench.ByRate,
		Measure: r.pause, MeasureLimit: r.copies, Goal: bench.Goal{BytesMin: plainBytes},
		Remark: "PHOLD on 2 workers, which stand still; both copy as much for the limit"})
}

// both are two rows of the same runs: by processor time, and by wall time.
func both(name string, ours func(context.Context) (outcome, error), limit string,
	other func(context.Context) (outcome, error), goal float64) (list []bench.Spec) {
	var mine, others memory
	for i, by := range []string{"", "-wall"} {
		task := bench.Task{Job: limit}
		list = append(list, bench.Spec{Bench: name + by, Row: task, Limit: task, LimitName: limit, By: bench.ByRate,
			Processes: 2, Measure: mine.row(i, ours), MeasureLimit: others.row(i, other),
			Goal: bench.Goal{RatioMin: goal}})
	}
	return list
}

// minutely is a run as it would be with a checkpoint a minute: that without, and what one checkpoint costs of a run
// that has more of them, once in each minute.
type minutely struct {
	with, without func(context.Context) (outcome, error)
	left          [2][]outcome // of pairs of runs: without, and as it would be; which only one of two rows has taken
}

func (m *minutely) run(ctx context.Context) (outcome, error)    { return m.take(ctx, 1) }
func (m *minutely) beside(ctx context.Context) (outcome, error) { return m.take(ctx, 0) }

// take is the outcome of one of a pair of runs, the same pair for both of a round.
func (m *minutely) take(ctx context.Context, which int) (outcome, error) {
	if len(m.left[which]) == 0 {
		without, err := m.without(ctx)
		if err != nil {
			return without, err
		}
		with, err := m.with(ctx)
		if err == nil && with.Checkpoints.Made == 0 {
			err = errors.New("saving: a run without checkpoints: choose a smaller --between")
		}
		if err != nil {
			return with, err
		}
		each, rare := without.Wall/60/float64(with.Checkpoints.Made), without
		rare.Wall += each * (with.Wall - without.Wall)
		rare.cpu += each * (with.cpu - without.cpu)
		m.left[0], m.left[1] = append(m.left[0], without), append(m.left[1], rare)
	}
	o := m.left[which][0]
	m.left[which] = m.left[which][1:]
	return o, nil
}

// memory has outcomes of runs that only one of two rows has shown so far.
type memory struct {
	left [2][]outcome
}

// row is what one of the two rows measures: a run that the other one has shown, or a new one.
func (m *memory) row(which int, run func(context.Context) (outcome, error)) func(context.Context,
	bench.Task) (bench.Result, error) {
	return func(ctx context.Context, _ bench.Task) (bench.Result, error) {
		if len(m.left[which]) == 0 {
			o, err := run(ctx)
			if err != nil {
				return bench.Result{}, err
			}
			m.left[0], m.left[1] = append(m.left[0], o), append(m.left[1], o)
		}
		o := m.left[which][0]
		m.left[which] = m.left[which][1:]
		res := bench.Result{Events: o.Events, Nanos: int64(o.Wall * 1e9), CPU: o.cpu}
		if which == 0 {
			res.Steady = float64(o.Events) / o.cpu
		}
		return res, nil
	}
}

// fresh is a directory that isn't there.
func (r *runs) fresh() string {
	r.n++
	return filepath.Join(r.dir, fmt.Sprint("run-", r.n))
}

// scenarioRun runs the scenario; its results are those of every such run.
func (r *runs) scenarioRun(ctx context.Context, program string, args ...string) (outcome, error) {
	return r.same(ctx, program, append([]string{r.scenario, "--horizon", fmt.Sprint(r.horizon), "--workers",
		fmt.Sprint(r.workers)}, args...)...)
}

// same runs something whose runs all have the same results.
func (r *runs) same(ctx context.Context, program string, args ...string) (outcome, error) {
	o, err := r.run(ctx, program, args...)
	if r.hash == "" {
		r.hash = o.Hash
	}
	if err == nil && o.Hash != r.hash {
		err = fmt.Errorf("saving: %s: found trace hash %s, want %s, that of the runs before", program, o.Hash, r.hash)
	}
	return o, err
}

// run runs a program to its end, and removes what it has written.
func (r *runs) run(ctx context.Context, program string, args ...string) (o outcome, err error) {
	file := filepath.Join(r.dir, "run.json")
	args = append(append([]string{"run"}, args...), "--json", file)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = endTime
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Run(); err != nil {
		return o, fmt.Errorf("saving: %s %s: %w: %s", program, strings.Join(args, " "), err,
			bytes.TrimSpace(errs.Bytes()))
	}
	o.cpu = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds() // of its workers, too
	text, err := infile.Read(file, infile.Kind{Name: "the JSON of a run", BytesMax: 64 << 20})
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err == nil && (o.Hash == "" || o.Events == 0 || o.Wall <= 0 || o.cpu <= 0) {
		err = errors.New("saving: a run that has handled nothing")
	}
	return o, errors.Join(err, os.RemoveAll(filepath.Join(r.dir, fmt.Sprint("run-", r.n))))
}

// pause runs PHOLD with two checkpoints, and gives the bytes that were encoded while the workers stood still.
func (r *runs) pause(ctx context.Context, _ bench.Task) (res bench.Result, err error) {
	file := filepath.Join(r.dir, "phold.yml")
	text := fmt.Sprintf("model: phold\nlps: %d\nevents: %d\npayload: 16\nend: 1.5\n", r.nodes, perNode)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return res, err
	}
	o, err := r.run(ctx, r.program, file, "--workers", workers, "--checkpoint-at", "0.5", "--checkpoint-at",
		"1=last", "--checkpoint-to", r.fresh())
	if err != nil {
		return res, err
	}
	c := &o.Checkpoints
	if c.Made != 2 || c.Pause <= 0 {
		return res, fmt.Errorf("saving: found %d checkpoints in %v s, want 2", c.Made, c.Pause)
	}
	return bench.Result{Events: uint64(c.Made) * c.Raw / kibi, Nanos: int64(c.Pause * 1e9), CPU: o.cpu}, nil
}

// copies is two threads, each of which copies half of what a pause encodes.
func (r *runs) copies(context.Context, bench.Task) (bench.Result, error) {
	size := r.nodes * (nodeBytes + perNode*(eventHead+16)) / 2
	from, to := make([]byte, 2*size), make([]byte, 2*size)
	copy(to, from) // both are there
	var w watch
	w.start()
	var threads sync.WaitGroup
	for i := range 2 {
		threads.Go(func() { copy(to[i*size:(i+1)*size], from[i*size:(i+1)*size]) })
	}
	threads.Wait()
	w.stop()
	return bench.Result{Events: uint64(2*size) / kibi, Nanos: w.wall.Nanoseconds(), CPU: w.cpu}, nil
}

func (r *runs) close() {
	if err := os.RemoveAll(r.dir); err != nil {
		fmt.Fprintln(os.Stderr, "saving:", err)
	}
}
