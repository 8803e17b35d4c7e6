// SPDX-License-Identifier: Apache-2.0

// Package offer is what a launcher and the agents of its machines say to each other around a run: an offer that asks
// for slots, the answer, the begin and end of the run's bridge; and how an agent is. docs/format/offer.md has the
// messages, docs/bridge.md the design.
//
// Guarantee: nothing of a message is used before it is bounded; whoever hasn't shown a certificate of the authority
// reaches neither offers nor health; a slot is reserved once, and is free again when the process that was started for
// it has ended; an offer whose stream ends before the run goes leaves nothing; every wait ends by its context, or with
// Close.
//
//	server := offer.Serve(connections, cfg)             // an agent
//	run, err := offer.Open(ctx, targets, what, security) // a launcher: all machines or none
//	err = run.Begin(begin)
//	report, err := run.Next(ctx)
//	err = run.Go()
//	run.Close()
package offer
