// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/disco-sim/disco/node"
)

// atOnce calls functions at the same time and returns when all have returned, with the error of the first in the list
// that has one.
func atOnce(calls ...func() error) error {
	errs := make([]error, len(calls))
	var all sync.WaitGroup
	for i, call := range calls[1:] {
		all.Go(func() { errs[i+1] = call() })
	}
	errs[0] = calls[0]()
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// stretchNodes is how many nodes eachStretch visits as one.
const stretchNodes = 1 << 16

// eachStretch visits all links, stretches of the nodes at the same time, each with a sum of its own. It returns these
// in the order of the nodes: whoever adds them up in that order gets the same on every machine.
func eachStretch[T any](
	a *assignment, visit func(sum *T, from node.SimprocID, link, fromNode, toNode int),
) ([]T, error) {
	if a.s.NumLinks() == 0 {
		return nil, nil
	}
	nodes := a.s.NumNodes()
	sums := make([]T, (nodes+stretchNodes-1)/stretchNodes)
	var next atomic.Int64
	work := func() error {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(sums) {
				return nil
			}
			var sum T
			err := a.linksOf(i*stretchNodes, min((i+1)*stretchNodes, nodes),
				func(from node.SimprocID, link, fromNode, toNode int) { visit(&sum, from, link, fromNode, toNode) })
			if err != nil {
				return err
			}
			sums[i] = sum
		}
	}
	calls := make([]func() error, min(runtime.GOMAXPROCS(0), len(sums)))
	for i := range calls {
		calls[i] = work
	}
	return sums, atOnce(calls...)
}
