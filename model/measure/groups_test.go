// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"math"
	"math/rand/v2"
	"testing"
)

// span is replications from … to-1, joined in order.
type span struct{ from, to int }

// TestGroups: groups cover all replications in order, are of one size but for the last,
// and there are enough of them and not too many.
func TestGroups(t *testing.T) {
	for n := range 5*GroupsMax + 3 {
		g := NewGroups(func(into, from *span) {
			if into.to != from.from {
				t.Fatalf("%d replications: %v joined to %v", n, *from, *into)
			}
			into.to = from.to
		})
		for i := range n {
			g.Add(span{i, i + 1})
		}
		all := g.Close()
		if n <= GroupsMax && len(all) != n || n > GroupsMax && (len(all) > GroupsMax || len(all) < GroupsMax/2) {
			t.Fatalf("%d replications: %d groups", n, len(all))
		}
		end := 0
		for i, s := range all {
			size := all[0].to
			if s.from != end || s.to-s.from != size && (i < len(all)-1 || s.to-s.from >= 2*size || s.to-s.from < size) {
				t.Fatalf("%d replications: group %d is %v, the first %v", n, i, s, all[0])
			}
			end = s.to
		}
		if end != n {
			t.Fatalf("%d replications: groups end at %d", n, end)
		}
	}
}

// TestPercentileOfGroups: the interval of a percentile holds the truth as often as it says
// when replications are joined in groups, the last of which is greater.
func TestPercentileOfGroups(t *testing.T) {
	const experiments, replications = 200, 264 // 66 groups of 4
	held := 0
	for seed := range uint64(experiments) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		g := NewGroups((*Latencies).Merge)
		for range replications + int(seed%4) {
			var l Latencies
			for range 10 {
				if err := l.Add(rnd.ExpFloat64()); err != nil {
					t.Fatal(err)
				}
			}
			g.Add(l)
		}
		all := g.Close()
		list := make([]*Latencies, len(all))
		for i := range all {
			list[i] = &all[i]
		}
		i := Percentile(90, list)
		if i.N != replications/4 {
			t.Fatalf("%d samples", i.N)
		}
		if i.Holds(math.Log(10)) {
			held++
		}
	}
	// A coverage of 93 or 97 % would give these counts once in 10,000 times.
	if held < 171 || held == experiments {
		t.Errorf("%d of %d intervals hold the truth", held, experiments)
	}
}
