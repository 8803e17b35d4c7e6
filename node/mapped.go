// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/disco-sim/disco/internal/aligned"
)

// The header of a placed graph in memory: docs/format/graph.md.
const (
	mappedMagic   = "discogrf"
	mappedVersion = 3
	mappedHeader  = 64
	flatBit       = 1 << 31 // of the layers: all simprocs are of level 0
	blocksBit     = 1 << 30 // … and workers have blocks of nodes
	mappedAlign   = 8       // columns begin at multiples of it
)

// columns visits the columns of a Placed in memory, one behind the other. What it does with each is up to mem:
// nil, only their bytes are counted; while writing, they are copied there; else they are found there.
type columns struct {
	mem   []byte
	at    int // where the next column begins
	write bool
}

// names of layers and their starts, which are columns too.
type layerNames struct {
	start []uint32
	text  []byte
}

// counts are how many elements the columns have.
type counts struct {
	nodes, layers, links, workers, meshes, crossing, layerBytes, nameBytes int
	// flat: all simprocs are of level 0. blocks: Placed.blocks.
	flat, blocks bool
}

// visit visits all columns in the order of docs/format/graph.md.
func (p *Placed) visit(c *columns, names *layerNames, n counts) {
	ids := n.nodes * n.layers
	if !n.blocks {
		column(c, &p.where, ids)
	}
	column(c, &p.lookahead, n.links)
	column(c, &p.meshes, n.meshes)
	column(c, &p.crossing, n.crossing)
	if !n.flat {
		column(c, &p.levels, ids)
	}
	if n.links > 0 {
		column(c, &p.linkStart, ids+1)
	}
	column(c, &p.linkTo, n.links)
	if !n.blocks {
		column(c, &p.place, n.nodes)
	}
	column(c, &p.hostStart, n.workers+1)
	if !n.blocks {
		column(c, &p.hosted, n.nodes)
	}
	column(c, &p.laneStart, n.workers*n.workers+1)
	column(c, &names.start, n.layers+1)
	column(c, &p.nameStart, n.nodes+1)
	column(c, &p.shared, n.nodes)
	column(c, &names.text, n.layerBytes)
	column(c, &p.names, n.nameBytes)
}

// layout is the counts of p, and the names of its layers as columns.
func (p *Placed) layout() (counts, *layerNames) {
	names := &layerNames{start: make([]uint32, 1, len(p.layers)+1)}
	for _, name := range p.layers {
		names.text = append(names.text, name...)
		names.start = append(names.start, uint32(len(names.text)))
	}
	return counts{p.nodes, len(p.layers), len(p.linkTo), p.workers, len(p.meshes), len(p.crossing), len(names.text),
		len(p.names), p.levels == nil, p.blocks}, names
}

// Size is how many bytes Write needs.
func (p *Placed) Size() int {
	n, names := p.layout()
	c := columns{at: mappedHeader}
	p.visit(&c, names, n)
	return c.at
}

// Write puts p into the first Size bytes of mem, for OpenPlaced: in another process, which maps the same memory. mem
// begins at a multiple of 8 bytes.
func (p *Placed) Write(mem []byte) error {
	size := p.Size()
	if len(mem) < size || !aligned.Is(mem, mappedAlign) {
		return fmt.Errorf("node: a placed graph of %d bytes, and %d bytes of memory for it, which must begin at a "+
			"multiple of %d", size, len(mem), mappedAlign)
	}
	n, names := p.layout()
	copy(mem, mappedMagic)
	layers := n.layers
	if n.flat {
		layers |= flatBit
	}
	if n.blocks {
		layers |= blocksBit
	}
	for i, v := range []int{mappedVersion, layers, n.nodes, n.links, n.workers, n.meshes, n.crossing, n.layerBytes} {
		binary.NativeEndian.PutUint32(mem[8+4*i:], uint32(v))
	}
	binary.NativeEndian.PutUint64(mem[40:], uint64(n.nameBytes))
	binary.NativeEndian.PutUint64(mem[48:], math.Float64bits(p.least))
	binary.NativeEndian.PutUint64(mem[56:], uint64(size))
	p.visit(&columns{mem: mem[:size], at: mappedHeader, write: true}, names, n)
	return nil
}

