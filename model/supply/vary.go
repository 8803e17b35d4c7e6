// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"fmt"

	"github.com/disco-sim/disco/scenario"
)

// vary allows what is about orders, deliveries and demand that come later. What is under way or being made stays.
var vary = scenario.Vary("stock[].up_to", "stock[].reorder_point", "stock[].quantity", "stock[].forecast.cover",
	"stock[].forecast.safety", "stock[].costs", "links[].lead_time", "production[].time", "production[].queue",
	"demand[].gap", "demand[].size")

// varies is Kind.Varies. Links keep their lookahead: the least lead time, and the least time to make a lot.
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
	root := r.Root(rootFields...)
	for i := range is.Locations {
		a, b := &was.Locations[i], &is.Locations[i]
		for k := range b.Customers {
			if x, y := a.Customers[k].Lead.Min(), b.Customers[k].Lead.Min(); x != y {
				refuseLeast(root.Field("links"), fmt.Sprintf("a least lead time of %v s from %s to %s", y, b.ID,
					is.Locations[b.Customers[k].Location].ID), x)
				return r.Err()
			}
		}
		for k := range b.Lines {
			if x, y := a.Lines[k].Time.Min(), b.Lines[k].Time.Min(); x != y {
				refuseLeast(root.Field("production"), fmt.Sprintf("a least time of %v s for a lot at %s", y, b.ID), x)
				return r.Err()
			}
		}
	}
	return r.Err()
}

func refuseLeast(v scenario.Value, found string, want float64) {
	v.Refuse(found, fmt.Sprintf("%v s, as in the run that was saved, since it is a lookahead", want),
		"a state can't go on with it: begin a new run")
}
