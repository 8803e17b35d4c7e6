// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/seed"
	"github.com/disco-sim/disco/sim/dist"
)

// one runs a model of one node, "front".
func one(t testing.TB, horizon float64, setup func(n *Node)) error {
	t.Helper()
	return run(t, horizon, func(b *Builder) { b.Node("front", setup) })
}

// The orders, each with one who is served first, and then those who came meanwhile.
func TestServerOrders(t *testing.T) {
	for order, want := range map[Order]string{
		FIFO:       "a 10, b 20, c 30, d 40, e 50",
		LIFO:       "a 10, e 20, d 30, c 40, b 50",
		ByPriority: "a 10, c 20, e 30, b 40, d 50",
		// a is served for 2 s, c takes its place; then e of c's priority, then a for 8 s, who came before b and d.
		PreemptResume:  "c 12, e 22, a 30, b 40, d 50",
		PreemptRestart: "c 12, e 22, a 32, b 42, d 52",
	} {
		for _, way := range []string{"Acquire", "Serve", "Use"} {
			if way == "Acquire" && order == PreemptRestart {
				continue
			}
			var got []string
			err := one(t, 100, func(n *Node) {
				s := n.Server("agents", 1, order)
				for i, priority := range []float64{2, 2, 1, 2, 1} {
					n.Go(func(p *Process) {
						p.Hold(float64(i))
						served(s, p, way, Priority(priority), func() {
							got = append(got, fmt.Sprintf("%c %v", 'a'+i, n.now))
						})
					})
				}
			})
			want := want
			if way == "Acquire" && order == PreemptResume { // who lost it waits anew, behind b
				want = "c 12, e 22, b 32, a 40, d 50"
			}
			if err != nil || strings.Join(got, ", ") != want {
				t.Errorf("%v %s: %s\nwant %s %v", order, way, strings.Join(got, ", "), want, err)
			}
		}
	}
}

// served uses a server for 10 s, in one of three ways.
func served(s *Server, p *Process, way string, priority RequestOption, done func()) {
	switch way {
	case "Serve":
		s.Serve(p, 10, priority)
		done()
	case "Use":
		s.Use(p, 10, func(*Context) { done() }, priority)
	case "Acquire":
		left, interrupted := 10.0, true
		for interrupted {
			s.Acquire(p, priority)
			left, interrupted = p.HoldOrInterrupt(left)
			if interrupted && p.Cause() != any(Preempted{s}) {
				panic("another cause")
			}
			s.Release(p) // even where it was lost
		}
		done()
	}
}

// What a server does at its limits: time-outs, interrupts, a full queue, several units, capacity that changes.
func TestServerLimits(t *testing.T) {
	var l lines
	err := one(t, 100, func(n *Node) {
		s := n.Server("agents", 2, QueueLimit(2))
		s.Schedule(math.Inf(1), CapacityFrom{30, 0}, CapacityFrom{40, 3})
		enter := func(at float64, name string, f func(p *Process) bool) *Process {
			var self *Process
			n.Start(func(c *Context) {
				self = c.Go(func(p *Process) {
					p.Hold(at)
					got := f(p)
					l.add(p, "%s %v", name, got)
					if got {
						p.Hold(10)
						s.Release(p)
					}
				})
				if name == "interrupted" {
					c.After(6, func(*Context) { self.Interrupt(nil) })
				}
			})
			return self
		}
		enter(0, "a", func(p *Process) bool { return s.Acquire(p, Units(2)) })
		enter(1, "tried", func(p *Process) bool { return s.TryAcquire(p) })
		enter(2, "timed out", func(p *Process) bool { return s.AcquireWithin(p, 3) })
		enter(3, "interrupted", func(p *Process) bool { return s.AcquireWithin(p, math.Inf(1)) })
		enter(4, "balked", func(p *Process) bool { return s.Acquire(p) })
		enter(7, "both", func(p *Process) bool { return s.Acquire(p, Units(2)) })
		enter(8, "behind", func(p *Process) bool { return s.ServeWithin(p, 11, 1) })
		enter(20, "last", func(p *Process) bool { return s.TryAcquire(p) })
		enter(29, "still", func(p *Process) bool { return s.TryAcquire(p) })
		enter(31, "after the break", func(p *Process) bool { return s.Acquire(p, Units(2)) })
	})
	if err != nil {
		t.Fatal(err)
	}
	l.check(t, `
0 a true
1 tried false
4 balked false
5 timed out false
6 interrupted false
10 both true
19 behind false
20 last false
29 still true
40 after the break true`)
}

