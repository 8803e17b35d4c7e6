// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"errors"
	"testing"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/aligned"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/shm"
)

// errNoRoom is what a test's Wait returns unless it brings another.
var errNoRoom = errors.New("nobody makes room")

// bench is an egress over heap memory with the bare receiving end of its lane.
type bench struct {
	*Egress
	recv *lane.Receiver
	pool *shm.Pool
	view *shm.PoolView
	body []byte // the pool's memory
	mem  []byte // the lane's
	wait func() error
}

// pools makes a pool, or nothing for no classes.
func pools(t testing.TB, classes ...shm.BlockSize) (*shm.Pool, *shm.PoolView, []byte) {
	t.Helper()
	if len(classes) == 0 {
		return nil, nil, nil
	}
	size, err := shm.PoolBytes(classes)
	must(t, err)
	body := aligned.Bytes(size, 128)
	must(t, shm.FormatPool(body, classes))
	pool, err := shm.NewPool(body)
	must(t, err)
	view, err := shm.OpenPoolView(body)
	must(t, err)
	return pool, view, body
}

// open makes an egress to worker 7. What cfg leaves open is filled in: a lane of 1 KiB
// (64 KiB where InlineMax doesn't fit that), a Wait, and a pool of the classes.
func open(t testing.TB, cfg Config, classes ...shm.BlockSize) *bench {
	t.Helper()
	b := &bench{pool: cfg.Pool}
	if cfg.Pool == nil {
		cfg.Pool, b.view, b.body = pools(t, classes...)
		b.pool = cfg.Pool
	}
	blocks := 0
	if cfg.Pool != nil {
		blocks = cfg.Pool.Stats().Total.Count
	}
	ringBytes := 1024
	if cfg.InlineMax > 472 { // what fits such a ring
		ringBytes = 1 << 16
	}
	b.recv, b.mem = receiver(t, lane.Config{RingBytes: ringBytes, ReturnBlocks: blocks})
	cfg.Lane = b.mem
	if cfg.Peer == 0 {
		cfg.Peer = 7
	}
	b.wait = func() error { return errNoRoom }
	cfg.Wait = func() error { return b.wait() }
	var err error
	b.Egress, err = New(cfg)
	must(t, err)
	return b
}

func receiver(t testing.TB, cfg lane.Config) (*lane.Receiver, []byte) {
	t.Helper()
	size, err := lane.Size(cfg)
	must(t, err)
	mem := aligned.Bytes(size, lane.Alignment)
	must(t, lane.Format(mem, cfg))
	r, err := lane.OpenReceiver(mem)
	must(t, err)
	return r, mem
}

// next reads one event, or nil.
func (b *bench) next(t testing.TB) *envelope.Event {
	t.Helper()
	rec, err := b.recv.Forward().Next()
	must(t, err)
	if rec == nil {
		return nil
	}
	ev, err := envelope.DecodeEvent(rec)
	must(t, err)
	return &ev
}

// drain reads everything that is visible and returns the number of events.
func (b *bench) drain(t testing.TB) (events int) {
	t.Helper()
	for b.next(t) != nil {
		events++
	}
	b.recv.Forward().Release()
	return events
}

// fill sends until not even an event without data fits the ring, and returns the number
// of events.
func (b *bench) fill(t testing.TB) (events int) {
	t.Helper()
	for _, size := range []int{60, 0} {
		for ; ; events++ {
			if err := b.TrySend(event(events, size)); err != nil {
				if err != ErrFull {
					t.Fatalf("filling: %v", err)
				}
				break
			}
		}
	}
	return events
}

// giveBack returns the blocks of all events that it finds.
func (b *bench) giveBack(t testing.TB) (blocks int) {
	t.Helper()
	for ev := b.next(t); ev != nil; ev = b.next(t) {
		if ev.InBlock {
			must(t, b.recv.Return(ev.Block.Block, ev.Block.Seq))
			blocks++
		}
	}
	b.recv.Forward().Release()
	return blocks
}

func event(number, size int) *envelope.Event {
	return &envelope.Event{Epoch: float64(number), Number: uint64(number), Target: 1, Sender: 2, Data: make([]byte,
		size)}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	f()
}

// isEnd fails unless err is the end of the lane to worker 7.
func isEnd(t *testing.T, what string, err, kind error) {
	t.Helper()
	var pe *lane.PeerError
	if !errors.Is(err, kind) || !errors.As(err, &pe) || pe.Peer != 7 {
		t.Errorf("%s: %v, want %v of worker 7", what, err, kind)
	}
}
