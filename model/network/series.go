// SPDX-License-Identifier: Apache-2.0

package network

import (
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/scenario"
)

var (
	_ scenario.Serial   = (*Results)(nil)
	_ scenario.Eventful = (*Results)(nil)
)

// What a router counts by windows of simulated time, where time series are asked for, and behind that what it counts
// of each of its channels.
const (
	bornHere      = iota // packets
	deliveredHere        // packets
	lostHere             // packets
	latencySum           // seconds, of those delivered
	routerFields

	busyTime      = 0 // seconds
	waitingTime   = 1 // packets × time
	channelFields = 2

	spreadFields = 300 // what a window's spread of latencies takes, about
)

// Series implements scenario.Serial: first those of the whole network, then those of each direction of the first links.
func (r *Results) Series(yield func(*scenario.Series) bool) {
	c := r.course
	if c == nil {
		return
	}
	edges, seconds := c.Close()
	n, nodes, t := len(seconds), len(r.spec.Topology.Nodes), r.spec.Topology
	more := func(name, of, unit string, y, x []float64) bool {
		return yield(&scenario.Series{Name: name, Of: of, Unit: unit, Edges: edges,
			Values: measure.Quotients(y[:n], x[:n])})
	}
	delivered := c.Total(0, nodes, deliveredHere)
	if !more("offered", "", "packets/s", c.Total(0, nodes, bornHere), seconds) ||
		!more("delivered", "", "packets/s", delivered, seconds) ||
		!more("lost", "", "packets/s", c.Total(0, nodes, lostHere), seconds) ||
		!more("latency_mean", "", "s", c.Total(0, nodes, latencySum), delivered) {
		return
	}
	for i, list := range c.Percentiles(50, 95, 99) {
		if !yield(&scenario.Series{Name: [...]string{"latency_p50", "latency_p95", "latency_p99"}[i], Unit: "s",
			Edges: edges, Values: list[:n]}) {
			return
		}
	}
	shown := 0
	for from := range nodes {
		for i, id := range t.Out[from] {
			if shown == scenario.SeriesOfMax {
				return
			}
			shown++
			of, field := t.channelName(int(id)), routerFields+channelFields*i
			if !more("utilisation", of, "", c.Sums(from, field+busyTime), seconds) ||
				!more("waiting", of, "packets", c.Sums(from, field+waitingTime), seconds) {
				return
			}
		}
	}
}

// Spans implements scenario.Eventful: what happened that is looked at closely, but random events of one replication
// among several.
func (r *Results) Spans() (all []scenario.Span) {
	for i := range r.Outages {
		o := &r.Outages[i]
		if o.Replication == nil || len(r.Replications) == 1 {
			all = append(all, scenario.Span{Name: o.ID, From: o.Start, To: o.End, Targets: o.targets})
		}
	}
	return all
}
