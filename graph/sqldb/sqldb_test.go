// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/graph"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/seed"
	"github.com/disco-sim/disco/internal/storeserver"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// tests are those of both kinds of databases.
var tests = []struct {
	name string
	test func(t *testing.T, url string)
}{
	{"store", testStore},
	{"many", testMany},
	{"pieces", testPieces},
	{"scenarios", testScenarios},
	{"all or nothing", testAllOrNothing},
	{"data", testData},
	{"records", testRecords},
	{"masks", testMasks},
	{"versions", testVersions},
	{"copy", testCopy},
	{"reading", testReading},
	{"panic", testPanic},
}

func TestSQLite(t *testing.T) {
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) { c.test(t, "sqlite:"+filepath.Join(t.TempDir(), "graphs.db")) })
	}
}

// TestPostgres has one server, and in it a database for each test.
func TestPostgres(t *testing.T) {
	server, err := storeserver.StartPostgres(t.Context())
	storeserver.Need(t, err)
	t.Cleanup(server.Close)
	all := open(t, server.URL())
	for i, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			name := fmt.Sprint("test", i)
			if _, err := all.exec(t.Context(), "CREATE DATABASE "+name); err != nil {
				t.Fatal(err)
			}
			c.test(t, strings.Replace(server.URL(), "///postgres", "///"+name, 1))
		})
	}
}

