// SPDX-License-Identifier: Apache-2.0

// Package bench measures how fast two processes of one machine exchange events through disco, and puts every figure
// beside a limit of the machine that was measured in the same round: a bare flag, a bare copy loop, a memcpy, a
// bare futex.
//
// Guarantee: what a row counts was written by one process and read by the other, and a checksum over all of it
// agreed; otherwise there is an error and no row. A row and its limit alternate, round by round, in the same
// processes and the same memory, so a ratio compares what the machine could do with what disco did at the same
// time. Nothing is left behind: no process, no memory, no file.
//
//	fleet, err := bench.NewFleet(bench.FleetConfig{Processes: true, Pairs: 1, ArenaBytes: n, Jobs: bench.Jobs()})
//	defer fleet.Close()
//	row, err := bench.Measure(ctx, fleet, spec)   // limit, row, limit, row, …
//	err = bench.WriteJSON(w, []bench.Row{row})
//
// docs/bench.md says what each row measures and how to read it.
package bench
