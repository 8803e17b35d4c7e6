// SPDX-License-Identifier: Apache-2.0

package graphfile

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/graph"
	"github.com/disco-sim/disco/graph/sqldb"
	"github.com/disco-sim/disco/internal/infile"
)

// Names of attributes that aren't labels, as GraphML and GML have them. A type of labels of such a name has a prefix.
const (
	nameAttr, labelAttr, entityAttr = "name", "label", "entity"
	weightAttr, layerAttr           = "weight", "layer"
	typePrefix                      = "label:"
)

// single are the attributes that a node or an edge has once; labels of one type may be several.
var single = map[string][]string{"node": {nameAttr, labelAttr, entityAttr}, "edge": {nameAttr, weightAttr, layerAttr}}

// depthMax bounds how deep elements are nested; a graph needs 4.
const depthMax = 16

// graphML reads a file of GraphML (Brandes and others, GraphML Progress Report, 2002): nodes, edges and data; what a
// node's text attributes say are labels. Nested graphs, hyperedges and ports are refused.
type graphML struct {
	file       string
	in         *xmlReader
	keys       []mlKey
	byID       map[string]int  // of keys
	named      map[string]bool // node or edge, and the name of an attribute that it has
	undirected bool
	graphs     int
	depth      int
	index      map[string]uint32 // by id: in the order in which ids are found
	nodes      []mlNode
	vertices   uint32
	edges      edges
	labels     labelling

	data   []mlData // of the node or the edge that is read, and where their text is
	values []byte
	found  []uint64 // by key: the last element that has it, by elements
	which  uint64   // elements so far
}

// mlKey is what <key> says of an attribute.
type mlKey struct {
	of, name, kind string // node, edge or all; its name; its type
	value          string // of those that don't have it
	preset         bool
	label          []byte // the type of labels that it makes, nil: none
}

// has reports whether it is an attribute of nodes, or of edges.
func (k mlKey) has(of string) bool { return k.of == of || k.of == "all" || k.of == "" }

// mlNode is a node, which edges may name before it comes.
type mlNode struct {
	id      string
	vertex  sqldb.Vertex
	number  uint32 // in the order of nodes
	defined bool
	at      uint32 // the line of an edge that names it
}

// mlData is an attribute of a node or an edge: its key, and where its text is.
type mlData struct{ key, from, to int }

func readGraphML(file string) (*Data, error) {
	f, err := infile.Open(file, infile.Kind{Name: "a file of GraphML"})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseGraphML(file, f)
}

func parseGraphML(file string, in io.Reader) (*Data, error) {
	r := &graphML{file: file, in: newXMLReader(in), byID: make(map[string]int), named: make(map[string]bool),
		index: make(map[string]uint32), edges: edges{file: file, unit: "line"}}
	if err := r.elements(""); err != nil {
		return nil, err
	}
	if r.graphs == 0 {
		return nil, &Error{File: file, Found: "no graph", Want: "<graphml> with a <graph> in it"}
	}
	list, to := make([]sqldb.Vertex, r.vertices), make([]uint32, len(r.nodes))
	for i := range r.nodes {
		n := &r.nodes[i]
		if !n.defined {
			return nil, &Error{file, fmt.Sprintf("line %d", n.at), "node " + quote(n.id) + ", which isn't there",
				"the id of a <node>"}
		}
		to[i], list[n.number] = n.number, n.vertex
	}
	r.edges.renumber(to)
	for i, v := range r.labels.vertex {
		r.labels.vertex[i] = to[v]
	}
	return finish(&r.edges, &r.labels, list, func(i uint32) string {
		at := slices.Index(to, i)
		return "node " + quote(cmp.Or(list[i].Name, r.nodes[at].id))
	})
}

func (r *graphML) wrong(found, want string) error {
	return &Error{r.file, fmt.Sprintf("line %d", r.in.line), found, want}
}

// token is the next one.
func (r *graphML) token() (xmlKind, error) {
	kind, err := r.in.next()
	if err == nil {
		return kind, nil
	}
	var syntax xmlError
	if errors.As(err, &syntax) {
		return kind, r.wrong("bad XML: "+string(syntax), "a file of GraphML, in UTF-8")
	}
	return kind, r.wrong("what can't be read: "+err.Error(), "a file of GraphML")
}

