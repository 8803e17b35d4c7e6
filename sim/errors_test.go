// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/external"
	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/sim/dist"
)

// wrong is a model with a mistake, and what it is told, whole but for the number of the line.
type wrong struct {
	want  string
	build func(b *Builder)
}

// saved has a model's nodes asked whether they can be saved, as a run with checkpoints does.
func saved(t testing.TB, build func(b *Builder)) error {
	t.Helper()
	m, err := New("test", func(b *Builder) {
		b.Horizon(10)
		build(b)
	})
	if err == nil {
		err = modeltest.CheckState(m)
	}
	return err
}

// explained is a heading of docs/errors.md.
type explained struct {
	text     string
	pattern  *regexp.Regexp
	provoked bool
}

func entries(t *testing.T) (all []*explained) {
	page, err := os.ReadFile("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?m)^\\* `([^`]*)`").FindAllStringSubmatch(string(page), -1) {
		text := strings.Join(strings.Fields(m[1]), " ")
		pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(text), "…", "(?s:.*)") + "$"
		all = append(all, &explained{text: text, pattern: regexp.MustCompile(pattern)})
	}
	if len(all) < 80 {
		t.Fatalf("docs/errors.md has %d entries", len(all))
	}
	return all
}

var (
	// behind is what package sim puts behind a message: when, and the model's line.
	behind = regexp.MustCompile(`(?:, at [\d.]+ s)?(?: \(errors_test\.go\))?$`)
	// ahead is what it puts in front: where and when.
	ahead = regexp.MustCompile(`^[a-z][\w.\-/]*(?:, at [\d.]+ s)?: `)
	// engine is what package node puts in front of that.
	engine = regexp.MustCompile(`^node: \S+(?: at epoch [^:]*)?: `)
	// in is a line of this file, or a function of it.
	in = regexp.MustCompile(`:\d+\)|sim\.wrong\S+ `)
)

// entryOf is the heading that explains a message: of several that fit, the one that has most of its words.
func entryOf(all []*explained, message string) (best *explained) {
	text := behind.ReplaceAllString(message, "")
	for _, text := range []string{ahead.ReplaceAllString(text, ""), text, message} {
		for _, e := range all {
			if e.pattern.MatchString(text) && (best == nil || len(e.text) > len(best.text)) {
				best = e
			}
		}
		if best != nil {
			break
		}
	}
	return best
}

// Every message that docs/errors.md explains is provoked by a model, and is the one that the page has.
func TestEveryError(t *testing.T) {
	all := entries(t)
	for _, w := range slices.Concat(wrongBuilds(), wrongTypes(), wrongDists(), wrongCalls(), wrongProcesses(),
		wrongServers(), wrongRemotes(), wrongShares(), wrongStatistics(), wrongSaves(), wrongExternals()) {
		err := run(t, 10, w.build)
		if err == nil {
			err = saved(t, w.build)
		}
		if err == nil {
			t.Errorf("no error, want %s", w.want)
			continue
		}
		got := strings.ReplaceAll(in.ReplaceAllStringFunc(err.Error(), short), "`", "")
		if got != w.want { // most begin with what package node knows
			got = engine.ReplaceAllString(got, "")
		}
		if got != w.want {
			t.Errorf("got  %s\nwant %s", got, w.want)
		}
		if e := entryOf(all, got); e == nil {
			t.Errorf("docs/errors.md doesn't explain %s", got)
		} else {
			e.provoked = true
		}
	}
	for _, e := range all {
		if !e.provoked {
			t.Errorf("no model of this test provokes what docs/errors.md explains: %s", e.text)
		}
	}
}

// short leaves out what differs with every change of this file.
func short(text string) string {
	if text[0] == ':' {
		return ")"
	}
	return ""
}

// front is a model of one node.
func front(setup func(n *Node)) func(b *Builder) {
	return func(b *Builder) { b.Node("front", setup) }
}

// started is a model of one node that does something at 1 s.
func started(f func(n *Node, c *Context)) func(b *Builder) {
	return front(func(n *Node) {
		n.Start(func(c *Context) { c.At(1, func(c *Context) { f(n, c) }) })
	})
}

func nothing(*Node) {}