// listServer is a server without heaps and records: lists that are sorted and searched.
type listServer struct {
	order           Order
	capacity, limit int
	down            bool
	queue, held     []*listedRequest
	number          int
	log             []string
}

type listedRequest struct {
	id, units, number int
	priority          float64
	serves            bool
	left, total, end  float64
}

func (m *listServer) free() int {
	free := m.capacity
	if m.down {
		free = 0
	}
	for _, r := range m.held {
		free -= r.units
	}
	return free
}

func compare(a, b *listedRequest) int {
	if a.priority != b.priority {
		return int(a.priority - b.priority)
	}
	return a.number - b.number
}

// enter takes a new request.
func (m *listServer) enter(r *listedRequest, now float64) {
	if m.number++; m.order == LIFO {
		r.number = -m.number
	} else {
		r.number = m.number
	}
	if m.order < ByPriority {
		r.priority = 0
	}
	m.queue = append(m.queue, r)
	m.grant(now)
	if i := slices.Index(m.queue, r); i >= 0 && len(m.queue) > m.limit {
		m.queue = slices.Delete(m.queue, i, i+1)
	}
}

func (m *listServer) grant(now float64) {
	for len(m.queue) > 0 {
		slices.SortFunc(m.queue, compare)
		r := m.queue[0]
		if m.free() < r.units && !m.preempt(r, now) {
			return
		}
		m.queue = slices.DeleteFunc(m.queue, func(q *listedRequest) bool { return q == r })
		m.held = append(m.held, r)
		if r.end = now + r.left; !r.serves {
			r.end = math.Inf(1)
			m.log = append(m.log, fmt.Sprintf("%d granted %v", r.id, now))
		}
	}
}

func (m *listServer) preempt(r *listedRequest, now float64) bool {
	if m.order < PreemptResume || m.down || r.units > m.capacity {
		return false
	}
	could := m.free()
	var victims []*listedRequest
	slices.SortFunc(m.held, compare)
	for _, v := range slices.Backward(m.held) {
		if could < r.units && v.serves && v.priority > r.priority {
			could += v.units
			victims = append(victims, v)
		}
	}
	if could < r.units {
		return false
	}
	for _, v := range victims {
		m.held = slices.DeleteFunc(m.held, func(q *listedRequest) bool { return q == v })
		if v.left = v.end - now; m.order == PreemptRestart {
			v.left = v.total
		}
		m.queue = append(m.queue, v)
	}
	return true
}

// advance ends what ends until now.
func (m *listServer) advance(now float64) {
	for {
		var first *listedRequest
		for _, r := range m.held {
			if r.end <= now && (first == nil || r.end < first.end) {
				first = r
			}
		}
		if first == nil {
			return
		}
		m.held = slices.DeleteFunc(m.held, func(q *listedRequest) bool { return q == first })
		m.log = append(m.log, fmt.Sprintf("%d done %v", first.id, first.end))
		m.grant(first.end)
	}
}

// Random operations do with a server what they do with the model of it.
func TestServerAgainstModel(t *testing.T) {
	rnd := seed.Rand(t)
	for round := range 300 {
		m := &listServer{order: Order(round % 5), capacity: 1 + rnd.IntN(4), limit: 1 + rnd.IntN(12)}
		var log []string
		err := one(t, 1000, func(n *Node) {
			d := &driver{m: m, rnd: rnd, log: &log, of: map[*listedRequest]Grant{},
				s: n.Server("s", m.capacity, m.order, QueueLimit(m.limit))}
			d.s.most = 4
			n.Every(dist.Exponential(1), d.step)
		})
		if err != nil {
			t.Fatal(m.order, err)
		}
		m.advance(math.Nextafter(1000, 0))
		for i := range max(len(log), len(m.log), 50) {
			if i >= min(len(log), len(m.log)) || log[i] != m.log[i] {
				t.Fatalf("order %v: the first difference is at %d\ngot  %v\nwant %v", m.order, i, log[max(0, i-3):],
					m.log[max(0, i-3):])
			}
		}
	}
}

// driver does random operations with both.
type driver struct {
	m   *listServer
	s   *Server
	rnd *rand.Rand
	ids int
	log *[]string
	of  map[*listedRequest]Grant // of Request
}

