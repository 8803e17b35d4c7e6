// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/disco-sim/disco/ingress"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/internal/linktest"
	"github.com/disco-sim/disco/internal/session"
)

var plain = linktest.Options{Workers: 2, RingBytes: 1 << 12, InlineMax: 256}

// failed waits for what a bridge says of its end.
func failed(t *testing.T, b *Bridge) error {
	t.Helper()
	select {
	case err := <-b.Err():
		if closed := b.Close(); closed != err {
			t.Errorf("machine %d: Close says %v, and Err said %v", b.cfg.Machine, closed, err)
		}
		return err
	case <-time.After(time.Minute):
		t.Fatalf("machine %d notices nothing", b.cfg.Machine)
	}
	return nil
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("found %v, want %q", err, part)
		}
	}
}

// A worker that breaks its lane ends its bridge, with an error that names it, and the other machines', which get the
// same reason.
func TestBrokenLane(t *testing.T) {
	m := newMesh(t, kind{window: 1 << 14, dialler: pipes}, plain)
	m.failing = true
	out, _ := m.join(0, m.waiter(0))
	ring := out[1].(sender).Ring()
	rec, err := ring.Claim(40)
	must(t, err)
	copy(rec, []byte{77, 0, 0, 0})
	ring.Commit()
	ring.Publish()
	m.bells[0][1].Ring()
	wantError(t, failed(t, m.bridges[0]), "lane to worker 1", "worker 0", "kind 77, allowed: 1 to 3")
	wantError(t, failed(t, m.bridges[1]), "machine 0", "kind 77")
}

// A machine that is gone for longer than the window is named, and so is one that ends without a reason.
func TestLostMachine(t *testing.T) {
	var gone atomic.Bool
	var conns sync.Map
	k := kind{window: 1 << 14, timeout: 5 * time.Second, lost: time.Second,
		dialler: func(n *network) func(way) (session.Conn, error) {
			dial := n.pipes(func(c session.Conn) session.Conn {
				conns.Store(c, true)
				return c
			})
			return func(w way) (session.Conn, error) {
				if gone.Load() {
					return nil, errors.New("no route")
				}
				return dial(w)
			}
		}}
	m := newMesh(t, k, plain)
	m.failing = true
	gone.Store(true)
	conns.Range(func(c, _ any) bool {
		c.(session.Conn).Close()
		return true
	})
	var all sync.WaitGroup
	for self, b := range m.bridges {
		all.Go(func() {
			err := failed(t, b)
			wantError(t, err, "machine")
			lost, end := (*session.LostError)(nil), (*session.EndError)(nil)
			if !errors.As(err, &lost) && !errors.As(err, &end) {
				t.Errorf("machine %d: %v", self, err)
			}
		})
	}
	all.Wait()
}

// All that was sent before both close in order arrives, and then the end.
func TestClose(t *testing.T) {
	m := newMesh(t, kind{window: 1 << 14, dialler: pipes}, plain)
	out, _ := m.join(0, m.waiter(0))
	_, in := m.join(1, m.waiter(1))
	for n := range uint64(20) {
		ev := linktest.Event(0, 1, n, nil)
		must(t, out[1].SendEvent(&ev))
	}
	must(t, out[1].Flush())
	m.close()
	sink := &anything{in: in.(receiver).Ingress}
	var err error
	for err == nil {
		_, err = sink.in.Poll(sink)
	}
	if !errors.Is(err, ingress.ErrClosed) || sink.events != 20 {
		t.Errorf("%d of 20 events came, then %v", sink.events, err)
	}
	ev := linktest.Event(0, 1, 20, make([]byte, 200))
	for err = nil; err == nil; {
		err = out[1].(sender).TrySend(&ev)
	}
	if !errors.Is(err, lane.ErrClosed) {
		t.Errorf("sending over a lane of a bridge that was closed: %v", err)
	}
}

// What a worker shows comes to the other machine, also what it has shown last before nobody works any more, and though
// connections are cut.
func TestStatus(t *testing.T) {
	for _, cuts := range []int{0, 20} {
		var shown [2]atomic.Uint64 // calls
		var seen [2]atomic.Uint64
		s := &scissors{rng: rand.New(rand.NewPCG(1, uint64(cuts))), left: cuts}
		k := kind{window: 1 << 14, park: sleep,
			dialler: func(n *network) func(way) (session.Conn, error) {
				return n.pipes(func(c session.Conn) session.Conn { return &frail{c, s, true} })
			},
			shown: func(self int) func([]Status) []Status {
				return func(all []Status) []Status {
					n := shown[self].Load()
					return append(all, Status{self, 3, n, float64(n), 2 * float64(n), -1})
				}
			},
			remote: func(self int) func(Status) {
				return func(st Status) {
					n := st.Calls
					if (st != Status{1 - self, 3, n, float64(n), 2 * float64(n), -1}) {
						t.Errorf("%+v", st)
					}
					seen[self].Store(max(seen[self].Load(), n))
				}
			}}
		m := newMesh(t, k, plain)
		for n := range uint64(100) {
			for self := range 2 {
				shown[self].Store(n)
				m.bells[self][1-self].Ring() // as whoever does something else does
			}
			for deadline := time.Now().Add(time.Minute); seen[0].Load() < n || seen[1].Load() < n; {
				if time.Now().After(deadline) {
					t.Fatalf("%d cuts: %d and %d of %d are seen", cuts, seen[0].Load(), seen[1].Load(), n)
				}
				time.Sleep(50 * time.Microsecond)
			}
		}
	}
}
