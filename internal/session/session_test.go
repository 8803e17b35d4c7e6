// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/race"
	"github.com/disco-sim/disco/internal/seed"
	"github.com/disco-sim/disco/internal/session/pipetest"
)

// side is a session with what it has applied.
type side struct {
	*Session
	acked  chan struct{}
	mu     sync.Mutex
	states []State

	applied atomic.Uint64
	newest  atomic.Uint64 // highest value of a state frame
	wrong   atomic.Pointer[string]
}

// seen are the states so far.
func (s *side) seen() []State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.states)
}

// network joins two sides: each dial asks it for a connection.
type network struct {
	a, b    *side
	connect func() (dialled, awaited Conn, err error)
	wg      sync.WaitGroup
}

func config(self, peer int) Config {
	return Config{Self: self, Peer: peer, Identity: Identity{Cluster: "c", Incarnation: uint64(self + 10)},
		ConnectTimeout: 5 * time.Second, PeerTimeout: 3 * time.Second, Window: 10 * time.Second, ResendBytes: 1 << 20}
}

func newSide(t testing.TB, cfg Config) *side {
	s := &side{acked: make(chan struct{}, 1)}
	cfg.Acked = func() { notify(s.acked) }
	cfg.Changed = func(to State) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.states = append(s.states, to)
	}
	if cfg.Apply == nil {
		cfg.Apply = s.apply
	}
	var err error
	if s.Session, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	return s
}

// newNetwork starts both sides; change may be nil.
func newNetwork(t testing.TB, connect func() (Conn, Conn, error), change func(a, b *Config)) *network {
	n := &network{connect: connect}
	a, b := config(0, 1), config(1, 0)
	if change != nil {
		change(&a, &b)
	}
	ready := make(chan struct{})
	a.Dial = func(ctx context.Context) (Conn, error) {
		<-ready
		return n.dial(ctx)
	}
	n.b = newSide(t, b)
	n.a = newSide(t, a)
	close(ready)
	return n
}

func (n *network) dial(context.Context) (Conn, error) {
	x, y, err := n.connect()
	if err != nil {
		return nil, err
	}
	n.wg.Go(func() { // what a server does with a connection that comes in
		deadline := time.AfterFunc(time.Second, y.Close)
		b, err := y.Receive()
		if !deadline.Stop() || err != nil {
			y.Close()
			return
		}
		h, err := ParseHello(b)
		if err != nil {
			Refuse(y, err)
			return
		}
		_ = n.b.Accept(y, h)
	})
	return x, nil
}

// close ends both sides as they should end.
func (n *network) close(t testing.TB) {
	t.Helper()
	var wg sync.WaitGroup
	for _, s := range []*side{n.a, n.b} {
		wg.Go(func() { s.Close("") })
	}
	wg.Wait()
	n.wg.Wait()
	for _, s := range []*side{n.a, n.b} {
		if err := s.Err(); err != nil {
			t.Errorf("machine %d: %v", s.cfg.Self, err)
		}
		if text := s.wrong.Load(); text != nil {
			t.Errorf("machine %d: %s", s.cfg.Self, *text)
		}
	}
}

// bodyOf is the body of a numbered frame, of the size that it has.
func bodyOf(number uint64, b []byte) {
	for i := range b {
		b[i] = byte(number*31 + uint64(i)*7)
	}
}

func (s *side) apply(h Header, body []byte) error {
	fail := func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		s.wrong.CompareAndSwap(nil, &text)
	}
	if !h.Type.numbered() {
		s.newest.Store(max(s.newest.Load(), binary.LittleEndian.Uint64(body)))
		return nil
	}
	if n := s.applied.Load(); h.Number != n+1 || uint64(h.Lane) != h.Number {
		fail("frame %d of lane %d is applied behind %d", h.Number, h.Lane, n)
	}
	want := make([]byte, len(body))
	if bodyOf(h.Number, want); !bytes.Equal(body, want) {
		fail("frame %d has another body", h.Number)
	}
	s.applied.Add(1)
	return nil
}

