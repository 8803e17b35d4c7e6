// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/overviewtest"
	"github.com/disco-sim/disco/internal/seed"
	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/sim/dist"
)

var update = flag.Bool("update", false, "write golden files anew")

// model makes a model with a warm-up.
func model(t testing.TB, horizon, warmup float64, build func(b *Builder)) *Model {
	t.Helper()
	m, err := New("test", func(b *Builder) {
		b.Horizon(horizon)
		b.m.warmup = warmup
		build(b)
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func summarize(t testing.TB, m *Model, n int) *Results {
	t.Helper()
	return modeltest.Summarize(t, m, 1, n).(*Results)
}

// What is recorded before the warm-up's end isn't counted, and a gauge counts from there on, though nothing happens
// at that moment.
func TestWarmup(t *testing.T) {
	m := model(t, 10, 4, func(b *Builder) {
		b.Node("a", func(n *Node) {
			count, tally, gauge := n.Counter("count"), n.Tally("tally"), n.Gauge("gauge")
			still, never := n.Gauge("still"), n.Gauge("never")
			n.Start(func(c *Context) {
				gauge.Set(8)
				still.Set(3)
				gauge.Set(2)
				for _, at := range []float64{1, 3.9, 4, 9} {
					c.At(at, func(c *Context) {
						count.Add(at)
						tally.Add(-at)
					})
				}
				c.At(6, func(c *Context) { gauge.Add(1) })
				c.At(9, func(c *Context) { gauge.Set(-1) })
			})
			_ = never
		})
	})
	r := summarize(t, m, 2)
	count, tally, gauge := r.Statistic("a/count"), r.Statistic("a/tally"), r.Statistic("a/gauge")
	if *count.Total != 26 || math.Abs(count.Rate.Mean-13.0/6) > 1e-12 || r.Figure("a/count") != 13 {
		t.Errorf("count: %v, %v", *count.Total, count.Rate)
	}
	if *tally.Count != 4 || tally.Mean.Mean != -6.5 || *tally.Min != -9 || *tally.Max != -4 || *tally.StdDev != 2.5 ||
		tally.Percentile(50).Mean != -9 || tally.Percentile(99).Mean != -4 {
		t.Errorf("tally: %+v", tally)
	}
	if want := (2*2 + 3*3 - 1.0) / 6; math.Abs(gauge.Mean.Mean-want) > 1e-12 || *gauge.Min != -1 || *gauge.Max != 3 ||
		*gauge.End != -1 {
		t.Errorf("gauge: %v, want a mean of %v", gauge, want)
	}
	if s := r.Statistic("a/still"); s.Mean.Mean != 3 || *s.Min != 3 || *s.Max != 3 || *s.End != 3 {
		t.Errorf("still: %+v", s)
	}
	if s := r.Statistic("a/never"); s.Mean.Mean != 0 || *s.Max != 0 {
		t.Errorf("never: %+v", s)
	}
}

// shop is a model with a group, a part, two layers and every kind of statistic.
func shop(b *Builder) {
	part := b.In("paris")
	var g Group
	g = part.Nodes("till", 5, func(n *Node) {
		busy := n.Gauge("busy", Doc("customers at the till"), OverTime(4))
		wait := n.Tally("wait", Unit("s"), Percentiles(25, 99.9), Histogram(0, 2, 4), OverTime(4))
		served := n.Counter("served", OverTime(4))
		next := LinkTo[customer](n, g.At((n.Index()+1)%5), dist.Uniform(0.5, 1.5))
		n.Each(dist.Exponential(3).Named("gap"), func(p *Process) {
			busy.Add(1)
			p.HoldFor(dist.Exponential(1 + float64(n.Index())))
			busy.Add(-1)
			next.Send(p, customer{Arrived: p.Now()})
		})
		On(n, func(c *Context, e customer) {
			wait.Add(c.Now() - e.Arrived)
			served.Inc()
		})
	})
	b.Node("office", func(n *Node) { n.Every(dist.Constant(2), func(c *Context) {}) })
	b.Layer("second").Node("office", func(n *Node) {
		ticks := n.Counter("ticks")
		n.Every(dist.Constant(2), func(c *Context) { ticks.Inc() })
	})
}

// Results are the same bytes however the nodes are spread, and as text and JSON what the golden files have.
func TestResults(t *testing.T) {
	m := model(t, 100, 20, shop)
	modeltest.ComparePlacements(t, m, 1)
	r := summarize(t, m, 3)
	modeltest.Text(t, "testdata/results.txt", r, *update)
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	modeltest.Golden(t, "testdata/results.json", string(text)+"\n", *update)
	var table bytes.Buffer
	if err := csv.NewWriter(&table).WriteAll(m.Table(r)); err != nil {
		t.Fatal(err)
	}
	modeltest.Golden(t, "testdata/results.csv", table.String(), *update)
	var want []string
	for _, s := range r.Statistics {
		want = append(want, s.Name)
	}
	if got := strings.Join(want, " "); got != "paris.till/busy paris.till/wait paris.till/served office/second/ticks" {
		t.Error(got)
	}
	if s := r.Statistic("office/second/ticks"); *s.Total != 120 || s.PerNode.names != nil {
		t.Errorf("%+v", s)
	}
	for n := range 3 {
		overviewtest.Check(t, m, summarize(t, m, n+1))
	}
	sum := 0.0
	for i := range 5 {
		sum += *r.Statistic("paris.till/served").Node(Group{m.groups[0]}.At(i)).Total
	}
	if sum != *r.Statistic("paris.till/served").Total {
		t.Errorf("the nodes have %v, all together %v", sum, *r.Statistic("paris.till/served").Total)
	}
}

// One replication has intervals from its stretches of time where it is long enough, and none where it is not.
func TestTooShort(t *testing.T) {
	var b bytes.Buffer
	long := summarize(t, model(t, 20_000, 100, shop), 1)
	if i := long.Statistic("paris.till/wait").Mean; !i.Known() || !i.Holds(1) {
		t.Errorf("%+v", i)
	}
	short := summarize(t, model(t, 100, 99.9, shop), 1)
	if err := short.WriteText(&b); err != nil || !strings.Contains(b.String(), "too short") {
		t.Error(b.String(), err)
	}
}

// FuzzReport: a report that isn't ours ends in an error, or in results that can be written.
func FuzzReport(f *testing.F) {
	m := model(f, 50, 10, shop)
	o, err := modeltest.Run(m, modeltest.Config{Seed: 1})
	if err != nil {
		f.Fatal(err)
	}
	for id, report := range o.Replication.Reports {
		f.Add(uint8(id), report)
	}
	f.Fuzz(func(t *testing.T, id uint8, report []byte) {
		rep := o.Replication
		rep.Reports = append([][]byte(nil), rep.Reports...)
		rep.Reports[int(id)%len(rep.Reports)] = report
		r, err := modeltest.Sum(m, rep, scenario.Replication{Index: 1, Horizon: 50, Reached: 50, Reports: rep.Reports})
		if err != nil {
			return
		}
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
		if err := r.WriteText(&bytes.Buffer{}); err != nil {
			t.Error(err)
		}
	})
}

// Recording costs no memory.
func TestRecordingAllocates(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checked build allocates")
	}
	m := model(t, 1e9, 0, func(b *Builder) {
		b.Node("a", func(n *Node) {
			count, tally, gauge := n.Counter("count"), n.Tally("tally"), n.Gauge("gauge")
			rnd := seed.Rand(t)
			n.Every(dist.Constant(1), func(c *Context) {
				x := math.Floor(100 * rnd.Float64())
				count.Inc()
				tally.Add(x)
				gauge.Set(x)
			})
		})
	})
	e := newEngine(t, m)
	turn(t, e, 10_000)
	if n := testing.AllocsPerRun(5, func() { turn(t, e, 1000) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRecord(b *testing.B) {
	var n *Node
	m := model(b, 1e9, 0, func(b *Builder) {
		b.Node("a", func(made *Node) { n = made; n.Start(func(*Context) {}) })
	})
	e := newEngine(b, m)
	n.begun = false
	count, tally, gauge := n.Counter("count"), n.Tally("tally"), n.Gauge("gauge")
	turn(b, e, 1)
	n.active = true
	xs := make([]float64, 1<<12)
	rnd := seed.Rand(b)
	for i := range xs {
		xs[i] = rnd.ExpFloat64()
	}
	i := 0
	b.Run("counter", func(b *testing.B) {
		for b.Loop() {
			count.Inc()
		}
	})
	b.Run("tally", func(b *testing.B) {
		for b.Loop() {
			tally.Add(xs[i&(len(xs)-1)])
			i++
		}
	})
	b.Run("gauge", func(b *testing.B) {
		for b.Loop() {
			n.now += 1e-9
			gauge.Set(xs[i&(len(xs)-1)])
			i++
		}
	})
}

// What nodes are said to take of the memory is about what they take.
func TestMemory(t *testing.T) {
	const nodes = 2000
	m := model(t, 1e9, 0, func(b *Builder) {
		b.Nodes("a", nodes, func(n *Node) {
			kept := make([]byte, 10_000)
			count, gauge := n.Counter("count"), n.Gauge("gauge")
			n.Every(dist.Constant(1), func(c *Context) {
				count.Inc()
				gauge.Set(float64(kept[0]))
			})
		})
	})
	said := float64(m.Memory().NodeBytes)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	e := newEngine(t, m)
	turn(t, e, 3*nodes)
	runtime.GC()
	runtime.ReadMemStats(&after)
	took := float64(after.HeapAlloc-before.HeapAlloc) / nodes
	runtime.KeepAlive(e)
	t.Logf("%.0f bytes a node, it takes %.0f with what the engine has", said, took)
	if said < 0.8*took || said > 1.3*took {
		t.Errorf("%.0f bytes a node, it takes %.0f", said, took)
	}
}
