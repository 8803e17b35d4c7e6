// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/aligned"
	"github.com/disco-sim/disco/internal/seed"
)

func slotsOf(t testing.TB, n int) (mem [][]byte, slots []*Slot) {
	t.Helper()
	for range n {
		m := aligned.Bytes(SlotBytes, SlotBytes)
		s, err := NewSlot(m)
		if err != nil {
			t.Fatal(err)
		}
		mem, slots = append(mem, m), append(slots, s)
	}
	return mem, slots
}

func watchOf(t testing.TB, mem [][]byte) *Watch {
	t.Helper()
	w, err := NewWatch(mem)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// The words lie where docs/format/board.md draws them.
func TestLayout(t *testing.T) {
	mem, slots := slotsOf(t, 1)
	slots[0].Post(State{Epoch: 2.5, Level: 3, Sent: 4, Received: 5})
	for i, want := range []uint64{1, math.Float64bits(2.5), 3, 4, 5, 0, 0xb7e7407783bb4dbf, 0, 0, 0, 0, 0, 0, 0, 0, 0} {
		if got := binary.LittleEndian.Uint64(mem[0][8*i:]); got != want {
			t.Errorf("word %d is %#x, want %#x", i, got, want)
		}
	}
}

func TestLook(t *testing.T) {
	mem, slots := slotsOf(t, 3)
	watch := watchOf(t, mem)
	states := []State{{Epoch: 3, Level: 1, Sent: 2, Received: 1}, {Epoch: 2, Level: 9, Sent: 0, Received: 1},
		{Epoch: 2, Level: 4, Sent: 5, Received: 5}}
	for i, s := range slots {
		if _, _, ok, _ := watch.Look(); ok {
			t.Fatalf("idle with %d of 3 posted", i)
		}
		s.Post(states[i])
	}
	if epoch, level, ok, _ := watch.Look(); !ok || epoch != 2 || level != 4 {
		t.Errorf("found %v, %d, %v, want the least (2, 4)", epoch, level, ok)
	}
	slots[1].Withdraw()
	if _, _, ok, _ := watch.Look(); ok || slots[1].Posted() {
		t.Error("idle with a slot withdrawn")
	}
	slots[1].Post(State{Epoch: 2, Level: 9, Received: 0})
	if _, _, ok, _ := watch.Look(); ok {
		t.Error("idle with an event on its way")
	}
	for i, s := range slots {
		s.Withdraw()
		states[i].Epoch = math.Inf(1)
		s.Post(states[i])
	}
	if epoch, _, ok, _ := watch.Look(); !ok || !math.IsInf(epoch, 1) {
		t.Errorf("found %v, %v, want +Inf where nobody has a next activation", epoch, ok)
	}
}

// Counts and turns may wrap around.
func TestWrapAround(t *testing.T) {
	mem, slots := slotsOf(t, 2)
	binary.LittleEndian.PutUint64(mem[0], math.MaxUint64-1) // withdrawn, one post before the wrap
	slots[0], _ = NewSlot(mem[0])
	watch := watchOf(t, mem)
	slots[1].Post(State{Epoch: 7, Sent: 2, Received: math.MaxUint64})
	slots[0].Post(State{Epoch: 8, Sent: math.MaxUint64, Received: 2})
	if epoch, _, ok, _ := watch.Look(); !ok || epoch != 7 {
		t.Errorf("found %v, %v, want 7", epoch, ok)
	}
	slots[0].Withdraw()
	if turn := binary.LittleEndian.Uint64(mem[0]); turn != 0 || slots[0].Posted() {
		t.Errorf("turn %#x after the wrap, posted %v", turn, slots[0].Posted())
	}
	if _, _, ok, _ := watch.Look(); ok {
		t.Error("idle after the withdrawal")
	}
}

// A worker that takes over a slot that was left posted is not blocked.
func TestTakenOverSlotIsWithdrawn(t *testing.T) {
	mem, slots := slotsOf(t, 1)
	slots[0].Post(State{})
	s, err := NewSlot(mem[0])
	if err != nil || s.Posted() {
		t.Errorf("posted %v, %v", s.Posted(), err)
	}
	s.Post(State{})
	mustPanic(t, "posting twice", func() { s.Post(State{}) })
	s.Withdraw()
	mustPanic(t, "withdrawing twice", func() { s.Withdraw() })
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s did not panic", what)
		}
	}()
	f()
}

func TestWrongMemory(t *testing.T) {
	good := aligned.Bytes(SlotBytes, SlotBytes)
	for what, mem := range map[string][]byte{
		"nothing":           nil,
		"too short":         good[:SlotBytes-1],
		"too long":          aligned.Bytes(SlotBytes+8, 8),
		"off its alignment": aligned.Bytes(SlotBytes+4, 8)[4:],
	} {
		if _, err := NewSlot(mem); err == nil {
			t.Errorf("%s: a slot", what)
		}
		if _, err := NewWatch([][]byte{good, mem}); err == nil {
			t.Errorf("%s: a watch", what)
		}
	}
}

