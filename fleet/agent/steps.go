// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
)

// fillIn puts the outputs into a job's settings that its piece names, each of the attempt that it names. final: the
// error would be the same on any machine.
func (a *Agent) fillIn(ctx context.Context, spec *fleet.Spec, p *fleet.Piece, j *executor.Job) (final bool, err error) {
	outputs := map[string]fleet.Outputs{}
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
		outputs[name] = closing.Outputs
	}
	err = j.Fill(outputs)
	return err != nil, err
}
