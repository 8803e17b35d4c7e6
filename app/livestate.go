// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"math"
	"time"

	"github.com/disco-sim/disco/internal/inspect"
	"github.com/disco-sim/disco/internal/worker"
)

// liveState is live.json: docs/live.md has its fields.
type liveState struct {
	PID             int          `json:"pid"`
	State           string       `json:"state"` // running, ended, failed
	ReachedSeconds  float64      `json:"reached_s"`
	HorizonSeconds  float64      `json:"horizon_s"`
	Replication     int          `json:"replication"`
	Replications    int          `json:"replications"`
	Done            int          `json:"done"`
	Share           float64      `json:"share"`
	Events          uint64       `json:"events"`
	EventsPerSecond float64      `json:"events_per_s"`
	WallSeconds     float64      `json:"wall_s"`
	Written         int          `json:"written"`
	Workers         []liveWorker `json:"workers"`
}

// liveWorker is one worker in it.
type liveWorker struct {
	Index           int     `json:"index"`
	EpochSeconds    float64 `json:"epoch_s"`
	Events          uint64  `json:"events"`
	EventsPerSecond float64 `json:"events_per_s"`
	Busy            float64 `json:"busy"`
	Blocked         float64 `json:"blocked"`
	Room            float64 `json:"room"`
	Parked          float64 `json:"parked"`
	Pending         uint64  `json:"pending"`
	WaitsFor        string  `json:"waits_for"`
	State           string  `json:"state"` // what it does: busy, blocked, room, outside, reporting, idle, stopped
	Process         string  `json:"process"`
}

// watch writes the state again and again, until the run is over.
func (l *live) watch() {
	var run *inspect.Live
	defer func() {
		if run != nil {
			_ = run.Close() // mappings for reading
		}
	}()
	l.note(l.write())
	sample, state := time.NewTicker(samplePeriod), time.NewTicker(livePeriod)
	defer sample.Stop()
	defer state.Stop()
	for {
		select {
		case <-l.over:
			return
		case <-sample.C:
			if run != nil {
				run.Sample()
			}
			continue
		case <-state.C:
		}
		run = l.look(run)
		l.note(l.write())
	}
}

// look takes what the boards show, and returns what they are looked at by. Workers in this process have none.
func (l *live) look(run *inspect.Live) *inspect.Live {
	var v *inspect.View
	var err error
	if run == nil {
		run, err = inspect.Open(l.state.PID)
	}
	if err == nil {
		v, err = run.Look()
	}
	if err != nil {
		if run != nil {
			_ = run.Close() // mappings for reading
		}
		return nil // it is opened anew where there is one
	}
	workers := make([]liveWorker, 0, len(v.Workers))
	for i := range v.Workers {
		w, s := &v.Workers[i], v.Shares[i]
		workers = append(workers, liveWorker{Index: w.Index, EpochSeconds: finite(w.Number(worker.NumberEpoch)),
			Events:          uint64(w.Number(worker.NumberEvents)),
			EventsPerSecond: finite(v.PerSecond(i, worker.NumberEvents)), Busy: s.Busy, Blocked: s.Blocked,
			Room: s.Room, Parked: s.Parked, Pending: uint64(w.Number(worker.NumberPending)), WaitsFor: waitsFor(w),
			State: doing(w), Process: shownState(v, w)})
	}
	l.mu.Lock()
	l.state.Workers = workers
	l.mu.Unlock()
	return run
}

// doing is what a worker does, in a word.
func doing(w *inspect.Worker) string {
	switch uint64(w.Number(worker.NumberState)) {
	case worker.StateWork:
		return "busy"
	case worker.StateBound, worker.StateAhead:
		return "blocked"
	case worker.StateRoom:
		return "room"
	case worker.StateOutside:
		return "outside"
	case worker.StateGather:
		return "reporting"
	case worker.StatePaused, worker.StateHeld:
		return "stopped"
	}
	return "idle"
}

// write writes live.json.
func (l *live) write() error {
	l.mu.Lock()
	s, g, now := &l.state, &l.progress, time.Now()
	if s.State == "" {
		s.State = "running"
	}
	if g.Elapsed > 0 {
		wall := g.Elapsed.Seconds()
		if more := wall - s.WallSeconds; more > 0 && g.Events >= s.Events {
			s.EventsPerSecond = float64(g.Events-s.Events) / more
		}
		s.ReachedSeconds, s.HorizonSeconds = finite(math.Min(g.Now, g.Horizon)), g.Horizon
		s.Replication, s.Replications, s.Done, s.Share = g.Replication, g.Replications, g.Done, g.Share
		s.Events, s.WallSeconds = g.Events, wall
	}
	if s.Workers == nil {
		s.Workers = []liveWorker{}
	}
	s.Written, l.at = l.written, now
	text, err := json.MarshalIndent(s, "", jsonIndent)
	l.mu.Unlock()
	if err != nil {
		return err
	}
	return l.dir.Live(append(text, '\n'))
}
