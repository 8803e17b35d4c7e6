// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/disco-sim/disco/perf/phold"
)

// measure runs what the document doesn't have yet: all cells once, then again until each has its rounds, so that the
// rounds of a cell are not of the same minute.
func measure(ctx context.Context, o options, doc *document, file string, stdout io.Writer) error {
	r, err := newRunner()
	if err != nil {
		return err
	}
	defer r.close()
	var all []*cell
	for _, curve := range o.curves {
		all = append(all, cells(curve, o.most)...)
	}
	deadline := time.Now().Add(o.budget)
	for round := 1; round <= o.rounds; round++ {
		for _, c := range all {
			done, err := r.step(ctx, o, doc, c, round, deadline)
			if err != nil {
				return err
			}
			if !done {
				continue
			}
			fmt.Fprintln(stdout, doc.find(c))
			if err := doc.write(file); err != nil {
				return err
			}
		}
	}
	return nil
}

// step runs a cell for the given round, unless it was, and puts its row into the document; where it can't be run the
// row says why. done: the row has changed.
func (r *runner) step(ctx context.Context, o options, doc *document, c *cell, round int, deadline time.Time) (done bool,
	err error) {
	row := newRow(c)
	if old := doc.find(c); old != nil && old.Rounds > 0 {
		row = *old
	}
	l := limits{o.limit, o.memory}
	if l.memory == 0 {
		l.memory = meminfo("MemAvailable") / 5 * 4
	}
	late := row.Elapsed > o.limit.Seconds()/10 || !time.Now().Before(deadline)
	switch {
	case row.Rounds >= round || row.Rounds > 0 && late || row.Rounds == 0 && round > 1:
		return false, nil
	case row.Rounds == 0:
		row.Note = forecast(doc, c, l, time.Until(deadline))
	}
	if row.Note == "" {
		row.Note = r.round(ctx, o, c, &row, l)
	}
	if ctx.Err() != nil {
		return false, errors.New("interrupted")
	}
	doc.put(row)
	return true, nil
}

// round runs a cell once and adds the figures to its row. It returns why there are none.
func (r *runner) round(ctx context.Context, o options, c *cell, row *cellRow, l limits) (note string) {
	bare := 0.0
	if c.kind == "phold" && c.workers == 1 {
		var err error
		cfg := phold.Config{LPs: c.nodes, Start: c.pending / c.nodes, Remote: remote, Lookahead: lookahead}
		if bare, err = r.bareRate(ctx, cfg); err != nil {
			return err.Error()
		}
	}
	m, err := r.quietly(ctx, c.text(o.events), []string{"--workers", strconv.Itoa(c.workers), "--spread", "nodes"}, l)
	if err != nil {
		return err.Error()
	}
	row.add(m, bare)
	return ""
}

// forecast says why a cell isn't run: what it will take is that of the next smaller one of its curve, times as much as
// it is larger. "": run it.
func forecast(doc *document, c *cell, l limits, left time.Duration) string {
	if left <= 0 {
		return "not run: the budget of time was over"
	}
	var before *cellRow
	for i := range doc.Rows {
		r := &doc.Rows[i]
		if r.Curve == c.curve && r.Kind == c.kind && r.Workers == c.workers && r.N < c.n &&
			(before == nil || r.N > before.N) {
			before = r
		}
	}
	if before == nil || c.curve == curveWorkers {
		return ""
	}
	if before.Note != "" {
		return fmt.Sprintf("not run: neither was the next smaller one, with %d", before.N)
	}
	times := float64(c.n) / float64(before.N)
	if bytes := int64(float64(before.Peak) * times); before.Peak > 100e6 && bytes > l.memory {
		return fmt.Sprintf("not run: it would take some %s, %g times as much as that with %d, of %s that were allowed",
			bytesText(bytes), times, before.N, bytesText(l.memory))
	}
	seconds := before.Elapsed * times
	if most := min(l.time, left).Seconds(); before.Elapsed > 3 && seconds > 2*most {
		return fmt.Sprintf("not run: it would take some %.0f s, %g times as long as that with %d, of %.0f s that were "+
			"left", seconds, times, before.N, most)
	}
	return ""
}

// curvesOf are the curves that have rows, in the order of their names' list.
func curvesOf(doc *document) (names []string) {
	for _, n := range curveNames {
		if slices.ContainsFunc(doc.Rows, func(r cellRow) bool { return r.Curve == n && r.Note == "" }) {
			names = append(names, n)
		}
	}
	return names
}
