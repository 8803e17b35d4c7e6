// SPDX-License-Identifier: Apache-2.0

//go:build (amd64 || arm64) && !race

package ring

// storeRelease stores v to *p: a thread that reads v with an atomic load also sees all stores made before it. It is
// no full fence: a later load of this side may be done before the store is seen (PublishFenced is for those who
// need that order).
//
// sync/atomic has only the stronger store, which on amd64 is an XCHG that waits
// until the store buffer is empty. The race detector doesn't see assembly, so the
// race build has the stronger store.
//
//go:noescape
func storeRelease(p *uint64, v uint64)
