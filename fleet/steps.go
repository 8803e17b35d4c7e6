// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Graph is how the steps of an experiment depend on each other. It has no cycle. It is never altered.
type Graph struct {
	before, after [][]int // by step: the steps that it waits for, and those that wait for it; rising
	depth         []int   // by step: the longest way to it
	order         []int   // all steps, each behind all that it waits for
}

// NewGraph reads what steps wait for. It says everything that is wrong: names that are missing, or there twice, and
// each cycle, printed once.
func NewGraph(steps []Step) (*Graph, error) {
	g := &Graph{before: make([][]int, len(steps)), after: make([][]int, len(steps)), depth: make([]int, len(steps))}
	number := map[string]int{}
	var wrong []error
	for i, s := range steps {
		if first, twice := number[s.Name]; twice {
			wrong = append(wrong, fmt.Errorf("steps %d and %d: both are called %.80q, want names of their own", first+1,
				i+1, s.Name))
			continue
		}
		number[s.Name] = i
	}
	for i, s := range steps {
		for _, name := range s.After {
			before, found := number[name]
			switch {
			case !found:
				wrong = append(wrong, fmt.Errorf("step %.80q: after: found %.80q, want the name of a step: %s", s.Name,
					name, stepNames(steps)))
			case !slices.Contains(g.before[i], before):
				g.before[i] = append(g.before[i], before)
				g.after[before] = append(g.after[before], i)
			}
		}
		slices.Sort(g.before[i])
	}
	wrong = append(wrong, g.sort(steps)...)
	return g, errors.Join(wrong...)
}

// stepNames are some names of steps, for messages.
func stepNames(steps []Step) string {
	const most = 10
	var names []string
	for _, s := range steps[:min(len(steps), most)] {
		names = append(names, fmt.Sprintf("%.40q", s.Name))
	}
	if len(steps) > most {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}

// sort finds order and depths (Kahn, Topological sorting of large networks, CACM 5(11), 1962), and cycles in what is
// left.
func (g *Graph) sort(steps []Step) (cycles []error) {
	left := make([]int, len(steps)) // steps that each waits for
	for i := range steps {
		if left[i] = len(g.before[i]); left[i] == 0 {
			g.order = append(g.order, i)
		}
	}
	for next := 0; next < len(g.order); next++ {
		i := g.order[next]
		for _, k := range g.after[i] {
			g.depth[k] = max(g.depth[k], g.depth[i]+1)
			if left[k]--; left[k] == 0 {
				g.order = append(g.order, k)
			}
		}
	}
	for i := range steps {
		if left[i] <= 0 {
			continue
		}
		if way := g.cycle(i, left); way != nil {
			var names []string
			for _, k := range way {
				names = append(names, fmt.Sprintf("%.80q", steps[k].Name))
				left[k] = 0 // it is said once
			}
			cycles = append(cycles, fmt.Errorf("steps wait for each other: %s after %s", strings.Join(names, " after "),
				names[0]))
		}
	}
	return cycles
}

// cycle is one that a step leads into, going back through steps that are left; nil: those were said already.
func (g *Graph) cycle(from int, left []int) (way []int) {
	place := map[int]int{}
	for at := from; ; {
		if begin, seen := place[at]; seen {
			return way[begin:]
		}
		place[at] = len(way)
		way = append(way, at)
		next := slices.IndexFunc(g.before[at], func(k int) bool { return left[k] > 0 })
		if next < 0 {
			return nil
		}
		at = g.before[at][next]
	}
}

// Before are the steps that a step waits for, rising.
func (g *Graph) Before(step int) []int { return g.before[step] }

// Depth is the length of the longest way to a step from one that waits for none. It only orders what could begin at
// the same time: a step begins when those before it have finished, whatever others of its depth do.
func (g *Graph) Depth(step int) int { return g.depth[step] }

// Order is all steps, each behind all that it waits for.
func (g *Graph) Order() []int { return g.order }

// Dependents are the steps that wait for a step, or for one that does, each behind all that it waits for: in this order
// they are begun anew when it is tried again.
func (g *Graph) Dependents(step int) (all []int) {
	waits := make([]bool, len(g.depth))
	waits[step] = true
	for _, i := range g.order {
		if slices.ContainsFunc(g.before[i], func(k int) bool { return waits[k] }) {
			waits[i] = true
			all = append(all, i)
		}
	}
	return all
}
