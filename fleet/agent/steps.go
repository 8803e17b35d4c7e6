// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
)

// fillIn puts the outputs into a job's settings that its piece names, each of the attempt that it names. final: the
// error would be the same on any machine.
func (a *Agent) fillIn(ctx context.Context, spec *fleet.Spec, p *fleet.Piece, j *executor.Job) (final bool, err error) {
	outputs := map[fleet.Import]string{}
	if j.Closing != nil && p.Counts > 0 {
		j.Replications = min(j.Replications, p.Counts)
	}
	for name, attempt := range p.Inputs {
		step, err := spec.StepOf(name)
		if err != nil {
			return true, err
		}
		closing, err := a.o.Store.Piece(ctx, spec.ID, spec.Closing(step))
		if err != nil {
			return false, err
		}
		if closing.State != fleet.Finished || closing.Attempt != attempt {
			return false, fmt.Errorf("%w: %s names the outputs of attempt %d of step %s: found attempt %d, %v", ErrOld,
				j.Name(), attempt, name, closing.Attempt, closing.State)
		}
		for _, output := range slices.Concat(slices.Collect(maps.Keys(closing.Outputs)),
			slices.Collect(maps.Keys(closing.Texts))) {
			outputs[fleet.Import{Step: name, Name: output}], _ = fleet.Value(output, closing.Outputs, closing.Texts)
		}
	}
	err = j.Fill(outputs)
	return err != nil, err
}
