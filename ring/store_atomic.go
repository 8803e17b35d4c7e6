// SPDX-License-Identifier: Apache-2.0

//go:build !(amd64 || arm64) || race

package ring

import "sync/atomic"

// storeRelease stores v to *p: a thread that reads v with an atomic load also sees all stores made before it.
// Callers rely on no more than that.
func storeRelease(p *uint64, v uint64) { atomic.StoreUint64(p, v) }
