// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/launch"
	untilrule "github.com/disco-sim/disco/internal/until"
)

// mergeUntil fills in what a run is that is to be put together until there are enough replications: of those behind
// that nothing needs to be there.
func (o *order) mergeUntil(ctx context.Context, run *checkpoint.Run) error {
	m := o.merging
	if m.all = run.Replications; m.all < untilrule.Least {
		return usage("--until: found parts of a run of %s, want one of at least %d, which are the first sample",
			count(m.all, "replication"), untilrule.Least)
	}
	if o.config.Resume.From[0] == nil {
		return fmt.Errorf("replication 0 is missing: %s", m.unended(ctx))
	}
	m.missing = nil
	return o.ofParts(run)
}

// mergeBy is what puts the parts of a run together.
func (o *order) mergeBy(l *launch.Launch) func(context.Context) (*launch.Outcome, error) {
	return func(ctx context.Context) (*launch.Outcome, error) {
		out, err := l.Merge(ctx)
		if u := o.until; err != nil || u == nil || u.err != nil || u.met || u.rule.Looked() == o.merging.all {
			return out, err
		}
		n := o.until.rule.Looked()
		return nil, fmt.Errorf("--until isn't reached with the first %s of at most %d, and replication %d is "+
			"missing: simulate it (run … --only %d, or resume DIR where it was begun)", count(n, "replication"),
			o.merging.all, n, n)
	}
}
