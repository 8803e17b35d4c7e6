// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
)

// single are replications of one sample each.
func single(values ...float64) []Series {
	var s []Series
	for _, v := range values {
		s = append(s, Series{Y: []float64{v}, X: []float64{1}})
	}
	return s
}

// TestRatioOfReplications compares with the textbook: 1 … 5 has mean 3, standard
// deviation √2.5, and t for 4 degrees of freedom at 95 % is 2.776445.
func TestRatioOfReplications(t *testing.T) {
	i, ok := Ratio(single(1, 2, 3, 4, 5))
	want := 2.776445105 * math.Sqrt(2.5/5)
	if !ok || i.Mean != 3 || i.N != 5 || math.Abs(i.HalfWidth-want) > 1e-8 || math.Abs(i.Low-(3-want)) > 1e-8 ||
		math.Abs(i.High-(3+want)) > 1e-8 {
		t.Errorf("got %+v, want 3 ± %v", i, want)
	}
	if _, ok := Ratio([]Series{{Y: []float64{1, 2}, X: []float64{0, 0}}}); ok {
		t.Error("a ratio over nothing")
	}
	if _, ok := Ratio(nil); ok {
		t.Error("a ratio of no replication")
	}
}

// TestUnknown: no interval of one value, of what was never seen, and of a single run in
// which everything depends on everything; and null in JSON.
func TestUnknown(t *testing.T) {
	walk := Series{}
	for k := range 32 {
		walk.Y, walk.X = append(walk.Y, 10+math.Sin(float64(k)/10)), append(walk.X, 1)
	}
	for name, reps := range map[string][]Series{"one value": single(7), "zeros": single(0, 0, 0),
		"a single run that drifts": {walk}} {
		i, ok := Ratio(reps)
		if !ok || i.Known() || !i.Holds(1e300) {
			t.Errorf("%s: %+v", name, i)
		}
		b, err := json.Marshal(i)
		var back struct {
			Mean float64  `json:"mean"`
			Half *float64 `json:"half_width"`
			Low  *float64 `json:"low"`
			High *float64 `json:"high"`
		}
		if err != nil || json.Unmarshal(b, &back) != nil || back.Half != nil || back.Low != nil || back.High != nil ||
			back.Mean != i.Mean {
			t.Errorf("%s: %s, %v", name, b, err)
		}
	}
	if Percentile(50, []*Latencies{{}, {}}) != nil {
		t.Error("a percentile of nothing")
	}
}

// TestCut: intervals don't reach what can't be, and still hold the estimate.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		in        Interval
		most      float64
		low, high float64
		half      float64
	}{
		{Interval{Mean: 0.1, Low: -0.3, High: 0.7, HalfWidth: 0.6}, 1, 0, 0.7, 0.6},
		{Interval{Mean: 0.9, Low: 0.7, High: 1.3, HalfWidth: 0.4}, 1, 0.7, 1, 0.2},
		{Interval{Mean: 5, Low: -1, High: 9, HalfWidth: 6}, math.Inf(1), 0, 9, 5},
		{Interval{Mean: 1 + 1e-15, Low: 0.75, High: 2, HalfWidth: 1}, 1, 0.75, 1 + 1e-15, 0.25},
		{Unknown(0.5, 1), 1, math.Inf(-1), math.Inf(1), math.Inf(1)},
	} {
		got := c.in.Clip(c.most)
		if got.Low != c.low || got.High != c.high ||
			!(got.HalfWidth == c.half || math.Abs(got.HalfWidth-c.half) < 1e-12) || got.Mean != c.in.Mean ||
			!got.Holds(got.Mean) {
			t.Errorf("%+v up to %v: got %+v, want %v to %v ± %v", c.in, c.most, got, c.low, c.high, c.half)
		}
	}
	few := []*Latencies{{}, {}}
	for k, seconds := range []float64{0.001, 1} {
		if err := few[k].Add(seconds); err != nil {
			t.Fatal(err)
		}
	}
	if i := Percentile(50, few); !i.Known() || i.Low != 0 {
		t.Errorf("a percentile of durations: %+v", i)
	}
}

// autoregressive is a replication of n batches, neighbours of which have the correlation
// lag; its innovations are exponential, so it is skewed. The mean is 0.
func autoregressive(rnd *rand.Rand, n int, lag float64) Series {
	s := Series{}
	x := 0.0
	for k := range 200 + n {
		x = lag*x + rnd.ExpFloat64() - 1
		if k >= 200 {
			s.Y, s.X = append(s.Y, x), append(s.X, 1)
		}
	}
	return s
}

// TestRatioCovers: the interval holds the truth as often as it says, for batches that
// depend on each other, for replications of one sample, for skewed ones: chance moves
// the share by less than slack about 94 to 96 %.
func TestRatioCovers(t *testing.T) {
	const seed = 7
	runs, slack := 3000, 0.016
	if testing.Short() {
		runs, slack = 400, 0.045
	}
	rnd := rand.New(rand.NewPCG(seed, 0))
	for _, c := range []struct {
		reps, batches int
		lag           float64
	}{{1, 32, 0}, {3, 32, 0.3}, {10, 32, 0.5}, {10, 32, 0.9}, {20, 1, 0}, {10, 1, 0}, {50, 32, 0.7}} {
		hits, known := 0, 0
		for range runs {
			var s []Series
			for range c.reps {
				s = append(s, autoregressive(rnd, c.batches, c.lag))
			}
			if i, _ := Ratio(s); i.Known() {
				known++
				if i.Holds(0) {
					hits++
				}
			}
		}
		if share := float64(hits) / float64(known); share < 0.94-slack || share > 0.96+slack || known < runs/2 {
			t.Errorf("seed %d, %+v: %.3f of %d intervals hold the truth, want 0.95", seed, c, share, known)
		}
	}
}

// TestPercentileCovers: so do those of percentiles, also where a histogram's bucket is
// wide against what the replications say. There they hold it more often.
func TestPercentileCovers(t *testing.T) {
	const seed, reps, n = 8, 10, 400
	runs, least := 400, 0.915
	if testing.Short() {
		runs, least = 60, 0.83
	}
	rnd := rand.New(rand.NewPCG(seed, 0))
	for _, c := range []struct {
		name  string
		draw  func() float64
		truth func(p float64) float64
		most  float64
	}{
		{"exponential", rnd.ExpFloat64, func(p float64) float64 { return -math.Log(1 - p) }, 0.985},
		{"narrow", func() float64 { return 1 + 1e-4*rnd.Float64() }, func(p float64) float64 { return 1 + 1e-4*p }, 1},
		{"one value", func() float64 { return 0.0123456789 }, func(float64) float64 { return 0.0123456789 }, 1},
	} {
		for _, p := range []float64{50, 95, 99} {
			hits := 0
			for range runs {
				var sets []*Latencies
				for range reps {
					l := &Latencies{}
					for range n {
						if err := l.Add(c.draw()); err != nil {
							t.Fatal(err)
						}
					}
					sets = append(sets, l)
				}
				if Percentile(p, sets).Holds(c.truth(p / 100)) {
					hits++
				}
			}
			if share := float64(hits) / float64(runs); share < least || share > c.most && !testing.Short() {
				t.Errorf("seed %d, %s, p%v: %.3f of the intervals hold the truth, want 0.95", seed, c.name, p, share)
			}
		}
	}
}
