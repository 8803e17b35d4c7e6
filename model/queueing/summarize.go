// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/scenario"
)

// slack is how far a theory may miss an interval by rounding alone, relative to it.
const slack = 1e-9

// elapsed is the length of a batch, an amount like those of a tally.
const elapsed = tallyFields

// sample is the sums of one station: by field of the tally, by batch that was simulated
// to its end. Of several replications together it has a single sum, if any: replications
// are independent, and those that are joined so many that their batches add nothing.
type sample [tallyFields + 1][]float64

// samples are those of one station, or of all together, by replication or group of them.
type samples []sample

// join adds another replication, or group of them.
func (x *sample) join(y *sample) {
	for f := range x {
		var sum []float64
		for _, batches := range [][]float64{x[f], y[f]} {
			for _, v := range batches {
				if sum == nil {
					sum = []float64{0}
				}
				sum[0] += v
			}
		}
		x[f] = sum
	}
}

// accumulator implements scenario.Accumulator.
type accumulator struct {
	m            *Model
	replications int
	batches      int // of all replications
	interrupted  bool
	stations     []*measure.Groups[sample]
	course       *course // nil: no time series were asked for
}

// Accumulate compares what was observed with theory.
func (m *Model) Accumulate() scenario.Accumulator {
	a := &accumulator{m: m}
	for range m.spec.Stations {
		a.stations = append(a.stations, measure.NewGroups((*sample).join))
	}
	if m.spec.Series {
		a.course = newCourse(m.spec, m.stretches)
	}
	return a
}

// Add reads the reports of one replication.
func (a *accumulator) Add(rep scenario.Replication) error {
	a.replications++
	a.interrupted = a.interrupted || rep.Reached < rep.Horizon
	tallies := make([]tally, len(a.stations))
	doublings := math.MaxInt
	for i := range tallies {
		var err error
		if tallies[i], err = a.m.readTally(rep, i); err != nil {
			return err
		}
		doublings = min(doublings, tallies[i][0].Doublings())
	}
	if err := a.takeCourse(rep); err != nil {
		return err
	}
	for i, groups := range a.stations {
		x := tallies[i].sample(rep.Reached, doublings)
		if i == 0 {
			a.batches += len(x[elapsed])
		}
		groups.Add(x)
	}
	return nil
}

// Summary puts observation and theory beside each other.
func (a *accumulator) Summary() (scenario.Summary, error) {
	if a.replications == 0 {
		return nil, errors.New("queueing: no replication to summarize")
	}
	m, s := a.m, a.m.spec
	r := &Results{
		HorizonSeconds: s.Horizon, WarmupSeconds: s.Warmup, Replications: a.replications, Batches: a.batches,
		Confidence:  measure.Confidence,
		Interrupted: a.interrupted, Stations: make(map[string]*StationResult), spec: s, course: a.course,
	}
	theories := s.theory()
	all := make([]samples, len(s.Stations))
	var network samples
	for i := range s.Stations {
		all[i] = a.stations[i].Close()
		network = network.add(all[i])
	}
	enough, needed := s.longEnough(all)
	if slices.Contains(enough, false) {
		r.needed = needed
	}
	for i := range s.Stations {
		r.Stations[s.Stations[i].ID] = stationResult(&s.Stations[i], &theories[i], observed{all[i], enough[i]})
	}
	r.Network = m.networkResult(theories, observed{network, !slices.Contains(enough, false)})
	return r, nil
}

// readTally reads a station's report.
func (m *Model) readTally(rep scenario.Replication, station int) (tally, error) {
	var t tally
	if station >= len(rep.Reports) || len(rep.Reports[station]) != m.reportBytes() {
		return t, fmt.Errorf("queueing: replication %d: the report of %s is missing or is not %d bytes", rep.Index,
			m.spec.Stations[station].ID, m.reportBytes())
	}
	part := rep.Reports[station]
	doublings := int(min(binary.LittleEndian.Uint64(part), math.MaxInt32))
	for f := range t {
		sums := make([]float64, m.stretches)
		for k := range sums {
			sums[k] = math.Float64frombits(binary.LittleEndian.Uint64(part[8+8*(f*m.stretches+k):]))
		}
		var err error
		if t[f], err = measure.ReadBatches(m.spec.Warmup, m.spec.Horizon, sums, doublings); err != nil {
			return t, fmt.Errorf("queueing: replication %d: the report of %s: %w", rep.Index,
				m.spec.Stations[station].ID, err)
		}
	}
	return t, nil
}

// sample takes the batches that were simulated to their end, with the length at which
// they may still double so often.
func (t *tally) sample(reached float64, doublings int) sample {
	var out sample
	for _, b := range t {
		b.Coarsen(doublings)
	}
	for k, length := range t[0].Lengths(reached) {
		if length == 0 {
			continue
		}
		for f, b := range t {
			out[f] = append(out[f], b.Sums()[k])
		}
		out[elapsed] = append(out[elapsed], length)
	}
	return out
}

// add adds another station, batch by batch.
func (x samples) add(y samples) samples {
	if x == nil {
		x = make(samples, len(y))
	}
	for n := range y {
		for f := range tallyFields {
			if x[n][f] == nil {
				x[n][f] = make([]float64, len(y[n][f]))
			}
			for k, v := range y[n][f] {
				x[n][f][k] += v
			}
		}
		x[n][elapsed] = y[n][elapsed]
	}
	return x
}

