// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/disco-sim/disco/internal/inspect"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/worker"
)

// runner runs cells as processes of this executable.
type runner struct {
	dir  string // of the scenario file
	self string
}

func newRunner() (*runner, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "disco-scale-")
	return &runner{dir, self}, err
}

func (r *runner) close() { os.RemoveAll(r.dir) }

// run is one run as it looks from outside. Times are seconds.
type run struct {
	rate    float64 // events a second, once the first was handled
	byBoard bool    // the rate is one of boards that were read meanwhile; else one of the whole run, its begin included
	peak    int64   // bytes of all processes together
	by      string  // how the peak was measured
	load    float64 // by the run's phases: reading, checking, placing, writing what workers read
	start   float64 // likewise: starting workers, building nodes, calling each at epoch 0, until the first event
	events  float64 // likewise, from there to the last one
	end     float64 // the rest of the time from the start of the process to its end
	others  float64 // share of the machine's processor time that others took meanwhile, other guests of its host too

	began   time.Time
	results results
}

// results are what a run's own JSON says.
type results struct {
	Events      uint64          `json:"events"`
	WallSeconds float64         `json:"wall_s"`
	Rate        float64         `json:"events_per_s"`
	TraceHash   string          `json:"trace_hash"`
	Nodes       int             `json:"nodes"`
	Model       json.RawMessage `json:"results"`
	Links       int             `json:"links"`
	Phases      launch.Phases   `json:"phases"`
	Workers     []struct {
		Events  uint64  `json:"events"`
		Working float64 `json:"working_s"`
		Blocked float64 `json:"blocked_s"`
		Room    float64 `json:"room_s"`
		CPU     float64 `json:"cpu_s"`
		Wall    float64 `json:"wall_s"`
		Sent    uint64  `json:"sent"`
	} `json:"per_worker"`
}

// errCell is a run that didn't end well; the text says why.
var errCell = errors.New("not measured")

// Up to so many times a run is repeated while others take more than so much of the machine; the calmest one counts.
const (
	othersMost = 0.04
	triesMost  = 4
)

// quietly is do, but for what others do to the machine meanwhile.
func (r *runner) quietly(ctx context.Context, text []byte, args []string, l limits) (best *run, err error) {
	for range triesMost {
		m, err := r.do(ctx, text, args, l)
		if err != nil {
			return nil, err
		}
		if best == nil || m.others < best.others {
			best = m
		}
		if best.others <= othersMost || time.Since(m.began) > l.time/20 {
			break
		}
	}
	return best, nil
}

// limits of one run.
type limits struct {
	time   time.Duration
	memory int64 // bytes
}

// do runs a scenario and looks at it until its end. args are those behind the file's name.
func (r *runner) do(ctx context.Context, text []byte, args []string, l limits) (*run, error) {
	file := filepath.Join(r.dir, "scenario.yml")
	if err := os.WriteFile(file, text, 0o666); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, l.time)
	defer cancel()
	line := append([]string{r.self, "run", file, "--json", "-", "--crash-dir", "none"}, args...)
	g, errGroup := newGroup(l.memory)
	if errGroup == nil {
		defer g.remove()
		line = g.command(line)
	}
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = append(os.Environ(), roleEnv+"="+roleProgram)
	// The workers end with their launcher, however it ends.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	w := &watch{began: time.Now(), pss: errGroup != nil}
	before := processorTime()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	err := w.until(cmd.Process.Pid, done)
	over := time.Now()
	m := &run{peak: w.peak, by: byPss, began: w.began}
	if errGroup == nil {
		m.by = byGroup
		if m.peak, errGroup = g.read(); errGroup != nil {
			return nil, errGroup
		}
	}
	switch {
	case ctx.Err() != nil:
		return m, fmt.Errorf("%w: %w after %v, with %s", errCell, context.Cause(ctx),
			over.Sub(w.began).Round(time.Second), bytesText(m.peak))
	case err != nil:
		return m, fmt.Errorf("%w: %w: %s (memory: %s of %s)", errCell, err, oneLine(problems.String()),
			bytesText(m.peak), bytesText(l.memory))
	}
	if err := json.Unmarshal(out.Bytes(), &m.results); err != nil {
		return m, fmt.Errorf("the run's JSON: %w", err)
	}
	w.result(m, over)
	own := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() // and of its workers, which it has waited for
	m.others = max(0, processorTime()-before-own.Seconds()) / over.Sub(w.began).Seconds() / float64(runtime.NumCPU())
	return m, nil
}

// oneLine is the first part of a text, in one line.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return text[:min(len(text), 400)]
}

// watch looks at the boards of a run.
type watch struct {
	began time.Time
	pss   bool // sum the memory of the processes
	peak  int64

	first, last sample // that had events
}

type sample struct {
	at     time.Time
	events float64
}

// Distances of looks: short ones until the first event, and in each case many times what a look takes.
const (
	lookFirst = time.Millisecond
	lookLater = 20 * time.Millisecond
	lookShare = 20
)

// until looks at a run until its process has ended, and returns what came of it.
func (w *watch) until(pid int, done <-chan error) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-timer.C:
		}
		before := time.Now()
		w.look(pid)
		pause := lookFirst
		if w.first.events > 0 {
			pause = lookLater
		}
		timer.Reset(max(pause, lookShare*time.Since(before)))
	}
}

func (w *watch) look(pid int) {
	if w.pss {
		w.peak = max(w.peak, pss(family(pid)))
	}
	r, err := inspect.Process(pid)
	if err != nil {
		return // it begins or ends
	}
	now, events := time.Now(), 0.0
	for i := range r.Workers {
		events += r.Workers[i].Number(worker.NumberEvents)
	}
	if events > w.last.events {
		w.last = sample{now, events}
	}
	if w.first.events == 0 {
		w.first = w.last
	}
}

// rateTime is the least time between two looks from which a rate is computed.
const rateTime = 0.2

// result puts the times together: the run's own phases, and the rest of the time that its process took. A run that is
// too short to be looked at has its own rate.
func (w *watch) result(m *run, over time.Time) {
	p := &m.results.Phases
	m.load = p.Read + p.Compile + p.Partition + p.Write
	m.start = p.Start + p.Wire + p.First
	m.events = p.Simulate
	m.end = max(0, over.Sub(w.began).Seconds()-m.load-m.start-m.events)
	m.rate = m.results.Rate
	if span := w.last.at.Sub(w.first.at).Seconds(); span >= rateTime {
		m.rate, m.byBoard = (w.last.events-w.first.events)/span, true
	}
}
