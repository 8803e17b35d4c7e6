// SPDX-License-Identifier: Apache-2.0

package graphread

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/graph"
	"github.com/disco-sim/disco/graph/sqldb"
	"github.com/disco-sim/disco/internal/graphdata"
	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/jackc/pgx/v5"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// base is a database for tests: the scenario base has a plant, two depots and three shops.
type base struct {
	url string
	sql func(t *testing.T, statements ...string) // in users' own tables
}

// bases are one of each engine, as long as there is a server to be had.
func bases(t *testing.T) map[string]base {
	file := filepath.Join(t.TempDir(), "x.db")
	all := map[string]base{"sqlite": {"sqlite:" + file, func(t *testing.T, statements ...string) {
		c, err := sqlite.OpenConn(file)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, s := range statements {
			if err := sqlitex.ExecuteScript(c, s, nil); err != nil {
				t.Fatal(s, err)
			}
		}
	}}}
	if server, err := storeserver.StartPostgres(t.Context()); err == nil {
		t.Cleanup(server.Close)
		all["postgres"] = base{server.URL(), func(t *testing.T, statements ...string) {
			c, err := pgx.Connect(t.Context(), server.URL())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(context.Background())
			for _, s := range statements {
				if _, err := c.Exec(t.Context(), s); err != nil {
					t.Fatal(s, err)
				}
			}
		}}
	} else {
		t.Run("postgres", func(t *testing.T) { storeserver.Need(t, err) })
	}
	for _, b := range all {
		store(t, b.url)
	}
	return all
}

var names = []string{"plant", "depot-1", "depot-2", "shop-1", "shop-2", "shop-3"}

// store fills a database.
func store(t *testing.T, url string) {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	g, err := graph.New(len(names), map[int]graph.Edges{
		0: {Source: []uint32{0, 0, 1, 1, 2}, Target: []uint32{1, 2, 3, 4, 5}, Weight: []float64{2, 2.5, 0.5, 0.75, 1}},
		1: {Source: []uint32{3, 4}, Target: []uint32{4, 3}, Weight: []float64{0.25, 0.5}}})
	if err != nil {
		t.Fatal(err)
	}
	g, err = g.WithLabels([]graph.Label{{Type: "kind", Value: "plant"}, {Type: "kind", Value: "depot"},
		{Type: "kind", Value: "shop"}, {Type: "region", Value: "east"}, {Type: "region", Value: "west"}},
		[]uint32{0, 1, 2, 3, 4, 5, 1, 3, 4, 2, 5}, []uint32{0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4})
	if err != nil {
		t.Fatal(err)
	}
	vertices := make([]sqldb.Vertex, len(names))
	for i, name := range names {
		vertices[i] = sqldb.Vertex{Name: name}
	}
	vertices[0].Entity = "P-17"
	if _, err = db.CreateStored(t.Context(), sqldb.Scenario{Name: "base"}, g, sqldb.Content{Vertices: vertices,
		EdgeName: func(layer, edge int) string {
			if layer == 0 && edge == 0 {
				return "main"
			}
			return ""
		}}); err != nil {
		t.Fatal(err)
	}
}

// ask reads one request, and shows its rows, one a line.
func ask(t *testing.T, url string, r graphdata.Request) (string, error) {
	t.Helper()
	if r.Scenario == "" {
		r.Scenario = "base"
	}
	request, err := r.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Read(t.Context(), url, time.Minute, request)
	if err != nil {
		return "", err
	}
	d, err := graphdata.Open(b)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range d.Fills {
		for row := range f.Len {
			fmt.Fprint(&text, f.First[row])
			if len(f.Second) > 0 {
				fmt.Fprint(&text, ">", f.Second[row])
			}
			for _, v := range f.Columns {
				switch {
				case !v.Has(row):
					text.WriteString(" -")
				case v.Kind == graphdata.Text:
					fmt.Fprintf(&text, " %s", v.Text(row))
				case v.Kind == graphdata.Int:
					fmt.Fprintf(&text, " %d", v.Int(row))
				default:
					fmt.Fprintf(&text, " %g", v.Float(row))
				}
			}
			text.WriteString("; ")
		}
	}
	for i, g := range d.Together.Groups {
		fmt.Fprintf(&text, "%s=%d; ", d.Together.Names.Text(i), g)
	}
	return strings.TrimSuffix(text.String(), "; "), nil
}

func columns(list string) (all []graphdata.Column) {
	for _, c := range strings.Fields(list) {
		what, of, _ := strings.Cut(strings.TrimSuffix(c, ")"), "(")
		all = append(all, graphdata.Column{What: what, Of: of})
	}
	return all
}

func kind(values ...string) []graphdata.Choice {
	return []graphdata.Choice{{Type: "kind", Values: values}}
}

