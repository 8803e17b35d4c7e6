// SPDX-License-Identifier: Apache-2.0

package ipc_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/seed"
	"github.com/disco-sim/disco/ipc"
	"github.com/disco-sim/disco/shm"
)

var sizes = []int{16, 0, 1, 7, 64, 256, 257, 1000, 4096, 5000, 16 << 10}

// sendMany sends count messages of all sizes, in all the ways there are.
func sendMany(ctx context.Context, s *ipc.Sender, tag uint64, count int) error {
	buf := make([]byte, 16<<10)
	for i := 0; i < count; i++ {
		data := buf[:sizes[i%len(sizes)]]
		fill(data, tag, uint64(i))
		var err error
		switch {
		case i%4 == 1:
			for err = s.TrySend(data); err == ipc.ErrFull; err = s.TrySend(data) {
				if err := ctx.Err(); err != nil {
					return err
				}
			}
		case i%4 == 2 && len(data) > 0:
			var l ipc.Loan
			if l, err = s.Loan(ctx, len(data)); err == nil {
				copy(l.Data, data)
				err = s.SendLoan(ctx, &l)
			}
		case i%4 == 3 && i+2 < count:
			next := make([]byte, sizes[(i+1)%len(sizes)])
			fill(next, tag, uint64(i+1))
			i++
			_, err = s.SendBatch(ctx, [][]byte{data, next})
		default:
			err = s.Send(ctx, data)
		}
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	return nil
}

// Several senders, rings and pools far too small: everything arrives, whole, in each
// sender's order, once, by Receive as by Poll, however the two wait.
func TestManySenders(t *testing.T) {
	count := 1500
	if testing.Short() {
		count = 500
	}
	for _, mode := range []shm.Mode{shm.ModeAdaptive, shm.ModePark} {
		for _, poll := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, poll %v", mode, poll), func(t *testing.T) { manySenders(t, mode, poll, count) })
		}
	}
}

