// SPDX-License-Identifier: Apache-2.0

// Package graphdata is what a scenario's graph: section asks of a database, and what the answer is: columns of vertices
// and edges, of which package scenario makes items of lists. docs/scenario-graph.md is the page for people.
//
// Guarantee: an answer depends on what the database holds and on nothing else, so that equal data have equal digests;
// Open takes any bytes, refuses what Data.Append can't have written, and copies none of the columns.
//
//	data, err := graphdata.Open(bytes)
//	rows := data.Fills[0]
//	text, ok := rows.Columns[0].Text(7)
package graphdata

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"

	"github.com/disco-sim/disco/internal/wire"
)

// Name is that of the attachment which is a scenario's answer. No file has it.
const Name = "graph:"

// Limits of a request and of an answer.
const (
	FillsMax   = 100
	ColumnsMax = 100       // of a fill
	RowsMax    = 1 << 24   // of a fill
	BytesMax   = 256 << 20 // of an answer
	textMax    = 1 << 20   // bytes of a text of the request
)

// What a fill has rows of.
const (
	Vertices = "vertices"
	Edges    = "edges"
	Nodes    = "nodes"
)

// Request is what a section asks for.
type Request struct {
	Scenario string
	Distinct []string // label types: vertices that differ in one of them are on different nodes
	Same     []string // label types: vertices that share a label of one of them are on one node
	Together string   // a label type: nodes whose vertices share a label of it go to one worker; "": none
	Fills    []Fill
}

// Fill is what the items of one list are made of.
type Fill struct {
	Of       string   // Vertices, Edges or Nodes
	Layer    int      // of edges
	Vertices []Choice // vertices, one of a node, or the sources of edges, have a label of each
	Targets  []Choice // those of edges have
	Table    Table    // a user's own; without a name: there is none. Each of its rows is a row then
	Columns  []Column
}

// Choice is labels of one type, of which a vertex has one.
type Choice struct {
	Type   string
	Values []string
}

// Table names a user's own table. Without a schema it is in the default one.
type Table struct{ Schema, Name string }

// Column is something known of each vertex or edge: a word, and what stands in its parentheses.
type Column struct{ What, Of string }

// String is the column as a template has it.
func (c Column) String() string {
	if c.Of != "" {
		return "$" + c.What + "(" + c.Of + ")"
	}
	return "$" + c.What
}

// Words that a column may be, by what a fill has rows of; with whether parentheses follow.
var Words = map[string]map[string]bool{
	Vertices: {"index": false, "name": false, "entity": false, "node": false, "label": true, "column": true},
	Edges: {"source": false, "target": false, "source_index": false, "target_index": false, "source_node": false,
		"target_node": false, "weight": false, "edge": false, "source_label": true, "target_label": true,
		"column": true},
	Nodes: {"node": false, "size": false, "label": true},
}

// Append appends the request to buf.
func (r *Request) Append(buf []byte) ([]byte, error) { return wire.Append(buf, r.fields) }

// OpenRequest reads what Append has written.
func OpenRequest(b []byte) (*Request, error) {
	r := &Request{}
	if err := wire.Decode(b, r.fields); err != nil {
		return nil, fmt.Errorf("graphdata: request: %w", err)
	}
	return r, nil
}

func (r *Request) fields(c *wire.Codec) {
	c.String(&r.Scenario)
	texts(c, &r.Distinct)
	texts(c, &r.Same)
	c.String(&r.Together)
	wire.List(c, &r.Fills, 7*4, func(f *Fill) {
		c.String(&f.Of)
		c.Int(&f.Layer)
		choices(c, &f.Vertices)
		choices(c, &f.Targets)
		c.String(&f.Table.Schema)
		c.String(&f.Table.Name)
		wire.List(c, &f.Columns, 8, func(col *Column) {
			c.String(&col.What)
			c.String(&col.Of)
		})
	})
}

func texts(c *wire.Codec, list *[]string) { wire.List(c, list, 4, func(s *string) { c.String(s) }) }

func choices(c *wire.Codec, list *[]Choice) {
	wire.List(c, list, 8, func(choice *Choice) {
		c.String(&choice.Type)
		texts(c, &choice.Values)
	})
}

// Digest is the SHA-256 of bytes, as people see it.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Data is an answer.
type Data struct {
	Asked []byte // the request
	Fills []Rows
	// Together is, of each node that goes to one worker with others, the group in which it is: names and numbers.
	Together Together
}

// Together is which nodes go to one worker: those with the same number.
type Together struct {
	Names  Values // of nodes
	Groups []uint32
}

// Rows is what there is of one fill.
type Rows struct {
	Len     int
	First   []uint32 // the vertex, the source of the edge, or the least vertex of the node, of each row; rising
	Second  []uint32 // the target; nil: there is none
	Columns []Values // in the order of the request
}

// Append appends the answer to buf.
func (d *Data) Append(buf []byte) ([]byte, error) { return wire.Append(buf, d.fields) }

// Open reads what Append has written. Columns are parts of b, which must not change.
func Open(b []byte) (*Data, error) {
	d := &Data{}
	if err := wire.Decode(b, d.fields); err != nil {
		return nil, fmt.Errorf("a graph of %d bytes: %w", len(b), err)
	}
	return d, nil
}

func (d *Data) fields(c *wire.Codec) {
	c.Bytes(&d.Asked)
	wire.List(c, &d.Fills, 8+3*4, func(r *Rows) {
		c.Int(&r.Len)
		wire.Uint32s(c, &r.First)
		wire.Uint32s(c, &r.Second)
		wire.List(c, &r.Columns, 1+3*4, func(v *Values) { v.fields(c) })
		if c.Decoding() {
			r.check(c)
		}
	})
	d.Together.Names.fields(c)
	wire.Uint32s(c, &d.Together.Groups)
	if c.Decoding() && !c.Failed() && d.Together.Names.Len() != len(d.Together.Groups) {
		c.Fail("found %d groups of %d nodes", len(d.Together.Groups), d.Together.Names.Len())
	}
}

