// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/machine"
	"github.com/disco-sim/disco/internal/outfile"
	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/internal/session/pipetest"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/disco-sim/disco/shm"
)

// testTimeout bounds every wait.
const testTimeout = time.Minute

// rig is a hub and the spokes of some machines, joined by sessions in memory.
type rig struct {
	t       testing.TB
	hub     *Hub
	to      *launcher
	spokes  []*Spoke
	sites   []*site
	near    [][2]*session.Session // of the hub, by machine
	far     [][2]*session.Session
	serving sync.WaitGroup
	ready   chan struct{} // closed when both ends are there

	mu   sync.Mutex
	cuts func() int // messages of the next connection, below 0: no end; nil: none has one
}

func newRig(t testing.TB, machines int, cuts func() int) *rig {
	t.Helper()
	r := &rig{t: t, to: newLauncher(t), ready: make(chan struct{}), cuts: cuts,
		near: make([][2]*session.Session, machines), far: make([][2]*session.Session, machines)}
	cfg := HubConfig{To: r.to, MakeTimeout: testTimeout, RefuseTimeout: testTimeout}
	for m := range machines {
		for on := session.Express; on <= session.Bulk; on++ {
			r.open(m, on)
		}
		cfg.Machines = append(cfg.Machines, Machine{Name: fmt.Sprint("h", m), Sessions: r.near[m]})
		s := &site{r: r, machine: m, sets: map[int]*workers{}}
		r.sites = append(r.sites, s)
		r.spokes = append(r.spokes, NewSpoke(SpokeConfig{Machine: m, Sessions: r.far[m], Site: s}))
	}
	r.hub = NewHub(cfg)
	close(r.ready)
	return r
}

