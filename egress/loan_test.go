// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/shm"
)

// What is built in a loan is what the peer reads, at the same place.
func TestLoanIsNotCopied(t *testing.T) {
	b := open(t, Config{InlineMax: 100}, shm.BlockSize{BlockBytes: 300, Count: 2})
	loan, err := b.Loan(250)
	must(t, err)
	if len(loan.Data) != 250 {
		t.Fatalf("loan of %d bytes, want 250", len(loan.Data))
	}
	for i := range loan.Data {
		loan.Data[i] = byte(i)
	}
	mine := loan.Data
	loan.Data = loan.Data[:200]
	ev := event(3, 0)
	ev.Headers = []byte("headers")
	must(t, b.SendLoan(context.Background(), ev, &loan))
	if loan.Data != nil {
		t.Error("the loan goes on after it was sent")
	}
	must(t, b.Flush())
	got := b.next(t)
	if got == nil || !got.InBlock || got.Number != 3 || string(got.Headers) != "headers" || got.Block.Length != 200 {
		t.Fatalf("%v", got)
	}
	data, err := b.view.View(got.Block.Block, got.Block.Length, got.Block.Seq)
	must(t, err)
	if &data[0] != &mine[0] || len(data) != 200 || data[199] != 199 {
		t.Errorf("the peer reads %d bytes somewhere else", len(data))
	}
	if s := b.Stats(); s.Blocks != 1 || s.Bytes != 200 || s.Events != 1 {
		t.Errorf("%+v", s)
	}
}

// A block small enough for the ring still is a block when it was loaned.
func TestSmallLoan(t *testing.T) {
	b := open(t, Config{InlineMax: 100}, shm.BlockSize{BlockBytes: 300, Count: 1})
	for _, size := range []int{0, 1, 300} {
		loan, err := b.Loan(size)
		must(t, err)
		must(t, b.TrySendLoan(event(0, 0), &loan))
		must(t, b.Flush())
		if n := b.giveBack(t); n != 1 {
			t.Errorf("loan of %d bytes: %d blocks came", size, n)
		}
		must(t, b.Flush())
	}
}

// A loan that could not be sent is still its holder's, whatever the reason.
func TestLoanSurvivesErrors(t *testing.T) {
	pool, _, _ := pools(t, shm.BlockSize{BlockBytes: 300, Count: 2})
	b := open(t, Config{InlineMax: 100, Pool: pool})
	other := open(t, Config{InlineMax: 100, Pool: pool, Peer: 8})
	loan, err := b.Loan(300)
	must(t, err)
	long := event(0, 0)
	long.Headers = make([]byte, envelope.HeadersMax+1)
	if err := b.TrySendLoan(long, &loan); !errors.Is(err, ErrTooLarge) {
		t.Errorf("headers too long: %v", err)
	}
	long.Headers = make([]byte, 700)
	if err := b.TrySendLoan(long, &loan); !errors.Is(err, ErrTooLarge) {
		t.Errorf("headers too long for the ring: %v", err)
	}
	b.fill(t)
	if err := b.TrySendLoan(event(0, 0), &loan); err != ErrFull {
		t.Errorf("full ring: %v", err)
	}
	if err := b.SendLoan(context.Background(), event(0, 0), &loan); err != errNoRoom {
		t.Errorf("full ring: %v", err)
	}
	b.Close()
	isEnd(t, "closed lane", b.TrySendLoan(event(0, 0), &loan), ErrClosed)
	if _, err := b.Loan(1); !errors.Is(err, ErrClosed) {
		t.Errorf("loan over a closed lane: %v", err)
	}
	b.Reclaim()
	if in := pool.Stats().Total.InFlight; in != 1 {
		t.Errorf("%d blocks on loan, want the one that was never sent", in)
	}
	must(t, other.TrySendLoan(event(0, 0), &loan)) // over another lane it goes
	must(t, other.Flush())
	if n := other.giveBack(t); n != 1 {
		t.Errorf("%d blocks came", n)
	}
}

