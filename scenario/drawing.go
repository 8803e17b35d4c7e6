// SPDX-License-Identifier: Apache-2.0

package scenario

import "math"

// Bounds of a drawing: what is beyond them is left out, and counted.
const (
	BoxesMax = 5_000
	LinksMax = 20_000
)

// Drawn is a Summary of a scenario that can be drawn: boxes and links between them, with what was on them.
type Drawn interface {
	Summary

	// Drawing makes the drawing; the same results give the same one.
	Drawing() *Drawing
}

// Drawing is what there is to draw, in the order of the file. Where boxes stand in the picture is for programs to say.
type Drawing struct {
	Boxes []Box
	Links []Link

	// Flow is set where something flows through the boxes from some that begin it to others: they are drawn from left
	// to right then, though a few links may lead back.
	Flow bool

	OmittedBoxes, OmittedLinks int // beyond BoxesMax and LinksMax, or, of links, at boxes that were left out
}

// Box is a box of a drawing.
type Box struct {
	ID    string // unique among boxes; where it has time series, what they are of (Series.Of)
	Kind  string // such as server
	Group string // what its time series are of, where it has none of its own
	Load

	Placed              bool    // it has a place on Earth
	Latitude, Longitude float64 // degrees
}

// Load is how busy a box or link was.
type Load struct {
	Share float64 // 0 to 1; NaN: not known
	Of    string  // what it is a share of, such as utilisation
}

// NoLoad is the load of what has none.
var NoLoad = Load{Share: math.NaN()}

// Link is a link of a drawing. It may lead back to where it begins, and two may join the same boxes.
type Link struct {
	ID       string // unique among links, as of Box otherwise
	From, To int    // by the order in which boxes were given to Box
	Load
	Amount float64 // what it carried; NaN: not known
	Unit   string  // of Amount, such as requests/s
}

// AddBox adds a box, or counts it where there is no room.
func (d *Drawing) AddBox(b Box) {
	if len(d.Boxes) == BoxesMax {
		d.OmittedBoxes++
		return
	}
	b.Share = share(b.Share)
	d.Boxes = append(d.Boxes, b)
}

// AddLink adds a link, behind all boxes, or counts it where there is no room or no box at one end.
func (d *Drawing) AddLink(l Link) {
	if len(d.Links) == LinksMax || max(l.From, l.To) >= len(d.Boxes) {
		d.OmittedLinks++
		return
	}
	l.Share = share(l.Share)
	d.Links = append(d.Links, l)
}

// share is x from 0 to 1, but for rounding; NaN stays.
func share(x float64) float64 { return min(max(x, 0), 1) }
