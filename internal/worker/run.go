// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/counters"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/router"
	"github.com/disco-sim/disco/shm"
)

// HeldMax is how many bytes of events of other workers a worker holds before it takes in no more than it must: 16 MiB,
// some 170,000 small events. More lets a fast upstream worker run further ahead; less makes it wait for its full lane
// more often.
const HeldMax = 16 << 20

// What an event from another worker takes here, at most: two entries of 32 bytes while its set grows, and a cell that
// is up to twice as large as its headers and data with 8 bytes before them.
const (
	heldEvent  = 2*32 + 2*8
	heldFactor = 2
)

// MemoryMax is how much a run over many workers takes beyond what it takes on one, bytes for each worker: a process of
// some 4 MiB, twice HeldMax because the Go runtime collects garbage when the heap has doubled, and 12 MiB for its
// lanes and for what it must take in although it holds enough. What each worker reads of the scenario and the pool's
// blocks in use come on top (docs/running.md, "Memory of a run").
const MemoryMax = 48 << 20

// stuckTime is for how long no worker may work before one that holds enough takes in all there is. Over machines twice
// the delay comes on top: so much later are boards seen.
const stuckTime = 10 * time.Millisecond

// ErrLauncherGone is what Serve returns when the launcher's end of the stream closed.
var ErrLauncherGone = errors.New("worker: the launcher is gone")

// cycle is the state of the duty cycle. Owned by the worker's goroutine, but for the
// flags of stop and gone.
type cycle struct {
	self      int
	lanes     *lanes
	engine    *node.Engine
	horizon   float64
	until     float64 // end of the leg; the horizon or later: it is the last one
	batch     int
	pace      float64      // simulated seconds between two looks at the lanes
	byLink    bool         // promises are those of single links
	far       bool         // the run is over machines
	published []node.Bound // by peer
	short     []bool       // by Sender of the router: its lane was short of room when seeRoom looked
	peers     []peerBoard  // by worker: their boards, to look at
	receives  []bool       // by worker: it sends to this one
	heldMax   int64        // HeldMax, but in tests
	waiter    idler
	now       func() time.Time // the wall clock; injected by tests
	counters  *counters.Set
	stats     Stats
	before    node.Stats // of the Engines before, in this replication: events between workers
	samples   *samples   // of what shards cost; nil: nodes stay where they are
	shows     shows
	spans     *recorder // nil: what the worker is at isn't recorded
	simprocs  uint64    // of this worker
	went      time.Time // when the replication began to be simulated; zero: it hasn't
	first     float64   // Done.First

	stop    stopping
	ask     statusRequest
	outside *outside    // nil: the model asks nothing outside
	saver   *saver      // nil: there are no checkpoints
	gone    atomic.Bool // set by the control goroutine: the launcher is gone

	ledger       ledger
	posted       bool
	called       bool // everybody was woken since the slot was posted
	jumped       node.Bound
	lead         lead
	place        float64 // how far this worker has come, as its board says
	lowest       float64 // the least that its board has said since callAhead
	waitsAt      float64 // how far the others have to come for this worker to go on; +Inf: it waits for nobody
	heldAt       float64 // the activation that it waits for with that
	stuckTime    time.Duration
	stuckSince   time.Time // since when nobody has been seen working; zero: somebody has
	rounds       uint
	ended        bool // everybody has come to the end of the leg
	parksBefore  uint64
	blocksBefore uint64
	partsBefore  uint64
}

// newCycle opens the lanes of one worker and wires its duty cycle to them.
func newCycle(plan *node.Plan, setup *Setup, segs Segments) (*cycle, error) {
	c := &cycle{
		self: setup.Worker, simprocs: uint64(plan.NumHosted()),
		now: time.Now, batch: setup.Tuning.BatchMax, pace: plan.Pace(),
		byLink: setup.Tuning.Sync == SyncLink, far: setup.far(), published: make([]node.Bound, setup.Workers),
		heldMax: HeldMax, lead: newLead(setup.Workers, setup.Crowded),
	}
	late := time.Duration(2 * setup.Delay * float64(time.Second))
	c.stuckTime, c.lead.time = stuckTime+late, c.lead.time+late
	c.ask.answer = make(chan Status, 1)
	var err error
	if c.lanes, err = openLanes(plan, setup, segs, c.room); err != nil {
		return nil, err
	}
	c.short = make([]bool, len(c.lanes.router.Senders()))
	if err := c.open(plan, setup, segs); err != nil {
		return nil, errors.Join(fmt.Errorf("worker: %w", err), c.lanes.close())
	}
	return c, nil
}

