// SPDX-License-Identifier: Apache-2.0

package ipc_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/disco-sim/disco/ipc"
	"github.com/disco-sim/disco/shm"
)

// However many connect and say nothing, whoever says its hello is let in at once; and
// the silent ones are gone soon, with a word where there is one to say.
func TestSilentConnections(t *testing.T) {
	dir := newDir(t)
	r := mustListen(t, "silent", ipc.ListenConfig{Dir: dir})
	var silent []*net.UnixConn
	for range 200 {
		silent = append(silent, connectRaw(t, dir, "silent"))
	}
	began := time.Now()
	s := mustDial(t, "silent", small(dir))
	if took := time.Since(began); took > 5*time.Second { // 10 s and refused, once
		t.Errorf("the dial took %v", took)
	}
	if err := s.Send(within(t), []byte("let in")); err != nil {
		t.Fatal(err)
	}
	receive(t, r, "let in")
	turned := 0
	for i, conn := range silent {
		if err := conn.SetReadDeadline(time.Now().Add(watchdog)); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, 512)
		n, err := conn.Read(answer)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			t.Fatalf("silent connection %d of %d is still open", i, len(silent))
		case n == 256 && answer[12] == 2:
			turned++
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the last silent connection was open for %v", took)
	}
	if turned < 100 {
		t.Errorf("%d of 200 silent connections were told that the receiver is busy, want the 136 that were too many",
			turned)
	}
	eventually(t, "all are counted", func() bool { return r.Stats().Refused == 200 })
}

