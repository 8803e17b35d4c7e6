// SPDX-License-Identifier: Apache-2.0

// Package group is the commands for machines that belong together: what is in their store, who is there, and the agent
// that makes a machine one of them. They are a program of their own, disco-group, since a store's client is as large as
// all of disco-run; package beside makes them commands of other programs.
//
// Guarantee: no password is taken from an argument, or shown. A command that waits for the store ends after
// --store-timeout, saying for how long it has tried, or by a signal.
//
//	func main() { app.MainWith(group.Commands()) }
package group

import (
	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/experiments"
)

// Commands are store, cluster, agent, machines and certs, those for experiments (submit, list, show, …), and what an
// agent starts as a run's bridge, and on other machines as a host of its attempts, a run over machines as its child,
// and checkpoints in an object store as what reaches it.
func Commands() []app.Command {
	return append([]app.Command{storeCommand(), clusterCommand(), agentCommand(), machinesCommand(), certsCommand(),
		bridgeCommand(), hostCommand(), childCommand(), namesCommand(), blobsCommand()}, experiments.Commands()...)
}
