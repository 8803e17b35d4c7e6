// SPDX-License-Identifier: Apache-2.0

// Package sqldb keeps layered graphs in a database: SQLite in a file, or PostgreSQL where a group shares data. Each
// graph is a scenario, with a name, and perhaps a scenario on which it is based.
//
// Guarantee: what is stored is there whole or not at all, and so is what is deleted; what is loaded is as it was at
// one moment, whatever others write meanwhile. Statistics are kept, so that the cost of a query follows the rows that
// it returns. Names of tables and columns are quoted: they are data, whatever they look like.
//
//	db, err := sqldb.Open(ctx, "sqlite:network.db") // or postgres://user@host/database
//	defer db.Close()
//	s, err := db.Create(ctx, sqldb.Scenario{Name: "base"})
//	err = db.Store(ctx, s.ID, g, sqldb.Content{})
//	g, err = db.Load(ctx, s.ID)
//
// The tables are those that migrations/ has; docs/graph.md says why. One goroutine uses a DB.
package sqldb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/disco-sim/disco/graph"
)

// DB is an open database.
type DB struct {
	engine
	url     string // without a password
	reading bool   // within Reading
}

// Scenario is a graph in the database.
type Scenario struct {
	ID          int64
	Name        string // its own: there is no second one
	Created     time.Time
	Base        int64 // the scenario that it is based on, 0: none
	Description string
}

// NotFoundError is that there is no such scenario.
type NotFoundError struct {
	What string
	Have []string // names of those that there are, at most ten
}

// Error says what there is.
func (e *NotFoundError) Error() string {
	if len(e.Have) == 0 {
		return fmt.Sprintf("found no %s: there is none in this database", e.What)
	}
	return fmt.Sprintf("found no %s, want one of: %s", e.What, strings.Join(e.Have, ", "))
}

// ExistsError is that a name is taken.
type ExistsError struct{ Name string }

// Error says what to do.
func (e *ExistsError) Error() string {
	return fmt.Sprintf("there is a scenario %q already: choose another name, or delete it first", e.Name)
}

// ErrNoTables is that a database has no tables of graphs.
var ErrNoTables = errors.New("found no tables of graphs")

// Open opens the database of a URL, sqlite:FILE or postgres://…, and makes the tables where they aren't there, or are
// of an earlier version. A file that isn't there is made. Errors say which database, without its password.
func Open(ctx context.Context, url string) (*DB, error) { return openDB(ctx, url, true) }

// OpenExisting is Open for a database that has the tables: where it hasn't, or isn't there, the error wraps
// ErrNoTables, and nothing is made.
func OpenExisting(ctx context.Context, url string) (*DB, error) { return openDB(ctx, url, false) }

func openDB(ctx context.Context, url string, create bool) (*DB, error) {
	db := &DB{url: shown(url)}
	var err error
	switch scheme, rest, _ := strings.Cut(url, ":"); scheme {
	case "sqlite":
		if rest == "" || strings.HasPrefix(rest, ":memory:") || strings.HasPrefix(rest, "file:") {
			return nil, fmt.Errorf("database %q: found no file, want sqlite:FILE", url)
		}
		if _, missing := os.Stat(rest); !create && errors.Is(missing, fs.ErrNotExist) {
			return nil, db.wrap(fmt.Errorf("%w: there is no such file", ErrNoTables))
		}
		db.engine, err = openLite(ctx, rest, unwritable(rest))
	case "postgres", "postgresql":
		if err := checkURL(url); err != nil {
			return nil, db.wrap(err)
		}
		db.engine, err = openPost(ctx, url)
	default:
		return nil, fmt.Errorf("database %q: found scheme %q, want sqlite:FILE or postgres://USER@HOST/DATABASE",
			db.url, scheme)
	}
	if err != nil {
		return nil, db.wrap(err)
	}
	if err := db.prepare(ctx, create); err != nil {
		return nil, errors.Join(db.wrap(err), db.close())
	}
	return db, nil
}

// unwritable reports whether a file is there and may only be read.
func unwritable(file string) bool {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err == nil {
		return f.Close() != nil
	}
	return errors.Is(err, os.ErrPermission)
}

// prepare makes the tables, unless they are there as they are to be.
func (db *DB) prepare(ctx context.Context, create bool) error {
	table, _ := db.named("version")
	columns, err := db.columns(ctx, table)
	switch {
	case err != nil || len(columns) == 0 && !create:
		return cmp.Or(err, ErrNoTables)
	case len(columns) == 0:
		return migrate(ctx, db.engine)
	case !slices.ContainsFunc(columns, func(c Column) bool { return c.Name == "version" }):
		return fmt.Errorf("table %v: found no column version: is it of another program?", table)
	}
	have := 0
	err = db.query(ctx, "SELECT max(version) FROM graph.version", nil, func(r Row) (err error) {
		have, err = versionOf(r)
		return err
	})
	if err != nil || have == newest(db.engine) {
		return err
	}
	return migrate(ctx, db.engine)
}

