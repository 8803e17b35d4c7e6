// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/seed"
	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/sim/dist"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// run runs a model on one engine and returns the error of it.
func run(t testing.TB, horizon float64, build func(b *Builder)) error {
	t.Helper()
	m, err := New("test", func(b *Builder) {
		b.Horizon(horizon)
		build(b)
	})
	if err != nil {
		return err
	}
	_, err = modeltest.Run(m, modeltest.Config{Seed: 1})
	return err
}

// lines collects what happens.
type lines struct{ list []string }

func (l *lines) add(c Caller, format string, args ...any) {
	l.list = append(l.list, fmt.Sprintf("%v ", c.context().Now())+fmt.Sprintf(format, args...))
}

func (l *lines) check(t *testing.T, want string) {
	t.Helper()
	if got := strings.Join(l.list, "\n"); got != strings.TrimSpace(want) {
		t.Errorf("got\n%s\nwant\n%s", got, strings.TrimSpace(want))
	}
}

// Work of one epoch is done in the order in which it was asked for, and before the activation ends.
func TestOrderAtOneEpoch(t *testing.T) {
	var l lines
	err := run(t, 10, func(b *Builder) {
		b.Node("n", func(n *Node) {
			n.Start(func(c *Context) {
				c.After(1, func(c *Context) {
					l.add(c, "a")
					c.After(0, func(c *Context) { l.add(c, "d") })
				})
				c.At(1, func(c *Context) { l.add(c, "b") })
				c.After(1, func(c *Context) { l.add(c, "c") })
				c.After(10, func(c *Context) { l.add(c, "never") })
				l.add(c, "start")
			})
			n.Go(func(p *Process) {
				l.add(p, "process")
				p.Hold(1)
				l.add(p, "after the timers that were set first")
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	l.check(t, "0 start\n0 process\n1 a\n1 b\n1 c\n1 after the timers that were set first\n1 d")
}

// The schedule gives what a sorted list gives, whatever is set and cancelled, and keeps no more than twice what is
// live.
func TestSchedule(t *testing.T) {
	rnd := seed.Rand(t)
	for range 200 {
		var s schedule
		now := 0.0
		type due struct {
			t     Timer
			epoch float64
			id    int
		}
		var want []due
		fired := -1
		for id := range 400 {
			switch rnd.IntN(5) {
			case 0, 1:
				epoch := now + float64(rnd.IntN(8))
				tm := s.set(now, epoch, call(func(*Context) { fired = id }))
				want = append(want, due{tm, epoch, id})
			case 2:
				if len(want) > 0 {
					i := rnd.IntN(len(want))
					if want[i].t == (Timer{}) {
						continue // it can't be cancelled
					}
					if !s.cancel(want[i].t) || s.cancel(want[i].t) || s.live(want[i].t) {
						t.Fatal("cancel")
					}
					want = slices.Delete(want, i, i+1)
				}
			case 3:
				s.setSoon(call(func(*Context) { fired = id }))
				want = append(want, due{epoch: now, id: id})
			case 4:
				do := s.due(now)
				slices.SortStableFunc(want, func(a, b due) int { return int(a.epoch - b.epoch) })
				if do == nil {
					if len(want) > 0 && want[0].epoch <= now {
						t.Fatal("nothing due, want", want[0])
					}
					epoch, any := s.first()
					if any != (len(want) > 0) || any && epoch != want[0].epoch {
						t.Fatal("first", epoch, any, want)
					}
					now++
					continue
				}
				do.fire(nil)
				if fired != want[0].id {
					t.Fatalf("%d, want %v", fired, want[0])
				}
				want = want[1:]
			}
			if live := len(want); len(s.heap) > 2*live+2*sweepMin {
				t.Fatalf("%d entries for %d", len(s.heap), live)
			}
		}
	}
}

// A process waits for time, Resume, Interrupt and signals, each at its place.
func TestProcess(t *testing.T) {
	var l lines
	err := run(t, 100, func(b *Builder) {
		b.Node("n", func(n *Node) {
			var s Signal
			var first, second *Process
			n.Start(func(c *Context) {
				first = c.Go(func(p *Process) {
					left, interrupted := p.HoldOrInterrupt(10)
					l.add(p, "first: %v %v %v", left, interrupted, p.Cause())
					l.add(p, "first resumed: %v", p.Suspend())
					p.Hold(5)
					l.add(p, "first: %v", p.SuspendFor(3))
					l.add(p, "first: %v", s.WaitFor(p, 4))
				})
				second = c.Go(func(p *Process) {
					l.add(p, "second: signal %v", s.Wait(p))
					l.add(p, "second: signal %v", s.Wait(p))
				})
				c.Go(func(p *Process) {
					p.Hold(4)
					first.Interrupt("broken")
					p.Hold(1)
					first.Resume()
					p.Hold(1)
					first.Interrupt("while it holds") // ends SuspendFor(3) before it begins
					l.add(p, "sent to %d", s.Send())
					p.Hold(1)
					second.Interrupt(nil)
				})
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	l.check(t, `
4 first: 6 true broken
5 first resumed: true
6 sent to 1
6 second: signal true
7 second: signal false
10 first: false
14 first: false`)
}

// What ends a run in a process ends it with the model's words, and deferred calls are made however a process ends.
func TestProcessEnds(t *testing.T) {
	deferred := 0
	build := func(last func(p *Process)) func(b *Builder) {
		return func(b *Builder) {
			b.Node("front", func(n *Node) {
				for range 3 {
					n.Go(func(p *Process) {
						defer func() { deferred++; p.Hold(1) }()
						p.Hold(1000)
					})
				}
				n.Go(last)
			})
		}
	}
	if err := run(t, 10, build(func(p *Process) {})); err != nil || deferred != 3 {
		t.Fatal(err, deferred)
	}
	err := run(t, 10, build(func(p *Process) {
		p.Hold(1)
		panic("at the till")
	}))
	if err == nil || !strings.Contains(err.Error(), "at the till") || !strings.Contains(err.Error(), "sim_test.go") {
		t.Errorf("%v", err)
	}
	err = run(t, 10, build(func(p *Process) { p.Hold(-1) }))
	want := "front, at 0 s: Hold(-1): want a time of 0 s or more (sim_test.go:"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v", err)
	}
}

// customer is an event of the models below.
type customer struct {
	Arrived float64
	Hops    int32
}

// The same hashes and reports, however the nodes are spread.
func TestPlacements(t *testing.T) {
	m, err := New("ring", func(b *Builder) {
		b.Horizon(200)
		delay := dist.Uniform(0.5, 1.5).Named("delay")
		var g Group
		part := b.In("part")
		g = part.Nodes("n", 7, func(n *Node) {
			next := LinkTo[customer](n, g.At((n.Index()+1)%7), delay)
			n.Each(dist.Exponential(3).Named("gap"), func(p *Process) {
				p.HoldFor(dist.Exponential(2))
				next.Send(p, customer{Arrived: p.Now()})
			})
			On(n, func(c *Context, e customer) {
				if e.Hops++; e.Hops < 5 {
					c.After(c.Draw(dist.Exponential(0.1)), func(c *Context) { next.Send(c, e) })
				}
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if out := modeltest.ComparePlacements(t, m, 1); out.Events < 100 {
		t.Errorf("%d events", out.Events)
	}
}
