// SPDX-License-Identifier: Apache-2.0

// Package graphcmd is the command graph: scenarios of graphs in a database, filled from files and written to files,
// shown and compared. It is a program of its own, disco-graph, since databases and file formats are twice as large as
// all of disco-run; package group/beside makes it a command of other programs.
//
// Guarantee: a command that fails has changed nothing, and ends with status 2 and a message that says where, what was
// found and what is allowed. No password is shown. Only init makes a database.
//
//	func main() { app.MainWith(graphcmd.Commands()) }
package graphcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/graph/sqldb"
	"github.com/disco-sim/disco/internal/graphfile"
	"github.com/urfave/cli/v2"
)

// Commands is graph.
func Commands() []app.Command {
	return []app.Command{{
		Name: "graph", Usage: "keeps layered graphs in a database, and reads and writes files of them",
		ArgsUsage: "init|import|export|list|show|copy|diff|delete [NAME] [NAME|FILE]",
		Description: "init               makes the tables of graphs in a database\n" +
			"import NAME FILE   makes a scenario of a file: .graphml or .gml; or of tables: --edges and so on\n" +
			"export NAME FILE   writes one to a file, or to tables\n" +
			"list               shows all scenarios\n" +
			"show NAME          shows layers, degrees, labels, components, cycles and critical paths\n" +
			"copy NAME NEW      makes a scenario that is based on another one, and the same so far\n" +
			"diff NAME NAME     shows what the second has and the first hasn't, and the other way round\n" +
			"delete NAME        deletes a scenario\n" +
			"Tables are .csv or .parquet. A name that begins with - stands behind --.",
		Examples: []string{"graph init --db sqlite:network.db",
			"graph import roads --edges roads.csv --labels labels.csv --db sqlite:network.db",
			"graph export roads roads.graphml --db sqlite:network.db",
			"graph import plan roads.graphml --base roads --db sqlite:network.db", "graph list --db sqlite:network.db",
			"graph show plan --most 5 --db sqlite:network.db", "graph copy plan other --db sqlite:network.db",
			"graph diff plan other --json --db sqlite:network.db", "graph delete other --db sqlite:network.db"},
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "db", Usage: "`URL` of the database, sqlite:FILE or postgres://USER@HOST/DATABASE; " +
				"DISCO_DB where it isn't given"},
			&cli.DurationFlag{Name: "db-timeout", Value: 30 * time.Second,
				Usage: "`TIME` to wait for the database's answer to the first call"},
			&cli.StringFlag{Name: "edges", Usage: "import, export: `FILE` with columns source, target, weight, layer " +
				"and name"},
			&cli.StringFlag{Name: "vertices", Usage: "import, export: `FILE` with columns id, name and entity"},
			&cli.StringFlag{Name: "labels", Usage: "import, export: `FILE` with columns vertex, type and label"},
			&cli.BoolFlag{Name: "by-id", Usage: "import, export: tables have numbers of vertices, and not their names"},
			&cli.BoolFlag{Name: "replace", Usage: "import: instead of the graph that the scenario has"},
			&cli.StringFlag{Name: "base", Usage: "import: `NAME` of the scenario that the new one is based on"},
			&cli.StringFlag{Name: "description", Usage: "import, copy: `TEXT` for people"},
			&cli.IntFlag{Name: "most", Value: 20, Usage: "show, diff: list up to `N` of each kind"},
			&cli.BoolFlag{Name: "json", Usage: "list, show, diff: write JSON"},
		},
		Run: run,
	}}
}

// verb is one of the commands of graph.
type verb struct {
	name     string
	min, max int // arguments besides the verb
	flags    string
	run      func(ctx context.Context, c *call) error
}

var verbs = []verb{
	{"init", 0, 0, "", func(context.Context, *call) error { return nil }},
	{"import", 1, 2, "edges vertices labels by-id replace base description", importGraph},
	{"export", 1, 2, "edges vertices labels by-id", exportGraph},
	{"list", 0, 0, "json", list},
	{"show", 1, 1, "most json", show},
	{"copy", 2, 2, "description", copyScenario},
	{"diff", 2, 2, "most json", diff},
	{"delete", 1, 1, "", remove},
}

