// SPDX-License-Identifier: Apache-2.0

// Command disco-graph is the command graph of disco-run: graphs in databases, and files of them. It also reads
// databases
// for scenarios with a graph: section. disco-run executes it from its own folder, so that nobody need call it.
//
//	disco-run graph list --db sqlite:network.db
package main

import (
	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/graphcmd"
	"github.com/disco-sim/disco/internal/graphread"
)

func main() { app.MainWith(append(graphcmd.Commands(), graphread.Command())) }
