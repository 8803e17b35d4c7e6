// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"math"
	"slices"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/partition"
	"github.com/disco-sim/disco/internal/speedup"
	tables "github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/node"
)

// What limits workers.
const (
	limitNone      = "nothing"
	limitNodes     = "nodes"     // there are too few to divide
	limitPromises  = "promises"  // fewer workers are faster: they would wait for each other at nearly every event
	limitBalance   = "balance"   // one worker has more to do than the others
	limitTraffic   = "traffic"   // events from worker to worker
	limitLookahead = "lookahead" // too few events between two promises
)

// limitShare is by how much what limits has to hold workers back to be named.
const limitShare = 0.02

// teamRow is what explain says of a number of workers.
type teamRow struct {
	Workers   int                `json:"workers"` // asked for
	Used      int                `json:"used"`    // that get nodes
	Nodes     []int              `json:"nodes"`   // of each
	Balance   float64            `json:"balance"`
	Cut       float64            `json:"cut"`
	Lookahead *leastRow          `json:"lookahead"`        // between workers, on a cycle; null: none waits for it
	Window    float64            `json:"events_in_window"` // of a worker, in a lookahead; 0: no end, or not known
	Memory    float64            `json:"memory_bytes"`
	Parts     map[string]float64 `json:"memory_parts_bytes"`
	Speedup   float64            `json:"speedup"`
	Wall      float64            `json:"wall_s"` // of simulating, once there are so many processors; 0: not known
	Limit     string             `json:"limit"`
	Change    string             `json:"change"` // what to do about it, in a sentence; empty: nothing
}

// eventRate is how many events a simulated second has by what nodes and links say; 0: they say nothing.
func eventRate(l *launch.Launch) (float64, error) {
	rate, err := partition.EventRate(l.Structure(), nil)
	return finite(rate), err
}

// leastOf is the least lookahead of all links and meshes; nil: there is none.
func leastOf(g *node.Structure) *leastRow { return leastAt(g, g.LeastLookahead(), nil) }

// leastAt says of a lookahead which links have it: of all, or of those between workers. nil: it is no lookahead.
func leastAt(g *node.Structure, seconds float64, of []int32) *leastRow {
	if math.IsInf(seconds, 1) {
		return nil
	}
	row := &leastRow{Seconds: seconds}
	for id := range node.SimprocID(g.NumSimprocs()) {
		first, end := g.LinksOf(id)
		for k := first; k < end; k++ {
			to := g.To(k)
			if g.Lookahead(k) != seconds || of != nil && of[g.Node(id)] == of[g.Node(to)] {
				continue
			}
			if row.Links++; row.Links == 1 {
				row.From, row.To = g.Name(id), g.Name(to)
			}
		}
	}
	return row
}

// team is what the placement says of so many workers.
func (e *explanation) team(l *launch.Launch, workers int, x *launch.Expectation) teamRow {
	p := x.Placement
	row := teamRow{Workers: workers, Used: p.Workers, Nodes: slices.Clone(p.Nodes), Balance: finite(p.Balance()),
		Cut: finite(p.Cut), Lookahead: leastAt(l.Structure(), p.Lookahead, p.Of), Parts: map[string]float64{}}
	for _, part := range x.Memory {
		row.Memory += part.Bytes
		row.Parts[part.What] += part.Bytes
	}
	return row
}

// predict fills in how fast the workers are, and what limits them.
func (e *explanation) predict(row *teamRow, x *launch.Expectation) {
	load := speedup.Load{Workers: row.Used, Events: math.Inf(1), Away: row.Cut, Balance: max(1, row.Balance)}
	if rounds := e.rounds(x.Placement); rounds > 0 && row.Used > 1 {
		load.Events = e.EventsPerSec / rounds / float64(row.Used)
		row.Window = load.Events
	}
	row.Speedup = e.speed(load)
	if e.Events > 0 {
		row.Wall = e.Events * e.EventNanos / 1e9 / row.Speedup
	}
	row.Limit = limitNone
	if row.Workers == 1 {
		return
	}
	switch p := x.Placement; {
	case row.Used < row.Workers && p.Unused > 0 && p.Saved > 1:
		row.Limit = limitPromises
	case row.Used < row.Workers:
		row.Limit = limitNodes
	default:
		row.Limit = e.limit(load, row.Speedup)
	}
	row.Change = e.change(row)
}