func wrongBuilds() []wrong {
	minute := dist.Constant(60)
	calls := 0
	return []wrong{
		{`till has 2 nodes, and no number 2 (errors_test.go)`,
			func(b *Builder) { b.Nodes("till", 2, nothing).At(2) }},
		{`nodes "a/b", 1 of them: want a name without '/' and a number from 0 to 268435456 (errors_test.go)`,
			func(b *Builder) { b.Node("a/b", nothing) }},
		{`there are nodes "a" already (errors_test.go)`, func(b *Builder) {
			b.Node("a", nothing)
			b.Node("a", nothing)
		}},
		{`sim: the model test has no node`, func(*Builder) {}},
		{`sim: the model test has no horizon: write horizon: 1000 (simulated seconds) into the file, give --horizon, ` +
			`or call Builder.Horizon`, func(b *Builder) {
			b.Node("a", nothing)
			b.m.horizon = 0
		}},
		{`sim: the model test has a warm-up of 10 s and a horizon of 10 s, so nothing is left to be measured: make ` +
			`the warm-up shorter, or the horizon later`, func(b *Builder) {
			b.Node("a", nothing)
			b.m.warmup = 10
		}},
		{`front: On: there is a function for int already (errors_test.go)`, front(func(n *Node) {
			On(n, func(*Context, int) {})
			On(n, func(*Context, int) {})
		})},
		{`front: LinkTo(back): a delay of at least -Inf s: want 0 or more (errors_test.go)`,
			front(func(n *Node) { LinkTo[int](n, "back", dist.Normal(1, 1)) })},
		{`front: LinkTo(front): node: no link from front/main to front/main is declared in the scenario's graph ` +
			`(errors_test.go)`, front(func(n *Node) {
			On(n, func(*Context, int) {})
			if calls++; calls == 2 {
				LinkTo[int](n, "front", minute)
			}
		})},
		{`front: LinkTo(back): there is no such node (errors_test.go)`,
			front(func(n *Node) { LinkTo[int](n, "back", minute) })},
		{`MeshOf: a delay of at least 0 s: want more than 0 (errors_test.go)`,
			func(b *Builder) { MeshOf[int](b, dist.Exponential(1)) }},
		{`sim: front has a link for int to front, which has no function for that: give it one with sim.On, ` +
			`func(c *sim.Context, e int)`, front(func(n *Node) { LinkTo[int](n, "front", minute) })},
		{`sim: the counter "x" of n-1 was declared differently than that of other nodes of its form, with which its ` +
			`results are merged`, func(b *Builder) {
			b.Nodes("n", 2, func(n *Node) { n.Counter("x", Unit(fmt.Sprint(n.Index()))) })
		}},
		{"node: links of lookahead 0, with the order of the simprocs in a node, form a cycle of 2 steps: give one of " +
			"them a lookahead above 0:\n  ping/main -> pong/main (lookahead 0)\n  pong/main -> ping/main (lookahead 0)",
			func(b *Builder) {
				for _, pair := range [][2]string{{"ping", "pong"}, {"pong", "ping"}} {
					b.Node(pair[0], func(n *Node) {
						On(n, func(*Context, int) {})
						LinkTo[int](n, pair[1], dist.Exponential(1))
					})
				}
			}},
	}
}

// What events can't be made of.
type (
	withMap     struct{ M map[string]int }
	withPointer struct{ P *int }
	withAny     struct{ A any }
	withFunc    struct{ F func() }
	withChan    struct{ C chan int }
	withUintptr struct{ U uintptr }
	withItself  struct{ Next []withItself }
	withNothing struct{ N []struct{} }
	deep1       [1][1][1][1][1][1][1][1]deep2
	deep2       [1][1][1][1][1][1][1][1]deep3
	deep3       [1][1][1][1][1][1][1][1][1][1][1][1][1][1][1][1]deep4
	deep4       [1][1][1][1][1][1][1][1][1][1][1][1][1][1][1][1]deep5
	deep5       [1][1][1][1][1][1][1][1][1][1][1][1][1][1][1][1][1]int
	large       [1 << 31]byte
	withHuge    struct{ L []large }
	hole        struct {
		_ [4096]byte
		X byte
	}
	withHoles struct{ H []hole }
	embeds    struct {
		Own
		X int
	}
	Own struct{ fails bool }
)

// AppendBinary implements encoding.BinaryAppender.
func (o Own) AppendBinary(b []byte) ([]byte, error) {
	if o.fails {
		return b, errors.New("no room")
	}
	return append(b, 1), nil
}

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (o Own) UnmarshalBinary([]byte) error { return errors.New("unknown version") }

type forgets struct{}

func (forgets) AppendBinary([]byte) ([]byte, error) { return nil, nil }
func (*forgets) UnmarshalBinary([]byte) error       { return nil }

