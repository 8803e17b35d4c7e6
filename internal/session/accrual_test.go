// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/disco-sim/disco/internal/phi"
	"github.com/disco-sim/disco/internal/seed"
)

// way is a connection on which messages take a while, in order.
type way struct {
	Conn
	lag    func() time.Duration
	queue  chan late
	closed chan struct{}
	once   sync.Once
}

type late struct {
	b   *Buffer
	due time.Time
}

func newWay(c Conn, lag func() time.Duration, all *sync.WaitGroup) *way {
	w := &way{Conn: c, lag: lag, queue: make(chan late, 1<<10), closed: make(chan struct{})}
	all.Go(func() {
		defer w.Conn.Close()
		for {
			var m late
			select {
			case m = <-w.queue:
			case <-w.closed:
				select {
				case m = <-w.queue: // what was sent before arrives
				default:
					return
				}
			}
			select {
			case <-time.After(time.Until(m.due)):
			case <-w.closed:
			}
			_ = w.Conn.Send(m.b) // the session gets to know it from Receive
		}
	})
	return w
}

func (w *way) Send(b *Buffer) error {
	select {
	case w.queue <- late{b, time.Now().Add(w.lag())}:
	case <-w.closed:
		b.Free()
	}
	return nil
}

func (w *way) Close() { w.once.Do(func() { close(w.closed) }) }

// silences are what a session reports.
type silences struct {
	mu  sync.Mutex
	all []*Silence
}

func (s *silences) seen() []*Silence {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// newWatched joins two sides by ways; what side 0 reports of side 1 is kept.
func newWatched(t *testing.T, timeout time.Duration, lag func() time.Duration,
	all *sync.WaitGroup) (*network, *silences) {
	s := &silences{}
	n := newNetwork(t, func() (Conn, Conn, error) {
		x, y := newPipe(64)
		return newWay(x, lag, all), newWay(y, lag, all), nil
	}, func(a, b *Config) {
		for _, c := range []*Config{a, b} {
			c.ConnectTimeout, c.PeerTimeout, c.Window = 10*timeout, timeout, 10*timeout
		}
		a.Unreachable = func(silence *Silence) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.all = append(s.all, silence)
		}
	})
	return n, s
}

func (n *network) end(t *testing.T, all *sync.WaitGroup) {
	n.close(t)
	all.Wait()
}

// Whatever the peer's timeout is, from 2 s on, and whether anything but pings was sent: a peer from which nothing comes
// any more is unreachable before the connection is cut, once; and reachable again when something comes. Nothing ends by
// it.
func TestUnreachable(t *testing.T) {
	for _, timeout := range []time.Duration{2 * time.Second, 3 * time.Second, 30 * time.Second, 10 * time.Minute} {
		for _, busy := range []bool{false, true} {
			t.Run(fmt.Sprint(timeout, " ", busy), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testUnreachable(t, timeout, busy) })
			})
		}
	}
}

func testUnreachable(t *testing.T, timeout time.Duration, busy bool) {
	var all sync.WaitGroup
	var mu sync.Mutex
	var held time.Time // when what is sent arrives, if later than otherwise
	n, s := newWatched(t, timeout, func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return max(time.Millisecond, time.Until(held))
	}, &all)
	defer n.end(t, &all)
	for i := range uint64(300) {
		if busy {
			if err := n.b.put(i+1, 10); err != nil {
				t.Fatal(err)
			}
			if err := n.b.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(timeout / 20)
	}
	if len(s.seen()) != 0 || !slices.Equal(n.a.seen(), []State{Up}) {
		t.Fatalf("%v, %v", s.seen(), n.a.seen())
	}
	for i := range 3 { // what was unusual once is the next time, too
		mu.Lock()
		held = time.Now().Add(timeout - 5*timeout/ticks/2) // before the cut: the last ping came two ticks ago at most
		mu.Unlock()
		time.Sleep(time.Until(held) - time.Millisecond)
		silence := s.seen()
		if len(silence) != 2*i+1 || !slices.Equal(n.a.seen(), []State{Up}) {
			t.Fatalf("%d reports, states %v", len(silence), n.a.seen())
		}
		if l := silence[2*i]; l == nil || l.For <= timeout/4 || l.For >= timeout || l.Phi < phi.Threshold ||
			l.Phi > 100 {
			t.Errorf("%+v", l)
		}
		time.Sleep(timeout / 4)
		if silence = s.seen(); len(silence) != 2*i+2 || silence[2*i+1] != nil {
			t.Fatalf("it isn't reachable again: %v", silence)
		}
		time.Sleep(timeout / 2)
	}
	if !slices.Equal(n.a.seen(), []State{Up}) {
		t.Errorf("states %v", n.a.seen())
	}
}