// TestRead: what vertices, edges, nodes and rows of users' own tables have is read the same way from both engines.
func TestRead(t *testing.T) {
	for name, b := range bases(t) {
		t.Run(name, func(t *testing.T) {
			b.sql(t, `CREATE TABLE "stock; DROP" (scenario_id BIGINT, vertex_index BIGINT, product TEXT, `+
				`"up to" BIGINT, cost DOUBLE PRECISION)`,
				`INSERT INTO "stock; DROP" VALUES (1, 4, 'tea', 7, 0.5), (1, 3, 'tea', 9, NULL), (1, 3, 'coffee', `+
					`NULL, 2)`,
				`INSERT INTO "stock; DROP" VALUES (2, 3, 'of another scenario', 1, 1)`,
				`CREATE TABLE lanes (scenario_id BIGINT, layer_id BIGINT, source_idx BIGINT, target_idx BIGINT, `+
					`price BIGINT)`,
				`INSERT INTO lanes VALUES (1, 0, 1, 4, 20), (1, 0, 0, 1, 10), (1, 0, 1, 3, 30), (1, 1, 3, 4, 99)`)
			stock, lanes := graphdata.Table{Name: "stock; DROP"}, graphdata.Table{Name: "lanes"}
			for _, c := range []struct {
				r    graphdata.Request
				want string
			}{
				{graphdata.Request{Fills: []graphdata.Fill{{Of: graphdata.Vertices,
					Columns: columns("index name entity label(region) node")}}},
					"0 0 plant P-17 - plant; 1 1 depot-1 - east depot-1; 2 2 depot-2 - west depot-2; " +
						"3 3 shop-1 - east shop-1; 4 4 shop-2 - east shop-2; 5 5 shop-3 - west shop-3"},
				{graphdata.Request{Fills: []graphdata.Fill{{Of: graphdata.Vertices, Vertices: append(kind("shop",
					"depot"),
					graphdata.Choice{Type: "region", Values: []string{"west"}}), Columns: columns("name")}}},
					"2 depot-2; 5 shop-3"},
				{graphdata.Request{Fills: []graphdata.Fill{{Of: graphdata.Edges,
					Columns: columns("source target weight edge source_label(kind) target_label(region)")}}},
					"0>1 plant depot-1 2 main plant east; 0>2 plant depot-2 2.5 0>2 plant west; " +
						"1>3 depot-1 shop-1 0.5 1>3 depot east; 1>4 depot-1 shop-2 0.75 1>4 depot east; " +
						"2>5 depot-2 shop-3 1 2>5 depot west"},
				{graphdata.Request{Fills: []graphdata.Fill{{Of: graphdata.Edges, Vertices: kind("depot"),
					Targets: []graphdata.Choice{{Type: "region", Values: []string{"east"}}},
					Columns: columns("target_index source_node")}}}, "1>3 3 depot-1; 1>4 4 depot-1"},
				{graphdata.Request{Fills: []graphdata.Fill{{Of: graphdata.Edges, Layer: 7,
					Columns: columns("weight")}}}, ""},
				{graphdata.Request{Fills: []graphdata.Fill{{Of: graphdata.Vertices, Table: stock,
					Vertices: kind("shop"),
					Columns: append(columns("name column(product)"), graphdata.Column{What: "column", Of: "up to"},
						graphdata.Column{What: "column", Of: "cost"})}}},
					"3 shop-1 coffee - 2; 3 shop-1 tea 9 -; 4 shop-2 tea 7 0.5"},
				{graphdata.Request{Fills: []graphdata.Fill{{Of: graphdata.Edges, Table: lanes, Vertices: kind("depot"),
					Columns: columns("target weight column(price)")}}}, "1>3 shop-1 0.5 30; 1>4 shop-2 0.75 20"},
				{graphdata.Request{Fills: []graphdata.Fill{{Of: graphdata.Edges, Table: lanes, Targets: kind("depot"),
					Columns: columns("column(price)")}}}, "0>1 10"},
				{graphdata.Request{Fills: []graphdata.Fill{{Of: graphdata.Edges, Table: lanes,
					Columns: columns("column(target_idx) column(price) column(source_idx) column(scenario_id)")}}},
					"0>1 1 10 0 1; 1>3 3 30 1 1; 1>4 4 20 1 1"},
				{graphdata.Request{Fills: []graphdata.Fill{{Of: graphdata.Vertices, Table: stock,
					Columns: columns("column(product) column(vertex_index)")}}}, "3 coffee 3; 3 tea 3; 4 tea 4"},
				{graphdata.Request{Distinct: []string{"region"}, Fills: []graphdata.Fill{
					{Of: graphdata.Nodes, Columns: columns("node size label(region)")},
					{Of: graphdata.Edges, Columns: columns("source_node target_node")}}},
					"0 plant 1 -; 1 east 3 east; 2 west 2 west; 0>1 plant east; 0>2 plant west; 1>3 east east; " +
						"1>4 east east; 2>5 west west"},
				{graphdata.Request{Same: []string{"region"}, Distinct: []string{"region"}, Fills: []graphdata.Fill{
					{Of: graphdata.Nodes, Columns: columns("node size")}}}, "0 plant 1; 1 east 3; 2 west 2"},
				{graphdata.Request{Distinct: []string{"region", "kind"}, Together: "region", Fills: []graphdata.Fill{
					{Of: graphdata.Nodes, Columns: columns("node size")}}}, "0 plant 1; 1 east-depot 1; 2 " +
					"west-depot 1; " +
					"3 east-shop 2; 5 west-shop 1; east-depot=0; west-depot=1; east-shop=0; west-shop=1"},
				{graphdata.Request{Same: []string{"kind"}, Fills: []graphdata.Fill{
					{Of: graphdata.Nodes, Columns: columns("node size label(kind)")}}},
					"0 plant 1 plant; 1 depot 2 depot; 3 shop 3 shop"},
			} {
				if got, err := ask(t, b.url, c.r); err != nil || got != c.want {
					t.Errorf("%+v:\ngot  %s %v\nwant %s", c.r, got, err, c.want)
				}
			}
		})
	}
}

