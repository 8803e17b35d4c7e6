// SPDX-License-Identifier: Apache-2.0

package network

import "github.com/disco-sim/disco/model/measure"

// Results is what a run has found out, over all replications: the JSON "results".
// Counts are sums over the replications; means and rates are over all of their
// simulated time; maxima are over all of them.
type Results struct {
	HorizonSeconds   float64 `json:"horizon_s"`          // asked for, of one replication
	SimulatedSeconds float64 `json:"simulated_s"`        // really simulated, all replications together
	WarmupSeconds    float64 `json:"warmup_s,omitempty"` // of each replication, which isn't counted
	// some replication did not reach the horizon: rates are over what it did reach
	Interrupted bool `json:"interrupted"`

	Sent         int64   `json:"packets_sent"` // = delivered + lost + in flight - before, exactly
	Delivered    int64   `json:"packets_delivered"`
	Lost         int64   `json:"packets_lost"`
	LostBy       Losses  `json:"lost"`
	InFlight     int64   `json:"packets_in_flight"`
	Before       int64   `json:"packets_before,omitempty"` // in flight at the end of the warm-up
	OfferedPPS   float64 `json:"offered_pps"`
	DeliveredPPS float64 `json:"delivered_pps"`
	LossRatio    float64 `json:"loss_ratio"` // lost / sent

	Latency    *measure.Summary `json:"latency_s"` // of packets delivered; null: none
	Hops       *Hops            `json:"hops"`      // of packets delivered; null: none
	Confidence *Confidence      `json:"confidence_95,omitempty"`

	Flows  []FlowResult  `json:"flows"` // in the order of the matrix and of the file
	Links  []LinkResult  `json:"links"` // both directions, in the order of the topology
	Events []EventResult `json:"events"`

	// Outages compares the times before, while and after events happened: planned ones
	// over all replications, random ones each by itself, as far as they are looked at
	// closely (docs/scenario-network.md).
	Outages []OutageResult `json:"outages"`

	Replications []ReplicationResult `json:"replications"`

	spec      *Spec
	latencies *measure.Latencies
	course    *measure.Course // by node; nil: no time series were asked for
}

// Losses are packets lost by cause.
type Losses struct {
	FullBuffer int64 `json:"full_buffer"`
	Outage     int64 `json:"outage"` // on a link or node that was down or went down
	NoRoute    int64 `json:"no_route"`
	Random     int64 `json:"random"` // on a lossy link
}

func lossesOf(by [causes]int64) Losses {
	return Losses{FullBuffer: by[lostFull], Outage: by[lostOutage], NoRoute: by[lostRoute], Random: by[lostRandom]}
}

// Hops are links that a packet was sent over.
type Hops struct {
	Mean float64 `json:"mean"`
	Max  int64   `json:"max"`
}

// Confidence is where the figures of infinitely many replications would lie with a
// probability of 95 % (measure.Interval).
type Confidence struct {
	// that reached the horizon, at least 2; others don't count here
	Replications int               `json:"replications"`
	DeliveredPPS *measure.Interval `json:"delivered_pps"`
	LossRatio    *measure.Interval `json:"loss_ratio"`     // null: nothing was sent
	LatencyMean  *measure.Interval `json:"latency_mean_s"` // null, as the next: nothing was delivered
	LatencyP99   *measure.Interval `json:"latency_p99_s"`
}

// FlowResult is what became of one flow.
type FlowResult struct {
	From        string           `json:"from"`
	To          string           `json:"to"`
	Sent        int64            `json:"sent"` // = delivered + lost + in flight, exactly
	Delivered   int64            `json:"delivered"`
	Lost        int64            `json:"lost"`
	LostBy      Losses           `json:"lost_by"`
	InFlight    int64            `json:"in_flight"`
	Hops        *Hops            `json:"hops"`
	Latency     *measure.Summary `json:"latency_s,omitempty"`      // where flows have percentiles
	LatencyMean *float64         `json:"latency_mean_s,omitempty"` // where they have none
	// least latency of a packet of mean size, all up; null: no way
	ShortestPath *float64 `json:"shortest_path_s"`
}

// LinkResult is what one direction of a link has carried.
type LinkResult struct {
	Link         string  `json:"link"`
	From         string  `json:"from"`
	To           string  `json:"to"`
	RateBPS      float64 `json:"rate_bps"`
	DelaySeconds float64 `json:"delay_s"`
	Packets      int64   `json:"packets"` // handed to it and not refused
	Carried      int64   `json:"carried"` // sent completely
	CarriedBPS   float64 `json:"carried_bps"`
	Lost         int64   `json:"lost"`
	LostBy       Losses  `json:"lost_by"`
	InFlight     int64   `json:"in_flight"`
	Utilisation  float64 `json:"utilisation"` // part of the time that it was sending
	QueueMean    float64 `json:"queue_mean"`  // packets waiting, over time
	QueueMax     int64   `json:"queue_max"`
	WaitMean     float64 `json:"wait_mean_s"` // of packets handed to it
	WaitMax      float64 `json:"wait_max_s"`
}

// EventResult is how often an event has happened.
type EventResult struct {
	ID      string  `json:"id"`
	Kind    string  `json:"kind"`
	Targets int     `json:"targets"`
	Random  bool    `json:"random"`
	Count   int     `json:"count"`
	Seconds float64 `json:"seconds"` // in all, over all targets
}

// OutageResult compares the time while something lasted with as long a time before it
// and after it, as far as the run has them.
type OutageResult struct {
	ID          string  `json:"id"`
	Kind        string  `json:"kind"`
	Target      string  `json:"target"`
	Replication *int    `json:"replication,omitempty"` // of a random one; a planned one: all
	Start       float64 `json:"start_s"`
	End         float64 `json:"end_s"`
	Before      *Phase  `json:"before"` // null: the run has no such time, or did not reach it
	During      *Phase  `json:"during"`
	After       *Phase  `json:"after"`

	targets []string // a node, or the directions of links, as Drawing and Series name them
}

// Phase is one stretch of time around an occurrence: the whole network, and the links
// that it hits.
type Phase struct {
	From         float64    `json:"from_s"`
	To           float64    `json:"to_s"`
	SentPPS      float64    `json:"sent_pps"`
	DeliveredPPS float64    `json:"delivered_pps"`
	Lost         Losses     `json:"lost"`
	LatencyMean  *float64   `json:"latency_mean_s"` // of those delivered in this time; null: none
	LatencyP95   *float64   `json:"latency_p95_s"`
	LatencyP99   *float64   `json:"latency_p99_s"`
	Links        *LinkPhase `json:"links"` // the links hit, both directions; null: none
}

// LinkPhase is what the links that an occurrence hits did in one stretch of time:
// means over them and the time.
type LinkPhase struct {
	CarriedPPS  float64 `json:"carried_pps"` // all of them together
	Utilisation float64 `json:"utilisation"`
	QueueMean   float64 `json:"queue_mean"`
	Lost        int64   `json:"lost"`
}

// ReplicationResult is one replication in short.
type ReplicationResult struct {
	Index        int      `json:"index"`
	Reached      float64  `json:"reached_s"`
	Sent         int64    `json:"sent"`
	Delivered    int64    `json:"delivered"`
	LostBy       Losses   `json:"lost"`
	InFlight     int64    `json:"in_flight"`
	DeliveredPPS float64  `json:"delivered_pps"`
	LatencyMean  *float64 `json:"latency_mean_s"`
	LatencyP99   *float64 `json:"latency_p99_s"`
}
