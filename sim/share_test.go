// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"testing"

	"github.com/disco-sim/disco/internal/seed"
	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/sim/dist"
)

// A container's queues: who waits for much holds up those behind, until it gives up.
func TestContainer(t *testing.T) {
	var l lines
	m := model(t, 20, 0, func(b *Builder) {
		b.Node("front", func(n *Node) {
			tank := n.Container("tank", 10, 4)
			get := func(at, delay, amount float64) {
				n.Go(func(p *Process) {
					p.Hold(at)
					got := tank.GetWithin(p, delay, amount)
					l.add(p, "get %v: %v, %v left", amount, got, tank.Amount())
				})
			}
			get(1, 4, 8)
			get(2, math.Inf(1), 2)
			n.Go(func(p *Process) {
				p.Hold(6)
				l.add(p, "try %v %v %v", tank.TryPut(p, 9), tank.TryGet(p, 3), tank.TryPut(p, 8))
				tank.Put(p, 1)
				l.add(p, "put")
			})
			get(7, 1, 1)
		})
	})
	r := summarize(t, m, 2)
	l.list = l.list[:len(l.list)/2]
	l.check(t, `
5 get 8: false, 2 left
5 get 2: true, 2 left
6 try false false true
7 get 1: true, 10 left
7 put`)
	for name, want := range map[string]float64{"reneged": 1, "get_wait": 1.5, "put_wait": 0.5,
		"amount": (4*5 + 2 + 10*14) / 20.0} {
		if got := r.Figure("front/tank." + name); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s %v, want %v", name, got, want)
		}
	}
}

// A store gives items in its order to those who match, and processes that come to a batch or a gate go on together.
func TestStoreBatchGate(t *testing.T) {
	var l lines
	err := one(t, 100, func(n *Node) {
		store := StoreOf[int](n, "store", 3)
		store.OrderBy(func(a, b int) int { return a - b })
		even := func(x int) bool { return x%2 == 0 }
		n.Go(func(p *Process) { l.add(p, "even %v", store.GetMatch(p, even)) })
		n.Go(func(p *Process) {
			x, ok := store.GetWithin(p, 2, even)
			l.add(p, "within %v %v", x, ok)
		})
		n.Go(func(p *Process) {
			p.Hold(3)
			for _, x := range []int{7, 5, 8, 3, 9, 1} {
				store.Put(p, x)
				l.add(p, "put %v", x)
			}
		})
		n.Go(func(p *Process) {
			p.Hold(4)
			for range 5 {
				l.add(p, "got %v", store.Get(p))
			}
			l.add(p, "full again %v", store.TryPut(p, 1))
		})
		batch := n.Batch("batch", 3, 5)
		for i := range 5 {
			n.Go(func(p *Process) {
				p.Hold(float64(10 + i))
				size, number := batch.Join(p)
				l.add(p, "%d of %d", number, size)
			})
		}
		gate := NewGate(false)
		n.Go(func(p *Process) {
			p.Hold(20)
			l.add(p, "gate %v", gate.PassWithin(p, 1))
			gate.Pass(p)
			l.add(p, "gate %v", gate.PassWithin(p, 1))
		})
		n.Start(func(c *Context) { c.At(25, func(*Context) { gate.Open() }) })
	})
	if err != nil {
		t.Fatal(err)
	}
	l.check(t, `
2 within 0 false
3 put 7
3 put 5
3 put 8
3 put 3
3 even 8
4 got 3
4 got 5
4 got 7
4 got 9
4 put 9
4 put 1
4 got 1
4 full again true
12 2 of 3
12 0 of 3
12 1 of 3
18 0 of 2
18 1 of 2
21 gate false
25 gate true`)
}

