// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"math"

	"github.com/disco-sim/disco/internal/chart"
)

// charts are those of a page: what there is of round trips by percentile, and every row beside its own limit, round
// trips and rates.
func (p *page) charts() (all []chart.Chart) {
	var lines []chart.Line
	for _, c := range p.curves {
		l := chart.Line{Name: c.name}
		for _, pt := range c.points {
			l.Add(nines(pt.percentile), math.Log10(max(pt.nanos, 1)))
		}
		lines = append(lines, l)
	}
	if len(lines) > 0 {
		all = append(all, chart.Chart{Title: "round trip by percentile", Lines: lines, XTick: 1, YTick: 1,
			XText: ninesText, YText: tickNanos})
	}
	if rows := p.rowsOf(true); len(rows) > 0 {
		all = append(all, chart.Chart{Title: "round trips: dot, the median, with a line to the 99th percentile; " +
			"bar, the row's own limit (less is better)", Rows: rows, XTick: 1, XText: tickNanos})
	}
	if rows := p.rowsOf(false); len(rows) > 0 {
		all = append(all, chart.Chart{Title: "bytes a second: dot, the row; bar, its own limit (more is better)",
			Rows: rows, XTick: 1, XText: tickRate})
	}
	return all
}

// rowsOf are the rows of round trips, or of rates, each with the limit that was measured in the same rounds: the row's
// figure divided by the median of their ratios. Limits have no row of their own.
func (p *page) rowsOf(trips bool) (rows []chart.Row) {
	for i := range p.rows {
		r := &p.rows[i]
		if r.Bench == r.Limit || trips != (r.RTT != nil) {
			continue
		}
		x, to := r.BytesPerSecond, r.BytesPerSecond
		if trips {
			x, to = float64(r.RTT.P50), float64(r.RTT.P99)
		}
		if !(x > 0) {
			continue
		}
		name := r.Bench + ", " + sizeText(r.PayloadBytes)
		if r.Batch > 1 {
			name += fmt.Sprintf(", batch %d", r.Batch)
		}
		if r.Wait != "" {
			name += ", " + r.Wait
		}
		row := chart.Row{Name: name, X: math.Log10(x), To: math.Log10(max(to, 1)), Limit: math.NaN(), Text: r.Limit}
		if r.Ratio != nil && r.Ratio.Median > 0 {
			row.Limit = math.Log10(x / r.Ratio.Median)
			row.Text = fmt.Sprintf("%.3g times %s", r.Ratio.Median, r.Limit)
		}
		rows = append(rows, row)
	}
	return rows
}

// nines is where a percentile stands on its axis: 90 % at 1, 99 % at 2, and so on up
// to 6 nines.
func nines(percentile float64) float64 {
	return min(-math.Log10(max(1-percentile/100, 1e-6)), 6)
}

func ninesText(x float64) string {
	digits := max(0, int(x)-2)
	return fmt.Sprintf("%.*f %%", digits, 100*(1-math.Pow(10, -x)))
}

// tickNanos and tickRate are what stands at a power of ten.
func tickNanos(y float64) string { return power(y, "ns", "µs", "ms", "s") }
func tickRate(y float64) string  { return power(y, "B/s", "kB/s", "MB/s", "GB/s", "TB/s") }

// power is ten to the x in units of which each is a thousand of the one before.
func power(x float64, units ...string) string {
	i := min(max(int(math.Floor(x/3)), 0), len(units)-1)
	return fmt.Sprintf("%.4g %s", math.Pow(10, x-3*float64(i)), units[i])
}
