// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// resumeEnds is about how many legs ResumeEverywhere makes of a run.
const resumeEnds = 30

// ResumeEverywhere holds that a scenario can be saved: every handler is a node.Saver, and has all of its state. It runs
// the scenario in some 30 legs that end at random epochs, at those of events, and right behind these. At each end the
// engines save what one engine saves that has run up to there, and others, one to four with the nodes spread anew, load
// it and go on, some of them with nodes that leave memory (node.Resident). At every other end these report what they
// have so far, before they save. All of it has to end with the calls, hashes and reports of a run that nobody has
// stopped, and reports so far are to be those of engines that end there.
func ResumeEverywhere(t testing.TB, s scenario.Scenario, seed uint64) {
	t.Helper()
	if err := resumeEverywhere(s, seed); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
}

// CheckState is why a scenario can't be saved, nil where it can: a handler is no node.Saver, or says that it can't be
// saved in this scenario.
func CheckState(s scenario.Scenario) error {
	c, err := begin(s, &Config{}, nil)
	if err != nil {
		return err
	}
	return c.engines[0].CheckState()
}

func resumeEverywhere(s scenario.Scenario, seed uint64) error {
	want, err := Run(s, Config{Seed: seed})
	if err != nil {
		return err
	}
	rnd := rand.New(rand.NewPCG(seed, 1))
	one, err := begin(s, &Config{Seed: seed}, nil)
	if err != nil {
		return err
	}
	if err := one.engines[0].CheckState(); err != nil {
		return err
	}
	var now *saved
	var before Outcome // of engines that are gone
	for legs := 0; ; legs++ {
		cfg := Config{Seed: seed, Workers: 1 + rnd.IntN(4), Steps: 1 + rnd.IntN(64)}
		cfg.Placement = make([]int32, s.Graph().Len())
		for n := range cfg.Placement {
			cfg.Placement[n] = int32(rnd.IntN(cfg.Workers))
		}
		end := one.nextEnd(rnd, s, now)
		if half := s.Horizon() / 2; legs == 0 && end >= s.Horizon() && half > 0 {
			end = half // hardly anything happens in the run, and it has a state all the same
		}
		if one.few(now, end) {
			cfg.Resident = []int64{0, 1, 1 + rnd.Int64N(1<<14)}[rnd.IntN(3)] // hardly anything; some of the nodes
		}
		many, err := load(s, &cfg, now)
		if err != nil {
			return fmt.Errorf("loaded %d times: %w", legs, err)
		}
		if end >= s.Horizon() {
			return many.finish(s, cfg, want, before, legs)
		}
		now, err = one.leg(s, 64, end)
		if err == nil {
			var soFar *soFar
			if legs%2 == 0 {
				soFar = newSoFar(s)
			}
			var other *saved
			if other, err = many.leg(s, cfg.Steps, end, soFar); err == nil {
				err = cmp.Or(now.differs(s, other), soFar.differs(s, seed, now))
			}
		}
		if err != nil {
			return fmt.Errorf("loaded %d times, then run until %v: %w", legs, end, err)
		}
		for _, e := range many.engines {
			before.Events, before.Activations = before.Events+e.Stats().Events, before.Activations+e.Stats().Activations
		}
	}
}

// load makes engines that begin with what was saved, and save the same; nil: with nothing.
func load(s scenario.Scenario, cfg *Config, from *saved) (*engines, error) {
	if from == nil {
		return begin(s, cfg, nil)
	}
	c, err := begin(s, cfg, from.resume())
	if err != nil {
		return nil, err
	}
	again, err := c.leg(s, cfg.Steps, from.end)
	if err != nil {
		return nil, err
	}
	return c, from.differs(s, again)
}

// fewCalls is how many calls a leg has, at most, in which nodes leave memory and come back: each takes as long as
// saving and loading a node.
const fewCalls = 2000

// few tells whether a leg is expected to have few calls. last is where it begins.
func (c *engines) few(last *saved, end float64) bool {
	if last == nil {
		return end < 1e-300 // the first calls
	}
	return float64(c.engines[0].Stats().Activations)*(min(end, c.horizon)-last.end)/last.end < fewCalls
}

