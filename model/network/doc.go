// SPDX-License-Identifier: Apache-2.0

// Package network is the scenario kind "network": packets on a real network, read from
// a GML file. Cities are nodes, and links have the delay of light in fibre over the
// great-circle distance, a rate and a finite buffer; traffic is a matrix of flows;
// links and nodes fail and come back, get slower or lose packets.
//
// Guarantee: a packet is never lost without being counted: sent = delivered + lost + in
// flight, exactly, over the whole network, for every flow and on every link. Without
// other traffic a packet takes the shortest path's time to the last bit. What happens
// depends on the files and the seed alone, however nodes are spread over workers.
//
//	doc, err := scenario.ReadFile("examples/backbone.yml")
//	doc = network.Kind().Attach(doc, nil) // reads examples/backbone.gml
//	s, err := network.Kind().Load(doc, scenario.Options{})
//	// s is a scenario.Scenario: launch runs it
//
// docs/scenario-network.md is for people who write files, docs/model-network.md describes
// how the model works and why.
package network