// elements reads the elements within one, or, for "", the root. What isn't known is passed over, as GraphML allows.
func (r *graphML) elements(within string) error {
	if r.depth++; r.depth > depthMax {
		return r.wrong(fmt.Sprintf("elements nested more than %d deep", depthMax), "fewer")
	}
	defer func() { r.depth-- }()
	for {
		kind, err := r.token()
		switch {
		case err != nil || kind == xmlEOF || kind == xmlEnd:
			return err
		case kind == xmlText:
			if within == "" && len(bytes.TrimLeft(r.in.text, "\ufeff \t\r\n")) > 0 {
				return r.wrong("text outside <graphml>", "none")
			}
		default:
			if err := r.element(within); err != nil {
				return err
			}
		}
	}
}

// element reads the one that has begun.
func (r *graphML) element(within string) error {
	x := r.in
	switch {
	case within == "" && !x.is("graphml"):
		return r.wrong("<"+quote(x.name)+">", "<graphml>")
	case within == "":
		return r.elements("graphml")
	case x.is("key") && within == "graphml":
		return r.key()
	case x.is("graph") && within == "graphml":
		if r.graphs++; r.graphs > 1 {
			return r.wrong("a second graph", "one in a file")
		}
		switch d := string(x.attr("edgedefault")); d {
		case "directed", "undirected":
			r.undirected = d == "undirected"
		default:
			return r.wrong("the edgedefault "+quote(d), "directed or undirected")
		}
		return r.elements("graph")
	case x.is("node") && within == "graph":
		return r.node()
	case x.is("edge") && within == "graph":
		return r.edge()
	case x.is("node") || x.is("edge") || r.more():
		return r.wrong("<"+string(x.name)+"> in <"+within+">", "nodes and edges in one graph, without hyperedges and "+
			"ports")
	}
	return r.elements("other")
}

// more reports whether the element that has begun is of graphs that have more than nodes and edges.
func (r *graphML) more() bool { return r.in.is("graph") || r.in.is("hyperedge") || r.in.is("port") }

func (r *graphML) key() error {
	k := mlKey{of: string(r.in.attr("for")), name: string(r.in.attr("attr.name")), kind: string(r.in.attr("attr.type"))}
	id := string(r.in.attr("id"))
	if k.name == "" {
		k.name = id
	}
	if _, twice := r.byID[id]; twice || id == "" {
		return r.wrong("a key with the id "+quote(id), "an id of its own")
	}
	if len(r.keys) == 10_000 {
		return r.wrong("more than 10000 keys", "fewer")
	}
	if found := checkText(k.name); found != "" {
		return r.wrong(found, "the name of an attribute")
	}
	for _, of := range []string{"node", "edge"} {
		if !k.has(of) {
			continue
		}
		if r.named[of+k.name] {
			return r.wrong("a second key for "+of+" with the attr.name "+quote(k.name), "one, or another name")
		}
		r.named[of+k.name] = true
	}
	for {
		more, err := r.child()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		preset := r.in.is("default")
		r.values = r.values[:0]
		if err := r.content(); err != nil {
			return err
		}
		if preset {
			k.value, k.preset = string(r.values), true
		}
	}
	if kind := strings.TrimPrefix(k.name, typePrefix); kind != "" && (k.kind == "string" || k.kind == "") {
		k.label = []byte(kind)
	}
	r.byID[id] = len(r.keys)
	r.keys, r.found = append(r.keys, k), append(r.found, 0)
	return nil
}

// child goes to the next element right below the one that has begun; there may be none.
func (r *graphML) child() (more bool, err error) {
	for {
		kind, err := r.token()
		if err != nil || kind == xmlEOF || kind == xmlEnd {
			return false, err
		}
		if kind == xmlText {
			continue
		}
		if r.more() {
			return false, r.wrong("<"+string(r.in.name)+"> in a node or an edge", "data")
		}
		return true, nil
	}
}

// content appends the text of an element to values, without that of elements in it. Of text that is too long it is
// enough to know that.
func (r *graphML) content() error {
	from := len(r.values)
	for depth := 1; ; {
		kind, err := r.token()
		switch {
		case err != nil || kind == xmlEOF:
			return err
		case kind == xmlStart:
			if depth++; depth > depthMax {
				return r.wrong(fmt.Sprintf("elements nested more than %d deep", depthMax), "fewer")
			}
		case kind == xmlEnd:
			if depth--; depth == 0 {
				return nil
			}
		case depth == 1 && len(r.values)-from <= textMax:
			r.values = append(r.values, r.in.text...)
		}
	}
}

// valuesMax bounds the text of all attributes of a node or an edge.
const valuesMax = 16 << 20

