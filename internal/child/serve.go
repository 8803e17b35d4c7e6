// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/machine"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/disco-sim/disco/shm"
)

// Host is who runs the workers on their machines: what a child's program does. Its methods are called by one goroutine;
// an error of one that has one ends the child and with it the run: with Refuse, as a wrong use.
type Host interface {
	// Machines finds the machines for a run. givenUp is closed when the launcher doesn't wait for them any more: it
	// then ends with any error, soon.
	Machines(h Hello, givenUp <-chan struct{}) (Network, error)

	// Keep is about the sets that are made from now on: how many slots of each machine they use together. Others may
	// be given back when the next one is made.
	Keep(slots []int)

	// Make makes the memory of a set on all machines. remark is for people, "": none.
	Make(o Order) (w Workers, remark string, err error)

	// End is called last, unless something has failed, when the launcher has ended the run and nothing of any set is
	// left. It may still note something.
	End()
}

// Order is what a set is made from. The segments may be used until Workers.Close has returned.
type Order struct {
	Set    int // its number
	Plan   machine.Plan
	Input  *shm.Segment   // what every worker reads, for reading
	Boards []*shm.Segment // by worker: to be written by worker.ShowNumbers

	// GivenUp is closed when the launcher doesn't wait for the set any more: Make then ends with any error, soon. nil:
	// it always waits.
	GivenUp <-chan struct{}
}

// Workers is a set of workers. Launcher.Exit reports the end of each that was started.
type Workers interface {
	// Start starts a worker. It takes over the files of s, also when it can't.
	Start(worker int, s Spec)
	// Kill ends it at once.
	Kill(worker int)
	// Release gives up what only workers need, since all have attached.
	Release()
	// Close ends the workers that are left, and returns when nothing of the set is.
	Close()
}

// Spec is what a worker is started with.
type Spec struct {
	Threads        int      // see machine.Spec
	Control        *os.File // its end of the control stream
	Trace, Profile *os.File // get its trace and its profile; nil: none
	Spool, Restore *os.File // get its parts of checkpoints, have what it begins with; both or none
}

// Close closes the files.
func (s *Spec) Close() {
	for _, f := range []*os.File{s.Control, s.Trace, s.Profile, s.Spool, s.Restore} {
		f.Close() // nil: it is an error, and nothing else
	}
}

// Refuse makes an error of a Host one that the caller of the run can avoid.
func Refuse(err error) error { return &refusal{err} }

type refusal struct{ err error }

func (e *refusal) Error() string { return e.err.Error() }
func (e *refusal) Unwrap() error { return e.err }

// IsChild reports whether a launcher started this process as its child.
func IsChild() bool { return workerproc.Started(Command) }

// Launcher is the launcher as its child sees it. Any goroutine may use it; what can't be sent is lost, since the
// launcher is gone then.
type Launcher struct {
	conn     *conn
	machines int // immutable once a set is made

	mu   sync.Mutex // guards sets, and keeps reports of an end and what comes before it in order
	sets map[int]*hosted
	next int // set
}

// hosted is a set as its child sees it.
type hosted struct {
	order   Order
	workers Workers // nil until they are made
	running []bool  // by worker, guarded by Launcher.mu: its end is to be reported
	started []bool  // by worker; of the goroutine that serves
}

// partingMax is how long the child may take to end the run on its machines when its launcher has died.
const partingMax = 3 * time.Second

// Inherit takes over what this process was started with.
func Inherit() (*Launcher, error) {
	files, socket, err := workerproc.InheritParting(partingMax)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		f.Close() // there are none
	}
	c, err := newConn(socket, false)
	if err != nil {
		return nil, err
	}
	return newLauncher(c), nil
}

func newLauncher(c *conn) *Launcher { return &Launcher{conn: c, sets: map[int]*hosted{}} }

