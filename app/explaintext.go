// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	tables "github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/model/overview"
)

// explained is an explanation as text.
func (w *paper) explained(e *explanation) (lines []overview.Line) {
	say := func(format string, args ...any) {
		lines = append(lines, w.room.Sentence(fmt.Sprintf(format, args...), overview.Usual)...)
	}
	links := tables.Plural(e.Links, "link")
	if e.Meshes > 0 {
		links += ", and links from everybody to everybody"
	}
	say("%s: %s of %s, %s, horizon %g s", e.Scenario, tables.Plural(e.Nodes, "node"),
		tables.Plural(e.Simprocs, "simproc"), links, e.Horizon)
	if e.Lookahead == nil {
		say("lookahead: there are no links, so nobody waits for anybody")
	} else {
		say("lookahead: %s, of %s", lookaheadText("at least", e.Lookahead.Seconds), comesFrom(e.Lookahead))
	}
	say("events: %s", e.eventsText())
	say("time: %s", e.timeText())
	one := e.Workers[0]
	room := ""
	if one.Memory > float64(e.Available) {
		room = ": too much, run refuses it"
	}
	say("memory: about %s on one worker, most of it for %s; %s are available here%s", megabytes(one.Memory),
		most(one.Parts), megabytes(float64(e.Available)), room)
	lines = append(lines, nil)
	lines = append(lines, w.teams(e)...)
	for _, text := range e.changes() {
		say("%s", text)
	}
	say("Speed-ups are upper limits, up to a third too high, where each worker has a processor (%s here), and "+
		"without the start. Replications need none of it: N workers are N times as fast on N of them.",
		tables.Plural(e.Processors, "processor"))
	for _, text := range e.Unknown {
		say("not known: %s", text)
	}
	return lines
}

// changes say what to do about what limits, each limit once, with the figures of the most workers.
func (e *explanation) changes() (all []string) {
	var limits []string
	workers, texts := map[string][]string{}, map[string]string{}
	for i := range e.Workers {
		r := &e.Workers[i]
		if r.Change == "" {
			continue
		}
		if !slices.Contains(limits, r.Limit) {
			limits = append(limits, r.Limit)
		}
		workers[r.Limit], texts[r.Limit] = append(workers[r.Limit], strconv.Itoa(r.Workers)), r.Change
	}
	for _, limit := range limits {
		all = append(all, fmt.Sprintf("%s workers, %s: %s", strings.Join(workers[limit], ", "), limit, texts[limit]))
	}
	return all
}

// comesFrom is where a lookahead comes from.
func comesFrom(l *leastRow) string {
	if l.From == "" {
		return "everybody to everybody"
	}
	return fmt.Sprintf("%s -> %s%s", l.From, l.To, moreLinks(l))
}

func (e *explanation) eventsText() string {
	rates := ""
	if e.RatesPerSecond > 0 {
		rates = "; by the scenario's own rates " + tables.Number(roundTo3(e.RatesPerSecond*e.Horizon))
	}
	switch e.EventsBy {
	case "":
		return "not known"
	case "rates":
		return tables.Number(roundTo3(e.Events)) + ", by the scenario's own rates"
	case "whole":
		return fmt.Sprintf("%s: the pilot has simulated all of it%s", tables.Number(e.Events), rates)
	}
	return fmt.Sprintf("%s expected, %s in a simulated second: a pilot handled %s in %s%s",
		tables.Number(roundTo3(e.Events)), tables.Number(roundTo3(e.EventsPerSec)), tables.Count(int64(e.Pilot.Events)),
		tables.Seconds(roundTo3(e.Pilot.Reached)), rates)
}

func (e *explanation) timeText() string {
	how := "which is only taken for it"
	if e.Measured {
		how = "as the pilot took here"
	}
	if e.Events == 0 {
		return "not known"
	}
	return fmt.Sprintf("about %s of simulating on one worker, %.0f ns for an event, %s",
		tables.Seconds(roundTo3(e.Workers[0].Wall)), e.EventNanos, how)
}

// teams is the table of the numbers of workers.
func (w *paper) teams(e *explanation) (lines []overview.Line) {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "workers\tnodes of each\tbusiest\tcut\twindow\tmemory\ttime\tspeed-up\t  limit")
	for i := range e.Workers {
		r := &e.Workers[i]
		window, wall := "-", "-"
		if r.Window > 0 {
			window = tables.Number(roundTo3(r.Window))
		}
		if r.Wall > 0 {
			wall = tables.Seconds(roundTo3(r.Wall))
		}
		fmt.Fprintf(t, "%d\t%s\t%.2f\t%.0f %%\t%s\t%s\t%s\t%.2f\t  %s\n", r.Workers, nodesText(r.Nodes), r.Balance,
			100*r.Cut, window, megabytes(r.Memory), wall, r.Speedup, r.Limit)
	}
	_ = t.Flush() // a Buffer takes everything
	for line := range strings.Lines(b.String()) {
		lines = append(lines, overview.Line{{Text: strings.TrimRight(line, " \n")}})
	}
	lines[0][0].Style = overview.Head
	return append(lines, nil)
}

// nodesText is e.g. "12 to 13".
func nodesText(nodes []int) string {
	least, most := slices.Min(nodes), slices.Max(nodes)
	if least == most {
		return tables.Count(int64(least))
	}
	return tables.Count(int64(least)) + " to " + tables.Count(int64(most))
}

// most is the largest part of what memory is for.
func most(parts map[string]float64) string {
	name := ""
	for what, bytes := range parts {
		if name == "" || bytes > parts[name] || bytes == parts[name] && what < name {
			name = what
		}
	}
	return name
}

// roundTo3 leaves a number three digits: no more of it is known.
func roundTo3(x float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 3, 64), 64)
	if err != nil { // the greatest number of all, rounded up
		return x
	}
	return rounded
}

// megabytes is a number of bytes for people.
func megabytes(bytes float64) string {
	if bytes >= 999.5e6 {
		return fmt.Sprintf("%.1f GB", bytes/1e9)
	}
	return fmt.Sprintf("%.0f MB", bytes/1e6)
}