// OpenPlaced is what Write has put into mem, used where it is: mem must stay as it is and mapped for as long as the
// result or anything made from it is in use. It may be longer than what was written: Size says how long that is. It
// knows neither expected work nor rates. An error says what of it can't have been written.
func OpenPlaced(mem []byte) (*Placed, error) {
	p := &Placed{Structure: &Structure{}, mapped: true}
	n, err := p.readHeader(mem)
	if err != nil {
		return nil, fmt.Errorf("node: placed graph: %w", err)
	}
	var names layerNames
	p.visit(&columns{mem: mem, at: mappedHeader}, &names, n)
	if err := p.checkColumns(&names); err != nil {
		return nil, fmt.Errorf("node: placed graph: %w", err)
	}
	return p, nil
}

// readHeader checks the header, against the length of the memory in the end.
func (p *Placed) readHeader(mem []byte) (n counts, err error) {
	if len(mem) < mappedHeader || !aligned.Is(mem, mappedAlign) || string(mem[:8]) != mappedMagic {
		return n, fmt.Errorf("found no header of %d bytes with %q at a multiple of %d", mappedHeader, mappedMagic,
			mappedAlign)
	}
	word := func(at int) int { return int(binary.NativeEndian.Uint32(mem[at:])) }
	if v := word(8); v != mappedVersion {
		return n, fmt.Errorf("version %d, want %d", v, mappedVersion)
	}
	nameBytes := binary.NativeEndian.Uint64(mem[40:])
	n = counts{layers: word(12) &^ (flatBit | blocksBit), flat: word(12)&flatBit != 0,
		blocks: word(12)&blocksBit != 0, nodes: word(16), links: word(20),
		workers: word(24), meshes: word(28), crossing: word(32), layerBytes: word(36),
		nameBytes: int(min(nameBytes, namesMax))}
	if n.layers < 1 || n.layers > SimprocsMax || n.nodes < 1 || n.nodes > IDsMax || n.nodes*n.layers > IDsMax ||
		n.links > IDsMax || n.workers < 1 || n.workers > mappedWorkersMax || n.crossing > n.links ||
		nameBytes > namesMax {
		return n, fmt.Errorf("%d layers, %d nodes, %d links, %d workers, %d links between them, %d bytes of names: "+
			"want at most %d layers, %d simprocs, as many links and %d workers", n.layers, n.nodes, n.links, n.workers,
			n.crossing, nameBytes, SimprocsMax, IDsMax, mappedWorkersMax)
	}
	if n.blocks && (!n.flat || n.layers != 1) {
		return n, fmt.Errorf("blocks of nodes with %d layers, flat %v: want one layer and flat", n.layers, n.flat)
	}
	c := columns{at: mappedHeader}
	p.visit(&c, &layerNames{}, n)
	if total := binary.NativeEndian.Uint64(mem[56:]); total != uint64(c.at) || c.at > len(mem) {
		return n, fmt.Errorf("%d bytes in memory of %d, want %d by its counts", total, len(mem), c.at)
	}
	p.nodes, p.workers, p.blocks = n.nodes, n.workers, n.blocks
	if p.least = math.Float64frombits(binary.NativeEndian.Uint64(mem[48:])); !(p.least > 0) {
		return n, fmt.Errorf("least lookahead %v, want one above 0", p.least)
	}
	return n, nil
}

// mappedWorkersMax keeps the table of lanes small enough to be counted.
const mappedWorkersMax = 1 << 16

// checkColumns checks all that a node's number leads to.
func (p *Placed) checkColumns(names *layerNames) error {
	for _, column := range []struct {
		name  string
		start []uint32
		end   int
	}{
		{"layer names", names.start, len(names.text)},
		{"node names", p.nameStart, len(p.names)},
		{"hosted nodes", p.hostStart, p.nodes},
		{"lanes", p.laneStart, len(p.crossing)},
	} {
		if !rises(column.start, column.end) {
			return fmt.Errorf("starts of %s don't rise from 0 to %d", column.name, column.end)
		}
	}
	for i := range len(names.start) - 1 {
		p.layers = append(p.layers, string(names.text[names.start[i]:names.start[i+1]]))
	}
	for i, m := range p.meshes {
		if m.From < 0 || m.From >= len(p.layers) || m.To < 0 || m.To >= len(p.layers) || !isLookahead(m.Lookahead) ||
			m.Lookahead == 0 {
			return fmt.Errorf("mesh %d is %+v, want ranks below %d and a lookahead above 0", i, m, len(p.layers))
		}
	}
	if p.blocks {
		p.block()
		return nil
	}
	return p.checkHosts()
}