// promised reports whether Dial may return the error.
func promised(err error) bool {
	for _, kind := range []error{ipc.ErrNoReceiver, ipc.ErrBusy, ipc.ErrRefused, ipc.ErrNoAnswer, ipc.ErrProtocol} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// A receiver that opens and closes while many dial: every handshake that fails does so with one of the promised
// kinds, and patient ones succeed.
func TestFailedMeetingsAreTyped(t *testing.T) {
	dir := newDir(t)
	rounds := 60
	if testing.Short() {
		rounds = 15
	}
	var over atomic.Bool
	var all sync.WaitGroup
	var failed, met atomic.Int64
	for range 8 {
		all.Go(func() {
			for !over.Load() {
				s, err := ipc.Dial(context.Background(), "unsteady",
					ipc.DialConfig{Dir: dir, RingBytes: 4096, InlineMax: 256, NoPool: true})
				if err == nil {
					met.Add(1)
					_ = s.Close()
				} else if failed.Add(1); !promised(err) {
					t.Errorf("%v: none of the promised kinds", err)
				}
			}
		})
	}
	for range rounds {
		r, err := ipc.Listen("unsteady", ipc.ListenConfig{Dir: dir, SendersMax: 3})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Millisecond)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	over.Store(true)
	all.Wait()
	if failed.Load() == 0 || met.Load() == 0 {
		t.Errorf("%d handshakes failed and %d didn't: the test does nothing", failed.Load(), met.Load())
	}
}

// fakeListener lets each connection have what it gets; the receiver's part isn't played.
func fakeListener(t *testing.T, dir, name string, serve func(n int, conn *net.UnixConn)) *net.UnixListener {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	socket, err := net.ListenUnix("unixpacket",
		&net.UnixAddr{Name: filepath.Join(dir, name+".sock"), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	go func() {
		for n := 0; ; n++ {
			conn, err := socket.AcceptUnix()
			if err != nil {
				return
			}
			serve(n, conn)
		}
	}()
	return socket
}

func busyPacket() []byte {
	b := make([]byte, 256)
	copy(b, "discoipc")
	b[8], b[12] = 1, 2
	copy(b[40:], "come back")
	return b
}

// In whatever way the other side breaks off a handshake, the dialer gets a kind that says so, and the words if
// there were any.
func TestBrokenMeetings(t *testing.T) {
	for what, c := range map[string]struct {
		serve func(n int, conn *net.UnixConn)
		want  error
	}{
		"closes at once": {func(_ int, conn *net.UnixConn) { conn.Close() }, ipc.ErrNoAnswer},
		"closes after a while": {func(_ int, conn *net.UnixConn) { time.Sleep(20 * time.Millisecond); conn.Close() },
			ipc.ErrNoAnswer},
		"reads and closes": {func(_ int, conn *net.UnixConn) { conn.Read(make([]byte, 512)); conn.Close() },
			ipc.ErrNoAnswer},
		"is busy and reads not": {func(_ int, conn *net.UnixConn) { conn.Write(busyPacket()); conn.Close() },
			ipc.ErrBusy},
		"is busy and reads not, 2": {func(_ int, conn *net.UnixConn) {
			time.Sleep(20 * time.Millisecond)
			conn.Write(busyPacket())
			conn.Close()
		}, ipc.ErrBusy},
		"is busy": {func(_ int, conn *net.UnixConn) {
			conn.Read(make([]byte, 512))
			conn.Write(busyPacket())
			conn.Close()
		}, ipc.ErrBusy},
	} {
		for range 5 {
			dir := newDir(t)
			socket := fakeListener(t, dir, "fake", c.serve)
			_, err := ipc.Dial(within(t), "fake", small(dir))
			if !errors.Is(err, c.want) || errors.Is(err, ipc.ErrBusy) != strings.Contains(err.Error(), "come back") {
				t.Errorf("%s: %v, want %v", what, err, c.want)
			}
			socket.Close()
		}
	}
}

// A patient Dial waits through overload, refusals for now and receivers that die in the
// middle, but not longer than its context lasts, and not where waiting is of no use.
func TestRetry(t *testing.T) {
	dir := newDir(t)
	r := mustListen(t, "full", ipc.ListenConfig{Dir: dir, SendersMax: 1})
	first := mustDial(t, "full", small(dir))
	cfg := small(dir)
	cfg.Retry = true
	short, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := ipc.Dial(short, "full", cfg); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no admission until the context ends: %v", err)
	}
	if _, err := ipc.Dial(within(t), "full", small(dir)); !errors.Is(err, ipc.ErrBusy) ||
		!errors.Is(err, ipc.ErrRefused) {
		t.Errorf("not patient: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		s, err := ipc.Dial(within(t), "full", cfg)
		if err == nil {
			err = s.Close()
		}
		done <- err
	}()
	time.Sleep(50 * time.Millisecond)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	receiveEnd(t, r, ipc.ErrClosed) // the place is free
	if err := <-done; err != nil {
		t.Errorf("patient: %v", err)
	}

	var calls atomic.Int64
	fakeListener(t, dir, "unsteady", func(n int, conn *net.UnixConn) {
		calls.Store(int64(n) + 1)
		switch n {
		case 0:
			conn.Close()
		case 1:
			conn.Write(busyPacket())
			conn.Close()
		default:
			conn.Read(make([]byte, 512))
			b := busyPacket()
			b[12] = 1 // for good
			conn.Write(b)
			conn.Close()
		}
	})
	if _, err := ipc.Dial(within(t), "unsteady", cfg); !errors.Is(err, ipc.ErrRefused) || errors.Is(err, ipc.ErrBusy) ||
		calls.Load() != 3 {
		t.Errorf("refused for good at call %d: %v", calls.Load(), err)
	}
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	fakeListener(t, dir, "slow", func(n int, conn *net.UnixConn) {
		if n == 0 {
			conn.Write(busyPacket())
		} else {
			conn.Read(make([]byte, 512))
			cancel()
			conn.Read(make([]byte, 512)) // until the sender has gone
		}
		conn.Close()
	})
	if _, err := ipc.Dial(ctx, "slow", cfg); !errors.Is(err, context.Canceled) || !errors.Is(err, ipc.ErrBusy) {
		t.Errorf("cut short behind a refusal: %v, want that as well", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if n := mappings(t); n != 0 {
		t.Errorf("%d mappings left", n)
	}
}

// The memory of all senders together is charged before it is mapped.
func TestMemoryBudget(t *testing.T) {
	dir := newDir(t)
	r := mustListen(t, "budget", ipc.ListenConfig{Dir: dir, BytesMax: 500 << 10})
	s := mustDial(t, "budget", small(dir)) // 256 KiB and a little
	if _, err := ipc.Dial(within(t), "budget", small(dir)); !errors.Is(err, ipc.ErrBusy) ||
		!strings.Contains(err.Error(), "BytesMax") {
		t.Errorf("the second: %v", err)
	}
	big := small(dir)
	big.PoolBytes = 1 << 20
	if _, err := ipc.Dial(within(t), "budget", big); !errors.Is(err, ipc.ErrRefused) || errors.Is(err, ipc.ErrBusy) {
		t.Errorf("more than all: %v", err)
	}
	none := small(dir)
	none.NoPool = true
	mustDial(t, "budget", none)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	receiveEnd(t, r, ipc.ErrClosed)
	mustDial(t, "budget", small(dir))
}

// A sparse gigabyte is refused, and no memory is provided for it.
func TestSparseMemory(t *testing.T) {
	dir := newDir(t)
	mustListen(t, "sparse", ipc.ListenConfig{Dir: dir, PoolBytesMax: 2 << 30})
	mem, pool := goodSegments(t)
	fd, err := unix.MemfdCreate("sparse", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "sparse")
	defer file.Close()
	const size = 1 << 30
	header := make([]byte, shm.HeaderBytes)
	if _, err := pool.File().ReadAt(header, 0); err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	put := func(at int, v uint64) {
		for i := range 8 {
			header[at+i] = byte(v >> (8 * i))
		}
	}
	put(24, uint64(size))
	put(40, uint64(size-page))
	for _, err := range []error{file.Truncate(size), func() error { _, err := file.WriteAt(header, 0); return err }()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS,
		unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		t.Fatal(err)
	}
	packet := hello(mem, pool)
	for i := range 8 {
		packet[24+i] = byte(uint64(size-page) >> (8 * i))
	}
	conn := connectRaw(t, dir, "sparse")
	if _, _, err := conn.WriteMsgUnix(packet, syscall.UnixRights(int(mem.File().Fd()), fd), nil); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 512)
	n, err := conn.Read(answer)
	if n != 256 || answer[12] != 1 || !strings.Contains(string(answer[40:n]), "memory not reserved") {
		t.Errorf("answered %d bytes, %v, %q", n, err, answer[:n])
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Blocks*512 > 1<<20 {
		t.Errorf("%v, %d bytes of it are filled", err, st.Blocks*512)
	}
}
