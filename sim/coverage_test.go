// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/disco-sim/disco/internal/seed"
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/sim/dist"
)

// queue is M/M/c with services of 1 s on average, of processes.
func queue(servers int, load float64) func(b *Builder) {
	return func(b *Builder) {
		arrivals := dist.Exponential(1 / (load * float64(servers))).Named("arrivals")
		service := dist.Exponential(1).Named("service")
		b.Node("q", func(n *Node) {
			wait, present, served := n.Tally("wait"), n.Gauge("present"), n.Counter("served")
			free := servers
			var turn Signal
			n.Each(arrivals, func(p *Process) {
				arrived := p.Now()
				present.Add(1)
				if free > 0 {
					free--
				} else {
					turn.Wait(p)
				}
				wait.Add(p.Now() - arrived)
				p.HoldFor(service)
				served.Inc()
				present.Add(-1)
				if !turn.SendOne() {
					free++
				}
			})
		})
	}
}

// queueTruth is what theory says of it (Erlang C).
func queueTruth(servers int, load float64) map[string]float64 {
	c := float64(servers)
	term, sum := 1.0, 0.0
	for k := range servers {
		sum += term
		term *= c * load / float64(k+1)
	}
	waits := term / (1 - load) / (sum + term/(1-load))
	spare := c * (1 - load)
	truth := map[string]float64{"wait": waits / spare, "present": c*load + c*load*waits/spare, "served": c * load}
	for _, p := range []float64{90, 95, 99} {
		truth[percentileName(p)] = math.Log(waits/(1-p/100)) / spare
	}
	return truth
}

// The intervals of every kind of statistic hold what theory says as often as they promise.
func TestCoverage(t *testing.T) {
	for _, c := range []struct {
		servers         int
		load            float64
		horizon, warmup float64
		replications    int
		antithetic      bool
	}{
		{1, 0.5, 1100, 100, 10, false},
		{3, 0.7, 1100, 100, 10, false},
		{1, 0.5, 600, 100, 20, true},
		{1, 0.8, 12_500, 500, 1, false},
		{3, 0.7, 6100, 100, 1, false},
	} {
		name := fmt.Sprintf("M/M/%d, load %v, %d of %v s after %v s, pairs: %v", c.servers, c.load, c.replications,
			c.horizon-c.warmup, c.warmup, c.antithetic)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			truth := queueTruth(c.servers, c.load)
			modeltest.Coverage(t, func(seed uint64) map[string]modeltest.Covered {
				m := model(t, c.horizon, c.warmup, queue(c.servers, c.load))
				m.antithetic = c.antithetic
				r := modeltest.Summarize(t, m, seed, c.replications).(*Results)
				out := map[string]modeltest.Covered{}
				add := func(name string, i *measure.Interval) {
					if i.Known() {
						out[name] = modeltest.Covered{Low: i.Low, High: i.High, Truth: truth[name]}
					}
				}
				add("wait", r.Statistic("q/wait").Mean)
				add("present", r.Statistic("q/present").Mean)
				add("served", r.Statistic("q/served").Rate)
				for _, p := range []float64{90, 95, 99} {
					add(percentileName(p), r.Statistic("q/wait").Percentile(p))
				}
				return out
			})
		})
	}
}

// means are what several experiments, each of so many replications, find for a statistic, and how wide intervals are.
func means(t *testing.T, m *Model, name string, from, experiments, replications int) (list []float64, width float64) {
	for i := range experiments {
		s := modeltest.Summarize(t, m, uint64(from+i), replications).(*Results).Statistic(name)
		mean := s.Mean
		if mean == nil {
			mean = s.Rate
		}
		list = append(list, mean.Mean)
		width += mean.Width() / float64(experiments)
	}
	return list, width
}

func variance(list []float64) float64 {
	var m measure.Moments
	for _, x := range list {
		m.Add(x)
	}
	return m.M2 / float64(m.Count-1)
}

