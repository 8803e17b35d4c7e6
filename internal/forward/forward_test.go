// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/seed"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// echo is a server that sends back what it gets.
func echo(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 64)
				for n, err := c.Read(b); err == nil; n, err = c.Read(b) {
					_, _ = c.Write(b[:n])
				}
			}()
		}
	}()
	return l.Addr().String()
}

// answered sends a byte and tells whether the answer came within d.
func answered(t *testing.T, c net.Conn, d time.Duration) bool {
	t.Helper()
	return passes(t, c, c, d)
}

// TestCuts: traffic passes, is held back by a cut and comes after it; a reset ends connections.
func TestCuts(t *testing.T) {
	t.Parallel()
	p, err := New("", echo(t))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !answered(t, c, time.Minute) {
		t.Fatal("no answer")
	}
	p.Isolate()
	if answered(t, c, 50*time.Millisecond) {
		t.Error("an answer through a cut")
	}
	p.Heal()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Errorf("what was held back didn't come: %v", err)
	}
	if !answered(t, c, time.Minute) {
		t.Error("no answer after the cut")
	}
	p.Reset()
	if answered(t, c, time.Minute) {
		t.Error("an answer after the reset")
	}
	p.Isolate() // Close ends it with connections that wait
	if late, err := net.Dial("tcp", p.Addr()); err == nil {
		defer late.Close()
	}
}

// TestBytes: each byte is counted once, in both directions.
func TestBytes(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.CopyN(io.Discard, c, 1000)
		_, _ = c.Write(make([]byte, 100_000))
	}()
	p, err := New("", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, c); n != 100_000 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if n := p.Bytes(); n != 101_000 {
		t.Errorf("%d bytes were counted, want 101000", n)
	}
}

// What passes is what was sent, both ways at once, whatever happens to the network meanwhile.
func TestNothingChanges(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	f, err := New("", echo(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := net.Dial("tcp", f.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sent := make([]byte, 1<<20)
	for i := range sent {
		sent[i] = byte(r.Uint32())
	}
	steps := rand.New(rand.NewPCG(r.Uint64(), 1))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for at := 0; at < len(sent); {
			end := min(len(sent), at+1+steps.IntN(1<<steps.IntN(17)))
			if _, err := c.Write(sent[at:end]); err != nil {
				t.Error(err)
				return
			}
			at = end
			f.Set(Traffic{Delay: time.Duration(steps.IntN(3)) * 100 * time.Microsecond, Loss: steps.Float64() * 0.01,
				Resend: time.Millisecond, Bytewise: steps.IntN(8) == 0,
				Held: [2]bool{steps.IntN(4) == 0, steps.IntN(4) == 0}})
		}
		f.Heal()
	}()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	got := make([]byte, len(sent))
	if n, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d of %d bytes came back, the same: %v (%v)", n, len(sent), bytes.Equal(got, sent), err)
	}
	<-done
}

// A byte takes no less than the delay each way, and a lost one the time until it is sent again.
func TestDelay(t *testing.T) {
	t.Parallel()
	f, err := New("", echo(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := net.Dial("tcp", f.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, l := range []struct {
		traffic Traffic
		least   time.Duration
	}{
		{Traffic{}, 0},
		{Traffic{Delay: 300 * time.Microsecond}, 600 * time.Microsecond},
		{Traffic{Delay: 5 * time.Millisecond}, 10 * time.Millisecond},
		{Traffic{Loss: 1, Resend: 3 * time.Millisecond}, 6 * time.Millisecond},
		{Traffic{Loss: 1}, 400 * time.Millisecond},
	} {
		f.Set(l.traffic)
		began := time.Now()
		if !answered(t, c, time.Minute) {
			t.Fatalf("%+v: no answer", l.traffic)
		}
		if took := time.Since(began); took < l.least {
			t.Errorf("%+v: an answer after %v, want no less than %v", l.traffic, took, l.least)
		}
	}
}

// One direction is held back alone: the server gets the byte, its answer doesn't come.
func TestOneDirection(t *testing.T) {
	t.Parallel()
	f, err := New("", echo(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := net.Dial("tcp", f.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !answered(t, c, time.Minute) {
		t.Fatal("no answer")
	}
	before := f.Bytes()
	f.Set(Traffic{Held: [2]bool{Client: true}})
	if answered(t, c, 50*time.Millisecond) {
		t.Error("an answer though what goes to the client is held back")
	}
	for f.Bytes() != before+2 { // the server has answered
		time.Sleep(time.Millisecond)
	}
	f.Set(Traffic{Held: [2]bool{Server: true}})
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Errorf("the answer doesn't come though nothing that goes to the client is held back: %v", err)
	}
}

// A half-open connection: the side that is closed learns of it, the other doesn't, and what that sends is lost. A new
// connection passes.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, closed := range []Side{Client, Server} {
		f, err := New("", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		var ends [2][2]net.Conn // before and after
		for i := range ends {
			if i == 1 {
				f.HalfOpen(closed)
			}
			c, err := net.Dial("tcp", f.Addr())
			if err != nil {
				t.Fatal(err)
			}
			s, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			ends[i] = [2]net.Conn{Client: c, Server: s}
			if !passes(t, c, s, time.Minute) || !passes(t, s, c, time.Minute) {
				t.Error("a new connection doesn't pass")
			}
		}
		gone, open := ends[0][closed], ends[0][1-closed]
		_ = gone.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := gone.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the closed side: %v, want its end", err)
		}
		for range 3 { // a write into a closed connection succeeds once
			if _, err := open.Write(make([]byte, 100)); err != nil {
				t.Errorf("the open side: %v", err)
			}
		}
		_ = open.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := open.Read(make([]byte, 1)); err == io.EOF {
			t.Error("the open side has learnt of the end")
		}
		f.Close()
		_ = open.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := open.Read(make([]byte, 1)); err == nil {
			t.Error("the open side got a byte")
		}
		for _, e := range ends {
			e[0].Close()
			e[1].Close()
		}
	}
}

// passes tells whether a byte comes from one end to the other.
func passes(t *testing.T, from, to net.Conn, within time.Duration) bool {
	t.Helper()
	if _, err := from.Write([]byte("x")); err != nil {
		return false
	}
	_ = to.SetReadDeadline(time.Now().Add(within))
	_, err := to.Read(make([]byte, 1))
	return err == nil
}

// A reader that doesn't read holds the sender up once the queue is full, and loses nothing.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := New("", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := net.Dial("tcp", f.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f.Set(Traffic{Held: [2]bool{Server: true}})
	const total = 64 << 20
	sent := make(chan int, 1)
	_ = c.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
	go func() {
		n, _ := c.Write(make([]byte, total))
		sent <- n
	}()
	n := <-sent
	if n == total {
		t.Fatalf("%d bytes were taken while nothing passes", n)
	}
	if kept := f.Bytes(); kept > 4<<20+chunkBytes {
		t.Errorf("%d bytes are kept", kept)
	}
	c.Close()
	f.Heal()
	_ = s.SetReadDeadline(time.Now().Add(time.Minute))
	if got, err := io.Copy(io.Discard, s); int(got) != n || err != nil {
		t.Errorf("%d of %d bytes came (%v)", got, n, err)
	}
}
