// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/sim/dist"
)

// averages are means of a replication, by name.
type averages map[string]*struct{ sum, count float64 }

func (a averages) add(name string, x float64) {
	if a[name] == nil {
		a[name] = new(struct{ sum, count float64 })
	}
	a[name].sum += x
	a[name].count++
}

const (
	replications = 20
	quantile999  = 3.883 // of t with 19 degrees of freedom, for an interval of 99.9 %
	warmup       = 500.0
)

// known runs a model of one node 20 times, and holds the interval of each mean against its formula.
func known(t *testing.T, horizon float64, setup func(n *Node, a averages), want map[string]float64) {
	t.Helper()
	if testing.Short() {
		t.Skip("the results are the same in every build, and it takes ten times as long in the others")
	}
	means := map[string][]float64{}
	for i := range replications {
		a := averages{}
		m, err := New("known", func(b *Builder) {
			b.Horizon(horizon)
			b.Node("n", func(n *Node) { setup(n, a) })
		})
		if err == nil {
			_, err = modeltest.Run(m, modeltest.Config{Seed: 11, Replication: i})
		}
		if err != nil {
			t.Fatal(err)
		}
		for name, s := range a {
			means[name] = append(means[name], s.sum/s.count)
		}
	}
	for name, truth := range want {
		sum, square := 0.0, 0.0
		for _, x := range means[name] {
			sum += x
		}
		mean := sum / replications
		for _, x := range means[name] {
			square += (x - mean) * (x - mean)
		}
		half := quantile999 * math.Sqrt(square/(replications-1)/replications)
		t.Logf("%s %.4f ± %.4f, formula %.4f", name, mean, half, truth)
		if len(means[name]) != replications || !(math.Abs(mean-truth) <= half) || half > 0.1*truth {
			t.Errorf("%s: outside, or of no use", name)
		}
	}
}

// birthDeath is the stationary distribution of 0 to most, which rises and falls at these rates.
func birthDeath(most int, up, down func(n float64) float64) []float64 {
	p := make([]float64, most+1)
	p[0] = 1
	sum := 1.0
	for n := 1; n <= most; n++ {
		p[n] = p[n-1] * up(float64(n-1)) / down(float64(n))
		sum += p[n]
	}
	for n := range p {
		p[n] /= sum
	}
	return p
}

// M/M/3 (Erlang C): the mean wait.
func TestErlangC(t *testing.T) {
	const arrivals, services, c = 2.4, 1.0, 3
	p := birthDeath(500, func(float64) float64 { return arrivals },
		func(n float64) float64 { return services * min(n, c) })
	queue := 0.0
	for n := range p {
		queue += p[n] * max(0, float64(n)-c)
	}
	for _, order := range []Order{FIFO, LIFO} {
		known(t, 6000, func(n *Node, a averages) {
			s := n.Server("s", c, order)
			n.Each(dist.Exponential(1/arrivals).Named("gap"), func(p *Process) {
				start := p.Now()
				s.Acquire(p)
				if start > warmup {
					a.add("wait", p.Now()-start)
				}
				p.HoldFor(dist.Exponential(1 / services).Named("service"))
				s.Release(p)
			})
		}, map[string]float64{"wait": queue / arrivals})
	}
}

// M/M/2+M (Erlang A): the share that gives up, and the mean wait of all.
func TestErlangA(t *testing.T) {
	const arrivals, services, gives, c = 2.2, 1.0, 0.5, 2
	p := birthDeath(500, func(float64) float64 { return arrivals },
		func(n float64) float64 { return services*min(n, c) + gives*max(0, n-c) })
	queue := 0.0
	for n := range p {
		queue += p[n] * max(0, float64(n)-c)
	}
	want := map[string]float64{"reneged": gives * queue / arrivals, "wait": queue / arrivals}
	for _, way := range []string{"AcquireWithin", "ServeWithin"} {
		known(t, 6000, func(n *Node, a averages) {
			s := n.Server("s", c)
			service := dist.Exponential(1 / services).Named("service")
			n.Each(dist.Exponential(1/arrivals).Named("gap"), func(p *Process) {
				start, waits, takes := p.Now(), p.Draw(dist.Exponential(1/gives).Named("waits")), p.Draw(service)
				wait, got := 0.0, false
				if way == "ServeWithin" {
					got = s.ServeWithin(p, waits, takes)
					if wait = p.Now() - start; got {
						wait -= takes
					}
				} else if got = s.AcquireWithin(p, waits); true {
					wait = p.Now() - start
				}
				if start > warmup {
					a.add("wait", wait)
					a.add("reneged", map[bool]float64{false: 1}[got])
				}
				if got && way == "AcquireWithin" {
					p.Hold(takes)
					s.Release(p)
				}
			})
		}, want)
	}
}

