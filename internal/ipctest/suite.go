// SPDX-License-Identifier: Apache-2.0

package ipctest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/disco-sim/disco/internal/seed"
	"github.com/disco-sim/disco/ipc"
	"github.com/disco-sim/disco/shm"
)

// Opener makes a way for one test.
type Opener = func(t testing.TB) Way

// Run is the suite.
func Run(t *testing.T, open Opener) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Opener)
	}{
		{"many senders", testManySenders},
		{"held messages", testHeldMessages},
		{"large messages", testLarge},
		{"contexts end waits", testContextEndsWaiting},
		{"sender closes", testSenderCloses},
		{"receiver closes", testReceiverCloses},
		{"other processes send", testProcessesSend},
		{"another process receives", testProcessReceives},
		{"sender is killed", testSenderIsKilled},
		{"receiver is killed", testReceiverIsKilled},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open) })
	}
}

// A megabyte at a time, by a copy and by a loan, with the usual memory; and the longest there may be.
func testLarge(t *testing.T, open Opener) {
	w := open(t)
	r := w.listen(t, "large")
	s := Dial(t, w.Prefix+"large", ipc.DialConfig{Dir: w.Senders})
	sent := make(chan error, 1)
	go func() {
		data := make([]byte, s.MessageMax())
		for n := range uint64(40) {
			size := 1_000_000
			if n == 39 {
				size = len(data)
			}
			fill(data[:size], 3, n)
			if n%2 == 0 {
				if err := s.Send(Within(t), data[:size]); err != nil {
					sent <- err
					return
				}
				continue
			}
			l, err := s.Loan(Within(t), size)
			if err == nil {
				copy(l.Data, data)
				err = s.SendLoan(Within(t), &l)
			}
			if err != nil {
				sent <- err
				return
			}
		}
		sent <- s.Close()
	}()
	b := NewInbox()
	for range 40 {
		m, err := r.Receive(Within(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Check(&m); err != nil {
			t.Fatal(err)
		}
		r.Release(&m)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	ReceiveEnd(t, r, ipc.ErrClosed)
}

var sizes = []int{16, 0, 1, 7, 64, 256, 257, 1000, 4096, 5000, 16 << 10}

// SendMany sends count messages of all sizes, in all the ways there are.
func SendMany(ctx context.Context, s *ipc.Sender, tag uint64, count int) error {
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

// Several senders, rings and pools far too Small: everything arrives, whole, in each
// sender's order, once, by Receive as by Poll, however the two wait.
func testManySenders(t *testing.T, open Opener) {
	count := 1500
	if testing.Short() {
		count = 500
	}
	for _, mode := range []shm.Mode{shm.ModeAdaptive, shm.ModePark} {
		for _, poll := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, poll %v", mode, poll), func(t *testing.T) {
				manySenders(t, open(t), mode, poll, count)
			})
		}
	}
}

func manySenders(t *testing.T, w Way, mode shm.Mode, poll bool, count int) {
	const senders = 3
	ctx := Within(t)
	r := Listen(t, "many", ipc.ListenConfig{Dir: w.Receivers, Wait: mode})
	var all sync.WaitGroup
	for tag := range uint64(senders) {
		cfg := Small(w.Senders)
		cfg.Wait = mode
		s := Dial(t, w.Prefix+"many", cfg)
		all.Go(func() {
			if err := SendMany(ctx, s, tag, count); err != nil {
				t.Errorf("sender %d: %v", tag, err)
			}
			if err := s.Close(); err != nil {
				t.Errorf("sender %d: %v", tag, err)
			}
		})
	}
	b := NewInbox()
	for ended := 0; ended < senders; {
		var err error
		if poll {
			err = pollOnce(ctx, t, r, b)
		} else {
			var m ipc.Message
			if m, err = r.Receive(ctx); err == nil {
				err = b.Check(&m)
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

func pollOnce(ctx context.Context, t *testing.T, r *ipc.Receiver, b *Inbox) error {
	if err := r.Wait(ctx); err != nil {
		return err
	}
	_, err := r.Poll(func(m *ipc.Message) {
		if err := b.Check(m); err != nil {
			t.Error(err)
		}
	})
	return err
}

// Messages that are held keep their data, whatever comes after them and in whichever
// order they are released.
func testHeldMessages(t *testing.T, open Opener) {
	rng, w := seed.Rand(t), open(t)
	r := w.listen(t, "held")
	s := w.dial(t, "held")
	most := 100
	if w.Far { // whoever holds all blocks of a sender that can't say that it is full gets nothing any more
		most = 30
	}
	b, held := NewInbox(), []ipc.Message{}
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
		m, err := r.Receive(Within(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Check(&m); err != nil {
			t.Fatal(err)
		}
		held = append(held, m)
		for len(held) > most+rng.IntN(most/2) {
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

// The end of a context ends a wait, also of one who sleeps, and what was to be sent
// was not.
func testContextEndsWaiting(t *testing.T, open Opener) {
	w := open(t)
	r := Listen(t, "ctx", ipc.ListenConfig{Dir: w.Receivers, Wait: shm.ModePark})
	cfg := Small(w.Senders)
	cfg.Wait = shm.ModePark
	s := Dial(t, w.Prefix+"ctx", cfg)
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
	x := []byte("x")
	for range 20 {
		ctx, cancel := context.WithCancel(context.Background())
		go cancel()
		err := s.Send(ctx, x)
		switch {
		case err == nil && w.Far: // whoever passes messages on has made room
			sent++
		case !errors.Is(err, context.Canceled):
			t.Fatalf("sent: %v", err)
		}
		n, err := s.SendBatch(ctx, [][]byte{x, x})
		if sent += n; n != 0 && !w.Far || n < 2 && !errors.Is(err, context.Canceled) {
			t.Fatalf("sent %d: %v", n, err)
		}
	}
	for range sent {
		Receive(t, r, "x")
	}
	if err := s.TrySend([]byte("after")); err != nil {
		t.Fatal(err)
	}
	Receive(t, r, "after")
}

// A sender that closes has sent what it has sent, blocks included.
func testSenderCloses(t *testing.T, open Opener) {
	w := open(t)
	r := w.listen(t, "closing")
	s := w.dial(t, "closing")
	large := make([]byte, 10_000)
	fill(large, 1, 2)
	for _, data := range [][]byte{[]byte("small"), large} {
		if err := s.Send(Within(t), data); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.TrySend(nil); !errors.Is(err, ipc.ErrClosed) {
		t.Errorf("sending after Close: %v", err)
	}
	Receive(t, r, "small")
	m, err := r.Receive(Within(t))
	if err != nil {
		t.Fatal(err)
	}
	if end := ReceiveEnd(t, r, ipc.ErrClosed); end.PID != os.Getpid() && !w.Far || end.Sender != 0 {
		t.Errorf("%+v", end)
	}
	if !slices.Equal(m.Data, large) || Mappings(t) < 2 && !w.Far {
		t.Errorf("the block of a closed sender changed while it was read; %d mappings", Mappings(t))
	}
	r.Release(&m)
	if n := Mappings(t); n != 1 && !w.Far {
		t.Errorf("%d Mappings after the last message of a closed sender, want the board alone", n)
	}
}

// A receiver that closes ends its senders, also one that sleeps while there is no room.
func testReceiverCloses(t *testing.T, open Opener) {
	w := open(t)
	r := w.listen(t, "closing")
	cfg := Small(w.Senders)
	cfg.Wait = shm.ModePark
	s, idle := Dial(t, w.Prefix+"closing", cfg), Dial(t, w.Prefix+"closing", cfg)
	done := make(chan error, 1)
	go func() {
		for {
			if err := s.Send(context.Background(), make([]byte, 2000)); err != nil {
				done <- err
				return
			}
		}
	}()
	m, err := r.Receive(Within(t)) // the sender is under way
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
	// Of a receiver far away it gets to know a moment later, until when its ring may be full.
	Eventually(t, "the idle sender notices", func() bool { return errors.Is(idle.TrySend(nil), ipc.ErrClosed) })
	for range 2 {
		if _, err := r.Receive(Within(t)); !errors.Is(err, ipc.ErrClosed) {
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
