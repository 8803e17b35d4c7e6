// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/sim/dist"
)

// newEngine is an engine that runs a model alone.
func newEngine(tb testing.TB, m node.Model) *node.Engine {
	if m, ok := m.(*Model); ok {
		tb.Cleanup(m.close)
	}
	g := m.Graph()
	plan, err := node.NewPlan(g, make([]int32, g.Len()), 0, 1)
	if err != nil {
		tb.Fatal(err)
	}
	e, err := node.NewEngine(plan, node.Config{Model: m, Seed: 1, Horizon: 1e9})
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// turn runs so many activations and returns how many there were in a second.
func turn(tb testing.TB, e *node.Engine, count int) float64 {
	start := time.Now()
	done := 0
	for done < count {
		n, err := e.Run(min(256, count-done), math.Inf(1))
		if err != nil {
			tb.Fatal(err)
		}
		done += n
	}
	return float64(done) / time.Since(start).Seconds()
}

const hops = 1000 // nodes of the ring

// exponential is made once: making a distribution allocates.
var exponential = dist.Exponential(1)

// token is what goes around.
type token struct {
	Hops  uint64
	Start float64
	Kind  uint32
}

// typedRing is a ring of nodes through which tokens go, with sim.
func typedRing(tb testing.TB) node.Model {
	m, err := New("ring", func(b *Builder) {
		b.Horizon(1e9)
		var ring Group
		ring = b.Nodes("n", hops, func(n *Node) {
			next := LinkTo[token](n, ring.At((n.Index()+1)%hops), dist.Uniform(0.5, 1.5))
			n.Start(func(c *Context) { next.Send(c, token{Start: c.Now()}) })
			On(n, func(c *Context, t token) {
				t.Hops++
				next.Send(c, t)
			})
		})
	})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// rawRing is the same on package node.
type rawRing struct{}

func (rawRing) Graph() *node.Graph {
	g := &node.Graph{Simprocs: []string{"main"}, NodeCount: hops}
	m, _ := New("ring", func(b *Builder) { b.Horizon(1); b.Nodes("n", hops, func(*Node) {}) })
	g.NodeAt = m.Graph().NodeAt
	for i := range hops {
		g.Links = append(g.Links, node.Link{From: node.Endpoint{Node: i}, To: node.Endpoint{Node: (i + 1) % hops},
			Lookahead: 0.5})
	}
	return g
}

type rawHandler struct {
	link   node.LinkID
	stream dist.Stream
	delay  dist.Dist
	buf    [24]byte
}

func (rawRing) NewHandler(p *node.Simproc) (node.Handler, error) {
	link, err := p.LinkTo(node.Endpoint{Node: (p.NodeIndex() + 1) % hops})
	high, low := p.Seed("")
	stream := dist.MakeStream(high, low, dist.Unpaired)
	return &rawHandler{link: link, stream: stream, delay: dist.Uniform(0.5, 1.5)}, err
}

func (h *rawHandler) Handle(p *node.Simproc, events []node.Event) error {
	if p.Now() == 0 {
		return p.Send(h.link, h.delay.Draw(&h.stream), h.buf[:])
	}
	for _, ev := range events {
		t := token{binary.LittleEndian.Uint64(ev.Data), math.Float64frombits(binary.LittleEndian.Uint64(ev.Data[8:])),
			binary.LittleEndian.Uint32(ev.Data[16:])}
		t.Hops++
		binary.LittleEndian.PutUint64(h.buf[:], t.Hops)
		binary.LittleEndian.PutUint64(h.buf[8:], math.Float64bits(t.Start))
		binary.LittleEndian.PutUint32(h.buf[16:], t.Kind)
		if err := p.Send(h.link, p.Now()+h.delay.Draw(&h.stream), h.buf[:]); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkTyped compares typed handlers with the same model on package node, in turn.
func BenchmarkTyped(b *testing.B) {
	typed, raw := newEngine(b, typedRing(b)), newEngine(b, rawRing{})
	const count = 500_000
	turn(b, typed, count)
	turn(b, raw, count)
	var ratios, rates []float64
	for b.Loop() {
		r, t := turn(b, raw, count), turn(b, typed, count)
		ratios, rates = append(ratios, t/r), append(rates, t/1e6)
	}
	report(b, rates, ratios, "of-raw")
}

// BenchmarkProcess measures processes that hold again and again, beside bare switches of iter.Pull.
func BenchmarkProcess(b *testing.B) {
	m, err := New("hold", func(b *Builder) {
		b.Horizon(1e9)
		b.Nodes("n", 100, func(n *Node) {
			for range 10 {
				n.Go(func(p *Process) {
					for {
						p.HoldFor(exponential)
					}
				})
			}
		})
	})
	if err != nil {
		b.Fatal(err)
	}
	e := newEngine(b, m)
	next, stop := iter.Pull(func(yield func(int) bool) {
		for yield(0) {
		}
	})
	defer stop()
	const count = 500_000
	turn(b, e, count)
	var ratios, rates []float64
	for b.Loop() {
		start := time.Now()
		for range count {
			next()
		}
		bare := float64(count) / time.Since(start).Seconds()
		t := turn(b, e, count)
		ratios, rates = append(ratios, t/bare), append(rates, t/1e6)
	}
	report(b, rates, ratios, "of-bare-switches")
}

// BenchmarkLive has a million processes live at a time, and measures what each takes besides its stack.
func BenchmarkLive(b *testing.B) {
	const live = 1_000_000
	m, err := New("live", func(b *Builder) {
		b.Horizon(1e9)
		b.Nodes("n", 1000, func(n *Node) {
			for range live / 1000 {
				n.Go(func(p *Process) {
					for {
						p.HoldFor(exponential)
					}
				})
			}
		})
	})
	if err != nil {
		b.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	e := newEngine(b, m)
	turn(b, e, 2000)
	runtime.GC()
	runtime.ReadMemStats(&after)
	rate := 0.0
	for b.Loop() {
		rate = max(rate, turn(b, e, live))
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/live, "B/process")
	b.ReportMetric(float64(after.StackInuse-before.StackInuse)/live, "B-of-stack/process")
	b.ReportMetric(rate/1e6, "Mactivations/s")
}

// BenchmarkSwitch has two processes resume each other at one epoch, beside bare switches of iter.Pull.
func BenchmarkSwitch(b *testing.B) {
	const count = 100_000
	m, err := New("switch", func(b *Builder) {
		b.Horizon(1e9)
		b.Node("n", func(n *Node) {
			n.Start(func(c *Context) {
				var ps [2]*Process
				for i := range ps {
					ps[i] = c.Go(func(p *Process) {
						for k := 0; ; k++ {
							if i == 0 && k%count == 0 {
								p.Hold(1)
							}
							ps[1-i].Resume()
							p.Suspend()
						}
					})
				}
			})
		})
	})
	if err != nil {
		b.Fatal(err)
	}
	e := newEngine(b, m)
	next, stop := iter.Pull(func(yield func(int) bool) {
		for yield(0) {
		}
	})
	defer stop()
	turn(b, e, 2)
	var ratios, rates []float64
	for b.Loop() {
		start := time.Now()
		for range 2 * count {
			next()
		}
		bare := 2 * count / time.Since(start).Seconds()
		start = time.Now()
		turn(b, e, 1)
		rate := 2 * count / time.Since(start).Seconds()
		ratios, rates = append(ratios, rate/bare), append(rates, rate/1e6)
	}
	report(b, rates, ratios, "of-bare-switches")
}

// BenchmarkTimers sets and cancels timeouts of a node that has many.
func BenchmarkTimers(b *testing.B) {
	const timeouts = 1000
	var all [timeouts]*Timeout[int]
	m, err := New("timers", func(b *Builder) {
		b.Horizon(1e9)
		b.Node("n", func(n *Node) {
			for i := range all {
				all[i] = NewTimeout(n, func(*Context, int) {})
			}
			n.Every(dist.Constant(1), func(c *Context) {
				for range 10 {
					for i, t := range all {
						t.Cancel()
						t.Set(100+float64(i%97), i)
					}
				}
			})
		})
	})
	if err != nil {
		b.Fatal(err)
	}
	e := newEngine(b, m)
	turn(b, e, 2)
	for b.Loop() {
		turn(b, e, 1)
	}
	b.ReportMetric(float64(b.N)*10*timeouts/b.Elapsed().Seconds()/1e6, "Mset+cancel/s")
}

func report(b *testing.B, rates, ratios []float64, unit string) {
	slices.Sort(rates)
	slices.Sort(ratios)
	b.ReportMetric(rates[len(rates)/2], "Mactivations/s")
	b.ReportMetric(ratios[len(ratios)/2], unit)
	b.ReportMetric(ratios[0], unit+"-min")
	b.ReportMetric(0, "ns/op")
}

// customers is a station with one server, where so many customers are there at a time: each is served for a drawn time
// and comes back at once. So an activation is one customer's service, however many wait.
type customers struct {
	name string
	at   func(n *Node, count int)
}

// bareLine is one service after the other, with no statistics.
func bareLine(n *Node, _ int) {
	var next *Timeout[int]
	next = NewTimeout(n, func(c *Context, _ int) { next.Set(c.Draw(exponential), 0) })
	n.Start(func(c *Context) { next.Set(c.Draw(exponential), 0) })
}

// measuredLine is bareLine with the statistics that a Server has: two gauges, a tally, a counter.
func measuredLine(n *Node, count int) {
	busy, length, wait, served := n.Gauge("busy"), n.Gauge("length"), n.Tally("wait"), n.Counter("served")
	since := make([]float64, count)
	first := 0
	var next *Timeout[int]
	next = NewTimeout(n, func(c *Context, _ int) {
		served.Inc()
		busy.Set(0)
		wait.Add(c.Now() - since[first])
		since[first] = c.Now()
		first = (first + 1) % count
		length.Set(float64(count - 1))
		busy.Set(1)
		next.Set(c.Draw(exponential), 0)
	})
	n.Start(func(c *Context) { next.Set(c.Draw(exponential), 0) })
}

func usedServer(n *Node, count int) {
	s := n.Server("s", 1)
	var again func(c *Context)
	again = func(c *Context) { s.Use(c, c.Draw(exponential), again) }
	n.Start(func(c *Context) {
		for range count {
			again(c)
		}
	})
}

func servedProcesses(n *Node, count int) {
	s := n.Server("s", 1)
	for range count {
		n.Go(func(p *Process) {
			for {
				s.Serve(p, p.Draw(exponential))
			}
		})
	}
}

func acquiringProcesses(n *Node, count int) {
	s := n.Server("s", 1)
	for range count {
		n.Go(func(p *Process) {
			for {
				s.Acquire(p)
				p.HoldFor(exponential)
				s.Release(p)
			}
		})
	}
}

// BenchmarkServer measures services of customers that come back at once, of which 10 or 10,000 are there at a time, for
// each way to use a server, beside the same with timeouts alone and with timeouts and the same statistics.
func BenchmarkServer(b *testing.B) {
	kinds := []customers{{"timeouts", bareLine}, {"statistics", measuredLine}, {"Use", usedServer},
		{"Serve", servedProcesses}, {"Acquire", acquiringProcesses}}
	for _, count := range []int{10, 10_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) { race(b, kinds, count, 1) })
	}
}

// gap is the time between two customers of BenchmarkArrivals, whose server is in use for 80 % of the time.
var gap = dist.Exponential(1.25)

// BenchmarkArrivals measures customers that come, are served and go (M/M/1), for each way to write them.
func BenchmarkArrivals(b *testing.B) {
	race(b, []customers{
		{"Use", func(n *Node, _ int) {
			s := n.Server("s", 1)
			n.Every(gap, func(c *Context) { s.Use(c, c.Draw(exponential), nil) })
		}},
		{"Serve", func(n *Node, _ int) {
			s := n.Server("s", 1)
			n.Each(gap, func(p *Process) { s.Serve(p, p.Draw(exponential)) })
		}},
		{"Acquire", func(n *Node, _ int) {
			s := n.Server("s", 1)
			n.Each(gap, func(p *Process) {
				s.Acquire(p)
				p.HoldFor(exponential)
				s.Release(p)
			})
		}},
	}, 0, 2)
}

// race turns engines of all kinds in turn, and reports how many customers each has in a second. A customer takes so
// many activations.
func race(b *testing.B, kinds []customers, count int, activations float64) {
	var engines []*node.Engine
	for _, k := range kinds {
		m, err := New(k.name, func(b *Builder) {
			b.Horizon(1e9)
			b.Node("n", func(n *Node) { k.at(n, count) })
		})
		if err != nil {
			b.Fatal(err)
		}
		e := newEngine(b, m)
		turn(b, e, 20_000)
		engines = append(engines, e)
	}
	rates := make([][]float64, len(kinds))
	for b.Loop() {
		for i, e := range engines {
			rates[i] = append(rates[i], turn(b, e, 200_000)/activations/1e6)
		}
	}
	for i, k := range kinds {
		slices.Sort(rates[i])
		b.ReportMetric(rates[i][len(rates[i])/2], k.name+"-M/s")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkWaiting has 100,000 functions wait for a server, and measures what each takes.
func BenchmarkWaiting(b *testing.B) {
	const waiting = 100_000
	bytes := 0.0
	for b.Loop() {
		m, err := New("waiting", func(b *Builder) {
			b.Horizon(1e9)
			b.Node("n", func(n *Node) {
				s := n.Server("s", 1)
				n.Start(func(c *Context) {
					for range waiting {
						s.Use(c, 1, nil)
					}
				})
			})
		})
		if err != nil {
			b.Fatal(err)
		}
		e := newEngine(b, m)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		turn(b, e, 1)
		runtime.GC()
		runtime.ReadMemStats(&after)
		bytes = float64(after.HeapAlloc-before.HeapAlloc) / waiting
		turn(b, e, 1)
	}
	b.ReportMetric(bytes, "B/waiting")
}

// BenchmarkSave is what a checkpoint has of nodes with a server, timers and statistics.
func BenchmarkSave(b *testing.B) {
	const nodes = 2000
	m, err := New("desks", func(b *Builder) {
		b.Horizon(1e9)
		b.Nodes("shop", nodes, func(n *Node) { desks(n, FIFO, Finish) })
	})
	if err != nil {
		b.Fatal(err)
	}
	e := newEngine(b, m)
	e.SetUntil(50)
	if _, err := e.Run(math.MaxInt, math.Inf(1)); err != nil {
		b.Fatal(err)
	}
	var all []byte
	for b.Loop() {
		all = all[:0]
		for n := range nodes {
			if all, err = e.AppendNode(all, n); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.SetBytes(int64(len(all)))
	b.ReportMetric(float64(len(all))/nodes, "B/node")
}
