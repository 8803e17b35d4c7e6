// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/submission"
	"github.com/disco-sim/disco/internal/sweep"
	"github.com/disco-sim/disco/scenario"
)

// pipeline is a file with steps, each a scenario of its own.
type pipeline struct {
	file     string // its path
	failFast bool
	steps    []stepFile
}

// stepFile is a step as its file has it.
type stepFile struct {
	fleet.Step          // but for what the program with the models says of its scenario
	file       string   // path
	flags      []string // of submission, but for set
	set        []string // as it is written, with imports
	checkpoint float64  // the time of a checkpoint that others go on from; 0: none
}

// The fields of a file with steps, and of a step.
var (
	pipelineFields = []string{"steps", "fail_fast"}
	stepFields     = []string{"file", "after", "replications", "until", "figure", "workers", "set", "sweep", "seed",
		"horizon", "warmup", "records", endsFlag, "checkpoint", "from", "export", "require", "priority"}
)

// standIn is what an import is while a step's scenario is checked, before there are outputs: the first value of a key
// of a sweep that is exported, and 1 for a figure.
func (p *pipeline) standIn(m fleet.Import) string {
	for i := range p.steps {
		from := &p.steps[i]
		export := fleet.ParseExport(from.Export[m.Name])
		for k, key := range fleet.SweepKeys(from.Sweep) {
			if from.Name == m.Step && key == export.What {
				if axis, err := sweep.ParseAxis(from.Sweep[k]); err == nil {
					return axis.Values[0]
				}
			}
		}
	}
	return "1"
}

// stepsForm is what stands in the field steps.
const stepsForm = "a mapping with 1 or more steps by their names, such as warm: {file: mini.yml}"

// isPipeline tells whether the top level of a file is that of a pipeline: it has a mapping steps, or steps and nothing
// else that a pipeline hasn't, and names no model.
func isPipeline(top []scenario.Entry) bool {
	steps, mapping, others := false, false, false
	for _, e := range top {
		if e.Name == "model" {
			return false
		}
		steps = steps || e.Name == "steps"
		mapping = mapping || e.Name == "steps" && e.Value.IsMapping()
		others = others || !slices.Contains(pipelineFields, e.Name)
	}
	return mapping || steps && !others
}

// parsePipeline reads the text of a file with steps; nil: it is something else, about which the program with the
// models says what is wrong. A scenario whose own top level has steps names its model.
func parsePipeline(path string, text []byte) (*pipeline, error) {
	doc, err := scenario.Parse(path, text)
	if err != nil {
		return nil, nil // who reads the scenario says it
	}
	top := scenario.NewReader(doc).Whole()
	if !top.IsMapping() {
		return nil, nil
	}
	if !isPipeline(top.Entries()) {
		return nil, nil
	}
	r := scenario.NewReader(doc)
	s := r.Whole().Section(pipelineFields...)
	p := &pipeline{file: path, failFast: s.Field("fail_fast").BoolOr(false)}
	var steps []fleet.Step
	all := s.Field("steps")
	switch {
	case all.IsList():
		all.Refuse("a list", stepsForm, "put each step's name before what it has")
	case !all.IsMapping():
		all.Refuse("no steps", stepsForm, "")
	default:
		for _, e := range all.Entries() {
			p.steps = append(p.steps, stepFrom(e, filepath.Dir(path)))
		}
		p.orderFrom()
		for i := range p.steps {
			steps = append(steps, p.steps[i].Step)
		}
		if len(steps) == 0 {
			all.Refuse("no steps", stepsForm, "")
		}
	}
	err = r.Err()
	if len(steps) > 0 {
		err = errors.Join(err, p.checkSteps(steps))
	}
	if err != nil {
		return nil, app.Usage("%v", err)
	}
	return p, nil
}

// orderFrom has steps wait for those that they go on from. One that doesn't exist is told as what from has found.
func (p *pipeline) orderFrom() {
	for i := range p.steps {
		s := &p.steps[i]
		there := slices.ContainsFunc(p.steps, func(b stepFile) bool { return b.Name == s.From })
		if there && !slices.Contains(s.After, s.From) {
			s.After = append(s.After, s.From)
		}
	}
}

