package service

import "github.com/disco-sim/disco/model/measure"

// confidence takes each replication as one sample: they run with random streams of
// their own, so that their figures are independent, whatever the requests within one
// have to do with one another. It needs two that reached the horizon; those that were
// cut short are samples of something else.
func (t *tally) confidence() *Confidence {
	var full []*run // replications that reached the horizon
	for i := range t.runs {
		if r := &t.runs[i]; r.Reached == r.Horizon {
			full = append(full, r)
		}
	}
	if len(full) < 2 {
		return nil
	}
	ratio := func(of func(r *run) (y, x float64)) *Interval {
		series := make([]measure.Series, len(full))
		for k, r := range full {
			y, x := of(r)
			series[k] = measure.Series{Y: []float64{y}, X: []float64{x}}
		}
		i, ok := measure.Ratio(series)
		if !ok {
			return nil
		}
		return &i
	}
	latencies := make([]*measure.Latencies, len(full))
	for k, r := range full {
		latencies[k] = &r.latency
	}
	c := &Confidence{
		Replications:  len(full),
		ThroughputRPS: *ratio(func(r *run) (y, x float64) { return float64(r.completed), r.response.End }),
		LatencyMean: ratio(func(r *run) (y, x float64) {
			return r.latency.Mean * float64(r.latency.Count), float64(r.latency.Count)
		}),
		LatencyP50: measure.Percentile(50, latencies),
		LatencyP95: measure.Percentile(95, latencies),
		LatencyP99: measure.Percentile(99, latencies),
		Servers:    make(map[string]*ServerConfidence),
	}
	for n, at := range t.m.layout.boxes {
		if at.role != serverRole {
			continue
		}
		cores := float64(t.m.spec.Servers[at.index].Cores)
		mean := func(level int, units float64) Interval {
			return *ratio(func(r *run) (y, x float64) {
				p := r.request[n]
				return p.Server.Area[level], p.End * units
			})
		}
		c.Servers[at.id] = &ServerConfidence{Utilisation: mean(levelCPU, cores), ReadyQueueMean: mean(levelReady, 1)}
	}
	return c
}
