// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/disco-sim/disco/internal/partition"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/shard"
)

// Rebalance is how nodes move between workers while the run goes on (docs/checkpoints.md, section 9).
type Rebalance struct {
	Shards int           // groups in which nodes move, 1 to worker.ShardsMax; no more than nodes
	Every  time.Duration // when it is looked whether something is to move; 0: when boards show that it is worth it

	// Strategy chooses; nil: the scenario's own, or shard.LeastLoaded, in shard.Careful where boards say when.
	Strategy shard.Strategy
}

// stepper is a strategy that is told of each step of moving nodes, a Step…: those of tests. Several goroutines do so.
type stepper interface{ AtStep(step string) }

// The steps of moving nodes, in the launcher, in their order.
const (
	StepEnd    = "end"    // a leg was told to end for a look
	StepLook   = "look"   // all workers stand still, and what is to move is looked for
	StepMove   = "move"   // something is, and workers are about to be told
	StepCame   = "came"   // some of what leaves a worker came
	StepLoad   = "load"   // all of it came, and a worker is about to get some of what is for it
	StepLoaded = "loaded" // each has all that is for it, and nobody has taken it in
	StepMoved  = "moved"  // all are ready for the leg behind
)

// at is a step.
func (b *rebalancing) at(step string) {
	if s, ok := b.strategy.(stepper); ok {
		s.AtStep(step)
	}
}

// Moves is what moved in a run.
type Moves struct {
	Shards int // that there are
	Fixed  int // of them, those that stay
	Looks  int // times that the strategy was asked
	Rounds []MoveRound
	Pause  float64 // wall seconds of all rounds, and of ending legs for all looks
}

// MoveRound is one time that shards moved.
type MoveRound struct {
	Replication int     `json:"replication"`
	Epoch       float64 `json:"epoch_s"`  // simulated seconds
	Version     uint64  `json:"version"`  // of the allocation from then on
	Shards      int     `json:"shards"`   // that moved
	Crossed     int     `json:"crossed"`  // … of them, to another machine
	Nodes       int     `json:"nodes"`    // … in all
	Bytes       int64   `json:"bytes"`    // of their state and of what was pending for them
	Pause       float64 `json:"pause_s"`  // wall seconds
	Before      float64 `json:"before"`   // mean load of a worker as a part of the largest, since the last look
	After       float64 `json:"expected"` // the same with the moves made
}

// rebalancing is what a worker set has for it. The goroutine that leads the set uses it, but for due.
type rebalancing struct {
	cfg      *Rebalance
	strategy shard.Strategy
	of       []uint32 // shard of each node
	state    shard.State
	since    time.Time   // the last look
	due      atomic.Bool // a leg was ended for a look
	began    time.Time
	next     atomic.Int64  // when the next look may be, where boards say when: a time.Duration since it began
	wait     time.Duration // from the last look to that
	looked   bool          // in this leg's end
	lost     float64       // wall seconds that ending a leg for a look has taken
	meter    meter
	trend    shard.Trend
	trendOf  int      // replication
	incoming [][]byte // by worker: what it gets; nil: nothing is under way
	bytes    int64    // of that
	done     Moves
}

// checkRebalance refuses what doesn't go with moving nodes.
func (cfg *Config) checkRebalance() error {
	r := cfg.Rebalance
	switch {
	case r == nil:
		return nil
	case r.Shards < 1 || r.Shards > worker.ShardsMax:
		return badConfig("shards: found %d, want 1 to %d", r.Shards, worker.ShardsMax)
	case r.Every < 0:
		return badConfig("rebalance: found %v, want more than 0", r.Every)
	case cfg.Journal != nil:
		return badConfig("rebalance: found --print, want one of them")
	}
	return nil
}

// rebalances reports whether nodes may move: where several workers simulate a replication together, and not all shards
// stay. Else nothing is sampled, and no leg ends for a look.
func (l *Launch) rebalances() bool {
	return l.cfg.Rebalance != nil && l.placement.Workers > 1 && slices.Contains(l.shards.fixed, false)
}

