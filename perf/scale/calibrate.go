// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/disco-sim/disco/internal/latency"
	"github.com/disco-sim/disco/model/phold"
)

// readings are what was measured, by name, one value for each round. All that is compared is of the same rounds.
type readings map[string][]float64

func (r readings) add(name string, value float64) { r[name] = append(r[name], value) }

// get is the median of the rounds.
func (r readings) get(name string) float64 {
	if len(r[name]) == 0 {
		return 0
	}
	return median(r[name])
}

// ratios are the quotients of two readings, round by round, sorted.
func (r readings) ratios(a, b string) (all []float64) {
	for i := range min(len(r[a]), len(r[b])) {
		all = append(all, r[a][i]/r[b][i])
	}
	slices.Sort(all)
	return all
}

// The PHOLD that is measured on one worker and on two, and compared with the simulation.
const (
	checkNodes  = 1000
	checkEach   = 16
	checkEvents = 6e6   // that a run handles
	remoteMost  = 0.5   // for what it costs to send and to receive
	calm        = 0.5   // lookahead at which two workers hardly wait
	restless    = 0.001 // lookahead at which they wait in every window
	calmBatch   = 0.03
)

var (
	checkLookaheads = []float64{0.003, 0.01, 0.03, 0.1, 0.3}
	checkRemotes    = []float64{0.1, 0.5}
)

// shape is one run of a round.
type shape struct {
	nodes, workers    int
	lookahead, remote float64
	batch             int
	apart             bool // each worker simulates all of the nodes by itself: nothing is sent, and none waits
}

func (s shape) name() string {
	text := fmt.Sprintf("phold nodes=%d workers=%d lookahead=%g remote=%g batch=%d", s.nodes, s.workers, s.lookahead,
		s.remote, s.batch)
	if s.apart {
		text += " apart"
	}
	return text
}

// args are those of the run.
func (s shape) args() []string {
	args := []string{"--workers", strconv.Itoa(s.workers), "--batch", strconv.Itoa(s.batch), "--spread"}
	if s.apart {
		return append(args, "replications", "--replications", strconv.Itoa(s.workers))
	}
	return append(args, "nodes")
}

// whole is one worker with all nodes, pair two with a half each. both is two that have a half each and nothing to do
// with each other: what an event takes while another core works, too. half is one worker with a half, alone.
func whole(remote float64) shape       { return shape{checkNodes, 1, calmBatch, remote, batchMax, false} }
func pair(ahead, remote float64) shape { return shape{checkNodes, 2, ahead, remote, batchMax, false} }
func pairSingly() shape                { return shape{checkNodes, 2, calm, 0.1, 1, false} }
func both(remote float64) shape        { return shape{checkNodes / 2, 2, calmBatch, remote, batchMax, true} }
func half(batch int) shape             { return shape{checkNodes / 2, 1, calmBatch, 0.1, batch, false} }

// shapes are all runs of a round.
func shapes() []shape {
	all := []shape{half(1), half(batchMax), pair(calm, 0.1), pairSingly(), pair(calm, remoteMost),
		pair(restless, 0.1)}
	for _, r := range checkRemotes {
		all = append(all, both(r), whole(r))
		for _, l := range checkLookaheads {
			all = append(all, pair(l, r))
		}
	}
	return all
}

// Suffixes of the names of what a run gives.
const (
	perSecond = " events/s"
	working   = " ns working/event" // of all workers together
)

// calibrate adds a round: every run once, latency and cost of peers.
func (r *runner) calibrate(ctx context.Context, to readings, events float64) error {
	seconds, err := latency.Measure()
	if err != nil {
		return err
	}
	to.add(nameLatency, seconds*1e9)
	for _, s := range shapes() {
		p := phold.Params{LPs: s.nodes, Events: checkEach, Remote: s.remote, Lookahead: s.lookahead,
			End: events / float64(s.nodes*checkEach), RNG: phold.Default}
		m, err := r.quietly(ctx, p.YAML(), s.args(), limits{time.Minute, 4 << 30})
		if err != nil {
			return fmt.Errorf("%s: %w", s.name(), err)
		}
		to.add(s.name()+perSecond, m.rate)
		sum := 0.0
		for _, w := range m.results.Workers {
			sum += w.Working
		}
		to.add(s.name()+working, sum*1e9/float64(m.results.Events))
	}
	return nil
}

// apartLatency is how many times as long as in the fastest round a promise takes in a round with cores far from each
// other: a virtual machine's processors are now on near cores of its host, now on far ones.
const apartLatency = 2

// split divides readings into rounds with near cores and those with far ones.
func (r readings) split() (near, far readings) {
	near, far = readings{}, readings{}
	for i, latency := range r[nameLatency] {
		to := near
		if latency > apartLatency*slices.Min(r[nameLatency]) {
			to = far
		}
		for name, values := range r {
			if i < len(values) {
				to.add(name, values[i])
			}
		}
	}
	return near, far
}

// costsOfBoth are the constants of rounds with near cores, and what is different between far ones. Where there was no
// round with far ones, it is so many times as much.
func costsOfBoth(all readings, remote, times float64) costs {
	near, far := all.split()
	c := costsOf(near, remote, times)
	if len(far) > 0 {
		f := costsOf(far, remote, 1)
		c.Far, c.FarPeer = max(f.Latency, c.Latency), max(f.Peer, c.Peer)
	}
	return c
}

// nameLatency is a reading that isn't of a run.
const nameLatency = "latency of a promise, ns"

// costsOf makes the constants of readings. event is for the given share of events to others.
func costsOf(r readings, remote, far float64) costs {
	at := func(s shape) float64 { return r.get(s.name() + working) }
	// What two workers that send to each other take more than two that don't, with many such events and with few: all
	// else is the same in both.
	more := at(pair(calm, remoteMost)) - at(both(remoteMost))
	less := at(pair(calm, 0.1)) - at(both(0.1))
	exchange := max(0, (more-less)/((remoteMost-0.1)/2))
	c := costs{Event: at(both(remote)), Send: exchange / 2, Receive: exchange / 2, Latency: r.get(nameLatency)}
	// A pass for every event, and one for 256 of them.
	c.Pass = max(1, (at(half(1))-at(half(batchMax)))*batchMax/(batchMax-1))
	c.Peer = max(0, (at(pairSingly())-at(pair(calm, 0.1)))*batchMax/(batchMax-1)-c.Pass)
	c.Peers = max(0, less-exchange*0.1/2-(c.Pass+c.Peer)/batchMax)
	c.Far, c.FarPeer = c.Latency*far, c.Peer*far
	// Where every window has a wait, what the formula doesn't explain of a window is what a wait takes.
	p := engineParams{workers: 2, near: 2, pending: checkNodes * checkEach / 2, lookahead: restless, remote: 0.1,
		costs: c}
	p.Event = at(both(0.1))
	events := 2 * float64(p.pending) * p.lookahead
	c.Wake = max(0, events*1e9/r.get(pair(restless, 0.1).name()+perSecond)-predict(p).Window)
	return c
}
