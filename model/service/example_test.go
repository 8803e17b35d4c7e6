// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"fmt"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/model/service"
	"github.com/disco-sim/disco/scenario"
)

// Users, one server and the network between them, on one engine.
func Example() {
	doc, err := scenario.Parse("service.yml", []byte(`rqs_input:
  id: users
  avg_active_users: { mean: 30 }
  avg_request_per_minute_per_user: { mean: 20 }
topology_graph:
  nodes:
    client: { id: client }
    servers:
      - id: server
        server_resources: { cpu_cores: 1, ram_mb: 1024 }
        endpoints:
          - endpoint_name: /hello
            steps:
              - { kind: cpu_bound_operation, step_operation: { cpu_time: 0.020 } }
  edges:
    - { id: in,   source: users,  target: client, latency: { mean: 0.003, distribution: exponential } }
    - { id: to,   source: client, target: server, latency: { mean: 0.003, distribution: exponential } }
    - { id: back, source: server, target: client, latency: { mean: 0.003, distribution: exponential } }
sim_settings: { total_simulation_time: 60, sample_period_s: 0.05 }
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := service.Kind().Load(doc, scenario.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	run, err := modeltest.Run(s, modeltest.Config{Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d nodes, %d events in %g s\n", len(s.Graph().Nodes), run.Events, s.Horizon())
	// Output: 3 nodes, 2456 events in 60 s
}
