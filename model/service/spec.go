// SPDX-License-Identifier: Apache-2.0

package service

// Spec is one service scenario after Load has read it and found it valid: plain data, in
// the order of the file. What the fields mean stands in docs/scenario-service.md.
//
// Load guarantees, so that no other code has to check it again:
//
//   - ids are unique over generator, client, balancers and servers, and are good
//     names of nodes; edge ids are unique; event ids are unique;
//   - the generator has one outgoing edge, to the client; the client has one, to
//     a balancer or a server; a server has one, to the client, a server or a
//     balancer; a balancer has exactly one edge to each thing that it covers and
//     no other; the edges that don't lead back to the client form no cycle;
//   - every balancer covers something, nothing is covered twice, and whatever is
//     down, every balancer has something live in its list at every time;
//   - an outage's target is covered by a balancer; outages of one target don't
//     overlap; Start < End, and both lie within the file's own horizon;
//   - every number is finite and within the range that its field documents; an
//     endpoint never needs more RAM than its server has.
type Spec struct {
	Name      string // the file's name without folder and ending
	Workload  Workload
	Client    string // id
	Balancers []Balancer
	Servers   []Server
	Edges     []Edge
	Settings  Settings
	Outages   []Outage
	Spikes    []Spike

	// Notes are remarks for the person who wrote the file, one line each with file,
	// line and column: fields that are accepted but have no effect, servers that no
	// request can reach. They belong on standard error, not into results.
	Notes []string

	Series bool // time series are recorded; scenario.Options say it, not the file

	topology *topology // of the boxes and Edges above
}

// Workload is the generator: how many users are active and how often they ask.
type Workload struct {
	ID                string
	Users             Dist    // Poisson or Normal, Mean >= 0
	RequestsPerMinute float64 // per user, mean, >= 0
	SamplingWindow    float64 // seconds, 1 to 120
}

// Kinds of distribution, by the names that the file uses.
const (
	Exponential = "exponential"
	Normal      = "normal"
	LogNormal   = "log_normal"
	Poisson     = "poisson"
	Uniform     = "uniform"
	Constant    = "constant" // disco's own, for a plain number: Mean is that number
)

// Dist is a distribution of a duration or of a count. For durations Mean is > 0. Of
// LogNormal, Mean and StdDev are those of the logarithm. In a file, the field variance
// holds different quantities (docs/scenario-service.md, "Distributions"): Load converts
// them to StdDev.
type Dist struct {
	Kind   string
	Mean   float64
	StdDev float64 // standard deviation of Normal and LogNormal, >= 0; else 0
}

// Balancer is a load balancer.
type Balancer struct {
	ID        string
	Algorithm string // RoundRobin or LeastConnection

	// Covers are ids of servers and of other balancers, in the order in which the edges
	// to them stand in the file: the first order of the list of live edges.
	Covers []string
}

// Algorithms of a load balancer.
const (
	RoundRobin      = "round_robin"
	LeastConnection = "least_connection"
)

// Server is one server.
type Server struct {
	ID        string
	Cores     int        // >= 1
	RAM       float64    // MB, >= 256
	Endpoints []Endpoint // at least one; a request picks one uniformly
}

// Endpoint is what one kind of request does in a server.
type Endpoint struct {
	Name  string  // in lower case; need not be unique
	RAM   float64 // MB, the sum of its ram steps, at most the server's
	Steps []Step  // CPU and I/O, in the order of the file; may be empty
}

// Step holds a core (CPU) or none (I/O) for a time.
type Step struct {
	CPU  bool
	Kind string // as in the file, e.g. initial_parsing
	Time Dist   // seconds
}

// Edge is one network edge.
type Edge struct {
	ID, Source, Target string
	Latency            Dist    // seconds; never Constant
	Dropout            float64 // probability, 0 to 1
}

// The sampled metrics, and the one metric per request.
const (
	ReadyQueueLen            = "ready_queue_len"
	EventLoopIOSleep         = "event_loop_io_sleep"
	RAMInUse                 = "ram_in_use"
	EdgeConcurrentConnection = "edge_concurrent_connection"
	RequestClock             = "rqs_clock"
)

// Settings are the file's sim_settings.
type Settings struct {
	Horizon      float64  // seconds, > 0: the file's, or the one that the command line gave
	Warmup       float64  // seconds that aren't counted, < Horizon
	Settles      bool     // warmup: auto, which counts all
	SamplePeriod float64  // seconds, 0.001 to 0.1
	Sampled      []string // names of sampled metrics, each once
	PerRequest   []string // RequestClock or nothing
}

// Outage takes Target (a server or a load balancer) out of the list of its load
// balancer from Start to End. An event of the file that is later than
// Settings.Horizon (which the command line may have shortened) is still listed.
type Outage struct {
	ID, Target string
	Start, End float64
	Balancer   int // index in Spec.Balancers: who covers Target
	Edge       int // index in Spec.Edges: the edge that leaves and rejoins the list
}

// Spike adds Extra seconds to the transit time of requests that enter the edge
// Target from Start to End. Spikes of one edge may overlap; they add up.
type Spike struct {
	ID, Target        string
	Start, End, Extra float64
	Edge              int // index in Spec.Edges
}
