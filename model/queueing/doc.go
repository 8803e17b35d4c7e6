// SPDX-License-Identifier: Apache-2.0

// Package queueing simulates networks of queues: stations with servers, a service time
// and perhaps a limited buffer; customers who arrive from outside, or were there from
// the start, and go from station to station by chance. What theory gives for a
// network stands beside what was observed: Jackson's and Gordon and Newell's product
// forms, Erlang's formulas, Pollaczek and Khinchine's.
//
// Guarantee: stations serve in the order of arrival, each customer's times follow from
// the draws alone, exactly as Kiefer and Wolfowitz's recursion has them, and every
// station draws from streams of its own: any spread over workers gives the same
// customers at the same times. A theory value is printed only where the theorem's
// conditions hold.
//
//	model: queueing
//	horizon: 100000
//	stations:
//	  - { id: cpu, arrivals: 0.5, service: { distribution: exponential, mean: 1 }, to: { disk: 0.4 } }
//	  - { id: disk, service: { distribution: exponential, mean: 2 }, to: { cpu: 1 } }
//
// docs/model-queueing.md is the page for people who write files.
package queueing