// checkSteps says all that is wrong with how steps go together, and in which file they stand.
func (p *pipeline) checkSteps(steps []fleet.Step) error {
	wrong := fleet.CheckSteps(steps)
	if wrong == nil {
		return nil
	}
	lines := strings.Split(wrong.Error(), "\n")
	for i := range lines {
		lines[i] = p.file + ": " + lines[i]
	}
	return errors.New(strings.Join(lines, "\n"))
}

// stepFrom reads a step; what is wrong is noted.
func stepFrom(e scenario.Entry, dir string) (s stepFile) {
	f := e.Value.Section(stepFields...)
	s.Name = e.Name
	s.begin(f, dir)
	flag := func(name, value string) { s.flags = append(s.flags, "--"+name, value) }
	for _, name := range []string{"replications", "workers"} {
		if v := f.Field(name); v.Present() {
			flag(name, strconv.Itoa(v.Int(scenario.AtLeast(1))))
		}
	}
	if v := f.Field("seed"); v.Present() {
		flag("seed", strconv.Itoa(v.Int(scenario.AtLeast(0))))
	}
	if v := f.Field("horizon"); v.Present() {
		flag("horizon", strconv.FormatFloat(v.Float(scenario.MoreThan(0)), 'g', -1, 64))
	}
	if v := f.Field("warmup"); v.IsText() {
		flag("warmup", v.Word("auto"))
	} else if v.Present() {
		flag("warmup", strconv.FormatFloat(v.Float(scenario.AtLeast(0)), 'g', -1, 64))
	}
	if f.Field("records").BoolOr(false) {
		s.flags = append(s.flags, "--records")
	}
	if f.Field(endsFlag).BoolOr(false) {
		s.flags = append(s.flags, "--"+submission.Ends)
	}
	s.After, s.set, s.Sweep = texts(f.Field("after")), texts(f.Field("set")), texts(f.Field("sweep"))
	s.Require, s.Args = texts(f.Field("require")), append(s.Args, s.set...)
	s.Until, s.Figures = texts(f.Field("until")), texts(f.Field("figure"))
	if v := f.Field("export"); v.Present() {
		s.Export = map[string]string{}
		for _, e := range v.Entries() {
			if text := e.Value.Text(); e.Value.IsText() { // else one problem is enough
				s.Export[e.Name] = text
			}
		}
	}
	if v := f.Field("priority"); v.Present() {
		s.Priority = fleet.Priority(v.Word(string(fleet.High), string(fleet.Normal), string(fleet.Low)))
	}
	for _, all := range []struct {
		name  string
		texts []string
	}{{"sweep", s.Sweep}, {"require", s.Require}, {"until", s.Until}, {"figure", s.Figures}, {"export", s.exported()}} {
		for _, text := range all.texts {
			flag(all.name, text)
		}
	}
	return s
}

// exported are the names in the results that what a step exports is made of.
func (s *stepFile) exported() (all []string) {
	keys := fleet.SweepKeys(s.Sweep)
	for _, name := range slices.Sorted(maps.Keys(s.Export)) {
		e := fleet.ParseExport(s.Export[name])
		all = append(all, e.Figures(keys)...)
	}
	return all
}

// begin reads what a step's runs begin with: a file, or the checkpoint of another step.
func (s *stepFile) begin(f scenario.Section, dir string) {
	s.From = f.Field("from").TextOr("")
	if s.From != "" {
		for _, name := range []string{"file", "seed", "horizon", "warmup", "records", endsFlag} {
			if v := f.Field(name); v.Present() {
				v.Refuse("it with from", "no "+name+": it is that of the run that it goes on from", "")
			}
		}
	} else if s.file = f.Field("file").Text(); !filepath.IsAbs(s.file) {
		if s.file = filepath.Join(dir, s.file); s.file == fleet.FromInput {
			s.file = "./" + s.file // a path, which a pipeline has alone
		}
	}
	if v := f.Field("checkpoint"); v.Present() {
		s.checkpoint = v.Float(scenario.MoreThan(0))
		flag, value := fleet.HandsOn(s.checkpoint)
		s.Args = append(s.Args, flag, value)
	}
}

// texts are those of a list, or one that stands there alone.
func texts(v scenario.Value) (all []string) {
	switch {
	case !v.Present():
	case v.IsList():
		for _, item := range v.List() {
			all = append(all, item.Text())
		}
	default:
		all = append(all, v.Text())
	}
	return all
}

