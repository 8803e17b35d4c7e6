// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/disco-sim/disco/graph"
	"github.com/disco-sim/disco/internal/race"
	"github.com/disco-sim/disco/internal/seed"
	"github.com/disco-sim/disco/internal/storeserver"
)

// testCopy copies a scenario, changes the first, and reads names of edges of both.
func testCopy(t *testing.T, url string) {
	ctx, rng := t.Context(), seed.Rand(t)
	db := open(t, url)
	g := draw(t, rng, 30, 90)
	name := func(layer, edge int) string {
		if edge%2 == 0 {
			return ""
		}
		return fmt.Sprint("edge ", edge)
	}
	from, err := db.CreateStored(ctx, Scenario{Name: "from", Description: "x"}, g, Content{EdgeName: name})
	if err != nil {
		t.Fatal(err)
	}
	to, err := db.Copy(ctx, from.ID, Scenario{Name: "to", Base: from.ID})
	if err != nil || to.Base != from.ID {
		t.Fatal(to, err)
	}
	if err := db.Store(ctx, from.ID, draw(t, rng, 30, 90), Content{}); err != nil {
		t.Fatal(err)
	}
	got, err := db.Load(ctx, to.ID)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, g)
	names := 0
	err = db.EdgeNames(ctx, to.ID, func(layer int, source, target uint32, text string) error {
		names++
		if i, ok := g.Layer(layer).Find(int(source), int(target)); !ok || text != name(layer, i) {
			return fmt.Errorf("layer %d, edge from %d to %d: found the name %q", layer, source, target, text)
		}
		return nil
	})
	want := 0
	for _, id := range g.Layers() {
		want += g.Layer(id).Edges() / 2
	}
	if err != nil || names != want {
		t.Errorf("%v, and %d names, want %d", err, names, want)
	}
	var exists *ExistsError
	if _, err := db.Copy(ctx, from.ID, Scenario{Name: "to"}); !errors.As(err, &exists) {
		t.Errorf("found %v, want that the name is taken", err)
	}
	twice := func(int, int) string { return "the same" }
	_, err = db.CreateStored(ctx, Scenario{Name: "third"}, draw(t, rng, 50, 900), Content{EdgeName: twice})
	if err == nil || !strings.Contains(err.Error(), `storing scenario "third", of which nothing is there`) {
		t.Errorf("found %v, want that nothing is there", err)
	}
	if list, err := db.Scenarios(ctx); err != nil || len(list) != 2 {
		t.Errorf("found %v, %v, want two", list, err)
	}
}

