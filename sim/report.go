// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/disco-sim/disco/model/measure"
)

// A node's report is the time at which it ends as float64; and for each statistic, in the order of its declaration, a
// byte for its kind and
//
//	counter: what was counted; batches
//	tally:   measure.Values; batches of the sums; batches of the counts; where time series are asked for,
//	         measure.Windows
//	gauge:   area, least, greatest and last value; batches
//
// all numbers as float64. Batches are 0 for none, or 1 + how often they may still double, and their sums.

func appendFloats(dst []byte, xs ...float64) []byte {
	for _, x := range xs {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(x))
	}
	return dst
}

func appendBatches(dst []byte, b *measure.Batches) []byte {
	if b == nil {
		return append(dst, 0)
	}
	return appendFloats(append(dst, byte(1+b.Doublings())), b.Sums()...)
}

// report is what the statistics of a node have measured; nil without any.
func (n *Node) report() []byte {
	if len(n.stats.list) == 0 {
		return nil
	}
	dst := appendFloats(nil, n.now)
	for _, s := range n.stats.list {
		k := tallyKind
		switch s.(type) {
		case *Counter:
			k = counterKind
		case *Gauge:
			k = gaugeKind
		}
		dst = s.report(append(dst, byte(k)))
	}
	return dst
}

// amounts are what one statistic has measured: at one node in one replication, or at many in many. Its mean is sum
// over weight: what was counted over time, the sum of values over their number, area over time.
type amounts struct {
	values           measure.Values // of a tally
	sum, weight      float64
	least, top, last float64          // of a gauge; last is summed up over gauges
	gauges           int              // of which least, top and last are
	y, x             *measure.Batches // sum and weight by time; nil: not known
	windows          *measure.Windows // of a tally; nil: no time series are asked for
}

// merge adds what another node has measured, or another replication.
func (a *amounts) merge(o *amounts) {
	a.values.Merge(&o.values)
	a.sum += o.sum
	a.weight += o.weight
	if o.gauges > 0 {
		if a.gauges == 0 {
			a.least, a.top = o.least, o.top
		}
		a.least, a.top = min(a.least, o.least), max(a.top, o.top)
		a.last += o.last
		a.gauges += o.gauges
	}
	a.y, a.x = addBatches(a.y, o.y), addBatches(a.x, o.x)
	if a.windows == nil {
		a.windows = o.windows
	} else if o.windows != nil {
		a.windows.Add(o.windows)
	}
}

// addBatches adds b to a, which may be nil. b is the caller's own.
func addBatches(a, b *measure.Batches) *measure.Batches {
	if a == nil {
		return b
	}
	if b != nil {
		a.Add(b)
	}
	return a
}

var errReport = errors.New("it is cut short or wrong")

// reader takes values off the front of a report; after an error it gives zeros.
type reader struct {
	m    *Model
	rest []byte
	end  float64 // of the time that the report is about
	err  error
}

func (r *reader) float() float64 {
	if r.err != nil || len(r.rest) < 8 {
		r.err = errReport
		return 0
	}
	x := math.Float64frombits(binary.LittleEndian.Uint64(r.rest))
	r.rest = r.rest[8:]
	if math.IsNaN(x) || math.IsInf(x, 0) {
		r.err = errors.New("it has a number that isn't finite")
		return 0
	}
	return x
}

func (r *reader) byte() byte {
	if r.err != nil || len(r.rest) == 0 {
		r.err = errReport
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

// span is how much time after the warm-up the report is about.
func (r *reader) span() float64 { return max(0, r.end-r.m.warmup) }

// batches reads so many sums; where nothing was recorded they are 0.
func (r *reader) batches(count int) *measure.Batches {
	doublings := int(r.byte()) - 1
	if r.err != nil || count == 0 && doublings < 0 {
		return nil
	}
	if doublings < 0 {
		return measure.NewBatches(r.m.warmup, r.m.horizon, count)
	}
	if count == 0 || len(r.rest) < 8*count {
		r.err = errReport
		return nil
	}
	sums := make([]float64, count)
	for i := range sums {
		sums[i] = r.float()
	}
	b, err := measure.ReadBatches(r.m.warmup, r.m.horizon, sums, doublings)
	if err != nil && r.err == nil {
		r.err = err
	}
	return b
}

// time is the weight of what holds for all the time, as many times as given.
func (r *reader) time(count int, times float64) (weight float64, b *measure.Batches) {
	if count > 0 {
		b = measure.NewBatches(r.m.warmup, r.m.horizon, count)
		b.Over(r.m.warmup, r.end, times)
	}
	return r.span() * times, b
}

// statistic reads one statistic of a node. A counter's rate is that of all nodes together, so each has its share of
// the time.
func (r *reader) statistic(e *schemaEntry) (a amounts) {
	if k := r.byte(); r.err == nil && kind(k) != e.kind {
		r.err = fmt.Errorf("%s is of another kind", e.name)
	}
	count := e.count(r.m)
	switch e.kind {
	case counterKind:
		a.sum = r.float()
		a.y = r.batches(count)
		a.weight, a.x = r.time(count, 1/float64(e.nodes))
	case gaugeKind:
		a.sum, a.least, a.top, a.last, a.gauges = r.float(), r.float(), r.float(), r.float(), 1
		a.y = r.batches(count)
		a.weight, a.x = r.time(count, 1)
	case tallyKind:
		if r.err == nil {
			r.rest, r.err = a.values.Read(r.rest)
		}
		a.y, a.x = r.batches(count), r.batches(count)
		if a.windows = r.m.newWindows(); r.err == nil {
			r.rest, r.err = a.windows.Read(r.rest)
		}
		a.sum, a.weight = a.values.Mean*float64(a.values.Count), float64(a.values.Count)
	}
	return a
}

// read calls take for each statistic of a report.
func (s *schema) read(m *Model, report []byte, list []int32, take func(e *schemaEntry, a *amounts)) error {
	if len(list) == 0 {
		return nil
	}
	r := &reader{m: m, rest: report}
	if r.end = r.float(); r.err == nil && (r.end < 0 || r.end > m.horizon) {
		return fmt.Errorf("it ends at %v s, which isn't from 0 to %v", r.end, m.horizon)
	}
	for _, i := range list {
		a := r.statistic(s.entries[i])
		if r.err != nil {
			return r.err
		}
		take(s.entries[i], &a)
	}
	if len(r.rest) > 0 {
		return fmt.Errorf("%d bytes are left behind its last statistic", len(r.rest))
	}
	return nil
}
