// SPDX-License-Identifier: Apache-2.0

package graphfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/graph"
	"github.com/disco-sim/disco/graph/sqldb"
	"github.com/disco-sim/disco/internal/seed"
)

// draw makes a random graph with names, some of which need quotes, and with labels of awkward types.
func draw(t testing.TB, rng *rand.Rand, vertices int) *Data {
	t.Helper()
	layers := map[int]graph.Edges{}
	for _, id := range []int{-3, 0, 7}[:1+rng.IntN(3)] {
		seen, e := map[[2]uint32]bool{}, graph.Edges{}
		for range 1 + rng.IntN(3*vertices) {
			p := [2]uint32{rng.Uint32N(uint32(vertices)), rng.Uint32N(uint32(vertices))}
			if !seen[p] {
				seen[p] = true
				e.Source, e.Target = append(e.Source, p[0]), append(e.Target, p[1])
				e.Weight = append(e.Weight, rng.NormFloat64()*1e9)
			}
		}
		layers[id] = e
	}
	g, err := graph.New(vertices, layers)
	if err != nil {
		t.Fatal(err)
	}
	list := []graph.Label{{Type: "Latitude", Value: "x"}, {Type: "label:label", Value: ""}, {Type: "name", Value: "n"},
		{Type: "region", Value: "a,\"b\"\r\nc"}, {Type: "region", Value: "süd & <nord>"}, {Type: "ty pe", Value: "'"}}
	vertex, label := []uint32{0, 0}, []uint32{0, 3} // each label has a vertex
	for i := range list {
		vertex, label = append(vertex, uint32(i%vertices)), append(label, uint32(i))
		for range rng.IntN(vertices) {
			vertex, label = append(vertex, rng.Uint32N(uint32(vertices))), append(label, uint32(i))
		}
	}
	if g, err = g.WithLabels(list, vertex, label); err != nil {
		t.Fatal(err)
	}
	d := &Data{Graph: g}
	for v := range vertices {
		x := sqldb.Vertex{Name: []string{"a", "é,", "\"q\"", " b\n", "<&>'"}[v%5] + fmt.Sprint(vertices-v)}
		if v == 7 {
			x.Name = ""
		}
		if v%3 == 0 {
			x.Entity = "entity; " + fmt.Sprint(v)
		}
		d.Vertices = append(d.Vertices, x)
	}
	if rng.IntN(3) > 0 {
		d.EdgeName = func(layer, edge int) string {
			if (layer+edge)%4 == 0 {
				return ""
			}
			return fmt.Sprintf("edge \"%d\" of %d", edge, layer)
		}
	}
	return d
}

// same compares graphs, and what is called how.
func same(t testing.TB, got, want *Data) {
	t.Helper()
	if !slices.Equal(got.Vertices, want.Vertices) || !slices.Equal(got.Graph.Labels(), want.Graph.Labels()) ||
		!slices.Equal(got.Graph.Layers(), want.Graph.Layers()) {
		t.Fatalf("found %v %v %v, want %v %v %v", got.Vertices, got.Graph.Labels(), got.Graph.Layers(), want.Vertices,
			want.Graph.Labels(), want.Graph.Layers())
	}
	for _, id := range want.Graph.Layers() {
		a, b := got.Graph.Layer(id).Columns(), want.Graph.Layer(id).Columns()
		if !slices.Equal(a.Source, b.Source) || !slices.Equal(a.Target, b.Target) || !slices.Equal(a.Weight, b.Weight) {
			t.Fatalf("layer %d: found %v, want %v", id, a, b)
		}
		for i := range a.Source {
			if x, y := nameOf(got, id, i), nameOf(want, id, i); x != y {
				t.Fatalf("layer %d, edge %d: found the name %q, want %q", id, i, x, y)
			}
		}
	}
	for v := range want.Vertices {
		if !slices.Equal(got.Graph.LabelsOf(v), want.Graph.LabelsOf(v)) {
			t.Fatalf("vertex %d: found labels %v, want %v", v, got.Graph.LabelsOf(v), want.Graph.LabelsOf(v))
		}
	}
}

