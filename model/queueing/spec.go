// SPDX-License-Identifier: Apache-2.0

package queueing

// Spec is a queueing network as its file describes it.
type Spec struct {
	Name     string
	Horizon  float64 // simulated seconds
	Warmup   float64 // what happens before is not counted; < Horizon
	Settles  bool    // warmup: auto, which counts all
	Transit  float64 // a customer's way from any station to the next, seconds
	Stations []Station
	Series   bool // time series are kept; scenario.Options say it, not the file
}

// Station is one waiting line with servers.
type Station struct {
	ID       string
	Servers  int
	Service  Dist
	Buffer   int     // places to wait; Unlimited
	Arrivals *Dist   // times between arrivals from outside; nil: none
	Initial  int     // customers who are there at the start
	To       []Route // where customers go; what is left of 1 leaves
	Stay     bool    // the probabilities of To add up to 1: no customer leaves from here
}

// Unlimited is the Buffer of a station at which everybody can wait.
const Unlimited = -1

// Route is one way on from a station.
type Route struct {
	Station     int // index in Spec.Stations
	Probability float64
}
