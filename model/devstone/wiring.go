// SPDX-License-Identifier: Apache-2.0

package devstone

import (
	"fmt"

	"github.com/disco-sim/disco/node"
)

// wiring is the structure: node 0 is the generator; the others are components and, for
// HOmod, the inputs of the coupled models.
//
// An input is a node of its own where components hang on it: what reaches it is passed
// on at the same step, once. Without it every component of a first row would have a
// link to everything on all levels below.
type wiring struct {
	graph    *node.Graph
	out      [][]int   // by node: the nodes that its output reaches
	level    []int     // by node: 1 is the outermost; 0 the generator
	input    []bool    // by node: it is an input and no component
	received []float64 // by node: messages that it receives, roughly; for placement
	leaf     int
}

// level is one coupled model, from the outside in.
type level struct {
	input int     // HOmod: the node; else 0
	rows  [][]int // components; only HOmod has more than one row
}

func newWiring(p Params) *wiring {
	w := &wiring{graph: &node.Graph{Simprocs: []string{"atomic"}, Epochs: 1}}
	w.add("generator", 0, 1)
	levels := make([]level, p.Depth-1)
	received := 1.0
	for i := range levels {
		levels[i] = w.addLevel(p, i+1, received)
		received += float64(p.Width)
	}
	w.leaf = w.add("leaf", p.Depth, 1)
	for i := range levels {
		switch p.Type {
		case HOmod:
			w.wireTriangle(levels[i].rows)
		case HI, HO:
			w.wireChain(levels[i].rows[0])
		}
	}
	if p.Type == HOmod {
		w.wireNested(levels)
	} else {
		w.wireFlat(levels)
	}
	w.declare()
	return w
}

func (w *wiring) add(name string, level int, received float64) int {
	w.graph.Nodes = append(w.graph.Nodes, node.Node{Name: name})
	w.out = append(w.out, nil)
	w.level = append(w.level, level)
	w.input = append(w.input, false)
	w.received = append(w.received, received)
	return len(w.out) - 1
}

// addLevel adds the components of one coupled model: a row of width-1, and for HOmod
// under it a triangle of rows of width-1, width-2, … 1.
func (w *wiring) addLevel(p Params, number int, received float64) level {
	if p.Type != HOmod {
		l := level{rows: [][]int{w.addRow(number, 0, p.Width-1, 1)}}
		if p.Type != LI {
			for j, n := range l.rows[0] {
				w.received[n] = float64(j + 1)
			}
		}
		return l
	}
	l := level{input: w.add(fmt.Sprintf("level %d input", number), number, received*float64(p.Width))}
	w.input[l.input] = true
	l.rows = [][]int{w.addRow(number, 0, p.Width-1, received*float64(p.Width))}
	for n := p.Width - 1; n > 0; n-- {
		l.rows = append(l.rows, w.addRow(number, len(l.rows), n, received))
	}
	return l
}

func (w *wiring) addRow(level, row, n int, received float64) []int {
	members := make([]int, n)
	for j := range members {
		members[j] = w.add(fmt.Sprintf("level %d row %d no %d", level, row, j), level, received)
	}
	return members
}

// wireChain couples every component to the next.
func (w *wiring) wireChain(row []int) {
	for j := 1; j < len(row); j++ {
		w.out[row[j-1]] = append(w.out[row[j-1]], row[j])
	}
}

// wireTriangle couples every component of the second row to all of the first, and
// every other one to the one above its right neighbour.
func (w *wiring) wireTriangle(rows [][]int) {
	for i := 1; i < len(rows); i++ {
		for j, from := range rows[i] {
			if i == 1 {
				w.out[from] = append(w.out[from], rows[0]...)
			} else {
				w.out[from] = append(w.out[from], rows[i-1][j+1])
			}
		}
	}
}

// wireFlat couples the generator to every component: the outermost input reaches all
// of its level and the input of the level inside.
func (w *wiring) wireFlat(levels []level) {
	for i := range levels {
		w.out[0] = append(w.out[0], levels[i].rows[0]...)
	}
	w.out[0] = append(w.out[0], w.leaf)
}

// wireNested couples every input to the first row, to the head of every further row
// and to the input of the level inside, and every component of a first row to that
// input.
func (w *wiring) wireNested(levels []level) {
	inside := w.leaf
	for i := len(levels) - 1; i >= 0; i-- {
		l := &levels[i]
		to := append([]int(nil), l.rows[0]...)
		for _, r := range l.rows[1:] {
			to = append(to, r[0])
		}
		w.out[l.input] = append(to, inside)
		for _, from := range l.rows[0] {
			w.out[from] = append(w.out[from], inside)
		}
		inside = l.input
	}
	w.out[0] = []int{inside}
}

// declare makes the links, all of lookahead 0.
func (w *wiring) declare() {
	n := 0
	for from, out := range w.out {
		n += len(out)
		w.graph.Nodes[from].Work = w.received[from]
	}
	w.graph.Links = make([]node.Link, 0, n)
	for from, out := range w.out {
		for _, to := range out {
			w.graph.Links = append(w.graph.Links,
				node.Link{From: node.Endpoint{Node: from}, To: node.Endpoint{Node: to}, Rate: w.received[from]})
		}
	}
}
