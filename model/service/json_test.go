// SPDX-License-Identifier: Apache-2.0

package service

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/scenario"
)

// plainResults is the reference: all results in memory, for encoding/json.
type plainResults struct {
	HorizonSeconds    float64                    `json:"horizon_s"`
	SimulatedSeconds  float64                    `json:"simulated_s"`
	Interrupted       bool                       `json:"interrupted"`
	RequestsGenerated int64                      `json:"requests_generated"`
	RequestsCompleted int64                      `json:"requests_completed"`
	RequestsDropped   int64                      `json:"requests_dropped"`
	RequestsInFlight  int64                      `json:"requests_in_flight"`
	ThroughputRPS     float64                    `json:"throughput_rps"`
	Latency           *Latency                   `json:"latency_s"`
	Confidence        *plainConfidence           `json:"confidence_95,omitempty"`
	Generator         GeneratorResult            `json:"generator"`
	Balancers         map[string]*BalancerResult `json:"load_balancers"`
	Servers           map[string]*ServerResult   `json:"servers"`
	Edges             map[string]*EdgeResult     `json:"edges"`
	Outages           []EventResult              `json:"outages"`
	Spikes            []EventResult              `json:"spikes"`
	Replications      []ReplicationResult        `json:"replications"`
}

type plainConfidence struct {
	*Confidence
	Servers map[string]*ServerConfidence `json:"servers"`
}

func plain(r *Results) *plainResults {
	p := &plainResults{r.HorizonSeconds, r.SimulatedSeconds, r.Interrupted, r.RequestsGenerated, r.RequestsCompleted,
		r.RequestsDropped, r.RequestsInFlight, r.ThroughputRPS, r.Latency, nil, r.Generator,
		make(map[string]*BalancerResult), make(map[string]*ServerResult), make(map[string]*EdgeResult), r.Outages,
		r.Spikes, r.Replications}
	for id, b := range r.Balancers() {
		p.Balancers[id] = b
	}
	for id, s := range r.Servers() {
		p.Servers[id] = s
	}
	for id, e := range r.Edges() {
		p.Edges[id] = e
	}
	if r.Confidence != nil {
		p.Confidence = &plainConfidence{r.Confidence, make(map[string]*ServerConfidence)}
		for id := range p.Servers {
			p.Confidence.Servers[id] = r.ServerConfidence(id)
		}
	}
	return p
}

// TestWriteJSON: what is written as a stream is what encoding/json makes of the same results in memory, to the byte.
func TestWriteJSON(t *testing.T) {
	many := benchSpec(LeastConnection, 600)
	if invariants.Enabled { // it is about texts, and takes most of a minute there
		many = benchSpec(LeastConnection, 60)
	}
	many.Settings.Horizon, many.Settings.Sampled = 2, []string{RAMInUse, EdgeConcurrentConnection, ReadyQueueLen}
	m := newModel(metricsSpec(RoundRobin))
	e := newEngine(t, m, 1, 0, nil)
	if _, err := e.Run(1<<30, 12.5); err != nil {
		t.Fatal(err)
	}
	group := modeltest.MustLoad(t, Kind(), groupText)
	for name, r := range map[string]*Results{
		"one":         simulate(t, m, 1, 1),
		"three":       simulate(t, m, 1, 3),
		"interrupted": summarize(t, m, []scenario.Replication{reportOf(t, m, e, 0, 12.5)}),
		"many":        simulate(t, newModel(many), 1, 2),
		"group":       simulate(t, group.(*Model), 1, 2),
	} {
		for _, form := range [][2]string{{"", "  "}, {"  ", "  "}, {"\t", ""}, {"", ""}} {
			want, err := json.MarshalIndent(plain(r), form[0], form[1])
			if form == [2]string{} {
				want, err = json.Marshal(plain(r))
			}
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := r.WriteJSON(&got, form[0], form[1]); err != nil || !bytes.Equal(got.Bytes(), want) {
				t.Fatalf("%s, %q: %v, differs at byte %d of %d and %d:\n%.300s\n%.300s", name, form, err,
					differs(got.Bytes(), want), got.Len(), len(want), got.Bytes(), want)
			}
			if got, err := json.MarshalIndent(r, form[0], form[1]); form != [2]string{} &&
				(err != nil || !bytes.Equal(got, want)) {
				t.Errorf("%s, %q: MarshalIndent gives something else (%v)", name, form, err)
			}
		}
	}
}

// differs is where two texts do.
func differs(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// groupText has two groups, one of whose names begins with the other's.
const groupText = `rqs_input: {id: users, avg_active_users: {mean: 50}, avg_request_per_minute_per_user: {mean: 60},
  user_sampling_window: 10}
topology_graph:
  nodes:
    client: {id: client}
    load_balancers:
      - {id: lb, algorithms: round_robin, server_covered: [a, a-x]}
    servers:
      - {id: a, count: 120, server_resources: {cpu_cores: 1, ram_mb: 1024}, endpoints: [{endpoint_name: x,
          steps: [{kind: cpu_bound_operation, step_operation: {cpu_time: 0.01}}]}]}
      - {id: a-x, count: 13, server_resources: {cpu_cores: 1, ram_mb: 1024}, endpoints: [{endpoint_name: x,
          steps: [{kind: cpu_bound_operation, step_operation: {cpu_time: 0.01}}]}]}
  edges:
    - {id: in, source: users, target: client, latency: {mean: 0.003, distribution: exponential}}
    - {id: lb, source: client, target: lb, latency: {mean: 0.003, distribution: exponential}}
    - {id: to-a, source: lb, target: a, latency: {mean: 0.003, distribution: exponential}}
    - {id: to-a-x, source: lb, target: a-x, latency: {mean: 0.003, distribution: exponential}}
    - {id: from-a, source: a, target: client, latency: {mean: 0.003, distribution: exponential}}
    - {id: from-a-x, source: a-x, target: client, latency: {mean: 0.003, distribution: exponential}}
sim_settings: {total_simulation_time: 20, sample_period_s: 0.05, enabled_sample_metrics: [ready_queue_len],
  enabled_event_metrics: [rqs_clock]}
`

// TestSorted compares with sorting texts.
func TestSorted(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		texts := make([]string, rng.IntN(300))
		for i := range texts {
			texts[i] = []string{"", "lb-88--srv-88-", "a", "a-longer prefix than one word"}[rng.IntN(4)] +
				strings.Repeat("\x00", rng.IntN(2)) + fmt.Sprint(rng.IntN(1<<rng.IntN(30)))
		}
		var got []string
		for _, i := range sorted(len(texts), func(i int) string { return texts[i] }) {
			got = append(got, texts[i])
		}
		if want := slices.Sorted(slices.Values(texts)); !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
}
