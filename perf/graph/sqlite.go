// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/graph"
	lib "zombiezen.com/go/sqlite"
)

// lite is the driver of SQLite.
type lite struct {
	file, other string
	conn        *lib.Conn // to file, from the first read on: with its pages in memory, as ours has them
}

func (l *lite) close() {
	if l.conn != nil {
		_ = l.conn.Close()
	}
}

func (l *lite) insert(_ context.Context, w *world) (err error) {
	if err := os.Remove(l.other); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	conn, err := lib.OpenConn(l.other, lib.OpenReadWrite, lib.OpenCreate)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	do := func(sql string) {
		if err == nil {
			err = l.do(conn, sql)
		}
	}
	do("CREATE TABLE edges (layer INTEGER, source INTEGER, target INTEGER, weight REAL)")
	do("BEGIN")
	if err != nil {
		return err
	}
	s, _, err := conn.PrepareTransient("INSERT INTO edges VALUES (?, ?, ?, ?)")
	if err != nil {
		return err
	}
	for id := range layerCount {
		e := w.layers[id]
		s.BindInt64(1, int64(id))
		for i, source := range e.Source {
			s.BindInt64(2, int64(source))
			s.BindInt64(3, int64(e.Target[i]))
			s.BindFloat(4, e.Weight[i])
			if _, err := s.Step(); err != nil {
				return errors.Join(err, s.Finalize())
			}
			if err := s.Reset(); err != nil {
				return errors.Join(err, s.Finalize())
			}
		}
	}
	if err := s.Finalize(); err != nil {
		return err
	}
	do("COMMIT")
	return err
}

func (l *lite) do(conn *lib.Conn, sql string) error {
	s, _, err := conn.PrepareTransient(sql)
	if err != nil {
		return err
	}
	_, err = s.Step()
	return errors.Join(err, s.Finalize())
}

func (l *lite) read(_ context.Context, scenario int64, where string, params ...any) (e graph.Edges, err error) {
	if l.conn == nil {
		if l.conn, err = lib.OpenConn(l.file, lib.OpenReadOnly); err != nil {
			return e, err
		}
		if err := l.do(l.conn, "PRAGMA cache_size = -131072"); err != nil {
			return e, err
		}
	}
	s, _, err := l.conn.PrepareTransient(strings.NewReplacer("graph.", "graph_", "$", "?").Replace(
		"SELECT source_idx, target_idx, weight FROM graph.edges WHERE scenario_id = $1 " + where))
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, s.Finalize()) }()
	s.BindInt64(1, scenario)
	for i, p := range params {
		s.BindText(2+i, p.(string))
	}
	for {
		more, err := s.Step()
		if err != nil || !more {
			return e, err
		}
		e.Source = append(e.Source, uint32(s.ColumnInt64(0)))
		e.Target, e.Weight = append(e.Target, uint32(s.ColumnInt64(1))), append(e.Weight, s.ColumnFloat(2))
	}
}

func (l *lite) among(column string, vertices []uint32) (string, any) {
	return column + " IN (SELECT value FROM json_each($2))", "[" + joined(vertices) + "]"
}

// joined is numbers with commas between.
func joined(vertices []uint32) string {
	var b []byte
	for i, v := range vertices {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(v), 10)
	}
	return string(b)
}
