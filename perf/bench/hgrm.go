// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/disco-sim/disco/internal/infile"
)

// hgrmTicks is how many lines a halving of the rest of the distribution gets.
const hgrmTicks = 5

// WriteHgrm writes the distribution of round trips of every row that has one into
// dir, in the percentile form that HdrHistogram's own tools draw. Rows without one are
// left out. It returns the files' names.
func WriteHgrm(dir string, rows []Row) (files []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	for i := range rows {
		r := &rows[i]
		if r.histogram == nil {
			continue
		}
		name := filepath.Join(dir, hgrmName(r))
		var text strings.Builder
		if _, err := r.histogram.PercentilesPrint(&text, hgrmTicks, 1); err != nil {
			return files, fmt.Errorf("bench: %s: %w", name, err)
		}
		if err := os.WriteFile(name, []byte(text.String()), 0o644); err != nil {
			return files, fmt.Errorf("bench: %w", err)
		}
		files = append(files, name)
	}
	return files, nil
}

func hgrmName(r *Row) string {
	name := strings.Map(func(c rune) rune {
		if c == ' ' || c == '/' {
			return '-'
		}
		return c
	}, r.Bench)
	return fmt.Sprintf("%s-%d-%s.hgrm", name, r.PayloadBytes, r.Wait)
}

// curve is a distribution as it is drawn: value by percentile.
type curve struct {
	name   string
	points []curvePoint
}

type curvePoint struct {
	percentile float64 // 0 to 100
	nanos      float64
}

// curveOf reads a row's own histogram.
func curveOf(name string, h *hdrhistogram.Histogram) curve {
	c := curve{name: name}
	for _, b := range h.CumulativeDistributionWithTicks(hgrmTicks) {
		c.points = append(c.points, curvePoint{b.Quantile, float64(b.ValueAt)})
	}
	return c
}

// readCurve reads a file that WriteHgrm, or another of HdrHistogram's tools, wrote.
func readCurve(path string) (curve, error) {
	text, err := infile.Read(path, infile.Kind{Name: "a distribution that --hgrm wrote", BytesMax: 16 << 20})
	if err != nil {
		return curve{}, usagef("plot: --hgrm: %w", err)
	}
	c, err := parseCurve(bytes.NewReader(text))
	if err != nil {
		return curve{}, fmt.Errorf("bench: %s: %w", path, err)
	}
	c.name = strings.TrimSuffix(filepath.Base(path), ".hgrm")
	return c, nil
}

// parseCurve reads lines of value and quantile; others are headings.
func parseCurve(r io.Reader) (c curve, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		value, err1 := strconv.ParseFloat(fields[0], 64)
		quantile, err2 := strconv.ParseFloat(fields[1], 64)
		if err1 != nil || err2 != nil {
			continue
		}
		if value < 0 || quantile < 0 || quantile > 1 {
			return c, fmt.Errorf("line %q: want a value and a quantile of 0 to 1", lines.Text())
		}
		c.points = append(c.points, curvePoint{100 * quantile, value})
	}
	if err := lines.Err(); err != nil {
		return c, err
	}
	if len(c.points) == 0 {
		return c, fmt.Errorf("no line of value and quantile in it")
	}
	return c, nil
}
