// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"strings"

	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/state"
)

// Detail is something more about a statistic, for its declaration: Unit, Doc, Percentiles, Histogram, OverTime,
// EachNode.
type Detail func(s *described)

// Unit is what a statistic's values are counted in, "s" say. Times are in seconds.
func Unit(name string) Detail { return func(s *described) { s.unit = name } }

// Doc is what a statistic means, in one line.
func Doc(text string) Detail { return func(s *described) { s.doc = text } }

// percentilesDefault are those of a tally that asks for none.
var percentilesDefault = []float64{50, 90, 95, 99}

// Percentiles are those of a Tally that results have, in place of 50, 90, 95 and 99; each from 0 to 100.
func Percentiles(percent ...float64) Detail { return func(s *described) { s.percentiles = percent } }

// Histogram adds to the results of a Tally how many of its values lie in each of count bins of one width between low
// and high, and how many below and above. A value that is nearer to the end of a bin than 0.1 % may count for the
// neighbour; whole numbers up to 2,048 never do.
func Histogram(low, high float64, count int) Detail {
	return func(s *described) { s.low, s.high, s.bins = low, high, count }
}

// OverTime adds to the results how a statistic develops: the time from the end of the warm-up to the horizon is cut
// into count stretches of one length, and each has the mean of a Gauge or Tally, the rate of a Counter. count is an
// even number from 2 to 10,000; memory is 8 bytes for each at every node, 16 for a Tally, and 32 of them at least.
func OverTime(count int) Detail { return func(s *described) { s.stretches = count } }

// EachNode adds to the results the figures of every node of a group, however many there are. Without it those of at
// most 1,000 nodes are there.
func EachNode() Detail { return func(s *described) { s.eachNode = true } }

const (
	stretchesMax   = 10_000
	stretchesLeast = 32     // for intervals of a single replication
	stretchedNodes = 10_000 // with more nodes nothing is kept by stretches of time unless OverTime asks for it
	binsMax        = 10_000
)

// kind is what sort of statistic one is.
type kind uint8

const (
	counterKind kind = iota
	tallyKind
	gaugeKind
)

var kindNames = []string{"counter", "tally", "gauge"}

// described is what a declaration says.
type described struct {
	name        string
	kind        kind
	unit, doc   string
	percentiles []float64
	low, high   float64
	bins        int
	stretches   int // 0: none were asked for
	eachNode    bool
}

// statistic is something that a node measures under a name.
type statistic interface {
	// report appends what was measured from the end of the warm-up to now.
	report(dst []byte) []byte

	// state writes or reads what was measured so far, for a checkpoint.
	state(c *state.Codec)
}

// statistics are those of a node, in the order in which its setup function declared them.
type statistics struct {
	list  []statistic
	names []string
	of    []described // while only the structure is asked for
}

// declare adds a statistic, and makes what it needs to know of time.
func (n *Node) declare(name string, k kind, s statistic, details []Detail) stretch {
	if n.begun {
		n.misuse("%q: statistics are declared in setup functions; the run is under way", name)
	}
	if name == "" || strings.ContainsRune(name, '/') {
		n.misuse("a statistic %q: want a name without '/'", name)
	}
	name = n.m.within + name
	for _, other := range n.stats.names {
		if other == name {
			n.misuse("there is a statistic %q already", name)
		}
	}
	d := described{name: name, kind: k}
	for _, detail := range details {
		detail(&d)
	}
	d.check(n)
	n.stats.list, n.stats.names = append(n.stats.list, s), append(n.stats.names, name)
	if n.proc == nil {
		n.stats.of = append(n.stats.of, d)
	}
	return stretch{n: n, until: math.Inf(-1), count: d.count(n.m)}
}

// check refuses details that make no sense.
func (d *described) check(n *Node) {
	switch {
	case d.kind != tallyKind && (d.percentiles != nil || d.bins != 0):
		n.misuse("the %s %q: only a tally has percentiles and a histogram", kindNames[d.kind], d.name)
	case d.bins != 0 && (d.bins < 0 || d.bins > binsMax || !(d.low < d.high) || math.IsInf(d.high-d.low, 0)):
		n.misuse("%q: a histogram from %v to %v with %d bins: want 1 to %d", d.name, d.low, d.high, d.bins, binsMax)
	case d.stretches != 0 && (d.stretches < 2 || d.stretches > stretchesMax || d.stretches%2 != 0):
		n.misuse("%q: OverTime(%d): want an even number from 2 to %d", d.name, d.stretches, stretchesMax)
	}
	for _, p := range d.percentiles {
		if !(p >= 0 && p <= 100) {
			n.misuse("%q: percentile %v: want 0 to 100", d.name, p)
		}
	}
	if d.kind == tallyKind && d.percentiles == nil {
		d.percentiles = percentilesDefault
	}
}

