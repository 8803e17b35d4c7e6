// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"

	"github.com/disco-sim/disco/internal/counters"
	"github.com/disco-sim/disco/internal/spans"
	"github.com/disco-sim/disco/shm"
)

// The numbers that a worker shows on its board, by index.
const (
	showEpoch = iota
	showEvents
	showActivations
	showSent
	showReceived
	showPromises
	showJumps
	showFullWaits
	showBlocked
	showRoom
	showReplications
	showPending
	showBacklog
	showNext
	showBlocks
	showState
	showPeer
	showCallOf
	showCallAt
	showRoomAt
	showPlace
	showWaitsAt
	showWorked
	showMap
	showTaken
	showLeft
)

// NumbersCount is how many numbers a board shows.
const NumbersCount = showLeft + 1

// Names of the numbers on a board, for who reads it.
const (
	NumberEpoch        = "epoch_now"    // simulated seconds up to which this worker is done
	NumberEvents       = "events"       // handled in this replication
	NumberActivations  = "activations"  // calls of handlers
	NumberSent         = "events_sent"  // to other workers
	NumberReceived     = "events_taken" // from other workers
	NumberPromises     = "promises"     // published
	NumberJumps        = "idle_jumps"   //
	NumberFullWaits    = "full_waits"   // times that a full lane made it wait
	NumberBlocked      = "blocked"      // 1 while it waits for its peers to say more
	NumberRoom         = "wants_room"   // 1 while it waits for room in a lane
	NumberReplications = "replications" // begun, counted from the run's first
	NumberPending      = "pending"      // events and wakeups that wait to be handled
	NumberBacklog      = "backlog"      // of them, events of other workers
	NumberNext         = "epoch_next"   // simulated seconds of the earliest of them
	NumberBlocks       = "blocks_lent"  // of its pool: payloads that no peer has given back
	NumberState        = "state"        // StateRest and so on
	// 1 + the peer in whose ring it waits for room, or whose bound holds it back; 0: none
	NumberPeer   = "waits_for"
	NumberCallOf = "call_of" // 1 + id of the simproc whose handler was called last; 0: none, or a goroutine
	NumberCallAt = "call_at" // simulated seconds of that call
	// simulated seconds of the earliest call that waits for room in a lane, or for one under way that does; +Inf: none
	NumberRoomAt = "room_at"
	// simulated seconds of the earliest event or wakeup that waits here; with none, up to which this worker is done
	NumberPlace = "place"
	// simulated seconds that the others have to have come to for this worker to go on; +Inf: it doesn't wait for that
	NumberWaitsAt = "waits_at"
	NumberWorked  = "worked_s"    // seconds of this replication in which it worked; 0 where nodes don't move
	NumberMap     = "map_version" // how often nodes have moved in this run
	// bytes of memory that the run takes on the worker's machine, and that this has left; 0 on the launcher's machine
	NumberTaken = "machine_taken"
	NumberLeft  = "machine_left"
)

func counterNames() []counters.Spec {
	return []counters.Spec{
		showEpoch:        {Name: NumberEpoch, Kind: counters.Gauge},
		showEvents:       {Name: NumberEvents, Kind: counters.Count},
		showActivations:  {Name: NumberActivations, Kind: counters.Count},
		showSent:         {Name: NumberSent, Kind: counters.Count},
		showReceived:     {Name: NumberReceived, Kind: counters.Count},
		showPromises:     {Name: NumberPromises, Kind: counters.Count},
		showJumps:        {Name: NumberJumps, Kind: counters.Count},
		showFullWaits:    {Name: NumberFullWaits, Kind: counters.Count},
		showBlocked:      {Name: NumberBlocked, Kind: counters.Count},
		showRoom:         {Name: NumberRoom, Kind: counters.Count},
		showReplications: {Name: NumberReplications, Kind: counters.Count},
		showPending:      {Name: NumberPending, Kind: counters.Count},
		showBacklog:      {Name: NumberBacklog, Kind: counters.Count},
		showNext:         {Name: NumberNext, Kind: counters.Gauge},
		showBlocks:       {Name: NumberBlocks, Kind: counters.Count},
		showState:        {Name: NumberState, Kind: counters.Count},
		showPeer:         {Name: NumberPeer, Kind: counters.Count},
		showCallOf:       {Name: NumberCallOf, Kind: counters.Count},
		showCallAt:       {Name: NumberCallAt, Kind: counters.Gauge},
		showRoomAt:       {Name: NumberRoomAt, Kind: counters.Gauge},
		showPlace:        {Name: NumberPlace, Kind: counters.Gauge},
		showWaitsAt:      {Name: NumberWaitsAt, Kind: counters.Gauge},
		showWorked:       {Name: NumberWorked, Kind: counters.Gauge},
		showMap:          {Name: NumberMap, Kind: counters.Count},
		showTaken:        {Name: NumberTaken, Kind: counters.Count},
		showLeft:         {Name: NumberLeft, Kind: counters.Count},
	}
}

func openCounters(board *shm.Segment) (*counters.Set, error) {
	s, err := counters.Open(numbers(board))
	if err != nil {
		return nil, fmt.Errorf("board: %w", err)
	}
	return s, nil
}

// peerBoard is what a worker reads on the board of another one while it runs.
type peerBoard struct {
	state   counters.Watched // StateWork, ...
	roomAt  counters.Watched // the earliest work there that waits for room in a lane
	place   counters.Watched // how far it has come
	calls   counters.Watched // of handlers
	waitsAt counters.Watched // it waits for the others to have come so far
}

