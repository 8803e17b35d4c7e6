// SPDX-License-Identifier: Apache-2.0

// Command disco-group is the commands of disco-run for groups of machines: store, cluster, agent, machines and
// certs. disco-run executes it from its own folder, so that nobody need call it.
//
//	disco-run cluster --store etcd://127.0.0.1:2379
package main

import (
	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/group"
)

func main() { app.MainWith(group.Commands()) }
