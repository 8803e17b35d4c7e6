// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// stubKind loads every file as a stub with a fixed horizon.
func stubKind(name string, horizon float64) scenario.Kind {
	return scenario.Kind{Name: name, Load: func(doc *scenario.Document, opt scenario.Options) (scenario.Scenario,
		error) {
		r := scenario.NewReader(doc)
		r.Root("x").Field("x").IntOr(0, scenario.AnyNumber())
		if err := r.Err(); err != nil {
			return nil, err
		}
		if opt.Horizon > 0 {
			horizon = opt.Horizon
		}
		return stub{name, horizon}, nil
	}}
}

type stub struct {
	name    string
	horizon float64
}

func (s stub) Graph() *node.Graph                               { return nil }
func (s stub) NewHandler(p *node.Simproc) (node.Handler, error) { return nil, nil }
func (s stub) Name() string                                     { return s.name }
func (s stub) Horizon() float64                                 { return s.horizon }
func (s stub) Accumulate() scenario.Accumulator                 { return nil }

func parse(t *testing.T, text string) *scenario.Document {
	t.Helper()
	doc, err := scenario.Parse("t.yml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestRegistry(t *testing.T) {
	reg, err := scenario.NewRegistry(stubKind("service", 10), stubKind("phold", 20))
	if err != nil {
		t.Fatal(err)
	}
	if kinds := reg.Kinds(); len(kinds) != 2 || kinds[0].Name != "service" || kinds[1].Name != "phold" {
		t.Errorf("kinds: %v", kinds)
	}
	for text, want := range map[string]string{
		"x: 1":                         "service",
		"model: service":               "service",
		"model: phold\nx: 1":           "phold",
		"a: &a phold\nmodel: *a":       "",
		"model: fold":                  "",
		"model: 1":                     "",
		"model:":                       "",
		"[model, phold]":               "",
		"model: phold\nx: a\nmodel: x": "",
	} {
		s, err := reg.Load(parse(t, text), scenario.Options{})
		var problems scenario.Problems
		switch {
		case want == "" && !errors.As(err, &problems):
			t.Errorf("%q: got %v, %v, want problems", text, s, err)
		case want != "" && (err != nil || s.Name() != want):
			t.Errorf("%q: got %v, %v, want %s", text, s, err, want)
		}
	}
	_, err = reg.Load(parse(t, "x: 1\nmodel: fold"), scenario.Options{})
	want := `t.yml:2:8: model: found "fold", a model that this program does not know, ` +
		`want one of service, phold; did you mean phold?`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%v", err, want)
	}
}

func TestRegistryHorizon(t *testing.T) {
	reg, _ := scenario.NewRegistry(stubKind("service", 10))
	for _, h := range []float64{0, 1e-9, 5, math.MaxFloat64} {
		if _, err := reg.Load(parse(t, "{}"), scenario.Options{Horizon: h}); err != nil {
			t.Errorf("horizon %v: %v", h, err)
		}
	}
	for _, h := range []float64{-1, math.Inf(1), math.Inf(-1), math.NaN()} {
		if _, err := reg.Load(parse(t, "{}"), scenario.Options{Horizon: h}); err == nil {
			t.Errorf("horizon %v was accepted", h)
		}
	}
}

func TestRegistryRefuses(t *testing.T) {
	for name, kinds := range map[string][]scenario.Kind{
		"none":    nil,
		"zero":    {{}},
		"no load": {{Name: "a"}},
		"empty":   {stubKind("", 1)},
		"twice":   {stubKind("a", 1), stubKind("a", 2)},
	} {
		if _, err := scenario.NewRegistry(kinds...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := (scenario.Registry{}).Load(parse(t, "{}"), scenario.Options{}); err == nil {
		t.Error("the zero registry loaded a file")
	}
	bad, _ := scenario.NewRegistry(stubKind("bad", math.Inf(1)))
	defer func() {
		if recover() == nil {
			t.Error("a kind whose scenario has no horizon did not panic")
		}
	}()
	bad.Load(parse(t, "{}"), scenario.Options{})
}

// packer is a scenario that is packed as its name.
type packer struct{ stub }

func (p packer) Pack(buf []byte) ([]byte, error) { return append(buf, p.Name()...), nil }

// Only what a kind can unpack is packed, and only for the kind that packed it.
func TestRegistryUnpacks(t *testing.T) {
	plain, packs := stubKind("plain", 1), stubKind("packs", 2)
	packs.Unpack = func(b []byte) (scenario.Scenario, error) {
		if string(b) != "packs" {
			return nil, fmt.Errorf("found %q", b)
		}
		return stub{"packs", 2}, nil
	}
	reg, err := scenario.NewRegistry(plain, packs)
	if err != nil {
		t.Fatal(err)
	}
	s, err := reg.Load(parse(t, "model: packs"), scenario.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"model: packs": "packs", "model: plain": "", "{}": "", "model: x": ""} {
		if kind := reg.Unpacks(parse(t, text), packer{s.(stub)}); kind != want {
			t.Errorf("%s: %q, want %q", text, kind, want)
		}
	}
	if kind := reg.Unpacks(parse(t, "model: packs"), s); kind != "" {
		t.Errorf("a scenario without Pack is packed as %q", kind)
	}
	if s, err := reg.Unpack("packs", []byte("packs")); err != nil || s.Horizon() != 2 {
		t.Errorf("%v, %v", s, err)
	}
	for kind, b := range map[string]string{"packs": "other", "plain": "plain", "other": "packs"} {
		if s, err := reg.Unpack(kind, []byte(b)); err == nil {
			t.Errorf("%s of %s: %v", b, kind, s)
		}
	}
}
