// SPDX-License-Identifier: Apache-2.0

package network

import "github.com/disco-sim/disco/model/measure"

// linkTotal is what one channel has carried in all replications.
type linkTotal struct {
	packets, carried, bytes,
	queueMax, inFlight int64
	waitMax, busy, wait, seconds float64
	lost                         [causes]int64
}

// sample is one replication that reached the horizon, or a group of them.
type sample struct {
	delivered, lost, sent, seconds float64
	latencies                      float64 // their sum
	latency                        measure.Latencies
}

func (s *sample) join(o *sample) {
	s.delivered += o.delivered
	s.lost += o.lost
	s.sent += o.sent
	s.seconds += o.seconds
	s.latencies += o.latencies
	s.latency.Merge(&o.latency)
}

// add adds one replication, which is not needed any more afterwards.
func (t *tally) add(r *run) {
	t.simulated += r.Reached
	t.measured += t.m.measured(r.Reached)
	t.interrupted = t.interrupted || r.Reached < r.Horizon
	t.sent += r.sent
	t.delivered += r.delivered
	t.inFlight += r.inFlight
	t.carried += r.carried
	lost := 0.0
	for why, n := range r.lost {
		t.lost[why] += n
		lost += float64(n)
	}
	t.latency.Merge(&r.latency)
	t.addChannels(r)
	for e, h := range r.reports[0].History {
		if e < len(t.history) {
			t.history[e].Count += h.Count
			t.history[e].Seconds += h.Seconds
		}
	}
	t.observe(r)
	t.rows = append(t.rows, r.short(t.m.measured(r.Reached)))
	if r.Reached == r.Horizon {
		t.full++
		t.whole.Add(sample{
			delivered: float64(r.delivered), lost: lost, sent: float64(r.sent), seconds: t.m.measured(r.Reached),
			latencies: r.latency.Mean * float64(r.latency.Count), latency: r.latency,
		})
	}
}

func (t *tally) addChannels(r *run) {
	for n, p := range r.reports {
		for i, id := range t.m.spec.Topology.Out[n] {
			l, c := &t.links[id], &p.Channels[i]
			b := &c.Before
			l.packets += c.Handed - b.Handed
			l.carried += c.Carried - b.Carried
			l.bytes += c.Bytes - b.Bytes
			l.queueMax = max(l.queueMax, c.WaitingMax)
			l.waitMax = max(l.waitMax, c.WaitedMax)
			l.busy += max(0, c.Busy-b.Busy)
			l.wait += max(0, c.Wait-b.Wait)
			l.seconds += t.m.measured(p.End)
			for why := range causes {
				l.lost[why] += c.Refused[why] + c.Lost[why] - b.Refused[why] - b.Lost[why]
			}
		}
	}
}

// short is a replication's row.
func (r *run) short(measured float64) ReplicationResult {
	row := ReplicationResult{
		Index: r.Index, Reached: r.Reached, Sent: r.sent, Delivered: r.delivered, LostBy: lossesOf(r.lost),
		InFlight:     r.inFlight,
		DeliveredPPS: per(float64(r.delivered), measured),
	}
	if r.latency.Count > 0 {
		mean, p99 := r.latency.Mean, r.latency.P(99)
		row.LatencyMean, row.LatencyP99 = &mean, &p99
	}
	return row
}
