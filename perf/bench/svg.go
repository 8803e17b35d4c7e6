// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"math"

	"github.com/disco-sim/disco/internal/chart"
)

// charts are the two of a page: round trips and rates.
func (p *page) charts() []chart.Chart {
	var trips, rates []chart.Line
	for _, c := range p.curves {
		l := chart.Line{Name: c.name}
		for _, pt := range c.points {
			l.Add(nines(pt.percentile), math.Log10(max(pt.nanos, 1)))
		}
		trips = append(trips, l)
	}
	for _, c := range p.rates {
		l := chart.Line{Name: c.name}
		for _, pt := range c.points {
			l.Add(math.Log2(float64(max(pt.payload, 1))), math.Log10(pt.bytes))
		}
		rates = append(rates, l)
	}
	return []chart.Chart{
		{Title: "round trip by percentile", Lines: trips, XTick: 1, YTick: 1, XText: ninesText, YText: tickNanos},
		{Title: "bytes a second by payload", Lines: rates, XTick: 2, YTick: 1, XText: tickSize, YText: tickRate},
	}
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

func tickNanos(y float64) string { return nanosText(math.Pow(10, y)) }
func tickSize(x float64) string  { return sizeText(int(math.Exp2(x))) }
func tickRate(y float64) string  { return bytesText(math.Pow(10, y)) }
