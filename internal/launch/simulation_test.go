// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/disco-sim/disco/internal/race"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
)

var (
	simSchedules = flag.Int("schedules", 0, "simulated runs of TestSimulatedSupervision; 0: 1000, fewer with "+
		"-short or -race")
	simSeed = flag.Uint64("seed", 1, "seed of the first simulated run of TestSimulatedSupervision; the "+
		"others count on")
)

// fault is what happens to one worker of a simulated run.
type fault string

const (
	faultNone    fault = "none"
	faultKill    fault = "killed by a signal"
	faultPanic   fault = "exits with status 2 without a message"
	faultExit    fault = "exits with status 0"
	faultError   fault = "reports an error and exits"
	faultMessage fault = "sends what the protocol doesn't allow"
)

// simPlan is what a seed decides.
type simPlan struct {
	seed         uint64
	workers      int
	replications int
	fault        fault
	victim       int
	message      int           // number of the message after which it happens, Setup being 1
	after        time.Duration // … so long
	pace         time.Duration // most that a step of a worker takes
	stop         time.Duration // when Stop is asked for; 0: never
	cancel       time.Duration // when the run is ended at once; 0: never
}

func newSimPlan(seed uint64) (*simPlan, *rand.Rand) {
	rnd := rand.New(rand.NewPCG(seed, 0x1a))
	p := &simPlan{
		seed: seed, workers: 1 + rnd.IntN(5), replications: 1 + rnd.IntN(3),
		fault: []fault{faultNone, faultKill, faultPanic, faultExit, faultError, faultMessage}[rnd.IntN(6)],
		pace:  []time.Duration{time.Microsecond, time.Millisecond, 40 * time.Millisecond}[rnd.IntN(3)],
	}
	p.victim, p.message = rnd.IntN(p.workers), 1+rnd.IntN(2+2*p.replications)
	p.after = time.Duration(rnd.Int64N(int64(2*p.pace) + 1))
	switch rnd.IntN(8) {
	case 0:
		p.stop = 1 + time.Duration(rnd.Int64N(int64(10*p.pace)))
	case 1:
		p.cancel = 1 + time.Duration(rnd.Int64N(int64(10*p.pace)))
	}
	return p, rnd
}

// simSet is the workers of one simulated run: goroutines that follow the protocol over
// in-memory streams, in the fake time of a synctest bubble.
type simSet struct {
	*simPlan
	members []*simWorker
	lives   sync.WaitGroup
	faulted atomic.Pointer[time.Time] // when the fault happened; nil: not yet
}

// simWorker is one of them. Its goroutine ends when dead is closed.
type simWorker struct {
	set     *simSet
	index   int
	rnd     *rand.Rand
	control net.Conn
	inbox   chan *worker.Message // closed at the stream's end
	outbox  chan *worker.Message // what is under way to the launcher; closed when it ends
	fault   chan struct{}        // closed when the fault is due
	dead    chan struct{}        // closed by kill
	closed  chan struct{}        // closed when it closes its lanes
	status  chan workerproc.Exit
	handled int // messages
}

// pause is the time that a step takes; false when the member is dead afterwards, or is to
// fail now.
func (m *simWorker) pause() bool {
	select {
	case <-time.After(1 + time.Duration(m.rnd.Int64N(int64(m.set.pace)))):
		return true
	case <-m.dead:
	case <-m.fault:
	}
	return false
}

// read passes messages on, and sets the fault off.
func (m *simWorker) read() {
	defer close(m.inbox)
	for {
		msg, err := worker.ReadMessage(m.control)
		if err != nil {
			return
		}
		if m.handled++; m.index == m.set.victim && m.handled == m.set.message && m.set.fault != faultNone {
			time.AfterFunc(m.set.after, func() { close(m.fault) })
		}
		select {
		case m.inbox <- msg:
		case <-m.dead:
			return
		}
	}
}

