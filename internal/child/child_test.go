// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/internal/machine"
	"github.com/disco-sim/disco/internal/wire"
	"github.com/disco-sim/disco/internal/wire/wiretest"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/disco-sim/disco/ring"
	"github.com/disco-sim/disco/shm"
)

// testTimeout bounds every wait.
const testTimeout = 60 * time.Second

// Every field travels.
func TestPacketsTravel(t *testing.T) {
	status := lane.Status{Epoch: math.Inf(1), Level: 7,
		Forward: ring.Status{Capacity: 1 << 10, Start: 1, Tail: 1 << 40, Head: 1 << 39, ProducerTaken: true,
			ConsumerTaken: true, ProducerClosed: true, ConsumerClosed: true},
		Return: ring.Status{Capacity: 2 << 10, Start: 2, Tail: 1 << 20, Head: 3, ProducerTaken: true}}
	wiretest.Whole(t, ExitBody{Worker: 3, Lanes: []Lane{{To: 5, Status: status}}, Exit: workerproc.Exit{OK: true,
		Lost: true, Ended: true, Signal: 9, Text: "killed", Lines: []string{"a", "b"}}}, (*ExitBody).fields)
	wiretest.Whole(t, Network{Machines: []Machine{{"a", 1, 2}, {"b", 3, 4}}, RoundTrip: []float64{0, 1, 1, 0},
		SecondsPerByte: []float64{0, 2, 2, 0}}, (*Network).fields)
	wiretest.Whole(t, Hello{Workers: 64, Run: "shop"}, (*Hello).fields)
	wiretest.Whole(t, StartBody{Worker: 63, Threads: 2, Trace: true, Profile: true, Saves: true}, (*StartBody).fields)
	wiretest.Whole(t, OutputBody{Worker: 1, Bytes: []byte("said")}, (*OutputBody).fields)
	wiretest.Whole(t, KeepBody{Slots: []int{0, 64, 3}}, (*KeepBody).fields)
	wiretest.Whole(t, LostBody{Machine: 2, Text: "cut off"}, (*LostBody).fields)
	wiretest.Whole(t, FailedBody{Refused: true, Text: "no"}, (*FailedBody).fields)
	wiretest.Whole(t, PlanBody{Plan: []byte{1}}, (*PlanBody).fields)
	// What is too long for a person to read is cut.
	long := TextBody{strings.Repeat("x", 2*textMax)}
	b, err := wire.Append(nil, long.fields)
	if err != nil || len(b) != 4+textMax || len(long.Text) != 2*textMax {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// fakeHost runs nothing.
type fakeHost struct {
	to      *Launcher
	network Network
	err     error // of Make
	late    bool  // Make waits until the launcher has given up
	joins   bool  // so does Machines
	orders  chan Order
	started chan struct{} // one for each worker

	mu     sync.Mutex
	said   []string
	closed int
}

func (h *fakeHost) Machines(_ Hello, givenUp <-chan struct{}) (Network, error) {
	if !h.joins {
		return h.network, nil
	}
	select {
	case <-givenUp:
	case <-time.After(testTimeout):
	}
	return Network{}, errors.New("the launcher has given up")
}

func (h *fakeHost) Make(o Order) (Workers, string, error) {
	h.orders <- o
	if h.late {
		select {
		case <-o.GivenUp:
		case <-time.After(testTimeout):
		}
		return nil, "", errors.New("the launcher has given up")
	}
	return &fakeWorkers{h, o}, "of fake pages", h.err
}

func (h *fakeHost) Keep(slots []int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said = append(h.said, fmt.Sprint("keep ", slots))
}

func (h *fakeHost) End() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said = append(h.said, "end")
	h.to.Note("the end")
}

type fakeWorkers struct {
	h *fakeHost
	o Order
}

func (w *fakeWorkers) record(format string, args ...any) {
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	w.h.said = append(w.h.said, fmt.Sprintf(format, args...))
}

func (w *fakeWorkers) Start(worker int, s Spec) {
	w.record("start %d %d", worker, s.Threads)
	if s.Trace != nil {
		_, _ = s.Trace.WriteString("trace")
	}
	if s.Profile != nil {
		_, _ = s.Profile.WriteString("profile")
	}
	s.Close()
	w.h.started <- struct{}{}
}
func (w *fakeWorkers) Kill(worker int) {
	w.record("kill %d", worker)
	w.h.to.Exit(w.o.Set, worker, workerproc.Exit{Signal: 9, Text: "killed"}, nil)
	w.h.to.Exit(w.o.Set, worker, workerproc.Exit{Text: "killed twice"}, nil) // says nothing
	w.h.to.Output(w.o.Set, worker, []byte("too late\n"))                     // likewise
}
func (w *fakeWorkers) Release() { w.record("release") }
func (w *fakeWorkers) Close() {
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	w.h.closed++
}

// joined is both ends, in one process.
type joined struct {
	p      *Process
	host   *fakeHost
	served chan error
	log    *logged
	input  *shm.Segment
}

// logged keeps what was written.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// ends makes both connections. That of the child is blocked by nothing.
func ends(t *testing.T) (launchers, childs *conn) {
	t.Helper()
	ours, theirs, err := socketPair()
	if err != nil {
		t.Fatal(err)
	}
	launchers, err = newConn(ours, true)
	if err == nil {
		childs, err = newConn(theirs, false)
	}
	if err != nil {
		t.Fatal(err)
	}
	return launchers, childs
}

// join makes both ends, with a host that set changes before. The test closes j.
func join(t *testing.T, set ...func(*fakeHost)) *joined {
	t.Helper()
	launchers, childs := ends(t)
	j := &joined{log: &logged{}, served: make(chan error, 1)}
	to := newLauncher(childs)
	j.host = &fakeHost{to: to, orders: make(chan Order, 100), started: make(chan struct{}, 100), network: Network{
		Machines:  []Machine{{"a", 2, 1}, {"b", 2, 1}},
		RoundTrip: make([]float64, 4), SecondsPerByte: make([]float64, 4)}}
	for _, change := range set {
		change(j.host)
	}
	go func() { j.served <- to.Serve(j.host) }()
	exited := make(chan workerproc.Exit, 1)
	over := make(chan struct{})
	go func() {
		err := <-j.served
		j.served <- err
		exited <- workerproc.Exit{OK: err == nil, Text: "exit status 0"}
		close(over)
	}()
	log := workerproc.NewLineWriter(j.log)
	j.p = newProcess(launchers, log, workerproc.NewOutput(processName, log), childs.close,
		func() workerproc.Exit { return <-exited }, func() { <-over })
	proceed := func() error { return errGivenUp }
	if !j.host.joins {
		proceed = nil
	}
	if err := j.p.hello(Config{Workers: 3, Proceed: proceed}); err != nil && !j.host.joins {
		t.Fatal(err)
	}
	input, err := shm.Create(shm.Config{Name: "disco-input", Kind: worker.KindInput, Size: 1 << 12})
	if err != nil {
		t.Fatal(err)
	}
	j.input = input
	return j
}

func (j *joined) close(t *testing.T) {
	j.p.Close()
	if err := j.input.Close(); err != nil {
		t.Error(err)
	}
}

// plan is of three workers on two machines.
func plan() machine.Plan {
	return machine.NewPlan([]int32{0, 0, 1}, [][]float64{{0, 1, 1}, {1, 0, 1}, {1, 1, 0}}, worker.DefaultTuning(),
		machine.WindowBytesDefault)
}

func (j *joined) make(t *testing.T) *Set {
	t.Helper()
	s, err := j.p.Make(plan(), j.input, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (j *joined) start(t *testing.T, s *Set, w int) machine.Worker {
	t.Helper()
	started, err := s.Start(w, machine.Spec{Threads: 2, Log: workerproc.NewLineWriter(j.log)})
	if err != nil {
		t.Fatal(err)
	}
	select { // what is reported before is about no worker
	case <-j.host.started:
	case <-time.After(testTimeout):
		t.Fatal("the host doesn't start it")
	}
	return started
}

// A set is made, started, shown, killed and closed.
func TestCourseOfASet(t *testing.T) {
	j := join(t)
	defer j.close(t)
	j.p.Keep([]int{2, 1})
	s := j.make(t)
	o := <-j.host.orders
	if !reflect.DeepEqual(o.Plan.Machine, s.plan.Machine) || s.Pages() != "of fake pages" {
		t.Errorf("%+v, %q", o.Plan, s.Pages())
	}
	w := j.start(t, s, 2)
	if w.Machine != "b" || w.PID != 0 {
		t.Errorf("%+v", w)
	}
	numbers, err := worker.AppendNumbers(nil, o.Boards[2])
	if err != nil {
		t.Fatal(err)
	}
	for i := range numbers {
		numbers[i] = uint64(i + 1)
	}
	if err := worker.ShowNumbers(o.Boards[2], numbers); err != nil {
		t.Fatal(err)
	}
	if err := worker.ShowNumbers(o.Boards[2], numbers[1:]); err == nil {
		t.Error("a number too few is shown")
	}
	got, err := worker.AppendNumbers(nil, s.Boards()[2])
	if err != nil || !reflect.DeepEqual(got, numbers) {
		t.Errorf("%v, %v; want %v", got, err, numbers)
	}
	j.host.to.Output(0, 2, []byte(strings.Repeat("x", OutputMax)+"\nand "))
	j.host.to.Output(0, 2, []byte("more\n"))
	status := lane.Status{Epoch: 4}
	j.host.to.Exit(0, 2, workerproc.Exit{OK: true, Text: "well"}, []Lane{{To: 1, Status: status}})
	if exit := w.Wait(); !exit.OK || exit.Text != "well" {
		t.Errorf("%+v", exit)
	}
	w.Control.Close()
	text := j.log.String()
	if !strings.Contains(text, "worker 2: xxx") || !strings.HasSuffix(text, "worker 2: and more\n") {
		t.Errorf("said %d bytes", len(text))
	}
	if got, err := s.InspectLane(2, 1); err != nil || got != status {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := s.InspectLane(2, 0); err == nil || !strings.Contains(err.Error(), "b hasn't said") {
		t.Errorf("%v", err)
	}
	w = j.start(t, s, 0)
	s.Release()
	w.Kill()
	if exit := w.Wait(); exit.Signal != 9 || exit.Text != "killed" {
		t.Errorf("%+v", exit)
	}
	w.Control.Close()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	j.p.Close()
	want := []string{"keep [2 1]", "start 2 2", "start 0 2", "release", "kill 0", "end"}
	if !reflect.DeepEqual(j.host.said, want) || j.host.closed != 1 || !strings.HasSuffix(j.log.String(), "the end\n") ||
		strings.Contains(j.log.String(), "too late") {
		t.Errorf("%q, closed %d times", j.host.said, j.host.closed)
	}
}

// A launcher that gives a set up while it is made ends that at once: the child goes on, or ends with its launcher.
func TestGivenUp(t *testing.T) {
	for what, end := range map[string]func(j *joined) error{
		"Ctrl-C":             func(*joined) error { return errors.New("interrupted") },
		"the launcher's end": func(j *joined) error { j.p.conn.finish(); return errors.New("gone") },
	} {
		j := join(t, func(h *fakeHost) { h.late = true })
		want := error(nil)
		if _, err := j.p.Make(plan(), j.input, func() error { want = end(j); return want }); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		j.close(t)
		if err := <-j.served; err != nil {
			t.Errorf("%s: the child ended with %v", what, err)
		}
	}
}

// errGivenUp is of a launcher that waits for nothing.
var errGivenUp = errors.New("interrupted")

// A launcher that doesn't wait for the machines any more ends its child at once, in order.
func TestGivenUpWhileJoining(t *testing.T) {
	j := join(t, func(h *fakeHost) { h.joins = true })
	j.close(t)
	if err := <-j.served; err != nil {
		t.Errorf("the child ended with %v", err)
	}
}

// The files of trace and profile reach the host, whichever of them there are.
func TestFilesArrive(t *testing.T) {
	j := join(t)
	defer j.close(t)
	s := j.make(t)
	defer s.Close()
	files := map[string]*os.File{}
	for _, name := range []string{"trace", "profile"} {
		f, err := os.CreateTemp(t.TempDir(), name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[name] = f
	}
	for w, spec := range []machine.Spec{{}, {Trace: files["trace"]}, {Profile: files["profile"]}} {
		started, err := s.Start(w, spec)
		if err != nil {
			t.Fatal(err)
		}
		started.Kill() // the host takes one after the other
		started.Wait()
		started.Control.Close()
	}
	for name, f := range files {
		if got, err := os.ReadFile(f.Name()); err != nil || string(got) != name {
			t.Errorf("%s has %q, %v", name, got, err)
		}
	}
}

// However a worker's machine, its set or the child ends, its end is reported, once.
func TestEveryEndIsReported(t *testing.T) {
	for what, c := range map[string]struct {
		end  func(j *joined, s *Set)
		text string
		lost []bool // by worker
	}{
		"its machine": {func(j *joined, _ *Set) { j.host.to.Lost(1, "b is cut off") }, "b is cut off",
			[]bool{false, false, true}},
		"the child dies": {func(j *joined, _ *Set) { j.host.to.conn.close() }, "ended too early",
			[]bool{true, true, true}},
		"the child fails": {func(j *joined, _ *Set) { j.host.to.Fail(io.ErrShortWrite) }, "short write",
			[]bool{true, true, true}},
		"the set is closed": {func(_ *joined, s *Set) { s.Close() }, "closed", []bool{true, true, true}},
		"the child is closed": {func(j *joined, _ *Set) { j.p.Close() }, "closed",
			[]bool{true, true, true}},
	} {
		t.Run(what, func(t *testing.T) {
			j := join(t)
			defer j.close(t)
			s := j.make(t)
			defer s.Close()
			var workers []machine.Worker
			for w := range 3 {
				workers = append(workers, j.start(t, s, w))
				defer workers[w].Control.Close()
			}
			c.end(j, s)
			for w, started := range workers {
				if !c.lost[w] {
					started.Kill()
				}
				exit := started.Wait()
				if exit.Lost != c.lost[w] || exit.Lost && !strings.Contains(exit.Text, c.text) {
					t.Errorf("worker %d: %+v", w, exit)
				}
			}
		})
	}
}

// A set that can't be made says why, a refusal as such, and one that is given up is closed.
func TestSetThatIsNotMade(t *testing.T) {
	for _, err := range []error{errors.New("no memory on b"), Refuse(errors.New("no slots on b"))} {
		j := join(t, func(h *fakeHost) { h.err = err })
		_, got := j.p.Make(plan(), j.input, nil)
		refused := (*RefusedError)(nil)
		if got == nil || !strings.HasSuffix(got.Error(), err.Error()) ||
			errors.As(got, &refused) != strings.Contains(err.Error(), "slots") {
			t.Errorf("%v, want %v", got, err)
		}
		j.close(t)
	}
	j := join(t, func(h *fakeHost) { h.orders = make(chan Order) }) // Make waits
	defer j.close(t)
	stopped := errors.New("stopped")
	if _, err := j.p.Make(plan(), j.input, func() error { return stopped }); !errors.Is(err, stopped) {
		t.Errorf("%v, want %v", err, stopped)
	}
	<-j.host.orders
	go func() { <-j.host.orders }()
	s := j.make(t) // the answer about the first set is dropped
	if s.number != 1 {
		t.Errorf("set %d", s.number)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// raw sends bytes as one packet.
func raw(t *testing.T, c *conn, b []byte, files ...*os.File) {
	t.Helper()
	rights, err := rightsTo(files)
	if err != nil {
		t.Fatal(err)
	}
	var sent error
	err = c.raw.Control(func(fd uintptr) { sent = unix.Sendmsg(int(fd), b, rights, nil, unix.MSG_NOSIGNAL) })
	if err = errors.Join(err, sent); err != nil {
		t.Fatal(err)
	}
}

func encoded(t *testing.T, k Kind, set byte, b Body) []byte {
	t.Helper()
	p, err := wire.Append([]byte{version, byte(k), 0, 0, set, 0, 0, 0}, b.fields)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What a child must not send ends it, with what is wrong.
func TestHostileChild(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for what, c := range map[string]struct {
		packet []byte
		files  []*os.File
		text   string
	}{
		"a short packet":       {[]byte{version, byte(KindNote), 0, 0, 0, 0, 0}, nil, "want 8 bytes"},
		"another version":      {[]byte{2, byte(KindNote), 0, 0, 0, 0, 0, 0}, nil, "version 1"},
		"a spare byte":         {[]byte{version, byte(KindNote), 0, 1, 0, 0, 0, 0}, nil, "found the header"},
		"no type":              {[]byte{version, 0, 0, 0, 0, 0, 0, 0}, nil, "type 0"},
		"a type too high":      {[]byte{version, byte(KindAway) + 1, 0, 0, 0, 0, 0, 0}, nil, "type 16"},
		"a launcher's type":    {encoded(t, KindKill, 0, &WorkerBody{0}), nil, "kill, which the other end doesn't"},
		"a body cut short":     {[]byte{version, byte(KindNote), 0, 0, 0, 0, 0, 0, 9, 0, 0, 0}, nil, "note: byte"},
		"bytes behind":         {append(encoded(t, KindNote, 0, &TextBody{"x"}), 0), nil, "behind the last field"},
		"a packet too long":    {make([]byte, packetMax+1), nil, "more than 131072 bytes"},
		"descriptors":          {encoded(t, KindNote, 0, &TextBody{"x"}), []*os.File{null}, "found 1 descriptors"},
		"machines twice":       {encoded(t, KindMachines, 0, &join2), nil, "once more"},
		"a set that isn't":     {encoded(t, KindMade, 1, &TextBody{"x"}), nil, "want one below 1"},
		"made twice":           {encoded(t, KindMade, 0, &TextBody{"x"}), nil, "made once more"},
		"a worker not started": {encoded(t, KindExit, 0, &ExitBody{Worker: 1}), nil, "wasn't started"},
		"a worker too high":    {encoded(t, KindExit, 0, &ExitBody{Worker: 3}), nil, "wasn't started"},
		"output of another":    {encoded(t, KindOutput, 0, &OutputBody{Worker: 2}), nil, "wasn't started"},
		"a machine too high":   {encoded(t, KindLost, 0, &LostBody{Machine: 2}), nil, "want 0 to 1"},
		"a machine below all":  {encoded(t, KindLost, 0, &LostBody{Machine: -1}), nil, "want 0 to 1"},
		"an end twice":         {encoded(t, KindExit, 0, &ExitBody{Worker: 0}), nil, "has ended"},
	} {
		t.Run(what, func(t *testing.T) {
			j := join(t)
			defer j.close(t)
			s := j.make(t)
			defer s.Close()
			if what == "made twice" {
				raw(t, j.host.to.conn, c.packet) // the first was taken; this one waits to be
			}
			w := j.start(t, s, 0)
			defer w.Control.Close()
			if what == "an end twice" {
				raw(t, j.host.to.conn, c.packet)
				w.Wait()
			}
			raw(t, j.host.to.conn, c.packet, c.files...)
			select {
			case <-j.p.ended:
			case <-time.After(testTimeout):
				t.Fatal("it goes on")
			}
			if !strings.Contains(j.p.err.Error(), c.text) {
				t.Errorf("error is %v, want %q", j.p.err, c.text)
			}
		})
	}
}

var join2 = Network{Machines: []Machine{{"a", 1, 1}}, RoundTrip: []float64{0}, SecondsPerByte: []float64{0}}

// What a launcher must not send ends the child with what is wrong.
func TestHostileLauncher(t *testing.T) {
	p := plan()
	p.InputBytes = 1 << 12
	good, err := p.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	p.Machine = []int32{0, 0, 2}
	far, err := p.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	files := func(n int) (f []*os.File) {
		for range n {
			f = append(f, null)
		}
		return f
	}
	many := encoded(t, KindKeep, 0, &KeepBody{[]int{1, 64}})
	many[len(many)-8]++
	for what, c := range map[string]struct {
		packet []byte
		files  []*os.File
		text   string
	}{
		"hello twice":    {encoded(t, KindHello, 0, &Hello{Workers: 1}), nil, "hello first, and once"},
		"a child's type": {encoded(t, KindNote, 0, &TextBody{"x"}), nil, "note, which the other end doesn't"},
		"a plan of a later set": {encoded(t, KindPlan, 2, &PlanBody{good}), files(4),
			"found set 2 beside 1 others, want 1"},
		"a plan of one that is": {encoded(t, KindPlan, 0, &PlanBody{good}), files(4), "found set 0"},
		"a plan that is none":   {encoded(t, KindPlan, 1, &PlanBody{good[1:]}), files(4), "machine: plan"},
		"a board too few": {encoded(t, KindPlan, 1, &PlanBody{good}), files(3),
			"found 3 descriptors for 3 workers"},
		"a machine too high":   {encoded(t, KindPlan, 1, &PlanBody{far}), files(4), "machines up to 2"},
		"boards that are none": {encoded(t, KindPlan, 1, &PlanBody{good}), files(4), "shm:"},
		"no descriptor": {encoded(t, KindStart, 0, &StartBody{Worker: 1}), nil,
			"found 0 descriptors with start"},
		"one too many": {encoded(t, KindStart, 0, &StartBody{Worker: 1}), files(2),
			"found 2 descriptors for worker 1"},
		"far too many": {encoded(t, KindPlan, 1, &PlanBody{good}), files(filesMax + 9),
			"more descriptors than 65"},
		"a worker twice": {encoded(t, KindStart, 0, &StartBody{Worker: 0}), files(1),
			"each of workers 0 to 2 once"},
		"a worker too high": {encoded(t, KindStart, 0, &StartBody{Worker: 3}), files(1),
			"each of workers 0 to 2 once"},
		"slots of too few": {encoded(t, KindKeep, 0, &KeepBody{[]int{1}}), nil, "the slots of 1 machines, want 2"},
		"too many slots":   {many, nil, "found 65 slots, want 0 to 64"},
		"a kill of one not started": {encoded(t, KindKill, 0, &WorkerBody{1}), nil,
			"worker 1, which wasn't started"},
		"a set that isn't there": {encoded(t, KindRelease, 7, &NoBody{}), nil, "a set that isn't there"},
	} {
		t.Run(what, func(t *testing.T) {
			j := join(t)
			defer j.close(t)
			s := j.make(t)
			defer s.Close()
			w := j.start(t, s, 0)
			defer w.Control.Close()
			raw(t, j.p.conn, c.packet, c.files...)
			select {
			case <-j.p.ended:
			case <-time.After(testTimeout):
				t.Fatal("it goes on")
			}
			if !strings.Contains(j.p.err.Error(), c.text) || j.host.closed != 1 {
				t.Errorf("error is %v, want %q; closed %d times", j.p.err, c.text, j.host.closed)
			}
		})
	}
}

// A child that doesn't take packets is ended, and who waits learns why.
func TestChildThatTakesNothing(t *testing.T) {
	launchers, childs := ends(t)
	exited := make(chan workerproc.Exit, 1)
	var once sync.Once
	log := workerproc.NewLineWriter(nil)
	p := newProcess(launchers, log, workerproc.NewOutput(processName, log),
		func() { once.Do(func() { exited <- workerproc.Exit{Text: "killed"}; childs.close() }) },
		func() workerproc.Exit { return <-exited }, func() {})
	p.conn.limit = time.Millisecond
	for range 100_000 {
		p.send(KindHello, 0, &Hello{Workers: 1})
		select {
		case <-p.ended:
			if !strings.Contains(p.err.Error(), "sending hello") {
				t.Errorf("error is %v", p.err)
			}
			p.Close()
			return
		default:
		}
	}
	t.Error("it takes 100,000 packets")
	p.Close()
}
