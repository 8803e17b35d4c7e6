package queueing

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/disco-sim/disco/model/stat"
	"github.com/disco-sim/disco/scenario"
)

// level of the confidence intervals.
const level = 0.95

// slack is how far a theory may miss an interval by rounding alone, relative to it.
const slack = 1e-9

// samples are the sums of one station, or of all together, over the batches of all
// replications that were simulated to their end.
type samples struct {
	offered, accepted, waited, waiting, residence, present, busy, served, exits, sojourn, moving, length []float64
}

// results puts observation and theory beside each other.
func (m *Model) results(reps []scenario.Replication) (*Results, error) {
	s := m.spec
	r := &Results{
		HorizonSeconds: s.Horizon, WarmupSeconds: s.Warmup, Replications: len(reps), Level: level,
		Stations: make(map[string]*StationResult), spec: s,
	}
	for _, rep := range reps {
		r.Interrupted = r.Interrupted || rep.Reached < rep.Horizon
	}
	theories := s.theory()
	var network samples
	for i := range s.Stations {
		x, err := m.samples(reps, i)
		if err != nil {
			return nil, err
		}
		r.Batches = len(x.length)
		r.Stations[s.Stations[i].ID] = stationResult(&s.Stations[i], &theories[i], x)
		network.add(x)
	}
	r.Network = m.networkResult(theories, &network)
	return r, nil
}

// samples reads a station's reports.
func (m *Model) samples(reps []scenario.Replication, station int) (*samples, error) {
	out := &samples{}
	for _, rep := range reps {
		if station >= len(rep.Parts) || len(rep.Parts[station]) != 8*tallyFields*batchCount {
			return nil, fmt.Errorf("queueing: replication %d: the report of %s is missing or is not %d bytes", rep.Index, m.spec.Stations[station].ID, 8*tallyFields*batchCount)
		}
		lengths := stat.NewBatches(m.spec.Warmup, m.spec.Horizon, batchCount).Lengths(rep.Reached)
		for k, length := range lengths {
			if length == 0 {
				continue
			}
			for f, to := range out.fields() {
				x := math.Float64frombits(binary.LittleEndian.Uint64(rep.Parts[station][8*(f*batchCount+k):]))
				*to = append(*to, x)
			}
			out.length = append(out.length, length)
		}
	}
	return out, nil
}

// fields are the samples in the order of a report.
func (x *samples) fields() [tallyFields]*[]float64 {
	return [tallyFields]*[]float64{&x.offered, &x.accepted, &x.waited, &x.waiting, &x.residence, &x.present, &x.busy, &x.served, &x.exits, &x.sojourn, &x.moving}
}

// add adds another station, batch by batch.
func (x *samples) add(y *samples) {
	theirs := y.fields()
	for f, mine := range x.fields() {
		if *mine == nil {
			*mine = make([]float64, len(*theirs[f]))
		}
		for k, v := range *theirs[f] {
			(*mine)[k] += v
		}
	}
	x.length = y.length
}

// measure estimates y over x.
func measure(y, x []float64) Measure {
	i, ok := stat.Ratio(y, x, level)
	if !ok {
		return Measure{}
	}
	return Measure{Observed: &i}
}

// expect puts a theory beside what was observed.
func (m *Measure) expect(x float64) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return
	}
	m.Theory = &x
	if o := m.Observed; o != nil && o.N > 1 {
		within := math.Abs(x-o.Mean) <= o.HalfWidth+slack*math.Abs(x)
		m.Within = &within
	}
}

func minus(a, b []float64) []float64 {
	d := make([]float64, len(a))
	for i := range d {
		d[i] = a[i] - b[i]
	}
	return d
}

func times(a []float64, by float64) []float64 {
	p := make([]float64, len(a))
	for i := range p {
		p[i] = a[i] * by
	}
	return p
}

func stationResult(st *Station, t *theory, x *samples) *StationResult {
	r := &StationResult{
		Model: t.model, NoTheory: t.why,
		ArrivalRate:     measure(x.offered, x.length),
		Throughput:      measure(x.served, x.length),
		Utilisation:     measure(x.busy, times(x.length, float64(st.Servers))),
		WaitProbability: measure(x.waited, x.accepted),
		Blocking:        measure(minus(x.offered, x.accepted), x.offered),
		InSystem:        measure(x.present, x.length),
		InQueue:         measure(minus(x.present, x.busy), x.length),
		TimeInSystem:    measure(x.residence, x.accepted),
		TimeInQueue:     measure(x.waiting, x.accepted),
	}
	for _, n := range x.accepted {
		r.Customers += n
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
func (m *Model) networkResult(theories []theory, x *samples) NetworkResult {
	s := m.spec
	inside := append([]float64(nil), x.present...)
	for k := range inside {
		inside[k] += x.moving[k]
	}
	r := NetworkResult{
		Throughput:    measure(x.exits, x.length),
		InNetwork:     measure(inside, x.length),
		TimeInNetwork: measure(x.sojourn, x.exits),
	}
	leaves := s.leaving()
	present, exits, known, open, lossless := 0.0, 0.0, true, true, true
	for i, t := range theories {
		st := &s.Stations[i]
		on := 0.0
		for _, way := range st.To {
			on += st.share(way)
		}
		open = open && leaves[i]
		lossless = lossless && st.Buffer == Unlimited
		exits += t.taken * (1 - min(on, 1))
		if st.Stay {
			exits -= t.taken * (1 - min(on, 1))
		}
		if t.steady == nil {
			known = false
			continue
		}
		present += t.steady.present + t.taken*s.Transit*on
	}
	if open {
		r.Throughput.expect(exits)
	}
	if known {
		r.InNetwork.expect(present)
	}
	if known && open && exits > 0 && (lossless || len(theories) == 1 && len(s.Stations[0].To) == 0) {
		r.TimeInNetwork.expect(present / exits)
	}
	return r
}
