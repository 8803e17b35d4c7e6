// SPDX-License-Identifier: Apache-2.0

// Package phold is PHOLD, the benchmark of parallel simulators (Fujimoto, Performance
// of Time Warp under synthetic workloads, 1990): logical processes that do nothing but
// pass events on. Every event makes one event, for its own process or, with a given
// probability, for any. It is written against the model interface of package node like
// any other model and has no way of its own into the engine.
//
// Guarantee: the number of events never changes on the way, and what a process draws
// depends only on itself, so any spread gives the same counts. With rng: clcg4, ROSS's
// own generator and start, the counts are those of ROSS, to the last event.
//
//	p := phold.Defaults()
//	p.Remote, p.RNG = 0.5, phold.CLCG4
//	doc, err := scenario.Parse("phold", p.YAML())
//	s, err := registry.Load(doc, scenario.Options{}) // registry has phold.Kind()
//
// docs/model-phold.md is the page for people who write files.
package phold
