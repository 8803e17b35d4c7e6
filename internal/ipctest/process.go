// SPDX-License-Identifier: Apache-2.0

package ipctest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/ipc"
)

// childVariable names the function that a process started by startChild runs.
const childVariable = "DISCO_IPC_TEST_CHILD"

// children are the other processes of the tests below: the same binary, started again with the directory of the sockets
// and what it listens or dials as, as its first words.
var children = map[string]func(args []string) error{
	"send":   childSend,
	"flood":  childFlood,
	"listen": childListen,
	"hoard":  childHoard,
}

// Child is to be called first in TestMain. It ends the process if that is one of the suite's.
func Child() {
	words := strings.Fields(os.Getenv(childVariable))
	if len(words) == 0 {
		return
	}
	if err := children[words[0]](words[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// childSend sends so many messages of all sizes, closes and ends.
func childSend(args []string) error {
	tag, err := strconv.ParseUint(args[2], 10, 64)
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	cfg := Small(args[0])
	cfg.Retry = true
	s, err := ipc.Dial(ctx, args[1], cfg)
	if err != nil {
		return err
	}
	return errors.Join(SendMany(ctx, s, tag, count), s.Close())
}

// childFlood sends until it is killed.
func childFlood(args []string) error {
	tag, err := strconv.ParseUint(args[2], 10, 64)
	if err != nil {
		return err
	}
	s, err := ipc.Dial(context.Background(), args[1], Small(args[0]))
	if err != nil {
		return err
	}
	return SendMany(context.Background(), s, tag, 1<<40)
}

// childListen receives until its only sender has closed, and answers with an exit.
func childListen(args []string) error {
	r, err := ipc.Listen(args[1], ipc.ListenConfig{Dir: args[0]})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	b := NewInbox()
	for {
		m, err := r.Receive(ctx)
		if errors.Is(err, ipc.ErrClosed) {
			break
		}
		if err != nil {
			return err
		}
		if err := b.Check(&m); err != nil {
			return err
		}
		r.Release(&m)
	}
	if got := fmt.Sprint(b.sum()); got != args[2] {
		return fmt.Errorf("%s messages, want %s", got, args[2])
	}
	return r.Close()
}

// childHoard receives some blocks, never releases them, and reads no more.
func childHoard(args []string) error {
	r, err := ipc.Listen(args[1], ipc.ListenConfig{Dir: args[0]})
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
func testProcessesSend(t *testing.T, open Opener) {
	w, count := open(t), 2000
	var others []*exec.Cmd
	r := w.listen(t, "meet")
	for tag := range 2 {
		others = append(others, startChild(t, "send", w.Senders, w.Prefix+"meet", strconv.Itoa(tag),
			strconv.Itoa(count)))
	}
	b := NewInbox()
	for ended := 0; ended < len(others); {
		if err := pollOnce(Within(t), t, r, b); errors.Is(err, ipc.ErrClosed) {
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
func testProcessReceives(t *testing.T, open Opener) {
	w, count := open(t), 2000
	other := startChild(t, "listen", w.Receivers, "meet", strconv.Itoa(count))
	cfg := Small(w.Senders)
	cfg.Retry = true
	s := Dial(t, w.Prefix+"meet", cfg)
	if err := SendMany(Within(t), s, 5, count); err != nil {
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
func testSenderIsKilled(t *testing.T, open Opener) {
	w := open(t)
	r := w.listen(t, "meet")
	victim := startChild(t, "flood", w.Senders, w.Prefix+"meet", "1")
	b, held, got := NewInbox(), []ipc.Message{}, 0
	for ; len(held) < 3 || got < 200; got++ {
		m, err := r.Receive(Within(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Check(&m); err != nil {
			t.Fatal(err)
		}
		if len(m.Data) > 256 && len(held) < 3 {
			held = append(held, m)
		} else {
			r.Release(&m)
		}
	}
	good := w.dial(t, "meet")
	kill(t, victim)
	var end *ipc.SenderError
	for end == nil {
		m, err := r.Receive(Within(t))
		if err == nil {
			if err := b.Check(&m); err != nil {
				t.Fatal(err)
			}
			r.Release(&m)
		} else if !errors.As(err, &end) || !errors.Is(err, ipc.ErrPeerDead) {
			t.Fatalf("%v, want ErrPeerDead", err)
		}
	}
	if end.Sender != 0 || end.PID != victim.Process.Pid && !w.Far {
		t.Errorf("%+v, want sender 0, process %d", end, victim.Process.Pid)
	}
	if st := r.Stats(); st.Died != 1 || st.Senders != 1 || st.Leases != 3 {
		t.Errorf("%+v", st)
	}
	for range 100 {
		if err := good.Send(Within(t), []byte("go on")); err != nil {
			t.Fatal(err)
		}
		Receive(t, r, "go on")
	}
	before := Mappings(t)
	for i := range held {
		again := NewInbox()
		again.tags[0], again.next[0] = b.tags[0], held[i].Number
		if err := again.Check(&held[i]); err != nil {
			t.Errorf("a block of the dead sender: %v", err)
		}
		r.Release(&held[i])
	}
	if n := Mappings(t); n != before-2 && !w.Far {
		t.Errorf("%d Mappings before the last block was released and %d after, want two less", before, n)
	}
	if st := r.Stats(); st.Leases != 0 {
		t.Errorf("%+v", st)
	}
}

// The receiver is killed while it holds blocks and the sender sleeps for want of room.
// The sender gets an error and all its blocks back, and the name is free for the next.
func testReceiverIsKilled(t *testing.T, open Opener) {
	w := open(t)
	victim := startChild(t, "hoard", w.Receivers, "meet")
	cfg := Small(w.Senders)
	cfg.Retry = true
	s := Dial(t, w.Prefix+"meet", cfg)
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
	case <-Within(t).Done():
		t.Fatal("never full")
	}
	kill(t, victim)
	select {
	case err := <-done:
		if !errors.Is(err, ipc.ErrPeerDead) {
			t.Errorf("%v, want ErrPeerDead", err)
		}
	case <-Within(t).Done():
		t.Fatal("the death of the receiver was never noticed")
	}
	if st := s.Stats(); st.Pool.Total.InFlight != 0 || st.Pool.Total.Reclaimed == 0 && !w.Far {
		t.Errorf("blocks of the dead receiver: %+v", st.Pool.Total)
	}
	if err := s.TrySend(nil); !errors.Is(err, ipc.ErrPeerDead) {
		t.Errorf("sending again: %v", err)
	}
	if _, err := ipc.Dial(Within(t), w.Prefix+"meet", Small(w.Senders)); !errors.Is(err, ipc.ErrNoReceiver) {
		t.Errorf("dialing the dead: %v", err)
	}
	r := w.listen(t, "meet")
	next := w.dial(t, "meet")
	if err := next.Send(Within(t), []byte("again")); err != nil {
		t.Fatal(err)
	}
	Receive(t, r, "again")
}

// startChild runs this binary again, as one of the children.
func startChild(t testing.TB, words ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+strings.Join(words, " "))
	cmd.Stderr = &strings.Builder{}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		if t.Failed() {
			t.Logf("%v: %v\n%s", words, cmd.ProcessState, cmd.Stderr)
		}
	})
	return cmd
}