// Puts and gets at random, with time-outs and interrupts at the same epochs: nothing is lost, and nobody waits who
// could go on.
func TestShareProperties(t *testing.T) {
	rnd := seed.Rand(t)
	for range 200 {
		capacity := 1 + rnd.IntN(4)
		var in, out, items, taken int
		var k *Container
		var s *Store[int]
		err := one(t, 300, func(n *Node) {
			k, s = n.Container("k", float64(capacity), 0), StoreOf[int](n, "s", capacity)
			odd := func(x int) bool { return x%2 == 1 }
			var all []*Process
			n.Start(func(c *Context) {
				for range 8 {
					all = append(all, c.Go(func(p *Process) {
						for p.Now() < 200 {
							delay, amount := float64(rnd.IntN(4)), 1+rnd.IntN(capacity)
							switch rnd.IntN(4) {
							case 0:
								if k.PutWithin(p, delay, float64(amount)) {
									in += amount
								}
							case 1:
								if k.GetWithin(p, delay, float64(amount)) {
									out += amount
								}
							case 2:
								if s.PutWithin(p, delay, amount) {
									items += amount
								}
							case 3:
								match := odd
								if rnd.IntN(2) == 0 {
									match = nil
								}
								x, _ := s.GetWithin(p, delay, match)
								taken += x
							}
							p.HoldOrInterrupt(float64(rnd.IntN(3)))
						}
					}))
				}
			})
			n.Every(dist.Constant(1), func(c *Context) {
				all[rnd.IntN(len(all))].Interrupt(nil)
				all[rnd.IntN(len(all))].Resume() // changes nothing: no process waits for that
				g, p := k.gets.first, k.puts.first
				if g != nil && g.amount <= k.has || p != nil && p.amount <= k.capacity-k.has ||
					s.puts.count > 0 && s.Len() < capacity {
					c.Fail(fmt.Errorf("somebody waits in vain"))
				}
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range s.items[s.head:] {
			taken += x
		}
		if in-out != int(k.has) || items != taken || in == 0 || items == 0 {
			t.Fatalf("in %d, out %d, has %v; items %d, taken %d", in, out, k.has, items, taken)
		}
	}
}

// remoteModel has clients that use an expert's server over links that overtake each other, and give up at random.
func remoteModel(served *int) func(b *Builder) {
	return func(b *Builder) {
		b.Horizon(400)
		delay := dist.Uniform(0.25, 1.5).Named("delay")
		b.Node("expert", func(n *Node) {
			s := n.Server("agents", 2, ByPriority, QueueLimit(3))
			s.Offer(delay, "client-0", "client-1", "client-2")
			n.Start(func(c *Context) {
				c.At(399, func(c *Context) {
					if s.Used() != 0 || s.Waiting() != 0 || len(n.remotes.offered[0].asked) != 0 ||
						len(n.remotes.offered[0].early) != 0 {
						c.Fail(fmt.Errorf("%d used, %d wait", s.Used(), s.Waiting()))
					}
				})
			})
		})
		b.Nodes("client", 3, func(n *Node) {
			s := n.RemoteServer("expert", "agents", delay)
			n.Each(dist.Exponential(2).Named("gap"), func(p *Process) {
				waits, takes := p.Draw(dist.Exponential(4).Named("waits")), p.Draw(dist.Exponential(1).Named("takes"))
				if p.Now() > 300 || !s.AcquireWithin(p, waits, Priority(float64(n.Index()))) {
					return
				}
				*served++
				p.Hold(takes)
				s.Release(p)
			})
		})
	}
}

// Requests over links are settled whatever they meet on the way, and the same for any placement.
func TestRemoteServer(t *testing.T) {
	served := 0
	m, err := New("remote", remoteModel(&served))
	if err != nil {
		t.Fatal(err)
	}
	modeltest.ComparePlacements(t, m, 1)
	r := summarize(t, m, 3)
	for _, name := range []string{"client/expert.agents.reneged", "client/expert.agents.balked",
		"expert/agents.reneged", "expert/agents.served", "client/expert.agents.wait"} {
		if !(r.Figure(name) > 0) {
			t.Errorf("%s: %v, and every way should have been taken", name, r.Figure(name))
		}
	}
	if wait := *r.Statistic("client/expert.agents.wait").Min; wait < 0.5 || served < 100 {
		t.Errorf("least wait %v, below both lookaheads; %d served", wait, served)
	}
}

// Units at other nodes that a process holds when the run is over are nobody's mistake.
func TestRemoteServerHeldAtTheEnd(t *testing.T) {
	held := false
	err := run(t, 10, remote(func(s *RemoteServer, p, _ *Process) {
		held = s.Acquire(p)
		defer s.Release(p)
		p.Hold(1000)
	}))
	if err != nil || !held {
		t.Error(held, err)
	}
}
