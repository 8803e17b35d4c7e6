// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/disco-sim/disco/fleet"
)

// Closing is what closes a step of a pipeline: all its parts are put together, and figures are taken of the results.
type Closing struct {
	Places  string            `json:"places"` // those of parts are PLACES/STEP.POINT.REPLICATION
	Points  int               `json:"points"`
	Sweep   []string          `json:"sweep,omitempty"`
	Export  map[string]string `json:"export,omitempty"` // figures by the names of outputs
	Require []string          `json:"require,omitempty"`
}

// newClosing is the job of an attempt at the closing piece of a step.
func newClosing(spec *fleet.Spec, a fleet.AttemptID, place string) *Job {
	step := &spec.Steps[a.Step]
	return &Job{Experiment: spec.ID, Attempt: a, Replications: step.Replications, Workers: 1,
		Closing: &Closing{Places: strings.TrimSuffix(place, "/"+a.PieceID.String()), Points: len(step.Points),
			Sweep: step.Sweep, Export: step.Export, Require: step.Require}}
}

// Pieces are those whose parts a closing job puts together.
func (j *Job) Pieces() (all []fleet.PieceID) {
	for point := range j.Closing.Points {
		for r := range j.Replications {
			all = append(all, fleet.PieceID{Step: j.Attempt.Step, Point: point, Replication: r})
		}
	}
	return all
}

// PlaceOf is where a part lies that a closing job puts together.
func (j *Job) PlaceOf(p fleet.PieceID) string { return j.Closing.Places + "/" + p.String() }

// MergeArgs are the arguments of merge, but for the parts.
func (c *Closing) MergeArgs() (args []string) {
	for _, axis := range c.Sweep {
		args = append(args, "--sweep", axis)
	}
	for _, text := range c.Require {
		args = append(args, "--require", text)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Export)) {
		args = append(args, "--export", c.Export[name])
	}
	return args
}

// Outputs are a step's outputs, of the figures that merge has given.
func (c *Closing) Outputs(figures map[string]float64) (fleet.Outputs, error) {
	if len(c.Export) == 0 {
		return nil, nil
	}
	out := fleet.Outputs{}
	for name, figure := range c.Export {
		x, ok := figures[figure]
		if !ok {
			return nil, fmt.Errorf("there is no figure %s among them", figure)
		}
		out[name] = x
	}
	return out, nil
}

// Fill replaces what a job's settings import by the outputs of the steps before it.
func (j *Job) Fill(outputs map[string]fleet.Outputs) (err error) {
	j.Args, err = fleet.Fill(j.Args, func(m fleet.Import) (float64, error) {
		x, ok := outputs[m.Step][m.Name]
		if !ok {
			return 0, fmt.Errorf("%s imports %v, and there is no such output", j.Name(), m)
		}
		return x, nil
	})
	return err
}
