// SPDX-License-Identifier: Apache-2.0

package service

import "github.com/disco-sim/disco/scenario"

// Kind is the "service" kind of scenario, for a scenario.Registry.
func Kind() scenario.Kind {
	return scenario.Kind{Name: KindName, Load: scenario.Loader(Load, New), Unpack: unpack, Varies: varies,
		About: about}
}

// varies allows what a state says nothing about. Steps stay in their order and of their kinds, since requests are in
// the middle of them, and what is drawn goes on being drawn; windows and ticks have begun; which edges are live, and
// the spans of results, depend on the times of events.
var varies = scenario.Vary(
	"rqs_input.avg_active_users",
	"rqs_input.avg_request_per_minute_per_user",
	"topology_graph.nodes.servers[].server_resources.cpu_cores",
	"topology_graph.nodes.servers[].server_resources.ram_mb",
	"topology_graph.nodes.servers[].endpoints[].steps[].step_operation.cpu_time",
	"topology_graph.nodes.servers[].endpoints[].steps[].step_operation.io_waiting_time",
	"topology_graph.nodes.servers[].endpoints[].steps[].step_operation.necessary_ram",
	"topology_graph.edges[].latency",
	"topology_graph.edges[].dropout_rate",
	"events[].start.spike_s",
)