// carries is a model whose events are of a type.
func carries[E any](e E) func(b *Builder) {
	return front(func(n *Node) {
		On(n, func(*Context, E) {})
		l := LinkTo[E](n, "front", dist.Constant(1))
		n.Start(func(c *Context) { l.Send(c, e) })
	})
}

// travels is a model that has a function for events of a type.
func travels[E any]() func(b *Builder) {
	return front(func(n *Node) { On(n, func(*Context, E) {}) })
}

// alike is a model with two types of one name and the same fields.
func alike() func(b *Builder) {
	return front(func(n *Node) {
		{
			type call struct{ X int }
			On(n, func(*Context, call) {})
		}
		type call struct{ X int }
		LinkTo[call](n, "front", dist.Constant(1))
	})
}

// saving is a model of one node that does something at 1 s of a run that is to be saved.
func saving(f func(n *Node, c *Context)) func(b *Builder) {
	return front(func(n *Node) {
		n.Stateless()
		later := NewLater(n, "later", func(c *Context, _ int) { f(n, c) })
		n.Start(func(c *Context) {
			later.At(1, 0)
			n.saving = true // as CheckState does
		})
	})
}

func wrongExternals() []wrong {
	oracle := external.External{Name: "oracle", Ask: func(context.Context, *external.Call) ([]byte, error) {
		return nil, nil
	}}
	return []wrong{
		{`front: External("solver"): the build function declares none of this name (Builder.External) (errors_test.go)`,
			func(b *Builder) {
				b.External(oracle)
				b.Node("front", func(n *Node) { n.External("solver") })
			}},
		{`back, at 1 s: the external of front: every node declares and uses its own (errors_test.go)`,
			func(b *Builder) {
				b.External(oracle)
				var shared *External
				b.Node("front", func(n *Node) { shared = n.External("oracle") })
				b.Node("back", func(n *Node) {
					n.Every(dist.Constant(1), func(c *Context) { shared.Ask(c, nil) })
				})
			}},
	}
}

func wrongSaves() []wrong {
	gap := dist.Constant(1)
	return []wrong{
		{`sim: front: a process, of Go, can't be saved: (errors_test.go): write events and timers (sim.NewLater, ` +
			`docs/sim.md)`, front(func(n *Node) { n.Go(func(*Process) {}) })},
		{`sim: front: a process, of Each, can't be saved: (errors_test.go): write events and timers (sim.NewLater, ` +
			`docs/sim.md)`, front(func(n *Node) { n.Each(gap, func(*Process) {}) })},
		{`sim: front: a timeout with a func() can't be saved: (errors_test.go): write events and timers ` +
			`(sim.NewLater, docs/sim.md)`,
			front(func(n *Node) { NewTimeout(n, func(*Context, func()) {}) })},
		{`sim: front: the batch cars can't be saved`,
			front(func(n *Node) { n.Batch("cars", 2, 1) })},
		{`sim: front: no variable is declared with sim.Saved, so it can't be saved: declare those that its functions ` +
			`change, or call Stateless where they change none, in (errors_test.go)`,
			front(func(n *Node) { n.Every(gap, func(*Context) {}) })},
		{`front: Saved("x"): there is a variable of this name already (errors_test.go)`, front(func(n *Node) {
			Saved(n, "x", new(int))
			Saved(n, "x", new(int))
		})},
		{`front, at 1 s: After: a function can't be saved: use NewLater, or run with --checkpoint-ends in place of ` +
			`checkpoints, and without --rebalance (errors_test.go)`,
			saving(func(_ *Node, c *Context) { c.After(1, func(*Context) {}) })},
		{`front, at 1 s: At: a function can't be saved: use NewLater, or run with --checkpoint-ends in place of ` +
			`checkpoints, and without --rebalance (errors_test.go)`,
			saving(func(_ *Node, c *Context) { c.At(2, func(*Context) {}) })},
		{`front, at 1 s: a process can't be saved: write events and timers, or run with --checkpoint-ends in place ` +
			`of checkpoints, and without --rebalance (errors_test.go)`,
			saving(func(_ *Node, c *Context) { c.Go(func(*Process) {}) })},
		{`front, at 1 s: NewTimeout: only a setup function may call it in a run with checkpoints (errors_test.go)`,
			saving(func(n *Node, _ *Context) { NewTimeout(n, func(*Context, int) {}) })},
		{`front, at 1 s: Saved: only a setup function may call it; the run is under way (errors_test.go)`,
			saving(func(n *Node, _ *Context) { Saved(n, "x", new(int)) })},
		{`front, at 1 s: NewLater: only a setup function may call it; the run is under way (errors_test.go)`,
			saving(func(n *Node, _ *Context) { NewLater(n, "x", func(*Context, int) {}) })},
		{`front, at 1 s: Stateless: only a setup function may call it; the run is under way (errors_test.go)`,
			saving(func(n *Node, _ *Context) { n.Stateless() })},
	}
}