func nameOf(d *Data, layer, edge int) string {
	if d.EdgeName == nil {
		return ""
	}
	return d.EdgeName(layer, edge)
}

// TestRoundTrip writes random graphs in every format, and reads them.
func TestRoundTrip(t *testing.T) {
	rng, dir := seed.Rand(t), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for range 20 {
		d := draw(t, rng, 1+rng.IntN(40))
		for _, f := range []Files{
			{Edges: at("e.csv"), Vertices: at("v.csv"), Labels: at("l.csv")},
			{Edges: at("e.csv"), Vertices: at("v.csv"), Labels: at("l.csv"), ByID: true},
			{Edges: at("e.parquet"), Vertices: at("v.parquet"), Labels: at("l.parquet")},
			{Edges: at("e.parquet"), Vertices: at("v.parquet"), Labels: at("l.parquet"), ByID: true},
			{Graph: at("g.graphml")}, {Graph: at("g.gml")},
		} {
			if named := len(d.Vertices) <= 7; !named && f.Graph == "" && !f.ByID {
				continue // which TestWriteRefuses has
			}
			if err := Write(f, d); err != nil {
				t.Fatal(f, err)
			}
			got, err := Read(f)
			if err != nil {
				t.Fatal(f, err)
			}
			same(t, got, d)
		}
	}
}

// write writes files into a folder of their own, and returns it.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// in has the names of files within a folder.
func in(dir string, f Files) Files {
	for _, name := range []*string{&f.Graph, &f.Edges, &f.Vertices, &f.Labels} {
		if *name != "" {
			*name = filepath.Join(dir, *name)
		}
	}
	return f
}

// TestUnlisted: without a table of vertices there are those that edges and labels name, in the order of numbers or of
// names, whatever the order of rows.
func TestUnlisted(t *testing.T) {
	for rows, want := range map[string]string{
		"10,9\n9,2\n":   "[2 9 10] [1 2]>[0 1]",
		"b,a\nc,b\r\n":  "[a b c] [1 2]>[0 1]",
		"02,1\n\n1,1":   "[02 1] [0 1]>[1 1]",
		"\"b\"\"\",a\n": "[a b\"] [1]>[0]",
	} {
		dir := write(t, map[string]string{"e.csv": "\ufeffsource,target\n" + rows})
		d, err := Read(in(dir, Files{Edges: "e.csv"}))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, v := range d.Vertices {
			names = append(names, v.Name)
		}
		e := d.Graph.Layer(0).Columns()
		if got := fmt.Sprintf("%v %v>%v", names, e.Source, e.Target); got != want {
			t.Errorf("%q: found %s, want %s", rows, got, want)
		}
	}
}

// TestUndirected: an undirected edge leads both ways.
func TestUndirected(t *testing.T) {
	dir := write(t, map[string]string{
		"g.gml": "graph [ node [ id 5 label \"x\" Country \"Austria\" ] node [ id 7 ] " +
			"edge [ source 7 target 5 weight 2 ] edge [ source 7 target 7 ] ]",
		"g.graphml": `<graphml><key id="k" for="node" attr.name="Country" attr.type="string">` +
			`<default>Austria</default></key><key id="w" for="edge" attr.name="weight" attr.type="double"/>` +
			`<graph edgedefault="undirected"><edge source="7" target="x"><data key="w">2</data></edge>` +
			`<node id="x"/><node id="7"><data key="k"></data></node><edge source="7" target="7"/></graph></graphml>`,
	})
	for name, want := range map[string]string{"g.gml": "[Country=Austria]", "g.graphml": "[Country= Country=Austria]"} {
		d, err := Read(in(dir, Files{Graph: name}))
		if err != nil {
			t.Fatal(name, err)
		}
		got := fmt.Sprint(d.Vertices, d.Graph.Layer(0).Columns(), d.Graph.Labels())
		if want := "[{ x} { 7}] {[0 1 1] [1 0 1] [2 2 1]} " + want; got != want {
			t.Errorf("%s: found %s, want %s", name, got, want)
		}
	}
}

