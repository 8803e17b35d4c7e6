// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"

	"github.com/disco-sim/disco/graph"
	"github.com/disco-sim/disco/graph/sqldb"
)

// world is the graph that all rows have, as columns and made.
type world struct {
	options
	layers   map[int]graph.Edges // sorted
	g        *graph.Graph
	names    []sqldb.Vertex
	edges    int // as many as there are
	masks    map[string]*graph.Mask
	seed     *rand.Rand
	temp     string
	shuffled map[int]graph.Edges
}

// layerCount is how many layers there are.
const layerCount = 3

// newWorld draws a graph: the ends of edges are any, and weights need all of a float64's bits.
func newWorld(o options) (*world, error) {
	w := &world{options: o, layers: map[int]graph.Edges{}, shuffled: map[int]graph.Edges{},
		masks: map[string]*graph.Mask{}, seed: rand.New(rand.NewPCG(1, 2))}
	w.edges = 0
	for id := range layerCount {
		keys := make([]uint64, o.edges/layerCount)
		for i := range keys {
			keys[i] = uint64(w.seed.IntN(o.vertices))<<32 | uint64(w.seed.IntN(o.vertices))
		}
		slices.Sort(keys)
		keys = slices.Compact(keys)
		w.layers[id] = w.columns(keys)
		w.seed.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		w.shuffled[id] = w.columns(keys)
		w.edges += len(keys)
	}
	w.names = make([]sqldb.Vertex, o.vertices)
	for v := range w.names {
		w.names[v].Name = strconv.Itoa(v)
	}
	for percent, name := range map[int]string{1: "1", 10: "10"} {
		m := graph.NewMask(o.vertices)
		for v := 0; v < o.vertices; v += 100 / percent {
			m.Set(v)
		}
		w.masks[name] = m
	}
	var err error
	if w.g, err = graph.New(o.vertices, w.layers); err != nil {
		return nil, err
	}
	w.temp, err = os.MkdirTemp(o.dir, "disco-perf-graph-")
	return w, err
}

func (w *world) close() { _ = os.RemoveAll(w.temp) } // nobody else has it

// columns are edges of these keys; the weight of one follows from its ends.
func (w *world) columns(keys []uint64) graph.Edges {
	e := graph.Edges{Source: make([]uint32, len(keys)), Target: make([]uint32, len(keys)),
		Weight: make([]float64, len(keys))}
	for i, k := range keys {
		e.Source[i], e.Target[i], e.Weight[i] = uint32(k>>32), uint32(k), float64(k)*1.000000001e-9
	}
	return e
}

// counted holds that a side has seen as many edges as there are: less would be no measurement.
func counted(n, want int) error {
	if n != want {
		return fmt.Errorf("found %d edges, want %d", n, want)
	}
	return nil
}
