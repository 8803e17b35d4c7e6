// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/disco-sim/disco/internal/chart"
)

// drawAll writes a file for each curve that has rows.
func drawAll(doc *document, prefix string, stdout io.Writer) error {
	if prefix == "" {
		return nil
	}
	for _, curve := range curvesOf(doc) {
		name := prefix + "-" + curve + ".svg"
		f, err := os.Create(name)
		if err != nil {
			return usagef("-svg: %w", err)
		}
		err = chart.SVG(f, "by "+curve+": "+doc.Machine, charts(doc, curve))
		if errClose := f.Close(); err == nil {
			err = errClose
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintln(stdout, name)
	}
	return nil
}

// writeTables writes a table for each curve, in the form of the documents.
func writeTables(doc *document, w io.Writer) {
	for _, curve := range curveNames {
		all := lines(doc, curve)
		if len(all) == 0 {
			continue
		}
		fmt.Fprintf(w, "| %s | | million events per second (range) | x bare loop | peak memory | each one more, B | "+
			"load, s | start, s | end, s | taken by others |\n|---|---|---|---|---|---|---|---|---|---|\n", curve)
		for _, s := range all {
			for i, r := range s.rows {
				ratio, each := "–", "–"
				if len(r.Ratio) == 3 {
					ratio = fmt.Sprintf("%.2f", r.Ratio[1])
				}
				if slope := s.slope(i); curve != curveWorkers && slope > 0 {
					each = fmt.Sprintf("%.0f", slope)
				}
				fmt.Fprintf(w, "| %d | %s | %.2f (%.2f to %.2f) | %s | %s | %s | ", r.N, s.name, r.Rate/1e6,
					slices.Min(r.Rates)/1e6, slices.Max(r.Rates)/1e6, ratio, bytesText(r.Peak), each)
				fmt.Fprintf(w, "%.2f | %.2f | %.2f | %.0f %% |\n", r.Load, r.Start, r.End, 100*r.Others)
			}
		}
		fmt.Fprintln(w)
	}
	for i := range doc.Rows {
		if r := &doc.Rows[i]; r.Note != "" {
			fmt.Fprintf(w, "* %d %s, %s, %d workers: %s\n", r.N, r.Curve, r.Kind, r.Workers, r.Note)
		}
	}
}

// series is the rows of one line of a curve.
type series struct {
	name string
	rows []*cellRow
}

// lines are the rows of a curve by kind and, where something else grows, number of workers.
func lines(doc *document, curve string) (all []series) {
	for i := range doc.Rows {
		r := &doc.Rows[i]
		if r.Curve != curve || r.Note != "" {
			continue
		}
		name := r.Kind
		if curve != curveWorkers {
			name = fmt.Sprintf("%s, %d", r.Kind, r.Workers)
			if r.Workers == 1 {
				name += " worker"
			} else {
				name += " workers"
			}
		}
		k := slices.IndexFunc(all, func(s series) bool { return s.name == name })
		if k < 0 {
			k = len(all)
			all = append(all, series{name: name})
		}
		all[k].rows = append(all[k].rows, r)
	}
	for _, s := range all {
		slices.SortFunc(s.rows, func(a, b *cellRow) int { return a.N - b.N })
	}
	return all
}

// charts are the four of a curve: rate, memory, memory of one more, start.
func charts(doc *document, curve string) []chart.Chart {
	all := lines(doc, curve)
	axis, x, xText := 1.0, func(n int) float64 { return math.Log10(float64(n)) }, powerText
	if curve == curveWorkers {
		x, xText = func(n int) float64 { return math.Log2(float64(n)) }, doubleText
	}
	draw := func(title string, yTick float64, yText func(float64) string, y func(s series, i int) float64) chart.Chart {
		c := chart.Chart{Title: title, XTick: axis, YTick: yTick, XText: xText, YText: yText}
		for _, s := range all {
			l := chart.Line{Name: s.name}
			for i, r := range s.rows {
				l.Add(x(r.N), y(s, i))
			}
			c.Lines = append(c.Lines, l)
		}
		return c
	}
	rates := draw("million events per second", 2, numberText, func(s series, i int) float64 {
		return s.rows[i].Rate / 1e6
	})
	if curve != curveWorkers {
		bare := chart.Line{Name: "bare heap loop"}
		for _, s := range all {
			for _, r := range s.rows {
				if len(r.Bares) > 0 {
					bare.Add(x(r.N), median(r.Bares)/1e6)
				}
			}
		}
		rates.Lines = append(rates.Lines, bare)
	}
	return []chart.Chart{rates,
		draw("peak memory of launcher and workers", 1, bytesPower, func(s series, i int) float64 {
			return math.Log10(float64(s.rows[i].Peak))
		}),
		draw("bytes for each one more than at the point before", 1, bytesPower, func(s series, i int) float64 {
			return math.Log10(s.slope(i))
		}),
		draw("seconds from the start of the process to the first event", 1, secondsPower,
			func(s series, i int) float64 { return math.Log10(s.rows[i].Load + s.rows[i].Start) }),
	}
}

// slope is how many bytes a row takes for each one that it has more than the row before it; NaN for the first.
func (s *series) slope(i int) float64 {
	if i == 0 {
		return math.NaN()
	}
	a, b := s.rows[i-1], s.rows[i]
	return float64(b.Peak-a.Peak) / float64(b.N-a.N)
}

func numberText(y float64) string { return fmt.Sprintf("%g", y) }
func powerText(x float64) string  { return fmt.Sprintf("10^%.0f", x) }
func doubleText(x float64) string { return fmt.Sprintf("%.0f", math.Exp2(x)) }
func bytesPower(y float64) string {
	if y < 3 {
		return fmt.Sprintf("%.3g B", math.Pow(10, y))
	}
	return bytesText(int64(math.Round(math.Pow(10, y))))
}
func secondsPower(y float64) string { return fmt.Sprintf("%.3g s", math.Pow(10, y)) }
