package launch

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/worker"
)

// Outcome is what a run has found out.
type Outcome struct {
	// Summary is the scenario's own results; nil when the run was interrupted before
	// anything was simulated.
	Summary scenario.Summary

	// Interrupted says that Config.Stop ended the run early. The results are then
	// about what was simulated up to there, and TraceHash is empty.
	Interrupted bool

	// TraceHash is a hash over everything that was handled, in total order.
	TraceHash string

	Replications []Replication
	Workers      []WorkerStats // summed over the replications
	Events       uint64        // handled, in all replications
	Activations  uint64        // calls of handlers
	WallSeconds  float64       // from the first event of a replication to its last, summed
	SetupSeconds float64       // everything else: starting workers, building nodes
}

// Replication is one repetition.
type Replication struct {
	Index       int
	Reached     float64 // simulated seconds
	Interrupted bool
	Events      uint64
	Activations uint64
	WallSeconds float64
	TraceHash   string // empty when interrupted
}

// WorkerStats is what one worker did.
type WorkerStats struct {
	Worker int
	Nodes  int
	Events uint64
	worker.Stats
}

// conduct leads the crew through all replications.
type conduct struct {
	*Launch
	*supervisor
	memory  *memory
	traces  *traces
	parts   []scenario.Replication
	hashes  [][]byte
	outcome *Outcome
}

// Run starts the workers and returns when all of them have ended. The error is a
// *WorkerError when one of them died or failed. The end of ctx ends the run at once,
// with ErrEnded.
func (l *Launch) Run(ctx context.Context) (*Outcome, error) {
	began := time.Now()
	if l.placement.Workers < l.cfg.Workers {
		l.cfg.note(l.fewer())
	}
	traces, err := l.openTraces()
	if err != nil {
		return nil, err
	}
	defer traces.close()
	mem, err := newMemory(l.cfg.Transport, l.placement.Workers, l.cfg.Tuning)
	if err != nil {
		return nil, err
	}
	defer mem.close()
	crew, release, err := l.start(mem, traces)
	if err != nil {
		return nil, err
	}
	defer release()
	c := &conduct{Launch: l, supervisor: newSupervisor(crew, &l.cfg, l.times), memory: mem, traces: traces, outcome: l.newOutcome()}
	if err := c.replications(ctx); err != nil {
		c.end(ctx.Err() == nil)
		return nil, err
	}
	if err := c.dismiss(ctx); err != nil {
		return nil, err
	}
	c.outcome.SetupSeconds = time.Since(began).Seconds() - c.outcome.WallSeconds
	if err := traces.merge(ctx, l.graph); err != nil {
		return nil, err
	}
	return c.conclude()
}

func (l *Launch) newOutcome() *Outcome {
	o := &Outcome{Workers: make([]WorkerStats, l.placement.Workers)}
	for w := range o.Workers {
		o.Workers[w].Worker, o.Workers[w].Nodes = w, l.placement.Nodes[w]
	}
	return o
}

// replications runs the protocol up to the last Done.
func (c *conduct) replications(ctx context.Context) error {
	if _, err := c.ask(ctx, c.setup, worker.TypeReady); err != nil {
		return err
	}
	c.memory.release() // the workers have theirs now
	for r := 0; r < c.cfg.Replications && !c.stopping; r++ {
		prepare := &worker.Message{Type: worker.TypePrepare, Prepare: &worker.Prepare{Replication: r}}
		if _, err := c.ask(ctx, func(int) *worker.Message { return prepare }, worker.TypeReady); err != nil {
			return err
		}
		if c.stopping {
			break
		}
		began := time.Now()
		c.tick = c.progress(r, began)
		answers, err := c.ask(ctx, func(int) *worker.Message { return &worker.Message{Type: worker.TypeGo} }, worker.TypeDone)
		if err != nil {
			return err
		}
		if err := c.file(r, answers, time.Since(began)); err != nil {
			return err
		}
	}
	c.outcome.Interrupted = c.outcome.Interrupted || len(c.outcome.Replications) < c.cfg.Replications
	return nil
}

