// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/sim/dist"
)

// note is an event, and what timers carry.
type note struct {
	Left int32
	Text string
}

// savable is a ring of nodes that use all that can be saved. forget leaves a variable out.
func savable(t testing.TB, forget bool, details ...func(b *Builder)) *Model {
	t.Helper()
	m, err := New("savable", func(b *Builder) {
		b.Horizon(60)
		for _, d := range details {
			d(b)
		}
		var ring Group
		ring = b.Nodes("n", 5, func(n *Node) { keeps(n, ring, forget) })
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func keeps(n *Node, ring Group, forget bool) {
	next := LinkTo[note](n, ring.At((n.Index()+1)%5), dist.Uniform(0.5, 1).Named("way"))
	seen, wait, level := n.Counter("seen"), n.Tally("wait", OverTime(8)), n.Gauge("level")
	var texts []string
	var last Timer
	rounds := int32(0)
	var own dist.Stream
	Saved(n, "own", &own)
	n.Start(func(c *Context) { own = *c.Stream("own") })
	Saved(n, "texts", &texts)
	Saved(n, "last", &last)
	if !forget {
		Saved(n, "rounds", &rounds)
	}
	again := NewLater(n, "again", func(c *Context, x note) {
		level.Add(-1)
		if x.Left > 0 {
			next.Send(c, note{x.Left - 1, fmt.Sprint(x.Text, rounds)})
		}
	})
	idle := NewTimeout(n, func(c *Context, x note) {
		wait.Add(float64(len(x.Text)))
		texts = append(texts[:0], x.Text)
	})
	soon := NewLater(n, "soon", func(c *Context, _ struct{}) { rounds++ })
	n.Every(dist.Exponential(2).Named("gap"), func(c *Context) {
		if c.Cancel(last) {
			level.Add(-1)
		}
		level.Add(1)
		last = again.After(c.Draw(dist.Exponential(3).Named("later")), note{4, "x"})
		soon.After(0, struct{}{})
	})
	n.Every(dist.Constant(5), func(c *Context) { rounds %= 3; idle.Cancel() })
	On(n, func(c *Context, x note) {
		seen.Inc()
		idle.Set(c.Draw(dist.Uniform(1, 3)), x)
		if x.Left > 0 {
			level.Add(1)
			again.At(c.Now()+1, x)
		}
		if len(texts) < 5 && own.Float64() < 0.8 {
			texts = append(texts, x.Text)
		}
	})
}

// A model without processes goes on from what was saved anywhere.
func TestResume(t *testing.T) {
	warm := func(b *Builder) { b.m.warmup = 17 }
	opposite := func(b *Builder) { b.m.antithetic = true }
	for seed := range uint64(3) {
		modeltest.ResumeEverywhere(t, savable(t, false), seed)
		modeltest.ResumeEverywhere(t, savable(t, false, warm), seed)
		modeltest.ResumeEverywhere(t, savable(t, false, opposite), seed)
	}
	modeltest.DamagedStates(t, savable(t, false), 1)
	modeltest.DamagedStates(t, savable(t, false, warm), 2)
}

// buyer is a customer of a shop, as timers carry it.
type buyer struct {
	Number int
	Odd    bool
}

// desks is a node with servers of an order, with what else can be saved of resources.
func desks(n *Node, order Order, work Unfinished) {
	desk := n.Server("desk", 2, order, QueueLimit(6))
	desk.Breakdowns(dist.Exponential(9), dist.Exponential(2), work)
	desk.Breakdowns(dist.Constant(20), dist.Constant(1), Finish)
	till := n.Server("till", 1)
	till.Schedule(10, CapacityFrom{2, 3}, CapacityFrom{7, 0}, CapacityFrom{8, 1})
	shelf := n.Container("shelf", 50, 20)
	bags := StoreOf[buyer](n, "bags", 5)
	bags.OrderBy(func(a, b buyer) int { return a.Number%7 - b.Number%7 })
	lost := n.Counter("lost")
	number := 0
	Saved(n, "number", &number)
	paid := NewLater(n, "paid", func(c *Context, b buyer) {
		if !bags.TryPut(c, b) {
			bags.TryGet(c, func(x buyer) bool { return x.Odd == b.Odd })
		}
	})
	served := NewLater(n, "served", func(c *Context, b buyer) {
		if !shelf.TryGet(c, 3) {
			lost.Inc()
		}
		paid.Use(till, 0.3, b)
	})
	n.Every(dist.Exponential(1).Named("gap"), func(c *Context) {
		number++
		b := buyer{number, number%3 == 0}
		units := Units(1 + number%2)
		if !served.Use(desk, c.Draw(dist.Exponential(1.5).Named("service")), b, Priority(float64(number%4)), units) {
			lost.Inc()
		}
	})
	n.Every(dist.Constant(4), func(c *Context) {
		shelf.TryPut(c, 9)
		desk.SetCapacity(c, 2+number%2)
		desk.Use(c, 1, nil)
	})
}

// Resources that functions use go on where they were.
func TestResumeResources(t *testing.T) {
	for _, order := range []Order{FIFO, LIFO, ByPriority, PreemptResume, PreemptRestart} {
		for _, work := range []Unfinished{Finish, Resume, Restart} {
			m, err := New("shops", func(b *Builder) {
				b.Horizon(100)
				b.Nodes("shop", 2, func(n *Node) { desks(n, order, work) })
			})
			if err != nil {
				t.Fatal(err)
			}
			modeltest.ResumeEverywhere(t, m, uint64(order))
			modeltest.DamagedStates(t, m, uint64(work))
		}
	}
}

// A variable that isn't declared is found where it changes what happens.
func TestForgotten(t *testing.T) {
	m, f, done := savable(t, true), &failing{}, make(chan struct{})
	go func() {
		defer close(done)
		modeltest.ResumeEverywhere(f, m, 1)
	}()
	<-done
	if !strings.Contains(f.text, "of the node of n-") {
		t.Errorf("found %q", f.text)
	}
}

// Cancelled timers, more than are swept at once, are saved as they lie.
func TestResumeSweeps(t *testing.T) {
	m, err := New("sweeps", func(b *Builder) {
		b.Horizon(30)
		b.Nodes("n", 2, func(n *Node) {
			var timers []Timer
			Saved(n, "timers", &timers)
			done := n.Counter("done")
			later := NewLater(n, "later", func(c *Context, i int) { done.Add(float64(i)) })
			n.Every(dist.Exponential(0.05), func(c *Context) {
				timers = append(timers, later.After(c.Draw(dist.Exponential(20)), len(timers)))
				if len(timers) > 50 {
					c.Cancel(timers[0])
					timers = append(timers[:0], timers[1:]...)
				}
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	modeltest.ResumeEverywhere(t, m, 1)
	modeltest.DamagedStates(t, m, 1)
}

// A model can be saved where it says that it has no variables, or has no functions, and that changes nothing.
func TestSavable(t *testing.T) {
	for _, setup := range []func(n *Node){nothing, func(n *Node) {
		n.Stateless()
		n.Every(dist.Constant(1), func(*Context) {})
	}} {
		if err := saved(t, front(setup)); err != nil {
			t.Error(err)
		}
		m, err := New("test", func(b *Builder) {
			b.Horizon(10)
			b.Node("n", setup)
		})
		if err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(9) {
			modeltest.ResumeEverywhere(t, m, seed)
		}
	}
}

// failing is a test that may fail.
type failing struct {
	testing.TB
	text string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// variedParams are parameters that the model says may change under a state, and others.
type variedParams struct {
	People int       `default:"3"`
	Gap    dist.Dist `default:"exponential(2)" varies:"true"`
	Desks  []struct {
		Name  string  `yaml:"name,key"`
		Rooms int     `default:"1"`
		Price float64 `varies:"true"`
	}
}

// TestVaries: what a model's tags allow, and nothing else, may change under a state.
func TestVaries(t *testing.T) {
	kind := Kind("varied", func(b *Builder, p variedParams) {
		b.Nodes("n", p.People, func(n *Node) {
			paid := n.Tally("paid")
			n.Stateless()
			n.Every(p.Gap.Named("gap"), func(c *Context) {
				for _, d := range p.Desks {
					paid.Add(d.Price)
				}
			})
		})
	})
	doc, err := scenario.Parse("test.yml", []byte("model: varied\nhorizon: 60\ngap: exponential(3)\n"+
		"desks: { a: { price: 2 }, b: { price: 3, rooms: 2 } }\n"))
	if err != nil {
		t.Fatal(err)
	}
	modeltest.Varies(t, kind, doc, 1, "gap=uniform(1, 2)", "desks.b.price=4")
	for key, want := range map[string]string{
		"people=4":        "people: found 4, want nothing: the run that was saved leaves it out",
		"desks.b.rooms=3": "desks.b.rooms: found 3, want 2, as in the run that was saved",
		"horizon=70":      "horizon: found 70, want 60, as in the run",
	} {
		name, value, _ := strings.Cut(key, "=")
		after, err := doc.With([]scenario.Setting{{Key: name, Value: value}})
		if err == nil {
			err = kind.Varies(doc, after)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", key, err, want)
		}
	}
}
