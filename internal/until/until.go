// SPDX-License-Identifier: Apache-2.0

// Package until decides when there are enough replications: when the intervals of figures are as narrow as somebody
// wants them.
//
// Guarantee: what it decides depends on the replications' figures in their order alone: not on who has simulated them,
// nor on which of them ended first.
package until

import (
	"fmt"
	"math"
	"regexp"
	"strconv"

	"github.com/disco-sim/disco/model/measure"
)

// Numbers of replications. What stops as soon as an interval happens to be narrow stops too early too often; the first
// sample must be long enough for that to be rare (docs/until.md has sources and measurements).
const (
	Least = 30   // the first sample
	Most  = 1000 // where nobody says how many there may be
)

// Precision is what is wanted of one figure, and what is known of it.
type Precision struct {
	Figure  string
	Width   float64 // half of the interval's, in the figure's unit, or as a share of it
	Percent bool    // it is a share
	name    string  // of the figure among the results
	seen    measure.Mean
}

// String is the form that Parse reads.
func (p *Precision) String() string {
	if p.Percent {
		return fmt.Sprintf("%s ± %s %%", p.Figure, strconv.FormatFloat(100*p.Width, 'g', 12, 64))
	}
	return fmt.Sprintf("%s ± %s", p.Figure, strconv.FormatFloat(p.Width, 'g', -1, 64))
}

// FormError is about a text that isn't FIGURE ± WIDTH.
type FormError struct{ Found, Want string }

// Error says what was found, and what is wanted.
func (e *FormError) Error() string { return fmt.Sprintf("found %s, want %s", e.Found, e.Want) }

// form is a figure's name, ±, a number, and perhaps %.
var form = regexp.MustCompile(`^\s*(\S(?:.*\S)?)\s*(?:±|\+-|\+/-)\s*([^\s%]+)\s*(%?)\s*$`)

// Parse reads FIGURE ± WIDTH, where +- and +/- stand for ±, and % behind the width says that it is a share of the
// figure. The error is a *FormError.
func Parse(text string) (Precision, error) {
	m := form.FindStringSubmatch(text)
	if m == nil {
		return Precision{}, &FormError{strconv.Quote(text), "FIGURE ± WIDTH, such as 'latency_s.p99 ± 2 %' or " +
			"'latency_s.p99 +- 0.005'"}
	}
	p := Precision{Figure: m[1], Percent: m[3] != ""}
	width, err := strconv.ParseFloat(m[2], 64)
	if p.Width = width; p.Percent {
		p.Width = width / 100
	}
	switch {
	case err != nil || !(p.Width > 0) || math.IsInf(p.Width, 1):
		return p, &FormError{strconv.Quote(m[2]) + " in " + strconv.Quote(text), "a finite number > 0"}
	case p.Percent && !(p.Width < 1):
		return p, &FormError{strconv.Quote(m[2]+" %") + " in " + strconv.Quote(text), "less than 100 %"}
	}
	return p, nil
}

// Names are those under which a figure may be among the results, the first that is there counting: itself, or the mean
// of what has an interval.
func Names(figure string) []string {
	return []string{figure, figure + ".mean", figure + ".observed.mean"}
}

// Rule is when there are enough replications: Law's sequential procedure (Simulation modeling and analysis, 5th ed.
// 2015, 9.4.1), which is Chow and Robbins' (1965) for an interval of fixed width. Of the figures that each replication
// has by itself, which are independent, an interval of the mean is made after each replication from the first sample
// on, and the first that is narrow enough ends the run. As replications are looked at in their order, it depends on
// nothing else. One goroutine uses it.
type Rule struct {
	Wanted []Precision // all at once
	Least  int         // replications that are the first sample; 0: the constant Least
	looked int
}

// New is the rule of texts that Parse reads. The error is that of the first that it refuses.
func New(texts []string) (*Rule, error) {
	r := &Rule{}
	for _, text := range texts {
		p, err := Parse(text)
		if err != nil {
			return nil, err
		}
		r.Wanted = append(r.Wanted, p)
	}
	return r, nil
}

// Look takes in the figures of a replication, by their names among the results. That of index 0 begins anew, and finds
// out what figures are called; lacks is the first that it doesn't have, "" if it has all. A later one that has nothing
// of a figure is no sample of it.
func (r *Rule) Look(index int, of func(name string) (x float64, ok bool)) (lacks string) {
	if index == 0 {
		r.looked = 0
		for i := range r.Wanted {
			p := &r.Wanted[i]
			if p.seen, p.name = (measure.Mean{}), NameOf(p.Figure, of); p.name == "" && lacks == "" {
				lacks = p.Figure
			}
		}
	}
	r.looked++
	for i := range r.Wanted {
		p := &r.Wanted[i]
		if x, ok := of(p.name); ok {
			p.seen.Add(x)
		}
	}
	return lacks
}

// NameOf is the first of a figure's Names that is there; "": none is.
func NameOf(figure string, of func(name string) (x float64, ok bool)) string {
	for _, name := range Names(figure) {
		if _, ok := of(name); ok {
			return name
		}
	}
	return ""
}

// Looked is how many replications it has taken in.
func (r *Rule) Looked() int { return r.looked }

// Enough reports whether all intervals are narrow enough: then there are enough replications.
func (r *Rule) Enough() bool {
	for i := range r.Wanted {
		if !r.Reached(i) {
			return false
		}
	}
	return true
}

// Found is the name among the results of the figure that is wanted as the i-th, and the interval of its mean.
func (r *Rule) Found(i int) (name string, of measure.Interval) {
	return r.Wanted[i].name, r.Wanted[i].seen.Interval()
}

// Reached reports whether the interval of the figure that is wanted as the i-th is narrow enough.
func (r *Rule) Reached(i int) bool {
	is := r.Wanted[i].seen.Interval()
	return is.N >= r.least() && is.Known() && is.HalfWidth <= r.Wanted[i].most(is)
}

func (r *Rule) least() int {
	if r.Least > 0 {
		return r.Least
	}
	return Least
}

// most is the greatest half of an interval's width that will do. As the share is one of the estimate, not of the truth,
// it has to be a little narrower than that (Law, there): who is at most γ' = γ/(1+γ) of the estimate away from the
// truth is at most γ of the truth away from it.
func (p *Precision) most(is measure.Interval) float64 {
	if p.Percent {
		return p.Width / (1 + p.Width) * math.Abs(is.Mean)
	}
	return p.Width
}

// Predicted is how many replications it will take, by how much those differ that it has taken in: the first sample, and
// behind that more than there are, unless they are enough. It is a guess, and decides nothing.
func (r *Rule) Predicted(most int) int {
	n := r.least()
	if r.looked < n {
		return min(n, most)
	}
	if r.Enough() {
		return min(r.looked, most)
	}
	n = r.looked + 1
	for i := range r.Wanted {
		is := r.Wanted[i].seen.Interval()
		share := is.HalfWidth / r.Wanted[i].most(is)
		if times := float64(is.N) * share * share; is.Known() && times > float64(n) {
			n = int(math.Ceil(min(times, float64(most)))) // a width goes down with the root of the number
		}
	}
	return min(n, most)
}
