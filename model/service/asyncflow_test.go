// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"testing"

	"github.com/disco-sim/disco/scenario"
)

// asyncflowFolder has files of AsyncFlow's own, in a folder beside the project.
const asyncflowFolder = "../../../shared/data/asyncflow"

func loadAsyncFlow(t *testing.T, name string) *Model {
	t.Helper()
	doc, err := scenario.ReadFile(filepath.Join(asyncflowFolder, name))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s isn't there: this test needs AsyncFlow's files in %s", name, asyncflowFolder)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := Kind().Load(doc, scenario.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s.(*Model)
}

// TestAsyncFlowSingleServer holds single_server.yml against its closed form: an
// M/D/1 core with a fixed I/O time behind it and three exponential edges that lose
// one request in a hundred each.
func TestAsyncFlowSingleServer(t *testing.T) {
	r := simulate(t, loadAsyncFlow(t, "single_server.yml"), 1, fewer(20))
	within(t, "mean latency", latencyMeans(r), 0.110017, 0.001)
	within(t, "throughput", throughputs(r), 32.34, 0.04)
	for _, c := range []struct{ got, want float64 }{{r.Latency.P50, 0.10902}, {r.Latency.P95, 0.11989},
		{r.Latency.P99, 0.12622}} {
		if math.Abs(c.got-c.want) > 0.002*c.want {
			t.Errorf("percentile %v, want %v", c.got, c.want)
		}
	}
	s, edge := r.Server("srv-1"), maps.Collect(r.Edges())["server-to-client"]
	rate := 100 * 20 / 60.0 * 0.99 * 0.99 // what two lossy edges leave
	for _, c := range []struct {
		what            string
		got, want, part float64
	}{
		{"utilisation", s.Utilisation, rate * 0.001, 0.03},
		{"requests in I/O", s.IOMean, rate * 0.1, 0.03},
		{"MB in use", s.RAMMean, 100 * rate * 0.101017, 0.03},
		{"sampled I/O", s.Sampled[EventLoopIOSleep].Mean, s.IOMean, 0.005},
		{"sampled MB", s.Sampled[RAMInUse].Mean, s.RAMMean, 0.005},
		{"on an edge", edge.ConcurrentMean, rate * 0.99 * 0.003, 0.04},
		{"sampled on an edge", edge.Sampled[EdgeConcurrentConnection].Mean, rate * 0.99 * 0.003, 0.08},
	} {
		if math.Abs(c.got-c.want) > c.part*c.want {
			t.Errorf("%s: %v, want about %v", c.what, c.got, c.want)
		}
	}
}

// TestAsyncFlowEvents holds event_inj_lb.yml against its closed form, with the five
// events in it.
func TestAsyncFlowEvents(t *testing.T) {
	r := simulate(t, loadAsyncFlow(t, "event_inj_lb.yml"), 1, fewer(20))
	within(t, "mean latency", latencyMeans(r), 0.02754, 0.01)
	within(t, "throughput", throughputs(r), 38.42, 0.04)
	for _, o := range r.Outages {
		other := map[string]string{"srv-1": "srv-2", "srv-2": "srv-1"}[o.Target]
		if o.During.RequestsRPS != 0 {
			t.Errorf("%s got %v requests/s while it was down", o.Target, o.During.RequestsRPS)
		}
		if part := o.After.RequestsRPS / o.After.ThroughputRPS; math.Abs(part-0.5/0.98) > 0.02 {
			t.Errorf("after its outage %s gets %v of the completed requests, want half of those before two edges",
				o.Target, part)
		}
		if r.Server(other).Requests == 0 {
			t.Errorf("%s got nothing", other)
		}
	}
	for _, s := range r.Spikes {
		// The spike adds to all, or to half of them on the edge of one server.
		share := map[string]float64{"lb-srv2": 0.5}[s.Target]
		if share == 0 {
			share = 1
		}
		if d := *s.During.LatencyMean - *s.Before.LatencyMean; math.Abs(d-share*s.SpikeS) > 0.05*s.SpikeS {
			t.Errorf("spike %s raises the mean latency by %v, want %v", s.ID, d, share*s.SpikeS)
		}
		if d := *s.During.TransitMean - *s.Before.TransitMean; math.Abs(d-s.SpikeS) > 0.02*s.SpikeS {
			t.Errorf("spike %s raises the mean transit by %v, want %v", s.ID, d, s.SpikeS)
		}
	}
}
