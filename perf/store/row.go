// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
)

// span is the least, the median and the greatest value over the rounds.
type span struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

// spanOf is the span of some values.
func spanOf(values []float64) span {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return span{Min: v[0], Median: (v[(n-1)/2] + v[n/2]) / 2, Max: v[n-1]}
}

func (s span) String() string { return fmt.Sprintf("%.4g (%.4g to %.4g)", s.Median, s.Min, s.Max) }

// figure is what one round gave for one row.
type figure struct {
	bench, unit string
	ours, bare  float64 // bare: 0 where there is none
}

// row is one line of results.
type row struct {
	Bench   string `json:"bench"`
	Engine  string `json:"engine"` // etcd or zk
	Servers int    `json:"servers"`
	Unit    string `json:"unit"`
	Ours    *span  `json:"ours"`
	Bare    *span  `json:"bare"`  // the same by the engine's usual client; null: there is none
	Ratio   *span  `json:"ratio"` // ours through bare, round by round
	Rounds  int    `json:"rounds"`
	Goal    string `json:"goal,omitempty"`
	Reached *bool  `json:"reached,omitempty"` // by the median
	Remark  string `json:"remark,omitempty"`
	Note    string `json:"note,omitempty"` // why there are no figures
}

// newRow sums up the rounds of one row.
func newRow(e *engine, figures []figure) row {
	var ours, bare, ratios []float64
	for _, f := range figures {
		ours, bare = append(ours, f.ours), append(bare, f.bare)
		if f.bare > 0 {
			ratios = append(ratios, f.ours/f.bare)
		}
	}
	r := row{Bench: figures[0].bench, Engine: e.kind, Servers: e.servers, Unit: figures[0].unit, Rounds: len(figures),
		Remark: remarks[kind(figures[0].bench)]}
	mine := spanOf(ours)
	r.Ours = &mine
	if len(ratios) == len(figures) {
		b, q := spanOf(bare), spanOf(ratios)
		r.Bare, r.Ratio = &b, &q
	}
	if g, ok := goals[kind(r.Bench)]; ok {
		reached := g.reached(&r)
		r.Goal, r.Reached = g.String(), &reached
	}
	return r
}

// String is a line of text.
func (r *row) String() string {
	text := fmt.Sprintf("%-4s %d  %-20s %v %s", r.Engine, r.Servers, r.Bench, r.Ours, r.Unit)
	if r.Bare != nil {
		text += fmt.Sprintf(", bare %v, ratio %v", r.Bare, r.Ratio)
	}
	if r.Goal != "" {
		text += fmt.Sprintf("; goal %s: %s", r.Goal, map[bool]string{true: "reached", false: "MISSED"}[*r.Reached])
	}
	return text
}

// goal is what a row's median should be.
type goal struct {
	limit   float64
	atLeast bool // or at most
	ratio   bool // of the ratio, or of our own figure
}

func (g goal) String() string {
	text := "at most "
	if g.atLeast {
		text = "at least "
	}
	if g.ratio {
		return fmt.Sprintf("%s%v x bare", text, g.limit)
	}
	return fmt.Sprint(text, g.limit)
}

// reached holds a row against the goal.
func (g goal) reached(r *row) bool {
	value := r.Ours.Median
	if g.ratio {
		if r.Ratio == nil {
			return false
		}
		value = r.Ratio.Median
	}
	if g.atLeast {
		return value >= g.limit
	}
	return value <= g.limit
}

// goals are those of rows: what our side has to reach beside the bare client, or by itself.
var goals = map[string]goal{
	"put":           {0.9, true, true},
	"put-guarantee": {0.9, true, true},
	"get":           {0.9, true, true},
	"get-guarantee": {0.9, true, true},
	"get-sync":      {0.9, true, true},
	"watch-setup":   {2, false, true},
	"watch-update":  {2, false, true},
	"view":          {1000, false, false}, // ms
	"updates":       {100, false, false},
}

// kind is a row's name without the number of its callers or sessions.
func kind(bench string) string { return strings.TrimRight(bench, "-0123456789") }

// remarks are what a reader must know of rows of a kind.
var remarks = map[string]string{
	"put-guarantee": "bare: a put that keeps the lease of a key that is there, as ours does",
	"get":           "bare: the usual client's own read; of three ZooKeepers with a sync before, not linearizable",
	"get-guarantee": "bare: a multi that changes nothing before the read, its only linearizable one",
	"get-sync":      "both with a sync (Options.SyncReads)",
	"watch-setup":   "bare reads the value and begins a watch behind it",
	"view":          "bare reads the same keys once and watches nothing",
	"updates":       "64 workers, 6 updates each, on so many sessions; bare: the same transactions, on one",
	"updates-seen":  "64 workers on 8 sessions, 6 updates each, until another program's view has the last of each",
	"leader-change": "bare: a key's deletion, seen by one who then reads the candidates",
	"queue-out":     "bare without claims: an item is lost with its consumer",
}
