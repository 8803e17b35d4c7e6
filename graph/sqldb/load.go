// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/graph"
)

// Load is the graph of a scenario: all layers that have edges, and all labels. A row that no graph may have is an
// error that names it. It takes twice the memory of the graph while it is made.
func (db *DB) Load(ctx context.Context, scenario int64) (g *graph.Graph, err error) {
	what := fmt.Sprint(scenario)
	err = db.read(ctx, func() error {
		s, err := db.byID(ctx, scenario)
		if err != nil {
			return err
		}
		what = strconv.Quote(s.Name)
		n, layers, err := db.edges(ctx, scenario)
		if err != nil {
			return err
		}
		if g, err = graph.New(n, layers); err != nil {
			return err
		}
		g, err = db.labelled(ctx, scenario, g)
		return err
	})
	if err != nil {
		return nil, db.wrap(fmt.Errorf("loading scenario %s: %w", what, err))
	}
	return g, nil
}

// LoadLabels is the graph of a scenario without its layers: vertices and labels. Cost: those.
func (db *DB) LoadLabels(ctx context.Context, scenario int64) (g *graph.Graph, err error) {
	err = db.read(ctx, func() error {
		n, err := countVertices(ctx, db.engine, scenario)
		if err != nil {
			return err
		}
		if g, err = graph.New(n, nil); err != nil {
			return err
		}
		g, err = db.labelled(ctx, scenario, g)
		return err
	})
	if err != nil {
		return nil, db.wrap(fmt.Errorf("loading labels of scenario %d: %w", scenario, err))
	}
	return g, nil
}

// Reading does what reads several times, and all of it finds the database as it was at one moment. It may not write;
// another one that writes to SQLite waits until it has ended.
func (db *DB) Reading(ctx context.Context, do func() error) error {
	var own error
	err := db.read(ctx, func() error {
		own = do()
		return own
	})
	if own != nil {
		return own
	}
	return db.wrap(err)
}

// read is within for what only reads; a part of another one takes part in its transaction.
func (db *DB) read(ctx context.Context, do func() error) error {
	if db.reading {
		return do()
	}
	db.reading = true
	defer func() { db.reading = false }()
	return within(ctx, db.engine, false, do)
}

// Columns of tables of graphs, as they are read.
var (
	edgeColumns = []Column{{"layer_id", Int}, {"source_idx", Int}, {"target_idx", Int}, {"weight", Float}}
	pairColumns = []Column{{"vertex_index", Int}, {"label_id", Int}}
	sizeColumns = []Column{{"number of vertices", Int}, {"least vertex_index", Int}, {"greatest vertex_index", Int}}
)

// checkKinds refuses a row of tables of graphs with a value of another kind: into SQLite's, anything can be written.
func checkKinds(table string, r Row, columns []Column) error {
	for i, c := range columns {
		kind := r.Kind(i)
		if !r.Null(i) && (kind == c.Kind || kind == Int && c.Kind == Float) {
			continue
		}
		where := make([]string, len(columns))
		for j, c := range columns {
			where[j] = fmt.Sprintf("%s %.60q", c.Name, r.Text(j))
		}
		return fmt.Errorf("table %s, row with %s: want %s that is %v", table, strings.Join(where, ", "), c.Name, c.Kind)
	}
	return nil
}

func endsOf(layer, source, target int64) (uint32, uint32, error) {
	if source < 0 || source > graph.VerticesMax || target < 0 || target > graph.VerticesMax {
		return 0, 0, fmt.Errorf("layer %d, from vertex %d to vertex %d: want vertices from 0 to %d", layer, source,
			target, graph.VerticesMax)
	}
	return uint32(source), uint32(target), nil
}