// open opens what the cycle has besides its lanes: its numbers and what it waits with.
func (c *cycle) open(plan *node.Plan, setup *Setup, segs Segments) error {
	var err error
	if c.counters, err = openCounters(segs.Boards[setup.Worker]); err != nil {
		return err
	}
	for i, board := range segs.Boards {
		seen, err := openPeerBoard(board)
		if err != nil {
			return err
		}
		c.peers, c.receives = append(c.peers, seen), append(c.receives, i != c.self && plan.ReceivesFrom(i))
	}
	c.waiter, err = newWaiter(setup, c.lanes.feed.bell())
	return err
}

// newWaiter makes what a thread of the worker waits with.
func newWaiter(setup *Setup, bell *shm.Doorbell) (*shm.Waiter, error) {
	mode, err := waitMode(setup)
	if err != nil {
		return nil, err
	}
	return shm.NewWaiter(shm.WaiterConfig{Bell: bell, Mode: mode, Crowded: setup.Crowded, Goroutines: setup.OneProcess})
}

// waitMode is how it waits. On a crowded machine of several, what a worker waits for comes through bridges, which need
// the processor meanwhile, and later than a sleep takes to end: adaptive is park there.
func waitMode(setup *Setup) (shm.Mode, error) {
	mode, err := shm.ParseMode(setup.Tuning.Wait)
	if m := setup.Machine; mode == shm.ModeAdaptive && setup.Crowded && len(m) > 0 && m[0] != m[len(m)-1] {
		mode = shm.ModePark
	}
	return mode, err
}

// run turns the cycle until the leg has ended everywhere, or the run has failed.
func (c *cycle) run() error {
	for !c.ended {
		if c.gone.Load() {
			return ErrLauncherGone
		}
		if c.stop.wanted() {
			if err := c.pause(); err != nil {
				return err
			}
			continue // a Stop that came beside the Limit has rung before pause looked for the last time
		}
		if c.ask.asked.Load() {
			c.sendStatus(c.state())
		}
		taken, err := c.takeIn()
		if err != nil {
			return err
		}
		done, err := c.work()
		if err != nil {
			return err
		}
		if c.first == 0 {
			c.noteFirst()
		}
		if err := c.publish(-1); err != nil {
			return err
		}
		c.showProgress()
		mayGoOn := done == 0 && c.mayGoOn()
		if c.rounds++; c.rounds%64 == 0 || c.stop.limited {
			c.show()
		}
		if done > 0 || mayGoOn || taken > 0 && !c.engine.Blocked() {
			c.waiter.Idle(true)
			continue
		}
		if err := c.rest(taken > 0); err != nil {
			return err
		}
	}
	if c.held() {
		c.show()
		c.showState(StateHeld, -1)
		return nil
	}
	c.enter(reporting)
	c.show()
	return nil
}

// noteFirst notes when the first event was handled, and handlers were called as often as there are simprocs: before,
// most calls are those at epoch 0, even where a few simprocs that wait for nobody are ahead of the others.
func (c *cycle) noteFirst() {
	if s := c.engine.Stats(); s.Events > 0 && s.Activations >= c.simprocs {
		c.first = max(c.now().Sub(c.went).Seconds(), math.SmallestNonzeroFloat64)
	}
}

// takeIn looks at the lanes, unless enough of others' events is here already and there
// is work to do.
func (c *cycle) takeIn() (int, error) {
	if !c.holdsEnough() {
		return c.takeInAll()
	}
	// Not blocked, but idle in the last pass: all that could run has its lanes full,
	// and whoever is to empty them may wait for us to empty its own.
	if !c.engine.Blocked() && c.ledger.is == working {
		return 0, nil
	}
	return c.takeInLeast()
}

