package queueing

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// theory is what theorems say about one station. A rate is NaN where it isn't known.
type theory struct {
	model   string  // e.g. M/M/2
	offered float64 // customers who come, per second
	taken   float64 // of them those who find a place
	poisson bool    // they come like a Poisson process, or as if (in a product form)
	passes  bool    // so do those who leave for another component of the network
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

// theory goes through the network component by component, in the customers' order.
func (s *Spec) theory() []theory {
	all := make([]theory, len(s.Stations))
	leaves := s.leaving()
	for _, c := range s.components() {
		if !leaves[c[0]] {
			s.closed(all, c)
			continue
		}
		s.open(all, c)
	}
	for i := range all {
		if all[i].steady != nil && !all[i].steady.finite() {
			all[i].steady, all[i].why = nil, "the numbers are too large"
		}
	}
	return all
}

// open treats a component that customers leave again.
func (s *Spec) open(all []theory, members []int) {
	inflow, poisson, known := s.inflow(all, members)
	loop := len(members) > 1 || s.Stations[members[0]].loops(members[0])
	limited := false
	for _, i := range members {
		all[i] = theory{model: s.Stations[i].kendall(), offered: math.NaN(), taken: math.NaN()}
		limited = limited || s.Stations[i].Buffer != Unlimited
	}
	switch {
	case !known:
		s.refuse(all, members, "how many come from the stations before is not known")
		return
	case loop && limited:
		s.refuse(all, members, "customers come back to where a buffer is limited")
		return
	}
	rates, ok := s.solveTraffic(members, inflow)
	if !ok {
		s.refuse(all, members, "the traffic equations have no solution")
		return
	}
	jackson := poisson
	for k, i := range members {
		st := &s.Stations[i]
		all[i].offered, all[i].taken = rates[k], rates[k]
		if st.Buffer == Unlimited && rates[k]*st.Service.Mean >= float64(st.Servers) {
			all[i].taken = math.NaN()
			s.refuse(all, members, fmt.Sprintf("%s gets %.6g customers a second and can serve %.6g: the queue grows for ever", st.ID, rates[k], float64(st.Servers)/st.Service.Mean))
			return
		}
		jackson = jackson && st.Service.Kind == Exponential && st.Buffer == Unlimited
	}
	switch {
	case !poisson:
		s.refuse(all, members, "customers don't come like a Poisson process")
	case jackson:
		for _, i := range members {
			all[i].poisson, all[i].passes = true, true
			all[i].apply(&s.Stations[i])
		}
	case loop:
		s.refuse(all, members, "customers come back, and not all service times on the way are exponential")
	default:
		all[members[0]].poisson = true
		all[members[0]].apply(&s.Stations[members[0]])
	}
}

// refuse says of a whole component that no theorem applies.
func (s *Spec) refuse(all []theory, members []int, why string) {
	for _, i := range members {
		all[i].why = why
	}
}

// inflow is what comes into a component from outside the network and from components
// before it, per second, and whether all of it is Poisson, and known.
func (s *Spec) inflow(all []theory, members []int) (rates []float64, poisson, known bool) {
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
	for j := range s.Stations {
		if _, inside := at[j]; inside {
			continue
		}
		for _, r := range s.Stations[j].To {
			if k, ok := at[r.Station]; ok {
				known = known && !math.IsNaN(all[j].taken)
				poisson = poisson && all[j].passes
				rates[k] += all[j].taken * s.Stations[j].share(r)
			}
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
		t.taken, t.why = math.NaN(), "no formula for "+t.model
		return
	case st.Service.Kind == Exponential:
		x = markovian(t.offered, service, c)
	case c == 1:
		x = pollaczek(t.offered, service, st.Service.scv())
	default:
		t.why = "no formula for " + t.model
		return
	}
	t.steady = &x
	t.taken = t.offered * (1 - x.blocked)
}

// stepsMax bounds the states that a formula goes through.
const stepsMax = 10_000_000

// kendall is the station in Kendall's notation, with Poisson arrivals.
func (st *Station) kendall() string {
	name := fmt.Sprintf("%s/%d", st.Service.letter(), st.Servers)
	if st.Buffer != Unlimited {
		name += fmt.Sprintf("/%d", st.Servers+st.Buffer)
	}
	return "M/" + name
}

// closedMax bounds stations² × customers² of a closed network.
const closedMax = 500_000_000

// closed treats a component that nobody leaves: its customers are there from the start.
func (s *Spec) closed(all []theory, members []int) {
	customers := 0
	why := ""
	for _, i := range members {
		st := &s.Stations[i]
		all[i] = theory{model: "closed " + st.Service.letter(), offered: math.NaN(), taken: math.NaN()}
		customers += st.Initial
		if st.Service.Kind != Exponential || st.Buffer != Unlimited {
			why = "in a closed network all service times must be exponential and nobody may be lost"
		}
	}
	if s.fedFromOutside(members) {
		why = "customers come from elsewhere, and nobody leaves"
	}
	size := float64(len(members)+1) * float64(customers)
	if size*size > closedMax || len(members) > denseMax {
		why = "the network is too large for the formula"
	}
	if why != "" || customers == 0 {
		s.refuse(all, members, why)
		return
	}
	visits, ok := s.visits(members)
	if !ok {
		s.refuse(all, members, "the traffic equations have no solution")
		return
	}
	s.solveClosed(all, members, visits, customers)
}

// fedFromOutside tells whether any other station leads here.
func (s *Spec) fedFromOutside(members []int) bool {
	inside := make(map[int]bool, len(members))
	for _, i := range members {
		inside[i] = true
	}
	for j := range s.Stations {
		for _, r := range s.Stations[j].To {
			if inside[r.Station] && !inside[j] {
				return true
			}
		}
	}
	return false
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

func (s *Spec) solveClosed(all []theory, members []int, visits []float64, customers int) {
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
		t := &all[i]
		t.offered = rate * visits[k]
		t.taken = t.offered
		x.stay, x.delay = x.present/t.offered, x.queued/t.offered
		t.steady = &x
		t.model = fmt.Sprintf("closed M/%d", st.Servers)
	}
}
