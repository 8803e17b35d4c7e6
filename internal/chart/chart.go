// SPDX-License-Identifier: Apache-2.0

// Package chart draws curves, and rows beside their limits, as one SVG that needs no script, font or file besides
// itself.
//
// Guarantee: the same charts give the same bytes; text from outside is escaped; a chart
// without points is drawn with empty axes.
//
//	c := chart.Chart{Title: "events per second", Lines: lines, XTick: 1, YTick: 1, XText: powers, YText: rates}
//	err := chart.SVG(w, "rows.json", []chart.Chart{c})
package chart

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// The charts of a page stand one above the other, each with its legend at the right.
const (
	pageWidth   = 1080
	chartHeight = 380
	chartLeft   = 80
	chartRight  = 760
	chartTop    = 50
	chartBottom = chartHeight - 50
	rowsLeft    = 300 // names of rows are long
	rowHeight   = 22
	titleHeight = 30
)

// dotsMax is up to how many points a line has a dot at each.
const dotsMax = 16

var strokes = []string{"#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#e377c2", "#17becf",
	"#7f7f7f", "#bcbd22"}

// Line is a curve in the units of the axes.
type Line struct {
	Name string // in the legend
	x, y []float64
}

// Add appends a point. A value that isn't finite can't be drawn and is left out.
func (l *Line) Add(x, y float64) {
	if !math.IsNaN(x) && !math.IsInf(x, 0) && !math.IsNaN(y) && !math.IsInf(y, 0) {
		l.x, l.y = append(l.x, x), append(l.y, y)
	}
}

// Row is a value, drawn on a line of its own beside what it is held against.
type Row struct {
	Name  string
	X     float64
	To    float64 // a thin line leads from X to it
	Limit float64 // a bar stands there; NaN: there is none
	Text  string  // at the right
}

// Chart is a pair of axes with lines; with Rows it has these instead, and no other axis than that of X.
type Chart struct {
	Title        string
	Lines        []Line
	Rows         []Row
	XTick, YTick float64              // distance of the grid's lines, > 0
	XText, YText func(float64) string // what stands at one of them
}

// HTML writes a page with the charts.
func HTML(w io.Writer, title string, charts []Chart) error {
	if _, err := fmt.Fprintf(w, "<!doctype html>\n<html lang=\"en\">\n<head><meta "+
		"charset=\"utf-8\"><title>%s</title></head>\n<body style=\"margin:0;background:#fff\">\n",
		html.EscapeString(title)); err != nil {
		return err
	}
	if err := SVG(w, title, charts); err != nil {
		return err
	}
	_, err := fmt.Fprint(w, "</body>\n</html>\n")
	return err
}

// SVG writes the charts as one SVG.
func SVG(to io.Writer, title string, charts []Chart) error {
	w := bufio.NewWriter(to)
	height := titleHeight
	for i := range charts {
		height += charts[i].height()
	}
	fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "+
		"font-family=\"sans-serif\" font-size=\"12\">\n", pageWidth, height, pageWidth, height)
	fmt.Fprintf(w, "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"10\" y=\"20\" "+
		"font-size=\"13\">%s</text>\n", html.EscapeString(title))
	top := titleHeight
	for i := range charts {
		if c := &charts[i]; c.Rows == nil {
			c.draw(w, top)
		} else {
			c.drawRows(w, top)
		}
		top += charts[i].height()
	}
	fmt.Fprint(w, "</svg>\n")
	return w.Flush()
}

// bounds are the axes' ends: whole ticks around all points.
func (c *Chart) bounds() (x0, x1, y0, y1 float64) {
	x0, x1, y0, y1 = math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, l := range c.Lines {
		for i := range l.x {
			x0, x1 = min(x0, l.x[i]), max(x1, l.x[i])
			y0, y1 = min(y0, l.y[i]), max(y1, l.y[i])
		}
	}
	for _, r := range c.Rows {
		for _, x := range []float64{r.X, r.To, r.Limit} {
			if !math.IsNaN(x) && !math.IsInf(x, 0) {
				x0, x1, y0, y1 = min(x0, x), max(x1, x), 0, 1
			}
		}
	}
	if x0 > x1 {
		x0, x1, y0, y1 = 0, 1, 0, 1
	}
	x0, x1 = math.Floor(x0/c.XTick)*c.XTick, math.Ceil(x1/c.XTick)*c.XTick
	y0, y1 = math.Floor(y0/c.YTick)*c.YTick, math.Ceil(y1/c.YTick)*c.YTick
	return x0, max(x1, x0+c.XTick), y0, max(y1, y0+c.YTick)
}

