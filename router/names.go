// SPDX-License-Identifier: Apache-2.0

package router

import (
	"fmt"

	"github.com/disco-sim/disco/internal/nearest"
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

// meant gives `; did you mean "…"?` where one of the candidates is near, else nothing.
func meant(word string, candidates []string) string {
	best := nearest.Word(word, candidates)
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}
