// SPDX-License-Identifier: Apache-2.0

// Package service is the model of services behind load balancers: users make requests,
// which travel over network edges with random latency through load balancers to
// servers with cores, memory and I/O, and back. Scenario files say what there is, which
// servers fail and when the network is slow.
//
// Guarantee: what a run gives depends only on the file, the seed and the replication,
// to the byte, however boxes are placed on workers. Every request is accounted for:
// generated = completed + dropped + in flight, or Add returns an error. In the
// checked build Little's law is asserted, in exact arithmetic, for every place of every
// box, for every edge and for the system. Handling an event allocates nothing once
// queues have grown.
//
// A program that runs scenarios registers the kind; the rest is scenario's interface:
//
//	reg, err := scenario.NewRegistry(service.Kind())
//	doc, err := scenario.ReadFile("shop.yml")
//	s, err := reg.Load(doc, scenario.Options{})   // scenario.Problems: all that is wrong
//	…                                             // run it (app, launch, or node.NewEngine)
//	sum := s.Accumulate()
//	err = sum.Add(replication)                    // for each of them, in order
//	summary, err := sum.Summary()                 // *service.Results
//	err = summary.WriteText(os.Stdout)
//
// Load reads and checks a file (schema*.go, validate_*.go) into a Spec with its topology; New makes the
// Model, whose boxes are generator.go, client.go, balancer.go and server.go, with
// outbox.go as the sending end of edges; tally.go and summarize.go make Results from
// what the boxes report. docs/scenario-service.md is the page for people who write
// files, docs/model-service.md describes what the simulation does and how each figure is
// defined.
package service
