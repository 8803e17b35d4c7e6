// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"hash/maphash"
	"sync/atomic"
)

// hintsMax is how many paths a client remembers, at most.
const hintsMax = 4096

// hints are paths that this client has seen holding data, by their hashes. They only save work: what is done by a hint
// is done on the condition that it holds. A path takes the place of another one at times.
type hints struct {
	slots [hintsMax]atomic.Uint64
}

var hintSeed = maphash.MakeSeed()

// seen tells whether a path held data.
func (h *hints) seen(path string) bool {
	hash := maphash.String(hintSeed, path)
	return h.slots[hash%hintsMax].Load() == hash
}

// note remembers that a path holds data.
func (h *hints) note(path string) {
	hash := maphash.String(hintSeed, path)
	h.slots[hash%hintsMax].Store(hash)
}
