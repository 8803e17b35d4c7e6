// SPDX-License-Identifier: Apache-2.0

package ipc_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/disco-sim/disco/ipc"
)

// children are the other processes of the tests below: this same binary, started again
// with the directory of the sockets as its first word.
var children = map[string]func(args []string) error{
	"send":   childSend,
	"flood":  childFlood,
	"listen": childListen,
	"hoard":  childHoard,
}

// childSend sends so many messages of all sizes, closes and ends.
func childSend(args []string) error {
	tag, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), watchdog)
	defer cancel()
	cfg := small(args[0])
	cfg.Retry = true
	s, err := ipc.Dial(ctx, "meet", cfg)
	if err != nil {
		return err
	}
	return errors.Join(sendMany(ctx, s, tag, count), s.Close())
}

// childFlood sends until it is killed.
func childFlood(args []string) error {
	tag, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	s, err := ipc.Dial(context.Background(), "meet", small(args[0]))
	if err != nil {
		return err
	}
	return sendMany(context.Background(), s, tag, 1<<40)
}

// childListen receives until its only sender has closed, and answers with an exit.
func childListen(args []string) error {
	r, err := ipc.Listen("meet", ipc.ListenConfig{Dir: args[0]})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), watchdog)
	defer cancel()
	b := newInbox()
	for {
		m, err := r.Receive(ctx)
		if errors.Is(err, ipc.ErrClosed) {
			break
		}
		if err != nil {
			return err
		}
		if err := b.check(&m); err != nil {
			return err
		}
		r.Release(&m)
	}
	if got := fmt.Sprint(b.sum()); got != args[1] {
		return fmt.Errorf("%s messages, want %s", got, args[1])
	}
	return r.Close()
}

// childHoard receives some blocks, never releases them, and reads no more.
func childHoard(args []string) error {
	r, err := ipc.Listen("meet", ipc.ListenConfig{Dir: args[0]})
	if err != nil {
		return err
	}
	for held := 0; held < 3; {
		m, err := r.Receive(context.Background())
		if err != nil {
			return err
		}
		if len(m.Data) >= 1000 {
			held++
		}
	}
	for { // until it is killed; select {} would end as a deadlock
		if _, err := os.Stdin.Stat(); err != nil {
			return err
		}
		time.Sleep(time.Hour)
	}
}

func mustEnd(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the other process: %v", err)
	}
}

// kill ends a process as kill -9 does.
func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
}