// put adds frame i of a sender, which waits while the resend buffer is full.
func (s *side) put(i uint64, size int) error {
	for {
		body, ok := s.Frame(Header{Type: Control, Lane: uint32(i)}, size)
		if ok {
			bodyOf(i, body)
			return nil
		}
		if err := s.Flush(); err != nil {
			return err
		}
		<-s.acked
	}
}

// sendAll sends frames of all sizes, with state frames in between.
func (s *side) sendAll(rng *rand.Rand, frames, sizeMax int) error {
	for i := range uint64(frames) {
		size := rng.IntN(200)
		if rng.IntN(4) == 0 {
			size = rng.IntN(sizeMax)
		}
		if err := s.put(i+1, size); err != nil {
			return err
		}
		switch rng.IntN(6) {
		case 0:
			binary.LittleEndian.PutUint64(s.State(Header{Type: Credit}, 8), i+1)
		case 1, 2:
			if err := s.Flush(); err != nil {
				return err
			}
		case 3:
			time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
		}
	}
	return s.Flush()
}

// Random faults at random messages, on connections whose messages are delayed at random: each frame is applied once, in
// order, and the session ends without an error.
func TestFaults(t *testing.T) {
	runs := 40
	if testing.Short() {
		runs = 12
	}
	from := seed.Rand(t)
	for i := range runs {
		rng := rand.New(rand.NewPCG(from.Uint64(), 1))
		slow := i%4 == 3
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testFaults(t, rng, slow) })
		})
	}
}

func testFaults(t *testing.T, rng *rand.Rand, slow bool) {
	var mu sync.Mutex
	left := 6 // faults
	senders := [2]*rand.Rand{rand.New(rand.NewPCG(rng.Uint64(), 1)), rand.New(rand.NewPCG(rng.Uint64(), 1))}
	n := newNetwork(t, func() (Conn, Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		var x, y Conn
		if slow {
			x, y = newBytewise()
		} else {
			x, y = newPipe(1 + rng.IntN(8))
		}
		f := &pipetest.Faults{Rand: rand.New(rand.NewPCG(rng.Uint64(), 1)), Left: -1,
			DelayMax: time.Duration(rng.IntN(50)) * time.Millisecond}
		if left > 0 {
			left--
			f.Left, f.What = rng.IntN(40), pipetest.Ends+pipetest.Fault(rng.IntN(int(pipetest.End-pipetest.Ends)))
			if rng.IntN(4) == 0 {
				return nil, nil, errors.New("no route")
			}
		}
		a, b := pipetest.WithFaults[*Buffer](f, x, y)
		return a, b, nil
	}, func(a, b *Config) { // as long as all faults together may take
		a.ConnectTimeout, a.Window = time.Minute, time.Minute
		b.ConnectTimeout, b.Window = time.Minute, time.Minute
	})
	frames, sizeMax := 300, BodyBytesMax
	if slow {
		sizeMax = 2000
	}
	var wg sync.WaitGroup
	for i, s := range []*side{n.a, n.b} {
		wg.Go(func() {
			if err := s.sendAll(senders[i], frames, sizeMax); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	n.close(t)
	for _, s := range []*side{n.a, n.b} {
		if got := s.applied.Load(); got != uint64(frames) {
			t.Errorf("machine %d has applied %d of %d", s.cfg.Self, got, frames)
		}
	}
}

// pipes are connections without faults.
func pipes() (Conn, Conn, error) {
	a, b := newPipe(8)
	return a, b, nil
}

// A full resend buffer holds the sender until the peer acknowledges, also without a frame of its own, and until the
// session is lost.
func TestResendFull(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprint("lost ", lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var broken atomic.Bool
				var last atomic.Pointer[pipe]
				n := newNetwork(t, func() (Conn, Conn, error) {
					if broken.Load() {
						return nil, nil, errors.New("no route")
					}
					a, b := newPipe(8)
					last.Store(a)
					return a, b, nil
				}, nil)
				synctest.Wait()
				broken.Store(true)
				last.Load().Close()
				synctest.Wait()
				i, full := uint64(0), false
				for ; !full; i++ {
					body, ok := n.a.Frame(Header{Type: Control, Lane: uint32(i + 1)}, 10_000)
					if full = !ok; ok {
						bodyOf(i+1, body)
					}
				}
				i--
				if kept := int(i) * 10_000; kept < 1<<19 || kept > 1<<20 {
					t.Errorf("full with %d bytes", kept)
				}
				if err := n.a.Flush(); err != nil {
					t.Error(err)
				}
				began := time.Now()
				if !lost {
					time.AfterFunc(5*time.Second, func() { broken.Store(false) })
				}
				<-n.a.acked
				waited := time.Since(began)
				err := errors.Join(n.a.put(i+1, 10_000), n.a.Flush())
				gone := (*LostError)(nil)
				if !lost && (err != nil || waited < 5*time.Second || waited > 7*time.Second) {
					t.Errorf("%v after %v", err, waited)
				}
				if lost && (!errors.As(err, &gone) || waited < 9*time.Second || waited > 11*time.Second) {
					t.Errorf("%v after %v", err, waited)
				}
				if !lost {
					n.close(t)
					if got := n.b.applied.Load(); got != i+1 {
						t.Errorf("%d of %d applied", got, i+1)
					}
					return
				}
				for _, part := range []string{"machine 0 has lost machine 1 (express)", "10s", "no route"} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%q isn't in %q", part, err)
					}
				}
				n.a.Close("")
				n.b.Close("over")
				n.wg.Wait()
				if all := n.a.seen(); all[len(all)-1] != Lost {
					t.Errorf("states %v", n.a.seen())
				}
			})
		})
	}
}