// In M/M/1 the customers present rise with every service and fall with every gap, so a replication of opposite numbers
// makes up for what is unusual in its partner; and the intervals, for which a pair is one sample, get narrower.
func TestAntithetic(t *testing.T) {
	single, paired := model(t, 300, 0, queue(1, 0.5)), model(t, 300, 0, queue(1, 0.5))
	paired.antithetic = true
	r := modeltest.Summarize(t, paired, 1, 5).(*Results)
	if r.Samples != 3 || r.Statistic("q/wait").Mean.N != 3 {
		t.Errorf("five replications are %d samples, intervals have %d, want 3: two pairs and one",
			r.Samples, r.Statistic("q/wait").Mean.N)
	}
	if testing.Short() {
		return // what follows are figures, the same in every build
	}
	for name, most := range map[string]float64{"q/present": 0.85, "q/served": 0.65} {
		alone, _ := means(t, single, name, 1, 300, 2)
		pairs, _ := means(t, paired, name, 1, 300, 2)
		_, width := means(t, single, name, 1, 20, 20)
		_, narrower := means(t, paired, name, 1, 20, 20)
		t.Logf("%s: variance %.3g, in pairs %.3g; width %.3g, in pairs %.3g", name, variance(alone), variance(pairs),
			width, narrower)
		if variance(pairs) > most*variance(alone) || narrower > width {
			t.Errorf("%s: variance %v, in pairs %v, want at most %v of it; width %v, in pairs %v, want less", name,
				variance(alone), variance(pairs), most, width, narrower)
		}
	}
}

// Variants of a model see the same arrivals and services where they have the same seed, so what differs between them
// is known better.
func TestCommonRandomNumbers(t *testing.T) {
	if testing.Short() {
		t.Skip("figures, the same in every build")
	}
	const experiments = 100
	slow, fast := model(t, 300, 0, queue(1, 0.7)), model(t, 300, 0, queue(1, 0.65))
	a, _ := means(t, slow, "q/wait", 1, experiments, 1)
	same, _ := means(t, fast, "q/wait", 1, experiments, 1)
	others, _ := means(t, fast, "q/wait", 1+experiments, experiments, 1)
	var common, independent []float64
	for i := range a {
		common, independent = append(common, a[i]-same[i]), append(independent, a[i]-others[i])
	}
	t.Logf("variance of the difference %.3g, with other seeds %.3g", variance(common), variance(independent))
	if variance(common) > 0.3*variance(independent) {
		t.Errorf("variance of the difference %v, with other seeds %v", variance(common), variance(independent))
	}
}

// However what is recorded is split over nodes, all together is the same: exactly where nothing is rounded.
func TestMergeSplits(t *testing.T) {
	rnd := seed.Rand(t)
	type record struct{ at, x float64 }
	for range 30 {
		var records []record
		for at := 0.0; at < 63; at += rnd.Float64() {
			records = append(records, record{at, float64(rnd.IntN(100) - 20)})
		}
		owner := make([]int, len(records))
		split := func(nodes int) *Results {
			for i := range owner {
				owner[i] = rnd.IntN(nodes)
			}
			return summarize(t, model(t, 64, 8, func(b *Builder) {
				b.Nodes("a", nodes, func(n *Node) {
					count, tally := n.Counter("count", OverTime(8)), n.Tally("tally", Histogram(-10, 70, 8))
					n.Start(func(c *Context) {
						for i, r := range records {
							if owner[i] == n.Index() {
								c.At(r.at, func(*Context) {
									count.Add(math.Abs(r.x))
									tally.Add(r.x)
								})
							}
						}
					})
				})
			}), 1)
		}
		whole, parts := split(1), split(1+rnd.IntN(6))
		a, b := whole.Statistic("a/tally"), parts.Statistic("a/tally")
		if !slices.Equal(a.Histogram.Counts, b.Histogram.Counts) || *a.Count != *b.Count ||
			*a.Min != *b.Min || *a.Max != *b.Max ||
			a.Percentile(50).Mean != b.Percentile(50).Mean || math.Abs(a.Mean.Mean-b.Mean.Mean) > 1e-12 ||
			math.Abs(*a.StdDev-*b.StdDev) > 1e-12 {
			t.Fatalf("%+v\n%+v", a, b)
		}
		a, b = whole.Statistic("a/count"), parts.Statistic("a/count")
		if *a.Total != *b.Total || math.Abs(a.Rate.Low-b.Rate.Low) > 1e-12 || len(a.OverTime.Values) != 8 {
			t.Fatalf("%+v\n%+v", a, b)
		}
		for k := range a.OverTime.Values {
			if math.Abs(*a.OverTime.Values[k]-*b.OverTime.Values[k]) > 1e-12 {
				t.Fatalf("%v, want %v", *b.OverTime.Values[k], *a.OverTime.Values[k])
			}
		}
	}
}

// What an accumulator keeps doesn't grow with the number of replications.
func TestBounded(t *testing.T) { modeltest.Bounded(t, model(t, 50, 10, shop), 0) }