func (d *driver) step(c *Context) {
	m, s, now := d.m, d.s, c.Now()
	m.advance(now)
	switch d.rnd.IntN(8) {
	case 0, 1, 2, 3:
		d.ids++
		id, priority, units := d.ids, float64(d.rnd.IntN(3)), 1+d.rnd.IntN(2)*d.rnd.IntN(m.capacity)
		r := &listedRequest{id: id, units: units, priority: priority, serves: d.rnd.IntN(3) > 0}
		if !r.serves {
			granted := func(c *Context) { d.note("%d granted %v", id, c.Now()) }
			d.of[r] = s.Request(c, granted, Priority(priority), Units(units))
		} else {
			r.left = d.rnd.ExpFloat64() * 2
			r.total = r.left
			done := func(c *Context) { d.note("%d done %v", id, c.Now()) }
			s.Use(c, r.left, done, Priority(priority), Units(units))
		}
		m.enter(r, now)
	case 4:
		if i := slices.IndexFunc(m.queue, func(r *listedRequest) bool { return !r.serves }); i >= 0 {
			d.cancel(c, m.queue[i])
		}
	case 5:
		d.s.SetCapacity(c, 1+d.rnd.IntN(4))
		m.capacity = s.Capacity()
		m.grant(now)
	default:
		if i := slices.IndexFunc(m.held, func(r *listedRequest) bool { return !r.serves }); i >= 0 {
			r := m.held[i]
			m.held = slices.Delete(m.held, i, i+1)
			m.grant(now)
			c.After(0, func(c *Context) { d.of[r].Release(c) }) // behind its own grant
		}
	}
	c.After(0, func(*Context) {
		if s.Waiting() != len(m.queue) || s.Free() != max(0, m.free()) {
			c.Fail(fmt.Errorf("%d waiting, %d free, want %d, %d", s.Waiting(), s.Free(), len(m.queue), m.free()))
		}
	})
}

func (d *driver) note(format string, args ...any) {
	*d.log = append(*d.log, fmt.Sprintf(format, args...))
}

func (d *driver) cancel(c *Context, r *listedRequest) {
	if !d.of[r].Cancel(c) || d.of[r].Cancel(c) {
		c.Fail(fmt.Errorf("cancel"))
	}
	d.m.queue = slices.DeleteFunc(d.m.queue, func(q *listedRequest) bool { return q == r })
	d.m.grant(c.Now())
}

// Processes that acquire, give up, are interrupted and lose units, many at one epoch, never lose or double a unit, and
// nobody is left in a queue that could be served. The checked build counts after every change.
func TestServerProperties(t *testing.T) {
	rnd := seed.Rand(t)
	for round := range 200 {
		order := Order(round % 5)
		capacity := 1 + rnd.IntN(3)
		var servers [2]*Server
		err := one(t, 300, func(n *Node) {
			for i := range servers {
				servers[i] = n.Server(fmt.Sprint("s", i), capacity, order)
			}
			if round%3 == 0 {
				servers[0].Breakdowns(dist.Geometric(0.05), dist.Geometric(0.3), Unfinished(rnd.IntN(3)))
			}
			var all []*Process
			n.Start(func(c *Context) {
				for range 8 {
					all = append(all, c.Go(func(p *Process) { useAtRandom(p, servers[:], rnd) }))
				}
			})
			n.Every(dist.Constant(1), func(c *Context) {
				if c.Now() < 200 && rnd.IntN(3) == 0 {
					all[rnd.IntN(len(all))].Interrupt(nil)
				}
				for _, s := range servers {
					if s.queue.len() > 0 && s.fits(s.queue.first()) {
						c.Fail(fmt.Errorf("%s: %d wait, %d free", s.name, s.Waiting(), s.Free()))
					}
				}
			})
		})
		if err != nil {
			t.Fatal(order, err)
		}
		for _, s := range servers {
			if s.used != 0 || s.Waiting() != 0 || len(s.held.list) != 0 || s.fixed != 0 {
				t.Fatalf("%v: %d used, %d wait, %d held, %d fixed", order, s.used, s.Waiting(), len(s.held.list),
					s.fixed)
			}
		}
	}
}

// useAtRandom uses servers until 200 s, two at a time at most, the first one first, so that nobody waits for ever.
func useAtRandom(p *Process, servers []*Server, rnd *rand.Rand) {
	for p.Now() < 200 {
		var held []*Server
		for _, s := range servers {
			got := false
			switch priority := Priority(float64(rnd.IntN(3))); rnd.IntN(5) {
			case 0:
				got = s.Acquire(p, priority)
			case 1:
				got = s.AcquireWithin(p, float64(rnd.IntN(4)), priority)
			case 2:
				got = s.TryAcquire(p, priority)
			case 3:
				s.ServeWithin(p, float64(rnd.IntN(4)), float64(rnd.IntN(4)), priority)
			default:
				g := s.Request(p, func(*Context) {}, priority)
				p.Hold(float64(rnd.IntN(3)))
				if !g.Cancel(p) {
					g.Release(p)
				}
			}
			if got {
				held = append(held, s)
			}
			p.HoldOrInterrupt(float64(rnd.IntN(3)))
		}
		for _, s := range held {
			s.Release(p)
		}
		p.Hold(float64(rnd.IntN(2)))
	}
}

