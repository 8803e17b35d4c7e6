// SPDX-License-Identifier: Apache-2.0

// Command disco-bench measures how fast processes of one machine exchange events
// through disco, beside the limits of the machine and beside other ways.
//
//	disco-bench latency
//	disco-bench all --json rows.json --hgrm curves
//	disco-bench plot --from rows.json --hgrm curves --out rows.svg
package main

import (
	"github.com/disco-sim/disco/perf/bench"
	"github.com/disco-sim/disco/perf/machines"
	"github.com/disco-sim/disco/perf/peers"
	"github.com/disco-sim/disco/perf/saving"
)

func main() { bench.Main(commands()...) }

// commands are those that measure, besides those of package bench.
func commands() []bench.Command {
	return []bench.Command{peers.Command(), machines.Command(), saving.Command(), saving.MovesCommand()}
}
