// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/disco-sim/disco/graph"
	"github.com/disco-sim/disco/graph/sqldb"
)

// engineNames are the engines in the order in which they are measured.
var engineNames = []string{"memory", "sqlite", "postgres", "files"}

// engines prepare the rows of an engine.
var engines = map[string]func(context.Context, *world) ([]job, func(), error){
	"memory": memory, "sqlite": sqlite, "postgres": postgres, "files": files,
}

// rowNames are the names of all rows.
func rowNames() []string {
	return []string{"csr-sorted", "csr-shuffled", "bytes", "select-10", "store", "replace", "load", "load-file",
		"out-1", "out-10", "in-1", "csv-export", "csv-import", "parquet-export", "parquet-import"}
}

// driver is a database's own client, in the shortest way that it has.
type driver interface {
	// insert writes the edges of all layers into a new table without keys, and commits.
	insert(ctx context.Context, w *world) error
	// read reads a scenario's edges as columns, in order; where is behind the scenario's id, $1, with its parameter.
	read(ctx context.Context, scenario int64, where string, params ...any) (graph.Edges, error)
	// among is a condition that column is one of vertices.
	among(column string, vertices []uint32) (where string, param any)
}

// Goals (issue 15) of 10^6 vertices and 10^7 edges.
var goals = map[string]map[string]goal{
	"sqlite":   {"store": {seconds: 25}, "load": {seconds: 3}},
	"postgres": {"store": {seconds: 60}, "load": {seconds: 7}},
}

const maskRatio = 1.5

// databaseJobs are the rows of a database at a URL, beside its driver. file is what a load could at best read, "": no
// file.
func databaseJobs(ctx context.Context, w *world, kind, url, file string, d driver) ([]job, func(), error) {
	db, err := sqldb.Open(ctx, url)
	if err != nil {
		return nil, nil, err
	}
	end := func() { _ = db.Close() }
	content := sqldb.Content{Vertices: w.names}
	s, err := db.CreateStored(ctx, sqldb.Scenario{Name: "measured"}, w.g, content)
	if err != nil {
		end()
		return nil, nil, err
	}
	goals := goals[kind]
	if w.vertices != 1_000_000 || w.options.edges != 10_000_000 {
		goals = nil // they are of that size
	}
	insert := timed(func(ctx context.Context) error { return d.insert(ctx, w) })
	load := timed(func(ctx context.Context) error {
		g, err := db.Load(ctx, s.ID)
		if err != nil {
			return err
		}
		return counted(g.Edges(), w.edges)
	})
	jobs := []job{{name: "store", goal: goals["store"], bare: insert, ours: func(ctx context.Context, t *watch) error {
		if err := db.Delete(ctx, s.ID); err != nil {
			return err
		}
		t.start()
		defer t.stop()
		var err error
		s, err = db.CreateStored(ctx, sqldb.Scenario{Name: "measured"}, w.g, content)
		return err
	}}, {name: "replace", bare: insert, ours: timed(func(ctx context.Context) error {
		return db.Store(ctx, s.ID, w.g, content)
	})}, {name: "load", goal: goals["load"], ours: load, bare: timed(func(ctx context.Context) error {
		e, err := d.read(ctx, s.ID, "ORDER BY layer_id, source_idx, target_idx")
		return errors.Join(err, counted(len(e.Source), w.edges))
	})}}
	if file != "" {
		jobs = append(jobs, job{name: "load-file", ours: load, bare: timed(func(context.Context) error {
			f, err := os.Open(file)
			if err != nil {
				return err
			}
			_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, make([]byte, 1<<20))
			return errors.Join(err, f.Close())
		})})
	}
	for _, m := range []struct {
		name, column, mask string
	}{{"out-1", "source_idx", "1"}, {"out-10", "source_idx", "10"}, {"in-1", "target_idx", "1"}} {
		j, err := maskJob(ctx, w, db, &s, d, m.column, w.masks[m.mask])
		if err != nil {
			end()
			return nil, nil, err
		}
		j.name, j.goal = m.name, goal{ratio: maskRatio, wall: kind == "postgres"}
		jobs = append(jobs, *j)
	}
	return jobs, end, nil
}

// maskJob is a part of a layer by mask, beside the quickest of three forms of SQL in the same round: a list that is
// sent along, a join with a mask in the database, and all of the layer, filtered here.
func maskJob(ctx context.Context, w *world, db *sqldb.DB, s *sqldb.Scenario, d driver, column string, m *graph.Mask) (
	*job, error) {
	const layer = 1
	l, wanted := w.g.Layer(layer), 0
	other, by := "target_idx", db.Out
	for v := range m.All() {
		if column == "source_idx" {
			wanted += l.Out(v).Len()
		} else {
			wanted += l.In(v).Len()
		}
	}
	if column != "source_idx" {
		other, by = "source_idx", db.In
	}
	mask := ""
	bare := func(ctx context.Context, t *watch) error {
		id, err := db.SaveMask(ctx, s.ID, m)
		if err != nil {
			return err
		}
		mask = id
		where, param := d.among(column, m.Vertices())
		const of = "AND layer_id = 1 "
		order := " ORDER BY " + column + ", " + other
		for i, form := range []func() (graph.Edges, error){
			func() (graph.Edges, error) { return d.read(ctx, s.ID, of+"AND "+where+order, param) },
			func() (graph.Edges, error) {
				return d.read(ctx, s.ID, of+"AND "+column+" IN (SELECT vertex_index FROM graph.vertex_masks WHERE "+
					"scenario_id = $1 AND mask_id = $2)"+order, mask)
			},
			func() (graph.Edges, error) {
				e, err := d.read(ctx, s.ID, of+order)
				return chosen(e, column, m), err
			},
		} {
			own := watch{server: t.server}
			own.start()
			e, err := form()
			own.stop()
			if err := errors.Join(err, counted(len(e.Source), wanted)); err != nil {
				return fmt.Errorf("form %d: %w", i, err)
			}
			if i == 0 || own.wall < t.wall {
				t.wall, t.cpu = own.wall, own.cpu
			}
		}
		return db.DeleteMask(ctx, s.ID, mask)
	}
	return &job{bare: bare, ours: timed(func(ctx context.Context) error {
		part, err := by(ctx, s.ID, layer, m)
		if err != nil {
			return err
		}
		return counted(part.Edges(), wanted)
	})}, db.CleanMasks(ctx, time.Hour)
}

// chosen are the edges with an end in a mask.
func chosen(e graph.Edges, column string, m *graph.Mask) (c graph.Edges) {
	ends := e.Source
	if column != "source_idx" {
		ends = e.Target
	}
	for i, v := range ends {
		if m.Has(int(v)) {
			c.Source, c.Target = append(c.Source, e.Source[i]), append(c.Target, e.Target[i])
			c.Weight = append(c.Weight, e.Weight[i])
		}
	}
	return c
}

// sqlite has the rows of a file of SQLite.
func sqlite(ctx context.Context, w *world) ([]job, func(), error) {
	file := filepath.Join(w.temp, "graphs.db")
	d := &lite{file: file, other: filepath.Join(w.temp, "bare.db")}
	jobs, end, err := databaseJobs(ctx, w, "sqlite", "sqlite:"+file, file, d)
	return jobs, func() { d.close(); end() }, err
}
