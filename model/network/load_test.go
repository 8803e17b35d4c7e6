// SPDX-License-Identifier: Apache-2.0

package network

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/scenario"
)

var update = flag.Bool("update", false, "write the expected texts in testdata anew")

// TestInvalid holds every small file in testdata/invalid against its text.
func TestInvalid(t *testing.T) {
	if n := modeltest.Invalid(t, Kind(), "testdata/invalid", *update); n < 70 {
		t.Errorf("%d files in testdata/invalid", n)
	}
}

// TestInvalidTopology: what is wrong with the GML file is told with its lines, beside
// what is wrong with the scenario.
func TestInvalidTopology(t *testing.T) {
	for topology, want := range map[string]string{
		"cut.gml": "testdata/cut.gml:3:1: found the end of the file, want ] for the list graph that begins on line " +
			"1; is the file cut short?",
		"wrong.gml": "testdata/wrong.gml:3:9: node.id: found the id 0 a second time (the first node with it begins " +
			"on line 2), want ids that are unique\ntestdata/wrong.gml:4:18: edge.target: found the id 2, which no " +
			"node has, want the id of a node",
	} {
		_, err := load("model: network\nhorizon: 0\ntopology: testdata/" + topology +
			"\ntraffic: { matrix: uniform, packets_per_second: 1 }\n")
		want = "t.yml:2:10: horizon: found 0, want a number > 0 and <= 1000000000\n" + want
		var problems scenario.Problems
		if !errors.As(err, &problems) || err.Error() != want {
			t.Errorf("%s: got\n%v\nwant\n%s", topology, err, want)
		}
	}
}

func load(text string) (*Spec, error) {
	doc, err := scenario.Parse("t.yml", []byte(text))
	if err != nil {
		return nil, err
	}
	return Load(Kind().Attach(doc, nil), scenario.Options{})
}