func TestLoanMisusePanics(t *testing.T) {
	b := open(t, Config{InlineMax: 100}, shm.BlockSize{BlockBytes: 300, Count: 1})
	loan, err := b.Loan(100)
	must(t, err)
	mustPanic(t, "data beside the loan", func() { _ = b.TrySendLoan(event(0, 1), &loan) })
	ref := event(0, 0)
	ref.InBlock = true
	mustPanic(t, "block beside the loan", func() { _ = b.TrySendLoan(ref, &loan) })
	cut := loan
	cut.Data = cut.Data[1:]
	mustPanic(t, "loan cut at the front", func() { _ = b.TrySendLoan(event(0, 0), &cut) })
	b.CancelLoan(&loan)
	mustPanic(t, "loan cancelled twice", func() { b.CancelLoan(&loan) })
	mustPanic(t, "loan sent after it was cancelled", func() { _ = b.TrySendLoan(event(0, 0), &loan) })
	mustPanic(t, "no loan", func() { b.CancelLoan(&Loan{}) })
	if again, err := b.Loan(300); err != nil || len(again.Data) != 300 {
		t.Errorf("the cancelled block is gone: %v", err)
	}
}

func TestLoanWithoutPool(t *testing.T) {
	b := open(t, Config{InlineMax: 100})
	_, err := b.WaitLoan(context.Background(), 10)
	if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "no pool") {
		t.Errorf("%v", err)
	}
	if b.Reclaim() != 0 {
		t.Error("blocks came from nowhere")
	}
	b = open(t, Config{InlineMax: 100}, shm.BlockSize{BlockBytes: 300, Count: 1})
	if _, err := b.WaitLoan(context.Background(), 301); !errors.Is(err, ErrTooLarge) || !errors.Is(err,
		shm.ErrTooLarge) {
		t.Errorf("%v", err)
	}
}

// The pool's counters tell at every moment where each block is.
func TestCounters(t *testing.T) {
	b := open(t, Config{InlineMax: 100}, shm.BlockSize{BlockBytes: 300, Count: 3})
	check := func(what string, allocated, inFlight, returned, exhausted, reclaimed uint64) {
		t.Helper()
		s := b.pool.Stats().Total
		if s.Allocated != allocated || s.InFlight != inFlight || s.Returned != returned || s.Exhausted != exhausted ||
			s.Reclaimed != reclaimed {
			t.Errorf("%s: %+v, want %d allocated, %d in flight, %d returned, %d exhausted, %d reclaimed", what, s,
				allocated, inFlight, returned, exhausted, reclaimed)
		}
		if s.Allocated != s.InFlight+s.Returned+s.Reclaimed {
			t.Errorf("%s: %+v doesn't add up", what, s)
		}
	}
	loan, err := b.Loan(10)
	must(t, err)
	check("loan", 1, 1, 0, 0, 0)
	b.CancelLoan(&loan)
	check("cancelled", 1, 0, 1, 0, 0)
	for range 3 {
		must(t, b.TrySend(event(0, 300)))
	}
	check("three sent", 4, 3, 1, 0, 0)
	if err := b.TrySend(event(0, 300)); err != ErrExhausted {
		t.Errorf("fourth of three: %v", err)
	}
	if _, err := b.Loan(300); err != ErrExhausted {
		t.Errorf("fourth of three: %v", err)
	}
	exhausted := b.pool.Stats().Total.Exhausted // a send asks again after a look at returned blocks
	if exhausted < 2 {
		t.Errorf("exhausted %d times, want at least 2", exhausted)
	}
	check("refused", 4, 3, 1, exhausted, 0)
	if n := b.giveBack(t); n != 3 {
		t.Fatalf("%d blocks arrived, want 3", n)
	}
	check("returned, not yet taken back", 4, 3, 1, exhausted, 0)
	must(t, b.ReturnBlocks())
	check("taken back", 4, 0, 4, exhausted, 0)
	if s := b.Stats(); s.Returned != 3 || s.Blocks != 3 || b.LentBlocks() != 0 {
		t.Errorf("%+v, %d lent", s, b.LentBlocks())
	}
	must(t, b.TrySend(event(0, 300)))
	if n := b.Reclaim(); n != 1 {
		t.Errorf("%d blocks reclaimed, want 1", n)
	}
	check("reclaimed", 5, 0, 4, exhausted, 1)
}