func (db *DB) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("database %s: %w", db.url, err)
}

// Close ends the use of the database.
func (db *DB) Close() error { return db.wrap(db.close()) }

const scenarioColumns = "id, name, created_at, coalesce(base_scenario_id, 0), coalesce(description, '')"

// Create makes a scenario without vertices. ID and Created of s are chosen here. A name that is taken is an
// *ExistsError, a base that there isn't a *NotFoundError.
func (db *DB) Create(ctx context.Context, s Scenario) (Scenario, error) {
	err := within(ctx, db.engine, true, func() (err error) {
		s, err = db.create(ctx, s)
		return err
	})
	return s, db.wrap(err)
}

// nameMax bounds the bytes of a scenario's name, which lists have in one line.
const nameMax = 200

// CheckName refuses what can't be the name of a scenario.
func CheckName(name string) error {
	found := ""
	switch {
	case name == "":
		return fmt.Errorf("the name of a scenario: found none, want UTF-8 of 1 to %d bytes", nameMax)
	case len(name) > nameMax:
		found = fmt.Sprintf("%d bytes", len(name))
	case !utf8.ValidString(name):
		found = "what isn't UTF-8"
	case strings.ContainsFunc(name, unicode.IsControl):
		found = "control characters"
	default:
		return nil
	}
	return fmt.Errorf("the name %.60q of a scenario: found %s, want UTF-8 of at most %d bytes without control "+
		"characters", name, found, nameMax)
}

// create is Create within a transaction.
func (db *DB) create(ctx context.Context, s Scenario) (Scenario, error) {
	if err := CheckName(s.Name); err != nil {
		return s, err
	}
	var taken *NotFoundError
	if _, err := db.find(ctx, "name = $1", s.Name, ""); err == nil {
		return s, &ExistsError{s.Name}
	} else if !errors.As(err, &taken) {
		return s, err
	}
	var base, description any
	if s.Base != 0 {
		if _, err := db.byID(ctx, s.Base); err != nil {
			return s, err
		}
		base = s.Base
	}
	if s.Description != "" {
		description = s.Description
	}
	made := false // not where another one has made a scenario of the name meanwhile
	err := db.query(ctx, "INSERT INTO graph.scenarios (name, created_at, base_scenario_id, description) "+
		"VALUES ($1, "+db.ago(0)+", $2, $3) ON CONFLICT (name) DO NOTHING RETURNING id",
		[]any{s.Name, base, description}, func(r Row) error {
			s.ID, made = r.Int(0), true
			return nil
		})
	switch {
	case err != nil:
		return s, err
	case !made:
		return s, &ExistsError{s.Name}
	}
	return db.byID(ctx, s.ID)
}

// CreateStored is Create and Store in one transaction: with an error there is no scenario.
func (db *DB) CreateStored(ctx context.Context, s Scenario, g *graph.Graph, c Content) (Scenario, error) {
	err := within(ctx, db.engine, true, func() (err error) {
		if s, err = db.create(ctx, s); err == nil {
			err = db.store(ctx, s.ID, g, c)
		}
		return err
	})
	if err != nil {
		return s, db.wrap(fmt.Errorf("storing scenario %q, of which nothing is there: %w", s.Name, err))
	}
	return s, nil
}

// Copy makes a scenario with all that another one has: vertices, edges and labels, and not its masks, nor rows of
// users' own tables. It is one transaction.
func (db *DB) Copy(ctx context.Context, from int64, s Scenario) (Scenario, error) {
	err := within(ctx, db.engine, true, func() (err error) {
		if _, err := db.lock(ctx, from); err != nil {
			return err
		}
		if s, err = db.create(ctx, s); err != nil {
			return err
		}
		for _, sql := range []string{
			"INSERT INTO graph.vertices SELECT $1, vertex_index, entity_id, name FROM graph.vertices " +
				"WHERE scenario_id = $2",
			"INSERT INTO graph.edges SELECT $1, layer_id, source_idx, target_idx, weight, name FROM graph.edges " +
				"WHERE scenario_id = $2",
			"INSERT INTO graph.labels (scenario_id, type, value) SELECT $1, type, value FROM graph.labels " +
				"WHERE scenario_id = $2 ORDER BY id",
			"INSERT INTO graph.vertex_labels SELECT new.scenario_id, l.vertex_index, new.id " +
				"FROM graph.vertex_labels l JOIN graph.labels old ON old.id = l.label_id " +
				"JOIN graph.labels new ON new.scenario_id = $1 AND new.type = old.type " +
				"AND new.value = old.value WHERE l.scenario_id = $2",
		} {
			if _, err := db.exec(ctx, db.typed(sql), s.ID, from); err != nil {
				return err
			}
		}
		return db.analyze(ctx, s.ID, nil)
	})
	return s, db.wrap(err)
}

