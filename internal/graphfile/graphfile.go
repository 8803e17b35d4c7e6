// SPDX-License-Identifier: Apache-2.0

// Package graphfile reads and writes files of layered graphs: tables of edges, vertices and labels as CSV or Parquet,
// and whole graphs as GraphML or GML. docs/graph-commands.md describes the formats.
//
// Guarantee: what is written reads back as the same graph. Bytes that are no such file, or a graph that can't be, are
// an [Error] with the file, the line or row, what was found and what is allowed. Tables take the memory of their
// columns and of the vertices' names, and nothing is allocated for each edge; a GML file is in memory as a whole, and
// has 64 MiB at most.
//
//	d, err := graphfile.Read(graphfile.Files{Edges: "roads.csv", Labels: "regions.parquet"})
//	err = graphfile.Write(graphfile.Files{Graph: "roads.graphml"}, d)
package graphfile

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/disco-sim/disco/graph"
	"github.com/disco-sim/disco/graph/sqldb"
	"github.com/disco-sim/disco/internal/printable"
)

// Files says which files a graph is in: Graph alone, or Edges and perhaps the other tables.
type Files struct {
	Graph                   string // GraphML or GML
	Edges, Vertices, Labels string // CSV or Parquet
	ByID                    bool   // tables have numbers of vertices, and not their names
}

// Data is a graph, and what its vertices and edges are called.
type Data struct {
	Graph    *graph.Graph
	Vertices []sqldb.Vertex

	// EdgeName is the name of an edge by layer and number, "": none; nil where no edge has one.
	EdgeName func(layer, edge int) string
}

// Error is what is wrong with a file.
type Error struct {
	File  string
	Where string // line 7, row 7, or ""
	Found string
	Want  string // "" where Found says it all
}

// Error is file, where: found X, want Y.
func (e *Error) Error() string {
	text := e.File
	if e.Where != "" {
		text += ", " + e.Where
	}
	text += ": found " + e.Found
	if e.Want != "" {
		text += ", want " + e.Want
	}
	return text
}

// Limits of what a file may hold.
const (
	textMax    = 64 << 10 // bytes of a name, a type or a value
	columnsMax = 100      // of a table
	recordMax  = 1 << 20  // bytes of a line of a CSV file
)

// format is the ending of a file's name, without the dot.
func format(path string) string { return strings.ToLower(strings.TrimPrefix(filepath.Ext(path), ".")) }

// Check refuses files that don't go together, or of a format that there isn't.
func (f Files) Check() error {
	tables := []string{f.Edges, f.Vertices, f.Labels}
	switch {
	case f.Graph != "" && slices.ContainsFunc(tables, func(t string) bool { return t != "" }):
		return fmt.Errorf("found the graph %s and tables beside it, want one or the other", f.Graph)
	case f.Graph != "" && f.ByID:
		return fmt.Errorf("found numbers of vertices asked for beside the graph %s, which has ids of its own", f.Graph)
	case f.Graph != "":
		if e := format(f.Graph); e != "graphml" && e != "gml" {
			return &Error{File: f.Graph, Found: fmt.Sprintf("the ending %q", e),
				Want: ".graphml or .gml, or tables of edges, vertices and labels"}
		}
		return nil
	case f.Edges == "":
		return fmt.Errorf("found no file of edges, want one, or a whole graph: FILE.graphml or FILE.gml")
	}
	for i, t := range tables {
		for _, other := range tables[:i] {
			if t != "" && other != "" && sameFile(t, other) {
				return fmt.Errorf("found %s and %s, which are one file, for two tables, want a file for each", other, t)
			}
		}
		if e := format(t); t != "" && e != "csv" && e != "parquet" {
			return &Error{File: t, Found: fmt.Sprintf("the ending %q", e), Want: ".csv or .parquet"}
		}
	}
	return nil
}

// sameFile reports whether two paths lead to one file, which needn't be there yet.
func sameFile(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	if errA == nil && errB == nil {
		return os.SameFile(x, y)
	}
	x, errA = os.Stat(filepath.Dir(a))
	y, errB = os.Stat(filepath.Dir(b))
	return errA == nil && errB == nil && os.SameFile(x, y) && filepath.Base(a) == filepath.Base(b)
}

// Read reads a graph.
func Read(f Files) (*Data, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	switch format(f.Graph) {
	case "graphml":
		return readGraphML(f.Graph)
	case "gml":
		return readGML(f.Graph)
	}
	return readTables(f)
}

// checkText refuses text that a database doesn't take, or that is too long.
func checkText[T string | []byte](text T) (found string) {
	switch s := string(text); {
	case len(s) > textMax:
		return fmt.Sprintf("text of %d bytes, which is more than %d", len(s), textMax)
	case !utf8.ValidString(s):
		return "text that is not UTF-8"
	case strings.ContainsRune(s, 0):
		return "text with a NUL in it"
	}
	return ""
}

// quote is text from a file for a message.
func quote[T string | []byte](text T) string { return fmt.Sprintf("%q", printable.Short(string(text))) }

// labelling collects which vertex has which label.
type labelling struct {
	list          []graph.Label
	number        map[graph.Label]uint32
	vertex, label []uint32
}

func (l *labelling) add(vertex uint32, kind, value []byte) {
	n, ok := l.number[graph.Label{Type: string(kind), Value: string(value)}]
	if !ok {
		if l.number == nil {
			l.number = make(map[graph.Label]uint32)
		}
		n = uint32(len(l.list))
		label := graph.Label{Type: string(kind), Value: string(value)}
		l.list, l.number[label] = append(l.list, label), n
	}
	l.vertex, l.label = append(l.vertex, vertex), append(l.label, n)
}

// with gives a graph the labels, in the order of types and values.
func (l *labelling) with(g *graph.Graph) (*graph.Graph, error) {
	order := make([]uint32, len(l.list))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int {
		x, y := l.list[a], l.list[b]
		return cmp.Or(cmp.Compare(x.Type, y.Type), cmp.Compare(x.Value, y.Value))
	})
	list, to := make([]graph.Label, len(order)), make([]uint32, len(order))
	for i, n := range order {
		list[i], to[n] = l.list[n], uint32(i)
	}
	for i, n := range l.label {
		l.label[i] = to[n]
	}
	return g.WithLabels(list, l.vertex, l.label)
}