func open(t *testing.T, url string) *DB {
	t.Helper()
	db, err := Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func create(t *testing.T, db *DB, name string) int64 {
	t.Helper()
	s, err := db.Create(t.Context(), Scenario{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return s.ID
}

// draw makes a random graph with layers and labels.
func draw(t *testing.T, rng *rand.Rand, vertices, edges int) *graph.Graph {
	t.Helper()
	layers := map[int]graph.Edges{}
	for _, id := range []int{-3, 0, 7}[:1+rng.IntN(3)] {
		seen, e := map[[2]uint32]bool{}, graph.Edges{}
		for range 1 + rng.IntN(edges) {
			p := [2]uint32{rng.Uint32N(uint32(vertices)), rng.Uint32N(uint32(vertices))}
			if !seen[p] {
				seen[p] = true
				e.Source, e.Target = append(e.Source, p[0]), append(e.Target, p[1])
				e.Weight = append(e.Weight, rng.NormFloat64())
			}
		}
		layers[id] = e
	}
	g, err := graph.New(vertices, layers)
	if err != nil {
		t.Fatal(err)
	}
	var list []graph.Label
	var vertex, label []uint32
	for i := range rng.IntN(10) {
		list = append(list, graph.Label{Type: fmt.Sprint("ty'pe\"", i%3), Value: fmt.Sprint("välue ", i)})
		for range rng.IntN(vertices) {
			vertex, label = append(vertex, rng.Uint32N(uint32(vertices))), append(label, uint32(i))
		}
	}
	if g, err = g.WithLabels(list, vertex, label); err != nil {
		t.Fatal(err)
	}
	return g
}

// same compares two graphs.
func same(t *testing.T, got, want *graph.Graph) {
	t.Helper()
	if got.Vertices() != want.Vertices() || !slices.Equal(got.Layers(), want.Layers()) ||
		!slices.Equal(got.Labels(), want.Labels()) {
		t.Fatalf("found %d vertices, layers %v, labels %v, want %d, %v, %v", got.Vertices(), got.Layers(), got.Labels(),
			want.Vertices(), want.Layers(), want.Labels())
	}
	for _, id := range want.Layers() {
		sameLayer(t, got.Layer(id), want.Layer(id))
	}
	for v := range want.Vertices() {
		if !slices.Equal(got.LabelsOf(v), want.LabelsOf(v)) {
			t.Fatalf("vertex %d: found labels %v, want %v", v, got.LabelsOf(v), want.LabelsOf(v))
		}
	}
}

func sameLayer(t *testing.T, got, want *graph.Layer) {
	t.Helper()
	a, b := got.Columns(), want.Columns()
	if !slices.Equal(a.Source, b.Source) || !slices.Equal(a.Target, b.Target) || !slices.Equal(a.Weight, b.Weight) {
		t.Fatalf("found %v, want %v", a, b)
	}
}

// testStore stores random graphs one over the other, beside a second scenario that stays as it is, and reads them and
// parts of them.
func testStore(t *testing.T, url string) {
	rng := seed.Rand(t)
	db := open(t, url)
	id, other := create(t, db, "first"), create(t, db, "second")
	beside := draw(t, rng, 20, 50)
	if err := db.Store(t.Context(), other, beside, Content{}); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		g := draw(t, rng, 1+rng.IntN(200), 1+rng.IntN(1000))
		vertices := make([]Vertex, g.Vertices())
		for v := range vertices {
			vertices[v] = Vertex{Name: fmt.Sprint("name ", v)}
			if v%2 == 0 {
				vertices[v].Entity = fmt.Sprint("entity ", v)
			}
		}
		name := func(layer, edge int) string { return fmt.Sprintf("edge %d of %d", edge, layer) }
		if err := db.Store(t.Context(), id, g, Content{vertices, name}); err != nil {
			t.Fatal(err)
		}
		loaded, err := db.Load(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		same(t, loaded, g)
		if list, err := db.Vertices(t.Context(), id, nil); err != nil || !slices.Equal(list, vertices) {
			t.Fatalf("found %v, %v, want %v", list, err, vertices)
		}
		checkParts(t, rng, db, id, g)
	}
	loaded, err := db.Load(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	same(t, loaded, beside)
}

// checkParts compares parts that are read with parts of the graph in memory.
func checkParts(t *testing.T, rng *rand.Rand, db *DB, id int64, g *graph.Graph) {
	t.Helper()
	for range 6 {
		m, share := graph.NewMask(g.Vertices()), rng.Float64()*rng.Float64()
		for v := range g.Vertices() {
			if rng.Float64() < share {
				m.Set(v)
			}
		}
		for _, layer := range g.Layers() {
			for _, p := range []struct {
				read            func(context.Context, int64, int, *graph.Mask) (*graph.Layer, error)
				sources, target *graph.Mask
			}{{db.Out, m, nil}, {db.In, nil, m}} {
				got, err := p.read(t.Context(), id, layer, m)
				if err != nil {
					t.Fatal(err)
				}
				want, err := g.Layer(layer).Select(p.sources, p.target)
				if err != nil {
					t.Fatal(err)
				}
				sameLayer(t, got, want)
			}
		}
	}
}

// testMany has so many edges that indexes are made anew.
func testMany(t *testing.T, url string) {
	rng := seed.Rand(t)
	db := open(t, url)
	id := create(t, db, "many")
	var e graph.Edges
	const vertices = 1000
	for s := range uint32(vertices) {
		for range manyEdges/vertices + 1 {
			e.Source, e.Target = append(e.Source, s), append(e.Target, uint32(len(e.Target))%vertices)
		}
	}
	g, err := graph.New(vertices, map[int]graph.Edges{1: e})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := db.Store(t.Context(), id, g, Content{}); err != nil {
			t.Fatal(err)
		}
		loaded, err := db.Load(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		same(t, loaded, g)
		checkParts(t, rng, db, id, g)
		checkPlan(t, db, id, 1)
	}
}

// checkPlan holds that parts of a layer are found by an index, and that no query goes over all edges for them.
func checkPlan(t *testing.T, db *DB, id, layer int64) {
	t.Helper()
	for column, index := range map[string]string{"source_idx": "edges_pkey", "target_idx": "edges_target"} {
		sql, param := db.edgesSQL(column, []uint32{1, 2, 3})
		explain := "EXPLAIN "
		if db.dialect() == "sqlite" {
			explain = "EXPLAIN QUERY PLAN "
			index = map[string]string{"source_idx": "PRIMARY KEY", "target_idx": "graph_edges_target"}[column]
		}
		var plan strings.Builder
		err := db.query(t.Context(), explain+sql, []any{id, layer, param}, func(r Row) error {
			for i := range 4 {
				if db.dialect() == "sqlite" || i == 0 {
					plan.WriteString(r.Text(i) + " ")
				}
			}
			plan.WriteByte('\n')
			return nil
		})
		text := plan.String()
		if err != nil || !strings.Contains(text, index) || strings.Contains(text, "SCAN graph_edges") ||
			strings.Contains(text, "Seq Scan on edges") {
			t.Errorf("%s by %s: %v, want a search by %s:\n%s", db.dialect(), column, err, index, plan.String())
		}
	}
}

// testScenarios makes, lists and deletes scenarios.
func testScenarios(t *testing.T, url string) {
	db := open(t, url)
	base := create(t, db, `it's "the" base; DROP TABLE graph.scenarios`)
	s, err := db.Create(t.Context(), Scenario{Name: "variant", Base: base, Description: "more of it"})
	if err != nil {
		t.Fatal(err)
	}
	found, err := db.Find(t.Context(), "variant")
	if err != nil || found != s || time.Since(found.Created) > time.Hour {
		t.Errorf("found %+v, %v, want %+v", found, err, s)
	}
	var exists *ExistsError
	if _, err := db.Create(t.Context(), Scenario{Name: "variant"}); !errors.As(err, &exists) {
		t.Errorf("found %v, want that the name is taken", err)
	}
	var none *NotFoundError
	if _, err := db.Create(t.Context(), Scenario{Name: "x", Base: 99}); !errors.As(err, &none) {
		t.Errorf("found %v, want that there is no base", err)
	}
	if _, err := db.Find(t.Context(), "nothing"); !errors.As(err, &none) || len(none.Have) != 2 {
		t.Errorf("found %v, want the names of both", err)
	}
	if _, err := db.Load(t.Context(), 99); !errors.As(err, &none) {
		t.Errorf("found %v, want that there is no scenario", err)
	}
	if err := db.Delete(t.Context(), base); err == nil || !strings.Contains(err.Error(), "is the base of others") {
		t.Errorf("found %v, want that others are based on it", err)
	}
	for _, id := range []int64{s.ID, base} {
		if err := db.Delete(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	if list, err := db.Scenarios(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("found %v, %v, want none", list, err)
	}
}

// testAllOrNothing holds that a graph that can't be stored leaves the one before, and that one that is wrong in the
// database is named.
func testAllOrNothing(t *testing.T, url string) {
	rng, ctx := seed.Rand(t), t.Context()
	db := open(t, url)
	id := create(t, db, "one")
	g := draw(t, rng, 50, 100)
	if err := db.Store(ctx, id, g, Content{}); err != nil {
		t.Fatal(err)
	}
	twice := func(int, int) string { return "the same" }
	if err := db.Store(ctx, id, draw(t, rng, 50, 100), Content{EdgeName: twice}); err == nil {
		t.Error("edges of the same name are stored")
	}
	if err := db.Store(ctx, id, draw(t, rng, 51, 100), Content{}); err == nil ||
		!strings.Contains(err.Error(), "found 50 vertices in the database and 51 in the graph") {
		t.Errorf("found %v, want both numbers of vertices", err)
	}
	ended, end := context.WithCancel(ctx)
	end()
	if err := db.Store(ended, id, g, Content{}); err == nil {
		t.Error("a graph is stored behind its end")
	}
	if db.dialect() == "postgres" {
		db = open(t, url) // that end has closed the connection
	}
	loaded, err := db.Load(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	same(t, loaded, g)
	for sql, want := range map[string]string{
		"INSERT INTO graph.edges VALUES ($1, 0, 3, 50, 1, NULL)":                                  "to vertex 50",
		"UPDATE graph.vertices SET vertex_index = 77 WHERE scenario_id = $1 AND vertex_index = 3": "from 0 to 77",
	} {
		err := within(ctx, db.engine, true, func() error {
			if _, err := db.exec(ctx, sql, id); err != nil {
				return err
			}
			_, err := db.edgesOnly(ctx, id)
			return err
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found %v, want %q", err, want)
		}
	}
}

// edgesOnly is Load within a transaction.
func (db *DB) edgesOnly(ctx context.Context, id int64) (*graph.Graph, error) {
	n, layers, err := db.edges(ctx, id)
	if err != nil {
		return nil, err
	}
	return graph.New(n, layers)
}

// testData reads users' own tables, whatever their names are.
func testData(t *testing.T, url string) {
	ctx, db := t.Context(), open(t, url)
	id := create(t, db, "one")
	g := draw(t, seed.Rand(t), 10, 20)
	if err := db.Store(ctx, id, g, Content{}); err != nil {
		t.Fatal(err)
	}
	hostile := Table{Name: `da"ta; DROP TABLE graph.edges; --`}
	column := `co"st, (SELECT 1)`
	for _, sql := range []string{
		"CREATE TABLE " + hostile.quoted() + " (scenario_id BIGINT, layer_id INT, source_idx BIGINT, " +
			"target_idx BIGINT, vertex_index BIGINT, " + quoted(column) + " DOUBLE PRECISION)",
		"INSERT INTO " + hostile.quoted() + " SELECT scenario_id, 5, vertex_index, 9 - vertex_index, " +
			"vertex_index, vertex_index * 0.5 FROM graph.vertices",
	} {
		if _, err := db.exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	m, err := graph.MaskOf(10, 2, 3, 9)
	if err != nil {
		t.Fatal(err)
	}
	var got []float64
	collect := func(r Row) error {
		got = append(got, float64(r.Int(0)), r.Float(1))
		return nil
	}
	err = db.VertexData(ctx, id, hostile, []string{"vertex_index", column}, m, collect)
	if want := []float64{2, 1, 3, 1.5, 9, 4.5}; err != nil || !slices.Equal(got, want) {
		t.Errorf("found %v, %v, want %v", got, err, want)
	}
	got = nil
	err = db.InData(ctx, id, hostile, []string{"target_idx", column}, 5, m, collect)
	if want := []float64{2, 3.5, 3, 3, 9, 0}; err != nil || !slices.Equal(got, want) {
		t.Errorf("found %v, %v, want %v", got, err, want)
	}
	if err := db.OutData(ctx, id, hostile, []string{"source_idx"}, 6, nil, func(Row) error {
		return errors.New("no row has this layer")
	}); err != nil {
		t.Error(err)
	}
	var unknown *UnknownColumnsError
	err = db.VertexData(ctx, id, hostile, []string{"nothing"}, nil, collect)
	if !errors.As(err, &unknown) || !slices.Equal(unknown.Missing, []string{"nothing"}) || len(unknown.Have) != 6 {
		t.Errorf("found %v, want the column that isn't there, and those that are", err)
	}
	for _, none := range []Table{{Name: "none"}, {Schema: "none", Name: hostile.Name}} {
		unknown = nil
		err = db.VertexData(ctx, id, none, []string{"x"}, nil, collect)
		if !errors.As(err, &unknown) || unknown.Have != nil {
			t.Errorf("found %v, want that there is no table", err)
		}
	}
}

// TestNames: what doesn't stay in one line of a list is no name of a scenario.
func TestNames(t *testing.T) {
	db := open(t, "sqlite:"+filepath.Join(t.TempDir(), "x.db"))
	for name, want := range map[string]string{"": "the name of a scenario: found none",
		"a\nb": "found control characters", "\x85": "what isn't UTF-8",
		strings.Repeat("n", nameMax+1): "found 201 bytes"} {
		if _, err := db.Create(t.Context(), Scenario{Name: name}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: found %v, want %s", name, err, want)
		}
	}
	create(t, db, strings.Repeat("ü", nameMax/2))
}

// testMasks saves masks, joins them, and cleans them up.
func testMasks(t *testing.T, url string) {
	ctx, db := t.Context(), open(t, url)
	id := create(t, db, "one")
	g := draw(t, seed.Rand(t), 100, 20)
	if err := db.Store(ctx, id, g, Content{}); err != nil {
		t.Fatal(err)
	}
	m, err := graph.MaskOf(100, 4, 50, 99)
	if err != nil {
		t.Fatal(err)
	}
	mask, err := db.SaveMask(ctx, id, m)
	if err != nil {
		t.Fatal(err)
	}
	joined := func() (list []int64) {
		err := db.query(ctx, "SELECT v.vertex_index FROM graph.vertex_masks m JOIN graph.vertices v ON "+
			"v.scenario_id = m.scenario_id AND v.vertex_index = m.vertex_index WHERE m.scenario_id = $1 "+
			"AND mask_id = $2 ORDER BY 1", []any{id, mask}, func(r Row) error {
			list = append(list, r.Int(0))
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		return list
	}
	if got := joined(); !slices.Equal(got, []int64{4, 50, 99}) {
		t.Errorf("found %v", got)
	}
	err = errors.Join(db.TouchMask(ctx, id, mask), db.CleanMasks(ctx, time.Hour))
	if err != nil || len(joined()) != 3 {
		t.Errorf("found %v, %v: a mask is cleaned up too early", joined(), err)
	}
	if err := db.CleanMasks(ctx, -time.Hour); err != nil || joined() != nil {
		t.Errorf("found %v, %v: an old mask isn't cleaned up", joined(), err)
	}
	if mask, err = db.SaveMask(ctx, id, m); err != nil {
		t.Fatal(err)
	}
	if err := db.DeleteMask(ctx, id, mask); err != nil || joined() != nil {
		t.Errorf("found %v, %v: a mask isn't deleted", joined(), err)
	}
	if err := db.TouchMask(ctx, id, mask); err == nil {
		t.Error("a mask that isn't there is touched")
	}
	if _, err := db.SaveMask(ctx, id, graph.NewMask(7)); err == nil {
		t.Error("a mask of another size is saved")
	}
}

// TestOpenRefuses has what can't be opened.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"":                                      "want sqlite:FILE or postgres://",
		"sqlite:":                               "found no file",
		"sqlite::memory:":                       "found no file",
		"sqlite:file::memory:":                  "found no file",
		"mysql://me:secret@host/x":              "mysql://me:***@host/x",
		"sqlite:" + dir:                         "sqlite:" + dir + ": found a folder, want a file",
		"sqlite:" + text:                        "found a file of another kind, want a database of SQLite",
		"postgres:///x?user=test&host=" + dir:   "host=" + dir,
		"sqlite:" + filepath.Join(dir, "no/db"): "found no folder " + strconv.Quote(filepath.Join(dir, "no")),
	} {
		db, err := Open(t.Context(), url)
		if err == nil {
			_ = db.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: found %v, want %q", url, err, want)
		}
	}
}

// TestEarlier: tables of an earlier version, with a graph in them, are those of today when they are opened.
func TestEarlier(t *testing.T) {
	ctx := t.Context()
	for name, url := range both(t) {
		g := draw(t, seed.Rand(t), 30, 90)
		id := earlier(t, name, url, g)
		db := open(t, url)
		got, err := db.Load(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, g)
		sql := "SELECT count(*) FROM pg_constraint WHERE conname IN " +
			"('edges_scenario_id_fkey', 'vertices_scenario_id_fkey', 'vertex_labels_scenario_id_fkey')"
		if name == "sqlite" {
			sql = `SELECT count(*) FROM (SELECT "table" FROM pragma_foreign_key_list('graph_edges') UNION ALL ` +
				`SELECT "table" FROM pragma_foreign_key_list('graph_vertices') UNION ALL SELECT "table" ` +
				`FROM pragma_foreign_key_list('graph_vertex_labels')) WHERE "table" = 'graph_scenarios'`
			sound(t, db)
		}
		left := int64(-1)
		err = db.query(ctx, sql, nil, func(r Row) error {
			left = r.Int(0)
			return nil
		})
		if v, verr := db.version(ctx); err != nil || verr != nil || v != newest(db.engine) || left != 0 {
			t.Errorf("%s: found version %d and %d constraints of edges, want %d and none: %v, %v", name, v, left,
				newest(db.engine), err, verr)
		}
	}
}

// earlier makes a database whose tables are of version 1, with a graph.
func earlier(t *testing.T, name, url string, g *graph.Graph) (id int64) {
	t.Helper()
	ctx := t.Context()
	open := openPost
	if name == "sqlite" {
		open = func(ctx context.Context, url string) (engine, error) {
			return openLite(ctx, strings.TrimPrefix(url, "sqlite:"), false)
		}
	}
	e, err := open(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	text, err := migrations.ReadFile("migrations/" + name + "-1.sql")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.version(ctx); err != nil {
		t.Fatal(err)
	}
	for sql := range strings.SplitSeq(string(text)+"INSERT INTO graph.version VALUES (1)", ";\n") {
		if _, err := e.exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	old := &DB{engine: e, url: "earlier"}
	s, err := old.CreateStored(ctx, Scenario{Name: "one"}, g, Content{})
	if err := errors.Join(err, old.Close()); err != nil {
		t.Fatal(err)
	}
	return s.ID
}

// testVersions refuses tables of a program that is newer, or another one.
func testVersions(t *testing.T, url string) {
	db := open(t, url)
	open(t, url) // a second time they are there
	if _, err := db.exec(t.Context(), "INSERT INTO graph.version VALUES ($1)", int64(newest(db.engine)+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), url); err == nil || !strings.Contains(err.Error(), "use a newer program") {
		t.Errorf("found %v, want that the tables are newer", err)
	}
	for _, c := range []struct{ sql, want string }{
		{"ALTER TABLE graph.version ALTER COLUMN version TYPE TEXT", ""}, // which SQLite has for any column
		{"INSERT INTO graph.version VALUES ('x')", `table version: found "x", want a whole number from 1`},
		{"ALTER TABLE graph.version RENAME COLUMN version TO x", "found no column version: is it of another program?"},
	} {
		if _, err := db.exec(t.Context(), c.sql); err != nil {
			if c.want == "" && db.dialect() == "sqlite" {
				continue
			}
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), url); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: found %v, want %s", c.sql, err, c.want)
		}
	}
}
