package network

import "github.com/disco-sim/disco/model/measure"

func (t *tally) results() *Results {
	m := t.m
	r := &Results{HorizonSeconds: m.Horizon(), spec: m.spec, Flows: []FlowResult{}, Links: []LinkResult{}, Events: []EventResult{}, Outages: []OutageResult{}}
	var all measure.Latencies
	var lost [causes]int64
	for i := range t.runs {
		run := &t.runs[i]
		r.SimulatedSeconds += run.Reached
		r.Interrupted = r.Interrupted || run.Reached < run.Horizon
		r.Sent += run.sent
		r.Delivered += run.delivered
		r.InFlight += run.inFlight
		for why, n := range run.lost {
			lost[why] += n
			r.Lost += n
		}
		all.Merge(&run.latency)
		r.Replications = append(r.Replications, run.short())
	}
	r.LostBy = lossesOf(lost)
	r.OfferedPPS = per(float64(r.Sent), r.SimulatedSeconds)
	r.DeliveredPPS = per(float64(r.Delivered), r.SimulatedSeconds)
	r.LossRatio = per(float64(r.Lost), float64(r.Sent))
	r.Latency = all.Summary()
	t.addFlows(r)
	t.addLinks(r)
	t.addEvents(r)
	t.addOutages(r)
	r.Confidence = t.confidence()
	return r
}

func (r *run) short() ReplicationResult {
	row := ReplicationResult{
		Index: r.Index, Reached: r.Reached, Sent: r.sent, Delivered: r.delivered, LostBy: lossesOf(r.lost), InFlight: r.inFlight,
		DeliveredPPS: per(float64(r.delivered), r.Reached),
	}
	if s := r.latency.Summary(); s != nil {
		row.LatencyMean, row.LatencyP99 = &s.Mean, &s.P99
	}
	return row
}

// confidence takes each replication as one sample. It needs two that reached the
// horizon; those that were cut short are samples of something else.
func (t *tally) confidence() *Confidence {
	var delivered, ratio, mean []measure.Series
	var latencies []*measure.Latencies
	one := func(y, x float64) measure.Series { return measure.Series{Y: []float64{y}, X: []float64{x}} }
	for i := range t.runs {
		r := &t.runs[i]
		if r.Reached < r.Horizon {
			continue
		}
		lost := 0.0
		for _, n := range r.lost {
			lost += float64(n)
		}
		delivered = append(delivered, one(float64(r.delivered), r.Reached))
		ratio = append(ratio, one(lost, float64(r.sent)))
		mean = append(mean, one(r.latency.Mean*float64(r.latency.Count), float64(r.latency.Count)))
		latencies = append(latencies, &r.latency)
	}
	if len(delivered) < 2 {
		return nil
	}
	estimate := func(s []measure.Series) *measure.Interval {
		i, ok := measure.Ratio(s)
		if !ok {
			return nil
		}
		return &i
	}
	return &Confidence{
		Replications: len(delivered), DeliveredPPS: estimate(delivered), LossRatio: estimate(ratio),
		LatencyMean: estimate(mean), LatencyP99: measure.Percentile(99, latencies),
	}
}

