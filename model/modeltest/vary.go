// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// varyLegs is how many further legs Varies makes of a run at most, and varyRuns how often it runs each variant.
const (
	varyLegs = 4
	varyRuns = 3
)

// Varies holds what a kind's Varies promises. It runs the scenario of doc, which has what it refers to, to a random
// epoch in the middle, and goes on from what was saved there:
//
//   - under the same settings: with the calls, hashes and reports of a run that nobody has stopped;
//   - under each of the changes, KEY=VALUE as --set has them, which the kind must allow, and under all of them
//     together: with the same hashes and reports whatever number of engines there are, wherever the nodes are, and
//     wherever it is saved again and loaded. Something must be another one than without the change. So it is with a
//     replication that draws other numbers from there on.
func Varies(t testing.TB, kind scenario.Kind, doc *scenario.Document, seed uint64, changes ...string) {
	t.Helper()
	if err := varies(kind, doc, seed, changes); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
}

func varies(kind scenario.Kind, doc *scenario.Document, seed uint64, changes []string) error {
	rnd := rand.New(rand.NewPCG(seed, 2))
	base, err := kind.Load(doc, scenario.Options{})
	if err != nil {
		return err
	}
	want, err := Run(base, Config{Seed: seed})
	if err != nil {
		return err
	}
	one, err := begin(base, &Config{Seed: seed}, nil)
	if err != nil {
		return err
	}
	from, err := one.leg(base, 64, base.Horizon()*(0.3+0.4*rnd.Float64()))
	if err != nil {
		return err
	}
	done := Outcome{Events: one.engines[0].Stats().Events, Activations: one.engines[0].Stats().Activations}
	for range varyRuns {
		got, err := goOn(base, from, Config{Seed: seed}, rnd, varyLegs)
		if err == nil {
			got.Events, got.Activations = got.Events+done.Events, got.Activations+done.Activations
			err = want.differs(base, got)
		}
		if err != nil {
			return fmt.Errorf("under the same settings from %v on: %w", from.end, err)
		}
	}
	settings := make([]scenario.Setting, len(changes))
	for i, text := range changes {
		key, value, _ := scenario.SplitKey(text)
		settings[i] = scenario.Setting{Key: key, Value: value}
		if err := variant(kind, doc, settings[i:i+1], from, want, seed, rnd); err != nil {
			return fmt.Errorf("with %s from %v on: %w", text, from.end, err)
		}
	}
	if err := variant(kind, doc, settings, from, want, seed, rnd); err != nil {
		return fmt.Errorf("with all changes from %v on: %w", from.end, err)
	}
	return nil
}

// variant runs what was saved under other settings.
func variant(kind scenario.Kind, doc *scenario.Document, set []scenario.Setting, from *saved, base *Outcome,
	seed uint64, rnd *rand.Rand) error {
	after, err := doc.With(set)
	if err != nil {
		return err
	}
	after = after.Attach(doc.Attachments())
	if err := kind.Varies(doc, after); err != nil {
		return err
	}
	s, err := kind.Load(after, scenario.Options{})
	if err != nil {
		return err
	}
	for _, cfg := range []Config{{Seed: seed}, {Seed: seed, Replication: 3}} {
		want, err := goOn(s, from, cfg, rnd, 0)
		if err != nil {
			return fmt.Errorf("replication %d: %w", cfg.Replication, err)
		}
		if base.differs(s, want) == nil {
			return fmt.Errorf("replication %d: everything is as without it", cfg.Replication)
		}
		for range varyRuns {
			got, err := goOn(s, from, cfg, rnd, varyLegs)
			if err == nil {
				err = want.differs(s, got)
			}
			if err != nil {
				return fmt.Errorf("replication %d: %w", cfg.Replication, err)
			}
		}
	}
	return nil
}

// goOn runs a variant to its horizon: on one engine, or in so many further legs at most, with several, which load what
// those before have saved.
func goOn(s scenario.Scenario, from *saved, cfg Config, rnd *rand.Rand, legs int) (*Outcome, error) {
	var done Outcome
	varied := true
	cfg.variant = true
	for at := from; ; varied = false {
		cfg := cfg
		end := math.Inf(1)
		if legs > 0 {
			cfg.Workers, cfg.Steps = 1+rnd.IntN(4), 1+rnd.IntN(64)
			cfg.Placement = make([]int32, s.Graph().Len())
			for n := range cfg.Placement {
				cfg.Placement[n] = int32(rnd.IntN(cfg.Workers))
			}
			if end = at.end + (s.Horizon()-at.end)*rnd.Float64(); legs == 1 || !(end > at.end) {
				end = math.Inf(1)
			}
			legs--
		}
		r := at.resume()
		r.Varied, r.Fresh = varied, varied && cfg.Replication > 0
		c, err := begin(s, &cfg, r)
		if err != nil {
			return nil, err
		}
		if end == math.Inf(1) {
			if err := c.run(cfg.Steps); err != nil {
				return nil, err
			}
			o, err := c.outcome(s, cfg)
			if err == nil {
				o.Events, o.Activations = o.Events+done.Events, o.Activations+done.Activations
			}
			return o, err
		}
		if at, err = c.leg(s, cfg.Steps, end); err != nil {
			return nil, err
		}
		done.add(c.engines)
	}
}

// add counts what engines have done.
func (o *Outcome) add(engines []*node.Engine) {
	for _, e := range engines {
		o.Events, o.Activations = o.Events+e.Stats().Events, o.Activations+e.Stats().Activations
	}
}