// holdsEnough reports whether this worker holds so many events of others that it should take in no more than it must.
func (c *cycle) holdsEnough() bool {
	return heldEvent*int64(c.engine.Backlog())+heldFactor*c.engine.BacklogBytes() > c.heldMax
}

// poll takes in what has come from a peer, -1: from all.
func (c *cycle) poll(only int) (int, error) {
	n, err := c.lanes.feed.poll(c, only)
	if err != nil {
		return n, fmt.Errorf("worker: %w", err)
	}
	return n, nil
}

func (c *cycle) takeInAll() (int, error) { return c.poll(-1) }

// takeInLeast takes in what a worker that holds enough must take in all the same, so that somebody can go on: from
// peers that haven't promised anything later than the earliest work here, because their promises count only behind
// what they have sent, and from peers that have work which wants room and isn't later than that. All of it would be
// pending on a single worker, too, but for what is in the lanes at that moment; what comes from a peer that is only
// further ahead stays in its lane, unless nobody works: an idle moment needs lanes that are empty.
func (c *cycle) takeInLeast() (n int, err error) {
	next, only, stuck := c.engine.Next().Epoch, c.engine.Limiting(), c.stuck()
	for peer, sends := range c.receives {
		var needed bool
		switch {
		case !sends:
			continue
		case c.byLink: // a lane as a whole promises nothing
			needed = peer == only
		default:
			needed = c.engine.InBound(peer).Epoch <= next || c.peers[peer].roomAt.LoadFloat() <= next
		}
		if !needed && !stuck {
			continue
		}
		taken, err := c.poll(peer)
		if n += taken; err != nil {
			return n, err
		}
	}
	return n, nil
}

// stuck reports whether no worker has worked for stuckTime, as far as this one, which doesn't either, has seen.
func (c *cycle) stuck() bool {
	now := c.now()
	for peer, board := range c.peers {
		if is := board.state.Load(); peer != c.self && (is == StateWork || is == StateOutside) {
			c.stuckSince = time.Time{}
			return false
		}
	}
	if c.stuckSince.IsZero() {
		c.stuckSince = now
	}
	if now.Sub(c.stuckSince) <= c.stuckTime {
		return false
	}
	c.stuckSince = now
	return true
}

// wantRoom shows the peers what waits here for room in their lanes, and wakes those that have to see it.
func (c *cycle) wantRoom(began bool) {
	c.counters.At(showRoomAt).SetFloat(c.engine.FirstReady().Epoch)
	if !began {
		return
	}
	for i, out := range c.lanes.router.Senders() {
		if out.Short() {
			c.lanes.cycles[c.lanes.router.Peers()[i]].Ring()
		}
	}
}

// work handles a batch, at the most as far as peers may wait for promises.
func (c *cycle) work() (int, error) {
	c.seeRoom()
	for i, peer := range c.lanes.router.Peers() {
		c.engine.SetCongested(peer, c.short[i])
	}
	if c.posted && !c.engine.Blocked() {
		c.withdraw()
	}
	if c.ledger.is != working && c.engine.Ready() {
		c.enter(working) // before the work, which is no waiting
	}
	done, err := c.handle()
	if err == nil && c.shows.due(done, c.now) {
		c.show()
	}
	return done, err
}

// seeRoom looks which lanes are short of room.
func (c *cycle) seeRoom() {
	for i, out := range c.lanes.router.Senders() {
		c.short[i] = out.Short()
	}
}

// publish makes everything sent visible, then raises the bounds that have risen, or sends
// the promises of the links that have more to promise. full is the peer whose lane an event
// waits for room in, -1: none.
//
// That lane gets no promises of links, which would take the room, and neither does one that seeRoom has found short of
// it. For a class that is passed over because of the lane would else be passed over for ever: where lookaheads are
// small there is something new to promise whenever a record was taken out, and promises alone keep the lane short. So a
// lane that is short gets nothing but what a handler has sent already. Its reader takes in what is there, at the latest
// when nobody has worked for a while (takeInLeast), so it becomes empty, which isn't short; this worker is woken. Only
// the next seeRoom finds that, and handlers come before promises then. Who waits for a promise meanwhile waits no
// longer than until its own lane is empty.
func (c *cycle) publish(full int) error {
	for i, out := range c.lanes.router.Senders() {
		peer := c.lanes.router.Peers()[i]
		var err error
		if c.byLink {
			err = c.promiseByLink(peer, out, peer != full && !c.short[i])
		} else {
			err = c.promise(peer, out)
		}
		if err != nil {
			return fmt.Errorf("worker: %w", err)
		}
	}
	return nil
}