func wrongTypes() []wrong {
	return []wrong{
		{`withMap.M: map[string]int can't travel: a map has no order: write a slice of structs with key and value, ` +
			`in an order of yours, or give a type of your own AppendBinary and UnmarshalBinary (errors_test.go)`,
			travels[withMap]()},
		{`withPointer.P: *int can't travel: an address means nothing at another node: write the value itself, a ` +
			`slice of none or one, or its number in a table (errors_test.go)`, travels[withPointer]()},
		{`withAny.A: interface {} can't travel: what it holds isn't known before the run: write a struct with the ` +
			`fields of all cases and a number that says which it is (errors_test.go)`, travels[withAny]()},
		{`withFunc.F: func() can't travel: code stays where it is: write what the other node needs to decide what to ` +
			`do (errors_test.go)`, travels[withFunc]()},
		{`withChan.C: chan int can't travel: nodes share nothing: send an event instead (errors_test.go)`,
			travels[withChan]()},
		{`withUintptr.U: uintptr can't travel: an address means nothing at another node: write the value itself, ` +
			`for a number uint64 (errors_test.go)`, travels[withUintptr]()},
		{`withItself.Next[]: sim.withItself can't travel: it contains itself: write a slice of structs that refer to ` +
			`each other by number (errors_test.go)`, travels[withItself]()},
		{`withNothing.N: []struct {} can't travel: its elements have nothing to send: write their number as an int ` +
			`(errors_test.go)`, travels[withNothing]()},
		{`deep1` + strings.Repeat("[]", 64) + `: [1]int can't travel: it is more than 64 types deep (errors_test.go)`,
			travels[deep1]()},
		{`withHuge.L: []sim.large can't travel: an element has 2147483648 bytes, at most 1073741824 fit in ` +
			`an event (errors_test.go)`, travels[withHuge]()},
		{`withHoles.H: []sim.hole can't travel: an element takes 4097 bytes of memory and may have only 1 ` +
			`to send, and at most 256 times as much is allowed: write an array, or leave out what isn't sent ` +
			`(errors_test.go)`, travels[withHoles]()},
		{`embeds: sim.embeds can't travel: the AppendBinary or UnmarshalBinary of its embedded field Own ` +
			`would leave out the others: give that field a name of its own (errors_test.go)`, travels[embeds]()},
		{`front, at 0 s: Own: AppendBinary: no room (errors_test.go)`, carries(Own{fails: true})},
		{`front, at 0 s: forgets: AppendBinary returned 0 bytes when given 8: it must append to them ` +
			`(errors_test.go)`, carries(forgets{})},
		{`sim: front, at 1 s: Own: UnmarshalBinary: unknown version`, carries(Own{})},
		{`sim.call of "github.com/disco-sim/disco/sim" and sim.call of "github.com/disco-sim/disco/sim" have the ` +
			`same number, so that one's events would be taken for the other's: give one of them another name ` +
			`(errors_test.go)`, alike()},
	}
}

