// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/seed"
	"github.com/disco-sim/disco/internal/storeserver"
)

// processors has so many of them for a test, since a load has a connection for each.
func processors(t *testing.T, n int) {
	before := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// testPieces loads a graph that several connections read, each a part of it, whole and with rows that no graph may
// have.
func testPieces(t *testing.T, url string) {
	processors(t, 3)
	ctx, db := t.Context(), open(t, url)
	g := many(t, seed.Rand(t))
	s, err := db.CreateStored(ctx, Scenario{Name: "one"}, g, Content{})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Reading(ctx, func() error {
		list, err := db.readers(ctx, s.ID)
		if len(list) != 3 {
			t.Errorf("found %d connections, want 3", len(list))
		}
		return errors.Join(err, closeAll(list[1:]))
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := db.Load(ctx, s.ID)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, g)
	for _, source := range []int64{-1, 700, 1 << 40} { // each worse than the one before, which is read first
		if _, err := db.exec(ctx, "INSERT INTO graph.edges VALUES ($1, 7, $2, 3, 1, NULL)", s.ID, source); err != nil {
			t.Fatal(err)
		}
		_, err := db.Load(ctx, s.ID)
		want := fmt.Sprintf("from vertex %d to vertex 3", source)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found %v, want %q", err, want)
		}
		if _, err := db.exec(ctx, "DELETE FROM graph.edges WHERE source_idx = $1", source); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReadersOfLog: with a log of changes another connection could see another moment, so there is none.
func TestReadersOfLog(t *testing.T) {
	processors(t, 3)
	ctx, db := t.Context(), open(t, "sqlite:"+filepath.Join(t.TempDir(), "x.db"))
	g := many(t, seed.Rand(t))
	s, err := db.CreateStored(ctx, Scenario{Name: "one"}, g, Content{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.exec(ctx, "PRAGMA journal_mode = wal"); err != nil {
		t.Fatal(err)
	}
	err = db.Reading(ctx, func() error {
		list, err := db.readers(ctx, s.ID)
		if len(list) != 1 {
			t.Errorf("found %d connections, want 1", len(list))
		}
		got, lerr := db.Load(ctx, s.ID)
		if err := errors.Join(err, lerr); err != nil {
			return err
		}
		same(t, got, g)
		return closeAll(list[1:])
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestReadersBesideWriter: a writer of SQLite that waits for one who reads lets nobody else in; a load doesn't wait for
// it then, since it would wait for the load.
func TestReadersBesideWriter(t *testing.T) {
	processors(t, 3)
	ctx, url := t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "x.db")
	db, writer, third := open(t, url), open(t, url), open(t, url)
	g := many(t, seed.Rand(t))
	s, err := db.CreateStored(ctx, Scenario{Name: "one"}, g, Content{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := third.exec(ctx, "PRAGMA busy_timeout = 0"); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	err = db.Reading(ctx, func() error {
		if _, err := db.byID(ctx, s.ID); err != nil { // from here on it reads
			return err
		}
		wait.Go(func() {
			if _, err := writer.Create(ctx, Scenario{Name: "two"}); err != nil {
				t.Errorf("the writer: %v", err)
			}
		})
		for { // until the writer waits
			if _, err := third.byID(ctx, s.ID); err != nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		began := time.Now()
		got, err := db.Load(ctx, s.ID)
		if err != nil {
			return err
		}
		same(t, got, g)
		if took := time.Since(began); took > busyTime/2 {
			t.Errorf("the load took %v", took)
		}
		return nil
	})
	wait.Wait()
	if err != nil {
		t.Fatal(err)
	}
}

// TestReadersWithoutRoom: who may have one connection to a server, and no more, loads by it.
func TestReadersWithoutRoom(t *testing.T) {
	processors(t, 3)
	ctx := t.Context()
	server, err := storeserver.StartPostgres(ctx)
	storeserver.Need(t, err)
	t.Cleanup(server.Close)
	db := open(t, server.URL())
	g := many(t, seed.Rand(t))
	s, err := db.CreateStored(ctx, Scenario{Name: "one"}, g, Content{})
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"CREATE ROLE alone LOGIN CONNECTION LIMIT 1", "GRANT USAGE ON SCHEMA graph TO alone",
		"GRANT SELECT ON ALL TABLES IN SCHEMA graph TO alone"} {
		if _, err := db.exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	alone := open(t, strings.Replace(server.URL(), "user=test", "user=alone", 1))
	err = alone.Reading(ctx, func() error {
		list, err := alone.readers(ctx, s.ID)
		if len(list) != 1 {
			t.Errorf("found %d connections, want 1", len(list))
		}
		return errors.Join(err, closeAll(list[1:]))
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := alone.Load(ctx, s.ID)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, g)
}
