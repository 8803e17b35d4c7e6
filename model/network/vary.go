// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"slices"

	"github.com/disco-sim/disco/scenario"
)

// vary allows what is about packets that come later, and what follows from the time. Packets that are being sent, or
// wait, keep the times that they were given when they came.
var vary = scenario.Vary("links.rate_bps", "links.buffer_packets", "links.buffer_bytes", "routing.reconverge_s",
	"traffic.packets_per_second", "traffic.bits_per_second", "traffic.packet_bytes",
	"traffic.flows[].packets_per_second", "traffic.flows[].bits_per_second", "events[].added_s", "events[].probability")

// varies is Kind.Varies. Flows stay, and those whose packets are regular keep their rates.
func varies(before, after *scenario.Document) error {
	if err := vary(before, after); err != nil {
		return err
	}
	was, err := Load(before, scenario.Options{})
	if err != nil {
		return err
	}
	is, err := Load(after, scenario.Options{})
	if err != nil {
		return err
	}
	r := scenario.NewReader(after)
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
	return r.Err()
}