// typed tells PostgreSQL of which type the first two parameters are, which it can't infer from a list of results.
func (db *DB) typed(sql string) string {
	if db.dialect() == "sqlite" {
		return sql
	}
	return strings.NewReplacer("$1", "$1::bigint", "$2", "$2::bigint").Replace(sql)
}

// Scenarios lists all scenarios, in the order in which they were made.
func (db *DB) Scenarios(ctx context.Context) (list []Scenario, err error) {
	return list, db.wrap(db.scenarios(ctx, "", nil, &list))
}

// Find is the scenario of a name; where there is none the error is a *NotFoundError.
func (db *DB) Find(ctx context.Context, name string) (Scenario, error) {
	s, err := db.find(ctx, "name = $1", name, fmt.Sprintf("scenario %q", name))
	return s, db.wrap(err)
}

func (db *DB) byID(ctx context.Context, id int64) (Scenario, error) {
	return db.find(ctx, "id = $1", id, fmt.Sprintf("scenario %d", id))
}

func (db *DB) find(ctx context.Context, where string, param any, what string) (Scenario, error) {
	var list []Scenario
	if err := db.scenarios(ctx, " WHERE "+where, []any{param}, &list); err != nil {
		return Scenario{}, err
	}
	if len(list) == 1 {
		return list[0], nil
	}
	none := &NotFoundError{What: what}
	err := db.query(ctx, "SELECT name FROM graph.scenarios ORDER BY id LIMIT 10", nil, func(r Row) error {
		none.Have = append(none.Have, r.Text(0))
		return nil
	})
	return Scenario{}, errors.Join(none, err)
}

func (db *DB) scenarios(ctx context.Context, where string, params []any, list *[]Scenario) error {
	created := "created_at"
	if db.dialect() == "postgres" {
		created = `to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`
	}
	sql := "SELECT " + strings.Replace(scenarioColumns, "created_at", created, 1) + " FROM graph.scenarios" + where +
		" ORDER BY id"
	return db.query(ctx, sql, params, func(r Row) error {
		at, err := time.Parse(time.RFC3339, r.Text(2))
		if err != nil {
			return fmt.Errorf("scenario %d: %w", r.Int(0), err)
		}
		*list = append(*list, Scenario{r.Int(0), r.Text(1), at, r.Int(3), r.Text(4)})
		return nil
	})
}

// Delete deletes a scenario with all that belongs to it; rows of users' own tables stay. One on which others are based
// is refused.
func (db *DB) Delete(ctx context.Context, id int64) error {
	return db.wrap(within(ctx, db.engine, true, func() error {
		s, err := db.lock(ctx, id)
		if err != nil {
			return err
		}
		var based []string
		err = db.query(ctx, "SELECT name FROM graph.scenarios WHERE base_scenario_id = $1 ORDER BY id LIMIT 10",
			[]any{id}, func(r Row) error {
				based = append(based, r.Text(0))
				return nil
			})
		if err == nil && based != nil {
			err = fmt.Errorf("scenario %q is the base of others, which have to be deleted first: %s", s.Name,
				strings.Join(based, ", "))
		}
		for _, table := range []string{"vertex_masks", "vertex_labels", "labels", "edges", "vertices", "scenarios"} {
			if err == nil && table == "edges" {
				err = db.storeEdges(ctx, id, &graph.Graph{}, nil)
			} else if err == nil {
				column := "scenario_id"
				if table == "scenarios" {
					column = "id"
				}
				_, err = db.exec(ctx, "DELETE FROM graph."+table+" WHERE "+column+" = $1", id)
			}
		}
		return err
	}))
}

// lock holds a scenario until the transaction ends: two that store it take turns. It is looked up then, since the one
// before may have deleted it.
func (db *DB) lock(ctx context.Context, id int64) (Scenario, error) {
	if db.dialect() != "sqlite" { // whose transaction, where it writes, is the only one
		if _, err := db.exec(ctx, "SELECT id FROM graph.scenarios WHERE id = $1 FOR UPDATE", id); err != nil {
			return Scenario{}, err
		}
	}
	return db.byID(ctx, id)
}
