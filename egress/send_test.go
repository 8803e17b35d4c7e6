// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/aligned"
	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/shm"
)

func TestBadConfigs(t *testing.T) {
	cfg := lane.Config{RingBytes: 1024, ReturnBlocks: 3}
	_, mem := receiver(t, cfg)
	pool, _, _ := pools(t, shm.BlockSize{BlockBytes: 100, Count: 4})
	wait := func() error { return nil }
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Peer: -1, Lane: mem, Wait: wait}, "peer -1"},
		{Config{Wait: wait}, "Lane and Wait are required"},
		{Config{Lane: mem}, "Lane and Wait are required"},
		{Config{Lane: mem, Wait: wait, InlineMax: -1}, "-1 bytes inline"},
		{Config{Lane: mem, Wait: wait, InlineMax: 473}, "want 0 to 472"},
		{Config{Lane: mem, Wait: wait, Pool: pool}, "4"},
		{Config{Lane: mem, Wait: wait, PublishRecords: -1}, "-1"},
		{Config{Lane: mem, Wait: wait, PublishBytes: -1}, "-1"},
		{Config{Lane: make([]byte, 64), Wait: wait}, "not a lane"},
	} {
		must(t, lane.Format(mem, cfg)) // its end is free again
		if _, err := New(c.cfg); err == nil || !strings.HasPrefix(err.Error(), "egress: ") ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want an error with %q", c.cfg, err, c.want)
		}
	}
	must(t, lane.Format(mem, cfg))
	e, err := New(Config{Peer: 3, Lane: mem, Wait: wait, InlineMax: 472})
	if err != nil || e.Peer() != 3 || e.Err() != nil {
		t.Errorf("the largest inline payload that fits: %v", err)
	}
}

// No room is ErrFull itself, changes nothing, and shows the peer what it has to read.
func TestFullRing(t *testing.T) {
	b := open(t, Config{InlineMax: 100, PublishRecords: 1000, PublishBytes: 1 << 20})
	sent := b.fill(t)
	if b.Room() > 60+envelope.EventHeaderBytes || !b.Short() {
		t.Errorf("a full ring has room for %d bytes", b.Room())
	}
	before := b.Stats()
	if err := b.TrySend(event(0, 60)); err != ErrFull {
		t.Errorf("full ring: %v, want ErrFull itself", err)
	}
	if b.Stats() != before {
		t.Errorf("a send without room changed %+v to %+v", before, b.Stats())
	}
	if got := b.drain(t); got != sent {
		t.Errorf("%d events are visible when the ring is full, want %d", got, sent)
	}
	if err := b.TrySend(event(sent, 60)); err != nil || b.Short() {
		t.Errorf("empty ring: %v, short %v", err, b.Short())
	}
	if s := b.Stats(); s.Events != uint64(sent)+1 || s.Bytes == 0 || s.Publishes != 2 || s.FullWaits != 0 {
		t.Errorf("%+v", s)
	}
}

// TrySendNow makes an event visible, with everything before it, by whatever way its data go, and rings the bell.
func TestTrySendNow(t *testing.T) {
	b := open(t, Config{InlineMax: 100}, shm.BlockSize{BlockBytes: 200, Count: 1})
	for _, c := range []struct {
		before, size, want int
		err                error
	}{
		{0, 60, 1, nil}, {0, 0, 1, nil}, {3, 60, 4, nil}, {0, 200, 1, nil}, {2, 200, 2, ErrExhausted}, {0, 100, 1, nil},
	} {
		for range c.before {
			must(t, b.TrySend(event(0, 8)))
		}
		before := b.Stats()
		if err := b.TrySendNow(event(0, c.size)); err != c.err {
			t.Fatalf("%+v: %v", c, err)
		}
		if s := b.Stats(); s.Publishes != before.Publishes+1 || c.err == nil && s.Events != before.Events+1 {
			t.Errorf("%+v: from %+v to %+v", c, before, s)
		}
		if got := b.drain(t); got != c.want {
			t.Errorf("%+v: %d events are visible", c, got)
		}
	}
	b.fill(t)
	if err := b.TrySendNow(event(0, 60)); err != ErrFull {
		t.Errorf("full ring: %v, want ErrFull itself", err)
	}
	b.drain(t)
	b.Close()
	isEnd(t, "closed", b.TrySendNow(event(0, 60)), ErrClosed)
}

