// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"context"
	"fmt"

	"github.com/disco-sim/disco/graph"
)

// SQLite would sort the index by target, which takes four times as long as all the rest of a store. A graph has its
// edges in that order already, and so they are put into a table that is laid out as the index is, and in the end it
// becomes the index: beside.go. "Database File Format" of SQLite's manual, sections 2.4 and 2.5, has both: the key of a
// table WITHOUT ROWID begins with its primary key, and an entry of an index of such a table is what is indexed and then
// the rest of the table's primary key. Here both are scenario, layer, target and source.
const (
	targetIndex = "CREATE INDEX graph_edges_target ON graph_edges (scenario_id, layer_id, target_idx)"
	sortedTable = "CREATE TABLE graph_edges_sorted (scenario_id INTEGER NOT NULL, layer_id INTEGER NOT NULL, " +
		"target_idx INTEGER NOT NULL, source_idx INTEGER NOT NULL, " +
		"PRIMARY KEY (scenario_id, layer_id, target_idx, source_idx)) WITHOUT ROWID"
	nameIndex = "CREATE UNIQUE INDEX graph_edges_name ON graph_edges (scenario_id, layer_id, name) " +
		"WHERE name IS NOT NULL"
)

// othersMax is how many times as many edges of other scenarios there may be: they are copied from the old index, each
// in a tenth of the time that an edge takes that is put into it in any order.
const othersMax = 10

func (l *lite) withoutIndexes(ctx context.Context, scenario int64, g *graph.Graph, named bool) (anew func() error,
	err error) {
	edges := g.Edges()
	err = l.query(ctx, "SELECT count(*) FROM graph.edges WHERE scenario_id = $1", []any{scenario}, func(r Row) error {
		edges += int(r.Int(0))
		return nil
	})
	if err != nil || edges < manyEdges {
		return nothing, err
	}
	if more, err := others(ctx, l, scenario, othersMax*edges); err != nil || more {
		return nothing, err
	}
	if named {
		more, err := others(ctx, l, scenario, edges)
		if err != nil {
			return nothing, err
		}
		named = !more
	}
	if err := l.sort(ctx, scenario, g); err != nil {
		return nothing, err
	}
	drop := []string{"DROP INDEX graph_edges_target"}
	if named {
		drop = append(drop, "DROP INDEX graph_edges_name")
	}
	for _, sql := range drop {
		if _, err := l.exec(ctx, sql); err != nil {
			return nothing, err
		}
	}
	return func() error {
		if named {
			if _, err := l.exec(ctx, nameIndex); err != nil {
				return err
			}
		}
		if err := l.takeBeside(ctx); err != nil {
			return err
		}
		return l.becomeIndex(ctx)
	}, nil
}

// sort makes the table that becomes the index, with the edges of other scenarios, and has those of this one sorted
// beside.
func (l *lite) sort(ctx context.Context, scenario int64, g *graph.Graph) error {
	if _, err := l.exec(ctx, sortedTable); err != nil {
		return err
	}
	const others = "INSERT INTO graph_edges_sorted SELECT scenario_id, layer_id, target_idx, source_idx " +
		"FROM graph_edges INDEXED BY graph_edges_target WHERE scenario_id %s $1 ORDER BY 1, 2, 3, 4"
	for _, side := range []string{"<", ">"} {
		if _, err := l.exec(ctx, fmt.Sprintf(others, side), scenario); err != nil {
			return err
		}
	}
	return l.startBeside(ctx, scenario, g)
}

// becomeIndex changes the schema's text, and has SQLite read it again. Others do so when this is committed: its number
// has changed with the table.
func (l *lite) becomeIndex(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx) // or the schema would stay writable
	if _, err := l.exec(ctx, "PRAGMA writable_schema = ON"); err != nil {
		return err
	}
	n, err := l.exec(ctx, "UPDATE sqlite_schema SET type = 'index', name = 'graph_edges_target', "+
		"tbl_name = 'graph_edges', sql = $1 WHERE name = 'graph_edges_sorted'", targetIndex)
	if err == nil && n != 1 {
		err = fmt.Errorf("found %d tables graph_edges_sorted, want one", n)
	}
	if _, reset := l.exec(ctx, "PRAGMA writable_schema = RESET"); err == nil {
		err = reset
	}
	return err
}

// deleteEdges drops all pages at once, and not row by row, where there are no others; this transaction is the only one
// that writes, so that none come in between.
func (l *lite) deleteEdges(ctx context.Context, scenario int64) error {
	more, err := others(ctx, l, scenario, 0)
	if err != nil {
		return err
	}
	if more {
		_, err = l.exec(ctx, "DELETE FROM graph.edges WHERE scenario_id = $1", scenario)
	} else {
		_, err = l.exec(ctx, "DELETE FROM graph.edges")
	}
	return err
}

// analyze has SQLite look at all rows of all tables, but for the edges of a large graph, if there are no others: what
// it would find is known.
func (l *lite) analyze(ctx context.Context, scenario int64, g *graph.Graph) error {
	list := []string{"vertices", "labels", "vertex_labels"}
	known := g != nil && g.Edges() >= manyEdges
	if known {
		more, err := others(ctx, l, scenario, 0)
		if err != nil {
			return err
		}
		known = !more
	}
	if !known {
		list = append(list, "edges")
	}
	for _, table := range list {
		if _, err := l.exec(ctx, "ANALYZE graph."+table); err != nil {
			return err
		}
	}
	if known {
		return l.known(ctx, g)
	}
	return nil
}

// known writes the statistics of edges that are those of g, without names, as ANALYZE does ("ANALYZE" of SQLite's
// manual and "Database File Format", section 2.6.3): how many rows there are, and how many have the same first column,
// first two columns and so on, on average, rounded up. Samples of columns, of sqlite_stat4, there are none.
func (l *lite) known(ctx context.Context, g *graph.Graph) error {
	rows, layers, sources, targets := g.Edges(), 0, 0, 0
	for _, id := range g.Layers() {
		layer := g.Layer(id)
		layers += min(layer.Edges(), 1)
		for v := range g.Vertices() {
			sources += min(layer.Out(v).Len(), 1)
			targets += min(layer.In(v).Len(), 1)
		}
	}
	each := func(distinct int) int {
		n := (rows + distinct - 1) / distinct
		if n == 2 && rows*10 <= distinct*11 {
			return 1
		}
		return n
	}
	for _, s := range []struct {
		sql    string
		params []any
	}{
		{"DELETE FROM sqlite_stat4 WHERE tbl = 'graph_edges'", nil},
		{"DELETE FROM sqlite_stat1 WHERE tbl = 'graph_edges'", nil},
		{"INSERT INTO sqlite_stat1 VALUES ('graph_edges', 'graph_edges', $1), " +
			"('graph_edges', 'graph_edges_target', $2), " +
			"('graph_edges', 'graph_edges_name', '0 0 0 0')",
			[]any{fmt.Sprint(rows, rows, each(layers), each(sources), 1),
				fmt.Sprint(rows, rows, each(layers), each(targets))}},
		{"ANALYZE sqlite_schema", nil}, // reads what was written
	} {
		if _, err := l.exec(ctx, s.sql, s.params...); err != nil {
			return err
		}
	}
	return nil
}
