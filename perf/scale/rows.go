// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"time"

	"github.com/disco-sim/disco/internal/infile"
)

// document is the JSON file.
type document struct {
	Machine string    `json:"machine"`
	Rows    []cellRow `json:"rows"`
}

// cellRow is one cell with what was measured. Times are seconds, and medians of the rounds, like the rates.
type cellRow struct {
	Curve   string `json:"curve"`
	Kind    string `json:"kind"`
	N       int    `json:"n"`
	Nodes   int    `json:"nodes"`
	Links   int    `json:"links"`
	Pending int    `json:"pending"`
	Workers int    `json:"workers"`
	Date    string `json:"date"`

	Rounds   int       `json:"rounds"`
	Rates    []float64 `json:"rates"` // events a second, of each round
	Rate     float64   `json:"events_per_s"`
	RateBy   string    `json:"rate_by"`    // boards: from the first event on; run: the whole run
	Bares    []float64 `json:"bare_rates"` // of the bare heap loop in the same rounds; none where there is no such loop
	Ratio    []float64 `json:"ratio"`      // rate to the bare loop: least, median, greatest
	Peak     int64     `json:"peak_bytes"` // of launcher and workers together, the largest of the rounds
	PeakBy   string    `json:"peak_by"`
	Load     float64   `json:"load_s"`  // until workers are started
	Start    float64   `json:"start_s"` // from there to the first event
	End      float64   `json:"end_s"`   // from the last event to the end of the process
	Elapsed  float64   `json:"elapsed_s"`
	CPUEvent float64   `json:"cpu_ns_per_event"` // of all workers
	Blocked  float64   `json:"blocked"`          // share of the workers' time
	Others   float64   `json:"others"`           // share of all processors' time that others took
	Note     string    `json:"note,omitempty"`   // why it wasn't measured
}

// same reports whether a row is that of a cell.
func (r *cellRow) same(c *cell) bool {
	return r.Curve == c.curve && r.Kind == c.kind && r.N == c.n && r.Nodes == c.nodes && r.Links == c.links &&
		r.Pending == c.pending && r.Workers == c.workers
}

// String is a line of text.
func (r *cellRow) String() string {
	text := fmt.Sprintf("%-8s %-8s %10d nodes %9d links %10d pending %3d workers: ", r.Curve, r.Kind, r.Nodes, r.Links,
		r.Pending, r.Workers)
	if r.Note != "" {
		return text + r.Note
	}
	text += fmt.Sprintf("%6.2f M/s, %8s, load %.2f s, start %.2f s, end %.2f s", r.Rate/1e6, bytesText(r.Peak), r.Load,
		r.Start, r.End)
	if len(r.Ratio) == 3 {
		text += fmt.Sprintf(", %.2f x bare (%.2f to %.2f)", r.Ratio[1], r.Ratio[0], r.Ratio[2])
	}
	return text
}

func bytesText(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f kB", float64(n)/1e3)
}

// put replaces the row of the same cell, or appends one.
func (d *document) put(row cellRow) {
	i := slices.IndexFunc(d.Rows, func(r cellRow) bool {
		return r.Curve == row.Curve && r.Kind == row.Kind && r.N == row.N && r.Nodes == row.Nodes &&
			r.Links == row.Links && r.Pending == row.Pending && r.Workers == row.Workers
	})
	if i < 0 {
		d.Rows = append(d.Rows, row)
	} else {
		d.Rows[i] = row
	}
}

// find is the row of a cell, nil where there is none.
func (d *document) find(c *cell) *cellRow {
	i := slices.IndexFunc(d.Rows, func(r cellRow) bool { return r.same(c) })
	if i < 0 {
		return nil
	}
	return &d.Rows[i]
}

// add makes the figures of a row those of one more round.
func (r *cellRow) add(m *run, bare float64) {
	r.Rounds++
	r.Rates = append(r.Rates, m.rate)
	r.Rate = median(r.Rates)
	r.RateBy = "run"
	if m.byBoard {
		r.RateBy = "boards"
	}
	if bare > 0 {
		r.Bares = append(r.Bares, bare)
		var ratios []float64
		for i, b := range r.Bares {
			ratios = append(ratios, r.Rates[i]/b)
		}
		r.Ratio = []float64{slices.Min(ratios), median(ratios), slices.Max(ratios)}
	}
	r.Peak, r.PeakBy = max(r.Peak, m.peak), m.by
	mean := func(old *float64, new float64) { *old += (new - *old) / float64(r.Rounds) }
	mean(&r.Load, m.load)
	mean(&r.Start, m.start)
	mean(&r.End, m.end)
	mean(&r.Others, m.others)
	mean(&r.Elapsed, m.load+m.start+m.events+m.end)
	cpu, blocked, wall := 0.0, 0.0, 0.0
	for _, w := range m.results.Workers {
		cpu, blocked, wall = cpu+w.CPU, blocked+w.Blocked, wall+w.Wall
	}
	if m.results.Events > 0 && wall > 0 {
		mean(&r.CPUEvent, cpu*1e9/float64(m.results.Events))
		mean(&r.Blocked, blocked/wall)
	}
}

func median(all []float64) float64 {
	s := slices.Sorted(slices.Values(all))
	return (s[len(s)/2] + s[(len(s)-1)/2]) / 2
}

// rowsKind is a file of rows.
var rowsKind = infile.Kind{Name: "rows that scale wrote", BytesMax: 64 << 20}

// readRows reads a file, if there is one.
func readRows(name string) (*document, error) {
	d := &document{Machine: fmt.Sprintf("%s, %d CPUs, %s", cpuModel(), runtime.NumCPU(),
		bytesText(meminfo("MemTotal")))}
	if name == "" {
		return d, nil
	}
	text, err := infile.Read(name, rowsKind)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err != nil {
		return nil, usagef("-json: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(d); err != nil {
		return nil, usagef("-json %s: found %w, want %s", name, err, rowsKind.Name)
	}
	return d, nil
}

// write writes the file, whole or not at all.
func (d *document) write(name string) error {
	if name == "" {
		return nil
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(name, append(text, '\n'))
}

// newRow is the row of a cell that wasn't run yet.
func newRow(c *cell) cellRow {
	return cellRow{Curve: c.curve, Kind: c.kind, N: c.n, Nodes: c.nodes, Links: c.links, Pending: c.pending,
		Workers: c.workers, Date: time.Now().UTC().Format(time.DateOnly)}
}