func openPeerBoard(board *shm.Segment) (p peerBoard, err error) {
	for i, w := range map[int]*counters.Watched{showState: &p.state, showRoomAt: &p.roomAt, showPlace: &p.place,
		showActivations: &p.calls, showWaitsAt: &p.waitsAt} {
		if *w, err = counters.Watch(numbers(board), i); err != nil {
			return p, fmt.Errorf("board: %w", err)
		}
	}
	return p, nil
}

// Numbers reads what a worker shows on its board.
func Numbers(board *shm.Segment) ([]counters.Value, error) {
	if len(board.Body()) < boardBytes {
		return nil, fmt.Errorf("worker: board of %d bytes, want %d", len(board.Body()), boardBytes)
	}
	return counters.Read(numbers(board))
}

// Sampled is what of a board can be read often: a few loads, without a system call.
type Sampled struct {
	state        counters.Watched
	duty, beside *shm.Doorbell
	goroutine    bool // with --ingress goroutine, the duty cycle sleeps on the second doorbell
}

// OpenSampled finds it on a board, which the caller has mapped, for reading at least.
func OpenSampled(board *shm.Segment) (*Sampled, error) {
	if len(board.Body()) < boardBytes {
		return nil, fmt.Errorf("worker: board of %d bytes, want %d", len(board.Body()), boardBytes)
	}
	state, err := counters.Watch(numbers(board), showState)
	if err != nil {
		return nil, fmt.Errorf("worker: board: %w", err)
	}
	s := &Sampled{state: state}
	if s.duty, err = shm.OpenDoorbell(board.Body()[boardBell:]); err == nil {
		s.beside, err = shm.OpenDoorbell(board.Body()[boardSpare:])
	}
	return s, err
}

// State is the worker's: StateRest and so on.
func (s *Sampled) State() uint64 { return s.state.Load() }

// Parked reports whether the worker sleeps, or is about to.
func (s *Sampled) Parked() bool {
	spare := s.beside.Armed()
	s.goroutine = s.goroutine || spare
	return spare || !s.goroutine && s.duty.Armed()
}

// AppendNumbers appends what a worker shows on its board as words in the board's order, for ShowNumbers of a
// copy of the board elsewhere.
func AppendNumbers(words []uint64, board *shm.Segment) ([]uint64, error) {
	for i := range NumbersCount {
		n, err := counters.Watch(numbers(board), i)
		if err != nil {
			return nil, fmt.Errorf("worker: board: %w", err)
		}
		words = append(words, n.Load())
	}
	return words, nil
}

// AddMemory puts what a run takes on this machine, and what it has left, into what AppendNumbers has given.
func AddMemory(words []uint64, taken, left int64) {
	words[showTaken], words[showLeft] = uint64(taken), uint64(left)
}

// ShowNumbers puts what AppendNumbers has given onto a copy of the board, for whom the caller is its one writer.
func ShowNumbers(board *shm.Segment, words []uint64) error {
	s, err := openCounters(board)
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	if len(words) != NumbersCount {
		return fmt.Errorf("worker: found %d numbers of a board, want %d", len(words), NumbersCount)
	}
	for i, v := range words {
		s.At(i).Set(v)
	}
	return nil
}

// show puts the cycle's numbers on the board.
func (c *cycle) show() {
	s := c.engine.Stats()
	c.counters.At(showEpoch).SetFloat(min(c.engine.Reached(), c.horizon))
	c.counters.At(showEvents).Set(s.Events)
	c.counters.At(showActivations).Set(s.Activations)
	c.counters.At(showSent).Set(c.before.Sent + s.Sent)
	c.counters.At(showReceived).Set(c.before.Received + s.Received)
	c.counters.At(showPromises).Set(c.stats.Promises)
	c.counters.At(showJumps).Set(c.stats.IdleJumps)
	c.counters.At(showPending).Set(uint64(c.engine.Pending()))
	c.counters.At(showBacklog).Set(c.engine.Backlog())
	c.counters.At(showNext).SetFloat(c.engine.Next().Epoch)
	if c.lanes.pool != nil {
		c.counters.At(showBlocks).Set(c.lanes.pool.InFlight())
	}
	if c.samples != nil {
		c.counters.At(showWorked).SetFloat(c.worked())
	}
	c.showActivity()
	state, peer := c.state()
	c.showState(state, peer)
	c.callAhead()
	if c.saver != nil {
		c.saver.ready(c.engine)
	}
	if c.spans != nil {
		c.spans.sample(c, s)
	}
}

// showState puts on the board what the cycle does, and whom it waits for, -1: nobody.
func (c *cycle) showState(state, peer int) {
	c.counters.At(showState).Set(uint64(state))
	c.counters.At(showPeer).Set(uint64(peer + 1))
	if c.spans != nil {
		c.spans.state(c, spans.Kind(state), peer)
	}
}

// showActivity says what the worker is doing: also between two calls of show, because what
// comes next may take long.
func (c *cycle) showActivity() {
	c.counters.At(showBlocked).Set(oneIf(c.ledger.is == blocked))
	c.counters.At(showRoom).Set(oneIf(c.ledger.is == shortOfRoom))
	c.counters.At(showFullWaits).Set(c.ledger.began[shortOfRoom])
}

func oneIf(on bool) uint64 {
	if on {
		return 1
	}
	return 0
}