// read reads the attributes of a node or an edge, and those that it has by default.
func (r *graphML) read(of string) error {
	r.data, r.values = r.data[:0], r.values[:0]
	r.which++
	for {
		more, err := r.child()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		from := len(r.values)
		if !r.in.is("data") {
			if err := r.content(); err != nil {
				return err
			}
			r.values = r.values[:from]
			continue
		}
		const want = "data of a <key>, once, of at most "
		id := r.in.attr("key")
		k, known := r.byID[string(id)]
		if !known {
			return r.wrong("data of the key "+quote(id)+", which isn't there", "that of a <key>")
		}
		if r.found[k] == r.which && slices.Contains(single[of], r.keys[k].name) {
			return r.wrong("data of the key "+quote(id)+" a second time", "it once")
		}
		if err := r.content(); err != nil {
			return err
		}
		if found := checkText(r.values[from:]); found != "" {
			return r.wrong(found, want+strconv.Itoa(textMax)+" bytes")
		}
		if len(r.values) > valuesMax {
			return r.wrong(fmt.Sprintf("more than %d bytes of data", valuesMax), "less in a node or an edge")
		}
		r.found[k] = r.which
		r.data = append(r.data, mlData{k, from, len(r.values)})
	}
	for i := range r.keys {
		if k := &r.keys[i]; k.preset && r.found[i] != r.which && k.has(of) {
			from := len(r.values)
			r.values = append(r.values, k.value...)
			r.data = append(r.data, mlData{i, from, len(r.values)})
		}
	}
	return nil
}

// refer is the number of a node by its id.
func (r *graphML) refer(id []byte) (uint32, error) {
	if i, ok := r.index[string(id)]; ok {
		return i, nil
	}
	switch {
	case len(id) == 0:
		return 0, r.wrong("no id of a node", "one")
	case checkText(id) != "":
		return 0, r.wrong(checkText(id), "an id")
	case len(r.nodes) == graph.VerticesMax:
		return 0, r.wrong("more nodes", strconv.Itoa(graph.VerticesMax))
	}
	i := uint32(len(r.nodes))
	n := mlNode{id: string(id), at: r.in.line}
	r.index[n.id] = i
	r.nodes = append(r.nodes, n)
	return i, nil
}

func (r *graphML) node() error {
	i, err := r.refer(r.in.attr("id"))
	if err != nil {
		return err
	}
	if r.nodes[i].defined {
		return r.wrong("node "+quote(r.nodes[i].id)+" a second time", "it once")
	}
	if err := r.read("node"); err != nil {
		return err
	}
	n := &r.nodes[i]
	var name, label, entity string
	named := false
	for _, d := range r.data {
		text := r.values[d.from:d.to]
		switch k := &r.keys[d.key]; k.name {
		case nameAttr:
			name, named = n.id, true // the same text is there once
			if name != string(text) {
				name = string(text)
			}
		case labelAttr:
			label = string(text)
		case entityAttr:
			entity = string(text)
		default:
			if k.label != nil {
				r.labels.add(i, k.label, text)
			}
		}
	}
	if !named {
		name = cmp.Or(label, n.id)
	}
	n.vertex, n.number, n.defined = sqldb.Vertex{Name: name, Entity: entity}, r.vertices, true
	r.vertices++
	return nil
}

func (r *graphML) edge() error {
	at := r.in.line
	source, err := r.refer(r.in.attr("source"))
	if err != nil {
		return err
	}
	target, err := r.refer(r.in.attr("target"))
	if err != nil {
		return err
	}
	undirected := r.undirected
	switch d := r.in.attr("directed"); string(d) {
	case "":
	case "true", "false":
		undirected = string(d) == "false"
	default:
		return r.wrong("directed="+quote(d), "true or false")
	}
	if err := r.read("edge"); err != nil {
		return err
	}
	weight, layer, name := 1.0, 0, []byte(nil)
	for _, d := range r.data {
		text := r.values[d.from:d.to]
		switch r.keys[d.key].name {
		case weightAttr:
			x, ok := parseNumber(text)
			if !ok || math.IsNaN(x) || math.IsInf(x, 0) {
				return r.wrong("the weight "+quote(text), "a finite number")
			}
			weight = x
		case layerAttr:
			n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 32)
			if err != nil {
				return r.wrong("the layer "+quote(text), fmt.Sprintf("a whole number from %d to %d", math.MinInt32,
					math.MaxInt32))
			}
			layer = int(n)
		case nameAttr:
			name = text
		}
	}
	return r.edges.both(undirected, layer, source, target, weight, name, at)
}