// addFlows fills in what became of every flow, and the hops of all packets.
func (t *tally) addFlows(r *Results) {
	topology := t.m.spec.Topology
	var hops, hopsMax int64
	ways, root := (*tree)(nil), -1
	for i := range t.flows {
		f, spec := &t.flows[i], &t.m.spec.Flows[i]
		row := FlowResult{From: topology.Nodes[spec.From].Name, To: topology.Nodes[spec.To].Name, Sent: f.sent, Delivered: f.Count, LostBy: lossesOf(f.lost)}
		for _, n := range f.lost {
			row.Lost += n
		}
		row.InFlight = f.sent - f.Count - row.Lost
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
	at := make([]int, len(topology.Channels)) // index among the channels of its router
	for n := range topology.Nodes {
		for i, id := range topology.Out[n] {
			at[id] = i
		}
	}
	for id := range topology.Channels {
		ch := &topology.Channels[id]
		cable := &topology.Cables[ch.Cable]
		row := LinkResult{
			Link: cable.Name, From: topology.Nodes[ch.From].Name, To: topology.Nodes[ch.To].Name,
			RateBPS: cable.Rate, DelaySeconds: cable.Delay, InFlight: t.inFlightOn[id],
		}
		var busy, wait, time float64
		var lost [causes]int64
		var bytes int64
		for i := range t.runs {
			p := t.runs[i].parts[ch.From]
			c := &p.Channels[at[id]]
			row.Packets += c.Handed
			row.Carried += c.Carried
			row.QueueMax = max(row.QueueMax, c.WaitingMax)
			row.WaitMax = max(row.WaitMax, c.WaitedMax)
			bytes += c.Bytes
			busy += c.Busy
			wait += c.Wait
			time += p.End
			for why := range causes {
				lost[why] += c.Refused[why] + c.Lost[why]
				row.Lost += c.Refused[why] + c.Lost[why]
			}
		}
		row.LostBy = lossesOf(lost)
		row.CarriedBPS = per(8*float64(bytes), time)
		row.Utilisation, row.QueueMean = per(busy, time), per(wait, time)
		row.WaitMean = per(wait, float64(row.Packets))
		r.Links = append(r.Links, row)
	}
}

func (t *tally) addEvents(r *Results) {
	for e := range t.m.spec.Events {
		spec := &t.m.spec.Events[e]
		row := EventResult{ID: spec.ID, Kind: spec.Kind, Targets: len(spec.Targets), Random: spec.Random}
		for i := range t.runs {
			if h := t.runs[i].parts[0].History; e < len(h) {
				row.Count += h[e].Count
				row.Seconds += h[e].Seconds
			}
		}
		r.Events = append(r.Events, row)
	}
}

// addOutages compares the times around what is looked at closely.
func (t *tally) addOutages(r *Results) {
	for i := range t.runs {
		run := &t.runs[i]
		for _, o := range run.detailed {
			e := &t.m.spec.Events[o.event]
			if i > 0 && !e.Random {
				continue // is in the row of the first replication
			}
			row := OutageResult{ID: e.ID, Kind: e.Kind, Target: e.Targets[o.target].Name, Start: o.from, End: o.to}
			runs := t.runs
			if e.Random {
				runs = t.runs[i : i+1]
				row.Replication = &run.Index
			}
			before, during, after := around(o.window, t.m.Horizon())
			cables := e.Targets[o.target].Cables
			row.Before, row.During, row.After = t.phase(runs, before, cables), t.phase(runs, during, cables), t.phase(runs, after, cables)
			r.Outages = append(r.Outages, row)
		}
	}
}

// phase gathers what happened in w in the whole network and on the given cables.
func (t *tally) phase(runs []run, w window, cables []int) *Phase {
	if w.empty() {
		return nil
	}
	p := &Phase{From: w.from, To: w.to}
	var time float64
	var sent int64
	var lost [causes]int64
	var l measure.Latencies
	for i := range runs {
		run := &runs[i]
		lo, hi := run.cuts.within(w)
		time += w.until(run.Reached)
		for s := lo; s < hi; s++ {
			l.Merge(&run.segments[s])
			for _, part := range run.parts {
				sent += part.SentIn[s]
				for why, n := range part.LostIn[s] {
					lost[why] += n
				}
			}
		}
	}
	if time == 0 {
		return nil // interrupted before it
	}
	p.SentPPS, p.DeliveredPPS, p.Lost = per(float64(sent), time), per(float64(l.Count), time), lossesOf(lost)
	if s := l.Summary(); s != nil {
		p.LatencyMean, p.LatencyP95, p.LatencyP99 = &s.Mean, &s.P95, &s.P99
	}
	p.Links = t.linkPhase(runs, w, time, cables)
	return p
}

// linkPhase gathers what happened in w on both directions of the given cables.
func (t *tally) linkPhase(runs []run, w window, time float64, cables []int) *LinkPhase {
	topology := t.m.spec.Topology
	hit := make(map[int]bool, len(cables))
	for _, c := range cables {
		hit[c] = true
	}
	var p LinkPhase
	var channels float64
	var carried int64
	for n := range topology.Nodes {
		for i, id := range topology.Out[n] {
			if !hit[topology.Channels[id].Cable] {
				continue
			}
			channels++
			for k := range runs {
				lo, hi := runs[k].cuts.within(w)
				c := &runs[k].parts[n].Channels[i]
				for s := lo; s < hi && s < len(c.BusyIn); s++ {
					carried += c.CarriedIn[s]
					p.Lost += c.LostIn[s]
					p.Utilisation += c.BusyIn[s]
					p.QueueMean += c.WaitIn[s]
				}
			}
		}
	}
	if channels == 0 {
		return nil
	}
	p.CarriedPPS = per(float64(carried), time)
	p.Utilisation = per(p.Utilisation, time*channels)
	p.QueueMean = per(p.QueueMean, time*channels)
	return &p
}

// per is a rate or a mean; of nothing it is 0.
func per(sum, over float64) float64 {
	if over == 0 {
		return 0
	}
	return sum / over
}