// bad is files that are refused, and what is said of them.
var bad = []struct {
	edges, vertices, labels string
	byID                    bool
	want                    string
}{
	{"", "", "", false,
		"e.csv: found an empty file, want a first line with the names of columns: source,target,weight"},
	{"source,weight\n", "", "", false,
		`e.csv: found no column "target" among ["source" "weight"], want source, target, and`},
	{"source,target\n", "", "vertex,type\n", false,
		`l.csv: found no column "label" among ["vertex" "type"], want vertex, type, label`},
	{"source,target,wieght\n", "", "", false, `found the column "wieght", want columns among source, target, weight`},
	{"source,target,source\n", "", "", false, `found two columns "source"`},
	{"source,target\na,b\na,b,c\n", "", "", false, "e.csv, line 3: found 3 fields, want 2, as the first line has"},
	{"source,target\na,\"b\n", "", "", false, "line 2: found a field without its closing quote"},
	{"source,target\n\"a\"x,b\n", "", "", false, "line 2: found text behind a closing quote"},
	{"source,target\na\"x,b\n", "", "", false, "line 2: found a quote within a field"},
	{"source,target\n,b\n", "", "", false, "line 2, column source: found no vertex"},
	{"source,target\na,\xff\n", "", "", false, "line 2, column target: found text that is not UTF-8"},
	{"source,target\na,b\x00\n", "", "", false, "line 2, column target: found text with a NUL in it"},
	{"source,target,weight\n\na,b,NaN\n", "", "", false, `line 3, column weight: found "NaN", want a finite number`},
	{"source,target,weight\na,b,-Inf\n", "", "", false, `line 2, column weight: found "-Inf", want a finite number`},
	{"source,target,weight\na,b,1e999\n", "", "", false, `line 2, column weight: found "1e999", want a finite number`},
	{"source,target,weight\na,b,1_000\n", "", "", false, `column weight: found "1_000", want a finite number`},
	{"source,target,weight\na,b,0x1p3\n", "", "", false, `column weight: found "0x1p3", want a finite number`},
	{"source,target,weight\na,b,x\n", "", "", false, `column weight: found "x", want a finite number`},
	{"source,target,layer\na,b,3000000000\n", "", "", false,
		`column layer: found "3000000000", want a whole number from`},
	{"source,target\n\"a\n\",b\nx,y\n\"a\n\",b\n", "", "", false,
		`e.csv, line 5: found the edge from vertex "a\n" to vertex "b" ` +
			`in layer 0 a second time (the first is in line 2), want it once in a layer`},
	{"source,target,name\na,b,x\nb,a,x\n", "", "", false,
		`line 3: found the name "x" a second time in layer 0 (the first is in line 2)`},
	{"source,target\na,b\n", "name\na\n", "", false,
		`line 2, column target: found vertex "b", which isn't there, want one of`},
	{"source,target\n", "name\na\na\n", "", false, `v.csv, line 3: found the name "a" a second time`},
	{"source,target\n", "id,name\n0,a\n2,b\n", "", false,
		"v.csv, line 3: found the id 2 of 2 vertices, want ids from 0 to 1 without gaps"},
	{"source,target\n", "id,name\n1,a\n1,b\n", "", false,
		"v.csv, line 3: found the id 1 a second time (the first is in line 2)"},
	{"source,target\n", "id,name\n0,a\n,b\n", "", false, "v.csv, line 3: found a vertex without an id"},
	{"source,target\n", "id,name\n,a\n0,b\n", "", false,
		"v.csv, line 3: found an id, which the vertices before don't have"},
	{"source,target\n", "id\n-1\n", "", false, `v.csv, line 2: found the id "-1", want a whole number from 0`},
	{"source,target\na,b\n", "name\na\nb\n", "vertex,type,label\nx,t,l\n", false,
		`l.csv, line 2, column vertex: found vertex "x", which`},
	{"source,target\na,b\n", "", "vertex,type,label\na,,l\n", false,
		"l.csv, line 2, column type: found nothing, want the type"},
	{"source,target\n0,3\n", "", "", true, "e.csv: found no edge or label of vertex 1, but some of vertex 3"},
	{"source,target\n0,2147483646\n", "", "", true,
		"found no edge or label of vertex 1, but some of vertex 2147483646"},
	{"source,target\n0,x\n", "", "", true,
		`line 2, column target: found vertex "x", which isn't there, want a number from 0`},
	{"source,target\n0,2\n", "id\n0\n1\n", "", true,
		`line 2, column target: found vertex "2", which isn't there, want a number from 0 to 1`},
}

