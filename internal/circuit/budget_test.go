// SPDX-License-Identifier: Apache-2.0

package circuit

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestBudget: second tries come to the share of first ones, to what time adds, and to what it is full with; an empty
// one says when there is a token.
func TestBudget(t *testing.T) {
	b := Budget{Share: 0.25, Each: time.Second, Most: 2}
	now := time.Hour
	taken := func(want int) {
		t.Helper()
		for n := range want + 1 {
			if ok := b.Take(now); ok != (n < want) {
				t.Fatalf("token %d of %d: found %v", n+1, want, ok)
			}
		}
	}
	taken(2)
	if wait := b.Wait(now); wait < time.Second || wait > time.Second+time.Microsecond {
		t.Fatalf("found a wait of %v, want 1 s", wait)
	}
	now += b.Wait(now)
	taken(1)
	for range 5 { // a quarter each
		b.First(now)
	}
	taken(1)
	now += time.Hour // full is full
	taken(2)
	for range 100 {
		b.First(now)
	}
	taken(2)
	b.Owe(now)
	b.Owe(now)
	if wait := b.Wait(now); wait < 3*time.Second-time.Millisecond || wait > 3*time.Second+time.Millisecond {
		t.Fatalf("found a wait of %v behind two tokens that there weren't, want 3 s", wait)
	}
	now -= time.Minute // a clock that goes back adds nothing, and takes nothing
	taken(0)
}

// TestBudgetBound: whatever happens when, second tries stay below the bound.
func TestBudgetBound(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 5))
		b := Budget{Share: r.Float64(), Each: 1 + time.Duration(r.Int64N(int64(time.Second))), Most: 1 + 20*r.Float64()}
		now, first, second := time.Duration(0), 0, 0
		for range 1_000 {
			now += time.Duration(r.Int64N(int64(time.Second / 10)))
			switch {
			case r.IntN(2) == 0:
				b.First(now)
				first++
			case b.Take(now):
				second++
			case b.Wait(now) == 0:
				t.Fatalf("seed %d: no token, and no wait", seed)
			}
			most := b.Most + b.Share*float64(first) + float64(now)/float64(b.Each)
			if float64(second) > most+1e-6 {
				t.Fatalf("seed %d: found %d second tries behind %d first ones in %v, want at most %v", seed, second,
					first, now, most)
			}
		}
	}
}
