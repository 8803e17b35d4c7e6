// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"context"
	"fmt"
	"math"

	"github.com/disco-sim/disco/external"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// outside asks what a scenario names (scenario.Asker), each time anew: it has to answer the same request in the same
// way.
type outside struct {
	all  []external.External
	what string // begins the keys
}

// outsideOf is the outside of a run; nil: the scenario asks nothing.
func outsideOf(s scenario.Scenario, seed uint64, replication int) (node.Outside, error) {
	a, ok := s.(scenario.Asker)
	if !ok || len(a.Externals()) == 0 {
		return nil, nil
	}
	o := &outside{a.Externals(), fmt.Sprintf("%016x%08x", seed, replication)}
	return o, external.CheckAll(o.all)
}

// Names implements node.Outside.
func (o *outside) Names() (names []string) {
	for i := range o.all {
		names = append(names, o.all[i].Name)
	}
	return names
}

// Ask implements node.Outside.
func (o *outside) Ask(c *node.ExternalCall) ([]byte, error) {
	x := &o.all[c.External]
	key := fmt.Sprintf("%s%08x%016x%016x", o.what, c.Simproc, math.Float64bits(c.Epoch), c.Number)
	r, err := x.Do(context.Background(), key, c.Request)
	if err == nil && r.Failure != "" {
		err = &node.ExternalError{Name: x.Name, Text: r.Failure}
	}
	return r.Answer, err
}
