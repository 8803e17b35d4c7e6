// SPDX-License-Identifier: Apache-2.0

package service

import (
	"iter"

	"github.com/disco-sim/disco/model/measure"
)

// Results is what a run has found out, over all replications: the JSON "results".
// Counts are sums over the replications; means and rates are over all of their
// simulated time; maxima are over all of them. What there is of each balancer, server and edge is worked out when it is
// asked for: of a million servers that would be gigabytes.
type Results struct {
	HorizonSeconds   float64 `json:"horizon_s"`          // asked for, of one replication
	SimulatedSeconds float64 `json:"simulated_s"`        // really simulated, all replications together
	WarmupSeconds    float64 `json:"warmup_s,omitempty"` // of each replication, which isn't counted
	// some replication did not reach the horizon: rates are over what it did reach
	Interrupted bool `json:"interrupted"`

	RequestsGenerated int64   `json:"requests_generated"` // = completed + dropped + in flight - before, exactly
	RequestsCompleted int64   `json:"requests_completed"`
	RequestsDropped   int64   `json:"requests_dropped"`
	RequestsInFlight  int64   `json:"requests_in_flight"`
	RequestsBefore    int64   `json:"requests_before,omitempty"` // in flight at the end of the warm-up
	ThroughputRPS     float64 `json:"throughput_rps"`            // completed, per simulated second

	Latency    *Latency    `json:"latency_s"`               // null: no request completed
	Confidence *Confidence `json:"confidence_95,omitempty"` // of two whole replications or more

	Generator GeneratorResult `json:"generator"`
	Outages   []EventResult   `json:"outages"`
	Spikes    []EventResult   `json:"spikes"`

	Replications []ReplicationResult `json:"replications"`

	spec   *Spec // for the order of the file
	tally  *tally
	groups []sample // of whole replications
}

// Balancers are the load balancers with their ids, in the order of the file: the JSON "load_balancers".
func (r *Results) Balancers() iter.Seq2[string, *BalancerResult] {
	return func(yield func(string, *BalancerResult) bool) {
		for i := range r.spec.Balancers {
			if !yield(r.spec.Balancers[i].ID, r.balancer(i)) {
				return
			}
		}
	}
}

// Servers are the servers with their ids, in the order of the file: the JSON "servers".
func (r *Results) Servers() iter.Seq2[string, *ServerResult] {
	return func(yield func(string, *ServerResult) bool) {
		for i := range r.spec.Servers {
			if !yield(r.spec.Servers[i].ID, r.server(i)) {
				return
			}
		}
	}
}

// Edges are the edges with their ids, in the order of the file: the JSON "edges".
func (r *Results) Edges() iter.Seq2[string, *EdgeResult] {
	return func(yield func(string, *EdgeResult) bool) {
		for i := range r.spec.Edges {
			if !yield(r.spec.Edges[i].ID, r.edge(i)) {
				return
			}
		}
	}
}

// Server is the server with an id, nil where there is none.
func (r *Results) Server(id string) *ServerResult {
	if i := r.serverIndex(id); i >= 0 {
		return r.server(i)
	}
	return nil
}

// ServerConfidence is the same of Confidence. Where that is nil, so is this.
func (r *Results) ServerConfidence(id string) *ServerConfidence {
	i := r.serverIndex(id)
	if i < 0 || r.Confidence == nil {
		return nil
	}
	c := r.serverConfidence(i)
	return &c
}

func (r *Results) serverIndex(id string) int {
	t := r.spec.topology
	if n, ok := t.nodes.thing(id); ok && t.boxes[n].role == serverRole {
		return t.boxes[n].index
	}
	return -1
}

// Latency is the distribution of the time from a request's birth to its return, in
// seconds.
type Latency = measure.Summary

// Confidence is where the figures of infinitely many replications would lie with a
// probability of 95 % (measure.Interval): throughput, the mean latency of all requests,
// their 95th percentile, ….
type Confidence struct {
	// that reached the horizon, at least 2; others don't count here
	Replications  int              `json:"replications"`
	ThroughputRPS measure.Interval `json:"throughput_rps"`
	// this and the next three are null where no request completed
	LatencyMean *measure.Interval `json:"latency_mean_s"`
	LatencyP50  *measure.Interval `json:"latency_p50_s"`
	LatencyP95  *measure.Interval `json:"latency_p95_s"`
	LatencyP99  *measure.Interval `json:"latency_p99_s"`
}

