// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"time"

	"github.com/disco-sim/disco/graph"
)

// engine is one kind of database. SQL is written with $1, $2 … for parameters and graph.TABLE for tables of graphs; an
// engine has its own form of both. One goroutine uses it.
type engine interface {
	// exec runs one statement, and returns how many rows it has changed. A parameter is an int64, a float64, a string
	// or nil.
	exec(ctx context.Context, sql string, params ...any) (int64, error)

	// query calls each for each row, which ends with the call. An error of each ends the query.
	query(ctx context.Context, sql string, params []any, each func(Row) error) error

	// bulk inserts rows into a table, in the fastest way there is.
	bulk(ctx context.Context, table string, columns []column, rows int) error

	// begin begins a transaction that only reads what was there when it began, or one that may write.
	begin(ctx context.Context, write bool) error

	// end ends it: with its changes, or without. What it can't end with them it must then end without.
	end(ctx context.Context, commit bool) error

	// also is another connection, which sees what this one sees in its transaction that only reads; nil where none can
	// be had. Another goroutine may use it. It is closed before that transaction ends.
	also(ctx context.Context) (engine, error)

	// chosen is a condition that column is one of vertices, with the parameter for it, the nth.
	chosen(column string, n int, vertices []uint32) (where string, param any)

	// edgesSQL reads source, target and weight of the edges of a layer that begin or end (column) at vertices, in any
	// order, by the index of that column, whatever statistics say: they are averages over all scenarios, and may take a
	// layer for small that isn't. Its parameters are scenario, layer and the one that is returned.
	edgesSQL(column string, vertices []uint32) (sql string, param any)

	// columns lists the columns of a user's table, in their order; none where there is no such table.
	columns(ctx context.Context, table Table) ([]Column, error)

	// plain is an expression for a user's column, quoted, of which every value is of the column's kind or NULL; where
	// the database doesn't hold that, Row.Kind tells.
	plain(column Column) string

	// ago is an expression for the time that was so long ago by the database's clock.
	ago(d time.Duration) string

	// deleteEdges deletes the edges of a scenario.
	deleteEdges(ctx context.Context, scenario int64) error

	// withoutIndexes takes away indexes of edges, where those of a scenario are replaced by so many that it is quicker
	// to make them anew at the end; it may look at edges that are there still. Edges without names take no time by the
	// index of names.
	withoutIndexes(ctx context.Context, scenario int64, g *graph.Graph, named bool) (anew func() error, err error)

	// analyze makes statistics. g, unless it is nil, is what has just been stored, without names of edges.
	analyze(ctx context.Context, scenario int64, g *graph.Graph) error
	version(ctx context.Context) (int, error) // 0: there are no tables yet
	dialect() string

	// named is the name of a table of graphs as users' tables have theirs, and of an index as CREATE INDEX has it.
	named(name string) (table Table, index string)
	close() error
}

// Kind is what the values of a column are.
type Kind int

// Kinds of columns. What is neither a whole number nor a float is Text, as the database shows it.
const (
	Text Kind = iota
	Int
	Float
)

// String is what a message calls a value of the kind.
func (k Kind) String() string { return [...]string{"text", "a whole number", "a number"}[k] }

// Column is a column of a user's table.
type Column struct {
	Name string
	Kind Kind
}

// Row is a row of a result. Columns are numbered from 0. Kind is that of a value that isn't NULL; what can't be had as
// it is asked for is zero or empty.
type Row interface {
	Int(column int) int64
	Float(column int) float64
	Text(column int) string
	Null(column int) bool
	Kind(column int) Kind
}

// column is what bulk writes into one column: ints, floats or text, by row, or the same value in all rows. Text is NULL
// where there is none.
type column struct {
	name   string
	narrow bool // an INT, not a BIGINT
	ints   func(row int) int64
	floats func(row int) float64
	text   func(row int) (string, bool)
	same   any // where there is no function: an int64, a string, or nil for NULL
}

// varies reports whether a column has its own value in each row.
func (c *column) varies() bool { return c.ints != nil || c.floats != nil || c.text != nil }

//go:embed migrations
var migrations embed.FS

// newest is the version of the tables that this program knows: there are so many migrations.
func newest(e engine) int { return map[string]int{"sqlite": 2, "postgres": 3}[e.dialect()] }

// migrate makes the tables what this program knows, in one transaction.
func migrate(ctx context.Context, e engine) error {
	return within(ctx, e, true, func() error {
		have, err := e.version(ctx)
		if err != nil {
			return err
		}
		if have > newest(e) {
			return fmt.Errorf("its tables are of version %d, and this program knows up to %d: use a newer program",
				have, newest(e))
		}
		for v := have + 1; v <= newest(e); v++ {
			text, err := migrations.ReadFile(fmt.Sprintf("migrations/%s-%d.sql", e.dialect(), v))
			if err != nil {
				return err
			}
			for statement := range strings.SplitSeq(string(text), ";\n") {
				if strings.TrimSpace(statement) == "" {
					continue
				}
				if _, err := e.exec(ctx, statement); err != nil {
					return err
				}
			}
			if _, err := e.exec(ctx, "INSERT INTO graph.version VALUES ($1)", int64(v)); err != nil {
				return err
			}
		}
		return nil
	})
}

// within does something in a transaction: all of it, or, with an error, nothing.
func within(ctx context.Context, e engine, write bool, do func() error) (err error) {
	if err := e.begin(ctx, write); err != nil {
		return err
	}
	done, ctx := false, context.WithoutCancel(ctx)
	defer func() { // by an error, also of COMMIT where another one reads for too long, or a panic
		if !done {
			_ = e.end(ctx, false) // a connection that is lost has rolled back
		}
	}()
	if err := do(); err != nil {
		return err
	}
	err = e.end(ctx, true)
	done = err == nil
	return err
}

func endSQL(commit bool) string {
	if commit {
		return "COMMIT"
	}
	return "ROLLBACK"
}

// quoted is a name as SQL has it, whatever is in it.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
