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
	"strings"
	"testing"

	"github.com/disco-sim/disco/graph"
	"github.com/disco-sim/disco/internal/seed"
)

// many makes a graph of two layers with so many edges that indexes are made anew, and more vertices than have any.
func many(t *testing.T, rng *rand.Rand) *graph.Graph {
	t.Helper()
	const vertices = 700
	layers := map[int]graph.Edges{}
	for _, id := range []int{-3, 7} {
		var e graph.Edges
		for i := range uint32(vertices * (vertices - 50)) {
			if rng.IntN(8) == 0 {
				e.Source, e.Target = append(e.Source, i/vertices), append(e.Target, i%vertices)
				e.Weight = append(e.Weight, rng.NormFloat64())
			}
		}
		layers[id] = e
	}
	g, err := graph.New(vertices, layers)
	if err != nil {
		t.Fatal(err)
	}
	if g.Edges() < manyEdges {
		t.Fatalf("found %d edges, want %d at least", g.Edges(), manyEdges)
	}
	return g
}

// sound holds that SQLite finds its file, and each index, in order.
func sound(t *testing.T, db *DB) {
	t.Helper()
	var found []string
	err := db.query(t.Context(), "PRAGMA integrity_check", nil, func(r Row) error {
		found = append(found, r.Text(0))
		return nil
	})
	err = errors.Join(err, db.query(t.Context(), "SELECT name FROM sqlite_schema WHERE name LIKE '%sorted%'", nil,
		func(r Row) error {
			found = append(found, "left: "+r.Text(0))
			return nil
		}))
	if err != nil || !slices.Equal(found, []string{"ok"}) {
		t.Errorf("found %v, %q, want ok", err, found)
	}
}

