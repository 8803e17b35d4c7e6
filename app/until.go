// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/internal/launch"
	tables "github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/model/measure"
	"github.com/urfave/cli/v2"
)

// Numbers of replications with --until. What stops as soon as an interval happens to be narrow stops too early too
// often; the first sample must be long enough for that to be rare (docs/until.md has sources and measurements).
const (
	untilLeast   = 30   // the first sample
	untilDefault = 1000 // the most, without --replications
)

func untilFlag() cli.Flag {
	return &cli.StringSliceFlag{Category: groupWhat, Name: "until", DefaultText: "all of --replications",
		Usage: fmt.Sprintf("repeat the experiment until the interval of a figure is narrow enough, `FIGURE ± WIDTH`: "+
			"'latency_s.p99 ± 2 %%' (or +-2%%), or in the figure's unit; at least %d times, and at most "+
			"--replications, %d by default: exit status 3 where that wasn't enough; may be given several times",
			untilLeast, untilDefault)}
}

// precision is what --until wants of one figure.
type precision struct {
	figure  string
	width   float64 // half of the interval's, in the figure's unit, or as a share of it
	percent bool
	name    string // of the figure among the results
	seen    measure.Mean
}

func (p *precision) String() string {
	if p.percent {
		return fmt.Sprintf("%s ± %s %%", p.figure, strconv.FormatFloat(100*p.width, 'g', 12, 64))
	}
	return fmt.Sprintf("%s ± %s", p.figure, strconv.FormatFloat(p.width, 'g', -1, 64))
}

// precisionForm is a figure's name, ±, a number, and perhaps %.
var precisionForm = regexp.MustCompile(`^\s*(\S(?:.*\S)?)\s*(?:±|\+-|\+/-)\s*([^\s%]+)\s*(%?)\s*$`)

// until reads --until; nil: it isn't given.
func (v *values) until() *until {
	texts := v.c.StringSlice("until")
	if len(texts) == 0 {
		return nil
	}
	u := &until{}
	for _, text := range texts {
		m := precisionForm.FindStringSubmatch(text)
		if m == nil {
			v.refuse("until", strconv.Quote(text), "FIGURE ± WIDTH, such as 'latency_s.p99 ± 2 %' or "+
				"'latency_s.p99 +- 0.005'")
			continue
		}
		p := precision{figure: m[1], percent: m[3] != ""}
		width, err := strconv.ParseFloat(m[2], 64)
		if p.width = width; p.percent {
			p.width = width / 100
		}
		switch {
		case err != nil || !(p.width > 0) || math.IsInf(p.width, 1):
			v.refuse("until", strconv.Quote(m[2])+" in "+strconv.Quote(text), "a finite number > 0")
		case p.percent && !(p.width < 1):
			v.refuse("until", strconv.Quote(m[2]+" %")+" in "+strconv.Quote(text), "less than 100 %")
		default:
			u.wanted = append(u.wanted, p)
		}
	}
	return u
}

// replications reads --replications: how many there are, with --until at most.
func (v *values) replications(u *until) int {
	if u == nil {
		return v.integer("replications", 1, 1, launch.ReplicationsMax)
	}
	n := v.integer("replications", untilDefault, 1, launch.ReplicationsMax)
	if n < untilLeast {
		v.refuse("until", "--replications "+strconv.Itoa(n), fmt.Sprintf("at least %d, which are the first sample",
			untilLeast))
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
		{o.saving != nil, "--checkpoint-to", "checkpoints don't keep the rule, and what goes on wouldn't end by it"},
	} {
		if o.until != nil && other.is {
			return usage("--until: found it with %s, want one of them: %s", other.flag, other.why)
		}
	}
	return nil
}

// until is when there are enough replications: Law's sequential procedure (Simulation modeling and analysis, 5th ed.
// 2015, 9.4.1), which is Chow and Robbins' (1965) for an interval of fixed width. Of the figures that each replication
// has by itself, which are independent, an interval of the mean is made after each replication from the first sample
// on, and the first that is narrow enough ends the run. As replications are looked at in their order, it depends on
// nothing else.
type until struct {
	wanted []precision
	looked int  // replications that were looked at
	met    bool // all intervals were narrow enough
	err    error
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
		u.looked, u.met = 0, false
		for i := range u.wanted {
			p := &u.wanted[i]
			if p.seen, p.name = (measure.Mean{}), figureOf(p.figure, cells); p.name == "" && u.err == nil {
				u.err = noFigure("--until", p.figure, "", cells)
			}
		}
	}
	u.looked++
	for i := range u.wanted {
		p := &u.wanted[i]
		at := slices.IndexFunc(cells, func(c cell) bool { return c.name == p.name && c.number })
		if at < 0 {
			continue // this one has nothing of it: it is no sample
		}
		if x, err := strconv.ParseFloat(cells[at].text, 64); err == nil {
			p.seen.Add(x)
		}
	}
}

// enough reports whether there are enough replications, or will never be (launch.Config.Enough).
func (u *until) enough() bool {
	u.met = u.err == nil
	for i := range u.wanted {
		u.met = u.met && u.wanted[i].reached()
	}
	return u.met || u.err != nil
}

// reached reports whether the interval is narrow enough. As the share is one of the estimate, not of the truth, it has
// to be a little narrower than that (Law, there): who is at most γ' = γ/(1+γ) of the estimate away from the truth is
// at most γ of the truth away from it.
func (p *precision) reached() bool {
	i := p.seen.Interval()
	if i.N < untilLeast || !i.Known() {
		return false
	}
	if p.percent {
		return i.HalfWidth <= p.width/(1+p.width)*math.Abs(i.Mean)
	}
	return i.HalfWidth <= p.width
}

// figureOf is the name among the results of what --until calls a figure: itself, or the mean of what has an interval;
// "": there is none.
func figureOf(name string, cells []cell) string {
	for _, full := range []string{name, name + ".mean", name + ".observed.mean"} {
		if isFigure(full) && slices.ContainsFunc(cells, func(c cell) bool { return c.name == full && c.number }) {
			return full
		}
	}
	return ""
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
	row := &untilRow{Rule: "sequential, fixed width (Chow and Robbins 1965; Law 2015)", Least: untilLeast, Most: most,
		Replicated: u.looked, Reached: u.met}
	for i := range u.wanted {
		p := &u.wanted[i]
		row.Precisions = append(row.Precisions, precisionRow{p.String(), p.name, p.seen.Interval(), p.reached()})
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
