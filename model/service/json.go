// SPDX-License-Identifier: Apache-2.0

package service

import (
	"bytes"
	"io"
	"slices"

	"github.com/disco-sim/disco/internal/jsonstream"
	"github.com/disco-sim/disco/model/measure"
)

// WriteJSON writes what json.MarshalIndent makes of the results, without making all of it first: a line for each number
// of a million servers is a gigabyte.
func (r *Results) WriteJSON(w io.Writer, prefix, indent string) error {
	return jsonstream.Write(w, prefix, indent, func(s *jsonstream.Stream) { s.Object(func() { r.write(s) }) })
}

// MarshalJSON is for encoding/json.
func (r *Results) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	err := r.WriteJSON(&b, "", "")
	return b.Bytes(), err
}

// write writes the members in the order of the fields; those of objects whose members are ids in the order of these.
func (r *Results) write(s *jsonstream.Stream) {
	s.Key("horizon_s").Float(r.HorizonSeconds)
	s.Key("simulated_s").Float(r.SimulatedSeconds)
	if r.WarmupSeconds > 0 {
		s.Key("warmup_s").Float(r.WarmupSeconds)
	}
	s.Key("interrupted").Value(r.Interrupted)
	s.Key("requests_generated").Int(r.RequestsGenerated)
	s.Key("requests_completed").Int(r.RequestsCompleted)
	s.Key("requests_dropped").Int(r.RequestsDropped)
	s.Key("requests_in_flight").Int(r.RequestsInFlight)
	if r.RequestsBefore > 0 {
		s.Key("requests_before").Int(r.RequestsBefore)
	}
	s.Key("throughput_rps").Float(r.ThroughputRPS)
	s.Key("latency_s").Value(r.Latency)
	balancers := sorted(len(r.spec.Balancers), func(i int) string { return r.spec.Balancers[i].ID })
	servers := sorted(len(r.spec.Servers), func(i int) string { return r.spec.Servers[i].ID })
	edges := sorted(len(r.spec.Edges), func(i int) string { return r.spec.Edges[i].ID })
	if r.Confidence != nil {
		s.Key("confidence_95").Object(func() { r.writeConfidenceJSON(s, servers) })
	}
	s.Key("generator").Value(r.Generator)
	s.Key("load_balancers")
	s.Members(len(balancers), func(e *jsonstream.Encoder, i int) { r.writeBalancer(e, int(balancers[i])) })
	sampled := slices.Sorted(slices.Values(r.spec.Settings.Sampled))
	s.Key("servers")
	s.Members(len(servers), func(e *jsonstream.Encoder, i int) { r.writeServer(e, int(servers[i]), sampled) })
	s.Key("edges")
	s.Members(len(edges), func(e *jsonstream.Encoder, i int) { r.writeEdge(e, int(edges[i]), sampled) })
	s.Key("outages").Value(r.Outages)
	s.Key("spikes").Value(r.Spikes)
	s.Key("replications").Value(r.Replications)
}

func (r *Results) writeConfidenceJSON(s *jsonstream.Stream, servers []int32) {
	c := r.Confidence
	s.Key("replications").Int(int64(c.Replications))
	s.Key("throughput_rps").Value(c.ThroughputRPS)
	s.Key("latency_mean_s").Value(c.LatencyMean)
	s.Key("latency_p50_s").Value(c.LatencyP50)
	s.Key("latency_p95_s").Value(c.LatencyP95)
	s.Key("latency_p99_s").Value(c.LatencyP99)
	s.Key("servers")
	s.Members(len(servers), func(e *jsonstream.Encoder, i int) {
		of := r.serverConfidence(int(servers[i]))
		e.Key(r.spec.Servers[servers[i]].ID).Object(func() {
			writeInterval(e.Key("utilisation"), of.Utilisation)
			writeInterval(e.Key("ready_queue_mean"), of.ReadyQueueMean)
		})
	})
}

// writeInterval is measure.Interval.MarshalJSON.
func writeInterval(e *jsonstream.Encoder, i measure.Interval) {
	e.Object(func() {
		var halfWidth, low, high *float64
		if i.Known() {
			halfWidth, low, high = &i.HalfWidth, &i.Low, &i.High
		}
		e.Key("mean").Float(i.Mean)
		e.Key("half_width").FloatOrNull(halfWidth)
		e.Key("low").FloatOrNull(low)
		e.Key("high").FloatOrNull(high)
		e.Key("samples").Int(int64(i.N))
	})
}

func (r *Results) writeBalancer(e *jsonstream.Encoder, i int) {
	n := r.balancerNode(i)
	out := r.spec.topology.boxes[n].out
	target := func(k int) string { return r.spec.Edges[out[k]].Target }
	e.Key(r.spec.Balancers[i].ID).Object(func() {
		e.Key("requests").Int(r.tally.boxes[n].received)
		e.Key("targets").Object(func() {
			for _, k := range sorted(len(out), target) {
				e.Key(target(int(k))).Int(r.tally.edges[out[k]].sent)
			}
		})
	})
}

func (r *Results) writeServer(e *jsonstream.Encoder, i int, sampled []string) {
	var s ServerResult
	r.fillServer(&s, i)
	e.Key(r.spec.Servers[i].ID).Object(func() {
		e.Key("requests").Int(s.Requests)
		e.Key("completed").Int(s.Completed)
		e.Key("in_server").Int(s.InServer)
		e.Key("utilisation").Float(s.Utilisation)
		e.Key("ready_queue_mean").Float(s.ReadyQueueMean)
		e.Key("ready_queue_max").Int(s.ReadyQueueMax)
		e.Key("io_mean").Float(s.IOMean)
		e.Key("io_max").Int(s.IOMax)
		e.Key("ram_mean").Float(s.RAMMean)
		e.Key("ram_max").Float(s.RAMMax)
		e.Key("ram_queue_mean").Float(s.RAMQueueMean)
		e.Key("ram_queue_max").Int(s.RAMQueueMax)
		e.Key("residence_mean_s").FloatOrNull(s.ResidenceMean)
		e.Key("requests_in_mean").Float(s.RequestsInMean)
		endpoints, picked := r.spec.Servers[i].Endpoints, r.picked(i)
		e.Key("endpoints").List(len(endpoints), func(k int) {
			e.Object(func() {
				e.Key("name").Text(endpoints[k].Name)
				e.Key("requests").Int(picked[k])
			})
		})
		e.Key("sampled").Object(func() {
			for _, metric := range sampled {
				if m, ok := serverMetrics[metric]; ok {
					writeSampled(e.Key(metric), r.sampled(i, m))
				}
			}
		})
	})
}

func (r *Results) writeEdge(e *jsonstream.Encoder, i int, sampled []string) {
	var s EdgeResult
	r.fillEdge(&s, i)
	e.Key(r.spec.Edges[i].ID).Object(func() {
		e.Key("sent").Int(s.Sent)
		e.Key("dropped").Int(s.Dropped)
		e.Key("in_transit").Int(s.InTransit)
		e.Key("concurrent_mean").Float(s.ConcurrentMean)
		e.Key("concurrent_max").Int(s.ConcurrentMax)
		e.Key("sampled").Object(func() {
			if slices.Contains(sampled, EdgeConcurrentConnection) {
				writeSampled(e.Key(EdgeConcurrentConnection), r.sampledEdge(i))
			}
		})
	})
}

func writeSampled(e *jsonstream.Encoder, s Sampled) {
	e.Object(func() {
		e.Key("mean").Float(s.Mean)
		e.Key("max").Float(s.Max)
		e.Key("samples").Int(s.Samples)
	})
}