// count is how many stretches of time are told apart; 0: none. Of what OverTime asks for each may be several, for the
// intervals.
func (d *described) count(m *Model) int {
	least := stretchesLeast
	if m.settles {
		least = max(least, measure.WindowCount(m.count))
	} else if d.stretches == 0 && m.count > stretchedNodes {
		return 0
	}
	n := max(d.stretches, 2)
	for n < least {
		n *= 2
	}
	return n
}

// stretch is the stretch of time for which a statistic adds up: what was added up goes to the batches when it is over.
// Before the end of the warm-up it is over at once.
type stretch struct {
	n     *Node
	until float64 // its end
	at    float64 // an instant in it
	count int     // of the batches; 0: there are none
}

// over reports whether the stretch is over, or the node isn't at work: then enter is for the rest.
func (s *stretch) over() bool { return !(s.n.now < s.until && s.n.active) }

// enter refuses a recording that isn't allowed, and reports whether the warm-up is over.
func (s *stretch) enter() bool {
	n := s.n
	if !n.active {
		n.misuse("a statistic of this node was changed by something other than its own functions and processes: " +
			"statistics belong to the node that declared them, and setup functions record nothing")
	}
	return n.now >= n.m.warmup
}

// next begins the stretch of now, and makes the batches where there are none yet.
func (s *stretch) next(b **measure.Batches) {
	if s.count == 0 {
		s.until = math.Inf(1)
		return
	}
	if *b == nil {
		*b = measure.NewBatches(s.n.m.warmup, s.n.proc.Horizon(), s.count)
	}
	s.at, s.until = s.n.now, (*b).End(s.n.now)
}

// Counter counts.
type Counter struct {
	stretch
	part, total float64 // of the stretch, and before it
	batches     *measure.Batches
}

// Counter declares a counter of the node. Results have how much it was after the warm-up, of all nodes and
// replications together, and the rate per simulated second of all nodes of the group.
func (n *Node) Counter(name string, details ...Detail) *Counter {
	c := &Counter{}
	c.stretch = n.declare(name, counterKind, c, details)
	return c
}

// Inc adds one.
func (c *Counter) Inc() { c.Add(1) }

// Add adds an amount, 0 or more.
func (c *Counter) Add(amount float64) {
	if !(amount >= 0) {
		c.n.misuse("a counter can't count %v: want 0 or more; what also falls is a Gauge", amount)
	}
	if c.n.journaled {
		c.n.noteStatistic(c, amount)
	}
	if c.over() && !c.turn() {
		return
	}
	c.part += amount
}

// turn begins a stretch; false before the end of the warm-up.
func (c *Counter) turn() bool {
	if !c.enter() {
		return false
	}
	c.flush()
	c.next(&c.batches)
	return true
}

func (c *Counter) flush() {
	if c.batches != nil {
		c.batches.At(c.at, c.part)
	}
	c.total += c.part
	c.part = 0
}

// Value is what was counted since the warm-up at this node.
func (c *Counter) Value() float64 { return c.total + c.part }

func (c *Counter) report(dst []byte) []byte {
	c.flush()
	return appendBatches(appendFloats(dst, c.total), c.batches)
}

// Tally collects single values, such as waiting times.
type Tally struct {
	stretch
	values measure.Values
	part   float64 // sum of the stretch
	before int64   // values before the stretch
	sums   *measure.Batches
	counts *measure.Batches

	windows *measure.Windows // spreads of values by time; nil: no time series are asked for
}

// Tally declares a tally of the node. Results have count, mean, standard deviation, least and greatest value and
// percentiles of what was recorded after the warm-up, at all nodes of the group. Values may be negative; percentiles
// are within 0.1 % of their distance from 0.
func (n *Node) Tally(name string, details ...Detail) *Tally {
	t := &Tally{}
	t.stretch = n.declare(name, tallyKind, t, details)
	return t
}