// Serve does what the launcher asks for until it closes the socket, or an error, which it is told. Nothing of any set
// is left when Serve returns. It is called once.
func (l *Launcher) Serve(h Host) error {
	err := l.serve(h)
	if err != nil {
		l.Fail(err)
	}
	for n, s := range l.sets {
		l.close(n, s)
	}
	if err == nil {
		h.End()
	}
	l.conn.close()
	return err
}

func (l *Launcher) serve(h Host) error {
	for {
		m, err := l.conn.receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		err = l.handle(h, m)
		m.closeFiles()
		if err != nil {
			return fmt.Errorf("child: %v for set %d: %w", m.Kind, m.Set, err)
		}
	}
}

func (l *Launcher) handle(h Host, m *packet) error {
	hello, isHello := m.Body.(*Hello)
	if isHello != (l.machines == 0) {
		return errors.New("found out of place, want hello first, and once")
	}
	if isHello {
		there, stop := l.conn.watch() // as in make
		n, err := h.Machines(*hello, there)
		if givenUp := stop(); err != nil && givenUp {
			return nil
		}
		if err != nil {
			return err
		}
		l.machines = len(n.Machines)
		return l.conn.send(KindMachines, 0, &n)
	}
	if m.Kind == KindPlan {
		return l.make(h, m)
	}
	if keep, ok := m.Body.(*KeepBody); ok {
		return l.keep(h, keep.Slots)
	}
	s := l.sets[m.Set]
	if s == nil || s.workers == nil && m.Kind != KindClose {
		return errors.New("found a set that isn't there, or that wasn't made")
	}
	switch b := m.Body.(type) {
	case *StartBody:
		return l.start(m, s, b)
	case *WorkerBody:
		if b.Worker >= len(s.started) || !s.started[b.Worker] {
			return fmt.Errorf("found worker %d, which wasn't started", b.Worker)
		}
		s.workers.Kill(b.Worker)
	case *NoBody:
		if m.Kind == KindClose {
			l.close(m.Set, s)
			return nil
		}
		s.workers.Release()
	}
	return nil
}

// keep takes how many slots are used.
func (l *Launcher) keep(h Host, slots []int) error {
	if len(slots) != l.machines {
		return fmt.Errorf("found the slots of %d machines, want %d", len(slots), l.machines)
	}
	h.Keep(slots)
	return nil
}

// make takes a plan.
func (l *Launcher) make(h Host, m *packet) error {
	if m.Set != l.next || len(l.sets) >= SetsMax {
		return fmt.Errorf("found set %d beside %d others, want %d, and at most %d in all", m.Set, len(l.sets), l.next,
			SetsMax)
	}
	plan, err := machine.ParsePlan(m.Body.(*PlanBody).Plan)
	if err != nil {
		return err
	}
	n := plan.Workers()
	if last := int(plan.Machine[n-1]); last >= l.machines || len(m.files) != 1+n {
		return fmt.Errorf("found %d descriptors for %d workers on machines up to %d, want %d, and machines below %d",
			len(m.files), n, last, 1+n, l.machines)
	}
	s := &hosted{order: Order{Set: m.Set, Plan: plan}, started: make([]bool, n), running: make([]bool, n)}
	l.mu.Lock()
	l.sets[m.Set] = s // from here on close frees what is there
	l.next++
	l.mu.Unlock()
	if err := s.attach(m); err != nil {
		return err
	}
	// A launcher sends nothing while it waits, unless it has given up.
	there, stop := l.conn.watch()
	s.order.GivenUp = there
	workers, remark, err := h.Make(s.order)
	if givenUp := stop(); err != nil && givenUp {
		return nil // what it has sent is next
	}
	if err != nil {
		return err
	}
	s.workers = workers
	return l.conn.send(KindMade, m.Set, &TextBody{remark})
}