// A short event without headers, for a peer that waits for it, goes out in one step; all others in more. What arrives
// is the same.
func TestTrySendNowToAPeerThatWaits(t *testing.T) {
	b := open(t, Config{InlineMax: 5000})
	alone := 0
	for i := range 3000 {
		ev := event(i, i%260*16)
		ev.Sender, ev.Target = uint32(i*7), uint32(i*11)
		for at := range ev.Data {
			ev.Data[at] = byte(i + at*3)
		}
		short := len(ev.Data) <= 4056
		switch i % 7 {
		case 3:
			ev.Headers, short = []byte{1, 'k', 1, 'v'}, false
		case 5:
			ev.Epoch = math.Copysign(0, -1)
		}
		before := b.Stats()
		if b.sendAlone(ev) {
			if alone++; !short {
				t.Fatalf("event %d of %d bytes went out in one step", i, len(ev.Data))
			}
		} else {
			must(t, b.TrySendNow(ev))
		}
		if s := b.Stats(); s.Events != before.Events+1 || s.Publishes != before.Publishes+1 ||
			s.Bytes != before.Bytes+uint64(len(ev.Data)) {
			t.Fatalf("event %d: from %+v to %+v", i, before, s)
		}
		got := b.next(t)
		if got == nil || got.Epoch != ev.Epoch || math.Signbit(got.Epoch) || got.Number != ev.Number ||
			got.Sender != ev.Sender || got.Target != ev.Target || !bytes.Equal(got.Data, ev.Data) ||
			!bytes.Equal(got.Headers, ev.Headers) {
			t.Fatalf("event %d: %v arrived as %v", i, ev, got)
		}
		b.recv.Forward().Release()
	}
	if alone < 1500 {
		t.Errorf("%d of 3000 events went out in one step", alone)
	}
}

// What is sent becomes visible by itself after so many records or bytes.
func TestPublishesByItself(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want []int // events visible after each of the sends
	}{
		{Config{InlineMax: 100, PublishRecords: 3}, []int{0, 0, 3, 3, 3, 6}},
		{Config{InlineMax: 100, PublishRecords: 1}, []int{1, 2, 3, 4, 5, 6}},
		{Config{InlineMax: 100, PublishBytes: 90}, []int{0, 2, 2, 4, 4, 6}}, // of 52 bytes each
		{Config{InlineMax: 100}, []int{0, 0, 3, 3, 3, 6}},                   // 128 bytes, an eighth of the ring
	} {
		b := open(t, c.cfg)
		seen := 0
		for n, want := range c.want {
			must(t, b.TrySend(event(n, 20)))
			if seen += b.drain(t); seen != want {
				t.Errorf("%+v: %d events visible after %d, want %d", c.cfg, seen, n+1, want)
			}
		}
	}
}

// forms are all forms of sending that wait, each sending one event.
var forms = map[string]func(b *bench, ctx context.Context, size int) error{
	"Send": func(b *bench, ctx context.Context, size int) error { return b.Send(ctx, event(1, size)) },
	"SendBatch": func(b *bench, ctx context.Context, size int) error {
		n, err := b.SendBatch(ctx, []envelope.Event{*event(1, size)})
		if n == 1 != (err == nil) {
			return errors.New("sent and error disagree")
		}
		return err
	},
	"SendLoan": func(b *bench, ctx context.Context, size int) error {
		loan, err := b.WaitLoan(ctx, size)
		if err != nil {
			return err
		}
		ev := event(1, 0)
		if err := b.SendLoan(ctx, ev, &loan); err != nil {
			b.CancelLoan(&loan)
			return err
		}
		return nil
	},
}

// shortages are the two kinds of no room.
var shortages = map[string]struct {
	size  int
	cause func(t *testing.T, b *bench)
	kind  error
}{
	"full ring": {200, func(t *testing.T, b *bench) { b.fill(t) }, ErrFull},
	"empty pool": {300, func(t *testing.T, b *bench) {
		for n := range 4 {
			must(t, b.TrySend(event(n, 200)))
		}
	}, ErrExhausted},
}

// each runs a test for every form and every kind of no room. The pool has 4 blocks of
// 300 bytes; fill takes none of them.
func each(t *testing.T, test func(t *testing.T, b *bench, kind error, send func(ctx context.Context) error)) {
	for formName, form := range forms {
		for shortName, short := range shortages {
			t.Run(formName+"/"+shortName, func(t *testing.T) {
				b := open(t, Config{InlineMax: 100}, shm.BlockSize{BlockBytes: 300, Count: 4})
				short.cause(t, b)
				test(t, b, short.kind, func(ctx context.Context) error { return form(b, ctx, short.size) })
			})
		}
	}
}

