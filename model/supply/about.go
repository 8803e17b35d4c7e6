// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"maps"

	"github.com/disco-sim/disco/sim/dist"
)

// about says what the fields of a file are for (scenario.Kind.About).
var about = map[string]string{
	"horizon":               "length of the run, seconds",
	"period":                "seconds over which orders and demand are added up; also between reviews",
	"products":              "what is stocked",
	"products[].id":         "name of the product, or of a group",
	"count":                 "makes it a group of so many",
	"locations":             "places with stocks, and sources",
	"locations[].id":        "name of the location, or of a group",
	"source":                "always has every product, and has no stock",
	"calendar":              "id of a calendar: closed outside of its windows",
	"calendars":             "when locations order and lines work",
	"calendars[].id":        "name of the calendar",
	"cycle":                 "seconds after which it repeats itself",
	"open":                  "windows of the cycle, rising",
	"open[].from":           "begin of the window, seconds",
	"until":                 "end of the window, seconds",
	"links":                 "who supplies whom",
	"links[].from":          "suppliers: ids of locations or groups",
	"links[].to":            "customers: ids of locations or groups",
	"links[].products":      "those that go over the link; left out: all",
	"lead_time":             "seconds from the supplier to the customer, a distribution",
	"order_delay":           "seconds until an order reaches the supplier",
	"production":            "what is made where",
	"at":                    "ids of locations or groups",
	"production[].products": "what the line makes; left out: all that is stocked there",
	"time":                  "seconds to make a lot, a distribution",
	"queue":                 "units ordered and not finished at most; left out: any number",
	"failure":               "seconds from a repair to the next breakdown, a distribution",
	"repair":                "seconds to repair, a distribution",
	"stock":                 "stocks and how they are kept",
	"stock[].products":      "each of these at each location; left out: all",
	"policy":                "when and how much is ordered",
	"up_to":                 "position up to which is ordered, units",
	"reorder_point":         "position at which is ordered, units",
	"quantity":              "units of an order",
	"every":                 "seconds between reviews",
	"forecast":              "position from a moving average of demand, in the place of up_to",
	"periods":               "reviews that the average is of",
	"cover":                 "what the average is multiplied by",
	"safety":                "units that are added",
	"lot":                   "orders are multiples of it",
	"initial":               "units on hand at the start",
	"unmet":                 "what becomes of demand that is not met at once",
	"costs":                 "in any unit of money",
	"holding":               "of a unit on hand and second",
	"backlog":               "of a unit owed and second",
	"lost":                  "of a unit of lost demand",
	"order":                 "of each order",
	"unit":                  "of each unit ordered",
	"price":                 "for each unit handed over",
	"salvage":               "for each unit thrown away",
	"demand":                "customers from outside",
	"demand[].products":     "what they ask for; left out: all that is stocked there",
	"start":                 "seconds at which the first gap begins",
	"gap":                   "seconds between two demands, a distribution",
	"size":                  "units of a demand, a distribution",
	"demand_file":           "path of a table of demands in CSV",
}

// supplyAbout is that, with the fields of distributions.
func supplyAbout() map[string]string {
	all := maps.Clone(about)
	maps.Copy(all, dist.About())
	return all
}
