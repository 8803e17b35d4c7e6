// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/disco-sim/disco/internal/linktest"
	"github.com/disco-sim/disco/internal/session"
)

// scissors cut connections at random messages, in both directions, until they have done so often enough.
type scissors struct {
	mu   sync.Mutex
	rng  *rand.Rand
	left int // cuts
}

// cut reports whether a connection ends with a message.
func (s *scissors) cut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left == 0 || s.rng.IntN(20) > 0 {
		return false
	}
	s.left--
	return true
}

type frail struct {
	session.Conn
	s     *scissors
	first bool // the greeting passes
}

var errCut = errors.New("cut")

func (f *frail) Send(b *session.Buffer) error {
	if !f.first && f.s.cut() {
		b.Free()
		f.Conn.Close()
		return errCut
	}
	f.first = false
	return f.Conn.Send(b)
}

// Connections that end at any message change nothing, and all that only the newest message of its kind says, credit
// above all, is said anew.
func TestCuts(t *testing.T) {
	events, cuts := uint64(3000), 200
	if testing.Short() {
		events, cuts = 500, 30
	}
	some := func(rng *rand.Rand) int {
		if rng.IntN(50) == 0 {
			return rng.IntN(20_000)
		}
		return rng.IntN(100)
	}
	for name, window := range map[string]int{"smallest window": WindowMin, "wide window": 1 << 16} {
		t.Run(name, func(t *testing.T) {
			s := &scissors{rng: rand.New(rand.NewPCG(uint64(window), 2)), left: cuts}
			k := kind{window: window, dialler: func(n *network) func(way) (session.Conn, error) {
				return n.pipes(func(c session.Conn) session.Conn { return &frail{c, s, true} })
			}}
			o := linktest.Options{Workers: 2, RingBytes: 1 << 12, InlineMax: 256, Blocks: 2, BlockBytes: 10_000,
				Parts: true}
			exchange(t, k, o, events, some)
			if s.left == cuts {
				t.Error("nothing was cut")
			}
		})
	}
}
