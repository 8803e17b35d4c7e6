// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// theory is what theorems give for one station. A rate is NaN where it isn't known.
type theory struct {
	model   string  // e.g. M/M/2
	offered float64 // customers who come, per second; NaN: not known
	taken   float64 // of them those who find a place, and leave again; NaN: not known
	passes  bool    // those who leave for another component come there like a Poisson process
	steady  *steady
	why     string // no theorem applies
}

// rates are the customers per second who come to and are taken in at each station; NaN
// where that isn't known.
func (s *Spec) rates() (offered, taken []float64) {
	offered, taken = make([]float64, len(s.Stations)), make([]float64, len(s.Stations))
	for i, t := range s.theory() {
		offered[i], taken[i] = t.offered, t.taken
	}
	return offered, taken
}

// analysis is what is found out about a network, component by component.
type analysis struct {
	*Spec
	all  []theory   // by station
	into [][]source // by station: where its customers come from, the outside not counted
}

// source is a station and the part of its customers that go on to another.
type source struct {
	station int
	share   float64
}

// theory goes through the network component by component, in the customers' order.
func (s *Spec) theory() []theory {
	a := &analysis{Spec: s, all: make([]theory, len(s.Stations)), into: make([][]source, len(s.Stations))}
	for i := range s.Stations {
		for _, r := range s.Stations[i].To {
			a.into[r.Station] = append(a.into[r.Station], source{i, s.Stations[i].share(r)})
		}
	}
	leaves := s.leaving()
	for _, c := range s.components() {
		if !leaves[c[0]] {
			a.closed(c)
			continue
		}
		a.open(c)
	}
	return a.all
}

// open treats a component that customers leave again. A rate stands where it is known for
// certain, a formula where its theorem's conditions hold, and nothing behind a station
// of which either is not known pretends to know it.
func (s *analysis) open(members []int) {
	inflow, poisson, known := s.inflow(members)
	loop := len(members) > 1 || s.Stations[members[0]].loops(members[0])
	exponential, limited := true, false
	for _, i := range members {
		st := &s.Stations[i]
		exponential = exponential && st.Service.Kind == Exponential
		limited = limited || st.Buffer != Unlimited
	}
	jackson := poisson && exponential && !limited // Poisson within a loop too, or as if
	for _, i := range members {
		arrivals := "M"
		if !poisson || loop && !jackson {
			arrivals = s.arrivalLetter(i)
		}
		s.all[i] = theory{model: s.Stations[i].kendall(arrivals), offered: math.NaN(), taken: math.NaN()}
	}
	switch {
	case !known:
		s.refuse(members, "how many come from the stations before is not known")
		return
	case loop && limited:
		s.refuse(members, "customers come back to where a buffer is limited")
		return
	}
	rates, ok := s.solveTraffic(members, inflow)
	if !ok {
		s.refuse(members, "the traffic equations have no solution")
		return
	}
	if k := s.overloaded(members, rates); k >= 0 {
		if !loop { // else the others get less than the traffic equations give
			s.all[members[k]].offered = rates[k]
		}
		st := &s.Stations[members[k]]
		s.refuse(members, fmt.Sprintf("%s gets %.6g customers a second and can serve %.6g: the queue grows for ever",
			st.ID, rates[k], float64(st.Servers)/st.Service.Mean))
		return
	}
	if !slices.ContainsFunc(rates, func(r float64) bool { return r > 0 }) {
		for _, i := range members {
			s.all[i].offered, s.all[i].taken, s.all[i].passes = 0, 0, true
		}
		s.refuse(members, "in the long run nobody comes: there are no arrivals on any way to it")
		return
	}
	for k, i := range members {
		s.all[i].offered = rates[k]
		if s.Stations[i].Buffer == Unlimited {
			s.all[i].taken = rates[k]
		}
	}
	switch {
	case !poisson:
		s.refuse(members, "customers don't come like a Poisson process")
	case jackson:
		for _, i := range members {
			s.all[i].passes = true
			s.all[i].apply(&s.Stations[i])
		}
	case loop:
		s.refuse(members, "customers come back, and not all service times on the way are exponential")
	default:
		s.all[members[0]].apply(&s.Stations[members[0]])
	}
}

// overloaded is the first member of a component that gets more than it can serve and
// keeps them all, -1 where there is none.
func (s *Spec) overloaded(members []int, rates []float64) int {
	for k, i := range members {
		if st := &s.Stations[i]; st.Buffer == Unlimited && rates[k]*st.Service.Mean >= float64(st.Servers) {
			return k
		}
	}
	return -1
}

