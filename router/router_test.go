// SPDX-License-Identifier: Apache-2.0

package router

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/disco-sim/disco/envelope"
)

// noLink is a Link that counts.
type noLink struct {
	name    string
	flushes int
	err     error
}

func (*noLink) SendEvent(*envelope.Event) error     { return nil }
func (*noLink) SendPromise(*envelope.Promise) error { return nil }
func (l *noLink) Flush() error                      { l.flushes++; return l.err }

func table(t testing.TB) (*Router, []Link) {
	t.Helper()
	links := []Link{&noLink{name: "a"}, &noLink{name: "b"}}
	r, err := New(Config{
		Nodes:     []string{"srv-1", "srv-2", "client"},
		Simprocs:  []string{"request", "reply"},
		Placement: []int32{0, 1, 1},
		Links:     links,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r, links
}

func TestRoute(t *testing.T) {
	r, links := table(t)
	for target, want := range []int{0, 0, 1, 1, 1, 1} {
		if got, err := r.Route(uint32(target)); got != links[want] || err != nil {
			t.Errorf("Route(%d) = %v, %v, want link %d", target, got, err, want)
		}
	}
	for node, want := range []int{0, 1, 1} {
		if got, err := r.RouteNode(uint32(node)); got != links[want] || err != nil {
			t.Errorf("RouteNode(%d) = %v, %v, want link %d", node, got, err, want)
		}
	}
}

func TestUnknownTargets(t *testing.T) {
	r, _ := table(t)
	for _, c := range []struct {
		err  error
		want string
	}{
		{second(r.Route(6)), "simproc 6, the scenario has 6 (3 nodes of 2)"},
		{second(r.Route(1<<32 - 1)), "simproc 4294967295"},
		{second(r.RouteNode(3)), "node 3, the scenario has 3"},
		{second(r.RouteNode(1<<32 - 1)), "node 4294967295"},
		{second(r.Resolve("srv-3/request")), `no node is named "srv-3"; did you mean "srv-1"?`},
		{second(r.Resolve("clinet/request")), `no node is named "clinet"; did you mean "client"?`},
		{second(r.Resolve("warehouse/request")), `no node is named "warehouse"`},
		{second(r.Resolve("srv-1/repyl")), `no simproc is named "repyl"; did you mean "reply"?`},
		{second(r.Resolve("srv-1/")), `no simproc is named ""`},
		{second(r.Resolve("srv-1")), `"srv-1", want "<node>/<simproc>"`},
		{second(r.Resolve("")), `want "<node>/<simproc>"`},
	} {
		if !errors.Is(c.err, ErrUnknown) || !strings.HasSuffix(c.err.Error(), c.want) && !strings.Contains(c.err.Error(), c.want+",") {
			t.Errorf("%v, want ErrUnknown with %q at its end", c.err, c.want)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestResolveAndNameAreInverse(t *testing.T) {
	r, _ := table(t)
	for id := range uint32(6) {
		name := r.Name(id)
		if got, err := r.Resolve(name); got != id || err != nil {
			t.Errorf("%q is %d, %v, want %d", name, got, err, id)
		}
	}
	if got := r.Name(6); got != "simproc 6 (unknown)" {
		t.Errorf("%q", got)
	}
}

func TestBadConfigs(t *testing.T) {
	one := []Link{&noLink{}}
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Simprocs: []string{"s"}}, "0 nodes of 1"},
		{Config{Nodes: []string{"n"}}, "1 nodes of 0"},
		{Config{Nodes: []string{"n"}, Simprocs: []string{"s"}}, "placement of 0 nodes"},
		{Config{Nodes: []string{"n"}, Simprocs: []string{"s"}, Placement: []int32{0}}, `node "n" (0) is placed on link 0`},
		{Config{Nodes: []string{"n"}, Simprocs: []string{"s"}, Placement: []int32{-1}, Links: one}, "link -1"},
		{Config{Nodes: []string{"n"}, Simprocs: []string{"s"}, Placement: []int32{1}, Links: one}, "link 1"},
		{Config{Nodes: []string{"n"}, Simprocs: []string{"s"}, Placement: []int32{0}, Links: []Link{nil}}, "no such link"},
		{Config{Nodes: []string{"n", "n"}, Simprocs: []string{"s"}, Placement: []int32{0, 0}, Links: one}, `nodes 0 and 1 are both named "n"`},
	} {
		if _, err := New(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q in it", c.cfg, err, c.want)
		}
	}
}

// The table keeps what it was made from, whatever becomes of that.
func TestTheTableIsItsOwn(t *testing.T) {
	cfg := Config{Nodes: []string{"a", "b"}, Simprocs: []string{"s"}, Placement: []int32{0, 1}, Links: []Link{&noLink{}, &noLink{}}}
	want := cfg.Links[1]
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Nodes[1], cfg.Simprocs[0], cfg.Placement[1], cfg.Links[1] = "x", "y", 0, nil
	if got, err := r.Route(1); got != want || err != nil || r.Name(1) != "b/s" {
		t.Errorf("%v, %v, %q", got, err, r.Name(1))
	}
}

func TestFlushReachesAllLinks(t *testing.T) {
	bad := errors.New("bad")
	a, b := &noLink{err: bad}, &noLink{}
	r, err := New(Config{Nodes: []string{"n"}, Simprocs: []string{"s"}, Placement: []int32{0}, Links: []Link{a, nil, b}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Flush(); err != bad || a.flushes != 1 || b.flushes != 1 {
		t.Errorf("%v, %d and %d flushes", err, a.flushes, b.flushes)
	}
}

func TestRouteDoesNotAllocate(t *testing.T) {
	r, _ := table(t)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := r.Route(3); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkRoute(b *testing.B) {
	cfg := Config{Simprocs: []string{"s", "t", "u"}, Links: []Link{&noLink{}, &noLink{}}}
	for i := range 100_000 {
		cfg.Nodes = append(cfg.Nodes, fmt.Sprint(i))
		cfg.Placement = append(cfg.Placement, int32(i%2))
	}
	r, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	target := uint32(0)
	for b.Loop() {
		if _, err := r.Route(target); err != nil {
			b.Fatal(err)
		}
		if target += 7919; target >= 300_000 {
			target -= 300_000
		}
	}
}
