// SPDX-License-Identifier: Apache-2.0

package gml_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/gml"
	"github.com/disco-sim/disco/scenario"
)

var update = flag.Bool("update", false, "write the expected texts in testdata/bad anew")

// TestBad holds every small file in testdata/bad, each wrong in the way that its name
// says, against its text.
func TestBad(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.gml")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d files in testdata/bad: %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		g, err := gml.Parse(filepath.Base(file), text)
		var problems scenario.Problems
		if !errors.As(err, &problems) || g != nil {
			t.Errorf("%s: the error is %v with graph %v, want Problems and none", file, err, g)
			continue
		}
		got, golden := err.Error()+"\n", strings.TrimSuffix(file, ".gml")+".txt"
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatalf("%v (write it with -update)", err)
		}
		if got != string(want) {
			t.Errorf("%s: got\n%swant\n%s", file, got, want)
		}
	}
}

// TestGraph: everything that the Zoo's form has, in one file.
func TestGraph(t *testing.T) {
	g, err := gml.Parse("t.gml", []byte(`# a comment
Creator "by hand"
graph [
  label "two &amp; a half"
  GeoLocation "M&#252;nchen, Köln"   # another
  edge [ source 7 target -2 LinkSpeedRaw 2500000000.0 id "e0" LinkLabel "2.5 Gbps" ]
  node [ id 7 label "Köln" Latitude 50.94 Longitude +6.96 Population 1087000 ]
  node [ id -2 hyperedge 1 graphics [ x 1.5e1 ] ]
  edge [ source -2 target 7 ]
  edge [ source 7 target 7 ]
]
`))
	if err != nil {
		t.Fatal(err)
	}
	if g.Label != "two & a half" || g.Directed || len(g.Attributes) != 1 ||
		g.Attributes[0].Value.Text != "München, Köln" {
		t.Errorf("graph: %+v", g)
	}
	koeln, other := g.Nodes[0], g.Nodes[1]
	if n, ok := koeln.Number("Population"); !ok || n != 1087000 || koeln.Label != "Köln" || !koeln.Placed ||
		koeln.Latitude != 50.94 || koeln.Longitude != 6.96 || koeln.Line != 7 || koeln.Column != 3 {
		t.Errorf("node: %+v", koeln)
	}
	if x := other.Attributes[1].Value.List[0]; other.ID != -2 || other.Placed || x.Key != "x" || x.Value.Float != 15 {
		t.Errorf("node: %+v", other)
	}
	var ends [][2]int
	for _, e := range g.Edges {
		ends = append(ends, [2]int{e.Source, e.Target})
	}
	if want := [][2]int{{0, 1}, {1, 0}, {0, 0}}; !reflect.DeepEqual(ends, want) || g.Edges[0].Rate != 2.5e9 ||
		g.Edges[0].ID != "e0" || g.Edges[1].Rate != 0 {
		t.Errorf("edges: %+v", g.Edges)
	}
}

// TestCutShort cuts a good file after every byte: each is an error, or, once the last
// bracket stands, good.
func TestCutShort(t *testing.T) {
	const whole = "graph [\n  node [ id 0 label \"a\" Latitude 1.5 Longitude 2 ]\n  node [ id 1 ]\n  edge [ source 0 " +
		"target 1 ]\n]\n"
	for n := range len(whole) - 1 {
		if _, err := gml.Parse("t.gml", []byte(whole[:n])); err == nil {
			t.Errorf("no error after %q", whole[:n])
		}
	}
	if _, err := gml.Parse("t.gml", []byte(whole)); err != nil {
		t.Error(err)
	}
}

// TestQuotesNothingOfOtherFiles: a scenario may name any file that the person who runs it
// may read. What is no network is refused without a word of what stands in it.
func TestQuotesNothingOfOtherFiles(t *testing.T) {
	for _, text := range []string{
		"secret:$6$secret:19000:0:99999:7:::\n",
		"-----BEGIN secret-----\nsecret\n",
		"{\"secret\": \"secret\"}",
		"secret = secret\n", "secret [ secret ]", "secret 1 2", "secret \"secret\" \"secret\"", "secret", "secret [",
		"graph 1\nsecret", "graph \"secret\"", "12secret", "Creator \"x\" 77777 secret", "1e77777 secret", "[ secret",
	} {
		_, err := gml.Parse("t.gml", []byte(text))
		if err == nil || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "777") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := gml.Parse("t.gml", []byte("graph [ node [ id 0 mistake ] ]")); err == nil ||
		!strings.Contains(err.Error(), "mistake") {
		t.Errorf("a network is refused without saying what is wrong with it: %v", err)
	}
}

