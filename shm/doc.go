// SPDX-License-Identifier: Apache-2.0

// Package shm creates, attaches, seals and frees segments of shared memory, hands
// out pooled blocks inside them, and parks and wakes the processes that share
// them. It knows bytes and never what they mean.
//
// Guarantee: whatever a peer writes into a segment, and whenever it dies, no other
// process reads or writes outside its own mapping, sleeps longer than its timeout,
// or loses memory: sizes are sealed and checked before anything is mapped, every
// number that comes back from a peer is checked against the reader's own copy of the
// limits, and a sleeping consumer is woken by a doorbell or by its timeout.
//
//	seg, err := shm.Create(shm.Config{Name: "board-0", Kind: myKind, Size: 1 << 16})
//	// … hand seg.File() to another process, which calls
//	peer, err := shm.Attach(file, shm.Want{Kind: myKind})
//	bell, err := shm.OpenDoorbell(peer.Body()[:shm.DoorbellBytes])
//	publish(peer.Body()) // any store, then:
//	bell.Ring()          // wakes the other side if it sleeps
//	defer seg.Close()
//
// The layouts are drawn in docs/format/segment.md and docs/format/block.md, the
// way to sleep and to wake in docs/doorbell.md.
package shm