func TestNothingAllocates(t *testing.T) {
	mem, slots := slotsOf(t, 2)
	watch := watchOf(t, mem)
	slots[1].Post(State{})
	if n := testing.AllocsPerRun(100, func() {
		slots[0].Post(State{Epoch: 1})
		watch.Look()
		slots[0].Withdraw()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Whatever stands in the slots, Look ends and answers; it believes only what a Post can
// have written.
func FuzzLook(f *testing.F) {
	f.Add(make([]byte, 2*SlotBytes), uint8(0))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 0xF8, 0xFF}, uint8(3))
	f.Fuzz(func(t *testing.T, raw []byte, whose uint8) {
		mem, slots := slotsOf(t, 2)
		for i, s := range slots {
			s.Post(State{Epoch: float64(i), Sent: 1, Received: 1})
			if whose>>i&1 == 1 {
				copy(mem[i], raw)
			}
			raw = raw[min(len(raw), SlotBytes):]
		}
		changed := slots[0].Check() != nil || slots[1].Check() != nil
		epoch, _, ok, err := watchOf(t, mem).Look()
		if math.IsNaN(epoch) || ok && err != nil || !changed && (!ok || err != nil || epoch != 0) {
			t.Fatalf("found %v, %v, %v; changed: %v", epoch, ok, err, changed)
		}
		if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
	})
}

// A small run over the real code: activations at known epochs, each of which sets off
// a chain of events from worker to worker. Nobody knows the next epoch but by Look, so
// a look that comes too early jumps before all events of earlier epochs were handled,
// and one that never comes hangs.
func TestJumps(t *testing.T) {
	const workers = 3
	activations := 3000
	if testing.Short() {
		activations = 500
	}
	from := seed.Of(t)
	rng := rand.New(rand.NewPCG(from, 1))
	j := &jumps{before: make([]int64, activations+2)}
	plans := make([][]int, workers) // the epochs of each worker
	hops := make([]int, activations+1)
	for epoch := 1; epoch <= activations; epoch++ {
		owner := rng.IntN(workers)
		plans[owner] = append(plans[owner], epoch)
		hops[epoch] = rng.IntN(6)
		j.before[epoch+1] = j.before[epoch] + int64(hops[epoch])
	}
	mem, slots := slotsOf(t, workers)
	for range workers {
		j.inbox = append(j.inbox, make(chan int, 8))
	}
	var all sync.WaitGroup
	for i := range workers {
		w := &jumper{jumps: j, self: i, slot: slots[i], watch: watchOf(t, mem), plan: plans[i], hops: hops,
			rng: rand.New(rand.NewPCG(from, uint64(i)+2))}
		all.Go(func() { w.run(t) })
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(60 * time.Second):
		t.Fatalf("no end after %d of %d events", j.handled.Load(), j.before[activations+1])
	}
	if got, want := j.handled.Load(), j.before[activations+1]; got != want {
		t.Errorf("%d events handled, want %d", got, want)
	}
}

// jumps is what the workers of TestJumps share.
type jumps struct {
	inbox   []chan int // hops that are left
	handled atomic.Int64
	before  []int64 // by epoch: events of all earlier ones
}

type jumper struct {
	*jumps
	self  int
	slot  *Slot
	watch *Watch
	plan  []int
	hops  []int
	rng   *rand.Rand

	sent, received uint64
}

func (w *jumper) run(t *testing.T) {
	for {
		w.drain()
		next := math.Inf(1)
		if len(w.plan) > 0 {
			next = float64(w.plan[0])
		}
		w.slot.Post(State{Epoch: next, Sent: w.sent, Received: w.received})
		found := w.await(next)
		if math.IsInf(found, 1) {
			return // posted for good, so that the others find it too
		}
		w.slot.Withdraw()
		if found != next {
			continue
		}
		epoch := w.plan[0]
		if got := w.handled.Load(); got != w.before[epoch] {
			t.Errorf("jump to epoch %d after %d events, want %d", epoch, got, w.before[epoch])
		}
		w.plan = w.plan[1:]
		w.send(w.hops[epoch])
	}
}

// await waits, posted, for an event (0), the jump to one's own epoch, or the end.
func (w *jumper) await(next float64) (epoch float64) {
	for len(w.inbox[w.self]) == 0 {
		if epoch, _, ok, _ := w.watch.Look(); ok && (epoch == next || math.IsInf(epoch, 1)) {
			return epoch
		}
		runtime.Gosched()
	}
	return 0
}

func (w *jumper) drain() {
	for len(w.inbox[w.self]) > 0 {
		hops := <-w.inbox[w.self]
		w.received++
		w.handled.Add(1)
		w.send(hops - 1)
	}
}

func (w *jumper) send(hops int) {
	if hops <= 0 {
		return
	}
	to := (w.self + 1 + w.rng.IntN(len(w.inbox)-1)) % len(w.inbox)
	w.sent++
	w.inbox[to] <- hops
}
