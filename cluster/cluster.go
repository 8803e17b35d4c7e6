// SPDX-License-Identifier: Apache-2.0

// Package cluster says which machines belong to a group, which servers they offer, what state each is in and what it
// hosts.
//
// docs/cluster.md has the keys, the states and the protocols.
//
// Guarantee: a server does what the table of states allows, once, and answers every request; everything else is
// refused with what would be allowed, and the server goes on as it was.
package cluster