// Add records a value, a finite one.
func (t *Tally) Add(x float64) {
	if t.n.journaled {
		t.n.noteStatistic(t, x)
	}
	if t.over() && !t.turn() {
		return
	}
	if t.n.proc.Recording() {
		t.record(x)
	}
	if err := t.values.Add(x); err != nil {
		t.n.misuse("a tally: %v", err)
	}
	t.windows.Value(t.n.now, x)
	t.part += x
}

// turn begins a stretch; false before the end of the warm-up.
func (t *Tally) turn() bool {
	if !t.enter() {
		return false
	}
	t.flush()
	t.begin()
	t.next(&t.sums)
	if t.sums != nil && t.counts == nil {
		t.counts = measure.NewBatches(t.n.m.warmup, t.n.proc.Horizon(), t.count)
	}
	return true
}

func (t *Tally) flush() {
	if t.sums != nil && t.values.Count > t.before {
		t.sums.At(t.at, t.part)
		t.counts.At(t.at, float64(t.values.Count-t.before))
	}
	t.part, t.before = 0, t.values.Count
}

// Count is how many values were recorded since the warm-up at this node.
func (t *Tally) Count() int64 { return t.values.Count }

// Mean is the mean of the values that were recorded since the warm-up at this node, 0 of none.
func (t *Tally) Mean() float64 { return t.values.Mean }

func (t *Tally) report(dst []byte) []byte {
	t.flush()
	dst = appendBatches(t.values.Append(dst), t.sums)
	t.begin()
	t.windows.Reach(t.n.now)
	return t.windows.Append(appendBatches(dst, t.counts))
}

// Gauge is a value that holds for a while, such as the length of a queue; its mean is weighted with time.
type Gauge struct {
	stretch
	value, since float64 // value since an epoch in the stretch
	part, area   float64 // value × time in the stretch, and before it
	least, top   float64
	begun        bool // the warm-up is over
	batches      *measure.Batches
}

// Gauge declares a gauge of the node, which is 0 at first. Results have the mean over the time after the warm-up, the
// least and the greatest value and that at the end; those of a group are the mean of all its nodes, the least and the
// greatest of any of them, and the mean of those at the end.
func (n *Node) Gauge(name string, details ...Detail) *Gauge {
	g := &Gauge{}
	g.stretch = n.declare(name, gaugeKind, g, details)
	return g
}

// Set sets the value from now on, a finite one.
func (g *Gauge) Set(value float64) {
	if !(math.Abs(value) <= measure.ValueMax) {
		g.n.misuse("a gauge can't be %v: want a finite number", value)
	}
	if g.n.journaled {
		g.n.noteStatistic(g, value)
	}
	if g.over() && !g.turn() {
		g.value = value
		return
	}
	g.part += (g.n.now - g.since) * g.value
	g.value, g.since = value, g.n.now
	g.least, g.top = min(g.least, value), max(g.top, value)
}

// Add changes the value by an amount.
func (g *Gauge) Add(amount float64) { g.Set(g.value + amount) }

// Value is the value now.
func (g *Gauge) Value() float64 { return g.value }

// turn begins a stretch; false before the end of the warm-up. Until then only the value at hand counts, and from then
// on the time, whether or not anything happens at that moment.
func (g *Gauge) turn() bool {
	if !g.enter() {
		return false
	}
	g.flush()
	g.next(&g.batches)
	return true
}

// flush brings what was added up, up to now, into the area.
func (g *Gauge) flush() {
	now := g.n.now
	if !g.begun {
		g.begun = true
		g.since, g.at = g.n.m.warmup, g.n.m.warmup
		g.least, g.top = g.value, g.value
		if g.count > 0 {
			g.batches = measure.NewBatches(g.since, g.n.proc.Horizon(), g.count)
		}
	}
	g.area += g.part + (now-g.since)*g.value
	if g.batches != nil {
		g.batches.At(g.at, g.part)
		g.batches.Over(g.since, now, g.value)
	}
	g.part, g.since = 0, now
}

func (g *Gauge) report(dst []byte) []byte {
	if g.n.now < g.n.m.warmup {
		return appendBatches(appendFloats(dst, 0, g.value, g.value, g.value), nil)
	}
	g.flush()
	return appendBatches(appendFloats(dst, g.area, g.least, g.top, g.value), g.batches)
}