// rounds is how many rounds of promises a simulated second takes; 0: they cost nothing, or it isn't known.
func (e *explanation) rounds(p *partition.Partition) float64 {
	if e.EventsPerSec == 0 {
		return 0
	}
	if e.RatesPerSecond > 0 && p.Slowdown > 0 { // predicted from the scenario's own rates
		return min(p.Rounds*e.RatesPerSecond, e.EventsPerSec)
	}
	if math.IsInf(p.Lookahead, 1) {
		return 0
	}
	return min(1/p.Lookahead, e.EventsPerSec) // idle jumps: no more of them than events
}

// speed is how many times as fast as one worker a load is handled.
func (e *explanation) speed(load speedup.Load) float64 {
	if load.Workers == 1 {
		return 1
	}
	return speedup.Of(speedup.Usual(e.EventNanos, load.Workers), load).Rate * e.EventNanos / 1e9
}

// limit is what of a load holds workers back most: without it they would be faster by more than without any other.
func (e *explanation) limit(load speedup.Load, speed float64) string {
	limit, most := limitNone, speed*(1+limitShare)
	even, near, ahead := load, load, load
	even.Balance, near.Away, ahead.Events = 1, 0, math.Inf(1)
	for _, without := range []struct {
		name string
		load speedup.Load
	}{{limitBalance, even}, {limitTraffic, near}, {limitLookahead, ahead}} {
		if x := e.speed(without.load); x > most {
			limit, most = without.name, x
		}
	}
	return limit
}

// heavyShare is from which part of a worker's fair share on a node alone is named as what makes work uneven.
const heavyShare = 0.5

// change says what to do about what limits.
func (e *explanation) change(row *teamRow) string {
	switch row.Limit {
	case limitNodes:
		return fmt.Sprintf("there are too few nodes, or groups of them, for %d workers: make several of one, or "+
			"spread replications", row.Workers)
	case limitPromises:
		return fmt.Sprintf("%d workers would wait for each other at nearly every event, so %s: more lookahead%s",
			row.Workers, usedText(row.Used), where(e.Lookahead))
	case limitBalance:
		if e.busiestShare*float64(row.Used) > heavyShare {
			return fmt.Sprintf("%s alone has %.0f %% of the work: make several nodes of it", e.busiest,
				100*e.busiestShare)
		}
		return "the busiest worker has " + tables.Number(roundTo3(row.Balance)) + " of the mean work: --placement " +
			"puts nodes elsewhere, and more nodes are easier to divide"
	case limitTraffic:
		return fmt.Sprintf("%.0f %% of the events go from worker to worker: make one node of what talks much, or put "+
			"it on one worker (--placement)", 100*row.Cut)
	case limitLookahead:
		return fmt.Sprintf("a worker has %s events before it needs the next promise: more lookahead%s, or more nodes",
			tables.Number(roundTo3(row.Window)), where(row.Lookahead))
	}
	return ""
}

func usedText(used int) string {
	if used == 1 {
		return "one is used"
	}
	return fmt.Sprintf("%d are used", used)
}

// where says which links a lookahead comes from.
func where(l *leastRow) string {
	if l == nil {
		return ""
	}
	if l.From == "" {
		return " (" + lookaheadText("now", l.Seconds) + " of everybody to everybody)"
	}
	return fmt.Sprintf(" (%s of %s -> %s%s)", lookaheadText("now", l.Seconds), l.From, l.To, moreLinks(l))
}

func moreLinks(l *leastRow) string {
	if l.Links < 2 {
		return ""
	}
	return " and " + tables.Plural(l.Links-1, "more link")
}
