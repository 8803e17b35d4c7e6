// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"slices"

	"github.com/disco-sim/disco/scenario"
)

// varies is Kind.Varies. It allows what is about packets that come later, and what follows from the time. Packets that
// are being sent, or wait, keep the times that they were given when they came.
var varies = scenario.VaryLoaded(scenario.Vary("links.rate_bps", "links.buffer_packets", "links.buffer_bytes",
	"routing.reconverge_s", "traffic.packets_per_second", "traffic.bits_per_second", "traffic.packet_bytes",
	"traffic.flows[].packets_per_second", "traffic.flows[].bits_per_second", "events[].added_s",
	"events[].probability"), Load, checkVaried)

// checkVaried refuses what only the whole scenario shows. Flows stay, and those whose packets are regular keep their
// rates.
func checkVaried(r *scenario.Reader, was, is *Spec) {
	traffic := r.Root(fields...).Field("traffic")
	const todo = "a state can't go on with it: begin a new run"
	ends := func(a, b Flow) bool { return a.From == b.From && a.To == b.To }
	switch {
	case !slices.EqualFunc(was.Flows, is.Flows, ends):
		traffic.Refuse(fmt.Sprintf("%d flows, or others", len(is.Flows)),
			fmt.Sprintf("the %d of the run that was saved", len(was.Flows)), todo)
	case is.Arrivals == Constant && !slices.Equal(was.Flows, is.Flows):
		traffic.Refuse("other rates of flows whose packets come at equal intervals", "those of the run that was saved",
			todo)
	}
}
