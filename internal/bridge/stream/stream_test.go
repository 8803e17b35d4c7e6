// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/race"
	"github.com/disco-sim/disco/internal/seed"
	"github.com/disco-sim/disco/internal/session"
	"google.golang.org/grpc/mem"
)

// Frames of all sizes in both directions, with and without TLS, in every compression: each is applied once, in order,
// and both sides end without an error.
func TestExchange(t *testing.T) {
	rng := seed.Rand(t)
	for _, secured := range []bool{false, true} {
		for _, c := range []Compression{None, S2, Zstd} {
			t.Run(fmt.Sprintf("tls %v, %v", secured, c), func(t *testing.T) {
				s := plain(t)
				if secured {
					s = secure(t)
				}
				p := newPair(t, s, nil, func(d *Dialer, _ *session.Config) { d.Compress = c })
				p.exchange(t, rng, 300, session.BodyBytesMax, time.Millisecond)
				if p.a.ups.Load() != 1 || len(p.link.reports()) > 0 {
					t.Errorf("%d connections, %v", p.a.ups.Load(), p.link.reports())
				}
			})
		}
	}
}

// Every read gives one byte.
func TestBytewise(t *testing.T) {
	s := secure(t)
	p := newPair(t, s, func(to string) string { return newProxy(t, to, true).listener.Addr().String() }, nil)
	p.exchange(t, seed.Rand(t), 40, 2000, 0)
}

// Cuts, and connections on which nothing arrives any more without anybody seeing it: the session goes on over another
// connection each time.
func TestFaults(t *testing.T) {
	rng := seed.Rand(t)
	frames, times := 1500, int64(6)
	if testing.Short() {
		frames, times = 700, 3
	}
	for _, secured := range []bool{false, true} {
		faults := rand.New(rand.NewPCG(rng.Uint64(), 1))
		sends := rand.New(rand.NewPCG(rng.Uint64(), 1))
		t.Run(fmt.Sprint("tls ", secured), func(t *testing.T) {
			t.Parallel()
			s := plain(t)
			if secured {
				s = secure(t)
			}
			var x *proxy
			via := func(to string) string {
				x = newProxy(t, to, false)
				return x.listener.Addr().String()
			}
			p := newPair(t, s, via, nil)
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for i := range times {
					for p.a.ups.Load() <= i { // once the session is up again
						select {
						case <-stop:
							return
						case <-time.After(time.Millisecond):
						}
					}
					time.Sleep(time.Duration(faults.IntN(20)) * time.Millisecond)
					if i%3 == 2 {
						x.frozen.Store(true)
					} else {
						x.cut()
					}
				}
			}()
			defer func() {
				close(stop)
				<-stopped
			}()
			p.exchange(t, sends, frames, 64<<10, 3*time.Millisecond)
			if n := p.a.ups.Load(); n < 3 {
				t.Errorf("%d connections: no faults were met", n)
			}
		})
	}
}

// A session of another token is refused with the reason, and the one that is awaited goes on.
func TestToken(t *testing.T) {
	p := newPair(t, secure(t), nil, func(_ *Dialer, cfg *session.Config) { cfg.Identity.Token[5]++ })
	eventually(t, "the end", func() bool { return p.a.Err() != nil })
	holds(t, p.a.Err(), "machine 1, express: it has refused the session", "token")
	eventually(t, "a report", func() bool { return len(p.link.reports()) > 0 })
	holds(t, p.link.lastReport(), "found token another")
	if err := p.b.Err(); err != nil {
		t.Errorf("the other side has ended: %v", err)
	}
	p.a.Close("")
	p.b.Close("over")
}

// The server's end, and that of the agent's port, end connections; the session is lost when its window is over.
func TestServerEnds(t *testing.T) {
	t.Parallel()
	p := newPair(t, plain(t), nil, func(_ *Dialer, cfg *session.Config) { cfg.Window = 300 * time.Millisecond })
	eventually(t, "up", func() bool { return p.a.ups.Load() == 1 })
	p.link.close()
	eventually(t, "the end", func() bool { return p.a.Err() != nil })
	holds(t, p.a.Err(), "machine 0 has lost machine 1")
	p.a.Close("")
	p.b.Close("over")
}

