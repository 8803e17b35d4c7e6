// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// The page is one SVG with two charts, one above the other, each with its legend at
// the right. It needs no script, font or file besides itself.
const (
	pageWidth   = 1080
	chartHeight = 380
	chartLeft   = 80
	chartRight  = 760
	chartTop    = 50
	chartBottom = chartHeight - 50
)

var strokes = []string{"#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#e377c2", "#17becf",
	"#7f7f7f", "#bcbd22"}

func writeHTML(w io.Writer, p page) {
	fmt.Fprintf(w, "<!doctype html>\n<html lang=\"en\">\n<head><meta "+
		"charset=\"utf-8\"><title>%s</title></head>\n<body style=\"margin:0;background:#fff\">\n", html.EscapeString(
		p.title))
	writeSVG(w, p)
	fmt.Fprint(w, "</body>\n</html>\n")
}

func writeSVG(w io.Writer, p page) {
	fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "+
		"font-family=\"sans-serif\" font-size=\"12\">\n", pageWidth, 2*chartHeight+30, pageWidth, 2*chartHeight+30)
	fmt.Fprintf(w, "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"10\" y=\"20\" "+
		"font-size=\"13\">%s</text>\n", html.EscapeString(p.title))
	var trips, rates []line
	for _, c := range p.curves {
		l := line{name: c.name}
		for _, pt := range c.points {
			l.add(nines(pt.percentile), math.Log10(max(pt.nanos, 1)))
		}
		trips = append(trips, l)
	}
	for _, c := range p.rates {
		l := line{name: c.name}
		for _, pt := range c.points {
			l.add(math.Log2(float64(max(pt.payload, 1))), math.Log10(pt.bytes))
		}
		rates = append(rates, l)
	}
	drawChart(w, 30, chart{title: "round trip by percentile", lines: trips, xTick: 1, yTick: 1, xText: ninesText,
		yText: tickNanos})
	drawChart(w, 30+chartHeight, chart{title: "bytes a second by payload", lines: rates, xTick: 2, yTick: 1,
		xText: tickSize, yText: tickRate})
	fmt.Fprint(w, "</svg>\n")
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

// line is a curve in the units of the axes.
type line struct {
	name string
	x, y []float64
}

func (l *line) add(x, y float64) { l.x, l.y = append(l.x, x), append(l.y, y) }

// chart is a pair of axes with lines.
type chart struct {
	title        string
	lines        []line
	xTick, yTick float64
	xText, yText func(float64) string
}

// bounds are the axes' ends: whole ticks around all points.
func (c *chart) bounds() (x0, x1, y0, y1 float64) {
	x0, x1, y0, y1 = math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, l := range c.lines {
		for i := range l.x {
			x0, x1 = min(x0, l.x[i]), max(x1, l.x[i])
			y0, y1 = min(y0, l.y[i]), max(y1, l.y[i])
		}
	}
	if x0 > x1 {
		x0, x1, y0, y1 = 0, 1, 0, 1
	}
	x0, x1 = math.Floor(x0/c.xTick)*c.xTick, math.Ceil(x1/c.xTick)*c.xTick
	y0, y1 = math.Floor(y0/c.yTick)*c.yTick, math.Ceil(y1/c.yTick)*c.yTick
	return x0, max(x1, x0+c.xTick), y0, max(y1, y0+c.yTick)
}

func drawChart(w io.Writer, top int, c chart) {
	x0, x1, y0, y1 := c.bounds()
	px := func(x float64) float64 { return chartLeft + (x-x0)/(x1-x0)*(chartRight-chartLeft) }
	py := func(y float64) float64 { return chartBottom - (y-y0)/(y1-y0)*(chartBottom-chartTop) }
	fmt.Fprintf(w, "<g transform=\"translate(0,%d)\">\n<text x=\"%d\" y=\"%d\" font-weight=\"bold\">%s</text>\n", top,
		chartLeft, chartTop-14, c.title)
	for x := x0; x <= x1+1e-9; x += c.xTick {
		fmt.Fprintf(w, "<path d=\"M%.1f %dV%d\" stroke=\"#ddd\"/><text x=\"%.1f\" y=\"%d\" "+
			"text-anchor=\"middle\">%s</text>\n", px(x), chartTop, chartBottom, px(x), chartBottom+18, c.xText(x))
	}
	for y := y0; y <= y1+1e-9; y += c.yTick {
		fmt.Fprintf(w, "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%.1f\" "+
			"text-anchor=\"end\">%s</text>\n", chartLeft, py(y), chartRight, chartLeft-6, py(y)+4, c.yText(y))
	}
	for i, l := range c.lines {
		stroke, dash := strokes[i%len(strokes)], ""
		if i >= len(strokes) {
			dash = " stroke-dasharray=\"5 3\""
		}
		var d strings.Builder
		for k := range l.x {
			fmt.Fprintf(&d, "%c%.1f %.1f", "ML"[min(k, 1)], px(l.x[k]), py(l.y[k]))
		}
		fmt.Fprintf(w, "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.8\"%s/>\n", d.String(), stroke,
			dash)
		if len(l.x) == 1 {
			fmt.Fprintf(w, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", px(l.x[0]), py(l.y[0]), stroke)
		}
		y := chartTop + 16*i
		fmt.Fprintf(w, "<path d=\"M%d %dh22\" stroke=\"%s\" stroke-width=\"2\"%s/><text x=\"%d\" y=\"%d\">%s</text>\n",
			chartRight+20, y, stroke, dash, chartRight+48, y+4, html.EscapeString(l.name))
	}
	fmt.Fprint(w, "</g>\n")
}