// promise raises the bound on everything that is sent to a peer.
func (c *cycle) promise(peer int, out router.Sender) error {
	b, more := c.engine.PromiseBeyond(peer, c.published[peer])
	if !more {
		return out.Flush()
	}
	if err := out.Promise(b.Epoch, b.Level); err != nil {
		return err
	}
	c.published[peer] = b
	c.stats.Promises++
	return nil
}

// promiseByLink sends a peer the promises of single links, as many as there is room for:
// it must not wait, because a peer that has found the end of the run reads nothing more.
// The others follow in a later pass; room that comes back wakes this worker.
func (c *cycle) promiseByLink(peer int, out router.Sender, room bool) error {
	if room {
		n, err := c.engine.SendPromises(peer, out.Room()/router.PromiseRoom)
		c.stats.Promises += uint64(n)
		if err != nil {
			return err
		}
	}
	return out.Flush()
}

// rest is for a pass that found nothing to do: look for an idle moment, then wait. A
// bound that has come and allows nothing is no work: workers whose links have little
// lookahead would else promise each other one small step after the other, instead of
// jumping to the next thing that there is to do.
func (c *cycle) rest(heard bool) error {
	waits := blocked
	if !c.engine.Blocked() {
		waits = shortOfRoom
	}
	began := c.ledger.is != waits
	if began {
		c.enter(waits)
		c.show()
	}
	if waits == shortOfRoom {
		c.wantRoom(began)
	}
	c.callAhead()
	if err := c.checkShared(); err != nil {
		return err
	}
	if waits == blocked {
		if !c.posted {
			s := c.engine.Stats()
			next := c.engine.Next()
			c.lanes.detector.Post(router.State{Epoch: next.Epoch, Level: next.Level, Sent: s.Sent,
				Received: s.Received})
			c.posted = true
		}
		epoch, level, ok, err := c.lanes.detector.Look()
		if err != nil {
			return fmt.Errorf("worker: boards: %w", err)
		}
		if ok {
			return c.idle(node.Bound{Epoch: epoch, Level: level})
		}
	}
	c.waiter.Idle(heard)
	return nil
}

// checkShared looks for shared words that only this worker writes and that somebody else has overwritten: what a peer
// makes of them can leave everybody waiting for ever. It is called in passes that find nothing to do.
func (c *cycle) checkShared() error {
	if err := c.lanes.detector.Check(); err != nil {
		return fmt.Errorf("worker: board of worker %d: %w", c.self, err)
	}
	for _, out := range c.lanes.router.Senders() {
		if err := out.Check(); err != nil {
			return fmt.Errorf("worker: %w", err)
		}
	}
	if err := c.lanes.feed.check(); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	if c.lanes.pool != nil {
		if err := c.lanes.pool.Check(); err != nil {
			return fmt.Errorf("worker: own pool: %w", err)
		}
	}
	return nil
}

// idle acts on a moment at which all workers stood still and the earliest next
// activation was at next.
func (c *cycle) idle(next node.Bound) error {
	if math.IsInf(next.Epoch, 1) {
		c.ended = true
		c.lanes.detector.Wake() // who sleeps finds the same
		return nil
	}
	if next.Epoch >= c.until {
		// Over machines only: it was found from what some had posted before the end of the leg was chosen and others
		// behind that, which don't say when they go on. All that it shows is that nothing is before that end.
		c.withdraw() // to post that this jump was taken
		return nil
	}
	if !c.jumped.Before(next) {
		if c.engine.Next() == next {
			return fmt.Errorf("worker: deadlock at %v: worker %d has the earliest work of all, but\n%s", next, c.self,
				c.engine.Waiting())
		}
		if c.far { // a worker has passed over the last jump, as above
			c.withdraw()
			return nil
		}
		// The owner of next has not moved yet. It may sleep: the ring that was to wake it can
		// have come while this worker's slot was withdrawn for the jump, when it was no idle
		// moment for anybody who looked. Now it is one.
		if !c.called {
			c.called = true
			c.lanes.detector.Wake()
		}
		c.waiter.Idle(false)
		return nil
	}
	mine := c.engine.Next() == next
	c.withdraw()
	c.jumped = next
	c.engine.Jump(next)
	c.lead.allow(next.Epoch)
	c.engine.SetWindow(c.lead.end)
	c.stats.IdleJumps++
	if !mine {
		c.lanes.detector.Wake()
	}
	return nil
}