// A dead peer's blocks come back and nobody else's, wherever they were: read, returned
// but not taken back, unread, or never published.
func TestReclaim(t *testing.T) {
	pool, _, _ := pools(t, shm.BlockSize{BlockBytes: 300, Count: 8})
	b := open(t, Config{InlineMax: 100, Pool: pool, PublishRecords: 100, PublishBytes: 1 << 20})
	other := open(t, Config{InlineMax: 100, Pool: pool, Peer: 8})
	must(t, other.TrySend(event(0, 300)))
	loan, err := b.Loan(300)
	must(t, err)
	for range 3 {
		must(t, b.TrySend(event(0, 300)))
	}
	must(t, b.Flush())
	first := b.next(t)
	must(t, b.recv.Return(first.Block.Block, first.Block.Seq))
	b.next(t)                         // read, and never returned
	must(t, b.TrySend(event(0, 300))) // never published
	must(t, b.TrySend(event(0, 10)))
	if n := b.Reclaim(); n != 4 {
		t.Errorf("%d blocks reclaimed, want 4", n)
	}
	if s := pool.Stats().Total; s.InFlight != 2 || s.Reclaimed != 4 {
		t.Errorf("%+v, want the other peer's and the loan in flight", s)
	}
	if n := b.Reclaim(); n != 0 || b.LentBlocks() != 0 {
		t.Errorf("%d blocks reclaimed a second time, %d lent", n, b.LentBlocks())
	}
	isEnd(t, "send", b.TrySend(event(0, 10)), ErrPeerDead)
	isEnd(t, "flush", b.Flush(), ErrPeerDead)
	must(t, b.ReturnBlocks()) // what the dead one had returned is not taken twice
	b.Close()
	isEnd(t, "closed afterwards", b.TrySend(event(0, 10)), ErrPeerDead)
	b.CancelLoan(&loan)
	must(t, other.Flush())
	if n := other.giveBack(t); n != 1 {
		t.Errorf("%d blocks to the other peer, want 1", n)
	}
	must(t, other.ReturnBlocks())
	if s := pool.Stats().Total; s.InFlight != 0 {
		t.Errorf("%+v: blocks are missing", s)
	}
}