// testReading: what is read in several steps is of one moment, though another one writes in between: with PostgreSQL it
// does, and with SQLite it waits, here for no time.
func testReading(t *testing.T, url string) {
	ctx, rng := t.Context(), seed.Rand(t)
	db, other := open(t, url), open(t, url)
	name := func(layer, edge int) string { return fmt.Sprint("old ", edge) }
	g, more := draw(t, rng, 30, 90), draw(t, rng, 40, 90)
	s, err := db.CreateStored(ctx, Scenario{Name: "one"}, g, Content{EdgeName: name})
	if err != nil {
		t.Fatal(err)
	}
	if db.dialect() == "sqlite" {
		if _, err := other.exec(ctx, "PRAGMA busy_timeout = 0"); err != nil {
			t.Fatal(err)
		}
	}
	write := func() error { return other.Store(ctx, s.ID, more, Content{Vertices: make([]Vertex, 40)}) }
	err = db.Reading(ctx, func() error {
		got, err := db.Load(ctx, s.ID)
		if err != nil {
			return err
		}
		same(t, got, g)
		if err := write(); (err == nil) != (db.dialect() == "postgres") {
			t.Errorf("the writer: %v", err)
		}
		list, err := db.Vertices(ctx, s.ID, nil)
		names := 0
		err = errors.Join(err, db.EdgeNames(ctx, s.ID, func(int, uint32, uint32, string) error {
			names++
			return nil
		}))
		if len(list) != 30 || names != g.Edges() {
			t.Errorf("found %d vertices, %d names of edges, want 30 and %d", len(list), names, g.Edges())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := write(); err != nil {
		t.Fatal(err)
	}
	got, err := db.Load(ctx, s.ID)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, more)
	want := errors.New("it ends")
	if err := db.Reading(ctx, func() error { return want }); !errors.Is(err, want) {
		t.Errorf("found %v, want %v", err, want)
	}
}

// TestOtherKinds: values of another kind in the graph's tables are refused, and not read as a number that isn't there.
func TestOtherKinds(t *testing.T) {
	ctx := t.Context()
	for _, c := range []struct{ sql, want string }{
		{"UPDATE graph_edges SET weight = '5x'", `layer_id "3", source_idx "0", target_idx "1", weight "5x": want ` +
			"weight that is a number"},
		{"UPDATE graph_edges SET weight = '5x' WHERE source_idx = 1", `edges, layer 3, row with source_idx "1", ` +
			`target_idx "0", weight "5x": want weight that is a number`},
		{"UPDATE graph_edges SET weight = x'31'", "want weight that is a number"},
		{"UPDATE graph_edges SET layer_id = 'a'", `layer_id "a", source_idx "0", target_idx "1"`},
		{"UPDATE graph_edges SET target_idx = 0.5", "want target_idx that is a whole number"},
		{"UPDATE graph_vertices SET vertex_index = 1.5 WHERE vertex_index = 1", "table vertices, row with"},
		{"UPDATE graph_vertex_labels SET vertex_index = 'b'", `vertex_index "b", label_id "1": want vertex_index that`},
	} {
		db := open(t, "sqlite:"+filepath.Join(t.TempDir(), "x.db"))
		g, err := graph.New(2, map[int]graph.Edges{3: {Source: []uint32{0, 1}, Target: []uint32{1, 0}}})
		if err != nil {
			t.Fatal(err)
		}
		if g, err = g.WithLabels([]graph.Label{{Type: "a", Value: "b"}}, []uint32{0}, []uint32{0}); err != nil {
			t.Fatal(err)
		}
		s, err := db.CreateStored(ctx, Scenario{Name: "one"}, g, Content{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.exec(ctx, c.sql); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Load(ctx, s.ID); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: found %v, want %s", c.sql, err, c.want)
		}
	}
}

// TestExisting: a database that isn't there isn't made by who looks into it.
func TestExisting(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "x.db")
	if _, err := OpenExisting(t.Context(), "sqlite:"+file); !errors.Is(err, ErrNoTables) {
		t.Errorf("found %v, want that there are no tables", err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil { // which is an empty database of SQLite
		t.Fatal(err)
	}
	if _, err := OpenExisting(t.Context(), "sqlite:"+file); !errors.Is(err, ErrNoTables) {
		t.Errorf("found %v, want that there are no tables", err)
	}
	open(t, "sqlite:"+file)
	db, err := OpenExisting(t.Context(), "sqlite:"+file)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// testPanic: where the name of an edge panics so does the store, nothing has changed, and the connection can be used.
func testPanic(t *testing.T, url string) {
	ctx, rng := t.Context(), seed.Rand(t)
	db := open(t, url)
	g := draw(t, rng, 40, 100)
	s, err := db.CreateStored(ctx, Scenario{Name: "one"}, g, Content{})
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if p := recover(); p != "it panics" {
				t.Errorf("found the panic %v", p)
			}
		}()
		more := draw(t, rng, 40, 100)
		first := more.Layers()[0]
		err := db.Store(ctx, s.ID, more, Content{EdgeName: func(layer, edge int) string {
			if layer == first && edge == more.Layer(first).Edges()/2 {
				panic("it panics")
			}
			return ""
		}})
		t.Errorf("found %v, want a panic", err)
	}()
	got, err := db.Load(ctx, s.ID)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, g)
	if err := db.Store(ctx, s.ID, g, Content{}); err != nil {
		t.Error(err)
	}
}

// TestFullAndReadOnly: a file that can't grow, and one that may only be read, stay as they are.
func TestFullAndReadOnly(t *testing.T) {
	ctx, rng := t.Context(), seed.Rand(t)
	file := filepath.Join(t.TempDir(), "x.db")
	db := open(t, "sqlite:"+file)
	g := draw(t, rng, 50, 100)
	s, err := db.CreateStored(ctx, Scenario{Name: "one"}, g, Content{})
	if err != nil {
		t.Fatal(err)
	}
	unchanged := func(db *DB) {
		t.Helper()
		got, err := db.Load(ctx, s.ID)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, g)
	}
	if _, err := db.exec(ctx, "PRAGMA max_page_count = 1"); err != nil { // as many as there are
		t.Fatal(err)
	}
	long := make([]Vertex, 50)
	for v := range long {
		long[v].Name = strings.Repeat("long ", 5000)
	}
	err = db.Store(ctx, s.ID, g, Content{Vertices: long})
	if err == nil || !strings.Contains(err.Error(), "full") || !strings.Contains(err.Error(), "as it was before") {
		t.Errorf("found %v, want that the disk is full", err)
	}
	unchanged(db)
	e, err := openLite(ctx, file, true)
	if err != nil {
		t.Fatal(err)
	}
	readOnly := &DB{engine: e, url: "sqlite:" + file}
	if err := readOnly.Store(ctx, s.ID, g, Content{Vertices: long}); err == nil ||
		!strings.Contains(err.Error(), "readonly") {
		t.Errorf("found %v, want that it may only be read", err)
	}
	unchanged(readOnly)
	if err := readOnly.Close(); err != nil {
		t.Error(err)
	}
}

// TestPostgresFullAndReadOnly: a server whose files can't grow, and a session that may only read, leave all as it is.
func TestPostgresFullAndReadOnly(t *testing.T) {
	ctx, rng := t.Context(), seed.Rand(t)
	if _, err := exec.LookPath("prlimit"); err != nil {
		storeserver.Need(t, fmt.Errorf("prlimit %w", storeserver.ErrAbsent))
	}
	server, err := storeserver.StartPostgres(ctx)
	storeserver.Need(t, err)
	t.Cleanup(server.Close)
	db := open(t, server.URL())
	g := draw(t, rng, 60, 100)
	s, err := db.CreateStored(ctx, Scenario{Name: "one"}, g, Content{})
	if err != nil {
		t.Fatal(err)
	}
	refused := func(db *DB, content Content, want string) {
		t.Helper()
		err := db.Store(ctx, s.ID, g, content)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "as it was before") {
			t.Errorf("found %v, want %q", err, want)
		}
		got, err := db.Load(ctx, s.ID)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, g)
	}
	reads := open(t, server.URL()+"&options=-c%20default_transaction_read_only%3Don")
	refused(reads, Content{}, "read-only transaction")
	// Files of the log have 16 MiB, and stay below it; the vertices' names have 60.
	if _, err := db.exec(ctx, "COPY (SELECT 1) TO PROGRAM 'prlimit --pid $PPID --fsize=33554432 && cat'"); err != nil {
		t.Fatal(err)
	}
	long := make([]Vertex, 60)
	for v := range long {
		b := make([]byte, 1<<20)
		for i := range b {
			b[i] = byte(' ' + rng.IntN(95))
		}
		long[v].Name = string(b)
	}
	refused(db, Content{Vertices: long}, "could not")
}

