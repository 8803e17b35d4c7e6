// SPDX-License-Identifier: Apache-2.0

package router

import (
	"fmt"
)

// names are the texts of a run, for wiring and for messages.
type names struct {
	nodes    map[string]uint32
	nodeList []string
	simprocs []string
}

func newNames(nodes, simprocs []string) (*names, error) {
	n := &names{
		nodes:    make(map[string]uint32, len(nodes)),
		nodeList: append([]string(nil), nodes...),
		simprocs: append([]string(nil), simprocs...),
	}
	for i, name := range nodes {
		if first, ok := n.nodes[name]; ok {
			return nil, fmt.Errorf("router: nodes %d and %d are both named %q", first, i, name)
		}
		n.nodes[name] = uint32(i)
	}
	return n, nil
}

// nearestWork bounds the search for a name that may have been meant: cells of
// distance tables, some 20 ms.
const nearestWork = 1 << 22

// nearest gives `; did you mean "…"?` for the candidate that takes the fewest edits,
// if those are few for a word of this length; else nothing.
func nearest(word string, candidates []string) string {
	best, bestEdits := "", max(1, (len(word)+1)/3)+1
	work := 0
	for _, c := range candidates {
		if work += (len(word) + 1) * (len(c) + 1); work > nearestWork {
			break
		}
		if edits := distance(word, c, bestEdits); edits < bestEdits {
			best, bestEdits = c, edits
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// distance is the number of bytes to insert, delete or change to make a into b, and
// at least limit where that is reached.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1) // row[j]: from a[:i] to b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal, least := row[0], i+1
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
			least = min(least, row[j+1])
		}
		if least >= limit {
			return limit
		}
	}
	return row[len(b)]
}