func TestWaitsUntilThereIsRoom(t *testing.T) {
	each(t, func(t *testing.T, b *bench, kind error, send func(ctx context.Context) error) {
		waits := 0
		b.wait = func() error {
			if waits++; waits == 3 {
				b.giveBack(t)
			}
			return nil
		}
		if err := send(context.Background()); err != nil || waits != 3 {
			t.Errorf("%v after %d waits, want none after 3", err, waits)
		}
		s := b.Stats()
		if full, empty := s.FullWaits == 3, s.PoolWaits == 3; full != (kind == ErrFull) ||
			empty != (kind == ErrExhausted) {
			t.Errorf("%d and %d waits counted", s.FullWaits, s.PoolWaits)
		}
	})
}

func TestContextEndsTheWaiting(t *testing.T) {
	each(t, func(t *testing.T, b *bench, kind error, send func(ctx context.Context) error) {
		ctx, cancel := context.WithCancel(context.Background())
		waits := 0
		b.wait = func() error {
			if waits++; waits == 5 {
				cancel()
			}
			return nil
		}
		before := b.Stats().Events
		err := send(ctx)
		if !errors.Is(err, context.Canceled) || !errors.Is(err, kind) || !strings.Contains(err.Error(), "worker 7") ||
			waits != 5 {
			t.Errorf("%v after %d waits, want context.Canceled and %v after 5", err, waits, kind)
		}
		if err := send(ctx); !errors.Is(err, context.Canceled) || waits != 5 {
			t.Errorf("%v after %d waits with a context that is over", err, waits)
		}
		if b.Stats().Events != before || b.Err() != nil {
			t.Error("an event was sent, or the lane has ended")
		}
		b.giveBack(t)
		if err := send(ctx); err != nil {
			t.Errorf("there is room, so no context is needed: %v", err)
		}
	})
}

func TestErrorOfWaitIsReturned(t *testing.T) {
	each(t, func(t *testing.T, b *bench, _ error, send func(ctx context.Context) error) {
		if err := send(context.Background()); err != errNoRoom {
			t.Errorf("%v, want what Wait returned", err)
		}
	})
}

func TestPeerClosesWhileItWaits(t *testing.T) {
	each(t, func(t *testing.T, b *bench, _ error, send func(ctx context.Context) error) {
		waits := 0
		b.wait = func() error {
			if waits++; waits > 2 {
				return errNoRoom
			}
			b.recv.Close()
			return nil
		}
		isEnd(t, "send", send(context.Background()), ErrClosed)
		isEnd(t, "later send", send(context.Background()), ErrClosed)
		isEnd(t, "Err", b.Err(), ErrClosed)
	})
}

func TestPeerDiesWhileItWaits(t *testing.T) {
	each(t, func(t *testing.T, b *bench, kind error, send func(ctx context.Context) error) {
		reclaimed := -1
		b.wait = func() error {
			if reclaimed >= 0 {
				return errNoRoom
			}
			reclaimed = b.Reclaim()
			return nil
		}
		isEnd(t, "send", send(context.Background()), ErrPeerDead)
		isEnd(t, "later send", send(context.Background()), ErrPeerDead)
		if want := map[error]int{ErrFull: 0, ErrExhausted: 4}[kind]; reclaimed != want || b.LentBlocks() != 0 {
			t.Errorf("%d blocks reclaimed, %d still lent, want %d and 0", reclaimed, b.LentBlocks(), want)
		}
		if in := b.pool.Stats().Total.InFlight; in != 0 {
			t.Errorf("%d blocks are missing", in)
		}
	})
}

// Wait may flush and promise on the very egress that waits.
func TestWaitMayFlush(t *testing.T) {
	b := open(t, Config{InlineMax: 100})
	b.fill(t)
	b.wait = func() error {
		if err := b.Promise(1, 0); err != nil {
			return err
		}
		b.drain(t)
		return b.Flush()
	}
	must(t, b.SendEvent(event(0, 60)))
	must(t, b.SendPromise(&envelope.Promise{Epoch: 1}))
}

// A batch is visible when it returns, with one store if it fits.
func TestBatch(t *testing.T) {
	b := open(t, Config{InlineMax: 100, PublishBytes: 1 << 20})
	evs := make([]envelope.Event, 30)
	for n := range evs {
		evs[n] = *event(n, 20)
	}
	if n, err := b.TrySendBatch(evs[:10]); n != 10 || err != nil {
		t.Fatal(n, err)
	}
	if s := b.Stats(); s.Publishes != 1 || s.Events != 10 {
		t.Errorf("a batch of 10: %+v", s)
	}
	if got := b.drain(t); got != 10 {
		t.Errorf("%d events visible after a batch of 10", got)
	}
	n, err := b.TrySendBatch(evs)
	if err != ErrFull || n < 10 || n >= 30 {
		t.Fatalf("batch larger than the ring: %d, %v", n, err)
	}
	for want := range n {
		if ev := b.next(t); ev == nil || ev.Number != uint64(want) {
			t.Fatalf("event %d of a batch of which %d went: %v", want, n, ev)
		}
	}
	b.drain(t)
	if n, err := b.TrySendBatch(nil); n != 0 || err != nil {
		t.Errorf("empty batch: %d, %v", n, err)
	}
	b.Close()
	if n, err := b.TrySendBatch(evs); n != 0 || !errors.Is(err, ErrClosed) {
		t.Errorf("batch over a closed lane: %d, %v", n, err)
	}
}