// TestRefuses has tables that are wrong.
func TestRefuses(t *testing.T) {
	for _, c := range bad {
		dir := write(t, map[string]string{"e.csv": c.edges, "v.csv": c.vertices, "l.csv": c.labels})
		f := Files{Edges: "e.csv", ByID: c.byID}
		if c.vertices != "" {
			f.Vertices = "v.csv"
		}
		if c.labels != "" {
			f.Labels = "l.csv"
		}
		if _, err := Read(in(dir, f)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %q %q: found %v, want %s", c.edges, c.vertices, c.labels, err, c.want)
		}
	}
}

// TestOneFile: two tables in one file are refused, whatever it is called.
func TestOneFile(t *testing.T) {
	dir := write(t, map[string]string{"e.csv": ""})
	t.Chdir(dir)
	err := errors.Join(os.Symlink("e.csv", "soft.csv"), os.Link("e.csv", "hard.csv"), os.Symlink(dir, "folder"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []Files{{Edges: "e.csv", Vertices: "./e.csv"}, {Edges: "e.csv", Labels: "soft.csv"},
		{Edges: "hard.csv", Vertices: "e.csv"}, {Edges: "e.csv", Vertices: "new.csv", Labels: dir + "/new.csv"},
		{Edges: "new.csv", Vertices: "folder/new.csv"}} {
		if err := f.Check(); err == nil || !strings.Contains(err.Error(), "which are one file, for two tables") {
			t.Errorf("%v: found %v", f, err)
		}
	}
	f := Files{Edges: "e.csv", Vertices: "new.csv", Labels: "none/new.csv"}
	if err := f.Check(); err != nil {
		t.Error(err)
	}
}

// TestRefusesGraphs has whole graphs that are wrong.
func TestRefusesGraphs(t *testing.T) {
	ml := func(body string) string {
		return "<graphml>\n<key id=\"w\" for=\"edge\" attr.name=\"weight\"/>\n<key id=\"y\" attr.name=\"layer\"/>\n" +
			"<graph edgedefault=\"directed\">\n" + body + "</graph></graphml>"
	}
	twice := strings.Repeat("<edge source=\"a\" target=\"a\"/>\n", 2)
	nodes := "<node id=\"a\"/>\n"
	with := func(key, value string) string {
		return ml(nodes + `<edge source="a" target="a"><data key="` + key + `">` + value + `</data></edge>`)
	}
	for text, want := range map[string]string{
		"":                            "no graph",
		"<graphml>":                   "line 1: found bad XML",
		"<html/>":                     `<"html">, want <graphml>`,
		"<graphml><graph/></graphml>": `the edgedefault "", want directed or undirected`,
		ml("<node/>"):                 "line 5: found no id of a node",
		ml(nodes + nodes):             `line 6: found node "a" a second time`,
		ml(nodes + "<edge source=\"a\" target=\"b\"/>"): `line 6: found node "b", which isn't there`,
		ml(nodes + "<edge source=\"a\"/>"):              "line 6: found no id of a node",
		with("w", "inf"):                                `line 6: found the weight "inf"`,
		with("w", "0x1p3"):                              `line 6: found the weight "0x1p3"`,
		with("y", "1.5"):                                `line 6: found the layer "1.5"`,
		with("q", "1"):                                  `data of the key "q", which isn't there`,
		ml(nodes + twice):                               `line 7: found the edge from node "a" to node "a"`,
		ml(nodes + "<node id=\"b\"><graph/></node>"):    "<graph> in a node or an edge",
		ml("<hyperedge/>"):                              "<hyperedge> in <graph>",
		ml(strings.Repeat("<x>", 40) + strings.Repeat("</x>", 40)): "nested more than 16 deep",
		"<graphml>\n<key id=\"a\" for=\"node\" attr.name=\"name\"/><key id=\"b\" attr.name=\"name\"/></graphml>": "" +
			`line 2: found a second key for node with the attr.name "name", want one`,
		with("y", `1</data><data key="y">2`):                  `line 6: found data of the key "y" a second time`,
		ml("") + "\nmore":                                     "line 6: found text outside <graphml>",
		"\ufeffmore\n" + ml(""):                               "found text outside <graphml>",
		"<graphml>\n<key id=\"a\"/><key id=\"a\"/></graphml>": `line 2: found a key with the id "a"`,
	} {
		_, err := parseGraphML("g.graphml", strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: found %v, want %s", text, err, want)
		}
	}
	const node = "graph [ node [ id 0 ]\n "
	for text, want := range map[string]string{
		node + "edge [ source 0 target 0 ]\n edge [ source 0 target 0 ] ]": "g.gml, line 3: found the edge",
		node + "edge [ source 0 target 1 ] ]":                              "the id 1, which no node has",
		node + "edge [ source 0 target 0 weight \"x\" ] ]":                 "line 2: found weight that is something",
		node + "edge [ source 0 target 0 layer 1.5 ] ]":                    "line 2: found layer that is something",
		"graph [ node [ id 0 vertexLabel [ value \"x\" ] ] ]":              "want a type",
	} {
		if _, err := parseGML("g.gml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: found %v, want %s", text, err, want)
		}
	}
}

// TestWriteRefuses: what a format can't have isn't written, and nothing is there then.
func TestWriteRefuses(t *testing.T) {
	g, err := graph.New(2, nil)
	if err != nil {
		t.Fatal(err)
	}
	empty, err := graph.New(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	twice := []sqldb.Vertex{{Name: "a"}, {Name: "a"}}
	control := []sqldb.Vertex{{Name: "a"}, {Name: "b\x01"}}
	dir := t.TempDir()
	for _, c := range []struct {
		files Files
		data  *Data
		want  string
	}{
		{Files{Edges: "e.csv", Vertices: "v.csv"}, &Data{Graph: g, Vertices: twice}, `both called "a"`},
		{Files{Edges: "e.csv"}, &Data{Graph: g, Vertices: make([]sqldb.Vertex, 2)}, "vertex 0 has no name"},
		{Files{Graph: "g.gml"}, &Data{Graph: empty}, "has no vertices"},
		{Files{Graph: "g.gml"}, &Data{Graph: g, Vertices: control}, "characters that GML can't have"},
		{Files{Graph: "g.graphml"}, &Data{Graph: g, Vertices: control}, "characters that XML can't have"},
		{Files{Graph: "g.dot"}, &Data{Graph: g, Vertices: control}, `found the ending "dot", want .graphml or .gml`},
		{Files{Edges: "g.gml"}, &Data{Graph: g, Vertices: control}, `found the ending "gml", want .csv or .parquet`},
		{Files{}, &Data{Graph: g}, "found no file of edges"},
		{Files{Graph: "g.gml", Edges: "e.csv"}, &Data{Graph: g}, "tables beside it"},
		{Files{Edges: "no/e.csv"}, &Data{Graph: g, Vertices: control}, "no/e.csv"},
	} {
		if err := Write(in(dir, c.files), c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: found %v, want %s", c.files, err, c.want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestAllocations: tables are read and written without an allocation for each edge.
func TestAllocations(t *testing.T) {
	var e graph.Edges
	const n = 100_000
	for i := range uint32(n) {
		e.Source, e.Target = append(e.Source, i/1000), append(e.Target, i%1000)
		e.Weight = append(e.Weight, float64(i)/7)
	}
	g, err := graph.New(1000, map[int]graph.Edges{0: e})
	if err != nil {
		t.Fatal(err)
	}
	d := &Data{Graph: g, Vertices: make([]sqldb.Vertex, 1000)}
	for v := range d.Vertices {
		d.Vertices[v].Name = fmt.Sprint("vertex ", v)
	}
	for _, ending := range []string{"csv", "parquet"} {
		f := in(t.TempDir(), Files{Edges: "e." + ending, Vertices: "v." + ending})
		writing := testing.AllocsPerRun(2, func() {
			if err := Write(f, d); err != nil {
				t.Fatal(err)
			}
		})
		reading := testing.AllocsPerRun(2, func() {
			if _, err := Read(f); err != nil {
				t.Fatal(err)
			}
		})
		if writing > n/10 || reading > n/10 {
			t.Errorf("%s: %v allocations to write %d edges, %v to read them", ending, writing, n, reading)
		}
	}
}

// again holds that what was read can be written and read again as the same.
func again(t *testing.T, d *Data, write func(io.Writer, *Data) error, read func([]byte) (*Data, error)) {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b, d); err != nil {
		return // text that the format can't have, but through entities
	}
	got, err := read(b.Bytes())
	if err != nil {
		t.Fatalf("%v in\n%s", err, b.Bytes())
	}
	same(t, got, d)
}

// FuzzGraphML reads any bytes, and what was read again.
func FuzzGraphML(f *testing.F) {
	var b bytes.Buffer
	if err := writeGraphML(&b, draw(f, rand.New(rand.NewPCG(1, 2)), 5)); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`<graphml><graph edgedefault="undirected"><node id="a"/>` +
		`<edge source="a" target="a"/></graph></graphml>`))
	f.Fuzz(func(t *testing.T, text []byte) {
		read := func(text []byte) (*Data, error) { return parseGraphML("g.graphml", bytes.NewReader(text)) }
		if d, err := read(text); err == nil {
			again(t, d, writeGraphML, read)
		}
	})
}

// FuzzGML reads any bytes, and what was read again.
func FuzzGML(f *testing.F) {
	var b bytes.Buffer
	if err := writeGML(&b, draw(f, rand.New(rand.NewPCG(1, 2)), 5)); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`graph [ node [ id 1 ] edge [ source 1 target 1 ] ]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		read := func(text []byte) (*Data, error) { return parseGML("g.gml", text) }
		if d, err := read(text); err == nil {
			again(t, d, writeGML, read)
		}
	})
}

// FuzzCSV reads any bytes as tables of edges and of labels, and what was read again.
func FuzzCSV(f *testing.F) {
	f.Add([]byte("source,target,weight,layer,name\na,b,1,2,x\nb,\"c\n\",-1e9,,\n"), false)
	f.Add([]byte("vertex,type,label\na,b,\n"), false)
	f.Add([]byte("source,target\r\n1,0\r\n2,2\r\n"), true)
	f.Fuzz(func(t *testing.T, text []byte, byID bool) {
		read := func(edgeTable, labelTable []byte) (*Data, error) {
			v := newVertices(Files{ByID: byID})
			e, l := &edges{file: "e.csv", unit: "line"}, &labelling{}
			if err := readCSV("e.csv", bytes.NewReader(edgeTable), edgeColumns, e.row(v)); err != nil {
				return nil, err
			}
			if err := readCSV("l.csv", bytes.NewReader(labelTable), labelColumns, l.row("l.csv", v)); err != nil {
				return nil, err
			}
			return v.finish(e, l)
		}
		const noEdges, noLabels = "source,target\n", "vertex,type,label\n"
		for _, tables := range [][2][]byte{{text, []byte(noLabels)}, {[]byte(noEdges), text}} {
			d, err := read(tables[0], tables[1])
			if err != nil {
				continue
			}
			out, err := tablesOf(d, byID)
			if err != nil {
				t.Fatal(err)
			}
			var e, l bytes.Buffer
			if err := errors.Join(out.writeEdges(&e, "csv"), out.writeLabels(&l, "csv")); err != nil {
				t.Fatal(err)
			}
			got, err := read(e.Bytes(), l.Bytes())
			if err != nil {
				t.Fatalf("%v in\n%s\n%s", err, e.Bytes(), l.Bytes())
			}
			same(t, got, d)
		}
	})
}