// deliver takes to the launcher what the member has said, also after its death, as a
// socket does. Streams don't wait for each other.
func (m *simWorker) deliver(rnd *rand.Rand) {
	for msg := range m.outbox {
		time.Sleep(1 + time.Duration(rnd.Int64N(int64(simTransit))))
		_ = worker.WriteMessage(m.control, msg) // it is lost when the launcher has closed the stream
	}
	m.control.Close()
}

// simTransit is how long a message may be under way.
const simTransit = 2 * time.Millisecond

func (m *simWorker) send(msg *worker.Message) { m.outbox <- msg }

// live is the life of a member.
func (m *simWorker) live() {
	status := m.serve()
	close(m.outbox)
	// A process takes a moment to be gone.
	time.Sleep(1 + time.Duration(m.rnd.Int64N(int64(5*time.Millisecond))))
	m.status <- status
}

func killedBy(sig syscall.Signal) workerproc.Exit {
	return workerproc.Exit{Signal: sig, Text: "killed"}
}

// serve follows the protocol until the member ends, and returns how it does.
func (m *simWorker) serve() workerproc.Exit {
	for {
		select {
		case <-m.dead:
			return killedBy(syscall.SIGKILL)
		case <-m.fault:
			return m.fail()
		case msg, ok := <-m.inbox:
			if !ok {
				return workerproc.Exit{Text: "exit status 1"}
			}
			if status, end := m.handle(msg); end {
				return status
			}
		}
	}
}

// handle does what a worker does with one message.
func (m *simWorker) handle(msg *worker.Message) (workerproc.Exit, bool) {
	answer := &worker.Message{Type: worker.TypeReady}
	switch msg.Type {
	case worker.TypeExit:
		if m.pause() {
			return workerproc.Exit{OK: true, Text: "exit status 0"}, true
		}
		return m.interrupted()
	case worker.TypeStop, worker.TypeLimit:
		return workerproc.Exit{}, false // it has just ended by itself
	case worker.TypeGo:
		if status, end := m.run(); end {
			return status, true
		}
		answer = &worker.Message{Type: worker.TypeDone, Done: &worker.Done{}}
	}
	if !m.pause() {
		return m.interrupted()
	}
	m.send(answer)
	return workerproc.Exit{}, false
}

func (m *simWorker) isDead() bool {
	select {
	case <-m.dead:
		return true
	default:
		return false
	}
}

// interrupted is the end of a member that didn't come to the end of a step.
func (m *simWorker) interrupted() (workerproc.Exit, bool) {
	if m.isDead() {
		return killedBy(syscall.SIGKILL), true
	}
	return m.fail(), true
}

// run is a replication: it ends only if no peer fails meanwhile.
func (m *simWorker) run() (workerproc.Exit, bool) {
	over := time.After(m.set.pace * 3)
	for {
		select {
		case <-m.dead:
			return killedBy(syscall.SIGKILL), true
		case <-m.fault:
			return m.fail(), true
		case <-m.peerClosed():
			return m.complain(), true
		case <-over:
			if !m.set.crippled() {
				return workerproc.Exit{}, false
			}
			over = nil // it waits for a peer that is no more
		case msg, ok := <-m.inbox:
			switch {
			case !ok:
				return workerproc.Exit{Text: "exit status 1"}, true
			case msg.Type == worker.TypeStop:
				over = nil
				m.send(&worker.Message{Type: worker.TypeStopped,
					Stopped: &worker.Stopped{Handled: true, Epoch: float64(m.index)}})
			case msg.Type == worker.TypeLimit:
				over = time.After(m.set.pace)
			}
		}
	}
}

// crippled reports whether the victim has failed.
func (t *simSet) crippled() bool { return t.faulted.Load() != nil }

// peerClosed is ready when a peer has closed its lanes.
func (m *simWorker) peerClosed() <-chan struct{} {
	for _, p := range m.set.members {
		if p != m {
			select {
			case <-p.closed:
				return p.closed
			default:
			}
		}
	}
	if v := m.set.members[m.set.victim]; v != m {
		return v.closed
	}
	return nil
}

