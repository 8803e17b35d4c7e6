// SPDX-License-Identifier: Apache-2.0

package network

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
)

// TestText holds the text of a small run against the one that was reviewed.
func TestText(t *testing.T) {
	s := storm(t)
	s.Events = append(s.Events[:6:6], s.Events[9])
	for n, replications := range map[string]int{"one": 1, "three": 3} {
		r := modeltest.Summarize(t, New(s), 1, replications).(*Results)
		modeltest.Text(t, "testdata/results-"+n+".txt", r, *update)
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
	}
}

// TestNothing: a run in which nothing was sent or nothing arrived has results too.
func TestNothing(t *testing.T) {
	s := oneLink(t, 1e-9, fixed, 5, 10)
	s.Events = []Event{{ID: "e", Kind: LinkDown, Targets: []Target{{Name: "l", Node: -1, Cables: []int{0}}}, From: 0,
		To: 100}}
	r := modeltest.Summarize(t, New(s), 1, 2).(*Results)
	var b strings.Builder
	if err := r.WriteText(&b); err != nil || !strings.Contains(b.String(), "no packet was delivered") ||
		r.Outages[0].Before != nil || r.Outages[0].After != nil {
		t.Errorf("%v\n%s", err, &b)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}

// TestDefects: parts that are missing, damaged or don't add up are refused by name.
func TestDefects(t *testing.T) {
	m := New(storm(t))
	o, err := modeltest.Run(m, modeltest.Config{Seed: 2})
	if err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(p *nodeReport) *nodeReport{
		"the report of b/router is missing": func(*nodeReport) *nodeReport { return nil },
		"b took in":                         func(p *nodeReport) *nodeReport { p.Born++; return p },
		"doesn't add up, a defect of disco": func(p *nodeReport) *nodeReport { p.Channels[0].Sent--; return p },
		"was " +
			"handed": func(p *nodeReport) *nodeReport { p.Channels[0].Lost[lostRandom]++; return p },
		"its numbers are cut short or " +
			"wrong": func(p *nodeReport) *nodeReport { p.Flows = p.Flows[:len(p.Flows)-1]; return p },
		"a set of durations are cut " +
			"short": func(p *nodeReport) *nodeReport { p.Latencies = p.Latencies[:5]; return p },
		"1 channels and": func(p *nodeReport) *nodeReport { p.Channels = p.Channels[:1]; return p },
		"spans, want":    func(p *nodeReport) *nodeReport { p.SentIn = p.SentIn[1:]; return p },
		"but":            func(p *nodeReport) *nodeReport { p.Received[0]--; return p },
	} {
		rep := o.Replication
		rep.Reports = append([][]byte(nil), rep.Reports...)
		p, err := decodeReport(rep.Reports[1])
		if err != nil {
			t.Fatal(err)
		}
		rep.Reports[1] = nil
		if p = spoil(p); p != nil {
			if rep.Reports[1], err = p.encode(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := modeltest.Sum(m, rep); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
	if _, err := modeltest.Sum(m); err == nil {
		t.Error("no replication was summed up")
	}
	if _, err := modeltest.Sum(m, o.Replication); err != nil {
		t.Error(err)
	}
}

// TestLoads: the rates that placement balances are those of a run.
func TestLoads(t *testing.T) {
	s := mustLoad(t,
		"model: network\nhorizon: 20\ntopology: testdata/net.gml\nrouting: {}\ntraffic: { matrix: gravity, mass: "+
			"Mass, packets_per_second: 2000 }\n")
	m := New(s)
	r := modeltest.Summarize(t, m, 1, 1).(*Results)
	carried := make(map[[2]string]float64)
	for _, l := range r.Links {
		carried[[2]string{l.From, l.To}] += float64(l.Packets) / r.SimulatedSeconds
	}
	for _, l := range m.Graph().Links {
		ends := [2]string{m.Graph().Nodes[l.From.Node].Name, m.Graph().Nodes[l.To.Node].Name}
		if got := carried[ends]; l.Rate > 20 && !near(got, l.Rate, 0.1) || l.Rate == 0 && got > 0 {
			t.Errorf("%v carries %v packets/s, %v were expected", ends, got, l.Rate)
		}
	}
}
