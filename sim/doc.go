// SPDX-License-Identifier: Apache-2.0

// Package sim is the front door for people who write models: parameters as a struct, a function that builds the
// nodes, typed events, processes, timers, resources and statistics, and all commands of disco-run for it.
//
// Guarantee: a model whose nodes use nothing but what their setup function made, what they are given and their own
// random streams gives the same results for one file and seed, over however many workers it is spread; all work of
// a node at one epoch is done in one order; what a model does wrong ends the run with the node, the time and the
// line of the model. The event path doesn't allocate for events of fixed size.
//
//	type Params struct {
//		Gap     dist.Dist `yaml:"gap" unit:"s"`
//		Service dist.Dist `yaml:"service" unit:"s"`
//	}
//
//	func main() { sim.Main("till", build) }
//
//	func build(b *sim.Builder, p Params) {
//		b.Node("till", func(n *sim.Node) {
//			served := n.Counter("served")
//			n.Each(p.Gap, func(customer *sim.Process) {
//				customer.HoldFor(p.Service)
//				served.Inc()
//			})
//		})
//	}
//
// docs/sim.md has the order of things, the file, and the tags of parameters.
package sim
