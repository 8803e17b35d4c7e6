// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/disco-sim/disco/graph"
	"github.com/disco-sim/disco/internal/storeserver"
)

// BenchmarkStore stores and loads three layers of 10^5 vertices and 10^6 edges, with ten times as many under
// DISCO_LARGE=1, beside a file of as many bytes that is written and read.
func BenchmarkStore(b *testing.B) {
	vertices, edges := 100_000, 1_000_000
	if os.Getenv("DISCO_LARGE") == "1" {
		vertices, edges = 10*vertices, 10*edges
	}
	rng := rand.New(rand.NewPCG(1, 2))
	layers := map[int]graph.Edges{}
	for layer := range 3 {
		keys := make([]uint64, edges/3)
		for i := range keys {
			keys[i] = uint64(rng.IntN(vertices))<<32 | uint64(rng.IntN(vertices))
		}
		slices.Sort(keys)
		var e graph.Edges
		for _, k := range slices.Compact(keys) {
			e.Source, e.Target, e.Weight = append(e.Source, uint32(k>>32)), append(e.Target, uint32(k)),
				append(e.Weight, float64(k%1000))
		}
		layers[layer] = e
	}
	g, err := graph.New(vertices, layers)
	if err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(b.TempDir(), "graphs.db")
	urls := map[string]string{"sqlite": "sqlite:" + file}
	server, err := storeserver.StartPostgres(b.Context())
	if err != nil {
		b.Log("SKIPPED: ", err)
	} else {
		b.Cleanup(server.Close)
		urls["postgres"] = server.URL()
	}
	for name, url := range urls {
		benchmark(b, name, url, g)
	}
	b.Run("file", func(b *testing.B) {
		for b.Loop() {
			if _, err := os.ReadFile(file); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func benchmark(b *testing.B, name, url string, g *graph.Graph) {
	db, err := Open(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	s, err := db.Create(b.Context(), Scenario{Name: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	b.Run(name+"/store", func(b *testing.B) {
		for b.Loop() {
			if err := db.Store(b.Context(), s.ID, g, Content{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run(name+"/load", func(b *testing.B) {
		for b.Loop() {
			if _, err := db.Load(b.Context(), s.ID); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, share := range []int{100, 10} {
		m := graph.NewMask(g.Vertices())
		for v := 0; v < m.Len(); v += share {
			m.Set(v)
		}
		b.Run(map[int]string{100: name + "/out1%", 10: name + "/out10%"}[share], func(b *testing.B) {
			for b.Loop() {
				if _, err := db.Out(b.Context(), s.ID, 1, m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