// complain ends a member that has found a peer's lane closed.
func (m *simWorker) complain() workerproc.Exit {
	if !m.pause() {
		status, _ := m.interrupted()
		return status
	}
	m.send(&worker.Message{Type: worker.TypeFailed, Failed: &worker.Failed{Error: "a lane was closed", Peer: true}})
	close(m.closed)
	return workerproc.Exit{Text: "exit status 1"}
}

// fail is the fault.
func (m *simWorker) fail() workerproc.Exit {
	t := m.set
	now := time.Now()
	t.faulted.Store(&now)
	switch t.fault {
	case faultKill:
		return killedBy(syscall.SIGSEGV)
	case faultPanic:
		return workerproc.Exit{Text: "exit status 2"}
	case faultExit:
		return workerproc.Exit{OK: true, Text: "exit status 0"}
	case faultError:
		m.send(&worker.Message{Type: worker.TypeFailed, Failed: &worker.Failed{Error: "out of luck"}})
		close(m.closed)
		return workerproc.Exit{Text: "exit status 1"}
	}
	m.send(&worker.Message{Type: worker.TypeGo})
	for range m.inbox { // it goes on until its stream is closed
	}
	return workerproc.Exit{Text: "exit status 1"}
}

// simulateSupervision runs the real supervisor over simulated workers. What it returns
// depends on the plan alone.
func simulateSupervision(p *simPlan, rnd *rand.Rand) (took time.Duration, outcome string, err error) {
	t := &simSet{simPlan: p}
	stop := make(chan struct{})
	l := &Launch{timeouts: defaultTimeouts(0), cfg: Config{Stop: stop}, log: workerproc.NewLineWriter(nil)}
	s := newSupervisor(newConnections(), make(testBoards, p.workers), l)
	for i := range p.workers {
		ours, theirs := net.Pipe()
		m := &simWorker{
			set: t, index: i, rnd: rand.New(rand.NewPCG(rnd.Uint64(),
				1)), control: theirs, inbox: make(chan *worker.Message, 8), outbox: make(chan *worker.Message, 16),
			fault: make(chan struct{}), dead: make(chan struct{}), closed: make(chan struct{}),
			status: make(chan workerproc.Exit, 1),
		}
		t.members = append(t.members, m)
		killed := false
		s.add(&connection{index: i, number: i, control: ours, kill: func() {
			if !killed {
				killed = true
				close(m.dead)
				theirs.Close()
			}
		}}, func() workerproc.Exit { return <-m.status })
	}
	for _, m := range t.members {
		transit := rand.New(rand.NewPCG(m.rnd.Uint64(), 2))
		t.lives.Go(m.read)
		t.lives.Go(m.live)
		t.lives.Go(func() { m.deliver(transit) })
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if p.stop > 0 {
		time.AfterFunc(p.stop, func() { close(stop) })
	}
	if p.cancel > 0 {
		time.AfterFunc(p.cancel, cancel)
	}
	began := time.Now()
	failure := t.lead(ctx, s)
	took = time.Since(began)
	s.conns.serving.Wait()
	t.lives.Wait()
	outcome = fmt.Sprint(failure)
	return took, outcome, t.check(s, failure, ctx)
}

// lead is workerSet.lead and workerSet.replications without memory and results.
func (t *simSet) lead(ctx context.Context, s *supervisor) error {
	err := func() error {
		ask := func(msg *worker.Message, want worker.MessageType, name Phase) error {
			s.stage.phase = name
			_, err := s.request(ctx, func(int) *worker.Message { return msg }, want)
			return err
		}
		if err := ask(&worker.Message{Type: worker.TypeSetup, Setup: &worker.Setup{}}, worker.TypeReady,
			PhaseStart); err != nil {
			return err
		}
		for r := 0; r < t.replications && !s.stopping; r++ {
			s.stage.replication = r
			if err := ask(&worker.Message{Type: worker.TypePrepare, Prepare: &worker.Prepare{Replication: r}},
				worker.TypeReady, PhasePrepare); err != nil {
				return err
			}
			if err := ask(&worker.Message{Type: worker.TypeGo}, worker.TypeDone, PhaseRun); err != nil {
				return err
			}
		}
		return nil
	}()
	if errors.Is(err, errNotBegun) {
		s.terminate(false)
		return nil
	}
	if err != nil {
		s.terminate(ctx.Err() == nil)
		return err
	}
	return s.shutDown(ctx)
}

// check says what is wrong with the end of a run.
func (t *simSet) check(s *supervisor, failure error, ctx context.Context) error {
	if !s.states.ended() {
		return errors.New("a worker is left")
	}
	w := (*WorkerError)(nil)
	named := errors.As(failure, &w)
	switch {
	case named && !t.crippled():
		return errors.New("a worker is the cause, but nothing had happened to any")
	case named && ctx.Err() != nil:
		// Ended at once, while it was being found out who was the cause.
	case named && w.Worker != t.victim:
		return fmt.Errorf("worker %d is the cause, not worker %d, which failed", w.Worker, t.victim)
	case named:
		if took := time.Since(*t.faulted.Load()); took > time.Second {
			return fmt.Errorf("the run was over only %v after the fault", took)
		}
	case errors.Is(failure, ErrEnded) && ctx.Err() != nil:
	case failure != nil:
		return fmt.Errorf("another error: %w", failure)
	case ctx.Err() != nil || s.stopping && !s.want.has(worker.TypeDone) && s.want != 0:
		// Ended before it had begun, or at once: no worker is the cause any more.
	case s.stage.phase == PhaseExit && t.fault == faultExit:
		// All results were there, and an exit is what was asked for.
	case s.states.workers[t.victim].killed && t.fault == faultMessage:
		// All results were there. It was killed for not ending, which a remark says.
	case t.crippled():
		return fmt.Errorf("worker %d failed, and the run has no error", t.victim)
	}
	return nil
}

// The real supervisor over simulated workers, one of which fails at any step: it names the
// right worker, within the time that it promises, and ends all of them
// (docs/simulation-testing.md).
func TestSimulatedSupervision(t *testing.T) {
	n := *simSchedules
	switch {
	case n > 0:
	case race.Enabled:
		n = 100
	case testing.Short():
		n = 300
	default:
		n = 1000
	}
	kinds := map[fault]int{}
	for i := range n {
		p, rnd := newSimPlan(*simSeed + uint64(i))
		synctest.Test(t, func(t *testing.T) {
			took, outcome, err := simulateSupervision(p, rnd)
			if err != nil {
				t.Errorf("run %d of %d: %+v\n%v\nafter %v: %s\nreplay: go test -run 'TestSimulatedSupervision$' "+
					"./internal/launch -seed %d -schedules 1", i+1, n, *p, err, took, outcome, p.seed)
			}
		})
		if t.Failed() {
			return
		}
		kinds[p.fault]++
	}
	t.Logf("%d runs: %v", n, kinds)
}

// A seed is the whole run: it takes the same simulated time and ends in the same way.
func TestSimulatedSupervisionRepeats(t *testing.T) {
	for seed := uint64(1); seed <= 50; seed++ {
		var took [2]time.Duration
		var outcome [2]string
		for k := range 2 {
			p, rnd := newSimPlan(seed)
			synctest.Test(t, func(*testing.T) { took[k], outcome[k], _ = simulateSupervision(p, rnd) })
		}
		if took[0] != took[1] || outcome[0] != outcome[1] {
			t.Errorf("seed %d: %v, %s and then %v, %s", seed, took[0], outcome[0], took[1], outcome[1])
		}
	}
}