// arrivalLetter is the first letter in Kendall's notation of a station to which
// customers don't come like a Poisson process: that of their distribution where they all
// come from outside, else G.
func (s *analysis) arrivalLetter(station int) string {
	if a := s.Stations[station].Arrivals; a != nil && len(s.into[station]) == 0 {
		return a.letter()
	}
	return "G"
}

// refuse marks a whole component as one to which no theorem applies.
func (s *analysis) refuse(members []int, why string) {
	for _, i := range members {
		s.all[i].why = why
	}
}

// inflow is what comes into a component from outside the network and from components
// before it, per second, and whether all of it is Poisson, and known.
func (s *analysis) inflow(members []int) (rates []float64, poisson, known bool) {
	rates = make([]float64, len(members))
	at := make(map[int]int, len(members))
	poisson, known = true, true
	for k, i := range members {
		at[i] = k
		if a := s.Stations[i].Arrivals; a != nil {
			rates[k] += 1 / a.Mean
			poisson = poisson && a.Kind == Exponential
		}
	}
	for k, i := range members {
		for _, from := range s.into[i] {
			if _, inside := at[from.station]; inside {
				continue
			}
			before := &s.all[from.station]
			known = known && !math.IsNaN(before.taken)
			poisson = poisson && before.passes
			rates[k] += before.taken * from.share
		}
	}
	return rates, poisson, known
}

// share is the probability of a route, as the model draws it.
func (st *Station) share(r Route) float64 {
	if !st.Stay {
		return r.Probability
	}
	sum := 0.0
	for _, o := range st.To {
		sum += o.Probability
	}
	return r.Probability / sum
}

func (st *Station) loops(self int) bool {
	for _, r := range st.To {
		if r.Station == self {
			return true
		}
	}
	return false
}

// routing is the matrix of probabilities within a component, from row to column.
func (s *Spec) routing(members []int) *mat.Dense {
	at := make(map[int]int, len(members))
	for k, i := range members {
		at[i] = k
	}
	m := mat.NewDense(len(members), len(members), nil)
	for k, i := range members {
		for _, r := range s.Stations[i].To {
			if l, ok := at[r.Station]; ok {
				m.Set(k, l, s.Stations[i].share(r))
			}
		}
	}
	return m
}

// denseMax is the size up to which traffic equations are solved: the matrix is dense.
const denseMax = 3000

// solveTraffic solves λ = inflow + λP (Jackson 1957).
func (s *Spec) solveTraffic(members []int, inflow []float64) ([]float64, bool) {
	n := len(members)
	if n == 1 && !s.Stations[members[0]].loops(members[0]) {
		return inflow, true
	}
	if n > denseMax {
		return nil, false
	}
	p := s.routing(members)
	var a mat.Dense
	a.CloneFrom(p.T())
	a.Scale(-1, &a)
	for k := range n {
		a.Set(k, k, 1+a.At(k, k))
	}
	var rates mat.VecDense
	if err := rates.SolveVec(&a, mat.NewVecDense(n, inflow)); err != nil {
		return nil, false
	}
	out := make([]float64, n)
	for k := range out {
		out[k] = rates.AtVec(k)
		if !(out[k] >= 0) {
			return nil, false
		}
	}
	return out, true
}

// apply finds the formula of a station with Poisson arrivals.
func (t *theory) apply(st *Station) {
	service, c := st.Service.Mean, st.Servers
	var x steady
	switch {
	case st.Buffer == 0:
		x = lossy(t.offered, service, c)
	case st.Buffer != Unlimited && st.Service.Kind == Exponential && st.Buffer+c <= stepsMax:
		x = bounded(t.offered, service, c, st.Buffer)
	case st.Buffer != Unlimited:
		t.why = "no formula for " + t.model
		return
	case st.Service.Kind == Exponential:
		x = markovian(t.offered, service, c)
	case c == 1:
		x = pollaczek(t.offered, service, st.Service.scv())
	default:
		t.why = "no formula for " + t.model
		return
	}
	t.taken = t.offered * (1 - x.blocked)
	t.settle(x)
}

// settle keeps what a formula gave, if float64 can hold it.
func (t *theory) settle(x steady) {
	if !x.finite() || math.IsInf(t.taken, 0) || math.IsNaN(t.taken) {
		t.offered, t.taken, t.passes, t.why = math.NaN(), math.NaN(), false, "the numbers are too large"
		return
	}
	t.steady = &x
}

