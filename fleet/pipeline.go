// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/metastore"
)

// A pipeline is an experiment whose steps have names: they may wait for each other, and hand figures of their results
// on. What adds up results has models, and the leader has none; so a step with exports or requirements has a closing
// piece, which an agent simulates like any other, but by putting the step's parts together.

// Inputs are the outputs that a piece is simulated with: of each step the attempt of its closing piece that has written
// them.
type Inputs map[string]int

// Outputs are the figures that a step exports, by name. The closing piece's record has them: they are written once for
// each of its attempts, by the leader, with its end.
type Outputs map[string]float64

// StepStanding is how far a step of a pipeline is.
type StepStanding struct {
	Name   string             `json:"name"`
	Status Status             `json:"status"`
	Pieces map[PieceState]int `json:"pieces"`
	Reason string             `json:"reason,omitempty"` // why nothing of it begins
}

// Import is a figure of another step that a setting refers to, as {STEP.NAME}.
type Import struct{ Step, Name string }

// String is as it stands in a setting.
func (m Import) String() string { return "{" + m.Step + "." + m.Name + "}" }

// Bounds of pipelines.
const (
	outputsMost  = 64 // exports of a step
	requiresMost = 64
	stepNameMost = 50 // bytes
)

// nameForm is that of a step, and of what it exports: names of folders, and of parts of {STEP.NAME}.
var nameForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)

// nameWanted is nameForm in words.
const nameWanted = "a letter, and then letters, digits, - and _"

// importForm is an import in a setting. A mapping of YAML between braces has a colon or a blank.
var importForm = regexp.MustCompile(`\{([A-Za-z][A-Za-z0-9_-]*)\.([A-Za-z][A-Za-z0-9_-]*)\}`)

// Imports are those of some texts, in their order, each once.
func Imports(texts ...string) (all []Import) {
	for _, text := range texts {
		for _, m := range importForm.FindAllStringSubmatch(text, -1) {
			if one := (Import{m[1], m[2]}); !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
	}
	return all
}

// Fill replaces the imports in texts by what value gives for them. Its errors are one.
func Fill(texts []string, value func(Import) (string, error)) ([]string, error) {
	var errs []error
	filled := slices.Clone(texts)
	for i, text := range texts {
		filled[i] = importForm.ReplaceAllStringFunc(text, func(found string) string {
			x, err := value(Imports(found)[0])
			if err != nil {
				errs = append(errs, err)
			}
			return x
		})
	}
	return filled, errors.Join(errs...)
}

// HandedOn is the label of the checkpoint that a step hands on to those that go on From it.
const HandedOn = "handed-on"

// HandsOn is the flag of a run that makes the checkpoint HandedOn at a simulated time, and its value.
func HandsOn(seconds float64) (flag, value string) {
	return "--checkpoint-at", strconv.FormatFloat(seconds, 'g', -1, 64) + "=" + HandedOn
}

// handsOn tells whether a step makes that checkpoint.
func (s *Step) handsOn() bool {
	return slices.ContainsFunc(s.Args, func(arg string) bool { return strings.HasSuffix(arg, "="+HandedOn) })
}

// checkFrom is what is wrong with the step that one goes on from: it must be one run, which makes the checkpoint.
func checkFrom(steps []Step, step int) error {
	s := &steps[step]
	if s.From == "" {
		return nil
	}
	at := slices.IndexFunc(steps, func(b Step) bool { return b.Name == s.From })
	if at < 0 {
		return fmt.Errorf("from: found %.80q, want the name of a step: %s", s.From, stepNames(steps))
	}
	from, errs := &steps[at], []error(nil)
	if !slices.Contains(s.After, s.From) {
		errs = append(errs, fmt.Errorf("from: found %s, which isn't in after", s.From))
	}
	if len(from.Sweep) > 0 || len(from.Points) > 1 || from.Replications > 1 || len(from.Until) > 0 || from.From != "" {
		errs = append(errs, fmt.Errorf("from: found %s, which is several runs, or goes on from another step: want one "+
			"replication without sweep, until and from", s.From))
	}
	if !from.handsOn() {
		errs = append(errs, fmt.Errorf("from: found %s, which makes no checkpoint to go on from: want checkpoint: "+
			"SECONDS there", s.From))
	}
	if len(s.Until) > 0 {
		errs = append(errs, errors.New("until: found it with from, want one of them: variants of a run are as many as "+
			"replications says"))
	}
	return errors.Join(errs...)
}

// Closes tells whether a step has a closing piece: one of a pipeline with exports, requirements, or a rule, which the
// results must meet.
func (s *Step) Closes() bool {
	return len(s.Export)+len(s.Require) > 0 || s.Name != "" && len(s.Until) > 0
}

// Has tells whether a run of the step has a flag that takes no value, such as --records, of which who puts parts
// together must know.
func (s *Step) Has(flag string) bool { return slices.Contains(s.Args, flag) }

// Count is how many pieces a step has, its closing piece included.
func (s *Step) Count() int {
	n := len(s.Points) * s.Replications
	if s.Closes() {
		n++
	}
	return n
}

// Closing is the closing piece of a step that has one: it comes behind all points.
func (s *Spec) Closing(step int) PieceID {
	return PieceID{Step: step, Point: len(s.Steps[step].Points)}
}

// IsClosing tells whether a piece is a step's closing piece.
func (s *Spec) IsClosing(p PieceID) bool {
	return p.Step >= 0 && p.Step < len(s.Steps) && s.Steps[p.Step].Closes() && p == s.Closing(p.Step)
}

// Pipeline tells whether an experiment's steps have names, by which their results are told apart.
func (s *Spec) Pipeline() bool { return len(s.Steps) > 1 || s.Steps[0].Name != "" }

// StepError is the error about a name that no step of an experiment has.
type StepError struct{ text string }

// Error says which one was found, and lists all names.
func (e *StepError) Error() string { return e.text }

// StepOf is the number of the step of a name. The error is a *StepError.
func (s *Spec) StepOf(name string) (int, error) {
	if !s.Pipeline() {
		return 0, &StepError{fmt.Sprintf("found the step %.80q of an experiment that has no steps: it is one "+
			"scenario, and no pipeline", name)}
	}
	i := slices.IndexFunc(s.Steps, func(t Step) bool { return t.Name == name })
	if i < 0 {
		return 0, &StepError{fmt.Sprintf("found the step %.80q, want one of %s", name, stepNames(s.Steps))}
	}
	return i, nil
}

func (s *Spec) checkPipeline() error {
	if len(s.Steps) == 0 || !s.Pipeline() && len(s.Steps[0].After) == 0 && !s.Steps[0].Closes() {
		return nil
	}
	return CheckSteps(s.Steps)
}

// CheckSteps says all that is wrong with how steps of a pipeline are named, wait for each other and hand figures on.
func CheckSteps(steps []Step) error {
	graph, err := NewGraph(steps)
	errs := []error{err}
	if len(steps) > MaxSteps {
		return number("steps", len(steps), 1, MaxSteps)
	}
	for i := range steps {
		s := &steps[i]
		wrong := []error{s.checkNamed(), checkFrom(steps, i)}
		if err == nil { // else nothing is before anything
			wrong = append(wrong, checkImports(steps, graph, i))
		}
		if err := errors.Join(wrong...); err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				errs = append(errs, fmt.Errorf("step %.80q: %s", s.Name, line))
			}
		}
	}
	return errors.Join(errs...)
}

