// SPDX-License-Identifier: Apache-2.0

package graphfile

import (
	"bufio"
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
	in         *xml.Decoder
	keys       map[string]mlKey
	named      map[string]bool // node or edge, and the name of an attribute that it has
	undirected bool
	graphs     int
	depth      int
	index      map[string]uint32 // by id: in the order in which ids are found
	nodes      []mlNode
	vertices   uint32
	edges      edges
	labels     labelling
}

// mlKey is what <key> says of an attribute.
type mlKey struct {
	of, name, kind string // node, edge or all; its name; its type
	value          string // of those that don't have it
	preset         bool
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

// mlData is an attribute of a node or an edge.
type mlData struct{ key, text string }

func readGraphML(file string) (*Data, error) {
	f, err := infile.Open(file, infile.Kind{Name: "a file of GraphML"})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseGraphML(file, f)
}

func parseGraphML(file string, in io.Reader) (*Data, error) {
	r := &graphML{file: file, in: xml.NewDecoder(bufio.NewReader(in)), keys: make(map[string]mlKey),
		named: make(map[string]bool), index: make(map[string]uint32), edges: edges{file: file, unit: "line"}}
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

func (r *graphML) line() uint32 {
	line, _ := r.in.InputPos()
	return uint32(min(line, math.MaxUint32))
}

func (r *graphML) wrong(found, want string) error {
	return &Error{r.file, fmt.Sprintf("line %d", r.line()), found, want}
}

// token is the next one that matters; nil at the end.
func (r *graphML) token() (xml.Token, error) {
	t, err := r.in.Token()
	var syntax *xml.SyntaxError
	switch {
	case errors.Is(err, io.EOF):
		return nil, nil
	case errors.As(err, &syntax):
		return nil, r.wrong("bad XML: "+syntax.Msg, "a file of GraphML")
	case err != nil:
		return nil, r.wrong("what can't be read: "+err.Error(), "a file of GraphML in UTF-8")
	}
	return t, nil
}

// elements reads the elements within one, or, for "", the root. What isn't known is passed over, as GraphML allows.
func (r *graphML) elements(within string) error {
	if r.depth++; r.depth > depthMax {
		return r.wrong(fmt.Sprintf("elements nested more than %d deep", depthMax), "fewer")
	}
	defer func() { r.depth-- }()
	for {
		t, err := r.token()
		if err != nil {
			return err
		}
		switch t := t.(type) {
		case nil, xml.EndElement:
			return nil
		case xml.CharData:
			if within == "" && len(bytes.TrimLeft(t, "\ufeff \t\r\n")) > 0 {
				return r.wrong("text outside <graphml>", "none")
			}
		case xml.StartElement:
			if err := r.element(within, t); err != nil {
				return err
			}
		}
	}
}

func (r *graphML) element(within string, e xml.StartElement) error {
	name := e.Name.Local
	switch {
	case within == "" && name != "graphml":
		return r.wrong("<"+quote(name)+">", "<graphml>")
	case within == "":
		return r.elements(name)
	case name == "key" && within == "graphml":
		return r.key(e)
	case name == "graph" && within == "graphml":
		if r.graphs++; r.graphs > 1 {
			return r.wrong("a second graph", "one in a file")
		}
		switch d := attribute(e, "edgedefault"); d {
		case "directed", "undirected":
			r.undirected = d == "undirected"
		default:
			return r.wrong("the edgedefault "+quote(d), "directed or undirected")
		}
		return r.elements(name)
	case name == "node" && within == "graph":
		return r.node(e)
	case name == "edge" && within == "graph":
		return r.edge(e)
	case name == "graph" || name == "hyperedge" || name == "port" || name == "node" || name == "edge":
		return r.wrong("<"+name+"> in <"+within+">", "nodes and edges in one graph, without hyperedges and ports")
	}
	return r.elements("other")
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func (r *graphML) key(e xml.StartElement) error {
	k := mlKey{of: attribute(e, "for"), name: attribute(e, "attr.name"), kind: attribute(e, "attr.type")}
	id := attribute(e, "id")
	if k.name == "" {
		k.name = id
	}
	if _, twice := r.keys[id]; twice || id == "" {
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
	err := r.children(func(e xml.StartElement, text string) {
		if e.Name.Local == "default" {
			k.value, k.preset = text, true
		}
	})
	r.keys[id] = k
	return err
}

// children calls each for each element right below the one that has begun, with its text.
func (r *graphML) children(each func(e xml.StartElement, text string)) error {
	for {
		t, err := r.token()
		if err != nil {
			return err
		}
		switch t := t.(type) {
		case nil, xml.EndElement:
			return nil
		case xml.StartElement:
			switch t.Name.Local {
			case "graph", "port", "hyperedge":
				return r.wrong("<"+t.Name.Local+"> in a node or an edge", "data")
			}
			text, err := r.content()
			if err != nil {
				return err
			}
			each(t, text)
		}
	}
}

// content is the text of an element, without that of elements in it.
func (r *graphML) content() (string, error) {
	var text []byte
	for depth := 1; ; {
		t, err := r.token()
		if err != nil {
			return "", err
		}
		switch t := t.(type) {
		case nil:
			return string(text), nil
		case xml.StartElement:
			if depth++; depth > depthMax {
				return "", r.wrong(fmt.Sprintf("elements nested more than %d deep", depthMax), "fewer")
			}
		case xml.EndElement:
			if depth--; depth == 0 {
				return string(text), nil
			}
		case xml.CharData:
			if depth == 1 {
				text = append(text, t...)
			}
		}
	}
}

// data reads the attributes of a node or an edge, and those that it has by default.
func (r *graphML) data(of string) (list []mlData, err error) {
	found := map[string]bool{}
	var bad string
	err = r.children(func(e xml.StartElement, text string) {
		if e.Name.Local != "data" {
			return
		}
		id := attribute(e, "key")
		if _, known := r.keys[id]; !known && bad == "" {
			bad = "data of the key " + quote(id) + ", which isn't there"
		}
		if f := checkText(text); f != "" && bad == "" {
			bad = f
		}
		if found[id] && bad == "" && slices.Contains(single[of], r.keys[id].name) {
			bad = "data of the key " + quote(id) + " a second time"
		}
		found[id] = true
		list = append(list, mlData{id, text})
	})
	if err == nil && bad != "" {
		err = r.wrong(bad, "data of a <key>, once, of at most "+strconv.Itoa(textMax)+" bytes")
	}
	for id, k := range r.keys {
		if k.preset && !found[id] && k.has(of) {
			list = append(list, mlData{id, k.value})
		}
	}
	return list, err
}

// refer is the number of a node by its id.
func (r *graphML) refer(id string) (uint32, error) {
	if i, ok := r.index[id]; ok {
		return i, nil
	}
	switch {
	case id == "":
		return 0, r.wrong("no id of a node", "one")
	case checkText(id) != "":
		return 0, r.wrong(checkText(id), "an id")
	case len(r.nodes) == graph.VerticesMax:
		return 0, r.wrong("more nodes", strconv.Itoa(graph.VerticesMax))
	}
	i := uint32(len(r.nodes))
	r.index[id] = i
	r.nodes = append(r.nodes, mlNode{id: id, at: r.line()})
	return i, nil
}

func (r *graphML) node(e xml.StartElement) error {
	i, err := r.refer(attribute(e, "id"))
	if err != nil {
		return err
	}
	if r.nodes[i].defined {
		return r.wrong("node "+quote(r.nodes[i].id)+" a second time", "it once")
	}
	data, err := r.data("node")
	if err != nil {
		return err
	}
	var name, label, entity string
	named := false
	for _, d := range data {
		switch k := r.keys[d.key]; k.name {
		case nameAttr:
			name, named = d.text, true
		case labelAttr:
			label = d.text
		case entityAttr:
			entity = d.text
		default:
			if kind := strings.TrimPrefix(k.name, typePrefix); kind != "" && (k.kind == "string" || k.kind == "") {
				r.labels.add(i, []byte(kind), []byte(d.text))
			}
		}
	}
	if !named {
		name = cmp.Or(label, r.nodes[i].id)
	}
	n := &r.nodes[i]
	n.vertex, n.number, n.defined = sqldb.Vertex{Name: name, Entity: entity}, r.vertices, true
	r.vertices++
	return nil
}

func (r *graphML) edge(e xml.StartElement) error {
	at := r.line()
	source, err := r.refer(attribute(e, "source"))
	if err != nil {
		return err
	}
	target, err := r.refer(attribute(e, "target"))
	if err != nil {
		return err
	}
	undirected := r.undirected
	switch d := attribute(e, "directed"); d {
	case "", "true", "false":
		if d != "" {
			undirected = d == "false"
		}
	default:
		return r.wrong("directed="+quote(d), "true or false")
	}
	data, err := r.data("edge")
	if err != nil {
		return err
	}
	weight, layer, name := 1.0, 0, ""
	for _, d := range data {
		switch k := r.keys[d.key]; k.name {
		case weightAttr:
			x, ok := parseNumber([]byte(d.text))
			if !ok || math.IsNaN(x) || math.IsInf(x, 0) {
				return r.wrong("the weight "+quote(d.text), "a finite number")
			}
			weight = x
		case layerAttr:
			n, err := strconv.ParseInt(strings.TrimSpace(d.text), 10, 32)
			if err != nil {
				return r.wrong("the layer "+quote(d.text), fmt.Sprintf("a whole number from %d to %d", math.MinInt32,
					math.MaxInt32))
			}
			layer = int(n)
		case nameAttr:
			name = d.text
		}
	}
	return r.edges.both(undirected, layer, source, target, weight, []byte(name), at)
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