func (c *Chart) draw(w io.Writer, top int) {
	x0, x1, y0, y1 := c.bounds()
	px := func(x float64) float64 { return chartLeft + (x-x0)/(x1-x0)*(chartRight-chartLeft) }
	py := func(y float64) float64 { return chartBottom - (y-y0)/(y1-y0)*(chartBottom-chartTop) }
	fmt.Fprintf(w, "<g transform=\"translate(0,%d)\">\n<text x=\"%d\" y=\"%d\" font-weight=\"bold\">%s</text>\n", top,
		chartLeft, chartTop-14, html.EscapeString(c.Title))
	for x := x0; x <= x1+1e-9; x += c.XTick {
		fmt.Fprintf(w, "<path d=\"M%.1f %dV%d\" stroke=\"#ddd\"/><text x=\"%.1f\" y=\"%d\" "+
			"text-anchor=\"middle\">%s</text>\n", px(x), chartTop, chartBottom, px(x), chartBottom+18,
			html.EscapeString(c.XText(x)))
	}
	for y := y0; y <= y1+1e-9; y += c.YTick {
		fmt.Fprintf(w, "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%.1f\" "+
			"text-anchor=\"end\">%s</text>\n", chartLeft, py(y), chartRight, chartLeft-6, py(y)+4,
			html.EscapeString(c.YText(y)))
	}
	for i, l := range c.Lines {
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
		for k := 0; k < len(l.x) && len(l.x) <= dotsMax; k++ {
			fmt.Fprintf(w, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", px(l.x[k]), py(l.y[k]), stroke)
		}
		y := chartTop + 16*i
		fmt.Fprintf(w, "<path d=\"M%d %dh22\" stroke=\"%s\" stroke-width=\"2\"%s/><text x=\"%d\" y=\"%d\">%s</text>\n",
			chartRight+20, y, stroke, dash, chartRight+48, y+4, html.EscapeString(l.Name))
	}
	fmt.Fprint(w, "</g>\n")
}

// height is that of the chart with its axis.
func (c *Chart) height() int {
	if c.Rows == nil {
		return chartHeight
	}
	return chartTop + len(c.Rows)*rowHeight + chartHeight - chartBottom
}

// drawRows draws one row below the other: a dot, what it leads to, and the bar of its limit.
func (c *Chart) drawRows(w io.Writer, top int) {
	x0, x1, _, _ := c.bounds()
	px := func(x float64) float64 { return rowsLeft + (x-x0)/(x1-x0)*(chartRight-rowsLeft) }
	finite := func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
	bottom := chartTop + len(c.Rows)*rowHeight
	fmt.Fprintf(w, "<g transform=\"translate(0,%d)\">\n<text x=\"10\" y=\"%d\" font-weight=\"bold\">%s</text>\n", top,
		chartTop-14, html.EscapeString(c.Title))
	for x := x0; x <= x1+1e-9; x += c.XTick {
		fmt.Fprintf(w, "<path d=\"M%.1f %dV%d\" stroke=\"#ddd\"/><text x=\"%.1f\" y=\"%d\" "+
			"text-anchor=\"middle\">%s</text>\n", px(x), chartTop, bottom, px(x), bottom+18,
			html.EscapeString(c.XText(x)))
	}
	for i, r := range c.Rows {
		y := chartTop + i*rowHeight + rowHeight/2
		fmt.Fprintf(w, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text><text x=\"%d\" y=\"%d\">%s</text>\n",
			rowsLeft-14, y+4, html.EscapeString(r.Name), chartRight+14, y+4, html.EscapeString(r.Text))
		if !finite(r.X) {
			continue
		}
		if finite(r.To) {
			fmt.Fprintf(w, "<path d=\"M%.1f %dH%.1f\" stroke=\"%s\" stroke-width=\"1.8\"/>\n", px(r.X), y, px(r.To),
				strokes[0])
		}
		if finite(r.Limit) {
			fmt.Fprintf(w, "<path d=\"M%.1f %dH%.1f\" stroke=\"#888\" stroke-dasharray=\"2 3\"/><path d=\"M%.1f "+
				"%dv14\" stroke=\"%s\" stroke-width=\"3\"/>\n", px(r.X), y, px(r.Limit), px(r.Limit), y-7, strokes[1])
		}
		fmt.Fprintf(w, "<circle cx=\"%.1f\" cy=\"%d\" r=\"4\" fill=\"%s\"/>\n", px(r.X), y, strokes[0])
	}
	fmt.Fprint(w, "</g>\n")
}
