// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"math"

	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/node"
)

// CPU is how many processors the worker of a place in Workers has used since the look before; 0 where it isn't known.
func (v *View) CPU(place int) float64 {
	if v.Before == nil || v.Seconds <= 0 || v.Workers[place].PID != v.Before.Workers[place].PID {
		return 0
	}
	return max(0, v.Workers[place].CPUSeconds-v.Before.Workers[place].CPUSeconds) / v.Seconds
}

// PerSecond is how fast one of a worker's numbers has grown since the look before. One that has begun anew, with a
// replication, has grown by what it is now.
func (v *View) PerSecond(place int, name string) float64 {
	if v.Before == nil || v.Seconds <= 0 {
		return 0
	}
	now, before := v.Workers[place].Number(name), v.Before.Workers[place].Number(name)
	if now < before {
		before = 0
	}
	return (now - before) / v.Seconds
}

// Slowest is the worker for which most others wait, through others too.
type Slowest struct {
	Place    int     // in Workers
	Directly int     // workers that wait for it
	Through  int     // those and whoever waits for them, and so on
	Handler  string  // that it called last; empty: not known
	Epoch    float64 // of that call
	Link     *Link   // the shortest one to a worker that waits for it; nil: not known
}

// Link is one between two workers.
type Link struct {
	From, To  string // simprocs
	Worker    int    // of To
	Lookahead float64
}

// findSlowest is nil where nobody waits for a worker that doesn't wait itself.
func (l *Live) findSlowest(v *View) *Slowest {
	place := make(map[int]int, len(v.Workers)) // by worker
	for i := range v.Workers {
		place[v.Workers[i].Index] = i
	}
	on := make([]int, len(v.Workers)) // what each waits for; -1: nothing
	for i := range v.Workers {
		on[i] = -1
		if peer, ok := place[int(v.Workers[i].Number(worker.NumberPeer))-1]; ok && waits(&v.Workers[i]) {
			on[i] = peer
		}
	}
	found := make([]Slowest, len(v.Workers))
	for i := range on {
		end, steps := i, 0
		for ; on[end] >= 0 && steps <= len(on); steps++ {
			end = on[end]
		}
		if steps == 0 || steps > len(on) { // it doesn't wait, or for one of a circle, which only an idle run has
			continue
		}
		found[end].Through++
		if steps == 1 {
			found[end].Directly++
		}
	}
	best := -1
	for i := range found {
		if found[i].Through > 0 && (best < 0 || found[i].Through > found[best].Through) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	s := found[best]
	s.Place = best
	w := &v.Workers[best]
	if of := w.Number(worker.NumberCallOf); l.placed != nil && of > 0 && of <= float64(l.placed.NumSimprocs()) {
		s.Handler, s.Epoch = l.placed.Name(node.SimprocID(of-1)), w.Number(worker.NumberCallAt)
	}
	s.Link = l.shortest(v, best, on)
	return &s
}

// waits reports whether a worker waits for a peer.
func waits(w *Worker) bool {
	switch uint64(w.Number(worker.NumberState)) {
	case worker.StateBound, worker.StateAhead, worker.StateRoom:
		return true
	}
	return false
}

// shortest is the link of least lookahead from a worker to one that waits for it. Where nodes have moved, links are
// between others than the scenario's placement has, and none is given.
func (l *Live) shortest(v *View, from int, on []int) *Link {
	var best *Link
	if v.Workers[from].Number(worker.NumberMap) > 0 {
		return nil
	}
	for to := range on {
		if on[to] != from {
			continue
		}
		link, ok := l.links[[2]int{v.Workers[from].Index, v.Workers[to].Index}]
		if ok && (best == nil || link.Lookahead < best.Lookahead) {
			best = &link
		}
	}
	return best
}

// linksLooked is how many links of a scenario are looked through, for the shortest between any two workers.
const linksLooked = 4 << 20

// shortestLinks are the links of least lookahead between any two workers, of those that a scenario lists; none where
// they are too many.
func shortestLinks(p *node.Placed) map[[2]int]Link {
	links := map[[2]int]Link{}
	if p.NumLinks() > linksLooked {
		return links
	}
	for id := range node.SimprocID(p.NumSimprocs()) {
		first, end := p.LinksOf(id)
		for l := first; l < end; l++ {
			to := p.To(l)
			if int(to) >= p.NumSimprocs() { // memory that another process wrote
				continue
			}
			at := [2]int{p.WorkerOf(p.Node(id)), p.WorkerOf(p.Node(to))}
			lookahead := p.Lookahead(l)
			if old, ok := links[at]; at[0] != at[1] && !math.IsNaN(lookahead) && (!ok || lookahead < old.Lookahead) {
				links[at] = Link{From: p.Name(id), To: p.Name(to), Worker: at[1], Lookahead: lookahead}
			}
		}
	}
	return links
}
