// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
)

// busyTime is how long a writer waits for another one.
const busyTime = 30 * time.Second

// lite is a SQLite file.
type lite struct {
	conn   *sqlite.Conn
	file   string
	is     os.FileInfo // of file when it was opened
	coming coming
	beside *beside // in a transaction that stores a large graph
}

// pageSize is that of a new file. With SQLite's own, 4 KiB, a store and a load of 10^7 edges took 5 % longer.
const pageSize = "page_size = 16384"

func openLite(ctx context.Context, file string, readOnly bool) (engine, error) {
	l, err := openWaiting(ctx, file, readOnly, busyTime)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// openWaiting opens a file, and waits for others so long; the first statement may have to.
func openWaiting(ctx context.Context, file string, readOnly bool, wait time.Duration) (*lite, error) {
	flags := sqlite.OpenReadWrite | sqlite.OpenCreate
	if readOnly {
		flags = sqlite.OpenReadOnly
	}
	l := &lite{file: file}
	conn, err := sqlite.OpenConn(file, flags)
	if err != nil {
		return nil, l.said(err)
	}
	l.conn = conn
	if l.is, err = os.Stat(file); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	conn.SetBusyTimeout(wait)
	if err := conn.SetModule(comingTable, l.module()); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	for _, pragma := range []string{pageSize, "foreign_keys = ON", "cache_size = -131072", "temp_store = MEMORY"} {
		if _, err := l.exec(ctx, "PRAGMA "+pragma); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return l, nil
}

func (l *lite) dialect() string { return "sqlite" }
func (l *lite) close() error    { return l.conn.Close() }

func (l *lite) named(name string) (Table, string) {
	return Table{Name: "graph_" + name}, "graph_" + name
}

// text is a statement as SQLite has it: without schemas, and with other parameters. What is quoted is a user's.
func (l *lite) text(sql string) string {
	parts := strings.Split(sql, `"`)
	for i := 0; i < len(parts); i += 2 {
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(parts[i], "graph.", "graph_"), "$", "?")
	}
	return strings.Join(parts, `"`)
}

func (l *lite) exec(ctx context.Context, sql string, params ...any) (int64, error) {
	err := l.query(ctx, sql, params, func(Row) error { return nil })
	return int64(l.conn.Changes()), err
}

func (l *lite) query(ctx context.Context, sql string, params []any, each func(Row) error) (err error) {
	before := l.conn.SetInterrupt(ctx.Done())
	defer l.conn.SetInterrupt(before)
	s, _, err := l.conn.PrepareTransient(l.text(sql))
	if err != nil {
		return l.said(err)
	}
	defer func() { err = errors.Join(err, s.Finalize()) }()
	for i, p := range params {
		switch p := p.(type) {
		case int64:
			s.BindInt64(i+1, p)
		case float64:
			s.BindFloat(i+1, p)
		case string:
			s.BindText(i+1, p)
		case nil:
			s.BindNull(i + 1)
		default:
			return fmt.Errorf("sqldb: a parameter of type %T", p)
		}
	}
	r := liteRow{s}
	for {
		if more, err := s.Step(); err != nil || !more {
			return l.said(err)
		}
		if err := each(r); err != nil {
			return err
		}
	}
}

type liteRow struct{ s *sqlite.Stmt }

func (r liteRow) Int(i int) int64     { return r.s.ColumnInt64(i) }
func (r liteRow) Float(i int) float64 { return r.s.ColumnFloat(i) }
func (r liteRow) Text(i int) string   { return r.s.ColumnText(i) }
func (r liteRow) Null(i int) bool     { return r.s.ColumnType(i) == sqlite.TypeNull }

func (r liteRow) Kind(i int) Kind {
	switch r.s.ColumnType(i) {
	case sqlite.TypeInteger:
		return Int
	case sqlite.TypeFloat:
		return Float
	}
	return Text
}

// bulk is one INSERT of all rows of comingTable. A statement for each row took 2.2 times as long: each opens the table
// anew, and descends from its root.
func (l *lite) bulk(ctx context.Context, table string, columns []column, rows int) error {
	l.coming = coming{rows: rows}
	names, from := make([]string, len(columns)), make([]string, len(columns))
	var params []any
	for i, c := range columns {
		names[i] = c.name
		if c.varies() {
			from[i] = fmt.Sprintf("c%d", len(l.coming.columns))
			l.coming.columns = append(l.coming.columns, c)
		} else {
			params = append(params, c.same)
			from[i] = fmt.Sprintf("$%d", len(params))
		}
	}
	if len(l.coming.columns) > comingMax {
		return fmt.Errorf("sqldb: %d columns that vary, want at most %d", len(l.coming.columns), comingMax)
	}
	defer func() { l.coming = coming{} }()
	_, err := l.exec(ctx, fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s", table, strings.Join(names, ", "),
		strings.Join(from, ", "), comingTable), params...)
	if p := l.coming.panicked; p != nil {
		panic(p)
	}
	return err
}

