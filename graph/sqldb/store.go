// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/disco-sim/disco/graph"
)

// Vertex is what the database has of a vertex beside its number.
type Vertex struct {
	Entity string // what it is in another system, "": nothing
	Name   string
}

// Content is what a graph in memory doesn't have.
type Content struct {
	Vertices []Vertex // nil: those that there are stay, as many as the graph has; without any they are named by number

	// EdgeName is the name of an edge, by layer and number (graph.Layer.FirstOut), one of its own in its layer; nil,
	// or "": none, which is read as SOURCE>TARGET.
	EdgeName func(layer, edge int) string
}

// Store replaces vertices (where they are given), edges and labels of a scenario by those of g, and keeps statistics
// of the tables. It is one transaction: with an error nothing has changed.
func (db *DB) Store(ctx context.Context, scenario int64, g *graph.Graph, c Content) error {
	what := fmt.Sprint(scenario)
	err := within(ctx, db.engine, true, func() error {
		s, err := db.lock(ctx, scenario)
		if err != nil {
			return err
		}
		what = strconv.Quote(s.Name)
		return db.store(ctx, scenario, g, c)
	})
	if err != nil && !errors.As(err, new(*NotFoundError)) { // of one that there isn't nothing is as before
		err = fmt.Errorf("storing scenario %s, which is as it was before: %w", what, err)
	}
	return db.wrap(err)
}

// store is Store within a transaction that holds the scenario.
func (db *DB) store(ctx context.Context, scenario int64, g *graph.Graph, c Content) error {
	if err := db.storeVertices(ctx, scenario, g, c.Vertices); err != nil {
		return err
	}
	if err := db.storeEdges(ctx, scenario, g, c.EdgeName); err != nil {
		return err
	}
	if err := db.storeLabels(ctx, scenario, g); err != nil {
		return err
	}
	if c.EdgeName != nil {
		return db.analyze(ctx, scenario, nil)
	}
	return db.analyze(ctx, scenario, g)
}

func (db *DB) storeVertices(ctx context.Context, scenario int64, g *graph.Graph, vertices []Vertex) error {
	n := g.Vertices()
	if vertices == nil {
		have, err := countVertices(ctx, db.engine, scenario)
		if err != nil || have == n {
			return err
		}
		if have > 0 {
			return fmt.Errorf("found %d vertices in the database and %d in the graph, want as many, or vertices that "+
				"come along", have, n)
		}
		vertices = make([]Vertex, n)
		for v := range vertices {
			vertices[v].Name = strconv.Itoa(v)
		}
	}
	if len(vertices) != n {
		return fmt.Errorf("found names of %d vertices, want %d", len(vertices), n)
	}
	if _, err := db.exec(ctx, "DELETE FROM graph.vertices WHERE scenario_id = $1", scenario); err != nil {
		return err
	}
	return db.bulk(ctx, "graph.vertices", []column{
		{name: "scenario_id", same: scenario},
		{name: "vertex_index", ints: func(v int) int64 { return int64(v) }},
		{name: "entity_id", text: func(v int) (string, bool) { return vertices[v].Entity, vertices[v].Entity != "" }},
		{name: "name", text: func(v int) (string, bool) { return vertices[v].Name, true }},
	}, n)
}

// countVertices is how many vertices a scenario has; their indices must be 0 and the following ones.
func countVertices(ctx context.Context, from engine, scenario int64) (n int, err error) {
	err = from.query(ctx, "SELECT count(*), coalesce(min(vertex_index), 0), coalesce(max(vertex_index), -1) "+
		"FROM graph.vertices WHERE scenario_id = $1", []any{scenario}, func(r Row) error {
		if err := checkKinds("vertices", r, sizeColumns); err != nil {
			return err
		}
		count, least, most := r.Int(0), r.Int(1), r.Int(2)
		if least != 0 || most != count-1 || count > graph.VerticesMax {
			return fmt.Errorf("found %d vertices with indices from %d to %d, want 0 to one less than there are, and "+
				"at most %d", count, least, most, graph.VerticesMax)
		}
		n = int(count)
		return nil
	})
	return n, err
}

// lastVertex is countVertices for what reads few edges: it doesn't count, which takes as long as there are vertices,
// and so doesn't see gaps.
func (db *DB) lastVertex(ctx context.Context, scenario int64) (n int, err error) {
	err = db.query(ctx, "SELECT coalesce(max(vertex_index), -1) FROM graph.vertices WHERE scenario_id = $1",
		[]any{scenario}, func(r Row) error {
			if err := checkKinds("vertices", r, sizeColumns[2:]); err != nil {
				return err
			}
			most := r.Int(0)
			if most >= graph.VerticesMax {
				return fmt.Errorf("found a vertex with the index %d, want one below %d", most, graph.VerticesMax)
			}
			n = int(most + 1)
			return nil
		})
	return n, err
}