// newRebalancing is nil where nodes stay.
func (l *Launch) newRebalancing() *rebalancing {
	if !l.rebalances() {
		return nil
	}
	b := &rebalancing{cfg: l.cfg.Rebalance, strategy: l.cfg.Rebalance.Strategy, since: time.Now(),
		began: time.Now()}
	if c, ok := l.scenario.(shard.Chooser); ok && b.strategy == nil {
		b.strategy = c.ShardStrategy()
	}
	if b.strategy == nil {
		b.strategy = shard.LeastLoaded{}
		if b.cfg.Every == 0 {
			careful := &shard.Careful{Of: b.strategy, Then: shard.LeastLoaded{End: autoEnd}}
			if l.cfg.Machines != nil {
				careful.Trial = farTrial
			}
			b.strategy = careful
		}
	}
	b.trend.Age = recentSeconds / math.Ln2 // what was sampled counts half after recentSeconds
	b.of = l.shards.of
	s := &b.state
	s.Workers, s.Fixed, s.Owner = l.placement.Workers, l.shards.fixed, slices.Clone(l.shards.owners)
	s.Near = l.shards.near
	for _, m := range l.plan.Machine {
		s.Machine = append(s.Machine, int(m))
	}
	s.Nodes = make([]int, len(s.Owner))
	s.Work, s.Since = make([]float64, len(s.Owner)), make([]int, len(s.Owner))
	for shard := range s.Since {
		s.Since[shard] = math.MaxInt32
	}
	for _, shard := range b.of {
		s.Nodes[shard]++
	}
	b.done.Shards = len(s.Owner)
	for _, fixed := range s.Fixed {
		if fixed {
			b.done.Fixed++
		}
	}
	return b
}

// makeShards divides the nodes into shards.
func (l *Launch) makeShards(pinned map[int]int32, machines []int32) error {
	l.shards = divideShards(l.structure, l.placement, pinned, l.together.members, l.cfg.Rebalance.Shards)
	if slices.Min(machines) == slices.Max(machines) {
		return nil
	}
	of := make([]int32, len(l.placement.Of))
	for n, w := range l.placement.Of {
		of[n] = machines[w]
	}
	least, err := partition.LeastBetween(l.structure, of, l.cfg.proceed)
	if err == nil {
		l.shards.keepNear(l.structure, least)
	}
	return err
}

// lanesOfAll gives all pairs of workers traffic, where nodes may move: at least half of what they have on average.
func (l *Launch) lanesOfAll(traffic [][]float64) [][]float64 {
	if !l.rebalances() {
		return traffic
	}
	sum, pairs := 0.0, len(traffic)*(len(traffic)-1)
	for _, row := range traffic {
		for _, t := range row {
			sum += t
		}
	}
	for from, row := range traffic {
		for to := range row {
			if from != to {
				row[to] = max(row[to], sum/float64(2*pairs), math.SmallestNonzeroFloat64)
			}
		}
	}
	return traffic
}

// rebalance looks whether shards are to move where all workers stand still at an epoch, and moves them; true: the next
// leg begins with them where they are then.
func (ws *workerSet) rebalance(ctx context.Context, r int, epoch float64, answers []*worker.Message) (bool, error) {
	b := ws.rebalancing
	if b == nil {
		return false, nil
	}
	auto := b.cfg.Every == 0
	if auto {
		clear(b.state.Work) // workers tell what is recent
	}
	for w, m := range answers {
		for _, work := range m.Saved.Work {
			if int64(work.Shard) >= int64(len(b.state.Work)) || !(work.Seconds >= 0) {
				return false, fmt.Errorf("launch: worker %d has worked %v s for shard %d, want 0 or more, and one of "+
					"%d shards: a defect of disco", w, work.Seconds, work.Shard, len(b.state.Work))
			}
			b.state.Work[work.Shard] += work.Seconds
		}
	}
	if due := b.due.Swap(false); ws.supervisor.stopping || !due && (auto || time.Since(b.since) < b.cfg.Every) {
		return false, nil
	}
	b.done.Looks++
	b.looked = true
	b.at(StepLook)
	if !auto || b.trendOf != r {
		b.trend.Forget() // by time, nothing would take moves back that a wrong trend has made
		b.trendOf = r
	}
	moves, err := b.meter.ask(b.strategy, &b.trend, &b.state)
	if err != nil {
		return false, fmt.Errorf("launch: strategy %T: %w", b.strategy, err)
	}
	moves = slices.DeleteFunc(moves, func(m shard.Move) bool { return b.state.Owner[m.Shard] == m.To })
	if len(moves) > 0 {
		err = ws.move(ctx, r, epoch, moves)
	}
	b.since = time.Now()
	clear(b.state.Work)
	return len(moves) > 0, err
}

