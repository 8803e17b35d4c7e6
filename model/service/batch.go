// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/disco-sim/disco/internal/heap"
)

// batch keeps the requests under way of a box with many, whose accounts are kept a long log at a time. They lie in no
// order until a log is taken in: then those that arrive up to its last departure are picked out and sorted together,
// which takes a third of the time that a heap takes (docs/model-service.md). A log is as long as a quarter of what
// waits, so that each request is looked at a few times, however many there are.
type batch struct {
	waiting []heap.Item[passage] // later than until, in the order of departure
	due     []heap.Item[passage] // by arrival, of which due[at:] haven't left yet
	at      int
	until   float64
	sorted  []heap.Item[passage] // scratch of sort, as long as due may be
	places  []int32              // likewise, by bucket
}

// bucketMost is how many requests of a bucket are sorted by insertion.
const bucketMost = 32

// full is the length at which the log is taken in.
func (b *batch) full() int32 { return int32(min(max(logOfMany, len(b.waiting)/4), math.MaxInt32)) }

// collect picks out what arrives by until of what waits, and of a log that ends there.
func (b *batch) collect(log []departure, until, horizon float64) {
	for i := range log {
		if d := &log[i]; d.arrival > d.at {
			p := passage{entry: d.at, edge: d.edge}
			b.waiting = append(b.waiting, heap.Item[passage]{Value: p, Key: min(d.arrival, horizon)})
		}
	}
	// Each is written to both places and counted at one of them: a branch would be mispredicted for every third.
	all, due := b.waiting, b.due[:cap(b.due)]
	waiting, d, limit := uint64(0), uint64(0), math.Float64bits(until)
	for i := range all {
		if d >= uint64(len(due)) {
			due = b.grow(due)
		}
		x := all[i]
		all[waiting], due[d] = x, x
		_, later := bits.Sub64(limit, math.Float64bits(x.Key), 0)
		waiting += later
		d += 1 - later
	}
	b.waiting, b.due, b.at = all[:waiting], due[:d], 0
	b.sort(until)
	b.until = until
}

// grow makes room for more requests that are due.
func (b *batch) grow(due []heap.Item[passage]) []heap.Item[passage] {
	n := max(logOfMany, 2*len(due))
	more := make([]heap.Item[passage], n)
	copy(more, due)
	b.sorted, b.places = make([]heap.Item[passage], n), make([]int32, n+1)
	return more
}

// sort puts due in order. Arrivals of many requests are spread evenly over the time of a log, more or less: each goes
// to a bucket by its time, and to its place among the few there by insertion.
func (b *batch) sort(until float64) {
	n := len(b.due)
	scale := float64(n) / (until - b.until)
	if n < bucketMost || !(scale <= math.MaxFloat64) {
		slices.SortFunc(b.due, byArrival)
		return
	}
	places, sorted := b.places[:n+1], b.sorted[:n]
	clear(places)
	for i := range b.due {
		places[b.bucket(i, scale)+1]++
	}
	most, sum := int32(0), int32(0)
	for i, k := range places {
		most = max(most, k)
		sum += k
		places[i] = sum
	}
	if most > bucketMost {
		slices.SortFunc(b.due, byArrival)
		return
	}
	for i := range b.due {
		p := &places[b.bucket(i, scale)]
		sorted[*p] = b.due[i]
		*p++
	}
	b.due, b.sorted = sorted, b.due
	b.insert()
}

// bucket is that of due[i], of as many as are due.
func (b *batch) bucket(i int, scale float64) int {
	return min(int((b.due[i].Key-b.until)*scale), len(b.due)-1)
}

// insert sorts what is nearly in order.
func (b *batch) insert() {
	due := b.due
	for i := 1; i < len(due); i++ {
		x, j := due[i], i
		for ; j > 0 && x.Key <= due[j-1].Key && byArrival(x, due[j-1]) < 0; j-- {
			due[j] = due[j-1]
		}
		due[j] = x
	}
}

// byArrival is a total order, but for requests that nothing tells apart.
func byArrival(a, b heap.Item[passage]) int {
	if a.Key != b.Key {
		return cmp.Compare(a.Key, b.Key)
	}
	return cmp.Or(cmp.Compare(a.Value.entry, b.Value.entry), cmp.Compare(a.Value.edge, b.Value.edge))
}
