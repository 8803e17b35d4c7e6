// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/report"
	tables "github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/model/overview"
	"github.com/disco-sim/disco/scenario"
)

// pageTextMax is how much of results that are text a page has.
const pageTextMax = 64 << 10

// writePage writes the page of --report.
func (p *program) writePage(o *order, l *launch.Launch, out *launch.Outcome, d *document) error {
	s := l.Scenario()
	page := &report.Page{Title: d.Scenario, Facts: factsOf(d), Repeat: p.repeat(o, d), File: o.file,
		Scenario: string(o.config.Text)}
	if shower, ok := s.(overview.Shower); ok {
		page.Overview = shower.Overview(out.Summary)
	} else {
		var text bytes.Buffer
		if err := out.Summary.WriteText(&text); err != nil {
			return fmt.Errorf("--report: %w", err)
		}
		page.Text = strings.ToValidUTF8(string(text.Bytes()[:min(text.Len(), pageTextMax)]), "")
	}
	if drawn, ok := out.Summary.(scenario.Drawn); ok {
		page.Drawing = drawn.Drawing()
	}
	page.Replications = make(map[string][]float64, len(d.Figures))
	for _, f := range d.Figures {
		values := make([]float64, len(f.Values))
		for i, x := range f.Values {
			values[i] = float64(x)
		}
		page.Replications[f.Name] = values
	}
	if eventful, ok := out.Summary.(scenario.Eventful); ok {
		page.Spans = eventful.Spans()
	}
	if serial, ok := out.Summary.(scenario.Serial); ok {
		serial.Series(func(s *scenario.Series) bool {
			page.AddSeries(s)
			return true
		})
	}
	return p.write("--report", o.report, func(w io.Writer) error { return report.Write(w, page) })
}

// writeSweepPage writes the page of a sweep.
func (p *program) writeSweepPage(o *order, doc *sweepDocument) error {
	t := newTable(doc)
	shown, err := t.chosen(doc.columns)
	if err != nil {
		return err
	}
	if shown == nil {
		shown, _ = t.differing()
	}
	s := &report.Sweep{}
	for _, a := range doc.Sweep {
		s.Keys = append(s.Keys, a.Key)
	}
	for _, i := range shown {
		s.Heads = append(s.Heads, t.columns[i])
	}
	for n, r := range doc.Rows {
		point := report.Point{Figures: r.shown}
		for _, set := range r.at {
			point.At = append(point.At, set.Value)
		}
		s.Points = append(s.Points, point)
		var cells []string
		for _, i := range shown {
			cells = append(cells, rounded(t.rows[n][i], i >= t.keys))
		}
		s.Rows = append(s.Rows, cells)
	}
	first := doc.Rows[0].document
	facts := []report.Fact{{Name: "points", Value: fmt.Sprintf("%d of %d", len(doc.Rows), doc.Points)},
		{Name: "simulated time", Value: fmt.Sprintf("%.6g s", first.HorizonSeconds)},
		{Name: "replications", Value: tables.Count(int64(first.Replications)) + " at each point"},
		{Name: "seed", Value: strconv.FormatUint(first.Seed, 10)}, {Name: "version of disco", Value: first.Version}}
	if doc.Interrupted {
		facts = append(facts, report.Fact{Name: "ended", Value: "interrupted"})
	}
	lines := p.repeat(o, first)
	for _, axis := range o.sweeps {
		lines[len(lines)-1] += " --sweep " + shellWord(axis)
	}
	page := &report.Page{Title: first.Scenario, Facts: facts, Repeat: lines, File: o.file,
		Scenario: string(o.config.Text), Sweep: s}
	return p.write("--report", o.report, func(w io.Writer) error { return report.Write(w, page) })
}

// factsOf is what ran.
func factsOf(d *document) []report.Fact {
	events := fmt.Sprintf("%s in %.3g s", tables.Count(int64(d.Events)), d.WallSeconds)
	facts := []report.Fact{
		{Name: "nodes", Value: tables.Count(int64(d.NumNodes))},
		{Name: "links", Value: tables.Count(int64(d.NumLinks))},
		{Name: "simulated time", Value: fmt.Sprintf("%.6g s", d.HorizonSeconds)},
		{Name: "replications", Value: tables.Count(int64(d.Replications))},
		{Name: "seed", Value: strconv.FormatUint(d.Seed, 10)}, {Name: "workers", Value: strconv.Itoa(d.Workers)},
		{Name: "events", Value: events}, {Name: "version of disco", Value: d.Version},
		{Name: "trace hash", Value: d.TraceHash},
	}
	if d.Interrupted {
		facts = append(facts, report.Fact{Name: "ended", Value: d.Ended})
	}
	return facts
}

// repeat is the command that repeats the run.
func (p *program) repeat(o *order, d *document) []string {
	file := o.config.File
	if file == commandLine || file == StandardInput || file == "" {
		file = "scenario.yml"
	}
	words := []string{p.name, "run", file, "--seed", strconv.FormatUint(d.Seed, 10)}
	n := o.config.Replications
	if d.Until != nil {
		n = d.Replications // so many were simulated
	}
	if n > 1 {
		words = append(words, "--replications", strconv.Itoa(n))
	}
	if d.Only != "" {
		words = append(words, "--only", d.Only)
	}
	if horizon := cmp.Or(o.config.Horizon, 0); horizon > 0 {
		words = append(words, "--horizon", strconv.FormatFloat(horizon, 'g', -1, 64))
	}
	for _, s := range o.config.Set {
		words = append(words, "--set", s.String())
	}
	for i, w := range words {
		words[i] = shellWord(w)
	}
	lines := []string{strings.Join(words, " ")}
	if file == "scenario.yml" {
		lines = append([]string{"# with the scenario below in scenario.yml"}, lines...)
	}
	return lines
}

// shellWord is a word as a shell reads it.
func shellWord(w string) string {
	plain := func(r rune) bool {
		return r < 128 && (r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' ||
			strings.ContainsRune("-_./=:,+@%", r))
	}
	if w != "" && !strings.ContainsFunc(w, func(r rune) bool { return !plain(r) }) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
