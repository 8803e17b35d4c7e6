// SPDX-License-Identifier: Apache-2.0

// Command mymodel runs a model of one's own with all the commands of disco-run.
//
//	go build && ./mymodel run office.yml --workers 2
package main

import (
	"example.org/mymodel/gossip"
	"github.com/disco-sim/disco/app"
)

func main() { app.Main(gossip.Kind()) }