// What was sent before Close arrives, in both directions.
func TestSentBeforeClose(t *testing.T) {
	t.Parallel()
	p := newPair(t, secure(t), nil, nil)
	if err := p.a.put(1, 200_000); err != nil {
		t.Fatal(err)
	}
	if err := p.a.Flush(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a frame", func() bool { return p.b.applied.Load() == 1 })
	p.b.Close("disk full")
	eventually(t, "the reason", func() bool { return p.a.Err() != nil })
	holds(t, p.a.Err(), "disk full")
	p.a.Close("")
}

// Auto measures, reports what it has chosen, and changes to it without losing a frame; on a fast way it stays as it is.
func TestAuto(t *testing.T) {
	for rate, want := range map[float64]func(Choice) bool{
		1e6:  func(c Choice) bool { return c.Chosen == S2 || c.Chosen == Zstd },
		1e13: func(c Choice) bool { return c.Chosen == None },
	} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			chosen := make(chan Choice, 10)
			var d *Dialer
			p := newPair(t, plain(t), nil, func(x *Dialer, _ *session.Config) {
				d = x
				d.Compress, d.Rate = Auto, func() float64 { return rate }
				d.Chosen = func(c Choice) { chosen <- c }
			})
			done := make(chan error, 1)
			var stop atomic.Bool
			var sent uint64
			go func() {
				var err error
				for err == nil && !stop.Load() {
					sent++
					if err = p.a.put(sent, 60_000); err == nil {
						err = p.a.Flush()
					}
				}
				done <- err
			}()
			c := <-chosen
			if !want(c) || c.Share[None] != 1 || c.Share[S2] <= 0 || c.Share[S2] > 0.5 {
				t.Errorf("%v", c)
			}
			text := c.String()
			if !strings.Contains(text, d.Address) || !strings.Contains(text, c.Chosen.String()+", of") {
				t.Errorf("%q", text)
			}
			ups := int64(1)
			if c.Chosen != None {
				ups = 2
			}
			eventually(t, "the other connection", func() bool { return p.a.ups.Load() == ups })
			stop.Store(true)
			if err := <-done; err != nil {
				t.Error(err)
			}
			if got := d.compression(); got != c.Chosen {
				t.Errorf("the next connection has %v, chosen was %v", got, c.Chosen)
			}
			go p.b.Close("")
			p.a.Close("")
			eventually(t, "all frames", func() bool { return p.b.applied.Load() == sent })
			if len(chosen) > 0 || p.a.Err() != nil {
				t.Errorf("%d more choices, %v", len(chosen), p.a.Err())
			}
		})
	}
}

// discard is a stream that takes messages as gRPC does, and gives one that lies in gRPC's memory.
type discard struct{ in mem.BufferSlice }

func (d *discard) SendMsg(m any) error {
	b, err := codec{}.Marshal(m)
	if err == nil && b.Len() == 0 {
		err = errNone
	}
	b.Free()
	return err
}

func (d *discard) RecvMsg(m any) error { return codec{}.Unmarshal(d.in, m) }

// Nothing is allocated for a message, whatever its size, beside what gRPC allocates itself: here it is in one piece, or
// in several.
func TestNoAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	one := mem.SliceBuffer(make([]byte, 3000))
	for _, b := range buffers(t, 10, 5000, session.BodyBytesMax) {
		for _, in := range []mem.BufferSlice{{one}, {one, one, one}} {
			c := &frames{stream: &discard{in}}
			send := func() {
				b.Ref()
				if err := c.send(b); err != nil {
					t.Error(err)
				}
				if got, err := c.receive(); err != nil || len(got) != in.Len() {
					t.Errorf("%d bytes, %v", len(got), err)
				}
			}
			if n := testing.AllocsPerRun(1000, send); n != 0 {
				t.Errorf("%v allocations for a message of %d bytes, received in %d pieces", n,
					len(b.Bytes()), len(in))
			}
		}
	}
}

// Close ends a Send that waits because the other side takes nothing, and a Receive. The other side reads only so much
// of what isn't a hello.
func TestCloseStuck(t *testing.T) {
	t.Parallel()
	s := secure(t)
	l := newLink(t, s, nil)
	all := buffers(t, session.BodyBytesMax)
	c, err := l.dial(s, l.address())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() {
		for {
			all[0].Ref()
			if err := c.Send(all[0]); err != nil {
				ended <- err
				return
			}
		}
	}()
	go func() {
		_, err := c.Receive()
		ended <- err
	}()
	time.Sleep(100 * time.Millisecond) // until windows are full; the test holds without that, too
	c.Close()
	for range 2 {
		if err := <-ended; err == nil {
			t.Error("no error")
		}
	}
}

// A message that gRPC doesn't take is freed, and so is one after the end.
func TestSendFails(t *testing.T) {
	b := buffers(t, 5000)[0]
	c := &frames{stream: refusing{}}
	for range 3 {
		b.Ref()
		if err := c.send(b); err == nil {
			t.Error("no error")
		}
	}
	if len(c.out.free) != 1 {
		t.Errorf("%d messages were made, want one that is used again", len(c.out.free))
	}
	d := &dialled{last: true}
	if err := d.Send(b); err == nil {
		t.Error("sent after the end")
	}
	huge := new(incoming)
	if err := huge.take(mem.BufferSlice{mem.SliceBuffer(make([]byte, messageBytesMax+1))}); err == nil {
		t.Error("a message above the largest is taken")
	}
}

type refusing struct{}

func (refusing) SendMsg(any) error { return errNone }
func (refusing) RecvMsg(any) error { return errNone }