// Two who lose a unit leave the queue by that, in which they wait for another one, while the units are taken away.
func TestServerPreemptsWaiting(t *testing.T) {
	var l lines
	err := one(t, 100, func(n *Node) {
		s := n.Server("agents", 2, PreemptResume)
		for range 2 {
			n.Go(func(p *Process) {
				s.Acquire(p, Priority(2))
				p.Hold(0.5)
				l.add(p, "second %v", s.AcquireWithin(p, math.Inf(1), Priority(2)))
				s.Release(p)
			})
		}
		n.Go(func(p *Process) {
			p.Hold(1)
			s.Acquire(p, Priority(0), Units(2))
			l.add(p, "both, %d used, %d wait", s.Used(), s.Waiting())
			s.Release(p)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	l.check(t, "1 both, 2 used, 0 wait\n1 second false\n1 second false")
}

// What a server records by itself.
func TestServerStatistics(t *testing.T) {
	m := model(t, 40, 0, func(b *Builder) {
		b.Node("front", func(n *Node) {
			s := n.Server("agents", 2, PreemptResume, QueueLimit(1))
			for i, priority := range []float64{1, 2, 2, 2, 0} { // waits 0, 0 and 12; balks; takes the second's place
				n.Go(func(p *Process) {
					p.Hold(float64(i))
					s.Serve(p, 10, Priority(priority))
				})
			}
			n.Go(func(p *Process) {
				p.Hold(14.5)
				s.ServeWithin(p, 1, 5, Priority(3)) // gives up at 15.5
			})
		})
	})
	r := summarize(t, m, 2)
	// The first is served from 0 to 10, the fifth from 4 to 14, the second from 1 to 4 and from 10 to 17, the third
	// from 14 to 24.
	for name, want := range map[string]float64{
		"served": 4, "reneged": 1, "balked": 1, "preempted": 1, "wait": 12.0 / 4,
		"queue": (12 + 6 + 1) / 40.0, "utilisation": (10 + 10 + 10 + 10) / 80.0,
	} {
		if got := r.Figure("front/agents." + name); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s %v, want %v", name, got, want)
		}
	}
}

// Requests don't allocate once there were as many before, and neither do functions that use a server.
func TestServerAllocations(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checks allocate")
	}
	allocations := -1.0
	err := one(t, 1e9, func(n *Node) {
		s := n.Server("agents", 1, PreemptResume)
		n.Go(func(p *Process) {
			for range 100 {
				s.Use(p, 1, nil, Priority(float64(p.n.now)))
			}
			p.Hold(1000)
			allocations = testing.AllocsPerRun(200, func() {
				s.Use(p, 3, nil, Priority(1))
				s.Serve(p, 1, Priority(0))
				s.Acquire(p, Units(1))
				p.Hold(1)
				s.Release(p)
			})
		})
	})
	if err != nil || allocations != 0 {
		t.Errorf("%v allocations, %v", allocations, err)
	}
}

// A server's line has the order of a sorted list, whatever comes, leaves in the middle and comes back.
func TestLine(t *testing.T) {
	rnd := seed.Rand(t)
	for _, byPriority := range []bool{false, true} {
		for range 200 {
			l := line{byPriority: byPriority}
			var want, away []*request
			for number := range uint64(300) {
				add := func(r *request) {
					l.add(r)
					want = append(want, r)
				}
				switch rnd.IntN(6) {
				case 0, 1:
					add(&request{order: number})
				case 2:
					r := &request{order: ^number}
					if byPriority {
						r.priority = float64(rnd.IntN(3))
					}
					add(r)
				case 3:
					if len(away) > 0 { // it comes back to its place
						add(away[len(away)-1])
						away = away[:len(away)-1]
					}
				default:
					if len(want) == 0 {
						continue
					}
					i := 0
					if rnd.IntN(3) == 0 {
						i = rnd.IntN(len(want))
					} else if l.first() != want[0] {
						t.Fatalf("order %d is first, want %d", l.first().order, want[0].order)
					}
					l.remove(want[i])
					away = append(away, want[i])
					want = slices.Delete(want, i, i+1)
				}
				slices.SortFunc(want, func(a, b *request) int {
					return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.order, b.order))
				})
				if l.len() != len(want) {
					t.Fatalf("%d wait, want %d", l.len(), len(want))
				}
			}
		}
	}
}
