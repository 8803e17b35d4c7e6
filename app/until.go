// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/internal/launch"
	tables "github.com/disco-sim/disco/internal/table"
	untilrule "github.com/disco-sim/disco/internal/until"
	"github.com/disco-sim/disco/model/measure"
	"github.com/urfave/cli/v2"
)

func untilFlag() cli.Flag {
	return &cli.StringSliceFlag{Category: groupWhat, Name: "until", DefaultText: "all of --replications",
		Usage: fmt.Sprintf("repeat the experiment until the interval of a figure is narrow enough, `FIGURE ± WIDTH`: "+
			"'latency_s.p99 ± 2 %%' (or +-2%%), or in the figure's unit; at least %d times, and at most "+
			"--replications, %d by default: exit status 3 where that wasn't enough; may be given several times",
			untilrule.Least, untilrule.Most)}
}

// figureFlag is for who gathers figures of replications that are simulated apart.
func figureFlag() cli.Flag {
	return &cli.StringSliceFlag{Category: groupWhat, Name: "figure", Hidden: true,
		Usage: "have this figure of each replication in JSON, and no other one but those named so, `NAME`"}
}

// until reads --until; nil: it isn't given.
func (v *values) until() *until {
	texts := v.c.StringSlice("until")
	if len(texts) == 0 {
		return nil
	}
	u := &until{}
	for _, text := range texts {
		p, err := untilrule.Parse(text)
		if bad := (*untilrule.FormError)(nil); errors.As(err, &bad) {
			v.refuse("until", bad.Found, bad.Want)
			continue
		}
		u.rule.Wanted = append(u.rule.Wanted, p)
	}
	return u
}

// replications reads --replications: how many there are, with --until at most.
func (v *values) replications(u *until) int {
	if u == nil {
		return v.integer("replications", 1, 1, launch.ReplicationsMax)
	}
	n := v.integer("replications", untilrule.Most, 1, launch.ReplicationsMax)
	if n < untilrule.Least {
		v.refuse("until", "--replications "+strconv.Itoa(n), fmt.Sprintf("at least %d, which are the first sample",
			untilrule.Least))
	}
	return n
}

// checkUntil refuses what doesn't go together with --until.
func (o *order) checkUntil() error {
	for _, other := range []struct {
		is        bool
		flag, why string
	}{
		{o.config.Only != nil, "--only", "the rule looks at all replications, from the first on"},
		{len(o.sweeps) > 0, "--sweep", "points with different numbers of replications have no pairs to compare"},
		{o.compare, "--compare", "a comparison is many runs"},
		{o.merging != nil && o.merging.partial, "--partial", "it ends by the replications in their order, all of them"},
		{o.saving != nil, "--checkpoint-to", "checkpoints don't keep the rule, and what goes on wouldn't end by it"},
	} {
		if o.until != nil && other.is {
			return usage("--until: found it with %s, want one of them: %s", other.flag, other.why)
		}
	}
	return nil
}

// until is when there are enough replications; package internal/until has the rule.
type until struct {
	rule untilrule.Rule
	met  bool // all intervals were narrow enough
	err  error
}

// bad is about a figure that the results don't have; u may be nil.
func (u *until) bad() error {
	if u == nil {
		return nil
	}
	return u.err
}

// most stands before the number of replications that there may be; u may be nil.
func (u *until) most() string {
	if u == nil {
		return ""
	}
	return "at most "
}

// look takes in the figures of a replication: the first one begins the run, also one that goes back to its begin.
func (u *until) look(index int, cells []cell) {
	if index == 0 {
		u.met = false
	}
	if lacks := u.rule.Look(index, figureAmong(cells)); lacks != "" && u.err == nil {
		u.err = noFigure("--until", lacks, "", cells, isNumber)
	}
}

// figureAmong finds figures among results.
func figureAmong(cells []cell) func(name string) (float64, bool) {
	return func(name string) (float64, bool) {
		at := slices.IndexFunc(cells, func(c cell) bool { return c.name == name && c.number })
		if at < 0 || !isFigure(name) {
			return 0, false
		}
		x, err := strconv.ParseFloat(cells[at].text, 64)
		return x, err == nil
	}
}

// enough reports whether there are enough replications, or will never be (launch.Config.Enough).
func (u *until) enough() bool {
	u.met = u.err == nil && u.rule.Enough()
	return u.met || u.err != nil
}

// untilRow is what came of --until, in JSON.
type untilRow struct {
	Rule       string         `json:"rule"`
	Least      int            `json:"least"`        // replications, which are the first sample
	Most       int            `json:"most"`         // --replications
	Replicated int            `json:"replications"` // that were simulated
	Reached    bool           `json:"reached"`
	Precisions []precisionRow `json:"precisions"`
}

type precisionRow struct {
	Until    string           `json:"until"`
	Figure   string           `json:"figure"`
	Interval measure.Interval `json:"interval"` // of the mean of the replications' own figures
	Reached  bool             `json:"reached"`
}

// row is what came of it; nil: nothing was asked for.
func (u *until) row(most int) *untilRow {
	if u == nil {
		return nil
	}
	row := &untilRow{Rule: "sequential, fixed width (Chow and Robbins 1965; Law 2015)", Least: untilrule.Least,
		Most: most, Replicated: u.rule.Looked(), Reached: u.met}
	for i := range u.rule.Wanted {
		name, found := u.rule.Found(i)
		row.Precisions = append(row.Precisions, precisionRow{u.rule.Wanted[i].String(), name, found,
			u.rule.Reached(i)})
	}
	return row
}

// String says in a line for each figure what came of it.
func (r *untilRow) String() string {
	var lines []string
	for i := range r.Precisions {
		p := &r.Precisions[i]
		how := "reached"
		if !p.Reached {
			how = "not reached"
		}
		mean, half := tables.Number(p.Interval.Mean), "no interval"
		if p.Interval.Known() {
			half = "± " + tables.Number(p.Interval.HalfWidth)
		}
		lines = append(lines, fmt.Sprintf("%s: %s after %s: %s %s in the mean of the replications", p.Until, how,
			tables.Plural(r.Replicated, "replication"), mean, half))
	}
	return strings.Join(lines, "\n")
}

// unreached is the error about intervals that aren't narrow enough; nil: all are.
func (r *untilRow) unreached() error {
	if r == nil || r.Reached {
		return nil
	}
	var text []string
	for i := range r.Precisions {
		if p := &r.Precisions[i]; !p.Reached {
			text = append(text, p.Until)
		}
	}
	return &unreachedError{fmt.Sprintf("--until: not reached with %s: %s; a longer --horizon, or more --replications, "+
		"makes intervals narrower", tables.Plural(r.Replicated, "replication"), strings.Join(text, "; "))}
}

// unreachedError is about intervals that aren't as narrow as they are to be.
type unreachedError struct{ text string }

func (e *unreachedError) Error() string { return e.text }