func wrongDists() []wrong {
	mean, none := -1.0, dist.Dist{}
	return []wrong{
		{`front, at 1 s: dist: exponential(mean): found mean -1, want a number > 0 and <= 1e+18 (errors_test.go)`,
			started(func(_ *Node, c *Context) { c.Draw(dist.Exponential(mean)) })},
		{`dist: uniform(min, max): found max 1, want more than 2 (errors_test.go)`,
			func(*Builder) { dist.Uniform(2, 1) }},
		{`front, at 1 s: dist: a distribution that isn't set: want one from a constructor, Read or Parse ` +
			`(errors_test.go)`,
			front(func(n *Node) { n.Go(func(p *Process) { p.Hold(1); p.HoldFor(none) }) })},
		{`dist: Quantile(2): want a probability from 0 to 1 (errors_test.go)`,
			func(*Builder) { dist.Uniform(0, 1).Quantile(2) }},
		{`dist: Times(0) of uniform(0, 1): want a number (a factor > 0), and values from -1e+18 to 1e+18 ` +
			`(errors_test.go)`, func(*Builder) { dist.Uniform(0, 1).Times(0) }},
		{`dist: AtLeast(NaN): want a number from -1e+18 to 1e+18 (errors_test.go)`,
			func(*Builder) { dist.Uniform(0, 1).AtLeast(math.NaN()) }},
		{`dist: Truncate(5, 6) of uniform(0, 1): found 0 of all values from 5 to 6, want a millionth or ` +
			`more (errors_test.go)`, func(*Builder) { dist.Uniform(0, 1).Truncate(5, 6) }},
		{`dist: lists of a distribution: found 1 numbers, want 2, one for each value (errors_test.go)`,
			func(*Builder) { dist.Discrete([]float64{1, 2}, []float64{1}) }},
		{`dist: Rates: step 0: found rate -1, want a number from 0 to 1000000000000 (errors_test.go)`,
			func(*Builder) { dist.Rates(0, dist.Step{From: 0, Rate: -1}) }},
		{`dist: RateFunc(0, 1, …): want a rate > 0 and <= 1e+12, an end > 0 and a function ` +
			`(errors_test.go)`, func(*Builder) { dist.RateFunc(0, 1, nil) }},
		{`dist: a rate that isn't set: want one from a constructor or ReadRate (errors_test.go)`,
			func(*Builder) { dist.Rate{}.Named("x") }},
		{`front, at 1 s: dist: RateFunc: none of 67108864 candidates from 0 s to 0.06711680093122041 s ` +
			`became an arrival: want an end where the rate stays 0, and a most near what the function gives ` +
			`(errors_test.go)`, started(func(_ *Node, c *Context) {
			dist.RateFunc(1e9, math.Inf(1), func(float64) float64 { return 0 }).Next(0, c.Stream("x"))
		})},
		{`front, at 1 s: dist: RateFunc: found the rate 2 at 0.1066961772139351 s, want one from 0 to 1 ` +
			`(errors_test.go)`, started(func(_ *Node, c *Context) {
			dist.RateFunc(1, 10, func(float64) float64 { return 2 }).Next(0, c.Stream("x"))
		})},
	}
}

func wrongCalls() []wrong {
	second := dist.Constant(1)
	var shared *Link[int]
	calls := 0
	return []wrong{
		{`front: drawing a random number: a setup function can't: put it into n.Start(func(c *sim.Context) { … }) ` +
			`(errors_test.go)`, front(func(n *Node) { n.ctx.Draw(dist.Exponential(1)) })},
		{`front, at 1 s: Every: only a setup function may call it; the run is under way (errors_test.go)`,
			started(func(n *Node, c *Context) { n.Every(second, func(*Context) {}) })},
		{`front, at 1 s: 20 things were done at this one time, and there is more to do; the last: a request to ` +
			`agents. Time never goes on where each of them sets the next for 0 s later: give one of them a Hold, a ` +
			`gap or a delay above 0. A model that means it says epoch_limit: 200 in its file, or calls ` +
			`Builder.EpochLimit`,
			func(b *Builder) {
				b.m.epochLimit = 20
				front(func(n *Node) {
					agents := n.Server("agents", 1)
					var again func(c *Context)
					again = func(c *Context) { agents.Use(c, 0, again) }
					n.Start(func(c *Context) { c.At(1, again) })
				})(b)
			}},
		{`EpochLimit(0): want 1 or more (errors_test.go)`, func(b *Builder) { b.EpochLimit(0) }},
		{`front: In("a/b"): want a name without '/' (errors_test.go)`,
			front(func(n *Node) { n.In("a/b", nothing) })},
		{`front, at 1 s: In("a"): only a setup function may call it; the run is under way (errors_test.go)`,
			started(func(n *Node, c *Context) { n.In("a", nothing) })},
		{`front: Every, or Each: a gap of always 0 s: want one that can be above 0 (errors_test.go)`,
			front(func(n *Node) { n.Each(dist.Constant(0), func(*Process) {}) })},
		{`sim: front, at 1 s: found an event of 12 bytes that no On of this node is for`, front(func(n *Node) {
			l := LinkTo[int](n, "front", second)
			if calls++; calls == 1 {
				On(n, func(*Context, int) {})
			}
			n.Start(func(c *Context) { l.Send(c, 1) })
		})},
		{`front, at 1 s: At(0.5): the time is before now (errors_test.go)`,
			started(func(_ *Node, c *Context) { c.At(0.5, func(*Context) {}) })},
		{`front, at 1 s: After(-1): want a time of 0 s or more (errors_test.go)`,
			started(func(_ *Node, c *Context) { c.After(-1, func(*Context) {}) })},
		{`front, at 0 s: the link to front: sent with a delay of 0.5 s, want at least its lookahead, 1 s ` +
			`(errors_test.go)`, front(func(n *Node) {
			On(n, func(*Context, int) {})
			l := LinkTo[int](n, "front", second)
			n.Start(func(c *Context) { l.SendAfter(c, 0.5, 1) })
		})},
		{`n-0, at 0 s: the link of n-1 to n-0: every node declares and uses its own links (errors_test.go)`,
			func(b *Builder) {
				b.Nodes("n", 2, func(n *Node) {
					On(n, func(*Context, int) {})
					shared = LinkTo[int](n, "n-0", second)
					n.Start(func(c *Context) { shared.Send(c, 1) })
				})
			}},
		{`front, at 0 s: mesh: an event to node 1 of 1 after 1 s, want at least 1 s (errors_test.go)`,
			func(b *Builder) {
				m := MeshOf[int](b, second)
				b.Node("front", func(n *Node) {
					On(n, func(*Context, int) {})
					n.Start(func(c *Context) { m.Send(c, 1, 1) })
				})
			}},
	}
}

