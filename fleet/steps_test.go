// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/seed"
)

// stepsOf reads "a b:a c:a,b".
func stepsOf(text string) (steps []Step) {
	for _, word := range strings.Fields(text) {
		name, after, waits := strings.Cut(word, ":")
		s := Step{Name: name}
		if waits {
			s.After = strings.Split(after, ",")
		}
		steps = append(steps, s)
	}
	return steps
}

func TestGraph(t *testing.T) {
	g, err := NewGraph(stepsOf("compare:sweep,warm warm sweep:warm,warm other last:other,compare"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		level              int
		before, dependents string
	}{{2, "[1 2]", "[4]"}, {0, "[]", "[2 0 4]"}, {1, "[1]", "[0 4]"}, {0, "[]", "[4]"}, {3, "[0 3]", "[]"}} {
		got := fmt.Sprintln(g.Depth(i), g.Before(i), g.Dependents(i))
		if got != fmt.Sprintln(want.level, want.before, want.dependents) {
			t.Errorf("step %d: found %s, want %+v", i, got, want)
		}
	}
	if got := fmt.Sprint(g.Order()); got != "[1 3 2 0 4]" {
		t.Errorf("found the order %s", got)
	}
}

// All that is wrong is said at once, each cycle once, with its steps in their order.
func TestGraphRefused(t *testing.T) {
	for text, want := range map[string][]string{
		"a:a": {`steps wait for each other: "a" after "a"`},
		"a:c b:a c:b d:c e": {
			`steps wait for each other: "a" after "c" after "b" after "a"`},
		"a:b b:a c:d d:c e:a": {`"a" after "b" after "a"`, `"c" after "d" after "c"`},
		"a a b:x": {`steps 1 and 2: both are called "a"`,
			`step "b": after: found "x", want the name of a step: "a", "a", "b"`},
		"a:x b:c c:b": {`step "a": after: found "x"`, `"b" after "c" after "b"`},
	} {
		_, err := NewGraph(stepsOf(text))
		if err == nil {
			t.Errorf("%s passes", text)
			continue
		}
		if n := strings.Count(err.Error(), "\n") + 1; n != len(want) {
			t.Errorf("%s: %d errors, want %d: %v", text, n, len(want), err)
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: found %v, want %q", text, err, w)
			}
		}
	}
}

// Random graphs, against what the words say: orders are topological, levels are longest ways, dependents are all that
// can be reached, and a graph with an edge back is refused.
func TestRandomGraphs(t *testing.T) {
	rnd := seed.Rand(t)
	for range 500 {
		n := 1 + rnd.IntN(12)
		place := rnd.Perm(n) // of each step in a hidden order
		steps := make([]Step, n)
		for i := range steps {
			steps[i].Name = fmt.Sprint("s", i)
			for k := range steps {
				if place[k] < place[i] && rnd.IntN(3) == 0 {
					steps[i].After = append(steps[i].After, fmt.Sprint("s", k))
				}
			}
		}
		g, err := NewGraph(steps)
		if err != nil {
			t.Fatal(err)
		}
		checkGraph(t, g, n)
		refuseEdgeBack(t, steps, g, rnd)
	}
}

func checkGraph(t *testing.T, g *Graph, n int) {
	t.Helper()
	at := make([]int, n)
	if len(g.Order()) != n {
		t.Fatalf("%d steps in the order, want %d", len(g.Order()), n)
	}
	for i, s := range g.Order() {
		at[s] = i
	}
	for i := range n {
		level := 0
		for _, b := range g.Before(i) {
			level = max(level, g.Depth(b)+1)
			if at[b] >= at[i] {
				t.Fatalf("step %d stands in front of %d, for which it waits", i, b)
			}
		}
		if g.Depth(i) != level {
			t.Fatalf("step %d: level %d, want %d", i, g.Depth(i), level)
		}
		reached := map[int]bool{i: true}
		for changed := true; changed; {
			changed = false
			for k := range n {
				if !reached[k] && slices.ContainsFunc(g.Before(k), func(b int) bool { return reached[b] }) {
					reached[k], changed = true, true
				}
			}
		}
		all := g.Dependents(i)
		if len(all) != len(reached)-1 || !slices.IsSortedFunc(all, func(a, b int) int { return at[a] - at[b] }) {
			t.Fatalf("step %d: dependents %v, want %v in the order", i, all, reached)
		}
	}
}

// refuseEdgeBack has a step wait for one of its dependents.
func refuseEdgeBack(t *testing.T, steps []Step, g *Graph, rnd *rand.Rand) {
	t.Helper()
	i := rnd.IntN(len(steps))
	all := append([]int{i}, g.Dependents(i)...)
	steps[i].After = append(steps[i].After, steps[all[rnd.IntN(len(all))]].Name)
	if _, err := NewGraph(steps); err == nil || !strings.Contains(err.Error(), "wait for each other") {
		t.Fatalf("a cycle through %s: %v", steps[i].Name, err)
	}
}
