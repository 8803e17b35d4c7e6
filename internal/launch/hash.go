// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"crypto/sha256"
	"encoding/hex"

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
