// SPDX-License-Identifier: Apache-2.0

package devstone

import (
	"fmt"

	"github.com/disco-sim/disco/scenario"
)

// KindName is what a file's `model:` has for DEVStone.
const KindName = "devstone"

// Types of coupling.
const (
	LI    = "LI"    // input to every component
	HI    = "HI"    // and every component to the next
	HO    = "HO"    // and every component to the output
	HOmod = "HOmod" // a triangle of components whose first row feeds the next level's input
)

// Params are the parameters of DEVStone.
type Params struct {
	Type   string
	Width  int  // components of a coupled model, the inner coupled model being one of them
	Depth  int  // nested coupled models; the innermost has one component
	Pulses int  // how often the cascade is set off, once a simulated second
	Series bool // time series are recorded; scenario.Options say it, not the file
}

// Limits of the parameters. They keep the graph in memory.
const (
	sizeMax   = 1 << 20
	atomicMax = 1 << 22
	linksMax  = 1 << 25
	pulsesMax = 1_000_000_000
)

// Load reads the parameters from a file. The error is a scenario.Problems where the
// file is at fault. opt.Horizon ends the run earlier: pulses at or after it are not
// sent.
func Load(doc *scenario.Document, opt scenario.Options) (Params, error) {
	if err := opt.Validate(); err != nil {
		return Params{}, err
	}
	r := scenario.NewReader(doc)
	root := r.Root("type", "width", "depth", "pulses")
	root.Field("model").WordOr(KindName, KindName)
	p := Params{
		Type:   root.Field("type").Word(LI, HI, HO, HOmod),
		Width:  root.Field("width").Int(scenario.Between(1, sizeMax)),
		Depth:  root.Field("depth").Int(scenario.Between(1, sizeMax)),
		Pulses: root.Field("pulses").IntOr(1, scenario.Between(1, pulsesMax)),
	}
	if err := r.Err(); err != nil {
		return Params{}, err
	}
	if atomic, links := p.size(); atomic > atomicMax || links > linksMax {
		root.Field("width").Refuse(fmt.Sprintf("%d × depth %d, which makes %.4g components with %.4g links", p.Width,
			p.Depth, atomic, links),
			fmt.Sprintf("at most %d components with %d links", atomicMax, linksMax), "make width or depth smaller")
	}
	if err := r.Err(); err != nil {
		return Params{}, err
	}
	if opt.Horizon > 0 && opt.Horizon < float64(p.Pulses) {
		p.Pulses = max(1, int(opt.Horizon))
	}
	p.Series = opt.Series
	return p, nil
}

// size is the number of components and of links, the generator's included.
func (p Params) size() (atomic, links float64) {
	w, d := float64(p.Width-1), float64(p.Depth-1)
	switch p.Type {
	case HOmod:
		triangle := w * (w + 1) / 2
		return d*(w+triangle) + 1, d*(w*w+triangle+3*w+1) + 1
	case LI:
		return d*w + 1, d*w + 1
	}
	return d*w + 1, 2*d*w + 1
}

// expected is the number of transitions that one pulse makes.
func (p Params) expected() uint64 {
	w, d := uint64(p.Width), uint64(p.Depth)
	switch p.Type {
	case LI:
		return 1 + (d-1)*(w-1)
	case HI, HO:
		return 1 + (d-1)*((w-1)*w/2)
	}
	// The first level's input gets one message; each level's first row gets w-1 steps
	// longer than the level's input is, and one step later, so that the next level's
	// input, which the pulse itself reaches as well, gets w times more.
	total, inputs := uint64(0), uint64(1)
	for range d - 1 {
		total += inputs*(w*(w-1)/2) + (w-1)*(inputs+w-1)
		if w > 1 {
			inputs += w
		}
	}
	return total + inputs
}