// ServerConfidence is the same for one server; the JSON has it in "servers" of "confidence_95".
type ServerConfidence struct {
	Utilisation    measure.Interval `json:"utilisation"`
	ReadyQueueMean measure.Interval `json:"ready_queue_mean"`
}

// GeneratorResult is what was asked of the system.
type GeneratorResult struct {
	ID        string  `json:"id"`
	Requests  int64   `json:"requests"`
	RateRPS   float64 `json:"rate_rps"`
	Windows   int64   `json:"windows"`    // sampling windows begun
	UsersMean float64 `json:"users_mean"` // over the windows
}

// BalancerResult is how a balancer has distributed its requests.
type BalancerResult struct {
	Requests int64            `json:"requests"`
	Targets  map[string]int64 `json:"targets"` // requests by the id of the target
}

// ServerResult is how busy a server was. Means are over time.
type ServerResult struct {
	Requests       int64              `json:"requests"` // that came in
	Completed      int64              `json:"completed"`
	InServer       int64              `json:"in_server"`   // at the end
	Utilisation    float64            `json:"utilisation"` // busy core seconds / (cores × time)
	ReadyQueueMean float64            `json:"ready_queue_mean"`
	ReadyQueueMax  int64              `json:"ready_queue_max"`
	IOMean         float64            `json:"io_mean"`
	IOMax          int64              `json:"io_max"`
	RAMMean        float64            `json:"ram_mean"` // MB
	RAMMax         float64            `json:"ram_max"`
	RAMQueueMean   float64            `json:"ram_queue_mean"` // waiting for memory
	RAMQueueMax    int64              `json:"ram_queue_max"`
	ResidenceMean  *float64           `json:"residence_mean_s"` // of those completed; null: none
	RequestsInMean float64            `json:"requests_in_mean"` // requests in the server
	Endpoints      []EndpointResult   `json:"endpoints"`        // in the order of the file
	Sampled        map[string]Sampled `json:"sampled"`
}

// EndpointResult is how many requests have picked an endpoint.
type EndpointResult struct {
	Name     string `json:"name"`
	Requests int64  `json:"requests"`
}

// EdgeResult is what an edge has carried.
type EdgeResult struct {
	Sent           int64              `json:"sent"` // entered, or dropped on entering
	Dropped        int64              `json:"dropped"`
	InTransit      int64              `json:"in_transit"` // at the end
	ConcurrentMean float64            `json:"concurrent_mean"`
	ConcurrentMax  int64              `json:"concurrent_max"`
	Sampled        map[string]Sampled `json:"sampled"`
}

// Sampled is one metric at the times k × sample_period_s.
type Sampled struct {
	Mean    float64 `json:"mean"`
	Max     float64 `json:"max"`
	Samples int64   `json:"samples"`
}

// EventResult compares the time while an outage or a spike lasts with as long a time
// before it and after it, as far as the run has them.
type EventResult struct {
	ID     string  `json:"id"`
	Target string  `json:"target"`
	Start  float64 `json:"start_s"`
	End    float64 `json:"end_s"`
	SpikeS float64 `json:"spike_s,omitempty"`
	Before *Phase  `json:"before"` // null: the run has no such time, or did not reach it
	During *Phase  `json:"during"`
	After  *Phase  `json:"after"`
}

// Phase is one stretch of time around an outage or a spike.
type Phase struct {
	From          float64  `json:"from_s"`
	To            float64  `json:"to_s"`
	RequestsRPS   float64  `json:"requests_rps"`             // sent to the server by balancers, or into the edge
	TransitMean   *float64 `json:"transit_mean_s,omitempty"` // spikes: on the edge, as far as the run goes
	ThroughputRPS float64  `json:"throughput_rps"`           // completed, of the whole system
	LatencyMean   *float64 `json:"latency_mean_s"`           // of those completed in this time; null: none
	LatencyP95    *float64 `json:"latency_p95_s"`
}

// ReplicationResult is one replication in short.
type ReplicationResult struct {
	Index         int      `json:"index"`
	Reached       float64  `json:"reached_s"`
	Generated     int64    `json:"generated"`
	Completed     int64    `json:"completed"`
	Dropped       int64    `json:"dropped"`
	InFlight      int64    `json:"in_flight"`
	ThroughputRPS float64  `json:"throughput_rps"`
	LatencyMean   *float64 `json:"latency_mean_s"` // null, as those below: none completed
	LatencyP50    *float64 `json:"latency_p50_s"`
	LatencyP95    *float64 `json:"latency_p95_s"`
	LatencyP99    *float64 `json:"latency_p99_s"`
}
