// SPDX-License-Identifier: Apache-2.0

// Command disco-view is the command web of disco-run: a view of a run's results in a browser. disco-run executes it
// from its own folder, so that nobody need call it.
//
//	disco-run web out
package main

import (
	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/view"
)

func main() { app.MainWith(view.Commands()) }