// A batch larger than the ring goes through it in pieces, and stops where it must.
func TestLongBatch(t *testing.T) {
	b := open(t, Config{InlineMax: 100})
	evs := make([]envelope.Event, 500)
	for n := range evs {
		evs[n] = *event(n, n%50)
	}
	seen := 0
	b.wait = func() error {
		for ev := b.next(t); ev != nil; ev = b.next(t) {
			if ev.Number != uint64(seen) {
				t.Fatalf("%v, want number %d", ev, seen)
			}
			seen++
		}
		b.recv.Forward().Release()
		return nil
	}
	if n, err := b.SendBatch(context.Background(), evs); n != len(evs) || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	must(t, b.wait())
	if seen != len(evs) {
		t.Errorf("%d events came, want %d", seen, len(evs))
	}
	evs[300].Data = make([]byte, 101)
	b.wait = func() error { b.drain(t); return nil }
	n, err := b.SendBatch(context.Background(), evs)
	if n != 300 || !errors.Is(err, ErrTooLarge) {
		t.Errorf("batch whose event 300 is too large: %d, %v", n, err)
	}
}

func TestTooLarge(t *testing.T) {
	long := event(0, 0)
	long.Headers = make([]byte, envelope.HeadersMax+1)
	wide := event(0, 10)
	wide.Headers = make([]byte, 600)
	for _, c := range []struct {
		what    string
		classes []shm.BlockSize
		ev      *envelope.Event
		want    string
	}{
		{"no pool", nil, event(0, 101), "no pool"},
		{"pool", []shm.BlockSize{{BlockBytes: 300, Count: 1}}, event(0, 301), "largest block holds 300"},
		{"headers beyond all", nil, long, "65536 bytes of headers"},
		{"headers beyond all", []shm.BlockSize{{BlockBytes: 300, Count: 1}}, long, "65536 bytes of headers"},
		{"headers beyond the ring", []shm.BlockSize{{BlockBytes: 300, Count: 1}}, wide, "at most 504 fit the ring"},
	} {
		b := open(t, Config{InlineMax: 100}, c.classes...)
		err := b.TrySend(c.ev)
		if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(),
			"worker 7") {
			t.Errorf("%s: %v, want ErrTooLarge with %q", c.what, err, c.want)
		}
		if err := b.SendEvent(c.ev); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v, want ErrTooLarge and no waiting", c.what, err)
		}
		must(t, b.TrySend(event(0, 10)))
		if c.classes != nil {
			must(t, b.TrySend(event(0, 300)))
		}
		must(t, b.Flush())
		if got := b.drain(t); got == 0 {
			t.Errorf("%s: nothing comes any more", c.what)
		}
	}
}

// A head that can't be breaks the lane.
func TestCorruptHead(t *testing.T) {
	b := open(t, Config{InlineMax: 100})
	b.fill(t)
	const head = 256 + 256 // docs/format/lane.md, ring.md
	b.mem[head] = 4        // no multiple of 8
	isEnd(t, "send", b.TrySend(event(0, 60)), ErrProtocol)
	isEnd(t, "send", b.SendEvent(event(0, 60)), ErrProtocol)
	isEnd(t, "flush", b.Flush(), ErrProtocol)
	isEnd(t, "promise", b.Promise(1, 0), ErrProtocol)
	if b.Room() != 0 {
		t.Error("a broken lane has room")
	}
	b.Close()
	isEnd(t, "closed afterwards", b.TrySend(event(0, 60)), ErrProtocol)
}

