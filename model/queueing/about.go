// SPDX-License-Identifier: Apache-2.0

package queueing

// about says what the fields of a file are for (scenario.Kind.About).
var about = map[string]string{
	"horizon":       "simulated seconds at which the run ends",
	"transit":       "seconds that a customer is on the way from any station to the next",
	"stations":      "waiting lines with servers",
	"stations[].id": "name of the station",
	"servers":       "customers who are served at a time",
	"service":       "how long a customer is served, seconds",
	"buffer":        "places to wait; null or left out: any number",
	"arrivals":      "customers from outside: a rate per second, or the distribution of the seconds between",
	"initial":       "customers who are there at the start",
	"to":            "where customers go: the probability of each next station; the rest leaves",
	"to.*":          "probability of this station",
	"distribution":  "kind of distribution",
	"mean":          "mean, seconds",
	"cv":            "standard deviation divided by the mean",
	"shape":         "exponential times that are added up",
	"min":           "least value, seconds",
	"max":           "largest value, seconds",
}
