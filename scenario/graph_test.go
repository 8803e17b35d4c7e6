// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/graphdata"
)

// answering is what a database of four vertices would answer: it makes columns of any request. Vertex 2 has no value in
// a column.
func answering(t *testing.T, asked *[]*graphdata.Request) func([]byte) ([]byte, error) {
	return func(request []byte) ([]byte, error) {
		r, err := graphdata.OpenRequest(request)
		if err != nil {
			t.Fatal(err)
		}
		*asked = append(*asked, r)
		d := graphdata.Data{Asked: request}
		for _, f := range r.Fills {
			rows := graphdata.Rows{Len: 4}
			for v := range uint32(4) {
				rows.First = append(rows.First, v)
				if f.Of == graphdata.Edges {
					rows.Second = append(rows.Second, (v+1)%4)
				}
			}
			for _, c := range f.Columns {
				v := graphdata.Values{}
				for i := range 4 {
					switch {
					case c.What == "column" && i == 2:
						v.AddNone()
					case c.What == "weight":
						v.Kind = graphdata.Float
						v.AddFloat(float64(i) / 4)
					case c.What == "index" || c.Of == "whole":
						v.Kind = graphdata.Int
						v.AddInt(int64(i))
					case c.Of == "digits":
						v.AddText(fmt.Sprint(i))
					case c.What == "target":
						v.AddText(fmt.Sprintf("v%d", (i+1)%4))
					default:
						v.AddText(fmt.Sprintf("v%d", i))
					}
				}
				rows.Columns = append(rows.Columns, v)
			}
			d.Fills = append(d.Fills, rows)
		}
		return d.Append(nil)
	}
}

// readPlaces reads lists as a kind would: items of a top-level list, and of one within mappings.
func readPlaces(doc *Document) (text string, err error) {
	r := NewReader(doc)
	root := r.Root("places", "net")
	var b strings.Builder
	for _, item := range root.Field("places").List() {
		s := item.Section("id", "size", "note", "to", "tags")
		fmt.Fprintf(&b, "%s %d %q", s.Field("id").Text(), s.Field("size").IntOr(-1, AtLeast(-1)),
			s.Field("note").TextOr(""))
		if to := s.Field("to"); to.Present() {
			for _, e := range to.Entries() {
				fmt.Fprintf(&b, " %s:%g", e.Name, e.Value.Float(AnyNumber()))
			}
		}
		if tags := s.Field("tags"); tags.Present() {
			for _, tag := range tags.List() {
				b.WriteString(" " + tag.Text())
			}
		}
		b.WriteByte('\n')
	}
	if net := root.Field("net"); net.Present() {
		for _, item := range net.Section("edges").Field("edges").List() {
			s := item.Section("from", "to", "weight")
			fmt.Fprintf(&b, "%s>%s %g\n", s.Field("from").Text(), s.Field("to").Text(),
				s.Field("weight").Float(Between(0, 0.6)))
		}
	}
	return b.String(), r.Err()
}

// placesKind is a kind that readPlaces reads.
func placesKind() Kind {
	return Kind{Name: "places", Load: func(doc *Document, _ Options) (Scenario, error) {
		_, err := readPlaces(doc)
		return nil, err
	}}
}

const filledText = `model: places
places:
  - { id: written }
graph:
  scenario: base
  fill:
    - list: places
      vertices: all
      table: sizes
      item: { id: $name, size: $column(whole), note: "$$ of $name, $index", tags: [fixed, $name] }
    - list: places
      vertices: { kind: [a, b] }
      item: { id: x-$name, to: { $out(-3): $weight } }
    - list: net.edges
      edges: -1
      from: { kind: a }
      item: { from: $source, to: $target, weight: 0.5 }
`

