// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/graph"
	"github.com/disco-sim/disco/internal/storeserver"
)

// waitsForLock returns when a connection waits for what another one holds.
func waitsForLock(t *testing.T, db *DB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for waiting := false; !waiting; time.Sleep(time.Millisecond) {
		err := db.query(ctx, "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'", nil, func(Row) error {
			waiting = true
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestDeletedMeanwhile: who stores a scenario, or copies it, while another one deletes it, is told, and nothing of it
// is left. A name that another one takes meanwhile is taken.
func TestDeletedMeanwhile(t *testing.T) {
	ctx := t.Context()
	server, err := storeserver.StartPostgres(ctx)
	storeserver.Need(t, err)
	t.Cleanup(server.Close)
	first, second, third := open(t, server.URL()), open(t, server.URL()), open(t, server.URL())
	g, err := graph.New(2, map[int]graph.Edges{0: {Source: []uint32{0}, Target: []uint32{1}, Weight: []float64{1}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func(id int64) error{
		"store": func(id int64) error { return second.Store(ctx, id, g, Content{}) },
		"copy": func(id int64) error {
			_, err := second.Copy(ctx, id, Scenario{Name: "copy"})
			return err
		},
		"delete": func(id int64) error { return second.Delete(ctx, id) },
	} {
		s, err := first.CreateStored(ctx, Scenario{Name: name}, g, Content{})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		err = within(ctx, first.engine, true, func() error {
			if _, err := first.lock(ctx, s.ID); err != nil {
				return err
			}
			go func() { done <- do(s.ID) }()
			waitsForLock(t, third)
			for table, column := range map[string]string{"vertices": "scenario_id", "edges": "scenario_id",
				"scenarios": "id"} {
				if _, err := first.exec(ctx, "DELETE FROM graph."+table+" WHERE "+column+" = $1", s.ID); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var gone *NotFoundError
		if err := <-done; !errors.As(err, &gone) {
			t.Errorf("%s: found %v, want that there is no such scenario", name, err)
		}
		left := 0
		for _, table := range []string{"vertices", "edges", "scenarios"} {
			err := third.query(ctx, "SELECT 1 FROM graph."+table, nil, func(Row) error {
				left++
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if left > 0 {
			t.Errorf("%s: %d rows are left", name, left)
		}
	}
	done := make(chan error, 1)
	err = within(ctx, first.engine, true, func() error {
		_, err := first.create(ctx, Scenario{Name: "one"})
		go func() {
			_, err := second.CreateStored(ctx, Scenario{Name: "one"}, g, Content{})
			done <- err
		}()
		waitsForLock(t, third)
		return err
	})
	var taken *ExistsError
	if other := <-done; err != nil || !errors.As(other, &taken) {
		t.Errorf("found %v, %v, want that the name is taken", err, other)
	}
}

// TestMember: who may write into the tables, and doesn't own them, stores large graphs, too.
func TestMember(t *testing.T) {
	ctx := t.Context()
	server, err := storeserver.StartPostgres(ctx)
	storeserver.Need(t, err)
	t.Cleanup(server.Close)
	owner := open(t, server.URL())
	for _, sql := range []string{"CREATE ROLE member LOGIN", "GRANT USAGE ON SCHEMA graph TO member",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA graph TO member"} {
		if _, err := owner.exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	const vertices = 400
	var e graph.Edges
	for i := range uint32(manyEdges) {
		e.Source, e.Target, e.Weight = append(e.Source, i/vertices), append(e.Target, i%vertices), append(e.Weight, 1)
	}
	g, err := graph.New(vertices, map[int]graph.Edges{0: e})
	if err != nil {
		t.Fatal(err)
	}
	db := open(t, strings.Replace(server.URL(), "user=test", "user=member", 1))
	s, err := db.CreateStored(ctx, Scenario{Name: "large"}, g, Content{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := owner.Load(ctx, s.ID)
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, g)
	for _, of := range []struct {
		db   *DB
		want bool
	}{{owner, true}, {db, false}} {
		if owns, err := of.db.engine.(*post).ownsEdges(ctx); err != nil || owns != of.want {
			t.Errorf("found %v, %v, want %v", owns, err, of.want)
		}
	}
}

// TestShown: no message has a password, wherever a URL has one.
func TestShown(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://u@h/d":                           "postgres://u@h/d",
		"postgres://u:hidden@h/d":                    "postgres://u:***@h/d",
		"postgres://u:hid@den@h/d":                   "postgres://u:***@h/d",
		"postgres://u:hid?den@h/d":                   "postgres://***",
		"postgres://u:hid/den@h/d?x=1":               "postgres://u:***@h/d?x=1",
		"postgres://u@h/d?x=a@b&password=hidden&y=1": "postgres://u@h/d?x=a@b&password=***&y=1",
		"postgres:///d?host=/tmp&sslPassword=hidden": "postgres:///d?host=/tmp&sslPassword=***",
		"sqlite:a:b@c?password=x":                    "sqlite:a:b@c?password=x",
	} {
		if got := shown(url); got != want {
			t.Errorf("%s: found %s, want %s", url, got, want)
		}
	}
	for url, good := range map[string]bool{"postgres://u:hid@den@h/d": false, "postgres://u:hid/den@h/d": false,
		"postgres://u:hid?den@h/d": false, "postgres://u:hid%40den@h/d": true, "postgres://u@h/d?x=a@b": true,
		"postgres:///d?host=/tmp": true} {
		if err := checkURL(url); (err == nil) != good {
			t.Errorf("%s: %v", url, err)
		}
	}
	_, err := Open(t.Context(), "postgres://u:hid@den@127.0.0.1:1/d")
	if err == nil || strings.Contains(err.Error(), "den") {
		t.Error(err)
	}
}