// open makes both ends of one session.
func (r *rig) open(m int, on session.Stream) {
	cfg := session.Config{Self: -1, Peer: m, Stream: on, Identity: session.Identity{Incarnation: 1},
		ConnectTimeout: testTimeout, PeerTimeout: testTimeout, Window: testTimeout, ResendBytes: 1 << 20}
	near, far := cfg, cfg
	far.Self, far.Peer, far.Identity.Incarnation = m, -1, 2
	near.Apply = func(h session.Header, body []byte) error { <-r.ready; return r.hub.Apply(m, on, h, body) }
	near.Changed = func(s session.State) { <-r.ready; r.hub.Changed(m, on, s) }
	near.Acked = func() { r.hub.Acked(m, on) }
	far.Apply = func(h session.Header, body []byte) error { <-r.ready; return r.spokes[m].Apply(on, h, body) }
	far.Changed = func(s session.State) { <-r.ready; r.spokes[m].Changed(on, s) }
	far.Acked = func() { r.spokes[m].Acked(on) }
	near.Dial = func(context.Context) (session.Conn, error) { return r.dial(m, on), nil }
	var err error
	if r.far[m][on], err = session.New(far); err == nil {
		r.near[m][on], err = session.New(near)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// dial makes a connection, which may end at some message.
func (r *rig) dial(m int, on session.Stream) session.Conn {
	x, y := pipetest.New[*session.Buffer](8)
	var a, b session.Conn = x, y
	r.mu.Lock()
	if r.cuts != nil {
		if n := r.cuts(); n >= 0 {
			a, b = pipetest.WithFaults(&pipetest.Faults{Left: n, What: pipetest.Ends}, a, b)
		}
	}
	r.mu.Unlock()
	r.serving.Go(func() {
		first, err := b.Receive()
		if err != nil {
			b.Close()
			return
		}
		h, err := session.ParseHello(first)
		if err != nil {
			session.Refuse(b, err)
			return
		}
		_ = r.far[m][on].Accept(b, h)
	})
	return a
}

// close ends all of it as it should end.
func (r *rig) close() {
	r.hub.Close()
	r.mu.Lock()
	r.cuts = nil
	r.mu.Unlock()
	r.closeSessions("")
	for _, s := range r.spokes {
		s.Close()
	}
	r.serving.Wait()
	for m, all := range r.near {
		for on, s := range all {
			if err := errors.Join(s.Err(), r.far[m][on].Err()); err != nil && !r.to.ends() {
				r.t.Errorf("machine %d, %v: %v", m, session.Stream(on), err)
			}
		}
	}
}

func (r *rig) closeSessions(reason string) {
	var all sync.WaitGroup
	for _, ends := range [][][2]*session.Session{r.near, r.far} {
		for _, pair := range ends {
			for _, s := range pair {
				all.Go(func() { s.Close(reason) })
			}
		}
	}
	all.Wait()
}

// launcher keeps what was reported.
type launcher struct {
	t  testing.TB
	mu sync.Mutex

	moved   *sync.Cond
	outputs map[[2]int][]byte
	exits   map[[2]int]workerproc.Exit
	lanes   map[[2]int][]child.Lane
	lost    map[int]string
	notes   []string
	failed  []error
	atExit  func(set, worker int) // nil: nothing is looked at
	hold    chan struct{}         // not nil: output waits until it is closed
}

func newLauncher(t testing.TB) *launcher {
	l := &launcher{t: t, outputs: map[[2]int][]byte{}, exits: map[[2]int]workerproc.Exit{}, lost: map[int]string{},
		lanes: map[[2]int][]child.Lane{}}
	l.moved = sync.NewCond(&l.mu)
	return l
}

func (l *launcher) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	l.moved.Broadcast()
}

func (l *launcher) Output(set, w int, b []byte) {
	if l.hold != nil {
		<-l.hold
	}
	l.change(func() {
		if _, ok := l.exits[[2]int{set, w}]; ok {
			l.t.Errorf("output of worker %d of set %d behind its exit", w, set)
		}
		l.outputs[[2]int{set, w}] = append(l.outputs[[2]int{set, w}], b...)
	})
}

func (l *launcher) Exit(set, w int, exit workerproc.Exit, lanes []child.Lane) {
	if l.atExit != nil {
		l.atExit(set, w)
	}
	l.change(func() {
		if _, ok := l.exits[[2]int{set, w}]; ok {
			l.t.Errorf("worker %d of set %d has ended twice", w, set)
		}
		l.exits[[2]int{set, w}], l.lanes[[2]int{set, w}] = exit, lanes
	})
}

func (l *launcher) Lost(m int, text string) {
	l.change(func() {
		if _, ok := l.lost[m]; ok {
			l.t.Errorf("machine %d was lost twice", m)
		}
		l.lost[m] = text
	})
}

func (l *launcher) Note(text string) { l.change(func() { l.notes = append(l.notes, text) }) }
func (l *launcher) Fail(err error)   { l.change(func() { l.failed = append(l.failed, err) }) }

// ends reports whether the run has ended badly.
func (l *launcher) ends() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.failed) > 0 || len(l.lost) > 0
}

// await waits for something that was reported.
func (l *launcher) await(what string, ready func() bool) {
	l.t.Helper()
	late := false
	timer := time.AfterFunc(testTimeout, func() { l.change(func() { late = true }) })
	defer timer.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for !ready() {
		if late {
			l.t.Fatalf("%s: not within %v; failed %v, lost %v, notes %q", what, testTimeout, l.failed, l.lost, l.notes)
		}
		l.moved.Wait()
	}
}

func (l *launcher) awaitExit(set, w int) workerproc.Exit {
	l.t.Helper()
	id := [2]int{set, w}
	l.await(fmt.Sprint("exit of worker ", w), func() bool { _, ok := l.exits[id]; return ok })
	return l.exits[id]
}

// site runs workers that are goroutines.
type site struct {
	r       *rig
	machine int

	mu   sync.Mutex
	sets map[int]*workers

	making func(o child.Order) error // called by Make; nil: nothing
	run    func(w *fake)             // a worker; nil: it obeys
	shows  func() error              // of Numbers; nil: all is well
}

// workers are a set on one machine.
type workers struct {
	s       *site
	to      Reporter
	order   child.Order
	serving sync.WaitGroup

	mu       sync.Mutex
	all      map[int]*fake
	closed   bool
	released int
	controls []string
	refuse   worker.MessageType // a control message that isn't to be passed on
}

// fake is a worker.
type fake struct {
	ws     *workers
	index  int
	spec   child.Spec
	killed chan struct{}
	once   sync.Once
	number uint64 // that its board shows
	ok     bool
}

