// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// FleetConfig configures a Fleet.
type FleetConfig struct {
	// Processes puts the two sides of each pair into processes of their own; the
	// coordinator is the leading side of the first pair. Otherwise all are threads of
	// this process.
	Processes bool
	// Pairs is how many pairs can work at the same time, at least 1.
	Pairs int
	// ArenaBytes is the memory of each pair; see ArenaBytes. At least 1.
	ArenaBytes int
	// Jobs are what the fleet can run. Worker processes must know the same ones.
	Jobs []Job
	// Stderr is where worker processes write when they break down. Default os.Stderr.
	Stderr io.Writer
}

// Fleet is the processes or threads that measure, and the memory between them. One
// goroutine at a time may call it. After an error it can only be closed.
type Fleet struct {
	cfg     FleetConfig
	jobs    map[string]Job
	arenas  []*Arena
	members [][2]member
	abort   atomic.Bool
	starter *starter
	dir     string // for sockets; "": none so far

	mu     sync.Mutex
	err    error // guarded by mu: why the fleet is broken
	broken chan struct{}
}

// member is one side of one pair, wherever it runs.
type member interface {
	prepare(t Task) (address string, err error)
	start() error
	result() (Result, error)
	close()
}

// NewFleet makes the memory and starts the processes. The caller closes the fleet.
func NewFleet(cfg FleetConfig) (*Fleet, error) {
	if cfg.Pairs < 1 || cfg.ArenaBytes < 1 {
		return nil, fmt.Errorf("bench: fleet of %d pairs with %d bytes each, want at least 1 of both", cfg.Pairs,
			cfg.ArenaBytes)
	}
	if cfg.Stderr == nil {
		cfg.Stderr = os.Stderr
	}
	if _, isFile := cfg.Stderr.(*os.File); !isFile {
		cfg.Stderr = &shared{w: cfg.Stderr}
	}
	f := &Fleet{cfg: cfg, jobs: jobsByName(cfg.Jobs), broken: make(chan struct{})}
	if err := f.open(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// shared is one writer for the outputs of several processes.
type shared struct {
	mu sync.Mutex
	w  io.Writer // guarded by mu
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(b)
}

func jobsByName(jobs []Job) map[string]Job {
	m := make(map[string]Job, len(jobs))
	for _, j := range jobs {
		if _, twice := m[j.Name]; twice {
			panic(fmt.Sprintf("bench: two jobs are called %q", j.Name))
		}
		m[j.Name] = j
	}
	return m
}

func (f *Fleet) open() error {
	// Spinning threads must not keep the others of the process from running.
	sides := 2
	if !f.cfg.Processes {
		sides = 2 * f.cfg.Pairs
	}
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), sides+2))
	for p := range f.cfg.Pairs {
		a, err := newArena(p, f.cfg.ArenaBytes)
		if err != nil {
			return err
		}
		f.arenas = append(f.arenas, a)
	}
	if f.cfg.Processes {
		f.starter = newStarter()
	}
	for p := range f.cfg.Pairs {
		var pair [2]member
		for side := range pair {
			if !f.cfg.Processes || p == 0 && side == 0 {
				pair[side] = &local{jobs: f.jobs, arena: f.arenas[p], abort: &f.abort}
				continue
			}
			c, err := f.startProcess(p, side)
			if err != nil {
				return err
			}
			pair[side] = c
			f.members = append(f.members[:p:p], pair) // so that Close finds it
		}
		f.members = append(f.members[:p:p], pair)
	}
	return nil
}

// Close ends all processes and frees the memory. Closing again does nothing.
func (f *Fleet) Close() {
	f.fail(errClosed)
	for _, pair := range f.members {
		for _, m := range pair {
			if m != nil {
				m.close()
			}
		}
	}
	f.members = nil
	for _, a := range f.arenas {
		a.close()
	}
	f.arenas = nil
	if f.dir != "" {
		os.RemoveAll(f.dir)
		f.dir = ""
	}
	if f.starter != nil {
		f.starter.close()
		f.starter = nil
	}
}

var errClosed = errors.New("bench: the fleet is closed")