// stepsMax bounds the states that a formula goes through.
const stepsMax = 10_000_000

// kendall is the station in Kendall's notation.
func (st *Station) kendall(arrivals string) string {
	name := fmt.Sprintf("%s/%s/%d", arrivals, st.Service.letter(), st.Servers)
	if st.Buffer != Unlimited {
		name += fmt.Sprintf("/%d", st.Servers+st.Buffer)
	}
	return name
}

// closedMax bounds stations² × customers² of a closed network.
const closedMax = 500_000_000

// closed treats a component that no customer leaves: its customers are there from the start.
func (s *analysis) closed(members []int) {
	customers := 0
	why := ""
	for _, i := range members {
		st := &s.Stations[i]
		s.all[i] = theory{model: "closed " + st.Service.letter(), offered: math.NaN(), taken: math.NaN()}
		customers += st.Initial
		if st.Service.Kind != Exponential || st.Buffer != Unlimited {
			why = "in a closed network all service times must be exponential and nobody may be lost"
		}
	}
	if in, out := s.crosses(members); out {
		why = "customers go on to stations from which they don't come back"
	} else if in {
		why = "customers come from elsewhere, and nobody leaves"
	}
	size := float64(len(members)+1) * float64(customers)
	if size*size > closedMax || len(members) > denseMax {
		why = "the network is too large for the formula"
	}
	if why != "" || customers == 0 {
		s.refuse(members, why)
		return
	}
	visits, ok := s.visits(members)
	if !ok {
		s.refuse(members, "the traffic equations have no solution")
		return
	}
	s.solveClosed(members, visits, customers)
}

// crosses reports whether a way leads into a component, and whether one leads out of it.
func (s *analysis) crosses(members []int) (in, out bool) {
	inside := make(map[int]bool, len(members))
	for _, i := range members {
		inside[i] = true
	}
	for _, i := range members {
		for _, from := range s.into[i] {
			in = in || !inside[from.station]
		}
		for _, r := range s.Stations[i].To {
			out = out || !inside[r.Station]
		}
	}
	return in, out
}

// visits solves v = vP with the largest demand for service scaled to 1, which keeps
// the weights of the product form in the range of a float64.
func (s *Spec) visits(members []int) ([]float64, bool) {
	n := len(members)
	var a mat.Dense
	a.CloneFrom(s.routing(members).T())
	for k := range n {
		a.Set(k, k, a.At(k, k)-1)
	}
	right := mat.NewVecDense(n, nil)
	for k := range n { // one of the equations follows from the others: the sum is 1 instead
		a.Set(n-1, k, 1)
	}
	right.SetVec(n-1, 1)
	var v mat.VecDense
	if err := v.SolveVec(&a, right); err != nil {
		return nil, false
	}
	out, most := make([]float64, n), 0.0
	for k, i := range members {
		out[k] = v.AtVec(k)
		most = max(most, out[k]*s.Stations[i].Service.Mean/float64(s.Stations[i].Servers))
	}
	for k := range out {
		out[k] /= most
	}
	return out, most > 0
}

func (s *analysis) solveClosed(members []int, visits []float64, customers int) {
	stations := make([]closedStation, 0, len(members)+1)
	moves := 0.0
	for k, i := range members {
		stations = append(stations, closedStation{visits[k], s.Stations[i].Service.Mean, s.Stations[i].Servers})
		moves += visits[k]
	}
	if s.Transit > 0 { // a place where everybody is served at once
		stations = append(stations, closedStation{moves, s.Transit, math.MaxInt})
	}
	states, rate := closedStates(stations, customers)
	var seen [][]float64 // what an arriving customer finds: the network without him
	if customers > 1 {
		seen, _ = closedStates(stations, customers-1)
	}
	for k, i := range members {
		st := &s.Stations[i]
		x := steady{}
		for n, p := range states[k] {
			x.present += p * float64(n)
			x.queued += p * float64(max(0, n-st.Servers))
		}
		if seen != nil {
			for n := st.Servers; n < customers; n++ {
				x.wait += seen[k][n]
			}
		}
		t := &s.all[i]
		t.offered = rate * visits[k]
		t.taken = t.offered
		x.stay, x.delay = x.present/t.offered, x.queued/t.offered
		t.model = fmt.Sprintf("closed M/%d", st.Servers)
		t.settle(x)
	}
}
