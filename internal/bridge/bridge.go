// SPDX-License-Identifier: Apache-2.0

// Package bridge joins the lanes of one machine's workers with those of other machines: it is, in shared memory, the
// other end of every lane between a worker here and one elsewhere. docs/bridge.md, section 2, is its design.
//
// For each other machine there is a pump, one goroutine that takes records out of the rings of the lanes to that
// machine and puts them into numbered frames, and a goroutine that sends large payloads in frames of their own. What
// comes from there is put into rings and blocks by the goroutines of the sessions that receive it.
//
// Guarantee: each lane carries what was sent into it, whole, once, in order, each bound behind the records before it,
// whatever becomes of connections, or the bridge ends with an error that names machine or worker. A lane that isn't
// emptied holds no other one: receiving never waits, and what waits for a ring is within the lane's window. Whatever a
// machine or a worker has written is bounded before it is used. Nothing is allocated for an event in the long run.
//
//	b, err := bridge.New(cfg)
//	err = b.Prepare() // lanes begin anew: before workers do
//	b.Go()             // when all are ready, on all machines
//	err = <-b.Err()    // what has gone wrong
//	err = b.Close()
package bridge

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/shm"
)

// Lane is one lane between a worker here and one on another machine.
type Lane struct {
	From, To int           // workers
	Machine  int           // the other one's
	Window   int           // bytes that may be under way, of records and of payloads each; at least WindowMin
	Body     []byte        // of the lane's segment, of which the bridge takes the end that isn't the worker's
	Bell     *shm.Doorbell // that the worker sleeps on

	// Pool has the blocks that records refer to: of the worker that sends, or, of a lane to a worker here, one of the
	// bridge for all that comes from that machine, which may be nil.
	Pool *shm.Segment
}

// WindowMin is the least window of a lane.
const WindowMin = 1 << 10

// workersMax is more than all workers' numbers, which are halves of a lane's.
const workersMax = 1 << 16

// Peer is another machine.
type Peer struct {
	Machine        int
	First, Workers int           // its workers' numbers: the first, and how many there are
	Bell           *shm.Doorbell // of its pump, which workers here ring

	// Sessions are those with that machine, by stream, where they were begun before the lanes were known: then Bridge's
	// Apply, Changed and Acked are called for them. They stay the caller's, who may use them for another bridge when
	// this one is closed.
	Sessions [2]*session.Session
	// Otherwise Session has what both have in common: identity, timeouts, resend buffer. The rest is filled in.
	Session session.Config
	// Dial connects one stream, on the lower machine of the two; nil on the other one, where Bridge.Accept is called.
	Dial func(context.Context, session.Stream) (session.Conn, error)
}

// Status is what a worker shows to those on other machines (docs/bridge.md, section 4).
type Status struct {
	Worker                 int
	State                  uint32
	Calls                  uint64
	Place, RoomAt, WaitsAt float64
}

// Config says what a bridge joins.
type Config struct {
	Machine int
	Set     uint16 // of workers, that frames name: of several bridges over the same sessions each has another one
	Peers   []Peer
	Out, In []Lane // from workers here, and to them

	// Shown appends what all workers here show at present, and Remote takes what one elsewhere shows; both nil: nothing
	// is shown. They are called by several goroutines and don't wait.
	Shown  func([]Status) []Status
	Remote func(Status)

	// Workers are all of this machine, the first of which has number First, and Jump is the memory of its jump words
	// (package idle). nil: idle moments aren't looked for.
	Workers []Worker
	First   int
	Jump    []byte

	Crowded bool // more threads wait on this machine than there are processors (shm.WaiterConfig)

	park time.Duration // how long a pump sleeps at most, if a test has another opinion than shm.WaiterConfig
}

// Bridge joins lanes. Prepare, Go and Close are called by one goroutine at a time.
type Bridge struct {
	cfg      Config
	peers    []*peer
	errs     chan error
	once     sync.Once // of the first error
	failed   atomic.Pointer[error]
	detector *detector     // nil: none
	stop     chan struct{} // closed when pumps are to end
	ending   atomic.Bool   // stop is closed
	ended    sync.WaitGroup

	using  sync.RWMutex // of frames that are applied; closed is written with it held
	closed bool
}

// New opens the lanes' ends and starts the sessions. Nothing is taken from a lane before Go.
func New(cfg Config) (*Bridge, error) {
	b := &Bridge{cfg: cfg, errs: make(chan error, 1), stop: make(chan struct{})}
	for i := range cfg.Peers {
		p, err := newPeer(b, &cfg.Peers[i])
		if err != nil {
			return nil, fmt.Errorf("bridge: machine %d: %w", cfg.Peers[i].Machine, err)
		}
		b.peers = append(b.peers, p)
	}
	for _, lanes := range []struct {
		all  []Lane
		open func(*peer, Lane) error
	}{{cfg.Out, (*peer).openOut}, {cfg.In, (*peer).openIn}} {
		for _, l := range lanes.all {
			p := b.peer(l.Machine)
			if err := l.check(p); err != nil {
				return nil, fmt.Errorf("bridge: lane from worker %d to worker %d: %w", l.From, l.To, err)
			}
			if err := lanes.open(p, l); err != nil {
				return nil, fmt.Errorf("bridge: lane from worker %d to worker %d: %w", l.From, l.To, err)
			}
		}
	}
	if err := b.openDetector(); err != nil {
		return nil, err
	}
	return b, b.start()
}