// TestFilled: a list has the items of the file and behind them those of the database, with values of the kinds that the
// columns have; one that is missing there is left out of its item.
func TestFilled(t *testing.T) {
	doc, err := Parse("places.yml", []byte(filledText))
	if err != nil {
		t.Fatal(err)
	}
	var asked []*graphdata.Request
	files := &Files{Graph: answering(t, &asked)}
	doc = placesKind().Attach(doc, files)
	got, err := readPlaces(doc)
	if err != nil {
		t.Fatal(err)
	}
	want := `written -1 ""
v0 0 "$ of v0, 0" fixed v0
v1 1 "$ of v1, 1" fixed v1
v2 -1 "$ of v2, 2" fixed v2
v3 3 "$ of v3, 3" fixed v3
x-v0 -1 "" v1:0
x-v1 -1 "" v2:0.25
x-v2 -1 "" v3:0.5
x-v3 -1 "" v0:0.75
v0>v1 0.5
v1>v2 0.5
v2>v3 0.5
v3>v0 0.5
`
	if got != want {
		t.Errorf("got %s want %s", got, want)
	}
	if f := asked[0].Fills; len(f) != 4 || f[1].Vertices[0].Values[1] != "b" || f[2].Of != graphdata.Edges ||
		f[2].Layer != -3 || f[3].Layer != -1 || f[3].Vertices[0].Type != "kind" || f[0].Columns[1].Of != "whole" {
		t.Errorf("%+v", f)
	}

	// The same files give the same answer, and another process gets it with the text.
	placesKind().Attach(doc, files)
	if len(asked) != 1 {
		t.Errorf("asked %d times for one section", len(asked))
	}
	again, err := Parse("places.yml", []byte(filledText))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readPlaces(again.Attach(doc.Attachments())); err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}

	// What comes of a database can't be set.
	for key, want := range map[string]string{
		"places[3].size": "places[3].size: places.yml:3: found no [3] in places, want an item that stands there " +
			"(written); items that graph adds to it can't be set",
		"net.edges[0].weight": "net.edges[0].weight: places.yml:1: net.edges is nothing and has no [0]; items that " +
			"graph adds to it can't be set",
		"places.written[0]": "places.written[0]: places.yml:3: places[0] is a mapping and has no [0]",
	} {
		if _, err := again.With([]Setting{{key, "1"}}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}

	// Another section doesn't get it.
	other, err := again.With([]Setting{{"graph.scenario", "plan"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = readPlaces(other.Attach(doc.Attachments())); err == nil ||
		!strings.Contains(err.Error(), "a run that goes on has the graph with which it began") {
		t.Error(err)
	}
	pinned, err := again.With([]Setting{{"graph.digest", graphdata.Digest(doc.Attachments()[0].Text)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = readPlaces(pinned.Attach(doc.Attachments())); err != nil {
		t.Error(err)
	}
	pinned, err = again.With([]Setting{{"graph.digest", strings.Repeat("f", 64)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = readPlaces(pinned.Attach(doc.Attachments())); err == nil ||
		!strings.Contains(err.Error(), "has changed in the database") {
		t.Error(err)
	}
}

// TestFilledAtFault: what is wrong with a section is said with its place, and nothing that only follows from it.
func TestFilledAtFault(t *testing.T) {
	const missing = "1:1: places: found nothing, want a list; add the field places\nplaces.yml:"
	const head = "model: places\ngraph:\n  scenario: base\n  fill:\n"
	text := func(n int) string {
		return fmt.Sprintf(`5:69: places[%d: vertex %d].size: found the text "%d", want a whole number >= -1; a `+
			`number comes of one word alone, of a column that is declared as numbers`, n, n, n)
	}
	for text, want := range map[string]string{
		head + "    - { list: places, vertices: all, item: { id: $nam } }": `5:50: graph.fill[0].item: found ` +
			`"$nam", want ` +
			`one of $column(…), $entity, $index, $label(…), $name, $node for vertices; write $$ where a dollar is ` +
			`meant`,
		head + "    - { list: places, vertices: all, item: { id: $column(a) } }": `5:50: graph.fill[0].item: found ` +
			`"$column(a)" without a table, want the field table beside item`,
		head + "    - { list: place, vertices: all, item: { id: $name } }": missing + `5:15: graph.fill[0].list: ` +
			`found "place", ` +
			`which is no field of this kind, want only the fields places, net; did you mean places?`,
		head + "    - { list: 'places[0]', vertices: all, item: { id: $name } }": `5:15: graph.fill[0].list: found ` +
			`"places[0]", want the path of a list of this file, names with dots between`,
		head + "    - { list: graph.fill, vertices: all, item: { id: $name } }": missing + `5:15: ` +
			`graph.fill[0].list: found ` +
			`"graph.fill", want a list outside of this section`,
		head + "    - { list: places, item: { id: $name } }": `5:7: graph.fill[0]: found 0 of the fields ` +
			`vertices, edges ` +
			`and nodes, want one of them`,
		head + "    - { list: places, vertices: some, item: { id: $name } }": `5:33: graph.fill[0].vertices: ` +
			`found the ` +
			`text "some", want all`,
		head + "    - { list: places, vertices: all }": `5:7: graph.fill[0].item: found nothing, want what an ` +
			`item is made ` +
			`of, such as { id: $name }; add the field item`,
		head + "    - { list: places, vertices: all, from: all, item: { id: $name } }": `5:44: ` +
			`graph.fill[0].from: found ` +
			`from beside vertices, want it beside edges only; remove the field`,
		head + "    - { list: places, nodes: all, table: t, item: { id: $node } }": `5:42: graph.fill[0].table: ` +
			`found a ` +
			`table of nodes, want one of vertices or of edges: rows have numbers of vertices`,
		head + "    - { list: places, vertices: all, schema: t, item: { id: $name } }": `5:46: ` +
			`graph.fill[0].schema: found ` +
			`a schema without a table, want both, or none; add the field table`,
		head + "    - { list: places, vertices: all, item: { $out(x): 1 } }": `5:46: graph.fill[0].item: found ` +
			`the name ` +
			`"$out(x)" of a field, want a name without $, or, for vertices, $out(LAYER): a field for each edge ` +
			`that leaves ` +
			`the vertex`,
		head + "    - { list: places, vertices: all, item: { id: '$column(a' } }": `5:50: graph.fill[0].item: ` +
			`found "(a", ` +
			`a parenthesis without its end, want both`,
		"model: places\ngraph: { scenario: base, digest: 12, fill: [] }": missing + "2:34: graph.digest: found " +
			"12, want text; write " +
			"\"12\" in quotes if it is meant as text\nplaces.yml:2:44: graph.fill: found 0 of them, want 1 to 100",
		head + "    - { list: net.edgs, vertices: all, item: { id: $name } }\nplaces: []\nnet: {edges: []}": "5:15: " +
			`graph.fill[0].list: found "net.edgs", and net has no edgs, want only the field edges; did you mean edges?`,
		head + "    - { list: places, vertices: all, item: { id: $name } }\nplaces: 4": `5:15: graph.fill[0].list: ` +
			`found "places", where the file has 4, want the path of a list, or of what the file leaves out`,
		// What is filled in is read as if it stood there.
		head + "    - { list: places, vertices: all, item: { id: $name, size: $name } }": `5:63: places[0: vertex ` +
			`"v0"].` +
			`size: found the text "v0", want a whole number >= -1
places.yml:5:63: places[1: vertex "v1"].size: found the text "v1", want a whole number >= -1
places.yml:5:63: places[2: vertex "v2"].size: found the text "v2", want a whole number >= -1
places.yml:5:63: places[3: vertex "v3"].size: found the text "v3", want a whole number >= -1`,
		head + "    - { list: places, vertices: all, table: t, item: { id: a, size: $column(digits) } }": strings.Join(
			[]string{text(0), text(1), text(3)}, "\nplaces.yml:"),
		head + "    - { list: places, vertices: all, item: { id: $name } }\n" +
			"    - { list: net.edges, edges: 2, item: { from: a, to: b, weight: $weight } }": `6:68: net.edges[3: ` +
			`edge 3>0 of ` +
			`layer 2].weight: found 0.75, want a number from 0 to 0.6`,
	} {
		doc, err := Parse("places.yml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var asked []*graphdata.Request
		_, err = readPlaces(placesKind().Attach(doc, &Files{Graph: answering(t, &asked)}))
		if want = "places.yml:" + want; err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// TestUnread: a path of what the kind doesn't take for a list is refused: the items would be nowhere. With a section
// that is at fault nothing is said of mappings around its lists.
func TestUnread(t *testing.T) {
	registry, err := NewRegistry(placesKind())
	if err != nil {
		t.Fatal(err)
	}
	const text = "model: places\nplaces: []\nnet: { edges: [] }\ngraph:\n  scenario: s\n  fill:\n" +
		"    - { list: net.edges.more, vertices: all, item: { id: $name } }\n"
	doc, err := Parse("places.yml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var asked []*graphdata.Request
	doc = placesKind().Attach(doc, &Files{Graph: answering(t, &asked)})
	const want = `places.yml:7:15: graph.fill[0].list: found "net.edges.more", which is no list of this kind of ` +
		`scenario, want the path of a list`
	if _, err := registry.Load(doc, Options{}); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if doc, err = Parse("places.yml", []byte(strings.Replace(text, ".more", "", 1))); err != nil {
		t.Fatal(err)
	}
	r := NewReader(doc)
	net := r.Root("places", "net").Field("net")
	if before := r.Refusals(); net.Section("edges").Field("edges").List() == nil {
		net.Refuse("no edges", "some", "")
		if r.Refusals() == before || strings.Contains(r.Err().Error(), "no edges") {
			t.Error(r.Err())
		}
	}
}

// TestPath: an item has the path that it would have in the file, whatever messages say of it: names of random streams
// are made of it.
func TestPath(t *testing.T) {
	doc, err := Parse("places.yml", []byte(filledText))
	if err != nil {
		t.Fatal(err)
	}
	var asked []*graphdata.Request
	doc = placesKind().Attach(doc, &Files{Graph: answering(t, &asked)})
	items := NewReader(doc).Root("places", "net").Field("places").List()
	got := items[2].Section("id", "size", "note", "tags").Field("id").Path()
	if len(items) != 9 || got != "places[2].id" {
		t.Errorf("%d items, %s", len(items), got)
	}
}

// TestUnfilled: without a database, or with one that says no, the section is at fault and nothing else.
func TestUnfilled(t *testing.T) {
	doc, err := Parse("places.yml", []byte(filledText))
	if err != nil {
		t.Fatal(err)
	}
	for want, files := range map[string]*Files{
		"found a section that takes items from a database, of which none is named; name it with --db": nil,
		"found that it can't be had: no such scenario": {Graph: func([]byte) ([]byte, error) {
			return nil, errors.New("no such scenario")
		}},
		"found a graph of 3 bytes": {Graph: func([]byte) ([]byte, error) { return []byte("bad"), nil }},
	} {
		_, err := readPlaces(placesKind().Attach(doc, files))
		var problems Problems
		if !errors.As(err, &problems) || len(problems) != 1 || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := readPlaces(doc); err == nil || !strings.Contains(err.Error(), "isn't attached") {
		t.Error(err)
	}
}

// TestManyAtFault: of a column that is wrong in each of many rows, some are shown, and the rest isn't even looked at.
func TestManyAtFault(t *testing.T) {
	doc, err := Parse("places.yml", []byte("model: places\ngraph:\n  scenario: s\n  fill:\n"+
		"    - { list: places, vertices: all, item: { id: $name, size: $name } }\n"))
	if err != nil {
		t.Fatal(err)
	}
	const rows = 1000
	doc = placesKind().Attach(doc, &Files{Graph: func(request []byte) ([]byte, error) {
		d := graphdata.Data{Asked: request, Fills: []graphdata.Rows{{Len: rows}}}
		v := graphdata.Values{}
		for i := range rows {
			d.Fills[0].First = append(d.Fills[0].First, uint32(i))
			v.AddText(fmt.Sprint("v", i))
		}
		d.Fills[0].Columns = []graphdata.Values{v}
		return d.Append(nil)
	}})
	_, err = readPlaces(doc)
	var problems Problems
	if !errors.As(err, &problems) || len(problems) != straysMax+1 {
		t.Errorf("%d problems, want %d", len(problems), straysMax+1)
	}
}

// TestOwnField: a kind with a field of its own that is called graph keeps it.
func TestOwnField(t *testing.T) {
	doc, err := Parse("own.yml", []byte("model: own\ngraph: 7\n"))
	if err != nil {
		t.Fatal(err)
	}
	r := NewReader(doc)
	if n := r.Root("graph").Field("graph").Int(AnyNumber()); n != 7 || r.Err() != nil {
		t.Errorf("%d, %v", n, r.Err())
	}
}
