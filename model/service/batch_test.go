// SPDX-License-Identifier: Apache-2.0

package service

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/disco-sim/disco/internal/heap"
	"github.com/disco-sim/disco/internal/seed"
)

// arrivals draws departures and when they arrive, in one of the ways that a file may ask for.
var arrivals = map[string]func(rnd *rand.Rand, at float64) float64{
	"exponential":  func(rnd *rand.Rand, at float64) float64 { return at + 0.01*rnd.ExpFloat64() },
	"constant":     func(_ *rand.Rand, at float64) float64 { return at + 0.25 },
	"none":         func(_ *rand.Rand, at float64) float64 { return at },
	"two sizes":    func(rnd *rand.Rand, at float64) float64 { return at + 1e-4 + 0.5*float64(rnd.IntN(2)) },
	"ties":         func(rnd *rand.Rand, at float64) float64 { return math.Ceil(at*100+rnd.Float64()) / 100 },
	"mostly never": func(rnd *rand.Rand, at float64) float64 { return at + 100*rnd.Float64() },
}

// TestBatchAgainstSortedList: what is under way leaves in the order (arrival, entry, edge) whatever it is like, also
// when all depart at one time, and nothing is lost.
func TestBatchAgainstSortedList(t *testing.T) {
	rnd := seed.Rand(t)
	for name, arrive := range arrivals {
		for _, step := range []float64{0, 1e-4, 0.1} {
			var b batch
			var want []heap.Item[passage]
			at, horizon, logs := 0.0, 10.0, 0
			for at < horizon && logs < 200 && len(want) < 10_000 {
				log := make([]departure, 1+rnd.Int32N(b.full()))
				for i := range log {
					at += step * rnd.Float64()
					log[i] = departure{at, arrive(rnd, at), int32(rnd.IntN(3))}
					if d := log[i]; d.arrival > at {
						p := passage{entry: at, edge: d.edge}
						want = append(want, heap.Item[passage]{Value: p, Key: min(d.arrival, horizon)})
					}
				}
				b.collect(log, at, horizon)
				slices.SortFunc(want, byArrival)
				n := 0
				for n < len(want) && want[n].Key <= at {
					n++
				}
				if !slices.Equal(b.due, want[:n]) {
					t.Fatalf("%s, log %d of %d up to %v: due are %v, want %v", name, logs, len(log), at, b.due,
						want[:n])
				}
				want = slices.Delete(want, 0, n)
				logs++
			}
			slices.SortFunc(b.waiting, byArrival)
			if !slices.Equal(b.waiting, want) {
				t.Errorf("%s: %d wait, want %d", name, len(b.waiting), len(want))
			}
		}
	}
}

// TestBatchAccounts: an outbox with a batch keeps the accounts that one with a heap keeps. What is under way at the end
// is added up in another order, so areas may differ by rounding.
func TestBatchAccounts(t *testing.T) {
	rnd := seed.Rand(t)
	for name, arrive := range arrivals {
		var boxes [2]outbox
		for i := range boxes {
			boxes[i] = outbox{horizon: 10, ticks: newTicks(0.05, true, 0), accounts: make([]account, 3),
				edges: make([]edge, 3), audit: newAudit(), full: 1}
			if boxes[i].audit != nil {
				boxes[i].audit.books = make([]ledger, 3)
			}
		}
		boxes[1].batch, boxes[1].full = &batch{}, logOfMany
		for at := 0.0; at < 10; at += 1e-3 * rnd.ExpFloat64() {
			d := departure{at, arrive(rnd, at), int32(rnd.IntN(3))}
			for i := range boxes {
				boxes[i].depart(d)
			}
		}
		want, got := boxes[0].report(10, &reporter{}), boxes[1].report(10, &reporter{})
		for i := range want {
			if math.Abs(want[i].Area-got[i].Area) <= 1e-12*want[i].Area {
				got[i].Area = want[i].Area
			}
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Errorf("%s: edge %d with a batch %+v, with a heap %+v", name, i, got[i], want[i])
			}
		}
	}
}