// TestTwoWriters: both store one scenario, and what is there is of one of them.
func TestTwoWriters(t *testing.T) {
	for name, url := range both(t) {
		db := open(t, url)
		id := create(t, db, "one")
		rng := seed.Rand(t)
		graphs := []*graph.Graph{draw(t, rng, 40, 500), draw(t, rng, 40, 500)}
		var wait sync.WaitGroup
		for _, g := range graphs {
			own := open(t, url)
			wait.Go(func() {
				for range 5 {
					if err := own.Store(t.Context(), id, g, Content{}); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			})
		}
		wait.Wait()
		got, err := db.Load(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if one := graphs[0]; !slices.Equal(got.Layers(), one.Layers()) || got.Edges() != one.Edges() {
			same(t, got, graphs[1])
		} else {
			same(t, got, one)
		}
	}
}

// TestTwoLargeWriters: both make scenarios of so many edges that indexes are made anew, and neither waits for the other
// one for ever.
func TestTwoLargeWriters(t *testing.T) {
	if testing.Short() {
		t.Skip("SQLite, as Go, takes minutes for it under the race detector")
	}
	ctx := t.Context()
	const vertices = 400
	var e graph.Edges
	for i := range uint32(manyEdges) {
		e.Source, e.Target = append(e.Source, i/vertices), append(e.Target, i%vertices)
	}
	g, err := graph.New(vertices, map[int]graph.Edges{0: e})
	if err != nil {
		t.Fatal(err)
	}
	for name, url := range both(t) {
		if race.Enabled && name == "sqlite" {
			continue // a store takes ten times as long there, and a writer waits half a minute for another one
		}
		db := open(t, url)
		var wait sync.WaitGroup
		for i := range 2 {
			own := open(t, url)
			wait.Go(func() {
				for k := range 2 {
					if _, err := own.CreateStored(ctx, Scenario{Name: fmt.Sprint(i, k)}, g, Content{}); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			})
		}
		wait.Wait()
		list, err := db.Scenarios(ctx)
		if err != nil || len(list) != 4 {
			t.Fatalf("%s: found %v, %v, want four", name, list, err)
		}
		for _, s := range list {
			got, err := db.Load(ctx, s.ID)
			if err != nil {
				t.Fatal(err)
			}
			same(t, got, g)
		}
	}
}

// both are URLs of a new database of either kind.
func both(t *testing.T) map[string]string {
	t.Helper()
	server, err := storeserver.StartPostgres(t.Context())
	storeserver.Need(t, err)
	t.Cleanup(server.Close)
	return map[string]string{"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "x.db"), "postgres": server.URL()}
}

// TestLost: the server is killed in the middle of a store, and when it runs again what was there is there.
func TestLost(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	rng := seed.Rand(t)
	server, err := storeserver.StartPostgres(ctx)
	storeserver.Need(t, err)
	t.Cleanup(server.Close)
	db, err := Open(ctx, server.URL())
	if err != nil {
		t.Fatal(err)
	}
	g := draw(t, rng, 40, 500)
	s, err := db.CreateStored(ctx, Scenario{Name: "one"}, g, Content{})
	if err != nil {
		t.Fatal(err)
	}
	more := draw(t, rng, 40, 500)
	lost := func(_, edge int) string {
		if edge == more.Layer(more.Layers()[0]).Edges()/2 {
			server.Kill()
		}
		return ""
	}
	err = db.Store(ctx, s.ID, more, Content{EdgeName: lost})
	if err == nil || !strings.Contains(err.Error(), "as it was before") ||
		!strings.Contains(err.Error(), "the connection to the server is lost: do this again") {
		t.Errorf("found %v, want that the scenario is as it was", err)
	}
	_ = db.Close() // its connection is lost
	// A process of the killed server may not have ended yet; then the next one doesn't start.
	again := func() error { return errors.Join(server.Start(), server.Ready(ctx)) }
	for err = again(); err != nil && ctx.Err() == nil; err = again() {
		server.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := open(t, server.URL()).Load(ctx, s.ID)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, g)
}

// TestWrongPassword: the error says so, without either password; and a server that isn't there is an error as well.
func TestWrongPassword(t *testing.T) {
	ctx := t.Context()
	server, err := storeserver.StartPostgres(ctx)
	storeserver.Need(t, err)
	t.Cleanup(server.Close)
	db := open(t, server.URL())
	for _, sql := range []string{"CREATE ROLE locked LOGIN PASSWORD 'right'", "COPY (SELECT 'local all locked " +
		"scram-sha-256') TO PROGRAM 'cat > pg_hba.conf'", "SELECT pg_reload_conf()::text"} {
		if _, err := db.exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	folder := strings.TrimPrefix(server.URL(), "postgres:///postgres?user=test&host=")
	for url, want := range map[string]string{
		"postgres://locked:hidden@/postgres?host=" + folder:      "password authentication failed",
		"postgres://locked:hidden@/postgres?host=" + t.TempDir(): "no such file or directory",
	} {
		_, err := Open(ctx, url)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("found %v, want %q", err, want)
		}
	}
}