func (r *Rows) check(c *wire.Codec) {
	if c.Failed() {
		return
	}
	if r.Len < 0 || len(r.First) != r.Len || len(r.Second) != 0 && len(r.Second) != r.Len {
		c.Fail("found %d rows with %d and %d vertices", r.Len, len(r.First), len(r.Second))
	}
	for i := range r.Columns {
		if n := r.Columns[i].Len(); n != r.Len {
			c.Fail("found a column of %d in %d rows", n, r.Len)
		}
	}
	for i := 1; i < len(r.First); i++ {
		if r.First[i] < r.First[i-1] {
			c.Fail("found vertex %d behind %d, want them rising", r.First[i], r.First[i-1])
			return
		}
	}
}

// Kind is what the values of a column are.
type Kind uint8

// Kinds of columns.
const (
	Text Kind = iota
	Int
	Float
	kinds
)

// Values is one column: its values by row, some of which may be missing.
type Values struct {
	Kind  Kind
	there []byte // one for each row: 0 where the value is missing
	ends  []byte // of Text: where each ends, a u32
	data  []byte // Text's bytes, or 8 for each
}

func (v *Values) fields(c *wire.Codec) {
	kind := uint8(v.Kind)
	c.Byte(&kind)
	v.Kind = Kind(kind)
	c.Bytes(&v.there)
	c.Bytes(&v.ends)
	c.Bytes(&v.data)
	if !c.Decoding() || c.Failed() {
		return
	}
	n := len(v.there)
	switch {
	case v.Kind >= kinds:
		c.Fail("found a column of kind %d, want one below %d", v.Kind, kinds)
	case v.Kind != Text && (len(v.ends) != 0 || len(v.data) != 8*n), v.Kind == Text && len(v.ends) != 4*n:
		c.Fail("found %d and %d bytes for a column of %d values", len(v.ends), len(v.data), n)
	case v.Kind == Text:
		last := uint32(0)
		for i := range n {
			end := binary.LittleEndian.Uint32(v.ends[4*i:])
			if end < last || uint64(end) > uint64(len(v.data)) {
				c.Fail("found text that ends at %d, behind %d, of %d bytes", end, last, len(v.data))
				return
			}
			last = end
		}
		if int(last) != len(v.data) {
			c.Fail("found %d bytes of text, want %d", len(v.data), last)
		}
	}
}

// Len is the number of values.
func (v *Values) Len() int { return len(v.there) }

// Bytes is what the values take in an answer.
func (v *Values) Bytes() int { return len(v.there) + len(v.ends) + len(v.data) }

// Has reports whether there is a value in a row.
func (v *Values) Has(row int) bool { return v.there[row] != 0 }

// Text is the value of a row of kind Text.
func (v *Values) Text(row int) string {
	begin := uint32(0)
	if row > 0 {
		begin = binary.LittleEndian.Uint32(v.ends[4*(row-1):])
	}
	return string(v.data[begin:binary.LittleEndian.Uint32(v.ends[4*row:])])
}

// Int is the value of a row of kind Int.
func (v *Values) Int(row int) int64 { return int64(binary.LittleEndian.Uint64(v.data[8*row:])) }

// Float is the value of a row of kind Float.
func (v *Values) Float(row int) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(v.data[8*row:]))
}

// AddNone adds a row without a value.
func (v *Values) AddNone() {
	switch v.Kind {
	case Text:
		v.AddText("")
	default:
		v.AddInt(0)
	}
	v.there[len(v.there)-1] = 0
}

// AddText adds a row of kind Text.
func (v *Values) AddText(s string) {
	v.there = append(v.there, 1)
	v.data = append(v.data, s...)
	v.ends = binary.LittleEndian.AppendUint32(v.ends, uint32(len(v.data)))
}

// AddInt adds a row of kind Int.
func (v *Values) AddInt(x int64) {
	v.there = append(v.there, 1)
	v.data = binary.LittleEndian.AppendUint64(v.data, uint64(x))
}

// AddFloat adds a row of kind Float.
func (v *Values) AddFloat(x float64) {
	v.there = append(v.there, 1)
	v.data = binary.LittleEndian.AppendUint64(v.data, math.Float64bits(x))
}

// Compare orders two rows by their values; missing ones come first.
func (v *Values) Compare(a, b int) int {
	switch {
	case !v.Has(a) || !v.Has(b):
		return int(v.there[a]) - int(v.there[b])
	case v.Kind == Text:
		x, y := v.Text(a), v.Text(b)
		return sign(x < y, x > y)
	case v.Kind == Int:
		return sign(v.Int(a) < v.Int(b), v.Int(a) > v.Int(b))
	}
	return sign(v.Float(a) < v.Float(b), v.Float(a) > v.Float(b))
}

func sign(less, more bool) int {
	switch {
	case less:
		return -1
	case more:
		return 1
	}
	return 0
}

// In gives the rows in another order.
func (v *Values) In(order []int) Values {
	sorted := Values{Kind: v.Kind}
	for _, row := range order {
		switch {
		case !v.Has(row):
			sorted.AddNone()
		case v.Kind == Text:
			sorted.AddText(v.Text(row))
		case v.Kind == Int:
			sorted.AddInt(v.Int(row))
		default:
			sorted.AddFloat(v.Float(row))
		}
	}
	return sorted
}
