// SPDX-License-Identifier: Apache-2.0

// Command gen writes large service scenarios for benchmarks: servers in equal groups
// behind load balancers behind one front balancer.
//
//	go run ./perf/gen -servers 2000 -balancers 20 -rps 200000 -horizon 60 > big.yml
//	bin/disco-run run big.yml --workers 2
//	go run ./perf/gen -groups -servers 1000000 -balancers 1000 > huge.yml
//
// Every request is parsed (1 ms of a core), waits for a disk (10 ms) and computes (2 ms):
// nine events a request. A server has one core, so it is busy for 3 ms × its share of the
// requests each second: 30 % with the numbers above.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"

	"github.com/disco-sim/disco/scenario"
)

func main() {
	servers := flag.Int("servers", 2000, "number of servers")
	balancers := flag.Int("balancers", 20, "number of load balancers; they share the servers evenly")
	rps := flag.Float64("rps", 200_000, "requests a second")
	horizon := flag.Float64("horizon", 60, "simulated seconds")
	groups := flag.Bool("groups", false, "write a group of servers for each load balancer instead of every server")
	flag.Parse()
	if *balancers < 1 || *servers < *balancers || *rps <= 0 || *horizon < 5 {
		fmt.Fprintln(os.Stderr, "gen: want balancers >= 1, servers >= balancers, rps > 0 and horizon >= 5")
		os.Exit(2)
	}
	var text bytes.Buffer
	write(&text, *servers, *balancers, *groups, *rps, *horizon)
	if text.Len() > scenario.FileBytesMax {
		fmt.Fprintf(os.Stderr, "gen: %d servers take %d bytes, but a scenario file has at most %d: use -groups, or "+
			"fewer -servers\n", *servers, text.Len(), scenario.FileBytesMax)
		os.Exit(2)
	}
	if _, err := os.Stdout.Write(text.Bytes()); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func write(w *bytes.Buffer, servers, balancers int, groups bool, rps, horizon float64) {
	const perMinute = 60 // one request a second and user
	fmt.Fprintf(w, "rqs_input:\n  id: users\n  avg_active_users: {mean: %g}\n  avg_request_per_minute_per_user: "+
		"{mean: %d}\n  user_sampling_window: 60\n", rps, perMinute)
	fmt.Fprintf(w, "topology_graph:\n  nodes:\n    client: {id: client}\n    load_balancers:\n")
	fmt.Fprintf(w, "      - {id: front, algorithms: round_robin, server_covered: [")
	for b := range balancers {
		fmt.Fprintf(w, "lb-%d, ", b)
	}
	fmt.Fprintf(w, "]}\n")
	for b := range balancers {
		fmt.Fprintf(w, "      - {id: lb-%d, algorithms: round_robin, server_covered: [", b)
		for s := b; s < servers && !groups; s += balancers {
			fmt.Fprintf(w, "srv-%d, ", s)
		}
		if groups {
			fmt.Fprintf(w, "srv-%d", b)
		}
		fmt.Fprintf(w, "]}\n")
	}
	fmt.Fprintf(w, "    servers:\n")
	entries := servers
	if groups {
		entries = balancers // the group srv-0 has the servers srv-0-0, srv-0-1, …
	}
	for s := range entries {
		fmt.Fprintf(w, "      - id: srv-%d\n", s)
		if groups {
			fmt.Fprintf(w, "        count: %d\n", (servers-s+balancers-1)/balancers)
		}
		fmt.Fprintf(w, "        server_resources: {cpu_cores: 1, ram_mb: 4096}\n        "+
			"endpoints:\n          - endpoint_name: /api\n            steps:\n")
		fmt.Fprintf(w, "              - {kind: initial_parsing, step_operation: {cpu_time: 0.001}}\n              - "+
			"{kind: ram, step_operation: {necessary_ram: 64}}\n")
		fmt.Fprintf(w, "              - {kind: io_wait, step_operation: {io_waiting_time: 0.010}}\n              - "+
			"{kind: cpu_bound_operation, step_operation: {cpu_time: 0.002}}\n")
	}
	fmt.Fprintf(w, "  edges:\n")
	edge := func(from, to string, mean float64) {
		fmt.Fprintf(w, "    - {id: %s--%s, source: %s, target: %s, latency: {mean: %g, distribution: exponential}, "+
			"dropout_rate: 0}\n", from, to, from, to, mean)
	}
	edge("users", "client", 0.003)
	edge("client", "front", 0.002)
	for b := range balancers {
		edge("front", fmt.Sprintf("lb-%d", b), 0.001)
	}
	for s := range entries {
		edge(fmt.Sprintf("lb-%d", s%balancers), fmt.Sprintf("srv-%d", s), 0.001)
		edge(fmt.Sprintf("srv-%d", s), "client", 0.003)
	}
	fmt.Fprintf(w, "sim_settings:\n  total_simulation_time: %g\n  sample_period_s: 0.05\n  enabled_sample_metrics: "+
		"[ready_queue_len, event_loop_io_sleep, ram_in_use, edge_concurrent_connection]\n  enabled_event_metrics: "+
		"[rqs_clock]\n", horizon)
}
