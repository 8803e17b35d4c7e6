// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/node"
)

// hashBytes is the length of a trace hash: 128 bits of a SHA-256, so that
// two different traces never have one hash by chance.
const hashBytes = 16

// structure is what names the simprocs of a scenario.
type structure interface {
	NumSimprocs() int
	Name(node.SimprocID) string
}

// traceHash puts the simprocs' own hashes together in the order of their ids. Each
// of them covers all that its simproc handled, in order; so the result covers the
// replication's whole trace and doesn't depend on the placement. Every simproc
// must be there exactly once: anything else is a worker's fault.
func traceHash(g structure, done []*worker.Done) ([]byte, error) {
	hashes := make([]uint64, g.NumSimprocs())
	seen := make([]bool, len(hashes))
	for w, d := range done {
		for _, h := range d.Hashes {
			if int(h.ID) >= len(hashes) {
				return nil, fmt.Errorf("launch: worker %d reports the trace hash of simproc %d, but there are %d",
					w, h.ID, len(hashes))
			}
			if seen[h.ID] {
				return nil, fmt.Errorf("launch: worker %d reports the trace hash of %s, which was reported before",
					w, g.Name(node.SimprocID(h.ID)))
			}
			seen[h.ID], hashes[h.ID] = true, h.Hash
		}
	}
	sum := sha256.New()
	words := make([]byte, 0, 4096)
	for id, h := range hashes {
		if !seen[id] {
			return nil, fmt.Errorf("launch: no worker reports the trace hash of %s", g.Name(node.SimprocID(id)))
		}
		if words = binary.LittleEndian.AppendUint64(words, h); len(words) == cap(words) {
			sum.Write(words)
			words = words[:0]
		}
	}
	sum.Write(words)
	return sum.Sum(nil)[:hashBytes], nil
}

// runHash is the hash of a run: the one replication's, or a hash over all of them.
func runHash(replications [][]byte) string {
	switch len(replications) {
	case 0:
		return ""
	case 1:
		return hex.EncodeToString(replications[0])
	}
	sum := sha256.New()
	for _, h := range replications {
		sum.Write(h)
	}
	return hex.EncodeToString(sum.Sum(nil)[:hashBytes])
}
