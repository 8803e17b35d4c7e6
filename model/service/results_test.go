// SPDX-License-Identifier: Apache-2.0

package service

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/scenario"
)

var updateResults = flag.Bool("update-results", false, "write the expected texts in testdata/results anew")

// TestText holds the text for people against files, which are reviewed as a diff.
func TestText(t *testing.T) {
	m := newModel(metricsSpec(RoundRobin))
	one := simulate(t, m, 1, 1)
	e := newEngine(t, m, 1, 0, nil)
	if _, err := e.Run(1<<30, 12.5); err != nil {
		t.Fatal(err)
	}
	many := benchSpec(RoundRobin, 42)
	many.Settings.Horizon, many.Settings.Sampled = 5, nil
	e0 := newEngine(t, m, 1, 0, nil)
	for name, r := range map[string]*Results{
		"one":         one,
		"three":       simulate(t, m, 1, 3),
		"interrupted": summarize(t, m, []scenario.Replication{reportOf(t, m, e, 0, 12.5)}),
		"nothing":     summarize(t, m, []scenario.Replication{reportOf(t, m, e0, 0, 0)}),
		"many":        simulate(t, newModel(many), 1, 1),
	} {
		var got bytes.Buffer
		if err := r.WriteText(&got); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", "results", name+".txt")
		if *updateResults {
			if err := os.WriteFile(file, got.Bytes(), 0o666); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s: got\n%s\nwant\n%s\n(-update-results writes the files anew)", name, got.Bytes(), want)
		}
	}
}

// TestJSON: the keys that others rely on are there, and their values agree with one
// another.
func TestJSON(t *testing.T) {
	m := newModel(metricsSpec(RoundRobin))
	b, err := json.Marshal(simulate(t, m, 1, 3))
	if err != nil {
		t.Fatal(err)
	}
	var r map[string]any
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	get := func(path string) any {
		var at any = r
		for _, key := range strings.Split(path, " ") {
			m, ok := at.(map[string]any)
			if list, isList := at.([]any); isList {
				m, ok = list[0].(map[string]any)
			}
			if !ok || m[key] == nil {
				t.Fatalf("results have no %q", path)
			}
			at = m[key]
		}
		return at
	}
	number := func(path string) float64 { return get(path).(float64) }
	if number("requests_generated") !=
		number("requests_completed")+number("requests_dropped")+number("requests_in_flight") {
		t.Error("requests don't add up")
	}
	if got := number("requests_completed") / 90; math.Abs(got-number("throughput_rps")) > 1e-9 {
		t.Errorf("throughput %v, want %v", number("throughput_rps"), got)
	}
	if math.Abs(number("confidence_95 throughput_rps mean")-number("throughput_rps")) > 1e-9 {
		t.Error("the mean of equally long replications isn't the mean over all time")
	}
	last := 0.0
	for _, p := range []string{"min", "p50", "p90", "p95", "p99", "p999", "max"} {
		x := number("latency_s " + p)
		if x < last {
			t.Errorf("%s is %v, less than what comes before", p, x)
		}
		last = x
	}
	for _, path := range []string{
		"latency_s mean", "latency_s stddev", "confidence_95 latency_mean_s half_width",
		"confidence_95 latency_p95_s low",
		"confidence_95 servers a utilisation high", "confidence_95 servers b ready_queue_mean mean",
		"confidence_95 replications", "generator requests",
		"servers a utilisation", "servers a ready_queue_mean", "servers a ready_queue_max", "servers a io_mean",
		"servers a ram_mean",
		"servers a ram_max", "servers a residence_mean_s", "servers a endpoints requests",
		"servers a sampled ready_queue_len mean",
		"servers b sampled ram_in_use max", "servers c sampled event_loop_io_sleep samples",
		"load_balancers lb targets b",
		"edges lb-a sent", "edges lb-a dropped", "edges lb-a concurrent_mean",
		"edges lb-a sampled edge_concurrent_connection max",
		"outages during requests_rps", "outages before latency_p95_s", "spikes after transit_mean_s", "spikes spike_s",
		"replications latency_p95_s", "replications latency_p99_s",
	} {
		get(path)
	}
	if n := len(get("replications").([]any)); n != 3 {
		t.Errorf("%d replications, want 3", n)
	}
}

