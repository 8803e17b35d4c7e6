// SPDX-License-Identifier: Apache-2.0

// Command disco-view is the command web of disco-run: a view of a run's results in a browser; and what disco-run starts
// for --web and --metrics. disco-run executes it from its own folder, so that nobody need call it.
//
//	disco-run web out
package main

import (
	"net/http"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/view"
	"github.com/disco-sim/disco/internal/viewrun"
)

func main() {
	app.MainWith(append(view.Commands(), viewrun.MetricsCommand(), viewrun.Command(pages)))
}

// pages is the view of a run's files.
func pages(dir string) (http.Handler, error) {
	d, err := view.Open(dir)
	if err != nil {
		return nil, err
	}
	return view.Handler(d), nil
}
