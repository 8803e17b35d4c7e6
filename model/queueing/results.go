// SPDX-License-Identifier: Apache-2.0

package queueing

import "github.com/disco-sim/disco/model/measure"

// Results is what a run has found out, over all replications: the JSON "results".
type Results struct {
	HorizonSeconds float64 `json:"horizon_s"` // of one replication
	WarmupSeconds  float64 `json:"warmup_s"`  // of it not counted
	Replications   int     `json:"replications"`
	Batches        int     `json:"batches"`          // whole stretches of time, of all replications
	Confidence     float64 `json:"confidence_level"` // of the intervals
	// some replication did not reach the horizon; of it up to 32 batches count, as long as what was reached allows
	Interrupted bool `json:"interrupted"`

	Network  NetworkResult             `json:"network"`
	Stations map[string]*StationResult `json:"stations"`

	spec   *Spec   // for the order of the file
	course *course // nil: no time series were asked for
	needed float64 // seconds after warm-ups, in all, that give every figure an interval; 0: these do
}

// Measure is one number: what theory gives, where it has an answer, and what was
// observed, where anything was.
type Measure struct {
	Theory   *float64          `json:"theory"`
	Observed *measure.Interval `json:"observed"`
	Within   *bool             `json:"within"` // the interval holds the theory; null where one is missing
}

// StationResult is one station. Times are those of customers who were taken in.
type StationResult struct {
	Model           string  `json:"model"`               // in Kendall's notation
	NoTheory        string  `json:"no_theory,omitempty"` // why no theorem applies
	Customers       float64 `json:"customers"`           // taken in after the warm-up
	ArrivalRate     Measure `json:"arrival_rate"`        // per second, also of those who find no place
	Throughput      Measure `json:"throughput"`          // per second
	Utilisation     Measure `json:"utilisation"`         // busy servers over servers
	WaitProbability Measure `json:"wait_probability"`
	Blocking        Measure `json:"blocking_probability"`
	InSystem        Measure `json:"in_system"` // customers, L
	InQueue         Measure `json:"in_queue"`  // Lq
	TimeInSystem    Measure `json:"time_in_system_s"`
	TimeInQueue     Measure `json:"time_in_queue_s"`
}

// NetworkResult is the network as a whole.
type NetworkResult struct {
	Throughput    Measure `json:"throughput"` // customers who leave it, per second
	InNetwork     Measure `json:"in_network"`
	TimeInNetwork Measure `json:"time_in_network_s"` // of those who leave
}