// checkHosts checks that each node is hosted where its simprocs are.
func (p *Placed) checkHosts() error {
	layers := len(p.layers)
	for n := range p.nodes {
		w, place := p.at(SimprocID(n*layers))>>32, p.placeAt(n)
		if w >= uint64(p.workers) {
			return fmt.Errorf("node %d is on worker %d, want 0 to %d", n, w, p.workers-1)
		}
		count := p.numOn(int(w))
		if place >= uint32(count) || p.nodeOn(int(w), place) != uint32(n) {
			return fmt.Errorf("node %d isn't in place %d of worker %d", n, place, w)
		}
		for id := n * layers; id < (n+1)*layers; id++ {
			if at := p.at(SimprocID(id)); at>>32 != w || uint64(uint32(at)) >= uint64(count*layers) ||
				p.levels != nil && uint64(p.levels[id]) >= uint64(len(p.levels)) {
				return fmt.Errorf("simproc %d of worker %d has index %d on worker %d, and level %d", id, w, uint32(at),
					at>>32, p.Level(SimprocID(id)))
			}
		}
	}
	return nil
}

// checkPart checks the links that the plan of a worker uses, and that its simprocs have different indices.
func (p *Placed) checkPart(self, count int, hostedAt func(place int) SimprocID) error {
	seen := make([]bool, count)
	for k := range count {
		id := hostedAt(k)
		if i := uint32(p.at(id)); seen[i] {
			return fmt.Errorf("node: placed graph: index %d of worker %d twice", i, self)
		} else {
			seen[i] = true
		}
		if p.linkStart == nil {
			continue
		}
		first, end := p.LinksOf(id)
		if first > end || end > len(p.linkTo) {
			return fmt.Errorf("node: placed graph: links %d to %d of simproc %d, there are %d", first, end, id,
				len(p.linkTo))
		}
		for k := first; k < end; k++ {
			if err := p.checkMappedLink(id, k); err != nil {
				return err
			}
		}
	}
	for peer := range p.workers {
		for _, ends := range [2][2]int{{self, peer}, {peer, self}} {
			for _, l := range p.lane(ends[0], ends[1]) {
				if err := p.checkCrossing(l, ends[0], ends[1]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (p *Placed) checkMappedLink(from SimprocID, k int) error {
	if int(p.linkTo[k]) >= p.NumSimprocs() || !isLookahead(p.lookahead[k]) {
		return fmt.Errorf("node: placed graph: link %d from simproc %d leads to %d of %d, with lookahead %v", k, from,
			p.linkTo[k], p.NumSimprocs(), p.lookahead[k])
	}
	return nil
}

func (p *Placed) checkCrossing(l crossLink, from, to int) error {
	if int(l.link) >= len(p.linkTo) || int(l.from) >= p.NumSimprocs() {
		return fmt.Errorf("node: placed graph: link %d of simproc %d in the lane from worker %d to %d, there are %d "+
			"links and %d simprocs", l.link, l.from, from, to, len(p.linkTo), p.NumSimprocs())
	}
	if err := p.checkMappedLink(SimprocID(l.from), int(l.link)); err != nil {
		return err
	}
	if p.workerOf(SimprocID(l.from)) != from || p.workerOf(SimprocID(p.linkTo[l.link])) != to {
		return fmt.Errorf("node: placed graph: link %d isn't one from worker %d to %d", l.link, from, to)
	}
	return nil
}

// isLookahead tells whether a link may have this lookahead.
func isLookahead(l float64) bool { return l >= 0 && l <= math.MaxFloat64 }

// rises tells whether starts go from 0 to end and never back.
func rises(start []uint32, end int) bool {
	if start[0] != 0 || int(start[len(start)-1]) != end {
		return false
	}
	for i := 1; i < len(start); i++ {
		if start[i-1] > start[i] {
			return false
		}
	}
	return true
}
