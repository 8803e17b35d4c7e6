package service

import "github.com/disco-sim/disco/model/measure"

// confidence takes each replication as one draw of what the scenario does: runs with
// random streams of their own, so that their figures are independent, whatever the
// requests within one have to do with one another. It needs two that reached the
// horizon; those that were cut short are draws of something else.
func (t *tally) confidence(rows []ReplicationResult) *Confidence {
	var full []int // replications that reached the horizon
	for i := range t.runs {
		if t.runs[i].Reached == t.runs[i].Horizon {
			full = append(full, i)
		}
	}
	if len(full) < 2 {
		return nil
	}
	values := func(of func(i int) float64) Interval {
		x := make([]float64, len(full))
		for k, i := range full {
			x[k] = of(i)
		}
		return *measure.Interval95(x) // there are at least two
	}
	c := &Confidence{
		Replications:  len(full),
		ThroughputRPS: values(func(i int) float64 { return rows[i].ThroughputRPS }),
		Servers:       make(map[string]*ServerConfidence),
	}
	latency := func(of func(*ReplicationResult) *float64) *Interval {
		for _, i := range full {
			if of(&rows[i]) == nil {
				return nil
			}
		}
		v := values(func(i int) float64 { return *of(&rows[i]) })
		return &v
	}
	c.LatencyMean = latency(func(r *ReplicationResult) *float64 { return r.LatencyMean })
	c.LatencyP50 = latency(func(r *ReplicationResult) *float64 { return r.LatencyP50 })
	c.LatencyP95 = latency(func(r *ReplicationResult) *float64 { return r.LatencyP95 })
	c.LatencyP99 = latency(func(r *ReplicationResult) *float64 { return r.LatencyP99 })
	for n, at := range t.m.layout.boxes {
		if at.role != serverRole {
			continue
		}
		cores := float64(t.m.spec.Servers[at.index].Cores)
		mean := func(i, level int) float64 {
			p := t.runs[i].request[n]
			return per(p.Server.Area[level], p.End)
		}
		c.Servers[at.id] = &ServerConfidence{
			Utilisation:    values(func(i int) float64 { return mean(i, levelCPU) / cores }),
			ReadyQueueMean: values(func(i int) float64 { return mean(i, levelReady) }),
		}
	}
	return c
}
