// SPDX-License-Identifier: Apache-2.0

package network

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/disco-sim/disco/internal/gml"
)

// Limits of a network. A router keeps a route to every other, so memory grows with the
// square of their number.
const (
	nodesMax  = 5_000
	cablesMax = 50_000
)

// Topology is a network of places and cables. It isn't changed after it was made.
type Topology struct {
	Nodes    []Place
	Cables   []Cable
	Channels []Channel
	Out, In  [][]int32 // channels by node: that leave it, that come to it; rising
}

// Place is one node of the network.
type Place struct {
	Name                string // unique, a good name of a simulated node
	Label               string // the file's, "" where it has none
	ID                  int64  // the file's
	Placed              bool   // it has a place: the file's, or its neighbours' mean
	Guessed             bool   // the place is its neighbours' mean
	Latitude, Longitude float64
	Junction            bool // the file says hyperedge 1: no traffic begins or ends here
	Line                int  // in the GML file

	numbers map[string]float64 // other numeric attributes
}

// number is a numeric attribute that the file gives the node.
func (p *Place) number(key string) (float64, bool) {
	x, ok := p.numbers[key]
	return x, ok
}

// Cable is one edge of the file. Several may join the same two nodes.
type Cable struct {
	A, B     int     // nodes, different
	Name     string  // "Paris - Lyon", with " (2)" for the second of parallel ones
	Parallel int     // 1, 2, … among the cables of A and B
	Rate     float64 // bits per second, > 0
	Metres   float64 // great-circle distance of its ends
	Delay    float64 // seconds of propagation, a multiple of tick, at least delayMin
}

// Channel is one direction of a cable.
type Channel struct {
	From, To int
	Cable    int
	Input    int // index in In[To]
}

// newTopology lays out a file's graph. defaultRate is for cables without a speed.
// Loops are left out; their names are returned.
func newTopology(g *gml.Graph, defaultRate float64) (t *Topology, loops []string, err error) {
	if len(g.Nodes) > nodesMax || len(g.Edges) > cablesMax {
		return nil, nil, fmt.Errorf("%d nodes and %d edges, at most %d and %d are allowed", len(g.Nodes), len(g.Edges),
			nodesMax, cablesMax)
	}
	t = &Topology{Nodes: make([]Place, len(g.Nodes)), Out: make([][]int32, len(g.Nodes)),
		In: make([][]int32, len(g.Nodes))}
	t.nameNodes(g)
	for i := range g.Nodes {
		n, p := &g.Nodes[i], &t.Nodes[i]
		p.Placed, p.Latitude, p.Longitude, p.Line = n.Placed, n.Latitude, n.Longitude, n.Line
		for k := range n.Attributes {
			if x, ok := n.Attributes[k].Value.Number(); ok {
				if p.numbers == nil {
					p.numbers = make(map[string]float64)
				}
				p.numbers[n.Attributes[k].Key] = x
			}
		}
		p.Junction = p.numbers["hyperedge"] == 1
	}
	t.guessPlaces(g)
	parallel := make(map[[2]int]int)
	for i := range g.Edges {
		e := &g.Edges[i]
		if e.Source == e.Target {
			loops = append(loops, t.Nodes[e.Source].Name)
			continue
		}
		pair := [2]int{min(e.Source, e.Target), max(e.Source, e.Target)}
		parallel[pair]++
		t.addCable(e, parallel[pair], defaultRate, g.Directed)
	}
	return t, loops, nil
}

func (t *Topology) addCable(e *gml.Edge, parallel int, defaultRate float64, directed bool) {
	a, b := &t.Nodes[e.Source], &t.Nodes[e.Target]
	c := Cable{A: e.Source, B: e.Target, Name: a.Name + " - " + b.Name, Parallel: parallel,
		Rate: cmp.Or(e.Rate, defaultRate)}
	if parallel > 1 {
		c.Name += fmt.Sprintf(" (%d)", parallel)
	}
	if a.Placed && b.Placed {
		c.Metres = distance(a, b)
	}
	c.Delay = propagation(c.Metres)
	t.Cables = append(t.Cables, c)
	t.addChannel(e.Source, e.Target)
	if !directed {
		t.addChannel(e.Target, e.Source)
	}
}