// M/M/1/5: the share that balks.
func TestBalking(t *testing.T) {
	p := birthDeath(5, func(float64) float64 { return 0.9 }, func(float64) float64 { return 1 })
	known(t, 6000, func(n *Node, a averages) {
		s := n.Server("s", 1, QueueLimit(4))
		n.Every(dist.Exponential(1/0.9).Named("gap"), func(c *Context) {
			got := s.Use(c, c.Draw(dist.Exponential(1).Named("service")), nil)
			a.add("balked", map[bool]float64{false: 1}[got])
		})
	}, map[string]float64{"balked": p[5]})
}

// M/M/1 with three priorities against the formulas of Cobham (1954), and for preemption of White and Christie (1958).
func TestPriorities(t *testing.T) {
	rates := []float64{0.2, 0.3, 0.3}
	const service = 1.0
	total := 0.8 * service
	waits, stays := map[string]float64{}, map[string]float64{}
	before := 0.0
	for i, rate := range rates {
		name := fmt.Sprint("class ", i)
		up := before + rate*service
		waits[name] = total * service / ((1 - before) * (1 - up))
		stays[name] = service/(1-before) + up*service/((1-before)*(1-up))
		before = up
	}
	for order, want := range map[Order]map[string]float64{ByPriority: waits, PreemptResume: stays} {
		known(t, 40_000, func(n *Node, a averages) {
			s := n.Server("s", 1, order)
			for i, rate := range rates {
				name := fmt.Sprint("class ", i)
				takes := dist.Exponential(service).Named("service" + name)
				n.Each(dist.Exponential(1/rate).Named("gap"+name), func(p *Process) {
					start, d := p.Now(), p.Draw(takes)
					s.Serve(p, d, Priority(float64(i)))
					if order == ByPriority {
						d += start
					} else {
						d = start
					}
					if start > warmup {
						a.add(name, p.Now()-d)
					}
				})
			}
		}, want)
	}
}

// Machine repair, M/M/2//8: the mean time for which a machine doesn't work.
func TestMachineRepair(t *testing.T) {
	const machines, fails, repairs, repairers = 8, 0.1, 0.4, 2
	p := birthDeath(machines, func(n float64) float64 { return fails * (machines - n) },
		func(n float64) float64 { return repairs * min(n, repairers) })
	down, rate := 0.0, 0.0
	for n := range p {
		down += p[n] * float64(n)
		rate += p[n] * fails * float64(machines-n)
	}
	known(t, 40_000, func(n *Node, a averages) {
		s := n.Server("repairers", repairers)
		for range machines {
			n.Go(func(p *Process) {
				for {
					p.HoldFor(dist.Exponential(1 / fails).Named("works"))
					start := p.Now()
					s.Serve(p, p.Draw(dist.Exponential(1/repairs).Named("repair")))
					if start > warmup {
						a.add("down", p.Now()-start)
					}
				}
			})
		}
	}, map[string]float64{"down": down / rate})
}

// M/M/1 that breaks down, used or not, and goes on afterwards: the mean time in the system, from the stationary
// distribution of (customers, up or down), solved by iteration.
func TestBreakdowns(t *testing.T) {
	const arrivals, service, fails, repair, most = 0.5, 1.0, 0.05, 0.25, 120
	var up, down [most + 1]float64
	up[0] = 1
	for range 4000 {
		for n := range up {
			enterUp, leaveUp, enterDown, leaveDown := repair*down[n], fails, fails*up[n], repair
			if n > 0 {
				enterUp, enterDown = enterUp+arrivals*up[n-1], enterDown+arrivals*down[n-1]
				leaveUp += service
			}
			if n < most {
				enterUp += service * up[n+1]
				leaveUp, leaveDown = leaveUp+arrivals, leaveDown+arrivals
			}
			up[n], down[n] = enterUp/leaveUp, enterDown/leaveDown
		}
	}
	customers, sum := 0.0, 0.0
	for n := range up {
		customers += float64(n) * (up[n] + down[n])
		sum += up[n] + down[n]
	}
	known(t, 40_000, func(n *Node, a averages) {
		s := n.Server("s", 1)
		s.Breakdowns(dist.Exponential(1/fails).Named("up"), dist.Exponential(1/repair).Named("down"), Resume)
		n.Each(dist.Exponential(1/arrivals).Named("gap"), func(p *Process) {
			start := p.Now()
			s.Serve(p, p.Draw(dist.Exponential(1/service).Named("service")))
			if start > warmup {
				a.add("stay", p.Now()-start)
			}
		})
	}, map[string]float64{"stay": customers / sum / arrivals})
}