func (s *site) Make(o child.Order, to Reporter) (Workers, string, error) {
	if s.making != nil {
		if err := s.making(o); err != nil {
			return nil, "", err
		}
	}
	w := &workers{s: s, to: to, order: o, all: map[int]*fake{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sets[o.Set] = w
	return w, fmt.Sprint("pages of ", s.machine), nil
}

func (ws *workers) Start(index int, spec child.Spec) {
	f := &fake{ws: ws, index: index, spec: spec, killed: make(chan struct{}), ok: true}
	ws.mu.Lock()
	ws.all[index] = f
	ws.mu.Unlock()
	ws.serving.Go(func() {
		run := ws.s.run
		if run == nil {
			run = (*fake).obey
		}
		run(f)
		f.spec.Close()
		ws.to.Exit(ws.order.Set, index, workerproc.Exit{OK: f.ok, Text: "ended"}, []child.Lane{{To: index}})
	})
}

func (ws *workers) Kill(index int) {
	ws.mu.Lock()
	f := ws.all[index]
	ws.mu.Unlock()
	f.kill()
}

func (f *fake) kill() {
	f.once.Do(func() { close(f.killed) })
	_ = f.spec.Control.SetDeadline(time.Now())
}

func (ws *workers) Release() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.released++
}

func (ws *workers) Close() {
	ws.mu.Lock()
	ws.closed = true
	all := slices.Collect(maps.Values(ws.all))
	ws.mu.Unlock()
	for _, f := range all {
		f.kill()
	}
	ws.serving.Wait()
}

func (ws *workers) Numbers(index int, to []uint64) ([]uint64, error) {
	if ws.s.shows != nil {
		if err := ws.s.shows(); err != nil {
			return nil, err
		}
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		ws.s.r.t.Error("the board of a set that is closed")
	}
	f := ws.all[index]
	if f == nil {
		return append(to, make([]uint64, worker.NumbersCount)...), nil // its board is there before it is started
	}
	for range worker.NumbersCount {
		to = append(to, f.number)
	}
	return to, nil
}

func (ws *workers) Control(index int, t worker.MessageType, anew bool) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if t == ws.refuse {
		return fmt.Errorf("refused: %v", t)
	}
	ws.controls = append(ws.controls, fmt.Sprint(index, " ", t, " ", anew))
	return nil
}

// show sets what the board shows.
func (f *fake) show(n uint64) {
	f.ws.mu.Lock()
	defer f.ws.mu.Unlock()
	f.number = n
}

func (f *fake) output(text string) { f.ws.to.Output(f.ws.order.Set, f.index, []byte(text)) }

// traceOf is what a fake has traced in a replication.
func traceOf(index, replication int) []byte {
	return bytes.Repeat([]byte(fmt.Sprint("worker ", index, ", replication ", replication, "; ")), 20_000)
}

// obey answers messages as a worker does, and traces some for each replication.
func (f *fake) obey() {
	replication := -1
	for {
		m, err := worker.ReadMessage(f.spec.Control)
		if err != nil {
			f.ok = false
			return
		}
		answer := &worker.Message{Type: worker.TypeReady}
		switch m.Type {
		case worker.TypePrepare:
			replication = m.Prepare.Replication
		case worker.TypeGo:
			f.output(fmt.Sprint("replication ", replication, " of ", f.index, "\n"))
			if f.spec.Trace != nil {
				_, _ = f.spec.Trace.Write(traceOf(f.index, replication))
			}
			f.show(uint64(replication) + 1)
			answer = &worker.Message{Type: worker.TypeDone, Done: &worker.Done{Reached: float64(replication)}}
		case worker.TypeExit:
			if f.spec.Profile != nil {
				_, _ = f.spec.Profile.Write(traceOf(f.index, -1))
			}
			f.output("bye\n")
			f.show(1 << 40)
			return
		}
		if err := worker.WriteMessage(f.spec.Control, answer); err != nil {
			f.ok = false
			return
		}
	}
}

