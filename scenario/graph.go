// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/disco-sim/disco/internal/graphdata"
	"github.com/disco-sim/disco/internal/infile"
)

// graphField is the top-level field that takes items of lists from a database: docs/scenario-graph.md.
const graphField = "graph"

// graphSection is that field, as it was read.
type graphSection struct {
	at      Value
	request graphdata.Request
	digest  string // that the answer is to have; "": any
	lists   []*fill
}

// fill is the items of one list that come of a database.
type fill struct {
	list  Value    // the field that names the list
	steps []string // its path
	of    string   // what there is an item for: graphdata.Vertices and so on
	item  template
	rows  int         // its number among the request's fills
	read  atomic.Bool // somebody has read the list
}

// filler is a section with the answer to it.
type filler struct {
	*graphSection
	data  *graphdata.Data    // nil: there is none, and the section is at fault
	below map[string][]*fill // by the path of a list, or of a mapping around one
}

// pathSeparator stands between the steps of a path of names.
const pathSeparator = "\x00"

// newFiller finds the lists that are filled.
func newFiller(s *graphSection, data *graphdata.Data) *filler {
	f := &filler{graphSection: s, data: data, below: map[string][]*fill{}}
	for _, l := range s.lists {
		for n := range l.steps {
			path := strings.Join(l.steps[:n+1], pathSeparator)
			f.below[path] = append(f.below[path], l)
		}
	}
	return f
}

// graphOf reads the section of a document, without a word about what is wrong with it: Root says that. nil: there is
// none, or not a good one.
func (d *Document) graphOf() *graphSection {
	r := NewReader(d)
	v, err := d.top(graphField)
	if err != nil || !v.Present() {
		return nil
	}
	v.r = r
	s := readGraph(v)
	if r.Err() != nil {
		return nil
	}
	return s
}

// readGraph reads the section.
func readGraph(v Value) *graphSection {
	g := &graphSection{at: v}
	s := v.Section("scenario", "digest", "nodes", "together", "fill")
	g.request.Scenario = s.Field("scenario").Text()
	if d := s.Field("digest").OrNull(); d.Present() {
		g.digest = d.Text()
		if b, err := hex.DecodeString(g.digest); g.digest != "" && (err != nil || len(b) != 32) {
			d.Refuse(describe(follow(d.node)), "64 hexadecimal digits", "")
		}
	}
	if n := s.Field("nodes").OrNull(); n.Present() {
		nodes := n.Section("distinct", "same")
		g.request.Distinct = oneOrMore(nodes.Field("distinct").OrNull())
		g.request.Same = oneOrMore(nodes.Field("same").OrNull())
	}
	if t := s.Field("together").OrNull(); t.Present() {
		g.request.Together = t.Text()
	}
	fills := s.Field("fill")
	items := fills.List()
	if fills.IsList() && (len(items) == 0 || len(items) > graphdata.FillsMax) {
		fills.Refuse(fmt.Sprintf("%d of them", len(items)), fmt.Sprintf("1 to %d", graphdata.FillsMax), "")
	}
	for _, item := range items {
		g.readFill(item.Section("list", "vertices", "edges", "from", "to", "nodes", "table", "schema", "item"))
	}
	return g
}

// oneOrMore reads a text, or a list of some.
func oneOrMore(v Value) (all []string) {
	if !v.Present() {
		return nil
	}
	items := []Value{v}
	if v.IsList() {
		if items = v.List(); len(items) == 0 {
			v.Refuse("an empty list", "text, or a list of such", "")
		}
	}
	for _, item := range items {
		all = append(all, item.Text())
	}
	return all
}

// readFill reads which items a list is to get.
func (g *graphSection) readFill(s Section) {
	f := &fill{list: s.Field("list"), rows: len(g.request.Fills)}
	g.lists = append(g.lists, f)
	before := s.at.r.Refusals()
	if path := f.list.Text(); path != "" {
		steps, err := parseKey(path)
		if err != nil || slices.ContainsFunc(steps, func(s step) bool { return s.index >= 0 }) {
			f.list.Refuse(fmt.Sprintf("%q", path), "the path of a list of this file, names with dots between", "")
		}
		for _, step := range steps {
			f.steps = append(f.steps, step.name)
		}
		if len(f.steps) > 0 && f.steps[0] == graphField {
			f.list.Refuse(fmt.Sprintf("%q", path), "a list outside of this section", "")
		}
	}
	ask := graphdata.Fill{}
	var given []string
	for _, of := range []string{graphdata.Vertices, graphdata.Edges, graphdata.Nodes} {
		if v := s.Field(of); v.Present() {
			given, ask.Of = append(given, of), of
		}
	}
	if len(given) != 1 && s.at.r.Refusals() == before {
		s.at.Refuse(fmt.Sprintf("%d of the fields vertices, edges and nodes", len(given)), "one of them", "")
		return
	}
	f.of = ask.Of
	switch ask.Of {
	case graphdata.Vertices, graphdata.Nodes:
		ask.Vertices = choices(s.Field(ask.Of))
	case graphdata.Edges:
		ask.Layer = s.Field("edges").Int(Between(math.MinInt32, math.MaxInt32))
		ask.Vertices, ask.Targets = choices(s.Field("from").OrNull()), choices(s.Field("to").OrNull())
	}
	g.readTable(s, &ask)
	for _, field := range []string{"from", "to"} {
		if v := s.Field(field); ask.Of != graphdata.Edges && v.Present() {
			v.Refuse(field+" beside "+ask.Of, "it beside edges only", "remove the field")
		}
	}
	g.request.Fills = append(g.request.Fills, ask)
	c := compiler{g: g, rows: f.rows}
	if item := s.Field("item"); item.Present() {
		f.item = c.compile(item)
	} else {
		s.Field("item").missing("what an item is made of, such as { id: $name }")
	}
}