// A session that is cut isn't unreachable: its state says more. The next connection begins anew.
func TestUnreachableThenCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all sync.WaitGroup
		var mu sync.Mutex
		lost := false
		n, s := newWatched(t, 3*time.Second, func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			if lost {
				return time.Hour
			}
			return time.Millisecond
		}, &all)
		defer n.end(t, &all)
		for i := range 3 {
			time.Sleep(20 * time.Second)
			mu.Lock()
			lost = true
			mu.Unlock()
			time.Sleep(5 * time.Second)
			mu.Lock()
			lost = false
			mu.Unlock()
			time.Sleep(5 * time.Second)
			want := slices.Repeat([]State{Disconnected, Up}, i+1)
			if len(s.seen()) != i+1 || s.seen()[i] == nil || !slices.Equal(n.a.seen()[1:], want) {
				t.Fatalf("%d reports, states %v", len(s.seen()), n.a.seen())
			}
		}
	})
}

// No false alarm: over a long time, whatever the peer's timeout, on a way with jitter on which segments are lost, and
// their first repetitions, too, with a sender that is busy and idle in turns.
func TestNoFalseAlarm(t *testing.T) {
	lasts := 30 * time.Minute
	if testing.Short() {
		lasts = 5 * time.Minute
	}
	from := seed.Rand(t)
	for _, timeout := range []time.Duration{3 * time.Second, 10 * time.Second, 30 * time.Second, 10 * time.Minute} {
		for _, loss := range []float64{0, 0.001, 0.02} {
			rng := rand.New(rand.NewPCG(from.Uint64(), 1))
			t.Run(fmt.Sprint(timeout, " ", loss), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					testNoFalseAlarm(t, rng, timeout, loss, time.Duration(float64(lasts)*timeout.Seconds()/3))
				})
			})
		}
	}
}

func testNoFalseAlarm(t *testing.T, rng *rand.Rand, timeout time.Duration, loss float64, lasts time.Duration) {
	var all sync.WaitGroup
	var mu sync.Mutex
	random := func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return rng.Float64()
	}
	n, s := newWatched(t, timeout, func() time.Duration {
		lag := time.Duration(random() * float64(50*time.Millisecond))
		for resend := 200 * time.Millisecond; resend < 800*time.Millisecond && random() < loss; resend *= 2 {
			lag += resend
		}
		return lag
	}, &all)
	defer n.end(t, &all)
	for began, i := time.Now(), uint64(0); time.Since(began) < lasts; {
		if random() < 0.5 {
			for range 100 {
				i++
				if err := n.b.put(i, 10); err != nil {
					t.Fatal(err)
				}
				if err := n.b.Flush(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(timeout / 60)
			}
		}
		time.Sleep(time.Duration(random() * 10 * float64(timeout)))
	}
	if len(s.seen()) > 0 || !slices.Equal(n.a.seen(), []State{Up}) {
		t.Errorf("%+v, %v", s.seen(), n.a.seen())
	}
}

// No false alarm, either, on a machine that stops all of its processes for a while: of that time hardly anything
// counts, however long it was, and what has arrived meanwhile is read later than the first tick behind it.
func TestNoAlarmWhenStopped(t *testing.T) {
	rng := seed.Rand(t)
	for _, timeout := range []time.Duration{time.Second, 3 * time.Second, time.Minute} {
		l := limits{timeout: timeout}
		a := accrual{detector: phi.Detector{Resolution: timeout / ticks}}
		stopped := false
		for i := range 100_000 {
			passed, arrived := timeout/ticks, stopped || i%2 == 0
			if stopped = !stopped && rng.IntN(10) == 0; stopped {
				passed, arrived = time.Duration(rng.Int64N(int64(time.Hour))), false
			}
			if s, _ := a.tick(l.capped(passed), true, arrived); s != nil {
				t.Fatalf("timeout %v, tick %d: %+v", timeout, i, s)
			}
		}
	}
}
