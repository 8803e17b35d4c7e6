// SPDX-License-Identifier: Apache-2.0

package queueing

import "math"

// How long a network remembers: the intervals of a run that is short against that time
// would be too narrow, and no test of the run's own batches finds it out, because what
// has not been seen in it has no spread.

const (
	// timesForgotten is how often a run must be able to forget, all replications
	// together, for intervals from fewer than replicationsEnough of them. The tests of
	// measure.Ratio and of coverage define its use.
	timesForgotten = 100

	replicationsEnough = 10
)

// longEnough reports for every station whether the samples of a run are long enough for
// intervals, and those of the stations before it; and how many seconds, of all
// replications together, would be long enough for all: +Inf where none are.
func (s *Spec) longEnough(all []samples) (enough []bool, needed float64) {
	enough = make([]bool, len(s.Stations))
	if len(all[0]) >= replicationsEnough { // or groups of them
		for i := range enough {
			enough[i] = true
		}
		return enough, 0
	}
	seconds := all[0].total(elapsed)
	times := make([]float64, len(s.Stations))
	places := 0
	for i := range s.Stations {
		places += s.Stations[i].Initial
	}
	leaves := s.leaving()
	rates, _ := s.rates()
	for i := range s.Stations {
		st := &s.Stations[i]
		load := rates[i] * st.Service.Mean / float64(st.Servers)
		if math.IsNaN(load) {
			load = all[i].total(offered) / seconds * st.Service.Mean / float64(st.Servers)
		}
		room := math.Inf(1)
		if !leaves[i] {
			room = float64(places)
		}
		if st.Buffer != Unlimited {
			room = min(room, float64(st.Servers+st.Buffer))
		}
		times[i] = st.forgets(load, room)
	}
	for _, members := range s.components() {
		longest := 0.0
		for _, i := range members {
			longest = max(longest, times[i])
		}
		for _, i := range members { // what comes from here remembers as long
			times[i] = longest
			for _, r := range s.Stations[i].To {
				times[r.Station] = max(times[r.Station], longest)
			}
			enough[i] = seconds >= timesForgotten*longest
		}
		needed = max(needed, timesForgotten*longest)
	}
	return enough, needed
}

// forgets is the time in which a station with some load forgets what it was like, by a
// factor of e: the relaxation time of M/M/1/K with room for K customers (Morse,
// Queues, inventories and maintenance, 1958), which for K without end is
// mean/(1-√load)², stretched or shrunk by the service time's variance as in heavy
// traffic. It is never less than a service time.
func (st *Station) forgets(load, room float64) float64 {
	rate := 1 + load - 2*math.Sqrt(load)*math.Cos(math.Pi/(room+1))
	if load >= 1 && math.IsInf(room, 1) || !(rate > 0) {
		return math.Inf(1)
	}
	one := st.Service.Mean / float64(st.Servers)
	return max(st.Service.Mean, one/rate*(1+st.Service.scv())/2)
}
