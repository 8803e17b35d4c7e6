// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/disco-sim/disco/graph"
)

func example(t testing.TB) *graph.Graph {
	t.Helper()
	g, err := graph.New(4, map[int]graph.Edges{2: {Source: []uint32{1, 0, 0}, Target: []uint32{3, 2, 1},
		Weight: []float64{5, 0.5, 2}}})
	if err != nil {
		t.Fatal(err)
	}
	g, err = g.WithLabels([]graph.Label{{Type: "region", Value: "süd"}, {Type: "size", Value: "L"}},
		[]uint32{3, 0, 3}, []uint32{0, 1, 1})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// shows compares a record with its text: a line for the names and one for each column.
func shows(t *testing.T, r arrow.RecordBatch, want ...string) {
	t.Helper()
	var names, got []string
	for i, f := range r.Schema().Fields() {
		names = append(names, f.Name)
		got = append(got, r.Column(i).String())
	}
	got = append([]string{strings.Join(names, " ")}, got...)
	if text, wanted := strings.Join(got, "\n"), strings.Join(want, "\n"); text != wanted {
		t.Errorf("found\n%s\nwant\n%s", text, wanted)
	}
}

// TestRecords has every record of a small graph.
func TestRecords(t *testing.T) {
	g := example(t)
	l := g.Layer(2)
	shows(t, Edges(l), "source target weight", "[0 0 1]", "[1 2 3]", "[2 0.5 5]")
	shows(t, Degrees(l), "vertex out in", "[0 1 2 3]", "[2 1 0 0]", "[0 1 1 1]")
	shows(t, Labels(g), "label type value", "[0 1]", `["region" "size"]`, `["süd" "L"]`)
	shows(t, Labelled(g), "vertex label", "[0 3 3]", "[1 0 1]")
	shows(t, Mask(g.MaskOfLabel(1)), "vertex", "[0 3]")
	part, _ := l.Components()
	all, err := Vertices(4, Column{"component", part}, Column{"name", []string{"a", "", "c", "d"}},
		Column{"big", []bool{true, false, true, false}}, Column{"layer", []int32{-1, 0, 1, 2}},
		Column{"count", []int64{1 << 40, 0, 0, 0}})
	if err != nil {
		t.Fatal(err)
	}
	shows(t, all, "vertex component name big layer count", "[0 1 2 3]", "[0 0 0 0]", `["a" "" "c" "d"]`,
		"[true false true false]", "[-1 0 1 2]", "[1099511627776 0 0 0]")
	path, err := l.Longest()
	if err != nil {
		t.Fatal(err)
	}
	r, err := Path(l, path)
	if err != nil {
		t.Fatal(err)
	}
	shows(t, r, "vertex weight", "[0 1 3]", "[0 2 7]")
	empty, err := graph.New(0, map[int]graph.Edges{0: {}})
	if err != nil {
		t.Fatal(err)
	}
	shows(t, Edges(empty.Layer(0)), "source target weight", "[]", "[]", "[]")
}

// TestShared: numbers are those of the graph, and what else there is doesn't grow with it.
func TestShared(t *testing.T) {
	of := func(n int) float64 {
		values := make([]float64, n)
		r := record(Column{"x", values})
		if values[n-1] = 7; r.Column(0).(*array.Float64).Value(n-1) != 7 {
			t.Error("values are copied")
		}
		return testing.AllocsPerRun(10, func() { record(Column{"x", values}) })
	}
	if few, many := of(10), of(100_000); few != many {
		t.Errorf("%v allocations for 10 values, %v for 100,000, want as many", few, many)
	}
}

// TestRefuses has what is no record.
func TestRefuses(t *testing.T) {
	g := example(t)
	_, long := Vertices(4, Column{"x", []uint32{1}})
	_, kind := Record(Column{"x", 5})
	_, path := Path(g.Layer(2), graph.Path{Vertices: []uint32{3, 0}})
	_, far := Path(g.Layer(2), graph.Path{Vertices: []uint32{0, 4}})
	mixed := Write(&bytes.Buffer{}, Edges(g.Layer(2)), Mask(g.MaskOfLabel(0)))
	for want, err := range map[string]error{
		`column "x": found 1 values, want 4`: long, `column "x": found a int, want`: kind,
		"no edge from vertex 3 to vertex 0": path, "no edge from vertex 0 to vertex 4": far,
		"record 1 has the columns": mixed, "found no records": Write(&bytes.Buffer{}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found %v, want %q", err, want)
		}
	}
}

// TestWrite reads what was written.
func TestWrite(t *testing.T) {
	edges := Edges(example(t).Layer(2))
	var b bytes.Buffer
	if err := Write(&b, edges, edges); err != nil {
		t.Fatal(err)
	}
	f, err := ipc.NewFileReader(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		r, err := f.RecordBatchAt(i)
		if err != nil {
			t.Fatal(err)
		}
		if !array.RecordEqual(r, edges) {
			t.Errorf("found %v, want %v", r, edges)
		}
	}
	if f.NumRecords() != 2 {
		t.Errorf("found %d records, want 2", f.NumRecords())
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