// nextEnd chooses the end of the leg behind what was saved last.
func (c *engines) nextEnd(rnd *rand.Rand, s scenario.Scenario, last *saved) float64 {
	at := 0.0
	if last != nil {
		at = last.end
	}
	e := c.engines[0]
	e.SetUntil(math.Inf(1))
	end := e.Next().Epoch // infinite: nothing comes any more
	switch rnd.IntN(3) {
	case 0:
		end = math.Nextafter(end, math.Inf(1)) // this epoch alone
	case 1:
		end = at + rnd.Float64()*6*s.Horizon()/resumeEnds
	}
	return max(end, math.Nextafter(at, math.Inf(1)))
}

// finish runs to the horizon. before is what engines that are gone have done.
func (c *engines) finish(s scenario.Scenario, cfg Config, want *Outcome, before Outcome, legs int) error {
	if legs == 0 {
		return errors.New("nothing was saved: the run is too short")
	}
	for _, e := range c.engines {
		e.SetUntil(math.Inf(1))
	}
	if err := c.run(cfg.Steps); err != nil {
		return err
	}
	got, err := c.outcome(s, cfg)
	if err != nil {
		return err
	}
	got.Events, got.Activations = got.Events+before.Events, got.Activations+before.Activations
	if err := want.differs(s, got); err != nil {
		return fmt.Errorf("saved and loaded %d times: %w", legs, err)
	}
	return nil
}

// saved is what engines have saved at the end of a leg, by node.
type saved struct {
	end     float64
	nodes   [][]byte
	pending [][][]byte // parts, by node
}

// leg runs up to an end, reports what there is so far where that is wanted, and saves.
func (c *engines) leg(s scenario.Scenario, steps int, end float64, report ...*soFar) (*saved, error) {
	for _, e := range c.engines {
		e.SetUntil(end)
	}
	if err := c.run(steps); err != nil {
		return nil, err
	}
	for _, r := range report {
		if err := r.take(c, end); err != nil {
			return nil, err
		}
	}
	nodes := s.Graph().Len()
	all := &saved{end: end, nodes: make([][]byte, nodes), pending: make([][][]byte, nodes)}
	for n, w := range c.placement {
		var err error
		if all.nodes[n], err = c.engines[w].AppendNode(nil, n); err != nil {
			return nil, err
		}
	}
	for _, e := range c.engines {
		err := e.EachPending(func(n int, encoded []byte) error {
			all.pending[n] = append(all.pending[n], bytes.Clone(encoded))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// resume is how engines begin with it.
func (a *saved) resume() *node.Resume {
	return &node.Resume{Epoch: a.end, Each: func(node, pending func(n int, encoded []byte) error) error {
		for n := range a.nodes {
			if err := node(n, a.nodes[n]); err != nil {
				return err
			}
			for _, part := range a.pending[n] {
				if err := pending(n, part); err != nil {
					return err
				}
			}
		}
		return nil
	}}
}

// differs names the first node with another state, and the first byte of it.
func (a *saved) differs(s scenario.Scenario, b *saved) error {
	layers := s.Graph().NumSimprocs() / max(len(a.nodes), 1)
	for n := range a.nodes {
		what := "state"
		pending := [2][]byte{bytes.Join(a.pending[n], nil), bytes.Join(b.pending[n], nil)}
		for i, of := range [][2][]byte{{a.nodes[n], b.nodes[n]}, pending} {
			if i == 1 {
				what = "what is pending"
			}
			if bytes.Equal(of[0], of[1]) {
				continue
			}
			at := 0
			for at < min(len(of[0]), len(of[1])) && of[0][at] == of[1][at] {
				at++
			}
			return fmt.Errorf("%s of the node of %s differs at byte %d from what one engine saves: %x, want %x", what,
				s.Graph().Name(node.SimprocID(n*layers)), at, of[1][at:min(at+16, len(of[1]))],
				of[0][at:min(at+16, len(of[0]))])
		}
	}
	return nil
}
