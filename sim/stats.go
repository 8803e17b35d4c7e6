// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"io"

	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/scenario"
)

// statistic is something that a node measures under a name.
type statistic interface {
	// reset forgets what was measured before a time.
	reset(at float64)
}

// statistics are those of a node, in the order in which its setup function declared them.
type statistics struct {
	names []string
	list  []statistic
}

// declare adds a statistic.
func (n *Node) declare(name string, s statistic) {
	if n.begun {
		n.misuse("%q: statistics are declared in setup functions; the run is under way", name)
	}
	for _, other := range n.stats.names {
		if other == name {
			n.misuse("there is a statistic %q already", name)
		}
	}
	n.stats.names, n.stats.list = append(n.stats.names, name), append(n.stats.list, s)
}

func (s *statistics) report(end float64) []byte { return nil }

// Counter counts.
type Counter struct{ count float64 }

// Counter declares a counter of the node.
func (n *Node) Counter(name string) *Counter {
	c := &Counter{}
	n.declare(name, c)
	return c
}

// Inc adds one.
func (c *Counter) Inc() { c.count++ }

// Add adds an amount.
func (c *Counter) Add(amount float64) { c.count += amount }

// Value is what was counted since the warm-up.
func (c *Counter) Value() float64 { return c.count }

func (c *Counter) reset(float64) { c.count = 0 }

// Tally collects single values, such as waiting times.
type Tally struct{ m measure.Moments }

// Tally declares a tally of the node.
func (n *Node) Tally(name string) *Tally {
	t := &Tally{}
	n.declare(name, t)
	return t
}

// Add records a value.
func (t *Tally) Add(x float64) { t.m.Add(x) }

func (t *Tally) reset(float64) { *t = Tally{} }

// Gauge is a value that holds for a while, such as the length of a queue; its mean is weighted with time.
type Gauge struct {
	n          *Node
	value      float64
	since      float64
	area       float64
	least, top float64
}

// Gauge declares a gauge of the node, which is 0 at first.
func (n *Node) Gauge(name string) *Gauge {
	l := &Gauge{n: n}
	n.declare(name, l)
	return l
}

// Set sets the value from now on.
func (l *Gauge) Set(value float64) {
	l.area += (l.n.now - l.since) * l.value
	l.value, l.since = value, l.n.now
	l.least, l.top = min(l.least, value), max(l.top, value)
}

// Add changes the value by an amount.
func (l *Gauge) Add(amount float64) { l.Set(l.value + amount) }

// Value is the value now.
func (l *Gauge) Value() float64 { return l.value }

func (l *Gauge) reset(at float64) { l.area, l.since, l.least, l.top = 0, at, l.value, l.value }

// schema says which statistics every node has.
type schema struct{}

func newSchema() *schema { return &schema{} }

func (s *schema) take(n *Node) {}

// Accumulate implements scenario.Scenario.
func (m *Model) Accumulate() scenario.Accumulator { return &accumulator{} }

type accumulator struct{}

func (a *accumulator) Add(rep scenario.Replication) error { return nil }

func (a *accumulator) Summary() (scenario.Summary, error) { return &Results{}, nil }

// Results is what a run of a model has measured.
type Results struct{}

// WriteText implements scenario.Summary.
func (r *Results) WriteText(w io.Writer) error { return nil }