// submitted has the program with the models check each step's scenario, and gives the steps.
func (p *pipeline) submitted(c *app.Call) (steps []fleet.SubmittedStep, err error) {
	for _, f := range scenarioFlags() {
		if name := f.Names()[0]; c.IsSet(name) {
			return nil, app.Usage("--%s: found it with a file of steps, want %s: in the steps there", name, name)
		}
	}
	var errs []error
	for i := range p.steps {
		s := &p.steps[i]
		checked, err := checkScenario(c, p.flagsOf(s), scenarioFile{name: p.begins(s).file})
		if err != nil && !app.IsUsage(err) {
			return nil, err
		}
		if err == nil {
			err = s.take(checked)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: step %s: %w", p.file, s.Name, err))
			continue
		}
		steps = append(steps, submittedStep(s.Step, checked))
	}
	if len(errs) == 0 { // their points are known now
		var all []fleet.Step
		for i := range steps {
			all = append(all, steps[i].Step)
		}
		errs = append(errs, p.checkSteps(all))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, app.Usage("%v", err)
	}
	return steps, nil
}

// begins is the step with the run that a step goes on from, or the step itself.
func (p *pipeline) begins(s *stepFile) *stepFile {
	if at := slices.IndexFunc(p.steps, func(b stepFile) bool { return b.Name == s.From }); s.From != "" && at >= 0 {
		return &p.steps[at]
	}
	return s
}

// flagsOf are the flags of submission for a step. One that goes on from another has the settings of that, too.
func (p *pipeline) flagsOf(s *stepFile) []string {
	flags, set := slices.Clone(s.flags), s.set
	if from := p.begins(s); from != s {
		set = slices.Concat(from.set, s.set)
		for i := 0; i+1 < len(from.flags); i++ {
			if slices.Contains([]string{"--seed", "--horizon", "--warmup"}, from.flags[i]) {
				flags = append(flags, from.flags[i:i+2]...)
			}
		}
	}
	filled, _ := fleet.Fill(set, func(m fleet.Import) (string, error) { return p.standIn(m), nil }) // no error
	for _, text := range filled {
		flags = append(flags, "--set", text)
	}
	return flags
}

// take takes over what the program says of a step's scenario, with imports as the file has them.
func (s *stepFile) take(checked *submission.Submission) error {
	if s.From != "" { // all else is the run's that it goes on from
		s.Args = nil
		for _, text := range s.set {
			s.Args = append(s.Args, "--set", text)
		}
		return nil
	}
	s.Args = slices.Clone(checked.Args)
	next := 0
	for i, text := range s.Args {
		if i == 0 || s.Args[i-1] != "--set" || next == len(s.set) {
			continue
		}
		key, _, _ := strings.Cut(text, "=")
		_, value, _ := strings.Cut(s.set[next], "=")
		if len(fleet.Imports(s.set[next])) > 0 {
			s.Args[i] = key + "=" + value
		}
		next++
	}
	if s.checkpoint >= checked.Horizon && s.checkpoint > 0 {
		return app.Usage("checkpoint: found %v s, want less than the horizon, %v s", s.checkpoint, checked.Horizon)
	}
	if s.checkpoint > 0 && slices.Contains(s.Args, submission.EndsOnly) {
		return app.Usage("checkpoint: found %v s of a model that can't be saved, want one that can be", s.checkpoint)
	}
	if s.checkpoint > 0 {
		flag, value := fleet.HandsOn(s.checkpoint)
		s.Args = append(s.Args, flag, value)
	}
	if left := fleet.Imports(s.set...); !slices.Equal(left, fleet.Imports(s.Args...)) {
		return app.Usage("set: found imports where none can be, in %q", s.set)
	}
	return nil
}

// submittedStep is a step with its scenario.
func submittedStep(step fleet.Step, checked *submission.Submission) fleet.SubmittedStep {
	step.File, step.Sweep, step.Points = checked.File, checked.Sweep, checked.Points
	step.Replications, step.Workers = checked.Replications, checked.Workers
	step.Until, step.Figures = checked.Until, checked.Figures
	all := fleet.SubmittedStep{Step: step, Scenario: checked.Text}
	for i, file := range checked.Files {
		all.Attached = append(all.Attached, fleet.File{Name: file, Data: checked.Attached[i]})
	}
	return all
}