// state is what the cycle does between two passes, and whom it waits for.
func (c *cycle) state() (state, peer int) {
	switch c.ledger.is {
	case working:
		return StateWork, -1
	case reporting:
		return StateGather, -1
	case shortOfRoom:
		return StateRoom, -1 // of more than one, perhaps
	}
	if !math.IsInf(c.waitsAt, 1) {
		return StateAhead, -1
	}
	return StateBound, c.engine.Limiting()
}

func (c *cycle) withdraw() {
	if c.posted {
		c.lanes.detector.Withdraw()
		c.posted, c.called = false, false
	}
}

// room is what the egress to a peer calls while its ring is full: keep everything else moving.
func (c *cycle) room(peer int) error {
	if c.gone.Load() {
		return ErrLauncherGone
	}
	if c.ask.asked.Load() {
		c.sendStatus(StateRoom, peer)
	}
	began := c.ledger.is != shortOfRoom
	if began {
		c.enter(shortOfRoom)
		c.showState(StateRoom, peer)
	}
	c.wantRoom(began)
	c.showProgress()
	c.callAhead()
	n, err := c.keepMoving(peer, true)
	if err == nil && n == 0 {
		err = c.checkShared()
	}
	if err != nil {
		return err
	}
	c.waiter.Idle(n > 0)
	return nil
}

// keepMoving takes in whatever has come and promises peers what can be promised, without
// handling anything. full is the peer whose lane an event waits for room in, -1: none. bounded takes in no more than it
// must where enough is held.
func (c *cycle) keepMoving(full int, bounded bool) (int, error) {
	take := (*cycle).takeInAll
	if bounded && c.holdsEnough() {
		take = (*cycle).takeInLeast
	}
	n, err := take(c)
	if err != nil {
		return n, err
	}
	c.seeRoom()
	return n, c.publish(full)
}

// SendEvent implements node.Port.
func (c *cycle) SendEvent(peer int, ev *envelope.Event) error {
	err := c.lanes.router.SendEvent(peer, ev)
	if c.ledger.is != working {
		c.enter(working) // there was room in the end
	}
	return err
}

// SendPromise implements node.Port.
func (c *cycle) SendPromise(peer int, p *envelope.Promise) error {
	return c.lanes.router.SendPromise(peer, p)
}

// ReceiveEvent implements router.Sink. A worker that has posted that it is blocked takes
// that back before anything else happens.
func (c *cycle) ReceiveEvent(peer int, ev *envelope.Event, lease uint64) error {
	c.withdraw()
	if c.byLink {
		if n := c.engine.ControllerOf(ev.Target); n != nil {
			return n.ReceiveEvent(peer, ev, lease)
		}
	}
	return c.engine.ReceiveEvent(peer, ev, lease)
}

// ReceivePromise implements router.Sink. What a blocked worker has posted is not about
// promises, and so stays true.
func (c *cycle) ReceivePromise(peer int, p *envelope.Promise) error {
	if n := c.engine.ControllerOf(p.Target); n != nil {
		return n.ReceivePromise(peer, p)
	}
	return c.engine.ReceivePromise(peer, p)
}

// ReceiveBound implements router.Sink; as ReceivePromise.
func (c *cycle) ReceiveBound(peer int, epoch float64, level uint32) error {
	return c.engine.ReceiveBound(peer, node.Bound{Epoch: epoch, Level: level})
}
