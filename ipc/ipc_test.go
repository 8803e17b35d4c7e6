// SPDX-License-Identifier: Apache-2.0

package ipc_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/ipctest"
	"github.com/disco-sim/disco/ipc"
	"github.com/disco-sim/disco/shm"
)

// The whole suite, on one machine.
func TestLocal(t *testing.T) { ipctest.Run(t, ipctest.Local) }

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

// The end of a context ends each wait with it, also where earlier waits had the same one, or others.
func TestContextOfManyWaits(t *testing.T) {
	dir := ipctest.NewDir(t)
	r := ipctest.Listen(t, "waits", ipc.ListenConfig{Dir: dir, Wait: shm.ModePark})
	s := ipctest.Dial(t, "waits", ipctest.Small(dir))
	asleep := func() { time.Sleep(2 * time.Millisecond) } // most likely
	for range 3 {
		first, end := context.WithCancel(context.Background())
		for n := range 8 {
			sent := make(chan error, 1)
			go func() {
				asleep()
				sent <- s.Send(ipctest.Within(t), []byte("on"))
			}()
			ctx := first
			if n == 3 {
				ctx = ipctest.Within(t)
			}
			m, err := r.Receive(ctx)
			if err = errors.Join(err, <-sent); err != nil {
				t.Fatal(err)
			}
			r.Release(&m)
		}
		go func() {
			asleep()
			end()
		}()
		if _, err := r.Receive(first); !errors.Is(err, context.Canceled) {
			t.Fatalf("%v, want the end of the context", err)
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