// total is the sum of one field over all of them.
func (x samples) total(field int) float64 {
	sum := 0.0
	for n := range x {
		for _, v := range x[n][field] {
			sum += v
		}
	}
	return sum
}

// term is a field times a factor.
type term struct {
	field int
	by    float64
}

// sums adds terms up, batch by batch, of one replication. What is but the rounding of a
// difference is 0.
func sums(rep *sample, terms []term) []float64 {
	out := make([]float64, len(rep[elapsed]))
	for k := range out {
		size := 0.0
		for _, t := range terms {
			out[k] += t.by * rep[t.field][k]
			size += math.Abs(t.by * rep[t.field][k])
		}
		if math.Abs(out[k]) <= slack*size {
			out[k] = 0
		}
	}
	return out
}

// observed are samples, and whether they are long enough for intervals.
type observed struct {
	samples
	enough bool
}

// ratio estimates y over x, something that is at least 0.
func (o observed) ratio(y, x []term) Measure { return o.upTo(math.Inf(1), y, x) }

// share is ratio for parts of one.
func (o observed) share(y, x []term) Measure { return o.upTo(1, y, x) }

func (o observed) upTo(most float64, y, x []term) Measure {
	series := make([]measure.Series, len(o.samples))
	for n := range o.samples {
		series[n] = measure.Series{Y: sums(&o.samples[n], y), X: sums(&o.samples[n], x)}
	}
	i, ok := measure.Ratio(series)
	if !ok {
		return Measure{}
	}
	if !o.enough {
		i = measure.Unknown(i.Mean, i.N)
	}
	i = i.Clip(most)
	return Measure{Observed: &i}
}

// never is the measure of something that can't happen.
func (o observed) never() Measure { return Measure{Observed: &measure.Interval{N: len(o.samples)}} }

// expect puts a theory beside what was observed.
func (m *Measure) expect(x float64) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return
	}
	m.Theory = &x
	if o := m.Observed; o != nil && o.Known() {
		within := x >= o.Low-slack*math.Abs(x) && x <= o.High+slack*math.Abs(x)
		m.Within = &within
	}
}

func stationResult(st *Station, t *theory, o observed) *StationResult {
	time := []term{{elapsed, 1}}
	taken := []term{{accepted, 1}}
	r := &StationResult{
		Model: t.model, NoTheory: t.why, Customers: o.total(accepted),
		ArrivalRate:     o.ratio([]term{{offered, 1}}, time),
		Throughput:      o.ratio([]term{{served, 1}}, time),
		Utilisation:     o.share([]term{{busy, 1}}, []term{{elapsed, float64(st.Servers)}}),
		WaitProbability: o.share([]term{{waited, 1}}, taken),
		Blocking:        o.share([]term{{offered, 1}, {accepted, -1}}, []term{{offered, 1}}),
		InSystem:        o.ratio([]term{{present, 1}}, time),
		InQueue:         o.ratio([]term{{present, 1}, {busy, -1}}, time),
		TimeInSystem:    o.ratio([]term{{residence, 1}}, taken),
		TimeInQueue:     o.ratio([]term{{waiting, 1}}, taken),
	}
	if st.Buffer == Unlimited && r.Blocking.Observed != nil {
		r.Blocking = o.never()
	}
	if st.Buffer == 0 && r.WaitProbability.Observed != nil {
		r.WaitProbability, r.InQueue, r.TimeInQueue = o.never(), o.never(), o.never()
	}
	r.ArrivalRate.expect(t.offered)
	r.Throughput.expect(t.taken)
	r.Utilisation.expect(t.taken * st.Service.Mean / float64(st.Servers))
	if st.Buffer == Unlimited && !math.IsNaN(t.taken) {
		r.Blocking.expect(0)
	}
	if s := t.steady; s != nil {
		r.WaitProbability.expect(s.wait)
		if st.Buffer != Unlimited {
			r.Blocking.expect(s.blocked)
		}
		r.InSystem.expect(s.present)
		r.InQueue.expect(s.queued)
		r.TimeInSystem.expect(s.stay)
		r.TimeInQueue.expect(s.delay)
	}
	return r
}

// networkResult: the network's theory is the sum of its stations' where customers come
// and leave and none is lost, and the station's own where there is only one.
func (m *Model) networkResult(theories []theory, o observed) NetworkResult {
	s := m.spec
	r := NetworkResult{
		Throughput:    o.ratio([]term{{exits, 1}}, []term{{elapsed, 1}}),
		InNetwork:     o.ratio([]term{{present, 1}, {moving, 1}}, []term{{elapsed, 1}}),
		TimeInNetwork: o.ratio([]term{{sojourn, 1}}, []term{{exits, 1}}),
	}
	leaves := s.leaving()
	inside, out, known, open, lossless := 0.0, 0.0, true, true, true
	for i, t := range theories {
		st := &s.Stations[i]
		on := 0.0
		for _, way := range st.To {
			on += st.share(way)
		}
		open = open && leaves[i]
		lossless = lossless && st.Buffer == Unlimited
		out += t.taken * (1 - min(on, 1))
		if st.Stay {
			out -= t.taken * (1 - min(on, 1))
		}
		if t.steady == nil {
			known = false
			continue
		}
		inside += t.steady.present + t.taken*s.Transit*on
	}
	if open {
		r.Throughput.expect(out)
	}
	if known {
		r.InNetwork.expect(inside)
	}
	if known && open && out > 0 && (lossless || len(theories) == 1 && len(s.Stations[0].To) == 0) {
		r.TimeInNetwork.expect(inside / out)
	}
	return r
}