// used is a model in which another process holds while f is given it, at 1 s.
func used(setup func(n *Node) func(other *Process)) func(b *Builder) {
	return front(func(n *Node) {
		f := setup(n)
		n.Start(func(c *Context) {
			other := c.Go(func(p *Process) { p.Hold(5) })
			c.After(1, func(*Context) { f(other) })
		})
	})
}

const byOther = `a process was used by something other than the function that it was given to`

func wrongProcesses() []wrong {
	return []wrong{
		{`front, at 1 s: ` + byOther + ` (errors_test.go)`,
			used(func(*Node) func(*Process) { return func(other *Process) { other.Suspend() } })},
		{`front/tank: ` + byOther + `, at 1 s (errors_test.go)`, used(func(n *Node) func(*Process) {
			tank := n.Container("tank", 2, 1)
			return func(other *Process) { tank.Get(other, 2) }
		})},
		{`front/till: ` + byOther + `, at 1 s (errors_test.go)`, used(func(n *Node) func(*Process) {
			till := n.Server("till", 1)
			return func(other *Process) { till.Acquire(other) }
		})},
		{`front, at 1 s: Batch.Join: a batch of front is for running processes of that node (errors_test.go)`,
			used(func(n *Node) func(*Process) {
				batch := n.Batch("batch", 2, 1)
				return func(other *Process) { batch.Join(other) }
			})},
	}
}

// atTill is a model with a process that does something with a server of one unit at 1 s.
func atTill(f func(s *Server, p *Process)) func(b *Builder) {
	return front(func(n *Node) {
		s := n.Server("till", 1, ByPriority)
		n.Go(func(p *Process) {
			p.Hold(1)
			f(s, p)
		})
	})
}

func wrongServers() []wrong {
	var shared *Server
	second := dist.Constant(1)
	return []wrong{
		{`front: Server("till"): capacity -1, queue limit -1: want numbers from 0 to 2147483647 (errors_test.go)`,
			front(func(n *Node) { n.Server("till", -1) })},
		{`front/till: SetCapacity(-1): want 0 to 2147483647, at 1 s (errors_test.go)`,
			atTill(func(s *Server, p *Process) { s.SetCapacity(p, -1) })},
		{`front/till: AcquireWithin(-1): want a time of 0 s or more, at 1 s (errors_test.go)`,
			atTill(func(s *Server, p *Process) { s.AcquireWithin(p, -1) })},
		{`front/till: ServeWithin(-1): want a time of 0 s or more, at 1 s (errors_test.go)`,
			atTill(func(s *Server, p *Process) { s.ServeWithin(p, -1, 1) })},
		{`front/till: released by a process that doesn't hold it, at 1 s (errors_test.go)`,
			atTill(func(s *Server, p *Process) { s.Release(p) })},
		{`front, at 1 s: Grant.Release: the units aren't held (errors_test.go)`,
			atTill(func(s *Server, p *Process) {
				s.Request(p, func(*Context) {}, Priority(1)).Release(p)
				Grant{}.Release(p)
			})},
		{`n-0/till: used in n-1: a server belongs to its node, at 0 s (errors_test.go)`, func(b *Builder) {
			b.Nodes("n", 2, func(n *Node) {
				if n.Index() == 0 {
					shared = n.Server("till", 1)
				}
				n.Go(func(p *Process) { shared.Serve(p, 1) })
			})
		}},
		{`front/till: 2 units were asked for, and there are never more than 1, at 1 s (errors_test.go)`,
			atTill(func(s *Server, p *Process) { s.Acquire(p, Units(2)) })},
		{`front/till: Priority(NaN), at 1 s (errors_test.go)`,
			atTill(func(s *Server, p *Process) { s.Acquire(p, Priority(math.NaN())) })},
		{`front/till: served for -1 s: want a time of 0 s or more, at 1 s (errors_test.go)`,
			atTill(func(s *Server, p *Process) { s.Serve(p, -1) })},
		{`front/till: a process ended that holds 1 of it, at 1 s: call Release in (errors_test.go)`,
			atTill(func(s *Server, p *Process) { s.Acquire(p) })},
		{`front: the schedule of till: 1 units from 9 s: want rising times from 0 to below 9 s (errors_test.go)`,
			front(func(n *Node) { n.Server("till", 1).Schedule(9, CapacityFrom{9, 1}) })},
		{`front: the breakdowns of till: there is no way 3 to go on (errors_test.go)`,
			front(func(n *Node) { n.Server("till", 1).Breakdowns(second, second, Restart+1) })},
	}
}

