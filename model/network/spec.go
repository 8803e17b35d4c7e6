// SPDX-License-Identifier: Apache-2.0

package network

// KindName is what a file's `model:` has for a network scenario.
const KindName = "network"

// Spec is one network scenario after it was read and found valid: plain data, in the
// order of the file. What the fields mean stands in docs/scenario-network.md.
type Spec struct {
	Name     string  // the file's name without folder and ending
	Horizon  float64 // seconds, > 0
	Warmup   float64 // seconds that aren't counted, < Horizon
	Settles  bool    // warmup: auto, which counts all
	Topology *Topology

	BufferPackets int     // of each direction of a link: packets that wait, the one being sent not counted
	BufferBytes   int     // likewise; 0: no limit of bytes
	Arrivals      string  // Poisson or Constant
	Sizes         Sizes   // of packets
	Flows         []Flow  // each with a rate > 0
	Reconverge    float64 // seconds from a change to routes that know it
	Events        []Event

	Series bool // time series are recorded; scenario.Options say it, not the file

	windows int // of each router; 0: no time series are recorded

	// Notes are remarks for the person who wrote the file, one line each.
	Notes []string
}

// How the packets of a flow follow one another.
const (
	Poisson  = "poisson"  // independent gaps
	Constant = "constant" // equal gaps, from a random start within the first
)

// Flow is the traffic from one node to another.
type Flow struct {
	From, To int     // nodes, different
	Rate     float64 // packets per second, > 0
}

// Distributions of packet sizes.
const (
	Fixed       = "fixed"
	Exponential = "exponential"
	Uniform     = "uniform"
	Discrete    = "discrete"
)

// Sizes is the distribution of packet sizes, in bytes. A draw is rounded to a whole
// number of bytes from 1 to packetBytesMax.
type Sizes struct {
	Kind     string
	Mean     float64   // of all kinds; it is what routes reckon with
	Min, Max float64   // of Uniform
	Bytes    []float64 // of Discrete
	Shares   []float64 // of Discrete: running sums, the last is 1
}

// What an event does to its targets while it lasts.
const (
	LinkDown = "link_down"
	NodeDown = "node_down"
	Latency  = "latency"
	Loss     = "loss"
)

// Event is something that happens once, from From to To, or again and again: then the
// times between its end and its next start, and those that it lasts, are exponential
// with the means MTBF and MTTR, for each target independently.
type Event struct {
	ID      string
	Kind    string
	Targets []Target
	Random  bool
	From,
	To float64 // planned: seconds, From < To
	MTBF,
	MTTR float64 // random: seconds, > 0
	Added       float64 // of Latency: seconds, > 0
	Probability float64 // of Loss: > 0, <= 1
}

// Target is what an event hits: a node, or one or more parallel cables.
type Target struct {
	Name   string
	Node   int   // index in Topology.Nodes; -1: none
	Cables []int // indices in Topology.Cables, rising; those of the node where it is one
}