func (l *Lane) check(p *peer) error {
	switch {
	case p == nil:
		return fmt.Errorf("machine %d is not among the peers", l.Machine)
	case l.From < 0 || l.To < 0 || l.From >= workersMax || l.To >= workersMax:
		return fmt.Errorf("workers are 0 to %d", workersMax-1)
	case l.Window < WindowMin || l.Window > math.MaxInt32:
		return fmt.Errorf("window of %d bytes, want %d to %d", l.Window, WindowMin, math.MaxInt32)
	case l.Bell == nil || l.Body == nil:
		return errors.New("no Body or no Bell, want both")
	}
	return nil
}

// start opens the sessions, and ends those that are open where one can't be.
func (b *Bridge) start() error {
	for _, p := range b.peers {
		if err := p.connect(); err != nil {
			_ = b.close(err.Error()) // the first error says why
			return err
		}
		b.ended.Go(p.pump)
		b.ended.Go(p.carry)
	}
	return nil
}

func (b *Bridge) peer(machine int) *peer {
	for _, p := range b.peers {
		if p.machine == machine {
			return p
		}
	}
	return nil
}

// Accept uses a connection that another machine has dialled, whose first message was that hello, until it has ended.
func (b *Bridge) Accept(c session.Conn, h session.Hello) error {
	p := b.peer(h.From)
	if p == nil {
		err := fmt.Errorf("bridge: a hello of machine %d, which is not in the plan", h.From)
		session.Refuse(c, err)
		return err
	}
	if h.Stream == session.Bulk {
		return p.bulk.Accept(c, h)
	}
	return p.express.Accept(c, h)
}

// Apply, Changed and Acked are those of session.Config, for sessions that were there before the bridge: of one stream
// of another machine, and frames of this bridge's set. They do nothing when the bridge is closed.
func (b *Bridge) Apply(machine int, on session.Stream, h session.Header, body []byte) error {
	b.using.RLock()
	defer b.using.RUnlock()
	p := b.peer(machine)
	switch {
	case b.closed:
		return nil
	case p == nil:
		return badHead(offsetSet, fmt.Sprint("set ", h.Set), "one with workers on that machine")
	case on == session.Bulk:
		return p.applyBulk(h, body)
	}
	return p.apply(h, body)
}

// Changed is for a new state of a session.
func (b *Bridge) Changed(machine int, on session.Stream, s session.State) {
	if p := b.peer(machine); p != nil {
		p.changed(on, s)
	}
}

// Acked is for room in a session's resend buffer.
func (b *Bridge) Acked(machine int, on session.Stream) {
	if p := b.peer(machine); p != nil {
		b.wake(p, on)
	}
}

func (b *Bridge) wake(p *peer, on session.Stream) {
	b.using.RLock()
	defer b.using.RUnlock()
	if !b.closed { // else the doorbell may be unmapped
		p.wake(on)
	}
}

// Err gives the first thing that went wrong, once. The bridge is to be closed then.
func (b *Bridge) Err() <-chan error { return b.errs }

func (b *Bridge) fail(err error) {
	b.once.Do(func() {
		b.failed.Store(&err)
		b.errs <- err
	})
}

// Prepare has all lanes begin anew, for a replication, or for a leg behind nodes that have moved: nothing is taken from
// lanes until Go, and what they still hold, what is queued, and what comes of the time before is dropped. All machines
// do it as often, and each before it takes anything that another one sends behind its Go.
//
// Use: as egress.Reset and ingress.Reset, with which workers follow before Go; numbers rise.
func (b *Bridge) Prepare() error {
	for _, p := range b.peers {
		if err := p.prepare(); err != nil {
			return err
		}
	}
	b.detector.reset()
	return nil
}

// Go has the bridge take from lanes. State frames are sent anew, since those before may have come before the bridge
// there.
func (b *Bridge) Go() {
	for _, p := range b.peers {
		p.turn.Lock()
		p.running = true
		p.turn.Unlock()
		p.again.Store(true)
		p.bulkAgain.Store(true)
		p.wakeBulk()
		p.bell.Ring()
	}
}

// Close ends the bridge, and with it sessions that it has begun: if nothing has gone wrong, it waits until the other
// machines have all that was taken from lanes and close as well, at most for the sessions' timeouts. A large payload
// for which there is no credit is not waited for: who needs it must have got it before. Then both ends of the lanes'
// rings are closed, and the bridge uses their memory no longer. Its error is the first thing that went wrong, also
// when Err has returned it.
func (b *Bridge) Close() error {
	reason := ""
	failed := b.failed.Load()
	if failed != nil {
		reason = (*failed).Error()
	}
	if err := b.close(reason); failed == nil {
		return err
	}
	return *failed
}

func (b *Bridge) close(reason string) error {
	if b.ending.Swap(true) {
		return nil
	}
	close(b.stop)
	for _, p := range b.peers {
		p.bell.Ring()
	}
	b.ended.Wait()
	var all sync.WaitGroup
	for _, p := range b.peers {
		for _, s := range p.own() {
			all.Go(func() { s.Close(reason) })
		}
	}
	all.Wait()
	b.using.Lock()
	defer b.using.Unlock()
	b.closed = true
	var err error
	for _, p := range b.peers {
		err = errors.Join(err, p.close())
	}
	return err
}