// Three processes: two unrelated ones send to this one, which they find by name.
func TestProcessesSend(t *testing.T) {
	dir, count := newDir(t), 2000
	var others []*exec.Cmd
	r := mustListen(t, "meet", ipc.ListenConfig{Dir: dir})
	for tag := range 2 {
		others = append(others, startChild(t, "send", dir, strconv.Itoa(tag), strconv.Itoa(count)))
	}
	b := newInbox()
	for ended := 0; ended < len(others); {
		if err := pollOnce(within(t), t, r, b); errors.Is(err, ipc.ErrClosed) {
			ended++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, cmd := range others {
		mustEnd(t, cmd)
	}
	if b.sum() != uint64(len(others)*count) {
		t.Errorf("%d messages, want %d", b.sum(), len(others)*count)
	}
}

// The receiver is the other process, and starts later.
func TestProcessReceives(t *testing.T) {
	dir, count := newDir(t), 2000
	other := startChild(t, "listen", dir, strconv.Itoa(count))
	cfg := small(dir)
	cfg.Retry = true
	s := mustDial(t, "meet", cfg)
	if err := sendMany(within(t), s, 5, count); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	mustEnd(t, other)
}

// A sender is killed in the midst of sending, while the receiver holds some of its
// blocks. The receiver gets what was visible, whole, and one error; the blocks it holds
// stay readable, and their memory goes with the last of them; the other sender goes on.
func TestSenderIsKilled(t *testing.T) {
	dir := newDir(t)
	r := mustListen(t, "meet", ipc.ListenConfig{Dir: dir})
	victim := startChild(t, "flood", dir, "1")
	b, held, got := newInbox(), []ipc.Message{}, 0
	for ; len(held) < 3 || got < 200; got++ {
		m, err := r.Receive(within(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.check(&m); err != nil {
			t.Fatal(err)
		}
		if len(m.Data) > 256 && len(held) < 3 {
			held = append(held, m)
		} else {
			r.Release(&m)
		}
	}
	good := mustDial(t, "meet", small(dir))
	kill(t, victim)
	var end *ipc.SenderError
	for end == nil {
		m, err := r.Receive(within(t))
		if err == nil {
			if err := b.check(&m); err != nil {
				t.Fatal(err)
			}
			r.Release(&m)
		} else if !errors.As(err, &end) || !errors.Is(err, ipc.ErrPeerDead) {
			t.Fatalf("%v, want ErrPeerDead", err)
		}
	}
	if end.Sender != 0 || end.PID != victim.Process.Pid {
		t.Errorf("%+v, want sender 0, process %d", end, victim.Process.Pid)
	}
	if st := r.Stats(); st.Died != 1 || st.Senders != 1 || st.Leases != 3 {
		t.Errorf("%+v", st)
	}
	for range 100 {
		if err := good.Send(within(t), []byte("go on")); err != nil {
			t.Fatal(err)
		}
		receive(t, r, "go on")
	}
	before := mappings(t)
	for i := range held {
		again := newInbox()
		again.tags[0], again.next[0] = b.tags[0], held[i].Number
		if err := again.check(&held[i]); err != nil {
			t.Errorf("a block of the dead sender: %v", err)
		}
		r.Release(&held[i])
	}
	if n := mappings(t); n != before-2 {
		t.Errorf("%d mappings before the last block was released and %d after, want two less", before, n)
	}
	if st := r.Stats(); st.Leases != 0 {
		t.Errorf("%+v", st)
	}
}

// The receiver is killed while it holds blocks and the sender sleeps for want of room.
// The sender gets an error and all its blocks back, and the name is free for the next.
func TestReceiverIsKilled(t *testing.T) {
	dir := newDir(t)
	victim := startChild(t, "hoard", dir)
	cfg := small(dir)
	cfg.Retry = true
	s := mustDial(t, "meet", cfg)
	done := make(chan error, 1)
	full := make(chan struct{})
	go func() {
		data := make([]byte, 1000)
		for {
			if err := s.TrySend(data); err == ipc.ErrFull {
				break
			} else if err != nil {
				done <- err
				return
			}
		}
		close(full)
		for {
			if err := s.Send(context.Background(), data); err != nil {
				done <- err
				return
			}
		}
	}()
	select {
	case <-full:
	case err := <-done:
		t.Fatalf("before the receiver was killed: %v", err)
	case <-within(t).Done():
		t.Fatal("never full")
	}
	kill(t, victim)
	select {
	case err := <-done:
		if !errors.Is(err, ipc.ErrPeerDead) {
			t.Errorf("%v, want ErrPeerDead", err)
		}
	case <-within(t).Done():
		t.Fatal("the death of the receiver was never noticed")
	}
	if st := s.Stats(); st.Pool.Total.InFlight != 0 || st.Pool.Total.Reclaimed == 0 {
		t.Errorf("blocks of the dead receiver: %+v", st.Pool.Total)
	}
	if err := s.TrySend(nil); !errors.Is(err, ipc.ErrPeerDead) {
		t.Errorf("sending again: %v", err)
	}
	if _, err := ipc.Dial(within(t), "meet", small(dir)); !errors.Is(err, ipc.ErrNoReceiver) {
		t.Errorf("dialing the dead: %v", err)
	}
	r := mustListen(t, "meet", ipc.ListenConfig{Dir: dir})
	next := mustDial(t, "meet", small(dir))
	if err := next.Send(within(t), []byte("again")); err != nil {
		t.Fatal(err)
	}
	receive(t, r, "again")
}