// hollow answers hellos, sends pings, and takes messages in without acknowledging any.
func hollow(context.Context) (Conn, error) {
	x, y := newPipe(8)
	go func() {
		b, _ := y.Receive()
		h, _ := ParseHello(b)
		h.From, h.To, h.Incarnation, h.Peer = 1, 0, 11, h.Incarnation
		h.Applied = 0
		out := new(pool).get(HeaderBytes + helloBytes)
		h.greeting(welcome, out.data)
		err := y.Send(out)
		go func() {
			for err := error(nil); err == nil; _, err = y.Receive() {
			}
		}()
		for ; err == nil; time.Sleep(time.Second) {
			ping := new(pool).get(HeaderBytes + 8)
			Header{Type: Ping}.put(ping.data, 8)
			err = y.Send(ping)
		}
	}()
	return x, nil
}

// A peer that acknowledges nothing is given up, and so are one that takes connections and says nothing, and one that
// takes none. A session without a reason to end waits for the peer to close, but not for ever.
func TestGivenUp(t *testing.T) {
	mute := func(context.Context) (Conn, error) {
		x, _ := newPipe(8)
		return x, nil
	}
	none := func(ctx context.Context) (Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for _, c := range []struct {
		name  string
		dial  func(context.Context) (Conn, error)
		after time.Duration
		want  string
	}{
		{"acknowledges nothing", hollow, 26 * time.Second, "acknowledges nothing"},
		{"answers nothing", mute, 5 * time.Second, "machine 0 has lost machine 1"},
		{"can't be dialled", none, 5 * time.Second, "deadline exceeded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := config(0, 1)
				cfg.Dial = c.dial
				began := time.Now()
				s := newSide(t, cfg)
				if err := s.put(1, 100); err != nil {
					t.Fatal(err)
				}
				err := s.Flush()
				for ; err == nil; err = s.Err() {
					time.Sleep(100 * time.Millisecond)
				}
				took := time.Since(began)
				if lost := (*LostError)(nil); !errors.As(err, &lost) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("found %v, want %q", err, c.want)
				}
				if took < c.after-time.Second || took > c.after+time.Second {
					t.Errorf("after %v, want %v", took, c.after)
				}
				if _, ok := s.Frame(Header{Type: Control}, 1); ok {
					t.Error("there is room after the end")
				}
				s.Close("")
				time.Sleep(2 * time.Second) // until hollow has noticed
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		cfg := config(0, 1)
		cfg.Dial = hollow
		began := time.Now()
		s := newSide(t, cfg)
		s.Close("")
		if took := time.Since(began); s.Err() != nil || took < 12*time.Second || took > 14*time.Second {
			t.Errorf("closed after %v: %v", took, s.Err())
		}
		time.Sleep(2 * time.Second)
	})
}

