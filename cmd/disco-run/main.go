// SPDX-License-Identifier: Apache-2.0

// Command disco-run runs simulations over many processes of one machine.
//
//	disco-run run examples/shop.yml --workers 2
//	disco-run validate examples/shop.yml
package main

import (
	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/group/beside"
	"github.com/disco-sim/disco/model/devstone"
	"github.com/disco-sim/disco/model/network"
	"github.com/disco-sim/disco/model/phold"
	"github.com/disco-sim/disco/model/queueing"
	"github.com/disco-sim/disco/model/service"
	"github.com/disco-sim/disco/model/supply"
	"github.com/disco-sim/disco/scenario"
)

func main() {
	app.MainWith(append(beside.Commands(), exampleCommand()), kinds()...)
}

// kinds are those of the files that it simulates; a file that names none is of the first.
func kinds() []scenario.Kind {
	return []scenario.Kind{service.Kind(), network.Kind(), queueing.Kind(), supply.Kind(), phold.Kind(),
		devstone.Kind()}
}