// planOf is a plan of workers on these machines.
func planOf(input int, machines ...int32) machine.Plan {
	n := len(machines)
	traffic := make([][]float64, n)
	for i := range traffic {
		traffic[i] = make([]float64, n)
	}
	p := machine.NewPlan(machines, traffic, worker.DefaultTuning(), machine.WindowBytesDefault)
	p.InputBytes = input
	return p
}

// made is a set as its launcher has it.
type made struct {
	r      *rig
	order  child.Order
	remark string
	ws     child.Workers
	err    error // of Make, and when it has returned, where begin has called it
	done   chan struct{}
	ours   map[int]*os.File
	trace  map[int]*os.File
	prof   map[int]*os.File
}

// newOrder makes an order, whose segments free closes.
func (r *rig) newOrder(set, input int, machines ...int32) *made {
	m := &made{r: r, ours: map[int]*os.File{}, trace: map[int]*os.File{}, prof: map[int]*os.File{}}
	m.order = child.Order{Set: set, Plan: planOf(input, machines...)}
	layout, err := worker.SegmentLayout(len(machines), m.order.Plan.Tuning)
	if err == nil {
		m.order.Input, err = shm.Heap(shm.Config{Name: "input", Kind: worker.KindInput, Size: input})
	}
	if err != nil {
		r.t.Fatal(err)
	}
	rng := rand.NewChaCha8([32]byte{byte(set), byte(input)})
	_, _ = rng.Read(m.order.Input.Body())
	for range machines {
		b, err := shm.Heap(layout.Board)
		if err == nil {
			err = layout.FormatBoard(b.Body())
		}
		if err != nil {
			r.t.Fatal(err)
		}
		m.order.Boards = append(m.order.Boards, b)
	}
	return m
}

// newSet makes a set.
func (r *rig) newSet(set, input int, machines ...int32) *made {
	r.t.Helper()
	m := r.newOrder(set, input, machines...)
	var err error
	if m.ws, m.remark, err = r.hub.Make(m.order); err != nil {
		r.t.Fatal(err)
	}
	return m
}

// start starts a worker, with files if it is to have them.
func (m *made) start(w int, files bool) *os.File {
	m.r.t.Helper()
	ours, theirs, err := workerproc.ControlStream()
	if err != nil {
		m.r.t.Fatal(err)
	}
	m.ours[w] = ours
	spec := child.Spec{Threads: w + 1, Control: theirs}
	if files {
		spec.Trace, m.trace[w] = m.file()
		spec.Profile, m.prof[w] = m.file()
	}
	m.ws.Start(w, spec)
	return ours
}

func (m *made) file() (theirs, ours *os.File) {
	theirs, err := outfile.Temporary(m.r.t.TempDir())
	if err == nil {
		ours, err = outfile.Reopen(theirs)
	}
	if err != nil {
		m.r.t.Fatal(err)
	}
	return theirs, ours
}

// ask sends a worker a message and waits for the type of answer.
func (m *made) ask(w int, message *worker.Message, answer worker.MessageType) {
	m.r.t.Helper()
	_ = m.ours[w].SetDeadline(time.Now().Add(testTimeout))
	if err := worker.WriteMessage(m.ours[w], message); err != nil {
		m.r.t.Fatal(err)
	}
	got, err := worker.ReadMessage(m.ours[w])
	if err != nil || got.Type != answer {
		m.r.t.Fatalf("worker %d: %v, %v; want %v", w, got, err, answer)
	}
}

// whole reports what a file has.
func whole(f *os.File) []byte {
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	b := make([]byte, info.Size())
	_, _ = f.ReadAt(b, 0)
	return b
}

// number is what a board shows first.
func (m *made) number(w int) uint64 {
	numbers, err := worker.AppendNumbers(nil, m.order.Boards[w])
	if err != nil {
		m.r.t.Error(err)
		return 0
	}
	return numbers[0]
}

// close closes the set, and all that it was made from.
func (m *made) close() {
	if m.ws != nil {
		m.ws.Close()
	}
	for _, all := range []map[int]*os.File{m.ours, m.trace, m.prof} {
		for _, f := range all {
			f.Close()
		}
	}
	for _, s := range append(m.order.Boards, m.order.Input) {
		if err := s.Close(); err != nil {
			m.r.t.Error(err)
		}
	}
}