// labelled gives a graph the labels of a scenario.
func (db *DB) labelled(ctx context.Context, scenario int64, g *graph.Graph) (*graph.Graph, error) {
	ids, list, err := db.labelIDs(ctx, scenario)
	if err != nil {
		return nil, err
	}
	var vertex, label []uint32
	err = db.query(ctx, "SELECT vertex_index, label_id FROM graph.vertex_labels WHERE scenario_id = $1 "+
		"ORDER BY vertex_index, label_id", []any{scenario}, func(r Row) error {
		if err := checkKinds("vertex_labels", r, pairColumns); err != nil {
			return err
		}
		v, id := r.Int(0), r.Int(1)
		i, ok := slices.BinarySearch(ids, id)
		if !ok || v < 0 || v >= int64(g.Vertices()) {
			return fmt.Errorf("found label %d of vertex %d, want one of this scenario's %d labels, and a vertex "+
				"below %d", id, v, len(ids), g.Vertices())
		}
		vertex, label = append(vertex, uint32(v)), append(label, uint32(i))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return g.WithLabels(list, vertex, label)
}

// Vertices lists names and entities of a scenario's vertices, those in m, rising; nil: all.
func (db *DB) Vertices(ctx context.Context, scenario int64, m *graph.Mask) (list []Vertex, err error) {
	table, _ := db.named("vertices")
	err = db.VertexData(ctx, scenario, table, []string{"name", "entity_id"}, m, func(r Row) error {
		list = append(list, Vertex{Name: r.Text(0), Entity: r.Text(1)})
		return nil
	})
	return list, err
}

// EdgeNames calls each for the edges of a scenario that have a name, by rising layer, source and target. An error of
// each ends it.
func (db *DB) EdgeNames(ctx context.Context, scenario int64,
	each func(layer int, source, target uint32, name string) error) error {
	const sql = "SELECT layer_id, source_idx, target_idx, name FROM graph.edges WHERE scenario_id = $1 " +
		"AND name IS NOT NULL ORDER BY layer_id, source_idx, target_idx"
	return db.wrap(db.query(ctx, sql, []any{scenario}, func(r Row) error {
		if err := checkKinds("edges", r, edgeColumns[:3]); err != nil {
			return err
		}
		source, target, err := endsOf(r.Int(0), r.Int(1), r.Int(2))
		if err != nil {
			return err
		}
		return each(int(r.Int(0)), source, target, r.Text(3))
	}))
}

// Out is the edges of a layer that begin at vertices of m; nil: all. Cost: the edges that there are, or, from about a
// fifth of the vertices on, all edges of the layer.
func (db *DB) Out(ctx context.Context, scenario int64, layer int, m *graph.Mask) (*graph.Layer, error) {
	return db.part(ctx, scenario, layer, m, nil)
}

// In is the edges of a layer that end at vertices of m; nil: all. Cost: as that of Out, with a twelfth.
func (db *DB) In(ctx context.Context, scenario int64, layer int, m *graph.Mask) (*graph.Layer, error) {
	return db.part(ctx, scenario, layer, nil, m)
}

// From which share of all vertices on a layer is read whole: 1/wholeOut of the sources, 1/wholeIn of the targets.
// Measured with SQLite: docs/graph.md.
const (
	wholeOut = 5
	wholeIn  = 12
)

func (db *DB) part(ctx context.Context, scenario int64, layer int, sources, targets *graph.Mask) (l *graph.Layer,
	err error) {
	err = db.read(ctx, func() error {
		n, err := db.lastVertex(ctx, scenario)
		if err != nil {
			return err
		}
		sql, params := layerSQL("graph.edges", ""), []any{scenario, int64(layer)}
		column, m, share := "source_idx", sources, wholeOut
		if sources == nil {
			column, m, share = "target_idx", targets, wholeIn
		}
		if m != nil && m.Len() != n {
			return fmt.Errorf("found a mask of %d vertices, want %d", m.Len(), n)
		}
		whole := m == nil || m.Count()*share >= n
		if !whole {
			var param any
			sql, param = db.edgesSQL(column, m.Vertices())
			params = append(params, param)
		}
		e, err := layerEdges(ctx, db.engine, sql, params, 0)
		if err != nil {
			return err
		}
		g, err := graph.New(n, map[int]graph.Edges{layer: e})
		if err != nil {
			return err
		}
		if l = g.Layer(layer); whole && m != nil {
			l, err = l.Select(sources, targets)
		}
		return err
	})
	if err != nil {
		return nil, db.wrap(fmt.Errorf("loading layer %d of scenario %d: %w", layer, scenario, err))
	}
	return l, nil
}

// Table names a user's own table. Without a schema it is in the default one.
type Table struct{ Schema, Name string }

// String is how the table is named in messages.
func (t Table) String() string {
	if t.Schema != "" {
		return t.Schema + "." + t.Name
	}
	return t.Name
}

// VertexData calls each with these columns of a user's table, for the vertices of m, or all, by rising vertex. The
// table has columns scenario_id and vertex_index. An error of each ends it.
func (db *DB) VertexData(ctx context.Context, scenario int64, t Table, columns []string, m *graph.Mask,
	each func(Row) error) error {
	return db.data(ctx, scenario, t, columns, chosenBy{column: "vertex_index", mask: m}, each)
}

// OutData calls each with these columns of a user's table, for the edges of a layer that begin at vertices of m, or
// all, by rising source and target. The table has columns scenario_id, layer_id, source_idx and target_idx.
func (db *DB) OutData(ctx context.Context, scenario int64, t Table, columns []string, layer int, m *graph.Mask,
	each func(Row) error) error {
	return db.data(ctx, scenario, t, columns, chosenBy{"source_idx", "target_idx", &layer, m}, each)
}

// InData is OutData for the edges that end at vertices of m, by rising target and source.
func (db *DB) InData(ctx context.Context, scenario int64, t Table, columns []string, layer int, m *graph.Mask,
	each func(Row) error) error {
	return db.data(ctx, scenario, t, columns, chosenBy{"target_idx", "source_idx", &layer, m}, each)
}

// chosenBy says which rows of a user's table are wanted.
type chosenBy struct {
	column, then string // in this order
	layer        *int
	mask         *graph.Mask
}

// UnknownColumnsError is that a user's table doesn't have what it must have.
type UnknownColumnsError struct {
	Table         Table
	Missing, Have []string
}

// Error says what there is.
func (e *UnknownColumnsError) Error() string {
	if len(e.Have) == 0 {
		return fmt.Sprintf("table %v: there is none", e.Table)
	}
	return fmt.Sprintf("table %v: found no columns %q, want them beside, or among, those that there are: %q", e.Table,
		e.Missing, e.Have)
}

func (db *DB) data(ctx context.Context, scenario int64, t Table, columns []string, by chosenBy,
	each func(Row) error) error {
	chosen, err := db.choose(ctx, t, columns, by)
	if err != nil {
		return db.wrap(err)
	}
	return db.wrap(db.rows(ctx, scenario, t, chosen, by, each))
}

// choose finds the columns that are wanted, and refuses a table that lacks one of them, or of those that it must have.
func (db *DB) choose(ctx context.Context, t Table, columns []string, by chosenBy) (chosen []Column, err error) {
	have, err := db.columns(ctx, t)
	if err != nil {
		return nil, err
	}
	find := func(name string) int {
		return slices.IndexFunc(have, func(c Column) bool { return c.Name == name })
	}
	needed := []string{"scenario_id", by.column}
	if by.layer != nil {
		needed = append(needed, by.then, "layer_id")
	}
	var missing []string
	for _, name := range append(needed, columns...) {
		if find(name) < 0 && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	switch {
	case len(missing) > 0:
		unknown := &UnknownColumnsError{Table: t, Missing: missing}
		for _, c := range have {
			unknown.Have = append(unknown.Have, c.Name)
		}
		return nil, unknown
	case len(columns) == 0:
		return nil, errors.New("found no columns of " + t.String() + " to be read, want one at least")
	}
	for _, name := range columns {
		chosen = append(chosen, have[find(name)])
	}
	return chosen, nil
}

// rows reads columns of the rows that are wanted.
func (db *DB) rows(ctx context.Context, scenario int64, t Table, columns []Column, by chosenBy,
	each func(Row) error) error {
	where, params, order := "scenario_id = $1", []any{scenario}, by.column
	if by.layer != nil {
		where, params, order = where+" AND layer_id = $2", append(params, int64(*by.layer)), order+", "+by.then
	}
	if by.mask != nil {
		condition, param := db.chosen(by.column, len(params)+1, by.mask.Vertices())
		where, params = where+" AND "+condition, append(params, param)
	}
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = db.plain(c)
	}
	return db.query(ctx, "SELECT "+strings.Join(list, ", ")+" FROM "+t.quoted()+" WHERE "+where+" ORDER BY "+order,
		params, each)
}

// Stray is the least value of a column of vertices, in the rows that a user's table has of a scenario, that isn't the
// number of one of n vertices, as text. Cost: with an index of scenario_id and the column little, else all rows.
func (db *DB) Stray(ctx context.Context, scenario int64, t Table, column string, n int) (found string, ok bool,
	err error) {
	q := quoted(column)
	err = db.query(ctx, "SELECT coalesce(CAST("+q+" AS TEXT), 'NULL') FROM "+t.quoted()+" WHERE scenario_id = $1 AND ("+
		q+" IS NULL OR "+q+" < 0 OR "+q+" >= $2) ORDER BY "+q+" LIMIT 1", []any{scenario, int64(n)},
		func(r Row) error {
			found, ok = r.Text(0), true
			return nil
		})
	return found, ok, db.wrap(err)
}

func (t Table) quoted() string {
	if t.Schema != "" {
		return quoted(t.Schema) + "." + quoted(t.Name)
	}
	return quoted(t.Name)
}