// remote is a model with a process that does something with a server of another node at 1 s.
func remote(f func(s *RemoteServer, p, other *Process)) func(b *Builder) {
	return func(b *Builder) {
		b.Node("back", func(n *Node) { n.Server("till", 1).Offer(dist.Constant(1), "front") })
		front(func(n *Node) {
			s := n.RemoteServer("back", "till", dist.Constant(1))
			n.Start(func(c *Context) {
				other := c.Go(func(p *Process) { p.Hold(5) })
				c.Go(func(p *Process) {
					p.Hold(1)
					f(s, p, other)
				})
			})
		})(b)
	}
}

func wrongRemotes() []wrong {
	var shared *RemoteServer
	second := dist.Constant(1)
	back := func(clients ...string) func(n *Node) {
		return func(n *Node) {
			for _, client := range clients {
				n.Server("till", 1).Offer(second, client)
			}
		}
	}
	uses := func(n *Node) {
		s := n.RemoteServer("back", "till", second)
		n.Go(func(p *Process) { s.Acquire(p) })
	}
	return []wrong{
		{`front, at 1 s: back.till: AcquireWithin(-1): want a time of 0 s or more (errors_test.go)`,
			remote(func(s *RemoteServer, p, _ *Process) { s.AcquireWithin(p, -1) })},
		{`front, at 1 s: back.till: released by a process that doesn't hold it (errors_test.go)`,
			remote(func(s *RemoteServer, p, _ *Process) { s.Release(p) })},
		{`front, at 1 s: back.till: ` + byOther + ` (errors_test.go)`,
			remote(func(s *RemoteServer, _, other *Process) { s.Acquire(other) })},
		{`front: a process ended that holds 1 units at other nodes, at 3 s: call Release in ` +
			`(errors_test.go)`, remote(func(s *RemoteServer, p, _ *Process) { s.Acquire(p) })},
		{`back: Offer: till was offered already, or its name is too like that of till (errors_test.go)`,
			func(b *Builder) {
				b.Node("back", func(n *Node) {
					s := n.Server("till", 1)
					s.Offer(second)
					s.Offer(second)
				})
			}},
		{`back, at 1 s: front uses a server as a RemoteServer that isn't offered to it: name it in Server.Offer in ` +
			`back`,
			func(b *Builder) {
				b.Node("back", func(n *Node) { n.Server("till", 1).Offer(second, "other") })
				b.Node("front", uses)
				b.Node("other", uses)
			}},
		{`sim: front has a RemoteServer of back, which offers none: call Server.Offer there`, func(b *Builder) {
			b.Node("back", back())
			b.Node("front", uses)
		}},
		{`sim: back offers a server to front, which has no RemoteServer: declare one there, or offer it to ` +
			`others`, func(b *Builder) {
			b.Node("back", back("front"))
			b.Node("front", nothing)
		}},
		{`n-1, at 0 s: back.till: declared by n-0, and every node declares what it uses (errors_test.go)`,
			func(b *Builder) {
				b.Node("back", func(n *Node) { n.Server("till", 1).Offer(second, "n-0", "n-1") })
				b.Nodes("n", 2, func(n *Node) {
					s := n.RemoteServer("back", "till", second)
					if n.Index() == 0 {
						shared = s
					}
					n.Go(func(p *Process) { shared.Acquire(p); shared.Release(p) })
				})
			}},
	}
}

