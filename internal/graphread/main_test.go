// SPDX-License-Identifier: Apache-2.0

package graphread

import (
	"io"
	"os"
	"testing"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/internal/graphproc"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/disco-sim/disco/model/network"
	"github.com/disco-sim/disco/model/queueing"
	"github.com/disco-sim/disco/model/service"
	"github.com/disco-sim/disco/model/supply"
	"github.com/disco-sim/disco/scenario"
)

// kinds are those that the tests run.
func kinds() []scenario.Kind {
	return []scenario.Kind{supply.Kind(), network.Kind(), queueing.Kind(), service.Kind()}
}

// TestMain: the test binary is the program beside a run, too, and its workers.
func TestMain(m *testing.M) {
	switch {
	case workerproc.Started(graphproc.Command):
		os.Exit(app.RunWith(os.Args, nil, io.Discard, os.Stderr, []app.Command{Command()}))
	case launch.IsWorker():
		registry, err := scenario.NewRegistry(kinds()...)
		if err != nil {
			panic(err)
		}
		os.Exit(launch.Serve(registry))
	}
	leaktest.Main(m)
}
