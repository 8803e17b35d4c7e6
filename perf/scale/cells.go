// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/model/phold"
	"github.com/disco-sim/disco/model/service"
)

// The curves, by what grows.
const (
	curveNodes   = "nodes"
	curveLinks   = "links"
	curvePending = "pending"
	curveWorkers = "workers"
)

var curveNames = []string{curveNodes, curveLinks, curvePending, curveWorkers}

func parseCurves(text string) ([]string, error) {
	names := strings.Split(text, ",")
	for _, n := range names {
		if !slices.Contains(curveNames, n) {
			return nil, usagef("-curves: found %q, want some of %s", n, strings.Join(curveNames, ", "))
		}
	}
	return names, nil
}

// cell is one point of a curve: a scenario and the number of workers.
type cell struct {
	curve   string
	kind    string // phold, service, wired
	n       int    // where it stands on the curve's axis
	nodes   int
	links   int // that are declared one by one
	pending int // events at a time, about
	workers int

	text func(events float64) []byte // the scenario of a run that handles so many, or a few for each node at least
}

func (c *cell) String() string {
	return fmt.Sprintf("%s/%s/%d nodes/%d links/%d pending/%d workers", c.curve, c.kind, c.nodes, c.links, c.pending,
		c.workers)
}

// lookahead and remote of all cells of PHOLD, of a mean time of 1 s between an event and the next: a lookahead of a
// tenth, and a tenth of the events to others.
const (
	lookahead = 0.1
	remote    = 0.1
)

// pholdCell has nodes with the same number of events each.
func pholdCell(curve string, n, nodes, each, workers int) *cell {
	return &cell{curve: curve, kind: "phold", n: n, nodes: nodes, pending: nodes * each, workers: workers,
		text: func(events float64) []byte {
			return phold.Params{LPs: nodes, Events: each, Remote: remote, Lookahead: lookahead,
				End: max(events/float64(nodes*each), leastPhold), RNG: phold.Default}.YAML()
		}}
}

func wiredCell(n, nodes, degree, workers int) *cell {
	return &cell{curve: curveLinks, kind: wiredName, n: n, nodes: nodes, links: nodes * degree, pending: nodes,
		workers: workers, text: func(events float64) []byte {
			return wiredParams{nodes, degree, max(events/float64(nodes), leastPhold)}.yaml()
		}}
}

// leastPhold is how many simulated seconds of PHOLD a run has at least. An event's successor comes after 1 s in the
// mean, and what would come after the run's end isn't kept: 19 of 20 events that a cell says are pending then are.
const leastPhold = 3

// serviceCell has one load balancer in front of others in front of servers.
func serviceCell(n, workers int) *cell {
	servers := max(n-n/100-3, 1)
	return &cell{curve: curveNodes, kind: service.KindName, n: n, nodes: n, links: 2*servers + n/100, workers: workers,
		pending: servers, text: func(events float64) []byte { return serviceText(servers, max(n/100, 1), events) }}
}

// serviceMost is the most servers: a million take some 4 GB, with what is made of them at the end.
const serviceMost = 1_000_000

// What a service scenario has: events of a request, the shortest horizon in seconds that there may be, and the most
// requests a second at a server, which keep it busy for a third of the time.
const (
	serviceEvents  = 9
	serviceHorizon = 5
	serviceRate    = 100
)

// serviceText is a service scenario of so many events, with a group of servers for each balancer but the front one.
func serviceText(servers, balancers int, events float64) []byte {
	requests := math.Ceil(min(serviceRate*float64(servers), events/serviceEvents/serviceHorizon))
	horizon := math.Ceil(max(events/serviceEvents/requests, serviceHorizon))
	var b strings.Builder
	fmt.Fprintf(&b, "model: service\nrqs_input: {id: users, avg_active_users: {mean: %g}, "+
		"avg_request_per_minute_per_user: {mean: 60}, user_sampling_window: 60}\ntopology_graph:\n  nodes:\n"+
		"    client: {id: client}\n    load_balancers:\n      - {id: front, algorithms: round_robin, server_covered: [",
		requests)
	for lb := range balancers {
		b.WriteString("lb-" + strconv.Itoa(lb) + ", ")
	}
	b.WriteString("]}\n")
	for lb := range balancers {
		fmt.Fprintf(&b, "      - {id: lb-%d, algorithms: round_robin, server_covered: [s%d]}\n", lb, lb)
	}
	b.WriteString("    servers:\n")
	resources := "&r {cpu_cores: 1, ram_mb: 4096}"
	endpoints := "&e [{endpoint_name: /api, steps: [{kind: initial_parsing, step_operation: {cpu_time: 0.001}}, " +
		"{kind: io_wait, step_operation: {io_waiting_time: 0.010}}, " +
		"{kind: cpu_bound_operation, step_operation: {cpu_time: 0.002}}]}]"
	for lb := range balancers {
		fmt.Fprintf(&b, "      - {id: s%d, count: %d, server_resources: %s, endpoints: %s}\n", lb,
			(servers-lb+balancers-1)/balancers, resources, endpoints)
		resources, endpoints = "*r", "*e"
	}
	b.WriteString("  edges:\n")
	latency := "&l {mean: 0.002, distribution: exponential}"
	edge := func(from, to string) {
		fmt.Fprintf(&b, "    - {id: %s-%s, source: %s, target: %s, latency: %s, dropout_rate: 0}\n", from, to, from, to,
			latency)
		latency = "*l"
	}
	edge("users", "client")
	edge("client", "front")
	for lb := range balancers {
		edge("front", fmt.Sprintf("lb-%d", lb))
	}
	for lb := range balancers {
		edge(fmt.Sprintf("lb-%d", lb), fmt.Sprintf("s%d", lb))
		edge(fmt.Sprintf("s%d", lb), "client")
	}
	fmt.Fprintf(&b, "sim_settings: {total_simulation_time: %g, sample_period_s: 0.1, enabled_sample_metrics: "+
		"[ready_queue_len], enabled_event_metrics: [rqs_clock]}\n", horizon)
	return []byte(b.String())
}

// cells are those of a curve up to the largest size, smallest first: each is the measure of what the next one takes.
func cells(curve string, most int) (all []*cell) {
	for n := 100; n <= min(most, 1e8); n *= 10 {
		switch {
		case curve == curveNodes && n <= 1e7:
			all = append(all, pholdCell(curve, n, n, 1, 1), pholdCell(curve, n, n, 1, 2))
			if n <= serviceMost {
				all = append(all, serviceCell(n, 1))
			}
		case curve == curveLinks && n >= 1000 && n <= 1e7:
			nodes := max(n/100, 1000)
			all = append(all, wiredCell(n, nodes, n/nodes, 1), wiredCell(n, nodes, n/nodes, 2))
		case curve == curvePending && n >= 1000:
			all = append(all, pholdCell(curve, n, 1000, n/1000, 1), pholdCell(curve, n, 1000, n/1000, 2))
		}
	}
	for w := 1; curve == curveWorkers && w <= launch.WorkersMax; w *= 2 {
		all = append(all, pholdCell(curve, w, min(10_000, most), 16, w))
		all = append(all, serviceWorkersCell(w, min(1000, most)))
	}
	slices.SortStableFunc(all, func(a, b *cell) int { return a.n - b.n })
	return all
}

func serviceWorkersCell(workers, nodes int) *cell {
	c := serviceCell(nodes, workers)
	c.curve, c.n = curveWorkers, workers
	return c
}