// fail breaks the fleet: the first reason is kept, and every side is stopped.
func (f *Fleet) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
		f.abort.Store(true)
		close(f.broken)
	}
}

func (f *Fleet) reason() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// extraTimeMax is how long a measurement may take beyond its own time. It is reached only if an event was lost or
// the machine was suspended.
const extraTimeMax = 15 * time.Second

// Run does one measurement: tasks has one task for each pair that takes part, for both
// of its sides. It returns the results of the leading sides, with the CPU time and the
// allocations of both.
func (f *Fleet) Run(ctx context.Context, tasks []Task) ([]Result, error) {
	if len(tasks) > len(f.members) {
		return nil, fmt.Errorf("bench: %d pairs wanted, the fleet has %d", len(tasks), len(f.members))
	}
	stop := context.AfterFunc(ctx, func() { f.fail(fmt.Errorf("bench: interrupted: %w", context.Cause(ctx))) })
	defer stop()
	limit := time.AfterFunc(extraTimeMax+20*tasks[0].Time, func() {
		f.fail(fmt.Errorf("bench: %s found no end within %v", tasks[0].Job, extraTimeMax))
	})
	defer limit.Stop()
	results, err := f.run(tasks)
	if err != nil {
		f.fail(err)
		f.selectRootCause()
	}
	if err := f.reason(); err != nil {
		return nil, err
	}
	return results, nil
}

// selectRootCause ends the processes of a fleet that is broken. Where one had ended by itself, that is the reason, and
// what another told before, such as a connection that was lost, is its consequence.
func (f *Fleet) selectRootCause() {
	for _, pair := range f.members {
		for _, m := range pair {
			p, ok := m.(*process)
			if !ok {
				continue
			}
			if p.kill(); p.fell {
				f.mu.Lock()
				f.err = p.died()
				f.mu.Unlock()
				return
			}
		}
	}
}

func (f *Fleet) run(tasks []Task) ([]Result, error) {
	if err := f.reason(); err != nil {
		return nil, err
	}
	for p, t := range tasks {
		if err := f.prepare(p, t); err != nil {
			return nil, err
		}
	}
	for side := 1; side >= 0; side-- {
		for p := range tasks {
			if err := f.members[p][side].start(); err != nil {
				return nil, err
			}
		}
	}
	return f.gather(len(tasks))
}

// prepare makes the two sides of a pair ready.
func (f *Fleet) prepare(p int, t Task) error {
	job, ok := f.jobs[t.Job]
	if !ok {
		return fmt.Errorf("bench: there is no job %q", t.Job)
	}
	f.arenas[p].clear()
	if job.Format != nil {
		if err := job.Format(f.arenas[p], t); err != nil {
			return err
		}
	}
	if job.Sockets && f.dir == "" {
		var err error
		if f.dir, err = os.MkdirTemp("", "disco-bench-"); err != nil {
			return fmt.Errorf("bench: a directory for sockets: %w", err)
		}
	}
	cpu := t.CPU
	t.Dir = f.dir
	t.Pair, t.Shared = p, !f.cfg.Processes
	for side := 1; side >= 0; side-- {
		t.Side = side
		t.CPU = cpuOf(cpu, p, side)
		address, err := f.members[p][side].prepare(t)
		if err != nil {
			return err
		}
		t.Address = address
	}
	return nil
}

// gather waits for all sides.
func (f *Fleet) gather(pairs int) ([]Result, error) {
	type answer struct {
		pair, side int
		result     Result
		err        error
	}
	answers := make(chan answer, 2*pairs)
	for p := range pairs {
		for side := range 2 {
			go func() {
				r, err := f.members[p][side].result()
				answers <- answer{p, side, r, err}
			}()
		}
	}
	var sides [2][]Result
	sides[0], sides[1] = make([]Result, pairs), make([]Result, pairs)
	for range 2 * pairs {
		a := <-answers
		if a.err != nil {
			f.fail(a.err) // before the next answer, which may be a consequence of this one
		}
		sides[a.side][a.pair] = a.result
	}
	for p := range pairs {
		sides[0][p].CPU += sides[1][p].CPU
		sides[0][p].Mallocs += sides[1][p].Mallocs
	}
	return sides[0], f.reason()
}
