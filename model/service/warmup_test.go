// SPDX-License-Identifier: Apache-2.0

package service

import (
	"math"
	"reflect"
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/scenario"
)

// reaches runs a scenario until a time, which may be before its horizon.
func reaches(t *testing.T, spec *Spec, seed uint64, until float64) *Results {
	t.Helper()
	m := newModel(spec)
	e := newEngine(t, m, seed, 0, nil)
	e.SetUntil(until)
	if _, err := e.Run(math.MaxInt, math.Inf(1)); err != nil {
		t.Fatal(err)
	}
	return summarize(t, m, []scenario.Replication{reportOf(t, m, e, 0, until)})
}

// warmedSpec is metricsSpec with a warm-up.
func warmedSpec(algorithm string, warmup float64) *Spec {
	s := metricsSpec(algorithm)
	s.Settings.Warmup = warmup
	return s
}

// TestWarmup: what a run with a warm-up counts, and what one counts that ends with it, is together what one without
// counts: requests, times and latencies.
func TestWarmup(t *testing.T) {
	const warmup = 12.5
	for _, algorithm := range []string{RoundRobin, LeastConnection} {
		for seed := range uint64(fewer(4)) {
			all := reaches(t, metricsSpec(algorithm), seed, 30)
			before := reaches(t, metricsSpec(algorithm), seed, warmup)
			after := reaches(t, warmedSpec(algorithm, warmup), seed, 30)
			add := func(what string, a, b, want float64) {
				t.Helper()
				if math.Abs(a+b-want) > 1e-9*math.Abs(want) {
					t.Errorf("%s, seed %d: %s: %v and %v, want %v together", algorithm, seed, what, a, b, want)
				}
			}
			add("generated", float64(before.RequestsGenerated), float64(after.RequestsGenerated),
				float64(all.RequestsGenerated))
			add("completed", float64(before.RequestsCompleted), float64(after.RequestsCompleted),
				float64(all.RequestsCompleted))
			add("dropped", float64(before.RequestsDropped), float64(after.RequestsDropped),
				float64(all.RequestsDropped))
			add("latencies", before.Latency.Mean*float64(before.RequestsCompleted),
				after.Latency.Mean*float64(after.RequestsCompleted), all.Latency.Mean*float64(all.RequestsCompleted))
			if after.RequestsBefore != before.RequestsInFlight || after.RequestsBefore == 0 {
				t.Errorf("%s, seed %d: %d requests before, want the %d in flight then", algorithm, seed,
					after.RequestsBefore, before.RequestsInFlight)
			}
			if after.RequestsInFlight != all.RequestsInFlight {
				t.Errorf("%s, seed %d: %d in flight, want %d", algorithm, seed, after.RequestsInFlight,
					all.RequestsInFlight)
			}
			for id, s := range all.Servers() {
				b, a := before.Server(id), after.Server(id)
				add(id+" requests", float64(b.Requests), float64(a.Requests), float64(s.Requests))
				add(id+" completed", float64(b.Completed), float64(a.Completed), float64(s.Completed))
				add(id+" busy", b.Utilisation*warmup, a.Utilisation*(30-warmup), s.Utilisation*30)
				add(id+" in it", b.RequestsInMean*warmup, a.RequestsInMean*(30-warmup), s.RequestsInMean*30)
			}
			if !reflect.DeepEqual(after.Outages[0].Before, all.Outages[0].Before) {
				t.Errorf("%s, seed %d: before the outage: %+v, want %+v, whatever the warm-up is", algorithm, seed,
					after.Outages[0].Before, all.Outages[0].Before)
			}
		}
	}
}

// TestWarmupInterrupted: a run that ends before its warm-up does, or with it, has counted nothing.
func TestWarmupInterrupted(t *testing.T) {
	for _, until := range []float64{5, 12.5} {
		r := reaches(t, warmedSpec(RoundRobin, 12.5), 1, until)
		if r.RequestsGenerated != 0 || r.RequestsCompleted != 0 || r.RequestsDropped != 0 || r.Latency != nil ||
			r.ThroughputRPS != 0 || r.RequestsInFlight != r.RequestsBefore || r.RequestsBefore == 0 ||
			r.Generator.Windows != 0 || r.Generator.UsersMean != 0 {
			t.Errorf("until %v: %+v, want nothing but the requests in flight", until, r)
		}
		for id, s := range r.Servers() {
			if s.Requests != 0 || s.Utilisation != 0 || s.ReadyQueueMean != 0 || s.ResidenceMean != nil {
				t.Errorf("until %v: %s: %+v, want nothing", until, id, s)
			}
		}
	}
}

// TestResumeWarmup: boxes are saved before the end of a warm-up, with it, and behind it.
func TestResumeWarmup(t *testing.T) {
	for k, algorithm := range []string{RoundRobin, LeastConnection} {
		s := warmedSpec(algorithm, 12.5)
		modeltest.ResumeEverywhere(t, newModel(s), uint64(k))
		s = warmedSpec(algorithm, 3.5)
		s.Settings.Horizon = 12
		modeltest.DamagedStates(t, newModel(s), uint64(k))
	}
}