func wrongShares() []wrong {
	var shared *Container
	tank := func(f func(tank *Container, p *Process)) func(b *Builder) {
		return front(func(n *Node) {
			k := n.Container("tank", 2, 1)
			n.Go(func(p *Process) {
				p.Hold(1)
				f(k, p)
			})
		})
	}
	return []wrong{
		{`n-0/tank: used in n-1: it belongs to its node, at 0 s (errors_test.go)`, func(b *Builder) {
			b.Nodes("n", 2, func(n *Node) {
				if n.Index() == 0 {
					shared = n.Container("tank", 9, 9)
				}
				n.Go(func(p *Process) { shared.Get(p, 1) })
			})
		}},
		{`front/tank: waiting for -1 s: want a time of 0 s or more, at 1 s (errors_test.go)`,
			tank(func(tank *Container, p *Process) { tank.GetWithin(p, -1, 1) })},
		{`front: Container("tank"): 2 of 1: want an amount from 0 to the capacity (errors_test.go)`,
			front(func(n *Node) { n.Container("tank", 1, 2) })},
		{`front/tank: an amount of 3: want 0 to 2, at 1 s (errors_test.go)`,
			tank(func(tank *Container, p *Process) { tank.Put(p, 3) })},
		{`front: StoreOf("shelf"): capacity 0: want 1 or more (errors_test.go)`,
			front(func(n *Node) { StoreOf[int](n, "shelf", 0) })},
		{`front: Batch("bus"): size 0 within 1 s: want a size of 1 or more and a time of 0 s or more (errors_test.go)`,
			front(func(n *Node) { n.Batch("bus", 0, 1) })},
	}
}

func wrongStatistics() []wrong {
	var shared *Counter
	return []wrong{
		{`front, at 1 s: "x": statistics are declared in setup functions; the run is under way (errors_test.go)`,
			started(func(n *Node, _ *Context) { n.Gauge("x") })},
		{`front: a statistic "a/b": want a name without '/' (errors_test.go)`,
			front(func(n *Node) { n.Gauge("a/b") })},
		{`front: there is a statistic "x" already (errors_test.go)`, front(func(n *Node) {
			n.Counter("x")
			n.Tally("x")
		})},
		{`front: the gauge "x": only a tally has percentiles and a histogram (errors_test.go)`,
			front(func(n *Node) { n.Gauge("x", Percentiles(50)) })},
		{`front: "x": a histogram from 2 to 1 with 3 bins: want 1 to 10000 (errors_test.go)`,
			front(func(n *Node) { n.Tally("x", Histogram(2, 1, 3)) })},
		{`front: "x": OverTime(3): want an even number from 2 to 10000 (errors_test.go)`,
			front(func(n *Node) { n.Tally("x", OverTime(3)) })},
		{`front: "x": percentile 101: want 0 to 100 (errors_test.go)`,
			front(func(n *Node) { n.Tally("x", Percentiles(101)) })},
		{`n-0, at 0 s: a statistic of this node was changed by something other than its own functions and ` +
			`processes: statistics belong to the node that declared them, and setup functions record nothing ` +
			`(errors_test.go)`, func(b *Builder) {
			b.Nodes("n", 2, func(n *Node) {
				if n.Index() == 0 {
					shared = n.Counter("x")
				}
				n.Start(func(*Context) { shared.Inc() })
			})
		}},
		{`front: a statistic of this node was changed by something other than its own functions and processes: ` +
			`statistics belong to the node that declared them, and setup functions record nothing (errors_test.go)`,
			front(func(n *Node) { n.Counter("x").Inc() })},
		{`front, at 1 s: a counter can't count -1: want 0 or more; what also falls is a Gauge (errors_test.go)`,
			front(func(n *Node) {
				x := n.Counter("x")
				n.Every(dist.Constant(1), func(*Context) { x.Add(-1) })
			})},
		{`front, at 1 s: a tally: measure: a value of NaN, want one from -1e+100 to 1e+100 ` +
			`(errors_test.go)`,
			front(func(n *Node) {
				x := n.Tally("x")
				n.Every(dist.Constant(1), func(*Context) { x.Add(math.NaN()) })
			})},
		{`front, at 1 s: a gauge can't be +Inf: want a finite number (errors_test.go)`,
			front(func(n *Node) {
				x := n.Gauge("x")
				n.Every(dist.Constant(1), func(*Context) { x.Set(math.Inf(1)) })
			})},
	}
}