// attach maps the input and the boards.
func (s *hosted) attach(m *packet) error {
	attach := func(want shm.Want) (*shm.Segment, error) {
		f := m.take()
		defer f.Close()
		return shm.Attach(f, want)
	}
	layout, err := worker.SegmentLayout(s.order.Plan.Workers(), s.order.Plan.Tuning)
	if err != nil {
		return err
	}
	s.order.Input, err = attach(shm.Want{Kind: worker.KindInput, Size: s.order.Plan.InputBytes, ReadOnly: true})
	if err != nil {
		return err
	}
	for range s.order.Plan.Workers() {
		b, err := attach(shm.Want{Kind: layout.Board.Kind, Size: layout.Board.Size})
		if err != nil {
			return err
		}
		s.order.Boards = append(s.order.Boards, b)
	}
	return nil
}

func (l *Launcher) start(m *packet, s *hosted, b *StartBody) error {
	if b.Worker >= len(s.started) || s.started[b.Worker] || len(m.files) != b.files() {
		return fmt.Errorf("found %d descriptors for worker %d, want %d, and each of workers 0 to %d once", len(m.files),
			b.Worker, b.files(), len(s.started)-1)
	}
	s.started[b.Worker] = true
	l.mu.Lock()
	s.running[b.Worker] = true
	l.mu.Unlock()
	files := Spec{Threads: b.Threads, Control: m.take()}
	if b.Trace {
		files.Trace = m.take()
	}
	if b.Profile {
		files.Profile = m.take()
	}
	if b.Saves {
		files.Spool, files.Restore = m.take(), m.take()
	}
	s.workers.Start(b.Worker, files)
	return nil
}

// close frees a set.
func (l *Launcher) close(number int, s *hosted) {
	if s.workers != nil {
		s.workers.Close()
	}
	l.mu.Lock()
	delete(l.sets, number)
	l.mu.Unlock()
	for _, b := range append(s.order.Boards, s.order.Input) {
		if b != nil {
			_ = b.Close() // an error leaves nothing to be done
		}
	}
}

// Output passes on what a worker has written to its standard output and error. The caller keeps its bytes in order.
func (l *Launcher) Output(set, worker int, bytes []byte) {
	for len(bytes) > 0 {
		n := min(len(bytes), OutputMax)
		l.report(set, worker, KindOutput, &OutputBody{worker, bytes[:n]}, false)
		bytes = bytes[n:]
	}
}

// Exit reports that a worker has ended, all of its output has been passed on, and its board shows the end. lanes are
// those to its peers as they stood then, of one that has ended badly.
func (l *Launcher) Exit(set, worker int, exit workerproc.Exit, lanes []Lane) {
	l.report(set, worker, KindExit, NewExit(worker, exit, lanes), true)
}

// report sends something about a worker unless it has ended, or its machine is lost.
func (l *Launcher) report(set, worker int, k Kind, b Body, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sets[set]
	if s == nil || !s.running[worker] {
		return
	}
	s.running[worker] = !last
	_ = l.conn.send(k, set, b) // see Launcher
}

// Lost reports that a machine can't be reached any more: text says since when, and names it. Its workers are taken for
// ended.
func (l *Launcher) Lost(machine int, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.sets {
		for w := range s.running {
			if int(s.order.Plan.Machine[w]) == machine {
				s.running[w] = false
			}
		}
	}
	_ = l.conn.send(KindLost, 0, &LostBody{machine, text}) // see Launcher
}

// Away says whether machines that take part are cut off from others, or silent, when that changes.
func (l *Launcher) Away(away bool) {
	_ = l.conn.send(KindAway, 0, &AwayBody{away}) // see Launcher
}

// Note shows people a line.
func (l *Launcher) Note(text string) {
	_ = l.conn.send(KindNote, 0, &TextBody{text}) // see Launcher
}

// Fail ends the run: its workers are taken for ended. The launcher then closes the socket, which ends Serve.
func (l *Launcher) Fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.sets {
		clear(s.running)
	}
	_ = l.conn.send(KindFailed, 0, NewFailed(err)) // see Launcher
}