// both adds an edge, and, where it is undirected, another one back, without a name.
func (e *edges) both(undirected bool, layer int, source, target uint32, weight float64, name []byte, at uint32) error {
	err := e.add(layer, source, target, weight, name, at)
	if err == nil && undirected && source != target {
		err = e.add(layer, target, source, weight, nil, at)
	}
	return err
}

// writeGraphML writes a graph as GraphML.
func writeGraphML(w io.Writer, d *Data) error {
	types := d.Graph.LabelTypes()
	b := &mlWriter{w: w}
	b.raw(`<?xml version="1.0" encoding="UTF-8"?>` + "\n")
	b.raw(`<graphml xmlns="http://graphml.graphdrawing.org/xmlns">` + "\n")
	key := func(id, of, name, kind string) {
		b.raw(`<key id="` + id + `" for="` + of + `" attr.name="`)
		b.text(name)
		b.raw(`" attr.type="` + kind + `"/>` + "\n")
	}
	key("name", "node", nameAttr, "string")
	key("entity", "node", entityAttr, "string")
	for i, t := range types {
		if slices.Contains([]string{nameAttr, labelAttr, entityAttr}, t) || strings.HasPrefix(t, typePrefix) {
			t = typePrefix + t
		}
		key("l"+strconv.Itoa(i), "node", t, "string")
	}
	key("weight", "edge", weightAttr, "double")
	key("layer", "edge", layerAttr, "int")
	key("edgename", "edge", nameAttr, "string")
	b.raw(`<graph id="G" edgedefault="directed">` + "\n")
	for v := range d.Graph.Vertices() {
		b.node(d, v, types)
	}
	for _, id := range d.Graph.Layers() {
		l := d.Graph.Layer(id)
		for v := range l.Vertices() {
			for i := range l.Out(v).Vertex {
				b.edge(d, id, v, i)
			}
		}
	}
	b.raw("</graph>\n</graphml>\n")
	return b.err
}

// mlWriter writes XML. Nothing follows its first error.
type mlWriter struct {
	w   io.Writer
	buf []byte
	err error
}

func (b *mlWriter) raw(s string) {
	if b.err == nil {
		_, b.err = io.WriteString(b.w, s)
	}
}

// text writes text with what XML means by other things written as entities, and refuses what XML can't have.
func (b *mlWriter) text(s string) {
	if b.err != nil {
		return
	}
	if strings.ContainsFunc(s, func(c rune) bool {
		return c < ' ' && c != '\n' && c != '\r' && c != '\t' || c == 0xfffe || c == 0xffff
	}) {
		b.err = fmt.Errorf("the text %s has characters that XML can't have: write tables instead", quote(s))
		return
	}
	b.err = xml.EscapeText(b.w, []byte(s))
}

func (b *mlWriter) data(key, text string) {
	b.raw(`<data key="` + key + `">`)
	b.text(text)
	b.raw(`</data>`)
}

func (b *mlWriter) node(d *Data, v int, types []string) {
	b.raw(`<node id="n` + strconv.Itoa(v) + `">`)
	b.data("name", d.Vertices[v].Name) // without one, a reader takes the id for it
	if e := d.Vertices[v].Entity; e != "" {
		b.data("entity", e)
	}
	list := d.Graph.Labels()
	for _, a := range d.Graph.LabelsOf(v) {
		i, _ := slices.BinarySearch(types, list[a].Type)
		b.data("l"+strconv.Itoa(i), list[a].Value)
	}
	b.raw("</node>\n")
}

// edge writes the ith edge that begins at v.
func (b *mlWriter) edge(d *Data, layer, v, i int) {
	l := d.Graph.Layer(layer)
	out := l.Out(v)
	s := append(b.buf[:0], `<edge source="n`...)
	s = strconv.AppendInt(s, int64(v), 10)
	s = append(s, `" target="n`...)
	s = strconv.AppendUint(s, uint64(out.Vertex[i]), 10)
	s = append(s, `"><data key="weight">`...)
	s = strconv.AppendFloat(s, out.Weight[i], 'g', -1, 64)
	s = append(s, `</data><data key="layer">`...)
	s = strconv.AppendInt(s, int64(layer), 10)
	s = append(s, `</data>`...)
	b.buf = s
	if b.err == nil {
		_, b.err = b.w.Write(s)
	}
	if d.EdgeName != nil {
		if name := d.EdgeName(layer, l.FirstOut(v)+i); name != "" {
			b.data("edgename", name)
		}
	}
	b.raw("</edge>\n")
}