// move makes moves: the workers that lose nodes encode them, and those that get nodes get that.
func (ws *workerSet) move(ctx context.Context, r int, epoch float64, moves []shard.Move) error {
	b, s := ws.rebalancing, ws.supervisor
	state := &b.state
	round := MoveRound{Replication: r, Epoch: epoch, Version: state.Version + 1, Shards: len(moves),
		Before: shard.Balance(state.Loads(nil)), After: shard.Balance(state.Loads(moves))}
	for i := range state.Since {
		state.Since[i] = min(state.Since[i]+1, math.MaxInt32)
	}
	for _, m := range moves {
		round.Nodes += state.Nodes[m.Shard]
		if state.Far(state.Owner[m.Shard], m.To) {
			round.Crossed++
		}
		state.Owner[m.Shard], state.Since[m.Shard] = m.To, 0
	}
	state.Version++
	owners := make([]int32, len(state.Owner))
	for shard, w := range state.Owner {
		owners[shard] = int32(w)
	}
	b.incoming, b.bytes = make([][]byte, state.Workers), 0
	b.at(StepMove)
	_, err := s.request(ctx, toAll(&worker.Message{Type: worker.TypeMove, Move: &worker.Move{Owners: owners,
		Version: state.Version}}), worker.TypeReady)
	for err == nil && slices.ContainsFunc(b.incoming, func(p []byte) bool { return len(p) > 0 }) {
		_, err = s.request(ctx, b.nextPart, worker.TypeReady)
	}
	b.incoming, round.Bytes = nil, b.bytes
	b.done.Rounds = append(b.done.Rounds, round)
	if err != nil {
		return err
	}
	b.at(StepLoaded)
	for w := range ws.stats {
		ws.stats[w].Nodes = 0
	}
	ws.placement = make([]int32, len(b.of))
	for n, shard := range b.of {
		ws.placement[n] = owners[shard]
		ws.stats[owners[shard]].Nodes++
	}
	return nil
}

// loadBytes is how much of what moves is sent to a worker at a time.
const loadBytes = 4 << 20

// nextPart is the next part for a worker, perhaps empty.
func (b *rebalancing) nextPart(w int) *worker.Message {
	b.at(StepLoad)
	n := min(loadBytes, len(b.incoming[w]))
	part := b.incoming[w][:n]
	b.incoming[w] = b.incoming[w][n:]
	return &worker.Message{Type: worker.TypeLoad, Load: &worker.Load{Data: part}}
}

// add takes a part of what leaves a worker. Errors are the worker's fault.
func (b *rebalancing) add(m *worker.Moved) error {
	if m.To < 0 || int(m.To) >= len(b.incoming) {
		return fmt.Errorf("it hands nodes to worker %d, want 0 to %d", m.To, len(b.incoming)-1)
	}
	if len(m.Data) > worker.LoadMax-len(b.incoming[m.To]) {
		return fmt.Errorf("it hands over more than %d bytes to worker %d at a time", worker.LoadMax, m.To)
	}
	b.incoming[m.To] = append(b.incoming[m.To], m.Data...)
	b.bytes += int64(len(m.Data))
	b.at(StepCame)
	return nil
}

// rebalanceBegins is called at the end of a leg, when all workers stand still.
func (ws *workerSet) rebalanceBegins() {
	if b := ws.rebalancing; b != nil {
		boards := ws.supervisor.boards.(boards)
		b.lost = b.meter.stop(boards, time.Now())
	}
}

