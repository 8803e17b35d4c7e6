// SPDX-License-Identifier: Apache-2.0

// Package metastore is a hierarchical store of small values that machines of a group share: who is there, who does
// what, who leads. Everything that a user calls is written once, over a [Backend] for each engine: metastore/mem for
// tests, metastore/etcd and metastore/zk for servers.
//
// docs/metastore.md has the whole design, and what the rules are that make the engines equal.
//
// Guarantee: a program that works with one engine works with the others. The suite in metastore/storetest holds every
// engine to the rules.
package metastore
