// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/disco-sim/disco/state"
)

// Append appends the windows as bytes: how often they may still double, the number of sums up to the last that isn't 0,
// these sums, the number of entries of the spread, and for each the distance of its window and bucket to those before
// and its count. Whole numbers are varints, and so are the sums: as float64 with their bytes in reverse, so that small
// whole ones are short. A nil *Windows appends nothing.
func (w *Windows) Append(dst []byte) []byte {
	if w == nil {
		return dst
	}
	sums := w.sums
	for len(sums) > 0 && sums[len(sums)-1] == 0 {
		sums = sums[:len(sums)-1]
	}
	dst = binary.AppendUvarint(dst, uint64(w.doublings))
	dst = binary.AppendUvarint(dst, uint64(len(sums)))
	for _, x := range sums {
		dst = binary.AppendUvarint(dst, bits.ReverseBytes64(math.Float64bits(x)))
	}
	list := w.spread.list()
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	last := uint64(0)
	for _, e := range list {
		dst = binary.AppendUvarint(dst, e>>spreadShift-last)
		dst = binary.AppendUvarint(dst, e&spreadMask)
		last = e >> spreadShift
	}
	return dst
}

var errWindows = errors.New("measure: the bytes of windows are cut short or wrong")

// Read adds the windows that Append wrote at the start of src, which are of the same horizon, number and fields, and
// returns what is behind them. A nil *Windows reads nothing.
func (w *Windows) Read(src []byte) ([]byte, error) {
	if w == nil {
		return src, nil
	}
	r := reader{rest: src}
	doublings, n := r.whole(), r.whole()
	if r.err != nil || doublings > finest || n > int64(len(w.sums)) || n > int64(len(r.rest)) {
		return nil, errWindows
	}
	o := &Windows{fields: w.fields, doublings: int(doublings), sums: make([]float64, len(w.sums)),
		width: math.Ldexp(w.width, w.doublings-int(doublings)), spread: spread{windows: w.spread.windows}}
	for i := range n {
		x, size := binary.Uvarint(r.rest)
		if size <= 0 {
			return nil, errWindows
		}
		r.rest = r.rest[size:]
		if o.sums[i] = math.Float64frombits(bits.ReverseBytes64(x)); !(math.Abs(o.sums[i]) <= math.MaxFloat64) {
			return nil, errWindows
		}
	}
	key, most := int64(0), int64(w.spread.windows)<<spreadKeyBits
	for left, first := r.whole(), true; left > 0 && r.err == nil; left, first = left-1, false {
		step, count := r.whole(), r.whole()
		if r.err != nil || step > most || key+step >= most || step == 0 && !first || count < 1 || count > spreadMask {
			return nil, errWindows
		}
		key += step
		o.spread.add(uint64(key), uint64(count))
	}
	if r.err != nil {
		return nil, errWindows
	}
	w.Add(o)
	return r.rest, nil
}

// State writes or reads the windows, of ones of the same horizon, number and fields.
func (w *Windows) State(c *state.Codec) {
	if w == nil {
		return
	}
	doublings, n, list := w.doublings, len(w.sums), w.spread.list()
	if c.Int(&doublings); doublings < 0 || doublings > finest {
		c.Fail("found windows that may double %d times, want 0 to %d", doublings, finest)
	}
	state.Words(c, &w.sums)
	if len(w.sums) != n {
		c.Fail("found %d sums of windows, want %d", len(w.sums), n)
		w.sums = make([]float64, n)
	}
	for _, x := range w.sums {
		if !(math.Abs(x) <= math.MaxFloat64) {
			c.Fail("found %v in a window, want a finite number", x)
			break
		}
	}
	state.Words(c, &list)
	if !c.Loading() || c.Failed() {
		return
	}
	w.width = math.Ldexp(w.width, w.doublings-doublings)
	w.doublings = doublings
	w.from, w.end = math.Inf(1), math.Inf(-1)
	w.spread = spread{windows: w.spread.windows}
	for i, e := range list {
		if e>>(spreadShift+spreadKeyBits) >= uint64(w.spread.windows) || e&spreadMask == 0 ||
			i > 0 && e>>spreadShift <= list[i-1]>>spreadShift {
			c.Fail("found the entry %#x behind %#x in the spread of %d windows", e, list[max(0, i-1)], w.spread.windows)
			return
		}
		w.spread.add(e>>spreadShift, e&spreadMask)
	}
}

// Course is what the windows of all nodes have come to, over the replications of a run. A nil *Course takes nothing in.
type Course struct {
	elapsed *Windows
	nodes   []*Windows // nil: nothing was read yet
	horizon float64
	reached float64 // of the replication that has come farthest
	count   int
}

// NewCourse makes the course of a number of nodes, each with at most count windows up to a horizon.
func NewCourse(horizon float64, count, nodes int) *Course {
	return &Course{elapsed: NewWindows(horizon, count, 1), nodes: make([]*Windows, nodes), horizon: horizon,
		count: count}
}

// Begin begins a replication, which has reached an instant.
func (c *Course) Begin(reached float64) {
	if c != nil {
		c.elapsed.Over(0, reached, 0, 1)
		c.reached = max(c.reached, reached)
	}
}

// Read adds what Windows.Append has written of a node's windows, which have so many fields, and of nothing else. The
// order of the nodes doesn't matter, that of a node's replications does.
func (c *Course) Read(node, fields int, src []byte) error {
	if c == nil && len(src) == 0 {
		return nil
	} else if c == nil {
		return fmt.Errorf("measure: found %d bytes of windows, want none: no time series were asked for", len(src))
	}
	if c.nodes[node] == nil {
		c.nodes[node] = NewWindows(c.horizon, c.count, fields)
	}
	rest, err := c.nodes[node].Read(src)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("measure: found %d bytes behind windows, want none", len(rest))
	}
	return err
}

// Close makes the windows of all nodes equally wide, and returns those of the time that was simulated, in seconds, and
// where each begins and ends. Nothing may be read afterwards.
func (c *Course) Close() (edges, seconds []float64) {
	least := c.elapsed.doublings
	for _, w := range c.nodes {
		if w != nil {
			least = min(least, w.doublings)
		}
	}
	c.elapsed.Coarsen(least)
	for _, w := range c.nodes {
		if w != nil {
			w.Coarsen(least)
		}
	}
	edges = c.elapsed.Edges(c.reached)
	return edges, c.elapsed.Sums(0)[:len(edges)-1]
}

// Sums are those of a field of a node, window by window, zeros where nothing was read of it.
func (c *Course) Sums(node, field int) []float64 {
	if c.nodes[node] == nil {
		return make([]float64, c.elapsed.Count())
	}
	return c.nodes[node].Sums(field)
}

// Total is the sum of a field over the nodes from one on to before another, in their order.
func (c *Course) Total(from, to, field int) []float64 {
	sum := make([]float64, c.elapsed.Count())
	for n := from; n < to; n++ {
		for k, x := range c.Sums(n, field) {
			sum[k] += x
		}
	}
	return sum
}

// Percentiles are those of the values of all nodes together, for each percent by window; NaN where there were none.
func (c *Course) Percentiles(percents ...float64) [][]float64 {
	all := spread{windows: c.elapsed.Count()}
	for _, w := range c.nodes {
		if w != nil {
			all.merge(&w.spread)
		}
	}
	lists := make([][]float64, len(percents))
	for i, p := range percents {
		lists[i] = all.percentile(p)
	}
	return lists
}
