// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"fmt"
	"math"

	"github.com/disco-sim/disco/internal/until"
	"github.com/disco-sim/disco/model/measure"
)

// MaxFigures is how many figures of --until a step may have, and as many of --figure.
const MaxFigures = 16

// Enough says that the first replications of a step are enough by its rule: no others count.
type Enough struct {
	Step         int `json:"step"`
	Replications int `json:"replications"`
}

// enough is with how many replications a step has enough by its rule; 0: it has no rule, or hasn't enough.
func (s *Standing) enough(step int) int {
	if s != nil {
		for _, e := range s.Enough {
			if e.Step == step {
				return e.Replications
			}
		}
	}
	return 0
}

// Enough is with how many replications a step of an experiment has enough by its rule, and no others count; 0: it has
// no rule, or hasn't enough, or not yet.
func (e *Experiment) Enough(step int) int { return e.Standing.enough(step) }

// unknownFigures is what is said of an end whose step ends by its rule, and that doesn't say what it comes to.
const unknownFigures = "it says nothing of the figures that the experiment ends by: want an agent of this version of " +
	"disco there"

// checkEnough refuses numbers that can't be.
func (s *Standing) checkEnough() error {
	errs := []error{number("enough", len(s.Enough), 0, MaxSteps)}
	for _, e := range s.Enough {
		errs = append(errs, number("enough: step", e.Step, 0, MaxSteps-1),
			number("enough: replications", e.Replications, 1, MaxPieces))
	}
	return errors.Join(errs...)
}

// checkFigures refuses a rule that isn't one, and too many figures.
func (s *Step) checkFigures() error {
	errs := []error{number("until", len(s.Until), 0, MaxFigures), number("figures", len(s.Figures), 0, MaxFigures)}
	for _, text := range s.Until {
		if _, err := until.Parse(text); err != nil {
			errs = append(errs, fmt.Errorf("until: %w", err))
		}
		errs = append(errs, filled("until", text, maxName))
	}
	for _, name := range s.Figures {
		errs = append(errs, filled("a figure", name, maxName))
	}
	if len(s.Until) > 0 && len(s.Points) > 1 {
		errs = append(errs, fmt.Errorf("until: found it with %d points, want one: points with different numbers of "+
			"replications have no pairs to compare", len(s.Points)))
	}
	return errors.Join(errs...)
}

// Wanted are the figures that the step's rule is about; each is checked.
func (s *Step) Wanted() (figures []string) {
	for _, text := range s.Until {
		if p, err := until.Parse(text); err == nil {
			figures = append(figures, p.Figure)
		}
	}
	return figures
}

// checkFigures refuses figures of a replication that are none, or too many.
func (k *Kept) checkFigures() error {
	errs := []error{number("figures", len(k.Figures), 0, 2*MaxFigures*len(until.Names("")))}
	for name, x := range k.Figures {
		if errs = append(errs, filled("a figure", name, maxName+20)); math.IsNaN(x) || math.IsInf(x, 0) {
			errs = append(errs, fmt.Errorf("the figure %.80q: found %v, want a finite number", name, x))
		}
	}
	return errors.Join(errs...)
}

// of finds a figure by its name among the results.
func (k *Kept) of(name string) (x float64, ok bool) {
	x, ok = k.Figures[name]
	return x, ok
}

// Figure is what the replications of a point that are there say about a figure.
type Figure struct {
	Step     int              `json:"step"`
	Point    int              `json:"point"`
	Asked    string           `json:"asked"`            // as --until or --figure has it
	Name     string           `json:"figure,omitempty"` // among the results; "": no replication has it
	Until    string           `json:"until,omitempty"`  // the width that is wanted
	Reached  bool             `json:"reached,omitempty"`
	Looked   int              `json:"looked,omitempty"` // replications that say of their figures what they are
	Interval measure.Interval `json:"interval"`         // of the mean of the replications' own figures
}

// FiguresOf are the figures that were asked for, of each point, those of --until first. Of a step with a rule it is the
// replications in their order that count, up to the first that hasn't ended or the one with which there are enough; of
// others all that have ended well. Only sums are kept.
func FiguresOf(e *Experiment, pieces map[PieceID]PieceAt) (all []Figure) {
	if e.Spec == nil {
		return nil
	}
	for number := range e.Spec.Steps {
		t := &e.Spec.Steps[number]
		rule, err := until.New(t.Until)
		if err != nil {
			continue // the specification was checked when it was read
		}
		for _, name := range t.Figures {
			rule.Wanted = append(rule.Wanted, until.Precision{Figure: name})
		}
		for point := range t.Points {
			looked := lookAt(rule, t, PieceID{Step: number, Point: point}, e.Enough(number), pieces)
			for i := range rule.Wanted {
				f := Figure{Step: number, Point: point, Asked: rule.Wanted[i].Figure, Looked: looked,
					Interval: measure.Unknown(0, 0)}
				if looked > 0 {
					f.Name, f.Interval = rule.Found(i)
				}
				if i < len(t.Until) {
					f.Until, f.Reached = rule.Wanted[i].String(), looked > 0 && rule.Reached(i)
				}
				all = append(all, f)
			}
		}
	}
	return all
}

// lookAt shows a rule the replications of a point, and says how many there are.
func lookAt(rule *until.Rule, t *Step, at PieceID, enough int, pieces map[PieceID]PieceAt) (looked int) {
	count := t.Replications
	if enough > 0 {
		count = min(count, enough)
	}
	for at.Replication = range count {
		p, there := pieces[at]
		finished := there && p.State == Finished && p.Kept != nil
		if !finished && len(t.Until) > 0 {
			break
		}
		if finished && p.Kept.Figures != nil {
			rule.Look(looked, p.Kept.of)
			looked++
		}
	}
	return looked
}