// readTable reads whether each row of a user's own table is an item.
func (g *graphSection) readTable(s Section, ask *graphdata.Fill) {
	table, schema := s.Field("table").OrNull(), s.Field("schema").OrNull()
	if schema.Present() {
		ask.Table.Schema = schema.Text()
		if !table.Present() {
			schema.Refuse("a schema without a table", "both, or none", "add the field table")
		}
	}
	if !table.Present() {
		return
	}
	ask.Table.Name = table.Text()
	if ask.Of == graphdata.Nodes {
		table.Refuse("a table of nodes", "one of vertices or of edges: rows have numbers of vertices", "")
	}
}

// choices reads which labels vertices are to have; nil: any.
func choices(v Value) (all []graphdata.Choice) {
	if !v.Present() || v.IsText() {
		v.WordOr("all", "all")
		return nil
	}
	for _, e := range v.Entries() {
		all = append(all, graphdata.Choice{Type: e.Name, Values: oneOrMore(e.Value)})
	}
	return all
}

// fileGraph asks for what the section of d wants.
func (f *Files) fileGraph(d *Document, s *graphSection) attached {
	fail := func(found, want, todo string) attached {
		return attached{err: &infile.Error{Path: d.file, Found: found, Want: want, ToDo: todo}}
	}
	request, err := s.request.Append(nil)
	if err != nil {
		return fail(err.Error(), "a smaller section", "")
	}
	if f.Graph == nil {
		return fail("a section that takes items from a database, of which none is named", "",
			"name it with --db, or in DISCO_DB: sqlite:FILE or postgres://USER@HOST/DATABASE")
	}
	key := fileKey{path: graphdata.Name, what: string(request)}
	if known, ok := f.read[key]; ok {
		return known
	}
	text, err := f.Graph(request)
	a := attached{text: text}
	if err != nil {
		a = fail("that it can't be had: "+err.Error(), "", "")
	}
	if f.read == nil {
		f.read = make(map[fileKey]attached)
	}
	f.read[key] = a
	return a
}

// attachGraph opens the answer that is among the files of d.
func (d *Document) attachGraph() {
	a, ok := d.files[graphdata.Name]
	s := d.graphOf()
	if !ok || s == nil || a.err != nil {
		return
	}
	data, err := graphdata.Open(a.text)
	if err == nil {
		err = s.fits(data, a.text)
	}
	if err != nil {
		d.graphFault = err
		return
	}
	d.graph = newFiller(s, data)
}

// fits compares an answer with the section.
func (s *graphSection) fits(data *graphdata.Data, text []byte) error {
	asked, err := s.request.Append(nil)
	switch {
	case err != nil:
		return err
	case string(asked) != string(data.Asked) || len(data.Fills) != len(s.request.Fills):
		return errors.New("another section than the one of which the graph is here; want that one: " +
			"a run that goes on has the graph with which it began")
	case s.digest != "" && s.digest != graphdata.Digest(text):
		return fmt.Errorf("data with the digest %s, want %s, as this section says: what is read of the scenario %s "+
			"has changed in the database", graphdata.Digest(text), s.digest, s.request.Scenario)
	}
	for i := range data.Fills {
		if n := len(data.Fills[i].Columns); n != len(s.request.Fills[i].Columns) {
			return fmt.Errorf("an answer with %d columns, want %d", n, len(s.request.Fills[i].Columns))
		}
	}
	return nil
}

// readGraph reads the section of a reader's document, and has its lists filled; whatever is wrong is refused.
func (r *Reader) readGraph(v Value, fields []string) {
	before := r.Refusals()
	s := readGraph(v)
	for _, f := range s.lists {
		if len(f.steps) > 0 && f.steps[0] != graphField && !slices.Contains(fields, f.steps[0]) {
			f.list.Refuse(fmt.Sprintf("%q, which is no field of this kind", f.steps[0]), allowedFields(fields),
				Suggest(f.steps[0], fields))
		}
	}
	r.graph = newFiller(s, nil)
	if r.Refusals() > before {
		return
	}
	switch a, ok := r.doc.files[graphdata.Name]; {
	case r.doc.graph != nil:
		r.graph = r.doc.graph
	case r.doc.graphFault != nil:
		v.Refuse(r.doc.graphFault.Error(), "", "")
	case !ok:
		v.Refuse("a section whose graph isn't attached", "one that Kind.Attach has asked for", "")
	default:
		v.Refuse(a.err.Found, a.err.Want, a.err.ToDo)
	}
}

// unread refuses lists of the section that the document's kind has taken for something else, or not at all: their items
// would be nowhere. The document is good otherwise.
func (d *Document) unread() error {
	r := NewReader(d)
	if d.graph != nil {
		for _, f := range d.graph.lists {
			if !f.read.Load() {
				f.refuse(r, "which is no list of this kind of scenario", "the path of a list", "")
			}
		}
	}
	return r.Err()
}

// refuse says what is wrong with the field list.
func (f *fill) refuse(r *Reader, found, want, todo string) {
	v := f.list
	v.r = r
	v.Refuse(fmt.Sprintf("%q, %s", strings.Join(f.steps, "."), found), want, todo)
}

// Together is which nodes a graph: section wants on one worker: names, each with the number of its group. There are
// none where the document has no such section, or the section doesn't say so.
func (d *Document) Together() (names []string, groups []uint32) {
	if d.graph == nil {
		return nil, nil
	}
	t := &d.graph.data.Together
	for i := range t.Groups {
		names = append(names, t.Names.Text(i))
	}
	return names, t.Groups
}