func manySenders(t *testing.T, mode shm.Mode, poll bool, count int) {
	const senders = 3
	ctx, dir := within(t), newDir(t)
	r := mustListen(t, "many", ipc.ListenConfig{Dir: dir, Wait: mode})
	var all sync.WaitGroup
	for tag := range uint64(senders) {
		cfg := small(dir)
		cfg.Wait = mode
		s := mustDial(t, "many", cfg)
		all.Go(func() {
			if err := sendMany(ctx, s, tag, count); err != nil {
				t.Errorf("sender %d: %v", tag, err)
			}
			if err := s.Close(); err != nil {
				t.Errorf("sender %d: %v", tag, err)
			}
		})
	}
	b := newInbox()
	for ended := 0; ended < senders; {
		var err error
		if poll {
			err = pollOnce(ctx, t, r, b)
		} else {
			var m ipc.Message
			if m, err = r.Receive(ctx); err == nil {
				err = b.check(&m)
				r.Release(&m)
			}
		}
		if errors.Is(err, ipc.ErrClosed) {
			ended++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	all.Wait()
	if st := r.Stats(); b.sum() != uint64(senders*count) || st.Messages != b.sum() || st.Closed != senders ||
		st.Senders != 0 || st.Leases != 0 {
		t.Errorf("%d messages, %+v", b.sum(), st)
	}
}

func pollOnce(ctx context.Context, t *testing.T, r *ipc.Receiver, b *inbox) error {
	if err := r.Wait(ctx); err != nil {
		return err
	}
	_, err := r.Poll(func(m *ipc.Message) {
		if err := b.check(m); err != nil {
			t.Error(err)
		}
	})
	return err
}

// Messages that are held keep their data, whatever comes after them and in whichever
// order they are released.
func TestHeldMessages(t *testing.T) {
	rng := seed.Rand(t)
	r, s := pair(t)
	b, held := newInbox(), []ipc.Message{}
	drop := func(i int) {
		m := &held[i]
		want := make([]byte, len(m.Data))
		fill(want, 7, m.Number)
		if !slices.Equal(want, m.Data) {
			t.Fatalf("message %d changed while it was held", m.Number)
		}
		r.Release(m)
		r.Release(m) // does nothing
		held[i] = held[len(held)-1]
		held = held[:len(held)-1]
	}
	for i := range uint64(2000) {
		data := make([]byte, 16+rng.IntN(500))
		fill(data, 7, i)
		for s.TrySend(data) == ipc.ErrFull {
			drop(rng.IntN(len(held)))
		}
		m, err := r.Receive(within(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.check(&m); err != nil {
			t.Fatal(err)
		}
		held = append(held, m)
		for len(held) > 100+rng.IntN(50) {
			drop(rng.IntN(len(held)))
		}
	}
	for len(held) > 0 {
		drop(rng.IntN(len(held)))
	}
	if st := r.Stats(); st.Leases != 0 || st.Blocks == 0 {
		t.Errorf("%+v", st)
	}
}

// No room is ErrFull from the forms that try, never a loss; what is longer than all
// blocks is ErrTooLarge.
func TestFull(t *testing.T) {
	r, s := pair(t)
	var sent int
	for sent = 0; ; sent++ {
		err := s.TrySend([]byte("inline"))
		if err == ipc.ErrFull {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	l, err := s.TryLoan(1000)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.TrySendLoan(&l); err != ipc.ErrFull || len(l.Data) != 1000 {
		t.Errorf("loan into a full ring: %v, %d bytes left", err, len(l.Data))
	}
	s.CancelLoan(&l)
	for range sent {
		receive(t, r, "inline")
	}
	if err := s.TrySend(make([]byte, s.MessageMax()+1)); !errors.Is(err, ipc.ErrTooLarge) {
		t.Errorf("a message too long: %v", err)
	}
	if _, err := s.TryLoan(s.MessageMax() + 1); !errors.Is(err, ipc.ErrTooLarge) {
		t.Errorf("a loan too long: %v", err)
	}
	var loans []ipc.Loan
	for {
		l, err := s.TryLoan(s.MessageMax())
		if err == ipc.ErrFull {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		loans = append(loans, l)
	}
	if err := s.TrySend(make([]byte, s.MessageMax())); err != ipc.ErrFull {
		t.Errorf("a large message without a block: %v", err)
	}
	st := s.Stats()
	if st.Pool.Total.InFlight != uint64(len(loans)) || st.Pool.Total.Exhausted == 0 {
		t.Errorf("%+v with %d loans", st.Pool.Total, len(loans))
	}
	for i := range loans {
		s.CancelLoan(&loans[i])
	}
	if st := s.Stats(); st.Pool.Total.InFlight != 0 || st.Events != uint64(sent) {
		t.Errorf("%+v after %d messages", st, sent)
	}
}

// The end of a context ends a wait, also of one who sleeps, and what was to be sent
// was not.
func TestContextEndsWaiting(t *testing.T) {
	dir := newDir(t)
	r := mustListen(t, "ctx", ipc.ListenConfig{Dir: dir, Wait: shm.ModePark})
	cfg := small(dir)
	cfg.Wait = shm.ModePark
	s := mustDial(t, "ctx", cfg)
	for range 20 {
		ctx, cancel := context.WithCancel(context.Background())
		go cancel()
		if m, err := r.Receive(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("received %q, %v", m.Data, err)
		}
	}
	sent := 0
	for s.TrySend([]byte("x")) == nil {
		sent++
	}
	for range 20 {
		ctx, cancel := context.WithCancel(context.Background())
		go cancel()
		if err := s.Send(ctx, []byte("never")); !errors.Is(err, context.Canceled) {
			t.Fatalf("sent: %v", err)
		}
		n, err := s.SendBatch(ctx, [][]byte{nil, nil})
		if n != 0 || !errors.Is(err, context.Canceled) {
			t.Fatalf("sent %d: %v", n, err)
		}
	}
	for range sent {
		receive(t, r, "x")
	}
	if err := s.TrySend([]byte("after")); err != nil {
		t.Fatal(err)
	}
	receive(t, r, "after")
}

// A sender that closes has sent what it has sent, blocks included.
func TestSenderCloses(t *testing.T) {
	r, s := pair(t)
	large := make([]byte, 10_000)
	fill(large, 1, 2)
	for _, data := range [][]byte{[]byte("small"), large} {
		if err := s.Send(within(t), data); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.TrySend(nil); !errors.Is(err, ipc.ErrClosed) {
		t.Errorf("sending after Close: %v", err)
	}
	receive(t, r, "small")
	m, err := r.Receive(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if end := receiveEnd(t, r, ipc.ErrClosed); end.PID != os.Getpid() || end.Sender != 0 {
		t.Errorf("%+v", end)
	}
	if !slices.Equal(m.Data, large) || mappings(t) < 2 {
		t.Errorf("the block of a closed sender changed while it was read; %d mappings", mappings(t))
	}
	r.Release(&m)
	if n := mappings(t); n != 1 {
		t.Errorf("%d mappings after the last message of a closed sender, want the board alone", n)
	}
}

// A receiver that closes ends its senders, also one that sleeps while there is no room.
func TestReceiverCloses(t *testing.T) {
	dir := newDir(t)
	r := mustListen(t, "closing", ipc.ListenConfig{Dir: dir})
	cfg := small(dir)
	cfg.Wait = shm.ModePark
	s, idle := mustDial(t, "closing", cfg), mustDial(t, "closing", cfg)
	done := make(chan error, 1)
	go func() {
		for {
			if err := s.Send(context.Background(), make([]byte, 2000)); err != nil {
				done <- err
				return
			}
		}
	}()
	m, err := r.Receive(within(t)) // the sender is under way
	if err != nil || len(m.Data) != 2000 {
		t.Fatalf("%d bytes, %v", len(m.Data), err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r.Release(&m) // does nothing any more
	if err := <-done; !errors.Is(err, ipc.ErrClosed) {
		t.Errorf("the sender that waited: %v", err)
	}
	eventually(t, "the idle sender notices", func() bool { return idle.TrySend(nil) != nil })
	if err := idle.TrySend(nil); !errors.Is(err, ipc.ErrClosed) {
		t.Errorf("the idle sender: %v", err)
	}
	for range 2 {
		if _, err := r.Receive(within(t)); !errors.Is(err, ipc.ErrClosed) {
			t.Errorf("receiving after Close: %v", err)
		}
		if _, err := r.Poll(nil); !errors.Is(err, ipc.ErrClosed) {
			t.Errorf("polling after Close: %v", err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Sending and receiving allocate nothing once they are under way.
func TestNothingAllocates(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checked build allocates the arguments of its assertions")
	}
	r, s := pair(t)
	ctx, data, large := context.Background(), make([]byte, 100), make([]byte, 1000)
	batch := [][]byte{data, large, data}
	run := func(what string, f func() error) {
		t.Helper()
		if n := testing.AllocsPerRun(500, func() {
			if err := f(); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
	one := func() error {
		m, err := r.Receive(ctx)
		r.Release(&m)
		return err
	}
	run("Send and Receive", func() error { return errors.Join(s.Send(ctx, data), one()) })
	run("large ones", func() error { return errors.Join(s.Send(ctx, large), one()) })
	run("a loan", func() error {
		l, err := s.Loan(ctx, 500)
		if err != nil {
			return err
		}
		return errors.Join(s.SendLoan(ctx, &l), one())
	})
	seen, visit := 0, (func(*ipc.Message))(nil)
	visit = func(m *ipc.Message) { seen += len(m.Data) }
	run("SendBatch and Poll", func() error {
		_, err := s.SendBatch(ctx, batch)
		_, pollErr := r.Poll(visit)
		return errors.Join(err, pollErr)
	})
	if seen == 0 {
		t.Error("nothing was polled")
	}
}

// When both have closed, nothing is left: no file, no memory, no descriptor.
func TestNothingIsLeft(t *testing.T) {
	dir := newDir(t)
	files := openFiles(t)
	for range 3 {
		r := mustListen(t, "gone", ipc.ListenConfig{Dir: dir})
		s, left := mustDial(t, "gone", small(dir)), mustDial(t, "gone", small(dir))
		if err := s.Send(within(t), make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		m, err := r.Receive(within(t))
		if err != nil || m.Data == nil {
			t.Fatal(err)
		}
		for _, c := range []func() error{s.Close, r.Close, left.Close} {
			if err := c(); err != nil {
				t.Fatal(err)
			}
		}
		list, err := os.ReadDir(dir)
		if err != nil || len(list) != 0 {
			t.Errorf("left in the directory: %v, %v", list, err)
		}
		if n := mappings(t); n != 0 {
			t.Errorf("%d mappings left", n)
		}
	}
	// The runtime keeps two descriptors for its own poller from the first socket on.
	if n := openFiles(t); n > files+2 {
		t.Errorf("%d open files, %d before", n, files)
	}
}
