// SPDX-License-Identifier: Apache-2.0

// Package fleet keeps experiments that machines of a group simulate together: what was submitted, what is wished of it,
// how far each piece has got, and who decides what is simulated where.
//
// docs/fleet.md has the words, the keys, the rules and the invariants.
//
// Guarantee: what a submission has answered is not lost, and each piece of it ends once. A piece is one replication of
// one point of one step; what simulates it is package cluster's servers, and nothing about where, when or how often it
// is tried changes a bit of a result.
package fleet

// Layout is the number of the layout of the fleet's keys. A group with another one is refused.
const Layout = 1

// Limits of what is submitted and kept.
const (
	MaxPieces      = 1_000_000 // of one experiment
	MaxSteps       = 100
	MaxPoints      = 10_000  // of one step
	MaxExperiments = 10_000  // in a group, ended ones included
	MaxText        = 8 << 20 // bytes of a scenario's text, and of one attachment
	MaxAttached    = 64 << 20
	MaxReason      = 4_000  // bytes of a reason
	MaxTrace       = 40_000 // bytes of an error's trace
	MaxLog         = 64 << 10
)

// blobPart is how many bytes of a blob one key has.
const blobPart = 900_000