func (db *DB) storeEdges(ctx context.Context, scenario int64, g *graph.Graph,
	name func(layer, edge int) string) error {
	anew, err := db.withoutIndexes(ctx, scenario, g, name != nil)
	if err != nil {
		return err
	}
	if err := db.deleteEdges(ctx, scenario); err != nil { // which takes a third as long without the indexes
		return err
	}
	for _, id := range g.Layers() {
		if id < math.MinInt32 || id > math.MaxInt32 {
			return fmt.Errorf("found layer %d, want one from %d to %d", id, math.MinInt32, math.MaxInt32)
		}
		e := g.Layer(id).Columns()
		names := column{name: "name"}
		if name != nil {
			names.text = func(i int) (string, bool) {
				s := name(id, i)
				return s, s != ""
			}
		}
		err := db.bulk(ctx, "graph.edges", []column{
			{name: "scenario_id", same: scenario},
			{name: "layer_id", same: int64(id), narrow: true},
			{name: "source_idx", ints: func(i int) int64 { return int64(e.Source[i]) }},
			{name: "target_idx", ints: func(i int) int64 { return int64(e.Target[i]) }},
			{name: "weight", floats: func(i int) float64 { return e.Weight[i] }},
			names,
		}, len(e.Source))
		if err != nil {
			return fmt.Errorf("layer %d: %w", id, err)
		}
	}
	return anew()
}

// manyEdges are so many that indexes are made anew behind them: sorting is several times as fast as putting edges into
// an index one by one, in any order.
const manyEdges = 100_000

// others reports whether scenarios other than one have more than n edges. Cost: n.
func others(ctx context.Context, e engine, scenario int64, n int) (more bool, err error) {
	err = e.query(ctx, "SELECT 1 FROM (SELECT 1 FROM graph.edges WHERE scenario_id < $1 UNION ALL "+
		"SELECT 1 FROM graph.edges WHERE scenario_id > $1) AS others LIMIT 1 OFFSET $2", []any{scenario, int64(n)},
		func(Row) error {
			more = true
			return nil
		})
	return more, err
}

// nothing is what there is to be done where no index has been taken away.
func nothing() error { return nil }

// storeLabels has labels numbered in the database in the order of the graph.
func (db *DB) storeLabels(ctx context.Context, scenario int64, g *graph.Graph) error {
	for _, table := range []string{"vertex_labels", "labels"} {
		if _, err := db.exec(ctx, "DELETE FROM graph."+table+" WHERE scenario_id = $1", scenario); err != nil {
			return err
		}
	}
	list := g.Labels()
	err := db.bulk(ctx, "graph.labels", []column{
		{name: "scenario_id", same: scenario},
		{name: "type", text: func(i int) (string, bool) { return list[i].Type, true }},
		{name: "value", text: func(i int) (string, bool) { return list[i].Value, true }},
	}, len(list))
	if err != nil {
		return fmt.Errorf("labels: %w", err)
	}
	ids, _, err := db.labelIDs(ctx, scenario)
	if err != nil {
		return err
	}
	var vertex, label []uint32
	for v := range g.Vertices() {
		for _, a := range g.LabelsOf(v) {
			vertex, label = append(vertex, uint32(v)), append(label, a)
		}
	}
	err = db.bulk(ctx, "graph.vertex_labels", []column{
		{name: "scenario_id", same: scenario},
		{name: "vertex_index", ints: func(i int) int64 { return int64(vertex[i]) }},
		{name: "label_id", ints: func(i int) int64 { return ids[label[i]] }},
	}, len(vertex))
	if err != nil {
		return fmt.Errorf("labels of vertices: %w", err)
	}
	return nil
}

// labelIDs lists the labels of a scenario, with their ids, which rise.
func (db *DB) labelIDs(ctx context.Context, scenario int64) (ids []int64, list []graph.Label, err error) {
	err = db.query(ctx, "SELECT id, type, value FROM graph.labels WHERE scenario_id = $1 ORDER BY id", []any{scenario},
		func(r Row) error {
			ids, list = append(ids, r.Int(0)), append(list, graph.Label{Type: r.Text(1), Value: r.Text(2)})
			return nil
		})
	return ids, list, err
}