// A hello with a lower attempt, or the same one again, changes nothing; one with a higher attempt takes the place of a
// connection that is up. One that doesn't fit is refused, and the session goes on.
func TestHellos(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSide(t, config(1, 0))
		var wg sync.WaitGroup
		greet := func(attempt uint64, change func(*Hello)) *pipe {
			x, y := newPipe(8)
			h := Hello{From: 0, To: 1, Identity: Identity{Cluster: "c", Incarnation: 10}, Attempt: attempt}
			if change != nil {
				change(&h)
			}
			wg.Go(func() { _ = s.Accept(y, h) })
			synctest.Wait()
			return x
		}
		// answer is the type of the first message, or 0 at the connection's end.
		answer := func(p *pipe) Type {
			b, err := p.Receive()
			if err != nil {
				return 0
			}
			return Type(b[offsetType])
		}
		first := greet(5, nil)
		if a := answer(first); a != welcome {
			t.Fatalf("answer %d to the first", a)
		}
		for _, attempt := range []uint64{5, 4, 0} {
			if a := answer(greet(attempt, nil)); a != 0 {
				t.Errorf("answer %d to attempt %d", a, attempt)
			}
		}
		for _, change := range []func(*Hello){
			func(h *Hello) { h.Run[0]++ }, func(h *Hello) { h.Incarnation++ }, func(h *Hello) { h.Token[0]++ },
		} {
			if a := answer(greet(9, change)); a != refuse {
				t.Errorf("answer %d to one that doesn't fit", a)
			}
		}
		second := greet(6, nil)
		if a := answer(second); a != welcome {
			t.Errorf("answer %d to the second", a)
		}
		if a := answer(first); a != 0 {
			t.Errorf("the first connection goes on with %d", a)
		}
		if s.Err() != nil || !slices.Equal(s.seen(), []State{Up, Up}) {
			t.Errorf("%v, %v", s.seen(), s.Err())
		}
		if a := answer(greet(7, func(h *Hello) { h.Applied = 1 })); a != refuse || s.Err() == nil {
			t.Errorf("answer %d to one that has applied what wasn't sent: %v", a, s.Err())
		}
		s.Close("")
		if a := answer(greet(8, nil)); a != refuse {
			t.Errorf("answer %d after the end", a)
		}
		wg.Wait()
	})
}

// What is refused ends the dialling side, with the reason.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, pipes, func(a, _ *Config) { a.Identity.Program[0]++ })
		synctest.Wait()
		end := (*EndError)(nil)
		if err := n.a.Err(); !errors.As(err, &end) || !end.Refused || end.Code != CodeProgram || end.Machine != 1 {
			t.Errorf("found %v", err)
		}
		if err := n.b.Err(); err != nil {
			t.Errorf("the other side has ended: %v", err)
		}
		n.a.Close("")
		n.b.Close("over")
		n.wg.Wait()
	})
}

