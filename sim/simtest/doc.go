// SPDX-License-Identifier: Apache-2.0

// Package simtest is for the tests of models of package sim: it runs a model over a grid of workers, in one process
// and in several, and gives its results by name.
//
// Guarantee: Run passes only where every spread of the nodes gave the same hash and report of every node, and worker
// processes the same results; runs in the test's own process have no goroutine or clock, so a test that fails fails
// again.
//
//	var kind = sim.Kind("till", build)
//
//	func TestMain(m *testing.M) { simtest.Main(m, kind) }
//
//	func TestTill(t *testing.T) {
//		till := simtest.Load(t, kind, "till.yml")
//		simtest.Run(t, till)
//		r := simtest.Results(t, till, 100)
//		simtest.Agree(t, r, "till/wait", 4.5)
//	}
package simtest