// A peer that gives back what it doesn't have breaks its lane, and takes nothing from
// anybody.
func TestBadReturns(t *testing.T) {
	for what, give := range map[string]func(b *bench, mine, others *envelope.Event) error{
		"twice": func(b *bench, mine, _ *envelope.Event) error {
			return errors.Join(b.recv.Return(mine.Block.Block, mine.Block.Seq), b.recv.Return(mine.Block.Block,
				mine.Block.Seq))
		},
		"an older loan": func(b *bench, mine, _ *envelope.Event) error {
			return b.recv.Return(mine.Block.Block, mine.Block.Seq-2)
		},
		"a later loan": func(b *bench, mine, _ *envelope.Event) error {
			return b.recv.Return(mine.Block.Block, mine.Block.Seq+2)
		},
		"another's": func(b *bench, _, others *envelope.Event) error {
			return b.recv.Return(others.Block.Block, others.Block.Seq)
		},
		"a free block":    func(b *bench, _, _ *envelope.Event) error { return b.recv.Return(3, 0) },
		"no such block":   func(b *bench, _, _ *envelope.Event) error { return b.recv.Return(4, 1) },
		"no block at all": func(b *bench, _, _ *envelope.Event) error { return b.recv.Return(1<<30, 1) },
	} {
		pool, _, _ := pools(t, shm.BlockSize{BlockBytes: 300, Count: 4})
		b := open(t, Config{InlineMax: 100, Pool: pool})
		other := open(t, Config{InlineMax: 100, Pool: pool, Peer: 8})
		for _, e := range []*bench{b, other} {
			must(t, e.TrySend(event(0, 300)))
			must(t, e.Flush())
		}
		mine, others := b.next(t), other.next(t)
		must(t, give(b, mine, others))
		err := b.ReturnBlocks()
		isEnd(t, what, err, ErrProtocol)
		_ = b.ReturnBlocks()
		if err != b.Err() {
			t.Errorf("%s: the lane's error changed from %v to %v", what, err, b.Err())
		}
		isEnd(t, what+", send", b.TrySend(event(0, 300)), ErrProtocol)
		if n := other.LentBlocks(); n != 1 {
			t.Errorf("%s: the other peer lost its block", what)
		}
		must(t, other.recv.Return(others.Block.Block, others.Block.Seq))
		must(t, other.Flush())
		b.Reclaim()
		if s := pool.Stats().Total; s.InFlight != 0 {
			t.Errorf("%s: %+v: blocks are missing", what, s)
		}
	}
}

// A return ring with nonsense in it breaks the lane as well. (The checked build can't
// tell this damage from a defect of its own.)
func TestDamagedReturnRing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checked build asserts what stands in the rings")
	}
	b := open(t, Config{InlineMax: 100}, shm.BlockSize{BlockBytes: 300, Count: 4})
	must(t, b.TrySend(event(0, 300)))
	must(t, b.Flush())
	const returns = 256 + 384 + 1024 + 384 // docs/format/lane.md, ring.md: its data area
	for i := range 8 {
		b.mem[returns+i] = 0x77
	}
	isEnd(t, "flush", b.Flush(), ErrProtocol)
	if n := b.Reclaim(); n != 1 {
		t.Errorf("%d blocks reclaimed, want 1", n)
	}
}

// Blocks still come home after either side has closed.
func TestReturnsAfterClosing(t *testing.T) {
	for what, end := range map[string]func(b *bench){
		"sender closes":   func(b *bench) { b.Close() },
		"receiver closes": func(b *bench) { b.recv.Close() },
	} {
		b := open(t, Config{InlineMax: 100}, shm.BlockSize{BlockBytes: 300, Count: 4})
		must(t, b.TrySend(event(0, 300)))
		must(t, b.TrySend(event(0, 300)))
		must(t, b.Flush())
		first, second := b.next(t), b.next(t)
		end(b)
		must(t, b.recv.Return(first.Block.Block, first.Block.Seq))
		must(t, b.recv.Return(second.Block.Block, second.Block.Seq))
		must(t, b.ReturnBlocks())
		if s := b.pool.Stats().Total; s.InFlight != 0 || s.Returned != 2 {
			t.Errorf("%s: %+v", what, s)
		}
	}
}

// Blocks that come back though none is lent are damage, and found by who looks for it;
// blocks that come back as they should are not.
func TestCheck(t *testing.T) {
	b := open(t, Config{InlineMax: 10}, shm.BlockSize{BlockBytes: 128, Count: 2})
	must(t, b.Check())
	must(t, b.TrySend(&envelope.Event{Data: make([]byte, 100)}))
	must(t, b.Flush())
	ref := b.next(t).Block
	must(t, b.recv.Return(ref.Block, ref.Seq))
	must(t, b.Check())
	must(t, b.ReturnBlocks())
	must(t, b.Check())
	must(t, b.recv.Return(ref.Block, ref.Seq))
	if err := b.Check(); !errors.Is(err, ErrProtocol) || !errors.Is(b.Err(), ErrProtocol) {
		t.Errorf("a block that comes back twice: %v, then %v", err, b.Err())
	}
	must(t, b.Check()) // said already
}