func mustLoad(t testing.TB, text string) *Spec {
	t.Helper()
	s, err := load(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const plain = "model: network\ntopology: testdata/net.gml\n"

// TestMatrix: shares of a gravity matrix are the products of the masses, a junction
// has no traffic, and the total is what was asked for.
func TestMatrix(t *testing.T) {
	s := mustLoad(t, plain+"traffic: { matrix: gravity, mass: Mass, bits_per_second: 8000, packet_bytes: 100 }\n")
	mass := []float64{4, 3, 2, 0, 1, 1, 0}
	sum, pairs := 0.0, 0.0
	for i, a := range mass {
		for j, b := range mass {
			if i != j {
				pairs += a * b
			}
		}
	}
	for _, f := range s.Flows {
		sum += f.Rate
		if want := 10 * mass[f.From] * mass[f.To] / pairs; !near(f.Rate, want, 1e-12) {
			t.Errorf("%+v, want %v packets/s", f, want)
		}
	}
	if len(s.Flows) != 5*4 || !near(sum, 10, 1e-12) {
		t.Errorf("%d flows of %v packets/s", len(s.Flows), sum)
	}
	// Without masses: the rates of the links.
	s = mustLoad(t, plain+"links: { rate_bps: 1e6 }\ntraffic: { matrix: gravity, packets_per_second: 7 }\n")
	by := make(map[[2]int]float64)
	for _, f := range s.Flows {
		by[[2]int{f.From, f.To}] = f.Rate
	}
	if !near(by[[2]int{0, 1}]/by[[2]int{2, 4}], (4.0*4)/(2*1), 1e-12) {
		t.Errorf("flows: %v", by)
	}
	s = mustLoad(t,
		plain+"traffic: { matrix: uniform, packets_per_second: 60, flows: [{ from: a, to: j, bits_per_second: 80000 "+
			"}] }\n")
	if n := len(s.Flows); n != 6*5+1 || s.Flows[0].Rate != 2 || s.Flows[n-1].Rate != 10 {
		t.Errorf("%d flows: %v", n, s.Flows)
	}
}

// TestNotes: what is left out and what can't arrive is said.
func TestNotes(t *testing.T) {
	s := mustLoad(t, plain+"traffic: { matrix: uniform, packets_per_second: 60 }\n")
	got := strings.Join(s.Notes, "\n")
	for _, want := range []string{"edge from c to itself", "18 of 30 flows", "the first from a to x-y"} {
		if !strings.Contains(got, want) {
			t.Errorf("the notes don't tell %q:\n%s", want, got)
		}
	}
}

// TestBackbone: the example is good, its busiest link is the one that is cut, and it is
// found relative to the scenario wherever one stands.
func TestBackbone(t *testing.T) {
	doc, err := scenario.ReadFile("../../examples/backbone.yml")
	if err != nil {
		t.Fatal(err)
	}
	horizon := float64(scaled(20)) / 10
	s, err := Kind().Load(Kind().Attach(doc, nil), scenario.Options{Horizon: horizon})
	if err != nil {
		t.Fatal(err)
	}
	r := modeltest.Summarize(t, s, 1, 1).(*Results)
	busiest := r.Links[0]
	for _, l := range r.Links {
		if l.Utilisation > busiest.Utilisation {
			busiest = l
		}
	}
	if s.Name() != "backbone" || s.Horizon() != horizon || busiest.Link != "Frankfurt - Zurich" ||
		busiest.Utilisation < 0.5 || r.Lost != 0 || len(s.(*Model).Notes()) != 0 {
		t.Errorf("%s of %v s: the busiest link is %+v; %d lost, notes %v", s.Name(), horizon, busiest, r.Lost,
			s.(*Model).Notes())
	}
}

// zooFiles are the networks of the Internet Topology Zoo.
func zooFiles(t testing.TB) []string {
	files, _ := filepath.Glob(filepath.Join("..", "..", "..", "shared", "data", "topologyzoo", "*.gml"))
	if len(files) == 0 {
		t.Skip("the networks of the Internet Topology Zoo are not there")
	}
	return files
}

// zooSpec is a uniform matrix over one of them.
func zooSpec(t testing.TB, file, more string) *Spec {
	t.Helper()
	abs, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	return mustLoad(t, "model: network\ntopology: "+abs+"\n"+more)
}

// TestZoo loads all of them and looks at what is known about them.
func TestZoo(t *testing.T) {
	want := map[string]struct{ nodes, cables, guessed, junctions, parallel, loops int }{
		"Abilene": {11, 14, 0, 0, 0, 0}, "AttMpls": {25, 57, 0, 0, 1, 0}, "Bellcanada": {48, 65, 0, 0, 1, 0},
		"Cogentco": {197, 245, 11, 11, 2, 0},
		"Colt":     {153, 191, 4, 4, 14, 0}, "Geant2012": {40, 61, 3, 0, 0, 0}, "Interoute": {110, 156, 14, 6, 10, 2},
		"Kdl": {754, 899, 28, 28, 4, 0},
	}
	for _, file := range zooFiles(t) {
		name := strings.TrimSuffix(filepath.Base(file), ".gml")
		s := zooSpec(t, file, "traffic: { matrix: uniform, packets_per_second: 1000 }\n")
		got := want[name]
		got.nodes, got.cables, got.guessed, got.junctions, got.parallel = len(s.Topology.Nodes), len(s.Topology.Cables),
			0, 0, 0
		for _, n := range s.Topology.Nodes {
			if !n.Placed {
				t.Errorf("%s: %s has no place", name, n.Name)
			}
			if n.Guessed {
				got.guessed++
			}
			if n.Junction {
				got.junctions++
			}
		}
		for _, c := range s.Topology.Cables {
			if c.Parallel > 1 {
				got.parallel++
			}
			if c.Delay < 10e-6 || c.Delay > 0.1 || c.Delay < c.Metres/2e8 || inTicks(c.Delay) != c.Delay {
				t.Errorf("%s: %+v", name, c)
			}
		}
		got.loops = len(s.Notes)
		if got != want[name] {
			t.Errorf("%s: got %+v, want %+v", name, got, want[name])
		}
		if ends := got.nodes - got.junctions; len(s.Flows) != ends*(ends-1) {
			t.Errorf("%s: %d flows between %d nodes", name, len(s.Flows), ends)
		}
		if err := New(s).Graph().Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTopologyPath: the topology lies beside the scenario, or where an absolute path
// says.
func TestTopologyPath(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile("testdata/net.gml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "n.gml"), text, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, topology := range map[string]string{filepath.Join(dir, "s.yml"): "n.gml",
		"s.yml": filepath.Join(dir, "n.gml")} {
		doc, err := scenario.Parse(name,
			[]byte("model: network\ntopology: "+topology+"\ntraffic: { matrix: uniform, packets_per_second: 1 }\n"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := Load(Kind().Attach(doc, nil), scenario.Options{})
		if err != nil || len(s.Topology.Nodes) != 7 || s.Name != "s" {
			t.Errorf("%s from %s: %v", topology, name, err)
		}
	}
}
