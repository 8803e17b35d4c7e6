// SPDX-License-Identifier: Apache-2.0

package launchtest

import (
	"math/rand/v2"

	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/shard"
)

// Moving is the kind of scenario with a strategy that moves any shards anywhere, where nodes may move.
func Moving() scenario.Kind {
	kind := Kind()
	load := kind.Load
	kind.Load = func(doc *scenario.Document, opt scenario.Options) (scenario.Scenario, error) {
		s, err := load(doc, opt)
		if err != nil {
			return nil, err
		}
		return &restless{s.(*Tiny)}, nil
	}
	return kind
}

// AtStep, when not nil, is called in the launcher of such a scenario at each step of moving nodes, a launch.Step…; by
// several goroutines.
var AtStep func(step string)

// restless is a scenario whose nodes are never left where they are.
type restless struct{ *Tiny }

// ShardStrategy implements shard.Chooser.
func (*restless) ShardStrategy() shard.Strategy { return anywhere{} }

type anywhere struct{}

// Moves implements shard.Strategy.
func (anywhere) Moves(s *shard.State) (moves []shard.Move) {
	for i, w := range s.Owner {
		to := rand.IntN(s.Workers)
		if s.Fixed[i] || s.Stays(i) && s.Far(w, to) || rand.IntN(2) == 0 {
			continue
		}
		moves = append(moves, shard.Move{Shard: i, To: to})
	}
	return moves
}

// AtStep is what package launch looks for in a strategy.
func (anywhere) AtStep(step string) {
	if AtStep != nil {
		AtStep(step)
	}
}
