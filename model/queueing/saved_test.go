// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"strings"
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/scenario"
)

// A run goes on from what was saved anywhere: with all distributions, limited buffers, customers who stay, promises.
func TestResume(t *testing.T) {
	for name, text := range map[string]string{
		"all kinds": packedText,
		"closed": network(300, "id: a, initial: 6, "+exp1+", to: { b: 0.5, c: 0.5 }",
			"id: b, "+exp1+", to: { c: 0.3, a: 0.7 }", "id: c, "+exp1+", to: { a: 1 }"),
		"all together": "transit: 1\n" + network(200,
			"id: a, arrivals: {distribution: constant, mean: 1}, servers: 2, buffer: 1, "+const1+
				", to: {a: 0.5, b: 0.5}",
			"id: b, buffer: 0, "+const1+", to: {a: 0.1}"),
	} {
		t.Run(name, func(t *testing.T) {
			s := modeltest.MustLoad(t, Kind(), text)
			for seed := range uint64(3) {
				modeltest.ResumeEverywhere(t, s, seed)
			}
			modeltest.DamagedStates(t, s, 1)
		})
	}
}

// variedText is a network with everything that may change.
const variedText = `
model: queueing
horizon: 80
warmup: 5
transit: 0.01
stations:
  - {id: a, service: {distribution: exponential, mean: 0.1}, arrivals: 5, to: {b: 0.5, c: 0.25}}
  - {id: b, servers: 3, buffer: 20, service: {distribution: uniform, min: 0.1, max: 0.2}, to: {d: 1}}
  - {id: c, service: {distribution: erlang, mean: 0.1, shape: 3}, initial: 4, to: {a: 0.1}}
  - {id: d, service: {distribution: gamma, mean: 0.1, cv: 2}, arrivals: {distribution: log_normal, mean: 1, cv: 2}}
`

// TestVaries: what may change under a state, each of which a run goes on with, and what may not.
func TestVaries(t *testing.T) {
	doc, err := scenario.Parse("test.yml", []byte(variedText))
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(3) {
		modeltest.Varies(t, Kind(), doc, seed,
			"stations.a.servers=4", // a station that has promised when it sends next
			"stations.a.arrivals=7",
			"stations.a.to.b=0.6",
			"stations.b.buffer=40",
			"stations.b.service.max=0.3",
			"stations.c.service={distribution: exponential, mean: 0.3}",
			"stations.d.arrivals.mean=0.5",
			"stations.d.service.cv=0.5")
	}
	for key, want := range map[string]string{
		"horizon=90":                     "horizon: found 90, want 80, as in the run that was saved",
		"warmup=6":                       "warmup: found 6, want 5",
		"transit=0.02":                   "transit: found 0.02, want 0.01",
		"stations.a.initial=1":           "stations[0].initial: found 1, want nothing",
		"stations.c.initial=5":           "stations[2].initial: found 5, want 4",
		"stations.a.arrivals=null":       "stations[0].arrivals: found none, want arrivals, as in the run",
		"stations.b.arrivals=1":          "stations[1].arrivals: found arrivals, want none, as in the run",
		"stations.a.buffer=3":            "stations[0].buffer: found 3 places to wait, want no limit, as in the run",
		"stations.b.buffer=null":         "stations[1].buffer: found unlimited places to wait, want a limit, as in",
		"stations.b.service.min=0.05":    "stations[1].service: found a least service time of 0.05 s, want 0.1 s",
		"stations.a.to={c: 0.2, b: 0.5}": "stations[0].to: found other stations, or another order of them, want",
	} {
		name, value, _ := strings.Cut(key, "=")
		after, err := doc.With([]scenario.Setting{{Key: name, Value: value}})
		if err == nil {
			err = Kind().Varies(doc, after)
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "begin a new run") {
			t.Errorf("%s: %v, want %q", key, err, want)
		}
	}
}