// TestRefused: what can't be answered is an error that says what there is.
func TestRefused(t *testing.T) {
	for name, b := range bases(t) {
		t.Run(name, func(t *testing.T) {
			b.sql(t, `CREATE TABLE far (scenario_id BIGINT, vertex_index BIGINT, x DOUBLE PRECISION)`,
				`INSERT INTO far VALUES (1, 6, 1)`,
				`CREATE TABLE lanes (scenario_id BIGINT, layer_id BIGINT, source_idx BIGINT, target_idx BIGINT, `+
					`price BIGINT)`,
				`INSERT INTO lanes VALUES (1, 0, 3, 0, 20), (1, 1, -1, 0, 20)`)
			vertices := func(list string, table string) graphdata.Request {
				return graphdata.Request{Fills: []graphdata.Fill{{Of: graphdata.Vertices, Columns: columns(list),
					Table: graphdata.Table{Name: table}}}}
			}
			for want, r := range map[string]graphdata.Request{
				`found no scenario "no", want one of: base`: {Scenario: "no"},
				`found no labels of the type "colour", want one of ["kind" "region"]`: {Fills: []graphdata.Fill{
					{Of: graphdata.Vertices, Vertices: []graphdata.Choice{{Type: "colour", Values: []string{"red"}}}}}},
				`found no label "shed" of the type "kind", want one of "plant", "depot", ` +
					`"shop"`: {Fills: []graphdata.Fill{
					{Of: graphdata.Vertices, Vertices: kind("shed")}}},
				`found no labels of the type "size"`:                         vertices("label(size)", ""),
				`table none: there is none`:                                  vertices("column(x)", "none"),
				`table far: found no columns ["y"], want them`:               vertices("column(y)", "far"),
				`column "vertex_index": found 6, want a vertex of the scena`: vertices("column(x)", "far"),
				`column "vertex_index": found 6, want a vertex of the scenario, 0 to 5`: {Fills: []graphdata.Fill{
					{Of: graphdata.Vertices, Vertices: kind("shop"), Columns: columns("column(x)"),
						Table: graphdata.Table{Name: "far"}}}},
				`column "source_idx": found -1, want a vertex of the scenario, 0 to 5`: {Fills: []graphdata.Fill{
					{Of: graphdata.Edges, Vertices: kind("shop"), Columns: columns("column(price)"), Layer: 1,
						Table: graphdata.Table{Name: "lanes"}}}},
				`from vertex 3 to vertex 0, want one that layer 0 has`: {Fills: []graphdata.Fill{{Of: graphdata.Edges,
					Columns: columns("column(price)"), Table: graphdata.Table{Name: "lanes"}}}},
				`found several labels of the type "region", want at most one`: {Same: []string{"kind"},
					Fills: []graphdata.Fill{{Of: graphdata.Nodes, Columns: columns("label(region)")}}},
				`found vertices "depot-1" and "depot-2" on one node`: {Same: []string{"kind"},
					Distinct: []string{"region"}},
				`by which nodes go to workers, want one`: {Same: []string{"kind"}, Together: "region"},
				`found no labels of the type "nothing"`:  {Together: "nothing"},
			} {
				if _, err := ask(t, b.url, r); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%+v: %v, want %s", r, err, want)
				}
			}
		})
	}
}

// TestTwoNamesAlike: nodes that would have one name are refused.
func TestTwoNamesAlike(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "x.db")
	db, err := sqldb.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	g, err := graph.New(2, nil)
	if err == nil {
		g, err = g.WithLabels([]graph.Label{{Type: "site", Value: "b"}}, []uint32{0}, []uint32{0})
	}
	if err == nil {
		_, err = db.CreateStored(t.Context(), sqldb.Scenario{Name: "base"}, g,
			sqldb.Content{Vertices: []sqldb.Vertex{{Name: "a"}, {Name: "b"}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = ask(t, url, graphdata.Request{Distinct: []string{"site"}})
	if err == nil || !strings.Contains(err.Error(), `two nodes that would be called "b"`) {
		t.Error(err)
	}
}