// The peer's bell is rung when something has become visible, and only then.
func TestBell(t *testing.T) {
	bell, err := shm.OpenDoorbell(aligned.Bytes(shm.DoorbellBytes, shm.DoorbellBytes))
	must(t, err)
	b := open(t, Config{InlineMax: 500, Bell: bell})
	rung := func(what string, want bool, f func()) {
		t.Helper()
		bell.Arm()
		f()
		if bell.Armed() == want {
			t.Errorf("%s: rung %v, want %v", what, !want, want)
		}
	}
	rung("send", false, func() { must(t, b.TrySend(event(0, 10))) })
	rung("flush", true, func() { must(t, b.Flush()) })
	rung("send now", true, func() { must(t, b.TrySendNow(event(0, 10))) })
	b.drain(t)
	must(t, b.TrySendNow(event(0, 10))) // looks at the head
	rung("send alone", true, func() {
		if !b.sendAlone(event(0, 10)) {
			t.Error("not sent alone")
		}
	})
	rung("flush of nothing", false, func() { must(t, b.Flush()) })
	rung("promise", true, func() { must(t, b.Promise(1, 0)) })
	rung("the same promise", false, func() { must(t, b.Promise(1, 0)) })
	must(t, b.TrySend(event(0, 10)))
	rung("the same promise behind an event", true, func() { must(t, b.Promise(1, 0)) })
	rung("batch", true, func() { _, err := b.TrySendBatch([]envelope.Event{*event(0, 1)}); must(t, err) })
	rung("full ring", true, func() { b.fill(t) })
	rung("close", true, b.Close)
}

func TestMisusePanics(t *testing.T) {
	b := open(t, Config{InlineMax: 100})
	ref := event(0, 0)
	ref.InBlock = true
	mustPanic(t, "event that refers to a block", func() { _ = b.TrySend(ref) })
	must(t, b.TrySend(event(0, 0)))
	mustPanic(t, "reset with events that were not flushed", b.Reset)
	must(t, b.Promise(3, 0))
	mustPanic(t, "bound that falls", func() { _ = b.Promise(2, 0) })
	b.Reset()
	must(t, b.Promise(2, 0))
	if s := b.Stats(); s.Bounds != 2 {
		t.Errorf("%d bounds counted, want 2", s.Bounds)
	}
}

// Nothing on the way of an event allocates, whichever form sends it, and however its
// caller holds it.
func TestNothingAllocates(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checks of the checked build allocate")
	}
	b := open(t, Config{InlineMax: 100}, shm.BlockSize{BlockBytes: 300, Count: 4})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	small, large := make([]byte, 50), make([]byte, 300)
	batch := []envelope.Event{{Data: small}, {Data: small}}
	var failed error
	b.wait = func() error { return nil }
	drain := func() {
		for {
			rec, err := b.recv.Forward().Next()
			if rec == nil {
				failed = errors.Join(failed, err)
				break
			}
			if ev := new(envelope.Event); rec[0] == byte(envelope.KindEvent) && ev.Decode(rec) == nil && ev.InBlock {
				failed = errors.Join(failed, b.recv.Return(ev.Block.Block, ev.Block.Seq))
			}
		}
		b.recv.Forward().Release()
		failed = errors.Join(failed, b.Flush())
	}
	epoch := 0.0
	for what, send := range map[string]func() error{
		"TrySend":      func() error { ev := envelope.Event{Data: small}; return b.TrySend(&ev) },
		"TrySendNow":   func() error { ev := envelope.Event{Data: small}; return b.TrySendNow(&ev) },
		"Send":         func() error { ev := envelope.Event{Data: small}; return b.Send(ctx, &ev) },
		"SendEvent":    func() error { ev := envelope.Event{Data: small}; return b.SendEvent(&ev) },
		"block":        func() error { ev := envelope.Event{Data: large}; return b.SendEvent(&ev) },
		"TrySendBatch": func() error { _, err := b.TrySendBatch(batch); return err },
		"SendBatch":    func() error { _, err := b.SendBatch(ctx, batch); return err },
		"SendPromise":  func() error { p := envelope.Promise{Seqnr: 1}; return b.SendPromise(&p) },
		"Promise":      func() error { epoch++; return b.Promise(epoch, 0) },
		"ReturnBlocks": b.ReturnBlocks,
		"Full": func() error {
			ev := envelope.Event{Data: small}
			for b.TrySend(&ev) == nil {
			}
			return nil
		},
		"WaitLoan/Send": func() error {
			loan, err := b.WaitLoan(ctx, 300)
			if err != nil {
				return err
			}
			ev := envelope.Event{}
			return b.SendLoan(ctx, &ev, &loan)
		},
		"CancelLoan": func() error {
			loan, err := b.Loan(300)
			if err == nil {
				b.CancelLoan(&loan)
			}
			return err
		},
	} {
		if n := testing.AllocsPerRun(100, func() {
			failed = errors.Join(failed, send())
			failed = errors.Join(failed, b.Flush())
			drain()
		}); n != 0 || failed != nil {
			t.Errorf("%s: %v allocations, error %v", what, n, failed)
		}
	}
}
