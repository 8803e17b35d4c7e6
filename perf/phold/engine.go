// SPDX-License-Identifier: Apache-2.0

package phold

import (
	"math"

	"github.com/disco-sim/disco/model/phold"
	"github.com/disco-sim/disco/node"
)

// NewEngine makes an Engine that runs PHOLD (model/phold) on one worker, past its first epoch.
func NewEngine(cfg Config) (*node.Engine, error) {
	m := phold.New(phold.Params{
		LPs: cfg.LPs, Events: cfg.Start, Remote: cfg.Remote, Lookahead: cfg.Lookahead,
		End: math.MaxFloat64, RNG: phold.Default, Payload: cfg.Payload,
	})
	plan, err := node.NewPlan(m.Graph(), make([]int32, cfg.LPs), 0, 1)
	if err != nil {
		return nil, err
	}
	e, err := node.NewEngine(plan, node.Config{Model: m, Seed: 1, Horizon: math.MaxFloat64})
	if err != nil {
		return nil, err
	}
	_, err = e.Run(cfg.LPs, math.Inf(1))
	return e, err
}
