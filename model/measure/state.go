// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"math"
	"math/bits"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/disco-sim/disco/state"
)

// What a handler has measured so far is saved with it: the methods State are for the State of a node.Saver. Nothing is
// rounded or left out, so that a run goes on as if it had never been saved; a set or series that is read replaces what
// there was. What can't be one is refused.

// State writes or reads the moments.
func (m *Moments) State(c *state.Codec) {
	c.Int64(&m.Count)
	if c.Failed() || m.Count == 0 {
		if c.Loading() {
			*m = Moments{}
		}
		return
	}
	c.Float(&m.Mean)
	c.Float(&m.M2)
	c.Float(&m.Min)
	c.Float(&m.Max)
	if m.Count < 0 || m.Min > m.Max || m.M2 < 0 {
		c.Fail("found %d numbers from %v to %v with a sum of squares of %v, want at least 0, rising, and at least 0",
			m.Count, m.Min, m.Max, m.M2)
	}
}

// bucketState is a bucket of a histogram with something in it.
type bucketState struct{ value, count int64 }

// bucketStateBytes is what it takes.
const bucketStateBytes = 16

// bucketStates are buckets by rising value, each the least of its bucket and at most most, which hold all numbers.
func bucketStates(c *state.Codec, list *[]bucketState, numbers, most int64) {
	left, last := numbers, int64(-1)
	state.List(c, list, bucketStateBytes, func(b *bucketState) {
		c.Int64(&b.value)
		c.Int64(&b.count)
		if b.value <= last || b.value > most || b.value&(bucketWidth(b.value)-1) != 0 {
			c.Fail("found a bucket of %d ns behind one of %d ns, want a greater one, at most %d ns, where a bucket "+
				"begins", b.value, last, most)
		} else if b.count < 1 || b.count > left {
			c.Fail("found %d durations of %d ns, want 1 to %d", b.count, b.value, left)
		}
		last, left = b.value, left-b.count
	})
	if left != 0 {
		c.Fail("found %d of %d durations in buckets, want all", numbers-left, numbers)
	}
}

// bucketWidth is of how many whole numbers the bucket of value is.
func bucketWidth(value int64) int64 { return 1 << max(0, bits.Len64(uint64(value))-subBucketBits) }

// State writes or reads the set.
func (l *Latencies) State(c *state.Codec) {
	l.Moments.State(c)
	var list []bucketState
	if !c.Loading() && l.histogram != nil {
		list = make([]bucketState, 0, l.histogram.Populated())
		for value, count := range l.histogram.ForEachBucket {
			list = append(list, bucketState{value, count})
		}
	}
	bucketStates(c, &list, l.Count, nanosMax)
	if !c.Loading() || c.Failed() {
		return
	}
	l.histogram = nil
	for _, b := range list {
		if err := l.record(b.value, b.count); err != nil {
			c.Fail("%w", err)
			return
		}
	}
}

// State writes or reads the set that is being collected, of a Recorder for durations of the same length.
func (r *Recorder) State(c *state.Codec) {
	r.moments.State(c)
	var list []bucketState
	if !c.Loading() && r.moments.Count > 0 {
		list = bucketsOf(r.histogram)
	}
	bucketStates(c, &list, r.moments.Count, r.longest)
	if !c.Loading() || c.Failed() {
		return
	}
	if r.histogram.TotalCount() > 0 {
		r.histogram.Reset()
	}
	for _, b := range list {
		if err := r.histogram.RecordValues(b.value, b.count); err != nil {
			c.Fail("%w", err)
			return
		}
	}
}

// bucketsOf are the buckets with something in them, by rising value. They stand in the order of their values: those of
// one number each, and then so many of two, of four and so on (Distribution gives the same in six times the memory).
func bucketsOf(h *hdrhistogram.Histogram) (list []bucketState) {
	const many = subBucketBits - 1
	for i, count := range h.Export().Counts {
		if count > 0 {
			shift := max(0, i>>many-1)
			list = append(list, bucketState{int64(i-shift<<many) << shift, count})
		}
	}
	return list
}

// State writes or reads the set. Numbers that come later are recorded in a new table, as behind Merge.
func (v *Values) State(c *state.Codec) {
	v.settle()
	v.Moments.State(c)
	state.Words(c, &v.list)
	if !c.Loading() || c.Failed() {
		return
	}
	if v.Count == 0 && len(v.list) == 0 {
		v.list = nil
		return
	}
	if v.Count > countMask || !v.sound() {
		c.Fail("found %d values from %v to %v, want at most %d from %v to %v", v.Count, v.Min, v.Max, int64(countMask),
			-ValueMax, ValueMax)
		return
	}
	left, next, most := v.Count, orderedKey(v.Min), orderedKey(v.Max)
	for _, e := range v.list {
		key, count := e>>keyShift, int64(e&countMask)
		if key < next || key > most || count < 1 || count > left {
			c.Fail("found %d values in bucket %d, want 1 to %d in one of %d to %d", count, key, left, next, most)
			return
		}
		left, next = left-count, key+1
	}
	if left != 0 {
		c.Fail("found %d of %d values in buckets, want all", v.Count-left, v.Count)
	}
}

// State writes or reads the sums, of Batches of the same time and number.
func (b *Batches) State(c *state.Codec) {
	count, doublings := len(b.sums), b.doublings
	c.Int(&doublings)
	if doublings < 0 || doublings > finest {
		c.Fail("found batches that may double %d times, want 0 to %d", doublings, finest)
	}
	state.Words(c, &b.sums)
	if len(b.sums) != count {
		c.Fail("found %d batches, want %d", len(b.sums), count)
	}
	if c.Loading() && !c.Failed() {
		b.length = math.Ldexp(b.length, b.doublings-doublings)
		b.doublings = doublings
	}
}
