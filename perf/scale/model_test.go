// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/speedup"
	"github.com/disco-sim/disco/model/modeltest"
)

// only is a machine whose workers take time for events and nothing else.
func only(workers, pending int, lookahead, remote float64) engineParams {
	return engineParams{workers: workers, near: workers, pending: pending, lookahead: lookahead, remote: remote,
		warm: 1, end: 3, costs: costs{Event: 100, Pass: 1e-3, Latency: 1e-3, Far: 1e-3}}
}

// The limits of the formula.
func TestFormulaLimits(t *testing.T) {
	near := func(what string, got, want, tolerance float64) {
		t.Helper()
		if math.Abs(got-want) > tolerance*want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	for _, n := range []int{1, 2, 8, 64, 1000} {
		one := 1e9 / 100.0
		speed := func(p engineParams) float64 { return predict(p).Rate / one }
		near("much to do in a window", speed(only(n, 1e7, 1, 0.5)), float64(n), 0.005)
		p := only(n, 1000, 0.1, 0)
		near("imbalance only", speed(p), float64(n)/speedup.Imbalance(n, 100), 0.001)
		if n == 1 {
			continue
		}
		p.Latency, p.Far = 1e6, 1e6
		half := 50 * 100.0 * speedup.Imbalance(n, 50)
		near("latency only", predict(p).Window, half+1e6, 0.001)
		p.Wake = 1e6
		near("latency and wake", predict(p).Window, half+2e6, 0.001)
		p.Wake = 0
		p.Send, p.Receive = 300, 200
		with := p
		with.remote = 1
		if predict(with).Window <= predict(p).Window {
			t.Errorf("%d workers: events to others take no time", n)
		}
		p = only(n, 1e6, 1, 0)
		p.Peer = 10
		near("passes", predict(p).Busy, 1e6*(100+10*float64(n-1)/batchMax), 0.001)
	}
}

// The greatest of n Poisson numbers, where it is known.
func TestImbalance(t *testing.T) {
	// Two of mean 1: 1 + E|X-Y|/2, and E|X-Y| = 2 e^-2 (I0(2) + I1(2)).
	want := 1 + math.Exp(-2)*(2.2795853023360673+1.5906368546373291)
	if got := speedup.Imbalance(2, 1); math.Abs(got-want) > 1e-9 {
		t.Errorf("two of mean 1: %v, want %v", got, want)
	}
	// Two of a large mean: as normal ones, 1 + 1/sqrt(pi mean).
	if got := speedup.Imbalance(2, 1e4); math.Abs(got-(1+1/math.Sqrt(math.Pi*1e4))) > 1e-5 {
		t.Errorf("two of mean 10^4: %v", got)
	}
	for n := 2; n <= 1024; n *= 2 {
		if a, b := speedup.Imbalance(n, 50), speedup.Imbalance(n*2, 50); !(b > a) {
			t.Errorf("%d: %v, %d: %v, want more", n, a, 2*n, b)
		}
	}
}

// The simulated engine gives the same however it is spread, and keeps within what is possible.
func TestEngineSimulation(t *testing.T) {
	for _, p := range []engineParams{only(1, 100, 0.1, 0.5), only(2, 300, 0.05, 0.1), only(5, 100, 0.3, 1),
		{workers: 6, near: 2, pending: 50, lookahead: 0.2, remote: 0.3, warm: 0.5, end: 2, costs: costs{
			Event: 70, Peers: 5, Send: 40, Receive: 50, Pass: 200, Peer: 20, FarPeer: 30, Wake: 60,
			Latency: 100, Far: 400}}} {
		text := p.yaml()
		e := modeltest.MustLoad(t, engineKind(), string(text))
		if got := e.(*engine).engineParams; got != p {
			t.Errorf("%+v was read as %+v", p, got)
		}
		modeltest.ComparePlacements(t, e, 1)
		total := modeltest.Summarize(t, e, 1, 1).(*engineTotal)
		want := float64(p.workers*p.pending) * (p.end - p.warm)
		if math.Abs(total.Events-want) > 8*math.Sqrt(want) {
			t.Errorf("%+v: %v events, want about %v", p, total.Events, want)
		}
		if best := float64(p.workers) * 1e9 / p.Event; total.Rate > best*1.01 || total.Rate < 0.02*best {
			t.Errorf("%+v: %v events/s, at most %v are possible", p, total.Rate, best)
		}
	}
}

// With no latency and no costs but those of events, a worker of two waits only for the other's greater load; with a
// latency that is far more than a window's work, a lookahead takes a latency and half a window.
func TestEngineSimulationLimits(t *testing.T) {
	speed := func(p engineParams) float64 {
		return modeltest.Summarize(t, newEngine(p), 1, 1).(*engineTotal).Rate * 100e-9
	}
	if got := speed(only(2, 20_000, 0.2, 0)); got < 1.97 || got > 2.01 {
		t.Errorf("much to do in a window: %v times as fast, want nearly 2", got)
	}
	p := only(2, 1000, 0.1, 0)
	p.Latency, p.Far = 1e6, 1e6
	want := predict(p).Rate * 100e-9
	if got := speed(p); math.Abs(got-want) > 0.15*want {
		t.Errorf("latency only: %v times as fast, the formula says %v", got, want)
	}
}

// The whole of `model`: a round is measured, a second one added, and all tables computed from them.
func TestModelCommand(t *testing.T) {
	dir := t.TempDir()
	file, rows := filepath.Join(dir, "readings.json"), filepath.Join(dir, "rows.json")
	args := []string{"model", "-json", file, "-events", "20000", "-most", "8", "-rounds"}
	if out := runCommand(t, exitUsage, append(args, "0")...); !strings.Contains(out, "there are no readings") {
		t.Errorf("without readings: %s", out)
	}
	runCommand(t, 0, append(args, "1")...)
	all, err := readReadings(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range all {
		if len(values) != 1 || !(values[0] > 0) {
			t.Errorf("%s: %v", name, values)
		}
	}
	doc := &document{}
	for _, n := range []int{100, 10_000} {
		row := newRow(pholdCell(curveNodes, n, n, 1, 1))
		row.Rounds, row.Rate = 1, 1e9/float64(n)
		doc.put(row)
	}
	if err := doc.write(rows); err != nil {
		t.Fatal(err)
	}
	event := eventTimes(doc)
	for nodes, want := range map[float64]float64{10: 10, 100: 100, 1000: 1000, 10_000: 10_000, 1e6: 10_000} {
		if got := event(nodes); nodes >= 100 && math.Abs(got-want) > 1e-6*want {
			t.Errorf("%v nodes: %v ns for an event, want %v", nodes, got, want)
		}
	}
	out := runCommand(t, 0, append(args, "0", "-rows", rows)...)
	for _, want := range []string{"1 rounds with near cores",
		"| 0.5 | 0.003 | ", "| 8 | 0.1 | 0.3 | ", "| 1000 | 10000 | "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if all, err = readReadings(file); err != nil || len(all[nameLatency]) != 1 {
		t.Errorf("computing has changed the readings: %v", err)
	}
}

// Rounds are divided by the latency that was measured in them, and far ones give what is far.
func TestSplit(t *testing.T) {
	all := readings{nameLatency: {50, 190, 60, 240}, "x": {1, 2, 3, 4}}
	near, far := all.split()
	if !slices.Equal(near["x"], []float64{1, 3}) || !slices.Equal(far["x"], []float64{2, 4}) {
		t.Errorf("near %v, far %v", near, far)
	}
	if c := costsOfBoth(all, 0.1, 9); c.Latency != 55 || c.Far != 215 {
		t.Errorf("%+v", c)
	}
	if c := costsOfBoth(near, 0.1, 9); c.Far != 9*55 {
		t.Errorf("without far rounds: %+v", c)
	}
}
