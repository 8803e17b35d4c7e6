// SPDX-License-Identifier: Apache-2.0

package bench

import "sync/atomic"

// storeRelease is the cheapest store that publishes: a thread that loads v sees all that was stored before. The
// bare loops use it because a limit that pays for the full fence of sync/atomic's store would be no limit: on amd64
// it halves the rate of single events.
//
//go:noescape
func storeRelease(p *atomic.Uint64, v uint64)
