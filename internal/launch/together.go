// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/disco-sim/disco/internal/partition"
	"github.com/disco-sim/disco/node"
)

// together is which nodes a scenario wants on one worker: names, each with the number of its group.
type together struct {
	names  []string
	groups []uint32

	// Behind divideTogether, where there are several workers:
	members [][]int // nodes of each group
	most    int     // workers for which there are groups, and nodes without one; 0: as many as are wanted
}

// divideTogether is divide with each group of nodes on one worker: that on which most of its work would be by itself,
// unless that one has its share of groups. Then all other nodes are placed around them, on as many workers as there are
// nodes for.
func (l *Launch) divideTogether(g *node.Structure, run partition.Run, pinned map[int]int32) (*partition.Partition,
	[]int32, error) {
	p, machines, err := l.divide(g, run, pinned)
	if err != nil || len(l.together.names) == 0 || p.Workers == 1 {
		return p, machines, err
	}
	members, err := l.together.find(g)
	if err != nil {
		return nil, nil, err
	}
	l.together.members = members
	all := maps.Clone(pinned)
	if all == nil {
		all = map[int]int32{}
	}
	for k, w := range assignGroups(members, p, g.Work) {
		for _, n := range members[k] {
			if _, asked := pinned[n]; !asked {
				all[n] = w
			}
		}
	}
	used := p.Workers
	if len(pinned) == 0 {
		used = renumber(all)
	}
	run.Workers = min(p.Workers, used+g.NumNodes()-len(all))
	around, machines, err := l.divide(g, run, all)
	if empty := (*partition.EmptyError)(nil); errors.As(err, &empty) && used < run.Workers {
		run.Workers = used
		around, machines, err = l.divide(g, run, all)
	}
	if err != nil {
		return nil, nil, err
	}
	if run.Workers < p.Workers {
		l.together.most = run.Workers
	}
	around.Unused, around.Saved = around.Unused+p.Unused, max(around.Saved, p.Saved)
	return around, machines, nil
}

// renumber gives workers that have nodes the first numbers, in their order, and returns how many there are.
func renumber(of map[int]int32) int {
	used := slices.Compact(slices.Sorted(maps.Values(of)))
	for n, w := range of {
		number, _ := slices.BinarySearch(used, w)
		of[n] = int32(number)
	}
	return len(used)
}

// find is the nodes of each group. A name that no node has is that of a vertex that the scenario has left out.
func (t *together) find(g *node.Structure) (members [][]int, err error) {
	find, some := g.IndexNodes(), false
	for i, name := range t.names {
		for int(t.groups[i]) >= len(members) {
			members = append(members, nil)
		}
		if n, ok := find(name); ok {
			members[t.groups[i]] = append(members[t.groups[i]], n)
			some = true
		}
	}
	if !some {
		return nil, badConfig("graph.together: found no node that is called what a vertex with such a label is "+
			"called, "+
			"such as %q: want nodes with the names that $node stands for, or no field together", t.names[0])
	}
	return members, nil
}

// slack is by how much a worker may have more than its share of the work of groups.
const slack = 1.1

// assignGroups gives each group a worker, the one with most work first.
func assignGroups(members [][]int, p *partition.Partition, work func(n int) float64) []int32 {
	type group struct {
		number int
		work   float64
		on     []float64 // by worker
	}
	groups, total := make([]group, len(members)), 0.0
	for k, nodes := range members {
		groups[k] = group{number: k, on: make([]float64, p.Workers)}
		for _, n := range nodes {
			share := max(work(n), 1e-300) // that of a node of which nothing is known is very little
			groups[k].work += share
			groups[k].on[p.Of[n]] += share
		}
		total += groups[k].work
	}
	slices.SortStableFunc(groups, func(a, b group) int { return cmp.Compare(b.work, a.work) })
	load, of := make([]float64, p.Workers), make([]int32, len(members))
	for _, g := range groups {
		best := -1
		for w := range load {
			fits := load[w]+g.work <= slack*total/float64(p.Workers)
			if fits && (best < 0 || g.on[w] > g.on[best]) {
				best = w
			}
		}
		if best < 0 {
			best = slices.Index(load, slices.Min(load))
		}
		load[best] += g.work
		of[g.number] = int32(best)
	}
	return of
}