// call is one call of a verb.
type call struct {
	*app.Call
	db   *sqldb.DB
	args []string // behind the verb
}

const verbNames = "init, import, export, list, show, copy, diff or delete"

func run(c *app.Call) error {
	args := c.Args().Slice()
	if len(args) == 0 {
		return app.Usage("there is no verb: want %s", verbNames)
	}
	i := slices.IndexFunc(verbs, func(v verb) bool { return v.name == args[0] })
	if i < 0 {
		return app.Usage("there is no verb %q: want %s", args[0], verbNames)
	}
	v := verbs[i]
	if n := len(args) - 1; n < v.min || n > v.max {
		return app.Usage("%s: found %d arguments behind it, want %s", v.name, n, wanted(v.min, v.max))
	}
	for _, flag := range strings.Fields("edges vertices labels by-id replace base description most json") {
		if c.IsSet(flag) && !slices.Contains(strings.Fields(v.flags), flag) {
			return app.Usage("--%s has no meaning for %s", flag, v.name)
		}
	}
	if c.Int("most") < 0 {
		return app.Usage("--most: found %d, want at least 0", c.Int("most"))
	}
	ctx, undo := c.Interruptible()
	defer undo()
	err := withDB(ctx, c, v, args[1:])
	var ended *app.Ended
	switch {
	case err == nil:
		return nil
	case errors.As(context.Cause(ctx), &ended):
		return ended // what was cut short says nothing else
	case errors.Is(err, errDiffer):
		return err
	}
	return app.Usage("%s: %v", v.name, err)
}

func wanted(from, to int) string {
	if from == to {
		return fmt.Sprint(from)
	}
	return fmt.Sprintf("%d or %d", from, to)
}

// withDB opens the database that the flags name, and does what the verb does.
func withDB(ctx context.Context, c *app.Call, v verb, args []string) error {
	url := cmp.Or(c.String("db"), os.Getenv("DISCO_DB"))
	if url == "" {
		return errors.New("which database is meant? Name it with --db, or in DISCO_DB: sqlite:FILE or " +
			"postgres://USER@HOST/DATABASE")
	}
	timeout := c.Duration("db-timeout")
	if timeout <= 0 {
		return fmt.Errorf("--db-timeout: found %v, want more than 0", timeout)
	}
	opening, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the --db-timeout of %v is over", timeout))
	defer cancel()
	open := sqldb.OpenExisting
	if v.name == "init" {
		open = sqldb.Open
	}
	db, err := open(sqldb.WatchSilence(opening, c.Stderr), url)
	switch {
	case errors.Is(err, sqldb.ErrNoTables):
		return fmt.Errorf("%w: `%s graph init` makes them", err, c.Program)
	case err != nil && opening.Err() != nil && ctx.Err() == nil:
		return fmt.Errorf("%w (%w)", err, context.Cause(opening))
	case err != nil:
		return err
	}
	return errors.Join(v.run(ctx, &call{c, db, args}), db.Close())
}

// files are the files that arguments and flags name.
func (c *call) files() (graphfile.Files, error) {
	f := graphfile.Files{Edges: c.String("edges"), Vertices: c.String("vertices"), Labels: c.String("labels"),
		ByID: c.Bool("by-id")}
	if len(c.args) > 1 {
		f.Graph = c.args[1]
	}
	return f, f.Check()
}

func importGraph(ctx context.Context, c *call) error {
	f, err := c.files()
	if err != nil {
		return err
	}
	s := sqldb.Scenario{Name: c.args[0], Description: c.String("description")}
	if err := sqldb.CheckName(s.Name); err != nil {
		return err
	}
	if c.Bool("replace") {
		if c.IsSet("base") || c.IsSet("description") {
			return errors.New("--replace keeps the scenario's base and description: want it without --base and " +
				"--description")
		}
		if s, err = c.db.Find(ctx, s.Name); err != nil {
			return err
		}
	} else if err := c.free(ctx, s.Name); err != nil {
		return err // before a long file is read
	}
	if base := c.String("base"); base != "" {
		b, err := c.db.Find(ctx, base)
		if err != nil {
			return fmt.Errorf("--base: %w", err)
		}
		s.Base = b.ID
	}
	d, err := unlessEnded(ctx, func() (*graphfile.Data, error) { return graphfile.Read(f) })
	if err != nil {
		return err
	}
	content := sqldb.Content{Vertices: d.Vertices, EdgeName: d.EdgeName}
	if c.Bool("replace") {
		err = meanwhile(s, c.db.Store(ctx, s.ID, d.Graph, content))
	} else {
		s, err = c.db.CreateStored(ctx, s, d.Graph, content)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.Stdout, "%s: %s\n", s.Name, size(d.Graph))
	return err
}

