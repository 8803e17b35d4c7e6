// SPDX-License-Identifier: Apache-2.0

// Package node is the core of the simulation: simulated nodes, their simprocs, the events that they exchange and
// the order in which all of it happens.
//
// Guarantee: what an Engine does depends only on its Plan, its Config and what it is
// given through Receive…: same scenario, seed and replication give every handler the
// same calls with the same events in the same order, however nodes are spread over
// Engines and however their messages are timed. An Engine never hands out an epoch
// before it is complete. It has no goroutine, clock, file or socket, and the event path
// neither allocates nor looks up strings.
//
// One worker drives one Engine:
//
//	plan, err := node.NewPlan(model.Graph(), placement, self, workers)
//	e, err := node.NewEngine(plan, node.Config{Model: model, Seed: 1, Horizon: 600, Port: links})
//	for e.Next() != node.Never {
//		_, err = e.Run(256, math.Inf(1)) // handle what can be handled
//		…                                // send peers e.OutBound, take in their events and bounds
//	}
//	parts, err := e.Report(600)
//
// A model is a Model; its logic is a Handler per simproc, which sends through its
// Simproc. docs/sync.md derives the synchronisation, docs/ARCHITECTURE.md draws the
// way of an event.
package node
