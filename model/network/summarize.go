// SPDX-License-Identifier: Apache-2.0

package network

import (
	"math"

	"github.com/disco-sim/disco/model/measure"
)

func (t *tally) results() *Results {
	m := t.m
	r := &Results{HorizonSeconds: m.Horizon(), spec: m.spec, latencies: &t.latency,
		course: t.course, Flows: []FlowResult{},
		Links:  []LinkResult{},
		Events: []EventResult{}, Outages: []OutageResult{}}
	r.SimulatedSeconds, r.Interrupted = t.simulated, t.interrupted
	r.Sent, r.Delivered, r.InFlight = t.sent, t.delivered, t.inFlight
	for _, n := range t.lost {
		r.Lost += n
	}
	r.WarmupSeconds, r.Before = m.spec.Warmup, t.carried
	r.Replications = t.rows
	r.LostBy = lossesOf(t.lost)
	r.OfferedPPS = per(float64(r.Sent), t.measured)
	r.DeliveredPPS = per(float64(r.Delivered), t.measured)
	r.LossRatio = per(float64(r.Lost), float64(r.Sent))
	r.Latency = t.latency.Summary()
	t.addFlows(r)
	t.addLinks(r)
	t.addEvents(r)
	for _, o := range t.outages {
		r.Outages = append(r.Outages, t.outageResult(o))
	}
	r.Confidence = t.confidence()
	return r
}

// confidence takes each replication, or group of them, as one sample. It needs two that
// reached the horizon; those that were cut short are samples of something else.
func (t *tally) confidence() *Confidence {
	groups := t.whole.Close()
	if len(groups) < 2 {
		return nil
	}
	var latencies []*measure.Latencies
	for i := range groups {
		latencies = append(latencies, &groups[i].latency)
	}
	estimate := func(most float64, of func(*sample) (y, x float64)) *measure.Interval {
		var series []measure.Series
		for i := range groups {
			y, x := of(&groups[i])
			series = append(series, measure.Series{Y: []float64{y}, X: []float64{x}})
		}
		i, ok := measure.Ratio(series)
		if !ok {
			return nil
		}
		i = i.Clip(most)
		return &i
	}
	endless := math.Inf(1)
	return &Confidence{
		Replications: t.full,
		DeliveredPPS: estimate(endless, func(s *sample) (y, x float64) { return s.delivered, s.seconds }),
		LossRatio:    estimate(1, func(s *sample) (y, x float64) { return s.lost, s.sent }),
		LatencyMean: estimate(endless, func(s *sample) (y, x float64) {
			return s.latencies,
				float64(s.latency.Count)
		}),
		LatencyP99: measure.Percentile(99, latencies),
	}
}

// addFlows fills in what became of every flow, and the hops of all packets.
func (t *tally) addFlows(r *Results) {
	topology := t.m.spec.Topology
	var hops, hopsMax int64
	ways, root := (*tree)(nil), -1
	for i := range t.flows {
		f, spec := &t.flows[i], &t.m.spec.Flows[i]
		row := FlowResult{From: topology.Nodes[spec.From].Name, To: topology.Nodes[spec.To].Name, Sent: f.sent,
			Delivered: f.Count, LostBy: lossesOf(f.lost)}
		for _, n := range f.lost {
			row.Lost += n
		}
		row.InFlight = f.carried + f.sent - f.Count - row.Lost
		hops += f.hops
		hopsMax = max(hopsMax, int64(f.hopsMax))
		if f.Count > 0 {
			row.Hops = &Hops{Mean: float64(f.hops) / float64(f.Count), Max: int64(f.hopsMax)}
		}
		if t.m.perFlow {
			row.Latency = f.Summary()
		} else if f.Count > 0 {
			row.LatencyMean = &f.Mean
		}
		if root != spec.From {
			ways, root = topology.shortest(spec.From, t.m.metric, func(int) bool { return false }), spec.From
		}
		if ways.first[spec.To] >= 0 {
			row.ShortestPath = &ways.delay[spec.To]
		}
		r.Flows = append(r.Flows, row)
	}
	if r.Delivered > 0 {
		r.Hops = &Hops{Mean: float64(hops) / float64(r.Delivered), Max: hopsMax}
	}
}

// addLinks fills in what every direction of every link has carried.
func (t *tally) addLinks(r *Results) {
	topology := t.m.spec.Topology
	for id := range topology.Channels {
		ch, l := &topology.Channels[id], &t.links[id]
		cable := &topology.Cables[ch.Cable]
		row := LinkResult{
			Link: cable.Name, From: topology.Nodes[ch.From].Name, To: topology.Nodes[ch.To].Name,
			RateBPS: cable.Rate, DelaySeconds: cable.Delay, InFlight: l.inFlight,
			Packets: l.packets, Carried: l.carried, QueueMax: l.queueMax, WaitMax: l.waitMax,
		}
		for _, n := range l.lost {
			row.Lost += n
		}
		row.LostBy = lossesOf(l.lost)
		row.CarriedBPS = per(8*float64(l.bytes), l.seconds)
		row.Utilisation, row.QueueMean = per(l.busy, l.seconds), per(l.wait, l.seconds)
		row.WaitMean = per(l.wait, float64(row.Packets))
		r.Links = append(r.Links, row)
	}
}

func (t *tally) addEvents(r *Results) {
	for e := range t.m.spec.Events {
		spec, h := &t.m.spec.Events[e], &t.history[e]
		r.Events = append(r.Events, EventResult{ID: spec.ID, Kind: spec.Kind, Targets: len(spec.Targets),
			Random: spec.Random, Count: h.Count, Seconds: h.Seconds})
	}
}

// per is a rate or a mean; of nothing it is 0.
func per(sum, over float64) float64 {
	if over == 0 {
		return 0
	}
	return sum / over
}