// TestSortedIndex: a large graph is stored, replaced and deleted beside scenarios with smaller and greater numbers, and
// each time the index that was a table is in order, for this connection and for one that had read before.
func TestSortedIndex(t *testing.T) {
	if testing.Short() {
		t.Skip("SQLite, as Go, takes minutes for it under the race detector")
	}
	rng, ctx := seed.Rand(t), t.Context()
	url := "sqlite:" + filepath.Join(t.TempDir(), "x.db")
	db, other := open(t, url), open(t, url)
	below, large, above := create(t, db, "below"), create(t, db, "large"), create(t, db, "above")
	small := map[int64]*graph.Graph{below: draw(t, rng, 100, 900), above: draw(t, rng, 100, 900)}
	for id, g := range small {
		if err := db.Store(ctx, id, g, Content{}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want map[int64]*graph.Graph) {
		t.Helper()
		sound(t, db)
		for id, g := range want {
			got, err := other.Load(ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			same(t, got, g)
			checkParts(t, rng, db, id, g)
		}
	}
	for _, name := range []func(layer, edge int) string{nil, func(layer, edge int) string { return fmt.Sprint(edge) }} {
		g := many(t, rng)
		if err := db.Store(ctx, large, g, Content{EdgeName: name}); err != nil {
			t.Fatal(err)
		}
		check(map[int64]*graph.Graph{below: small[below], large: g, above: small[above]})
		checkPlan(t, db, large, 7)
	}
	if err := db.Delete(ctx, large); err != nil {
		t.Fatal(err)
	}
	check(small)
	for id := range small {
		if err := db.Delete(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	sound(t, db)
}

// TestSortedRolledBack: where a store fails behind the change of the schema, the index before is there.
func TestSortedRolledBack(t *testing.T) {
	if testing.Short() {
		t.Skip("SQLite, as Go, takes minutes for it under the race detector")
	}
	rng, ctx := seed.Rand(t), t.Context()
	url := "sqlite:" + filepath.Join(t.TempDir(), "x.db")
	db := open(t, url)
	id, first := create(t, db, "one"), many(t, rng)
	if err := db.Store(ctx, id, first, Content{}); err != nil {
		t.Fatal(err)
	}
	want := errors.New("it fails")
	err := within(ctx, db.engine, true, func() error {
		return errors.Join(db.store(ctx, id, many(t, rng), Content{}), want)
	})
	if !errors.Is(err, want) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("found %v, want %v alone", err, want)
	}
	twice := func(int, int) string { return "the same" }
	if err := db.Store(ctx, id, many(t, rng), Content{EdgeName: twice}); err == nil {
		t.Error("edges of the same name are stored")
	}
	sound(t, db)
	for _, db := range []*DB{db, open(t, url)} {
		got, err := db.Load(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, first)
		checkParts(t, rng, db, id, first)
		checkPlan(t, db, id, 7)
	}
	if _, err := db.exec(ctx, "UPDATE sqlite_schema SET sql = sql"); err == nil {
		t.Error("the schema has stayed writable")
	}
}

// TestKnown: statistics that are written are those that SQLite itself finds.
func TestKnown(t *testing.T) {
	rng, ctx := seed.Rand(t), t.Context()
	db := open(t, "sqlite:"+filepath.Join(t.TempDir(), "x.db"))
	id := create(t, db, "one")
	statistics := func() (list []string) {
		t.Helper()
		err := db.query(ctx, "SELECT tbl, idx, stat FROM sqlite_stat1 WHERE tbl = 'graph_edges' ORDER BY idx", nil,
			func(r Row) error {
				list = append(list, r.Text(0)+" "+r.Text(1)+" "+r.Text(2))
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	if err := db.Store(ctx, id, draw(t, rng, 100, 900), Content{}); err != nil { // by ANALYZE
		t.Fatal(err)
	}
	g := many(t, rng)
	if err := db.Store(ctx, id, g, Content{Vertices: make([]Vertex, g.Vertices())}); err != nil {
		t.Fatal(err)
	}
	known, samples := statistics(), 0
	err := db.query(ctx, "SELECT 1 FROM sqlite_stat4 WHERE tbl = 'graph_edges'", nil, func(Row) error {
		samples++
		return nil
	})
	if err != nil || samples > 0 {
		t.Errorf("found %d samples of edges that there are no more, %v", samples, err)
	}
	if _, err := db.exec(ctx, "ANALYZE graph_edges"); err != nil {
		t.Fatal(err)
	}
	if found := statistics(); len(known) != 3 || !slices.Equal(known, found) {
		t.Errorf("wrote %q, and SQLite finds %q", known, found)
	}
}

// TestSortedBeside: the file beside the database in which edges are sorted is gone when a store has ended, however it
// ends, and what a killed process has left of one, or a folder of that name, is in nobody's way or is named.
func TestSortedBeside(t *testing.T) {
	if testing.Short() {
		t.Skip("SQLite, as Go, takes minutes for it under the race detector")
	}
	rng := seed.Rand(t)
	file := filepath.Join(t.TempDir(), "x.db")
	beside := file + besideSuffix
	db := open(t, "sqlite:"+file)
	id, g := create(t, db, "one"), many(t, rng)
	holds := func(want *graph.Graph) {
		t.Helper()
		if _, err := os.Lstat(beside); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("found %v of %s, want that it isn't there", err, beside)
		}
		sound(t, db)
		got, err := db.Load(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, want)
	}
	if err := os.WriteFile(beside, []byte("half of it"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := db.Store(t.Context(), id, g, Content{}); err != nil {
		t.Fatal(err)
	}
	holds(g)

	ctx, cancel := context.WithCancel(t.Context())
	named := 0
	err := db.Store(ctx, id, many(t, rng), Content{EdgeName: func(int, int) string {
		if named++; named == 5000 {
			cancel()
		}
		return ""
	}})
	if err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("found %v, want that it was interrupted", err)
	}
	holds(g)

	func() {
		defer func() { _ = recover() }()
		panics := func(int, int) string { panic("of a caller") }
		err := db.Store(t.Context(), id, many(t, rng), Content{EdgeName: panics})
		t.Errorf("found %v, want a panic", err)
	}()
	holds(g)

	if err := os.MkdirAll(filepath.Join(beside, "of a user"), 0o700); err != nil {
		t.Fatal(err)
	}
	err = db.Store(t.Context(), id, many(t, rng), Content{})
	if err == nil || !strings.Contains(err.Error(), beside) {
		t.Errorf("found %v, want %s in it", err, beside)
	}
	if err := os.RemoveAll(beside); err != nil {
		t.Fatal(err)
	}
	holds(g)
}
