// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// load is a scenario that is simulated while a fault is injected.
type load struct {
	kind string
	text string
	args []string // of every run
	soon string   // horizon of a run of about a second
	slow string   // soon for the checked and the race build, where it would be half a minute; empty: the same
	long string   // horizon of a run that lasts until it is ended
}

// loads are the kinds of scenario for the faults.
var loads = []load{
	{kind: "service", text: serviceText(), soon: "400", slow: "20", long: "40000"},
	{kind: "network", text: networkText(), soon: "6", slow: "0.4", long: "4000"},
	// In blocks: by itself, min-cut would give it to one worker.
	{kind: "queueing", text: queueingText, args: words("--partition block"), soon: "50000", slow: "15000",
		long: "10000000"},
	{kind: "supply", text: supplyText, args: words("--partition block"), soon: "2000", slow: "300", long: "1000000"},
	{kind: "phold", text: pholdText(256, 16, 0), soon: "500", long: "100000"},
	{kind: "phold-many", text: pholdText(300_000, 1, 0), soon: "5", slow: "1", long: "100000"},
	// In blocks: likewise.
	{kind: "phold-large", text: pholdText(24, 4, 200_000), args: words("--pool-bytes 8M --partition block"),
		soon: "20", long: "100000"},
	{kind: "tiny", text: launchtest.Scenario(6, 1, ""), soon: "8000", slow: "2000", long: "1e9"},
	{kind: "tiny-large", text: launchtest.Scenario(6, 1, "") + "payload: 100000\n",
		args: []string{"--pool-bytes", "8M"}, soon: "300", long: "1e9"},
}

// kinds for faults from outside: all but the tiny ones, which are for handlers that fail.
var outside = []string{"service", "network", "queueing", "supply", "phold", "phold-large"}

func loadOf(kind string) load {
	for _, l := range loads {
		if l.kind == kind {
			return l
		}
	}
	panic("chaos: there is no load " + kind)
}

func pholdText(lps, events, payload int) string {
	return fmt.Sprintf("model: phold\nlps: %d\nevents: %d\nremote: 0.5\nlookahead: 0.1\nend: 1\npayload: %d\n", lps,
		events, payload)
}

// queueingText has a cycle of stations, so that every worker waits for others.
const queueingText = `model: queueing
horizon: 1
warmup: 0
stations:
  - { id: a, arrivals: 1, service: { distribution: exponential, mean: 0.3 }, to: { b: 0.5, c: 0.3 } }
  - { id: b, arrivals: 0.5, service: { distribution: exponential, mean: 0.3 }, to: { c: 0.6 } }
  - { id: c, service: { distribution: exponential, mean: 0.3 }, to: { d: 0.2 } }
  - { id: d, service: { distribution: exponential, mean: 0.1 }, to: { a: 0.5 } }
transit: 0.01
`

// supplyText has orders that go up at one epoch, and deliveries that come back later.
const supplyText = `model: supply
horizon: 1
warmup: 0
products: [{ id: p, count: 3 }]
locations: [{ id: plant }, { id: warehouse, count: 2 }, { id: shop, count: 9 }]
production: [{ at: plant, time: 0.01, failure: exponential(10), repair: exponential(1) }]
links:
  - { from: plant, to: warehouse, lead_time: exponential(1) }
  - { from: warehouse, to: shop, lead_time: 0.5 }
stock:
  - { at: shop, policy: base_stock, up_to: 8 }
  - { at: warehouse, policy: reorder_point, reorder_point: 60, quantity: 40 }
  - { at: plant, policy: periodic, every: 1, lot: 10, forecast: { periods: 5, cover: 3, safety: 20 } }
demand: [{ at: shop, gap: exponential(0.2) }]
`

// serviceText is some servers behind a load balancer.
func serviceText() string {
	const servers = 6
	var text, edges, covered strings.Builder
	for i := range servers {
		fmt.Fprintf(&text, `      - id: s%d
        server_resources: { cpu_cores: 4, ram_mb: 8192 }
        endpoints:
          - endpoint_name: /a
            steps:
              - { kind: ram, step_operation: { necessary_ram: 48 } }
              - { kind: cpu_bound_operation, step_operation: { cpu_time: 0.006 } }
              - { kind: io_db, step_operation: { io_waiting_time: 0.010 } }
`, i)
		fmt.Fprintf(&edges, "    - { id: lb-s%d, source: lb, target: s%d, latency: { mean: 0.003, distribution: "+
			"exponential } }\n", i, i)
		fmt.Fprintf(&edges, "    - { id: s%d-client, source: s%d, target: client, latency: { mean: 0.003, "+
			"distribution: exponential } }\n", i, i)
		if i > 0 {
			covered.WriteString(", ")
		}
		fmt.Fprintf(&covered, "s%d", i)
	}
	return fmt.Sprintf(`rqs_input:
  id: users
  avg_active_users: { mean: 3000 }
  avg_request_per_minute_per_user: { mean: 20 }
topology_graph:
  nodes:
    client: { id: client }
    load_balancer: { id: lb, algorithms: round_robin, server_covered: [%s] }
    servers:
%s  edges:
    - { id: users-client, source: users, target: client, latency: { mean: 0.003, distribution: exponential } }
    - { id: client-lb, source: client, target: lb, latency: { mean: 0.003, distribution: exponential } }
%ssim_settings:
  total_simulation_time: 300
  sample_period_s: 0.1
`, covered.String(), text.String(), edges.String())
}

// networkText is a ring of routers with two shortcuts.
func networkText() string {
	const nodes = 12
	var gml strings.Builder
	gml.WriteString("graph [\n")
	for i := range nodes {
		fmt.Fprintf(&gml, "  node [ id %d label \"n%d\" Latitude %d Longitude %d ]\n", i, i, 40+i%3, 2*i)
	}
	edge := func(from, to int) {
		fmt.Fprintf(&gml, "  edge [ source %d target %d ]\n", from, to%nodes)
	}
	for i := range nodes {
		edge(i, i+1)
	}
	edge(0, 5)
	edge(3, 9)
	gml.WriteString("]\n")
	return gml.String()
}

// topologyFile is the name under which a scenario of the kind network finds its
// topology.
const topologyFile = "ring.gml"

const networkScenario = `model: network
horizon: 1
topology: ring.gml
links: { rate_bps: 1e9, buffer_packets: 400 }
traffic:
  matrix: uniform
  bits_per_second: 1e9
  arrivals: poisson
  packet_bytes: 1000
`