// A frame that Apply refuses ends both sides, with the place; so does Close with a reason.
func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, pipes, func(_, b *Config) {
			b.Apply = func(h Header, body []byte) error { return badFrame(0, HeaderBytes+3, "a", "b") }
		})
		if err := errors.Join(n.a.put(1, 10), n.a.Flush()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		want := "machine 0, express, frame 1, byte 35: found a, allowed: b"
		for _, s := range []*side{n.a, n.b} {
			if err := s.Err(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("machine %d: %v", s.cfg.Self, err)
			}
		}
		n.a.Close("")
		n.b.Close("")
		n.wg.Wait()
	})
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, pipes, nil)
		time.Sleep(time.Second)
		n.a.Close("disk full")
		time.Sleep(time.Second)
		end := (*EndError)(nil)
		if err := n.b.Err(); !errors.As(err, &end) || end.Text != "disk full" || end.Refused {
			t.Errorf("found %v", err)
		}
		if !slices.Equal(n.b.seen(), []State{Up, Ended}) {
			t.Errorf("states %v", n.b.seen())
		}
		n.b.Close("")
		n.wg.Wait()
	})
}

// The end waits for the last acknowledgement and for nothing else, no tick either.
func TestCloseAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, pipes, nil)
		synctest.Wait()
		if err := errors.Join(n.a.put(1, 10), n.a.Flush(), n.b.put(1, 10), n.b.Flush()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		n.close(t)
		if took := time.Since(began); took > 2*ackAfter {
			t.Errorf("closed after %v", took)
		}
	})
}

// A bad frame that comes while both close is the end of both, with its error.
func TestFailsWhileItCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, pipes, func(_, b *Config) {
			b.Apply = func(h Header, body []byte) error {
				time.Sleep(time.Second) // Close comes meanwhile
				return badFrame(0, HeaderBytes, "a", "b")
			}
		})
		if err := errors.Join(n.a.put(1, 10), n.a.Flush()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		began := time.Now()
		var wg sync.WaitGroup
		for _, s := range []*side{n.a, n.b} {
			wg.Go(func() { s.Close("") })
		}
		wg.Wait()
		n.wg.Wait()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("closed after %v", took)
		}
		for _, s := range []*side{n.a, n.b} {
			if err := s.Err(); err == nil || !strings.Contains(err.Error(), "byte 32: found a") {
				t.Errorf("machine %d: %v", s.cfg.Self, err)
			}
		}
	})
}

// A ping that asks is answered; an idle session stays up, and doesn't send much.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pongs, messages atomic.Int64
		n := newNetwork(t, func() (Conn, Conn, error) {
			x, y := newPipe(8)
			return &counted{x, &messages}, y, nil
		}, func(a, _ *Config) {
			a.Apply = func(h Header, body []byte) error {
				if h.Type == Pong && binary.LittleEndian.Uint64(body) == 77 {
					pongs.Add(1)
				}
				return nil
			}
		})
		time.Sleep(time.Second)
		binary.LittleEndian.PutUint64(n.a.State(Header{Type: Ping}, 8), 77)
		if err := n.a.Flush(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if pongs.Load() != 1 {
			t.Errorf("%d pongs", pongs.Load())
		}
		if m := messages.Load(); m < 100 || m > 260 { // one or two ticks between
			t.Errorf("%d messages in a minute", m)
		}
		n.close(t)
		if !slices.Equal(n.a.seen(), []State{Up, Ended}) {
			t.Errorf("states %v", n.a.seen())
		}
	})
}

type counted struct {
	Conn
	sent *atomic.Int64
}

func (c *counted) Send(b *Buffer) error {
	c.sent.Add(1)
	return c.Conn.Send(b)
}

// A process that was stopped doesn't take its peer for dead when it resumes: a tick counts little, however late it is.
func TestStopped(t *testing.T) {
	s := still(Express, func(Header, []byte) error { return nil })
	for range ticks/2 - 1 {
		if s.m.tick(time.Hour); s.m.state != Up {
			t.Fatal("cut after ", s.m.quiet)
		}
	}
	if s.m.tick(time.Hour); s.m.state != Disconnected {
		t.Error("a silence isn't noticed")
	}
}