// TestMany: the list of problems is bounded, and their order is that of the file.
func TestMany(t *testing.T) {
	var b strings.Builder
	b.WriteString("graph [\nnode [ id 0 ]\n")
	for range 1000 {
		b.WriteString("edge [ source 0 target 1 ]\n")
	}
	b.WriteString("]")
	_, err := gml.Parse("t.gml", []byte(b.String()))
	var problems scenario.Problems
	if !errors.As(err, &problems) || len(problems) != 100 {
		t.Fatalf("%d problems: %v", len(problems), err)
	}
	for i, p := range problems {
		if p.Line != 3+i {
			t.Fatalf("problem %d is on line %d", i, p.Line)
		}
	}
}

// zoo are the networks of the Internet Topology Zoo, with their size as counted by
// other means.
var zoo = map[string]struct{ nodes, edges, placed, speeds int }{
	"Abilene.gml": {11, 14, 11, 0}, "AttMpls.gml": {25, 57, 25, 0}, "Bellcanada.gml": {48, 65, 48, 0},
	"Cogentco.gml": {197, 245, 186, 0}, "Colt.gml": {153, 191, 149, 0}, "Geant2012.gml": {40, 61, 37, 39},
	"Interoute.gml": {110, 158, 96, 0}, "Kdl.gml": {754, 899, 726, 0},
}

func TestZoo(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "shared", "data", "topologyzoo")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("the networks of the Internet Topology Zoo are not there: %v", err)
	}
	for file, want := range zoo {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		g, err := gml.Parse(file, text)
		if err != nil {
			t.Error(err)
			continue
		}
		got := want
		got.nodes, got.edges, got.placed, got.speeds = len(g.Nodes), len(g.Edges), 0, 0
		for _, n := range g.Nodes {
			if n.Placed {
				got.placed++
			}
		}
		for _, e := range g.Edges {
			if e.Rate > 0 {
				got.speeds++
			}
		}
		if got != want {
			t.Errorf("%s: got %+v, want %+v", file, got, want)
		}
	}
}

// FuzzParse: whatever the bytes, there is an answer, and it is one that Parse
// guarantees.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/bad/*.gml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("graph [ node [ id 0 label \"&auml;\" Latitude 1 Longitude 2 ] node [ id 1 ] edge [ source 0 target " +
		"1 LinkSpeedRaw 1e9 ] ]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		g, err := gml.Parse("f.gml", text)
		if err != nil {
			var problems scenario.Problems
			if !errors.As(err, &problems) || len(problems) == 0 || g != nil {
				t.Fatalf("the error is %v, want Problems and no graph", err)
			}
			lines := strings.Count(string(text), "\n") + 1
			for _, p := range problems {
				if p.Found == "" || p.Line < 0 || p.Line > lines {
					t.Fatalf("problem %+v in %d lines", p, lines)
				}
			}
			return
		}
		if err := check(g); err != nil {
			t.Fatal(err)
		}
	})
}

func check(g *gml.Graph) error {
	ids := make(map[int64]bool)
	for _, n := range g.Nodes {
		if ids[n.ID] || !(math.Abs(n.Latitude) <= 90 && math.Abs(n.Longitude) <= 360) {
			return fmt.Errorf("node %+v", n)
		}
		ids[n.ID] = true
	}
	for _, e := range g.Edges {
		if e.Source < 0 || e.Target < 0 || e.Source >= len(g.Nodes) || e.Target >= len(g.Nodes) ||
			!(e.Rate >= 0 && e.Rate <= 1e18) {
			return fmt.Errorf("edge %+v of %d nodes", e, len(g.Nodes))
		}
	}
	if len(g.Nodes) == 0 {
		return errors.New("no nodes")
	}
	return nil
}

// A network keeps nothing of the text that it was read from, which may be memory that goes.
func TestTextMayGo(t *testing.T) {
	text := []byte(`graph [ label "A net" node [ id 1 label "Vaduz" Country "Liechtenstein" ] node [ id 2 label "Bern" ]
  edge [ source 1 target 2 LinkLabel "&lt; 1 Gb/s" LinkSpeedRaw 1e9 ] ]`)
	want, err := gml.Parse("t.gml", bytes.Clone(text))
	if err != nil {
		t.Fatal(err)
	}
	got, err := gml.Parse("t.gml", text)
	if err != nil {
		t.Fatal(err)
	}
	clear(text)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
