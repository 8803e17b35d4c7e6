// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"reflect"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/group/beside"
	"github.com/disco-sim/disco/scenario"
)

// Main is the whole of a program's main: it never returns. The program has all commands of disco-run, for scenarios
// of this model, whose file may say `model: name`; those around machines and groups are disco's own programs, in the
// folder of this one or in PATH. P is a struct of parameters; docs/sim.md has its tags.
func Main[P any](name string, build func(b *Builder, p P)) {
	app.MainWith(beside.Commands(), Kind(name, build))
}

// Kind is the model as a kind of scenario, for programs that have several. It panics where a tag of P is at fault.
func Kind[P any](name string, build func(b *Builder, p P)) scenario.Kind {
	plan, err := planParams(reflect.TypeFor[P]())
	if err != nil {
		panic(err)
	}
	return scenario.Kind{
		Name:       name,
		References: plan.references,
		Parameters: plan.parameters(),
		Varies:     scenario.Vary(plan.root.varying("")...),
		Fields:     func(format string) []byte { return plan.describe(name, format) },
		Load: func(doc *scenario.Document, opt scenario.Options) (scenario.Scenario, error) {
			var p P
			m := newModel(name)
			if err := m.read(doc, opt, plan, &p); err != nil {
				return nil, err
			}
			if err := m.build(func(b *Builder) { build(b, p) }); err != nil {
				return nil, err
			}
			return m, m.checkHorizon()
		},
	}
}

// New makes a model without a file, for tests and for programs that run it themselves. Its horizon is what
// Builder.Horizon was given.
func New(name string, build func(b *Builder)) (*Model, error) {
	m := newModel(name)
	if err := m.build(build); err != nil {
		return nil, err
	}
	return m, m.Check()
}

func newModel(name string) *Model {
	return &Model{name: name, layers: []string{"main"}, byName: map[string]*group{}, types: map[reflect.Type]any{},
		numbers: map[uint32]reflect.Type{},
		hosts:   map[*Node]struct{}{}}
}

// read reads a file: the fields that every model has, and the parameters.
func (m *Model) read(doc *scenario.Document, opt scenario.Options, plan *paramPlan, into any) error {
	r := scenario.NewReader(doc)
	root := r.Root(append(plan.fields(), "horizon", "warmup", "antithetic", "epoch_limit")...)
	m.horizon = root.Field("horizon").FloatOr(0, scenario.MoreThan(0))
	m.warmup, m.settles = scenario.Warmup(root, doc, scenario.Options{}, 0, 0)
	m.antithetic = root.Field("antithetic").BoolOr(false)
	m.epochLimit = root.Field("epoch_limit").IntOr(0, scenario.AtLeast(1))
	if opt.Horizon > 0 {
		m.horizon = opt.Horizon
	}
	m.series = opt.Series
	plan.read(r, root, into)
	return r.Err()
}

// build calls a build function.
func (m *Model) build(f func(b *Builder)) (err error) {
	defer rescue(&err)
	f(&Builder{m: m})
	m.epochLimit = cmp.Or(m.epochLimit, epochLimitDefault)
	return nil
}
