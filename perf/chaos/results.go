// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// outcome is the result of one try.
type outcome struct {
	skipped string        // why it could not be tried here
	missed  bool          // the run was over before the fault came
	detect  time.Duration // from the fault to the end of the run
	left    leftovers
	wrong   []string // what differed from the expected result; empty: it survived
}

// row is the result of all tries of one cell.
type row struct {
	Fault    string    `json:"fault"`
	Kind     string    `json:"kind"`
	Tried    int       `json:"tried"`
	Missed   int       `json:"missed"` // the run was over before the fault came
	Survived int       `json:"survived"`
	Skipped  string    `json:"skipped,omitempty"` // why it can't be tried on this machine
	MedianMs float64   `json:"detect_median_ms"`
	MaxMs    float64   `json:"detect_max_ms"`
	Left     leftovers `json:"left"`
	Failures []failure `json:"failures,omitempty"`

	detects []time.Duration
}

// failure is one failed try, with what was wrong.
type failure struct {
	Seed  uint64   `json:"seed"`
	Wrong []string `json:"wrong"`
}

func newRow(c *cell) *row { return &row{Fault: c.fault, Kind: c.kind} }

func (r *row) add(seed uint64, o outcome) {
	switch {
	case o.skipped != "":
		r.Skipped = o.skipped
		return
	case o.missed && len(o.wrong) == 0:
		r.Missed++
		return
	}
	r.Tried++
	r.Left.add(o.left)
	if len(o.wrong) > 0 {
		r.Failures = append(r.Failures, failure{seed, o.wrong})
	} else {
		r.Survived++
	}
	r.detects = append(r.detects, o.detect)
	slices.Sort(r.detects)
	r.MedianMs = milliseconds(r.detects[len(r.detects)/2])
	r.MaxMs = milliseconds(r.detects[len(r.detects)-1])
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// line is the row as text.
func (r *row) line() string {
	text := fmt.Sprintf("%-34s %-12s", r.Fault, r.Kind)
	if r.Skipped != "" {
		return text + " not tried: " + r.Skipped
	}
	if r.Tried == 0 {
		return text + " not tried: the run was over before the fault came"
	}
	return text + fmt.Sprintf(" tried %3d, survived %3d; detected in %6.0f ms, at most %6.0f; left: %s", r.Tried,
		r.Survived, r.MedianMs, r.MaxMs, r.Left)
}

// verdict prints all rows and is the exit status.
func verdict(w io.Writer, seed uint64, rows []*row) int {
	failed, skipped := 0, 0
	fmt.Fprintln(w)
	for _, r := range rows {
		fmt.Fprintln(w, r.line())
		if len(r.Failures) > 0 {
			failed++
		}
		if r.Tried == 0 {
			skipped++
		}
	}
	fmt.Fprintf(w, "seed %d: %d cells, %d of them failed, %d were not tried\n", seed, len(rows), failed, skipped)
	if failed > 0 {
		return 1
	}
	return 0
}

func writeJSON(path string, seed uint64, rows []*row) error {
	text, err := json.MarshalIndent(struct {
		Seed  uint64 `json:"seed"`
		Cells []*row `json:"cells"`
	}{seed, rows}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o666)
}