// setup is what worker index is told first.
func (c *conduct) setup(index int) *worker.Message {
	return &worker.Message{Type: worker.TypeSetup, Setup: &worker.Setup{
		Worker:    index,
		Workers:   c.placement.Workers,
		File:      c.cfg.File,
		Text:      c.cfg.Text,
		Horizon:   c.cfg.Horizon,
		Seed:      c.cfg.Seed,
		Placement: c.placement.Of,
		Tuning:    c.cfg.Tuning,
		Trace:     c.cfg.Trace != "",
	}}
}

// progress makes the function that reports how far replication r is.
func (c *conduct) progress(r int, began time.Time) func() {
	if c.cfg.Progress == nil {
		return nil
	}
	return func() {
		now, events := c.memory.progress()
		c.cfg.Progress(Progress{
			Replication:  r,
			Replications: c.cfg.Replications,
			Now:          now,
			Horizon:      c.scenario.Horizon(),
			Events:       events,
			Elapsed:      time.Since(began),
		})
	}
}

// file keeps what the workers have to say about replication r.
func (c *conduct) file(r int, answers []*worker.Message, wall time.Duration) error {
	rep := Replication{Index: r, Reached: math.Inf(1), WallSeconds: wall.Seconds()}
	parts := make([][]byte, c.graph.NumSimprocs())
	done := make([]*worker.Done, len(answers))
	for w, a := range answers {
		d := a.Done
		done[w] = d
		rep.Interrupted = rep.Interrupted || d.Interrupted
		rep.Reached = min(rep.Reached, d.Reached)
		rep.Events += d.Events
		rep.Activations += d.Activations
		c.outcome.Workers[w].add(d)
		for id, part := range d.Parts {
			if int(id) >= len(parts) {
				return fmt.Errorf("launch: worker %d reports about simproc %d, but there are %d", w, id, len(parts))
			}
			parts[id] = part
		}
	}
	if !rep.Interrupted {
		rep.Reached = c.scenario.Horizon()
		hash, err := traceHash(c.graph, done)
		if err != nil {
			return err
		}
		c.hashes = append(c.hashes, hash)
		rep.TraceHash = runHash([][]byte{hash})
	}
	if err := c.traces.mark(rep.Reached); err != nil {
		return err
	}
	c.parts = append(c.parts, scenario.Replication{Index: r, Horizon: c.scenario.Horizon(), Reached: rep.Reached, Parts: parts})
	c.outcome.Replications = append(c.outcome.Replications, rep)
	c.outcome.Events += rep.Events
	c.outcome.Activations += rep.Activations
	c.outcome.WallSeconds += rep.WallSeconds
	c.outcome.Interrupted = c.outcome.Interrupted || rep.Interrupted
	return nil
}

// add sums up what a worker says after each replication.
func (s *WorkerStats) add(d *worker.Done) {
	s.Events += d.Events
	s.WallSeconds += d.Stats.WallSeconds
	s.BlockedSeconds += d.Stats.BlockedSeconds
	s.CPUSeconds += d.Stats.CPUSeconds
	s.Sent += d.Stats.Sent
	s.Received += d.Stats.Received
	s.Promises += d.Stats.Promises
	s.IdleJumps += d.Stats.IdleJumps
	s.FullWaits += d.Stats.FullWaits
	s.Parks += d.Stats.Parks
}

// conclude lets the scenario make its results.
func (c *conduct) conclude() (*Outcome, error) {
	if !c.outcome.Interrupted {
		c.outcome.TraceHash = runHash(c.hashes)
	}
	if len(c.parts) == 0 {
		return c.outcome, nil
	}
	summary, err := c.scenario.Summarize(c.parts)
	if err != nil {
		return nil, fmt.Errorf("launch: the model %T can't sum up its results: %w", c.scenario, err)
	}
	c.outcome.Summary = summary
	return c.outcome, nil
}