func (l *lite) begin(ctx context.Context, write bool) error {
	how := "BEGIN"
	if write {
		how = "BEGIN IMMEDIATE" // it waits for another writer now, and not in the middle
	}
	_, err := l.exec(ctx, how)
	return err
}

func (l *lite) end(ctx context.Context, commit bool) error {
	_, err := l.exec(ctx, endSQL(commit))
	if err == nil || !commit {
		l.endBeside(ctx)
	}
	return err
}

// also is another connection to the file: while this one reads, nobody writes to it, unless changes go to a log (WAL).
// Where a writer waits for this one, which lets nobody else in, or another file has the name by now, there is none.
func (l *lite) also(ctx context.Context) (engine, error) {
	mode := ""
	err := l.query(ctx, "PRAGMA journal_mode", nil, func(r Row) error {
		mode = r.Text(0)
		return nil
	})
	if err != nil || mode == "wal" {
		return nil, err
	}
	more, err := openWaiting(ctx, l.file, true, 0)
	if err != nil {
		return nil, nil
	}
	for _, sql := range []string{"PRAGMA cache_size = -2000", "BEGIN", "SELECT version FROM graph.version"} {
		if _, err := more.exec(ctx, sql); err != nil {
			return nil, more.close()
		}
	}
	if !os.SameFile(more.is, l.is) {
		return nil, more.close()
	}
	return more, nil
}

func (l *lite) chosen(column string, n int, vertices []uint32) (string, any) {
	b := []byte{'['}
	for i, v := range vertices {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(v), 10)
	}
	return fmt.Sprintf("%s IN (SELECT value FROM json_each($%d))", column, n), string(append(b, ']'))
}

func (l *lite) edgesSQL(column string, vertices []uint32) (string, any) {
	where, param := l.chosen(column, 3, vertices)
	table := "graph.edges"
	if column == "target_idx" { // and by source the key is the table
		table += " INDEXED BY graph_edges_target"
	}
	return layerSQL(table, " AND "+where), param
}

// columns has kinds as columns were declared, by SQLite's own rules for that ("Datatypes In SQLite", section 3.1, of
// its manual), but for columns of any kind of number, which are floats.
func (l *lite) columns(ctx context.Context, t Table) (list []Column, err error) {
	schema := t.Schema
	if schema == "" {
		schema = "main"
	}
	there := false
	err = l.query(ctx, "SELECT 1 FROM pragma_database_list WHERE name = $1 COLLATE NOCASE", []any{schema},
		func(Row) error {
			there = true
			return nil
		})
	if err != nil || !there {
		return nil, err
	}
	err = l.query(ctx, "SELECT name, upper(type) FROM pragma_table_info($1, $2)", []any{t.Name, schema},
		func(r Row) error {
			list = append(list, Column{r.Text(0), liteKind(r.Text(1))})
			return nil
		})
	return list, err
}

func liteKind(declared string) Kind {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(declared, w) })
	}
	switch {
	case has("INT"):
		return Int
	case declared == "" || has("CHAR", "CLOB", "TEXT", "BLOB", "DATE", "TIME", "JSON"):
		return Text
	}
	return Float
}

// plain is the column itself: a value of SQLite may be of another kind than its column.
func (l *lite) plain(c Column) string { return quoted(c.Name) }

func (l *lite) ago(d time.Duration) string {
	return fmt.Sprintf("strftime('%%Y-%%m-%%dT%%H:%%M:%%SZ', 'now', '%d seconds')", -int64(d.Seconds()))
}

func (l *lite) version(ctx context.Context) (v int, err error) {
	if _, err := l.exec(ctx, "CREATE TABLE IF NOT EXISTS graph.version (version INTEGER NOT NULL)"); err != nil {
		return 0, err
	}
	err = l.query(ctx, "SELECT max(version) FROM graph.version", nil, func(r Row) (err error) {
		v, err = versionOf(r)
		return err
	})
	return v, err
}