// addChannel adds a direction of the last cable.
func (t *Topology) addChannel(from, to int) {
	t.Channels = append(t.Channels, Channel{From: from, To: to, Cable: len(t.Cables) - 1})
	t.attach(len(t.Channels) - 1)
}

// attach adds a channel to those of the nodes that it joins.
func (t *Topology) attach(channel int) {
	c := &t.Channels[channel]
	c.Input = len(t.In[c.To])
	t.Out[c.From] = append(t.Out[c.From], int32(channel))
	t.In[c.To] = append(t.In[c.To], int32(channel))
}

// nameNodes gives every node a name: its label, or where several have it, or it can't
// be a name, its label and its id.
func (t *Topology) nameNodes(g *gml.Graph) {
	count := make(map[string]int)
	for i := range g.Nodes {
		t.Nodes[i] = Place{ID: g.Nodes[i].ID, Label: g.Nodes[i].Label, Name: cleanName(g.Nodes[i].Label)}
		count[t.Nodes[i].Name]++
	}
	taken := make(map[string]bool)
	for i := range t.Nodes {
		p := &t.Nodes[i]
		if count[p.Name] > 1 || p.Name == "" || p.Name == "self" {
			p.Name = strings.TrimSpace(fmt.Sprintf("%s #%d", p.Name, p.ID))
		}
		for taken[p.Name] { // a label that looks like a name of ours
			p.Name += "'"
		}
		taken[p.Name] = true
	}
}

// nameRunesMax bounds the names in tables and messages.
const nameRunesMax = 100

// cleanName makes a label fit for a node's name: no '/', one line, printable.
func cleanName(label string) string {
	var b strings.Builder
	runes := 0
	for _, c := range label {
		switch {
		case c == '/':
			c = '-'
		case unicode.IsSpace(c):
			c = ' '
		case !unicode.IsPrint(c):
			c = '?'
		}
		if runes++; runes > nameRunesMax {
			break
		}
		b.WriteRune(c)
	}
	return strings.TrimSpace(b.String())
}

// guessPlaces gives every node without a place the mean of its neighbours'. A node
// whose neighbours have none either waits until they have got one; a part of the
// network without any place stays without.
func (t *Topology) guessPlaces(g *gml.Graph) {
	neighbours := make([][]int, len(t.Nodes))
	for _, e := range g.Edges {
		neighbours[e.Source] = append(neighbours[e.Source], e.Target)
		neighbours[e.Target] = append(neighbours[e.Target], e.Source)
	}
	for {
		var found []int
		var places []Place
		for i := range t.Nodes {
			if t.Nodes[i].Placed {
				continue
			}
			slices.Sort(neighbours[i])
			var known []*Place
			for _, n := range slices.Compact(neighbours[i]) {
				if t.Nodes[n].Placed {
					known = append(known, &t.Nodes[n])
				}
			}
			if len(known) > 0 {
				p := t.Nodes[i]
				p.Latitude, p.Longitude = centre(known)
				p.Placed, p.Guessed = true, true
				found, places = append(found, i), append(places, p)
			}
		}
		if len(found) == 0 {
			return
		}
		for k, i := range found {
			t.Nodes[i] = places[k]
		}
	}
}

// between lists the cables of two nodes, in the order of the file.
func (t *Topology) between(a, b int) []int {
	var cables []int
	for i := range t.Cables {
		if c := &t.Cables[i]; c.A == a && c.B == b || c.A == b && c.B == a {
			cables = append(cables, i)
		}
	}
	return cables
}

// at lists the cables of a node.
func (t *Topology) at(n int) []int {
	var cables []int
	for i := range t.Cables {
		if t.Cables[i].A == n || t.Cables[i].B == n {
			cables = append(cables, i)
		}
	}
	return cables
}
