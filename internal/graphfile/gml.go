// SPDX-License-Identifier: Apache-2.0

package graphfile

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/disco-sim/disco/graph"
	"github.com/disco-sim/disco/graph/sqldb"
	"github.com/disco-sim/disco/internal/gml"
	"github.com/disco-sim/disco/internal/infile"
)

// vertexLabel is the key of a label whose type can't be a key of its own: vertexLabel [ type "…" value "…" ].
const vertexLabel = "vertexLabel"

func readGML(file string) (*Data, error) {
	text, err := infile.Read(file, infile.Kind{Name: "a file of GML", BytesMax: gml.FileBytesMax})
	if err != nil {
		return nil, err
	}
	return parseGML(file, text)
}

// parseGML has texts of nodes as labels, as GraphML has them.
func parseGML(file string, text []byte) (*Data, error) {
	in, err := gml.Parse(file, text)
	if err != nil {
		return nil, err
	}
	if len(in.Nodes) > graph.VerticesMax {
		return nil, &Error{File: file, Found: "more nodes", Want: strconv.Itoa(graph.VerticesMax)}
	}
	list, labels := make([]sqldb.Vertex, len(in.Nodes)), labelling{}
	for i := range in.Nodes {
		n := &in.Nodes[i]
		if list[i].Name = n.Label; !n.Labelled {
			list[i].Name = strconv.FormatInt(n.ID, 10)
		}
		for j := range n.Attributes {
			a := &n.Attributes[j]
			kind, value := a.Key, a.Value.Text
			switch {
			case a.Key == vertexLabel && a.Value.Kind == gml.List:
				kind, value = pairOf(a.Value.List)
			case a.Value.Kind != gml.Text:
				continue
			case a.Key == entityAttr:
				list[i].Entity = value
				continue
			}
			if found := checkText(value); found != "" || kind == "" {
				return nil, &Error{file, fmt.Sprintf("line %d", a.Line), "a label " + quote(kind) + " of " + found,
					"a type, and UTF-8 of at most " + strconv.Itoa(textMax) + " bytes"}
			}
			labels.add(uint32(i), []byte(kind), []byte(value))
		}
	}
	e := edges{file: file, unit: "line"}
	for i := range in.Edges {
		if err := addGML(&e, in, &in.Edges[i]); err != nil {
			return nil, err
		}
	}
	return finish(&e, &labels, list, func(i uint32) string {
		return "node " + quote(cmp.Or(list[i].Name, strconv.FormatInt(in.Nodes[i].ID, 10)))
	})
}

// pairOf is type and value of a label.
func pairOf(list []gml.Pair) (kind, value string) {
	for i := range list {
		switch list[i].Key {
		case "type":
			kind = list[i].Value.Text
		case "value":
			value = list[i].Value.Text
		}
	}
	return kind, value
}

func addGML(e *edges, in *gml.Graph, edge *gml.Edge) error {
	weight, layer, name := 1.0, int64(0), ""
	for i := range edge.Attributes {
		a := &edge.Attributes[i]
		wrong := func(want string) error {
			return &Error{e.file, fmt.Sprintf("line %d", a.Line), a.Key + " that is something else", want}
		}
		switch a.Key {
		case weightAttr:
			x, ok := a.Value.Number()
			if !ok {
				return wrong("a finite number")
			}
			weight = x
		case layerAttr:
			if layer = a.Value.Whole; a.Value.Kind != gml.Integer || layer < math.MinInt32 || layer > math.MaxInt32 {
				return wrong(fmt.Sprintf("a whole number from %d to %d", math.MinInt32, math.MaxInt32))
			}
		case labelAttr:
			if name = a.Value.Text; a.Value.Kind != gml.Text {
				return wrong("text in quotes")
			}
		}
	}
	return e.both(!in.Directed, int(layer), uint32(edge.Source), uint32(edge.Target), weight, []byte(name),
		uint32(min(edge.Line, math.MaxUint32)))
}

// gmlKey is a type of labels that can be a key: of keys that mean something else there are none.
var gmlKey = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*$`)

// writeGML writes a graph as GML.
func writeGML(w io.Writer, d *Data) error {
	if d.Graph.Vertices() == 0 {
		return fmt.Errorf("the graph has no vertices, and GML needs one: write tables or GraphML instead")
	}
	list := d.Graph.Labels()
	b := &gmlWriter{mlWriter{w: w}}
	b.raw("graph [\n  directed 1\n")
	for v := range d.Graph.Vertices() {
		b.raw("  node [ id " + strconv.Itoa(v))
		b.pair(labelAttr, d.Vertices[v].Name) // without one, a reader takes the number for it
		if e := d.Vertices[v].Entity; e != "" {
			b.pair(entityAttr, e)
		}
		for _, a := range d.Graph.LabelsOf(v) {
			if t := list[a].Type; gmlKey.MatchString(t) && !slices.Contains([]string{"id", labelAttr, entityAttr,
				vertexLabel, "Latitude", "Longitude"}, t) {
				b.pair(t, list[a].Value)
				continue
			}
			b.raw(" " + vertexLabel + " [")
			b.pair("type", list[a].Type)
			b.pair("value", list[a].Value)
			b.raw(" ]")
		}
		b.raw(" ]\n")
	}
	for _, id := range d.Graph.Layers() {
		l := d.Graph.Layer(id)
		for v := range l.Vertices() {
			out := l.Out(v)
			for i, target := range out.Vertex {
				name := ""
				if d.EdgeName != nil {
					name = d.EdgeName(id, l.FirstOut(v)+i)
				}
				b.edge(id, v, target, out.Weight[i], name)
			}
		}
	}
	b.raw("]\n")
	return b.err
}

// gmlWriter writes GML. Nothing follows its first error.
type gmlWriter struct{ mlWriter }

func (b *gmlWriter) edge(layer, source int, target uint32, weight float64, name string) {
	s := append(b.buf[:0], "  edge [ source "...)
	s = strconv.AppendInt(s, int64(source), 10)
	s = append(s, " target "...)
	s = strconv.AppendUint(s, uint64(target), 10)
	s = append(s, " weight "...)
	s = strconv.AppendFloat(s, weight, 'g', -1, 64)
	s = append(s, " layer "...)
	s = strconv.AppendInt(s, int64(layer), 10)
	b.buf = s
	if b.err == nil {
		_, b.err = b.w.Write(s)
	}
	if name != "" {
		b.pair(labelAttr, name)
	}
	b.raw(" ]\n")
}

// pair writes a key and text: GML is ASCII, and has other characters as entities.
func (b *gmlWriter) pair(key, text string) {
	if b.err != nil {
		return
	}
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(c rune) bool {
		return unicode.IsControl(c) && c != '\n' && c != '\t' && c != '\r'
	}) {
		b.err = fmt.Errorf("the text %s has characters that GML can't have: write tables instead", quote(text))
		return
	}
	s := append(b.buf[:0], ' ')
	s = append(append(s, key...), ` "`...)
	for _, c := range text {
		switch {
		case c == '&':
			s = append(s, "&amp;"...)
		case c == '"':
			s = append(s, "&quot;"...)
		case c < utf8.RuneSelf:
			s = append(s, byte(c))
		default:
			s = fmt.Appendf(s, "&#%d;", c)
		}
	}
	b.buf = append(s, '"')
	_, b.err = b.w.Write(b.buf)
}
