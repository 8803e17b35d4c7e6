// SPDX-License-Identifier: Apache-2.0

// Package devstone is DEVStone, the synthetic benchmark of discrete-event formalisms
// (Glinsky and Wainer, DEVStone: a benchmarking technique for studying performance of
// DEVS modeling and simulation environments, 2005; HOmod: Risco-Martín, Mittal, Fabero,
// Zapater and Hermida, 2017): coupled models nested in each other, through which one
// event causes a cascade that takes no simulated time. It is the hardest case for
// links of lookahead 0: everything happens at one epoch, in an order that only the
// structure gives.
//
// Guarantee: the cascade is that of the formalism with bags: what reaches a component
// after equally many steps makes one transition and one output. The counts are those of
// the formula of each type, whatever the spread over workers.
//
//	model: devstone
//	type: HI        # LI, HI, HO or HOmod
//	width: 20
//	depth: 20
//	pulses: 100     # the cascade is set off at 0, 1, … 99 seconds
//
// docs/model-devstone.md draws the four types.
package devstone
