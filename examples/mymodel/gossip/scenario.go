// SPDX-License-Identifier: Apache-2.0

// Package gossip is a model of how a rumour spreads: an example of a model of one's
// own. scenario.go reads its files, model.go is what happens, results.go what came of
// it.
//
// Guarantee: like every model whose handlers use nothing but their own state, what they
// are given, and random streams of their own, it gives the same results for one file
// and seed, over however many workers it is spread.
package gossip

import (
	"github.com/disco-sim/disco/scenario"
)

// Kind is what the program's main registers: it makes a Model of every file that says
// `model: gossip`.
func Kind() scenario.Kind { return scenario.Kind{Name: "gossip", Load: load} }

// load reads a file. There is no error check between the reads: the reader collects
// everything that is wrong with the file, so that a person learns it at once.
func load(doc *scenario.Document, opt scenario.Options) (scenario.Scenario, error) {
	r := scenario.NewReader(doc)
	root := r.Root("people", "talks_per_hour", "mail_share", "mail_delay_s", "hours")
	m := &Model{
		people:    root.Field("people").Int(scenario.Between(2, 1_000_000)),
		talks:     root.Field("talks_per_hour").Float(scenario.MoreThan(0).AtMost(1000)) / 3600,
		mailShare: root.Field("mail_share").FloatOr(0, scenario.Between(0, 1)),
		mailDelay: root.Field("mail_delay_s").FloatOr(600, scenario.MoreThan(0)),
		horizon:   root.Field("hours").Float(scenario.MoreThan(0)) * 3600,
	}
	if opt.Horizon > 0 { // --horizon
		m.horizon = opt.Horizon
	}
	return m, r.Err()
}