// TestConfidence: every interval is about the figure of all whole replications
// together, its error is how these spread about it, and a replication that was cut short
// counts for none.
func TestConfidence(t *testing.T) {
	m := newModel(metricsSpec(RoundRobin))
	var reps []scenario.Replication
	for i := range 3 {
		s := newSerial(t, m, uint64(i))
		s.run(t, m.Horizon())
		reps = append(reps, s.replication(t, i, m.Horizon()))
	}
	s := newSerial(t, m, 3)
	s.run(t, 4)
	short := s.replication(t, 3, 4)
	r := summarize(t, m, append(reps, short))
	whole := summarize(t, m, reps)
	rows, c := r.Replications, r.Confidence
	if len(rows) != 4 || c == nil || c.Replications != 3 || !r.Interrupted {
		t.Fatalf("%d replications, confidence %+v", len(rows), c)
	}
	check := func(what string, got *measure.Interval, mean float64, of func(i int) float64, weight func(i int) float64,
		bucket float64) {
		t.Helper()
		var squares, weights float64
		for i := range 3 {
			weights += weight(i) / 3
		}
		for i := range 3 {
			d := (of(i) - mean) * weight(i) / weights
			squares += d * d
		}
		want := 4.302653 * math.Sqrt(squares/2/3) // t(0.975, 2)
		if got == nil || !near(got.Mean, mean) || math.Abs(got.HalfWidth-want) > 1e-6*want+bucket*mean ||
			got.HalfWidth < want*(1-1e-6) || !(want > 0) || got.N != 3 {
			t.Errorf("%s: %+v, want %v ± %v", what, got, mean, want)
		}
	}
	equal := func(int) float64 { return 1 }
	requests := func(i int) float64 { return float64(rows[i].Completed) }
	check("throughput", &c.ThroughputRPS, whole.ThroughputRPS,
		func(i int) float64 { return float64(rows[i].Completed) / 30 }, equal, 0)
	check("mean", c.LatencyMean, whole.Latency.Mean, func(i int) float64 { return *rows[i].LatencyMean }, requests, 0)
	check("p50", c.LatencyP50, whole.Latency.P50, func(i int) float64 { return *rows[i].LatencyP50 }, equal, 1e-3)
	check("p95", c.LatencyP95, whole.Latency.P95, func(i int) float64 { return *rows[i].LatencyP95 }, equal, 1e-3)
	check("p99", c.LatencyP99, whole.Latency.P99, func(i int) float64 { return *rows[i].LatencyP99 }, equal, 1e-3)
	for i := range m.spec.Servers {
		id := m.spec.Servers[i].ID
		one := func(k int) *ServerResult { return summarize(t, m, reps[k:k+1]).Server(id) }
		check(id+" utilisation", &r.ServerConfidence(id).Utilisation, whole.Server(id).Utilisation,
			func(k int) float64 { return one(k).Utilisation }, equal, 0)
		check(id+" ready queue", &r.ServerConfidence(id).ReadyQueueMean, whole.Server(id).ReadyQueueMean,
			func(k int) float64 { return one(k).ReadyQueueMean }, equal, 0)
	}
	if r := summarize(t, m, append(reps[:1:1], short)); r.Confidence != nil {
		t.Errorf("one whole replication gave the confidence %+v", r.Confidence)
	}
}

// TestPercentilesMerge: histograms of several spans and replications merge to
// exactly what one histogram of all values would have, and percentiles are within
// their precision of those of the sorted values.
func TestPercentilesMerge(t *testing.T) {
	s := metricsSpec(RoundRobin)
	withEvents := simulate(t, newModel(s), 3, 2)
	s = metricsSpec(RoundRobin)
	d := newSerial(t, newModel(s), 3)
	d.keep = true
	d.run(t, 30)
	c := d.box("client", rankResponse).(*collector)
	c.recorder.report()
	if n := c.recorder.done; n != c.recorder.spans.Count() || n < 8 {
		t.Fatalf("%d spans, want %d", n, c.recorder.spans.Count())
	}
	all := newRecorder(nil, 30)
	for _, e := range d.handled {
		if e.level == d.levels[nodeClient*rankCount+rankResponse] {
			r, _ := getRequest(e.data)
			if err := all.record(e.epoch, e.epoch-r.born); err != nil {
				t.Fatal(err)
			}
		}
	}
	tl := newTally(d.model)
	if err := tl.Add(d.replication(t, 0, 30)); err == nil {
		t.Error("a report that was asked for twice was believed")
	}
	rerun := newSerial(t, d.model, 3)
	rerun.run(t, 30)
	if err := tl.Add(rerun.replication(t, 0, 30)); err != nil {
		t.Fatal(err)
	}
	merged := &tl.latency
	var want measure.Latencies
	if rest, err := want.Read(all.report()); err != nil || len(rest) > 0 {
		t.Fatalf("%d bytes are left, %v", len(rest), err)
	}
	moments := merged.Moments
	for p := 0.5; p < 100; p += 0.5 {
		if merged.P(p) != want.P(p) {
			t.Errorf("p%v of the merged is %v, want %v", p, merged.P(p), want.P(p))
		}
	}
	if moments.Count != want.Count || moments.Min != want.Min || moments.Max != want.Max ||
		!near(moments.Mean, want.Mean) {
		t.Errorf("merged %+v, want %+v", moments, want)
	}
	if withEvents.Latency.P50 <= withEvents.Latency.Min {
		t.Errorf("%+v", withEvents.Latency)
	}
}
