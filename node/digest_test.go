// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
)

// digestGraph has three nodes with two simprocs each.
func digestGraph() *Graph {
	return &Graph{
		Simprocs: []string{"main", "log"},
		Nodes:    []Node{{Name: "a", Work: 1}, {Name: "b", Shared: true}, {Name: strings.Repeat("c", 3*digestPart/2)}},
		Links: []Link{
			{From: Endpoint{0, 0}, To: Endpoint{1, 1}, Lookahead: 0.5, Rate: 3},
			{From: Endpoint{0, 0}, To: Endpoint{1, 0}, Lookahead: 0.25},
			{From: Endpoint{2, 1}, To: Endpoint{0, 0}, Lookahead: 2},
		},
		Meshes: []Mesh{{From: 1, To: 0, Lookahead: 3, Rate: 1}},
	}
}

func digestOf(t testing.TB, g *Graph) [sha256.Size]byte {
	t.Helper()
	s, err := Compile(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s.Digest()
}

// TestDigestFormat: the digest is that of the bytes that docs/format/checkpoint.md lists.
func TestDigestFormat(t *testing.T) {
	g := digestGraph()
	var b bytes.Buffer
	put := func(values ...any) {
		for _, v := range values {
			if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(uint32(1), uint32(2), uint32(3), uint32(4), []byte("main"), uint32(3), []byte("log"))
	for _, n := range g.Nodes {
		put(uint32(len(n.Name)), []byte(n.Name), n.Shared)
	}
	put(uint32(0), uint32(2), 0.25, uint32(0), uint32(3), 0.5, uint32(5), uint32(0), 2.0)
	put(uint32(1), uint32(0), 3.0)
	if got, want := digestOf(t, g), sha256.Sum256(b.Bytes()); got != want {
		t.Errorf("found %x, want %x", got, want)
	}
}

// TestDigest: what a saved state depends on changes it, and what placement alone sees doesn't.
func TestDigest(t *testing.T) {
	want := digestOf(t, digestGraph())
	for name, change := range map[string]func(*Graph){
		"work": func(g *Graph) { g.Nodes[0].Work = 7 },
		"rate": func(g *Graph) { g.Links[0].Rate, g.Meshes[0].Rate = 0, 9 },
		"order of links": func(g *Graph) {
			g.Links[0], g.Links[2] = g.Links[2], g.Links[0]
		},
		"epochs":   func(g *Graph) { g.Epochs = 3 },
		"listed":   func(g *Graph) { g.NodeCount, g.NodeAt, g.Nodes = 3, digestGraph().Node, nil },
		"streamed": func(g *Graph) { g.EachLink, g.Links = eachOf(g.Links), nil },
	} {
		g := digestGraph()
		change(g)
		if digestOf(t, g) != want {
			t.Errorf("%s changes the digest", name)
		}
	}
	found := map[[sha256.Size]byte]string{want: "nothing"}
	for name, change := range map[string]func(*Graph){
		"name":           func(g *Graph) { g.Nodes[1].Name = "d" },
		"layer":          func(g *Graph) { g.Simprocs[1] = "logs" },
		"layers":         func(g *Graph) { g.Simprocs = append(g.Simprocs, "more") },
		"node":           func(g *Graph) { g.Nodes = append(g.Nodes, Node{Name: "e"}) },
		"shared":         func(g *Graph) { g.Nodes[0].Shared = true },
		"link":           func(g *Graph) { g.Links = g.Links[:2] },
		"twice":          func(g *Graph) { g.Links = append(g.Links, g.Links[0]) },
		"target":         func(g *Graph) { g.Links[0].To.Node = 2 },
		"lookahead":      func(g *Graph) { g.Links[0].Lookahead = math.Nextafter(0.5, 1) },
		"mesh":           func(g *Graph) { g.Meshes = nil },
		"mesh lookahead": func(g *Graph) { g.Meshes[0].Lookahead = 4 },
		"mesh rank":      func(g *Graph) { g.Meshes[0].To = 1 },
	} {
		g := digestGraph()
		change(g)
		d := digestOf(t, g)
		if other, same := found[d]; same {
			t.Errorf("%s gives the digest that %s gives", name, other)
		}
		found[d] = name
	}
}

func eachOf(links []Link) func(func(Link) bool) {
	return func(yield func(Link) bool) {
		for _, l := range links {
			if !yield(l) {
				return
			}
		}
	}
}

func BenchmarkDigest(b *testing.B) {
	const nodes, links = 10_000, 100
	g := &Graph{Simprocs: []string{"main"}}
	for n := range nodes {
		g.Nodes = append(g.Nodes, Node{Name: fmt.Sprintf("node-%d", n)})
		for l := range links {
			to := Endpoint{Node: (n + l + 1) % nodes}
			g.Links = append(g.Links, Link{From: Endpoint{Node: n}, To: to, Lookahead: 1})
		}
	}
	s, err := Compile(g, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Digest()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/nodes/links, "ns/link")
}
