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
	Until   []string          `json:"until,omitempty"`  // then the job's Replications are those that count
	Export  map[string]string `json:"export,omitempty"` // as fleet.Export is written, by the names of outputs
	Require []string          `json:"require,omitempty"`
	InFull  bool              `json:"in_full,omitempty"` // parts were simulated with --records

	Settings [][]string `json:"settings,omitempty"` // of each point, where something of a sweep is exported
}

// newClosing is the job of an attempt at the closing piece of a step.
func newClosing(spec *fleet.Spec, a fleet.AttemptID, place string) *Job {
	step := &spec.Steps[a.Step]
	c := &Closing{Places: strings.TrimSuffix(place, "/"+a.PieceID.String()), Points: len(step.Points),
		Sweep: step.Sweep, Until: step.Until, Export: step.Export, Require: step.Require,
		InFull: step.Has("--records")}
	if len(step.Sweep) > 0 && len(step.Export) > 0 {
		c.Settings = step.Points
	}
	return &Job{Experiment: spec.ID, Attempt: a, Replications: step.Replications, Workers: 1, Closing: c,
		OwnPlace: spec.Place != ""}
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
	for _, text := range c.Until {
		args = append(args, "--until", text)
	}
	figures, keys := map[string]bool{}, fleet.SweepKeys(c.Sweep)
	for _, text := range c.Export {
		export := fleet.ParseExport(text)
		for _, name := range export.Figures(keys) {
			figures[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		args = append(args, "--export", name)
	}
	return args
}

// Outputs are a step's outputs, of what merge has given of each point.
func (c *Closing) Outputs(points []fleet.Found) (fleet.Outputs, fleet.Texts, error) {
	step := fleet.Step{Sweep: c.Sweep, Points: c.Settings, Export: c.Export}
	if len(c.Sweep) == 0 {
		step.Points = [][]string{nil}
	}
	return step.Exports(points)
}

// Fill replaces what a job's settings import by the outputs of the steps before it.
func (j *Job) Fill(outputs map[fleet.Import]string) (err error) {
	j.Args, err = fleet.Fill(j.Args, func(m fleet.Import) (string, error) {
		x, ok := outputs[m]
		if !ok {
			return "", fmt.Errorf("%s imports %v, and there is no such output", j.Name(), m)
		}
		return x, nil
	})
	return err
}