// checkNamed is what is wrong with a step by itself.
func (s *Step) checkNamed() error {
	errs := []error{number("exports", len(s.Export), 0, outputsMost), number("requirements", len(s.Require), 0,
		requiresMost)}
	if len(s.Name) > stepNameMost || !nameForm.MatchString(s.Name) {
		errs = append(errs, fmt.Errorf("found this name, want %s, at most %d", nameWanted, stepNameMost))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Export)) {
		if len(name) > stepNameMost || !nameForm.MatchString(name) {
			errs = append(errs, fmt.Errorf("export: found the name %.80q, want %s", name, nameWanted))
		}
		errs = append(errs, filled("export: "+name, s.Export[name], metastore.MaxPath), s.checkExport(name))
	}
	for _, text := range s.Require {
		errs = append(errs, filled("require", text, MaxReason))
	}
	if s.Priority != "" {
		errs = append(errs, s.Priority.check())
	}
	return errors.Join(errs...)
}

// checkImports is what is wrong with a step's imports: they must be exported by a step before.
func checkImports(steps []Step, graph *Graph, step int) error {
	var errs []error
	for _, m := range Imports(steps[step].Args...) {
		from := slices.IndexFunc(steps, func(s Step) bool { return s.Name == m.Step })
		switch {
		case from < 0:
			errs = append(errs, fmt.Errorf("set: found %v, want the name of a step: %s", m, stepNames(steps)))
		case !slices.Contains(graph.Dependents(from), step):
			errs = append(errs, fmt.Errorf("set: found %v, which isn't before: want %s in after", m, m.Step))
		case steps[from].Export[m.Name] == "":
			names := slices.Sorted(maps.Keys(steps[from].Export))
			want := "one that it exports: " + strings.Join(names, ", ")
			if len(names) == 0 {
				want = fmt.Sprintf("export: {%s: FIGURE} there", m.Name)
			}
			errs = append(errs, fmt.Errorf("set: found %v, which %s doesn't export: want %s", m, m.Step, want))
		}
	}
	for _, text := range steps[step].Sweep {
		for _, m := range Imports(text) {
			errs = append(errs, fmt.Errorf("sweep: found %v, want values: points are fixed when a pipeline is "+
				"submitted", m))
		}
	}
	return errors.Join(errs...)
}

func (in Inputs) check() error {
	errs := []error{number("inputs", len(in), 0, MaxSteps)}
	for name, attempt := range in {
		errs = append(errs, line("an input", name, maxName), number("attempt of an input", attempt, 1, math.MaxInt32))
	}
	return errors.Join(errs...)
}

// check refuses what can't be a step's outputs; only what is Finished has some.
func (out Outputs) check(state PieceState) error {
	errs := []error{number("outputs", len(out), 0, outputsMost)}
	for name, x := range out {
		errs = append(errs, line("an output", name, maxName))
		if math.IsNaN(x) || math.IsInf(x, 0) {
			errs = append(errs, fmt.Errorf("the output %.80q: found %v, want a finite number", name, x))
		}
	}
	if len(out) > 0 && state != Finished {
		errs = append(errs, fmt.Errorf("outputs: found some of a piece that is %v, want them with %v", state, Finished))
	}
	return errors.Join(errs...)
}

func (s *Standing) checkSteps() error {
	errs := []error{number("steps", len(s.Steps), 0, MaxSteps)}
	for i := range s.Steps {
		t := &s.Steps[i]
		errs = append(errs, line("a step's name", t.Name, maxName), text("a step's reason", t.Reason, MaxReason))
		if t.Status < StatusCreated || t.Status > StatusFailed {
			errs = append(errs, errors.New("a step's status: found none"))
		}
		for state, n := range t.Pieces {
			errs = append(errs, number(state.String(), n, 0, MaxPieces))
		}
	}
	return errors.Join(errs...)
}