// rebalanceEnds is called when the next leg is about to begin: for how long all has stood still, but for a checkpoint.
func (ws *workerSet) rebalanceEnds(moved bool, pause time.Duration) {
	b := ws.rebalancing
	if b == nil {
		return
	}
	b.meter.goOn(time.Now())
	if !b.looked {
		return
	}
	b.looked = false
	cost := pause.Seconds() + b.lost
	b.done.Pause += cost
	if moved {
		b.at(StepMoved)
		b.done.Rounds[len(b.done.Rounds)-1].Pause = pause.Seconds()
		if b.state.Cost == 0 {
			b.state.Cost = cost
		}
		b.state.Cost += (cost - b.state.Cost) / 3
	}
	b.pauseUntil(moved, time.Since(b.began))
}

// pauseUntil says from when on the next look may be where boards say when: after a look that moved nothing later and
// later, after one that did when what it costs is a twentieth of the time between two; and not before all of them have
// cost no more than autoShare of the run.
func (b *rebalancing) pauseUntil(moved bool, now time.Duration) {
	b.wait = min(2*max(b.wait, autoLeast), autoMost)
	if moved {
		b.wait = max(autoLeast, time.Duration(20*b.state.Cost*float64(time.Second)))
	}
	paid := time.Duration((b.done.Pause - autoFree) / autoShare * float64(time.Second))
	b.next.Store(int64(max(now+b.wait, paid)))
}

const (
	lookLeast     = 10 * time.Millisecond // between two looks that are asked for by time
	boardPeriod   = 50 * time.Millisecond // between two looks at the boards
	farPeriod     = 10 * boardPeriod      // the same where they show what was up to that long ago: over machines
	farTrial      = 1                     // shard.Careful.Trial there
	recentSeconds = 0.15                  // Setup.ShardsHalf where boards say when

	// A look is worth it where the busiest worker has worked for autoBusy of the time, and the mean of all was less
	// than 1 - autoGap of that, autoTimes times in turn.
	autoBusy  = 0.5
	autoGap   = 0.1
	autoTimes = 2

	// autoEnd is how far the largest load may be above the mean behind moves once moves have made the run faster: less
	// than where they begin, so that the next ones are later.
	autoEnd = 0.07

	autoLeast, autoMost = 100 * time.Millisecond, time.Minute // from one look to the next

	autoShare = 0.02 // of the run that all looks and moves may cost
	autoFree  = 0.1  // wall seconds that they may cost beside that
)

// watchBalance ends legs when it is time for a look, until ctx ends.
func (ws *workerSet) watchBalance(ctx context.Context) {
	b := ws.rebalancing
	period := max(b.cfg.Every, lookLeast)
	switch {
	case b.cfg.Every > 0:
	case ws.launch.cfg.Machines != nil:
		period = farPeriod
	default:
		period = boardPeriod
	}
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	boards := ws.supervisor.boards.(boards)
	before, last, times := boards.worked(), time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, at := boards.worked(), time.Now()
		slow := b.meter.look(boards, b.strategy, at)
		if b.cfg.Every == 0 {
			if !uneven(before, now, at.Sub(last).Seconds()) {
				times = 0
			} else {
				times++
			}
			before, last = now, at
			if !slow && (times < autoTimes || at.Sub(b.began) < time.Duration(b.next.Load())) {
				continue
			}
			times = 0
			b.next.Store(int64(at.Sub(b.began) + autoLeast)) // the leg may be about to end by itself
		}
		b.meter.asks(now, at)
		b.due.Store(true)
		ws.launch.cfg.Legs.EndNow()
		b.at(StepEnd)
	}
}

// uneven reports whether workers, which had worked for so many seconds before and now, would do so much more with
// evenly spread work that a look at shards is worth it.
func uneven(before, now []float64, seconds float64) bool {
	busy := make([]float64, len(now))
	for w := range now {
		busy[w] = max(0, now[w]-before[w])
	}
	return slices.Max(busy) >= autoBusy*seconds && shard.Balance(busy) < 1-autoGap
}

// moved is what moved in a run; nil: it was not to be looked for.
func (l *Launch) moved(sets []*workerSet) *Moves {
	for _, ws := range sets {
		if ws.rebalancing != nil {
			return &ws.rebalancing.done
		}
	}
	if n := len(l.shards.owners); n > 0 && l.placement.Workers > 1 {
		return &Moves{Shards: n, Fixed: n}
	}
	return nil
}
