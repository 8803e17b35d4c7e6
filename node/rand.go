// SPDX-License-Identifier: Apache-2.0

package node

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
)

// newSource derives a random stream from everything that names it, so that a
// stream never depends on who else draws, or on where its node runs. The
// generator is PCG-DXSM of math/rand/v2 (O'Neill 2014), its 128-bit seed the
// first half of a SHA-256.
func newSource(seed uint64, replication int, node []byte, stream string) rand.Source {
	return rand.NewPCG(newSeed(seed, replication, node, stream))
}

// newSeed is the seed of that generator.
func newSeed(seed uint64, replication int, node []byte, stream string) (high, low uint64) {
	text := binary.LittleEndian.AppendUint64(nil, seed)
	text = binary.LittleEndian.AppendUint64(text, uint64(replication))
	text = binary.LittleEndian.AppendUint64(text, uint64(len(node)))
	text = append(append(text, node...), stream...)
	sum := sha256.Sum256(text)
	return binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:])
}