func TestBackoff(t *testing.T) {
	for n, most := range map[int]time.Duration{0: 50 * time.Millisecond, 3: 400 * time.Millisecond, 5: time.Second,
		1 << 40: time.Second} {
		if a, b := backoff(n, 0), backoff(n, 1); a != 0 || b != most {
			t.Errorf("dial %d: %v to %v, want 0 to %v", n, a, b, most)
		}
	}
}

func TestConfig(t *testing.T) {
	for i, change := range []func(*Config){
		func(c *Config) { c.Peer = 1 }, func(c *Config) { c.Peer = -2 }, func(c *Config) { c.Peer = 2 },
		func(c *Config) { c.Stream = 2 }, func(c *Config) { c.ConnectTimeout = 0 },
		func(c *Config) { c.PeerTimeout = 1 }, func(c *Config) { c.Window = 0 },
		func(c *Config) { c.ResendBytes = 1 }, func(c *Config) { c.Identity.Incarnation = 0 },
		func(c *Config) { c.Identity.Cluster = strings.Repeat("x", 65) }, func(c *Config) { c.Apply = nil },
	} {
		cfg := config(1, 0)
		cfg.Apply = func(Header, []byte) error { return nil }
		cfg.Changed, cfg.Acked = func(State) {}, func() {}
		change(&cfg)
		if s, err := New(cfg); err == nil {
			s.Close("")
			t.Errorf("configuration %d is taken", i)
		}
	}
}

// Shrink and Left; messages hold as many frames as fit.
func TestMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		n := newNetwork(t, pipes, func(_, b *Config) {
			b.Apply = func(h Header, body []byte) error {
				sizes = append(sizes, len(body))
				return nil
			}
		})
		a := n.a
		for _, size := range []int{a.Left(), 1000, BodyBytesMax, 0} {
			if _, ok := a.Frame(Header{Type: Control}, size); !ok {
				t.Fatal("no room")
			}
		}
		if left := a.Left(); left != MessageBytes-2*HeaderBytes {
			t.Errorf("%d left behind an empty frame", left)
		}
		if body, ok := a.Frame(Header{Type: Control}, a.Left()); !ok || len(body) != MessageBytes-2*HeaderBytes {
			t.Errorf("%d bytes, %v", len(body), ok)
		}
		a.Shrink(5)
		if err := a.Flush(); err != nil {
			t.Error(err)
		}
		n.close(t)
		want := []int{MessageBytes - HeaderBytes, 1000, BodyBytesMax, 0, 5}
		if !slices.Equal(sizes, want) {
			t.Errorf("sizes %v, want %v", sizes, want)
		}
	})
}

// Nothing is allocated for a frame, on either side.
func TestNoAllocations(t *testing.T) {
	if race.Enabled || invariants.Enabled {
		t.Skip("the race detector allocates, and so do checks of whose turn it is")
	}
	applied := make(chan uint64, 1)
	n := newNetwork(t, pipes, func(_, b *Config) {
		b.Apply = func(h Header, body []byte) error {
			if h.Type.numbered() {
				applied <- h.Number
			}
			return nil
		}
	})
	one := func() {
		binary.LittleEndian.PutUint64(n.a.State(Header{Type: Credit}, 8), 1)
		body, ok := n.a.Frame(Header{Type: Records}, 3000)
		if !ok {
			<-n.a.acked
			return
		}
		body[0] = 1
		if err := n.a.Flush(); err != nil {
			t.Error(err)
		}
		<-applied
	}
	if got := testing.AllocsPerRun(5000, one); got != 0 {
		t.Errorf("%v allocations a frame", got)
	}
	go func() {
		for range applied {
		}
	}()
	n.close(t)
	close(applied)
}