// unlessEnded does what takes long and changes nothing. It isn't waited for where a signal ends the command.
func unlessEnded[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := do()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// meanwhile says of a scenario that was there, and isn't any more, what has become of it.
func meanwhile(s sqldb.Scenario, err error) error {
	if gone := (*sqldb.NotFoundError)(nil); errors.As(err, &gone) {
		return fmt.Errorf("another one has deleted scenario %q meanwhile: %w", s.Name, err)
	}
	return err
}

// free holds that there is no scenario of a name.
func (c *call) free(ctx context.Context, name string) error {
	_, err := c.db.Find(ctx, name)
	var none *sqldb.NotFoundError
	switch {
	case err == nil:
		return &sqldb.ExistsError{Name: name}
	case errors.As(err, &none):
		return nil
	}
	return err
}

// load is a scenario with all that belongs to it. Within Reading it is of one moment.
func (c *call) load(ctx context.Context, name string) (sqldb.Scenario, *graphfile.Data, error) {
	s, err := c.db.Find(ctx, name)
	if err != nil {
		return s, nil, err
	}
	d := &graphfile.Data{}
	if d.Graph, err = c.db.Load(ctx, s.ID); err != nil {
		return s, nil, err
	}
	d.Vertices, err = c.db.Vertices(ctx, s.ID, nil)
	return s, d, err
}

func exportGraph(ctx context.Context, c *call) error {
	f, err := c.files()
	if err != nil {
		return err
	}
	d, err := c.loadNamed(ctx, c.args[0])
	if err != nil {
		return err
	}
	return graphfile.Write(f, d)
}

// loadNamed is load with the names of edges.
func (c *call) loadNamed(ctx context.Context, name string) (d *graphfile.Data, err error) {
	err = c.db.Reading(ctx, func() (err error) {
		var s sqldb.Scenario
		if s, d, err = c.load(ctx, name); err == nil {
			d.EdgeName, err = c.edgeNames(ctx, s, d)
		}
		return err
	})
	return d, err
}

// edgeNames are the names of a scenario's edges, nil where none has one.
func (c *call) edgeNames(ctx context.Context, s sqldb.Scenario, d *graphfile.Data) (
	of func(layer, edge int) string, err error) {
	names := map[int][]string{}
	err = c.db.EdgeNames(ctx, s.ID, func(layer int, source, target uint32, name string) error {
		l := d.Graph.Layer(layer)
		edge, _ := l.Find(int(source), int(target)) // the graph is of the same moment
		if names[layer] == nil {
			names[layer] = make([]string, l.Edges())
		}
		names[layer][edge] = name
		return nil
	})
	if err != nil || len(names) == 0 {
		return nil, err
	}
	return func(layer, edge int) string {
		if list := names[layer]; list != nil {
			return list[edge]
		}
		return ""
	}, nil
}

func copyScenario(ctx context.Context, c *call) error {
	from, err := c.db.Find(ctx, c.args[0])
	if err != nil {
		return err
	}
	_, err = c.db.Copy(ctx, from.ID, sqldb.Scenario{Name: c.args[1], Base: from.ID,
		Description: c.String("description")})
	return meanwhile(from, err)
}

func remove(ctx context.Context, c *call) error {
	s, err := c.db.Find(ctx, c.args[0])
	if err != nil {
		return err
	}
	return meanwhile(s, c.db.Delete(ctx, s.ID))
}

// writeJSON writes one JSON value, for people as well.
func (c *call) writeJSON(value any) error {
	e := json.NewEncoder(c.Stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}
