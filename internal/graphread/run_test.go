// SPDX-License-Identifier: Apache-2.0

package graphread

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/graph"
	"github.com/disco-sim/disco/graph/sqldb"
	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/partition"
	"github.com/disco-sim/disco/scenario"
)

// runs runs a command of disco-run, with this program as the one beside it.
func runs(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status = app.RunWith(append([]string{"disco-run"}, args...), strings.NewReader(""), &stdout, &stderr,
		[]app.Command{Command()}, kinds()...)
	return status, stdout.String(), stderr.String()
}

// hashOf is the trace hash of a run.
func hashOf(t *testing.T, args ...string) string {
	t.Helper()
	status, out, errs := runs(t, append([]string{"run", "--json", "-"}, args...)...)
	var result struct {
		Hash string `json:"trace_hash"`
	}
	if err := json.Unmarshal([]byte(out), &result); status != 0 || err != nil || result.Hash == "" {
		t.Fatalf("%q: %d %v %s", args, status, err, errs)
	}
	return result.Hash
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const supplyHead = "model: supply\nhorizon: 30\nproducts: [{ id: tea }]\n"

// supplied is a supply network from the database, and supplyWritten the same, written out.
const (
	supplied = supplyHead + `graph:
  scenario: base
  fill:
    - { list: locations, vertices: { kind: plant }, item: { id: $name, source: true } }
    - { list: locations, vertices: { kind: [depot, shop] }, item: { id: $name } }
    - { list: links, edges: 0, item: { from: $source, to: $target, lead_time: $weight } }
    - { list: stock, vertices: { kind: depot }, item: { at: $name, policy: base_stock, up_to: 40 } }
    - { list: stock, vertices: { kind: shop }, table: levels, item: { at: $name, policy: base_stock,
        up_to: $column(level), costs: { holding: $column(holding) } } }
    - { list: demand, vertices: { kind: shop }, item: { at: $name, gap: "exponential($column(gap))" }, table: levels }
`
	supplyWritten = supplyHead + `locations: [{ id: plant, source: true }, { id: depot-1 }, { id: depot-2 },
  { id: shop-1 }, { id: shop-2 }, { id: shop-3 }]
links:
  - { from: plant, to: depot-1, lead_time: 2 }
  - { from: plant, to: depot-2, lead_time: 2.5 }
  - { from: depot-1, to: shop-1, lead_time: 0.5 }
  - { from: depot-1, to: shop-2, lead_time: 0.75 }
  - { from: depot-2, to: shop-3, lead_time: 1 }
stock:
  - { at: [depot-1, depot-2], policy: base_stock, up_to: 40 }
  - { at: shop-1, policy: base_stock, up_to: 5, costs: { holding: 0.5 } }
  - { at: shop-2, policy: base_stock, up_to: 6 }
  - { at: shop-3, policy: base_stock, up_to: 7, costs: { holding: 0.25 } }
demand:
  - { at: shop-1, gap: exponential(0.2) }
  - { at: shop-2, gap: exponential(0.3) }
  - { at: shop-3, gap: exponential(0.4) }
`
)

// fillLevels makes the table of a database that supplied reads.
func fillLevels(t *testing.T, b base) {
	b.sql(t, `CREATE TABLE levels (scenario_id BIGINT, vertex_index BIGINT, level BIGINT, holding DOUBLE PRECISION, `+
		`gap DOUBLE PRECISION)`,
		`INSERT INTO levels VALUES (1, 5, 7, 0.25, 0.4), (1, 3, 5, 0.5, 0.2), (1, 4, 6, NULL, 0.3)`)
}

// TestRun: a scenario from a database is the same, event by event, as one that is written out, over any number of
// workers, and without the database from its checkpoints.
func TestRun(t *testing.T) {
	want := hashOf(t, write(t, "written.yml", supplyWritten))
	for name, b := range bases(t) {
		t.Run(name, func(t *testing.T) {
			fillLevels(t, b)
			file, store := write(t, "supplied.yml", supplied), filepath.Join(t.TempDir(), "store")
			for _, workers := range []string{"1", "2", "4"} {
				for _, partition := range []string{"mincut", "round-robin"} {
					if got := hashOf(t, file, "--db", b.url, "--workers", workers, "--partition",
						partition); got != want {
						t.Errorf("%s workers, %s: %s, want %s as written out", workers, partition, got, want)
					}
				}
			}
			t.Setenv("DISCO_DB", b.url)
			if got := hashOf(t, file, "--checkpoint-to", store, "--checkpoint-at", "10"); got != want {
				t.Errorf("with checkpoints %s, want %s", got, want)
			}
			t.Setenv("DISCO_DB", "")
			status, out, errs := runs(t, "resume", store, "--at", "10", "--json", "-", "--workers", "2")
			if status != 0 || !strings.Contains(out, want) {
				t.Errorf("resume without the database: %d %s, want the hash %s", status, errs, want)
			}
			status, _, errs = runs(t, "resume", store, "--at", "10", "--set", "graph.fill[3].item.up_to=50")
			if status != 2 || !strings.Contains(errs, "graph.fill[3].item.up_to: found 50, want 40") {
				t.Errorf("resume with another section: %d %s", status, errs)
			}
			if status, _, errs = runs(t, "verify", file, "--db", b.url); status != 0 {
				t.Errorf("verify: %d %s", status, errs)
			}
		})
	}
}

// TestDigest: a section that names the digest of its data is refused where the database has others.
func TestDigest(t *testing.T) {
	all := bases(t)
	b := all["sqlite"]
	fillLevels(t, b)
	file := write(t, "supplied.yml", supplied)
	status, out, errs := runs(t, "validate", file, "--db", b.url)
	_, digest, ok := strings.Cut(strings.TrimSpace(out), "the graph has the digest ")
	if status != 0 || !ok || len(digest) != 64 {
		t.Fatalf("%d %s%s", status, out, errs)
	}
	if other, ok := all["postgres"]; ok {
		fillLevels(t, other)
		if _, out, _ := runs(t, "validate", file, "--db", other.url); !strings.Contains(out, digest) {
			t.Errorf("PostgreSQL gives %s, SQLite %s", out, digest)
		}
	}
	if _, out, _ := runs(t, "run", file, "--db", b.url, "--json", "-"); !strings.Contains(out, digest) {
		t.Errorf("the results of a run don't have the digest %s", digest)
	}
	pinned := "graph.digest=" + digest
	if status, _, errs = runs(t, "validate", file, "--db", b.url, "--set", pinned); status != 0 {
		t.Errorf("%d %s", status, errs)
	}
	b.sql(t, "UPDATE levels SET level = 8 WHERE vertex_index = 5")
	status, _, errs = runs(t, "validate", file, "--db", b.url, "--set", pinned)
	if status != 2 || !strings.Contains(errs, "has changed in the database") {
		t.Errorf("%d %s", status, errs)
	}
}

// TestGone: a database that isn't there, or has no tables, is said with the section's line, and no password is.
func TestGone(t *testing.T) {
	file := write(t, "supplied.yml", supplied)
	for url, want := range map[string]string{
		"sqlite:" + filepath.Join(t.TempDir(), "none.db"): "found no tables of graphs: there is no such file",
		"nothing:x": `found scheme "nothing", want sqlite:FILE or postgres://`,
		"postgres://me:secret@127.0.0.1:1/x?connect_timeout=2": "database postgres://me:***@127.0.0.1:1/x",
	} {
		status, _, errs := runs(t, "run", file, "--db", url)
		if status != 2 || !strings.Contains(errs, want) || !strings.Contains(errs, "supplied.yml:5:3: graph: found") ||
			strings.Contains(errs, "secret") || !strings.Contains(errs, "1 problem: nothing was run") {
			t.Errorf("%s: %d %s, want %s", url, status, errs, want)
		}
	}
}

// productsText is a network in which each vertex is a product at a location, and nodes are made of them by labels.
const productsText = `model: supply
horizon: 30
products: [{ id: tea }, { id: coffee }]
graph:
  scenario: products
  nodes: { NODES }
  together: region
  fill:
    - { list: locations, nodes: { role: harbour }, item: { id: $node, source: true } }
    - { list: locations, nodes: { role: [depot, shop] }, item: { id: $node } }
    - { list: links, edges: 0, item: { from: $source_node, to: $target_node, products: $target_label(product),
        lead_time: $weight } }
    - { list: stock, vertices: { role: [depot, shop] }, item: { at: $node, products: $label(product),
        policy: base_stock, up_to: 9 } }
    - { list: demand, vertices: { role: shop }, item: { at: $node, products: $label(product),
        gap: exponential(0.3) } }
`

// storeProducts stores a scenario of products at sites: a source, a depot and four shops in two regions.
func storeProducts(t *testing.T, url string) {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var vertices []sqldb.Vertex
	var list []graph.Label
	var vertex, label []uint32
	give := func(typ, value string) {
		k := slices.Index(list, graph.Label{Type: typ, Value: value})
		if k < 0 {
			k = len(list)
			list = append(list, graph.Label{Type: typ, Value: value})
		}
		vertex, label = append(vertex, uint32(len(vertices))), append(label, uint32(k))
	}
	edges := graph.Edges{}
	for _, site := range []string{"harbour", "depot", "shop-1", "shop-2", "shop-3", "shop-4"} {
		for i, product := range []string{"tea", "coffee"} {
			role, _, _ := strings.Cut(site, "-")
			give("site", site)
			give("product", product)
			give("role", role)
			switch role {
			case "depot":
				edges.Source, edges.Target = append(edges.Source, uint32(i)), append(edges.Target,
					uint32(len(vertices)))
				edges.Weight = append(edges.Weight, 1.5)
			case "shop":
				give("region", []string{"east", "west"}[site[len(site)-1]%2])
				edges.Source, edges.Target = append(edges.Source, uint32(2+i)), append(edges.Target,
					uint32(len(vertices)))
				edges.Weight = append(edges.Weight, 0.25*float64(1+i))
			}
			vertices = append(vertices, sqldb.Vertex{Name: product + "@" + site})
		}
	}
	g, err := graph.New(len(vertices), map[int]graph.Edges{0: edges})
	if err == nil {
		g, err = g.WithLabels(list, vertex, label)
	}
	if err == nil {
		_, err = db.CreateStored(t.Context(), sqldb.Scenario{Name: "products"}, g, sqldb.Content{Vertices: vertices})
	}
	if err != nil {
		t.Fatal(err)
	}
}

const productsWritten = `model: supply
horizon: 30
products: [{ id: tea }, { id: coffee }]
locations: [{ id: harbour, source: true }, { id: depot }, { id: shop, count: 4 }]
links:
  - { from: harbour, to: depot, lead_time: 1.5 }
  - { from: depot, to: shop, products: tea, lead_time: 0.25 }
  - { from: depot, to: shop, products: coffee, lead_time: 0.5 }
stock: [{ at: [depot, shop], policy: base_stock, up_to: 9 }]
demand: [{ at: shop, gap: exponential(0.3) }]
`

// TestNodes: vertices become nodes by labels. Both ways that give the same nodes give the same run, event by
// event, as the
// file that is written out, wherever nodes run; and nodes of one region run on one worker.
func TestNodes(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "x.db")
	storeProducts(t, url)
	want := hashOf(t, write(t, "written.yml", productsWritten))
	for _, nodes := range []string{"distinct: site", "same: site", "distinct: site, same: site"} {
		text := strings.Replace(productsText, "NODES", nodes, 1)
		file := write(t, "products.yml", text)
		for _, args := range [][]string{nil, {"--workers", "2"}, {"--workers", "3", "--partition", "round-robin"},
			{"--workers", "2", "--set", "graph.together=role"}} {
			if got := hashOf(t, append([]string{file, "--db", url}, args...)...); got != want {
				t.Errorf("%s %q: %s, want %s", nodes, args, got, want)
			}
		}
	}
}

// TestTogether: nodes with one label are on one worker, with any way to place nodes, and the rest lies around them.
func TestTogether(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "x.db")
	storeProducts(t, url)
	registry, err := scenario.NewRegistry(kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	place := func(t *testing.T, method partition.Method, workers int, of string) (int, map[string]int32) {
		t.Helper()
		text := strings.Replace(strings.Replace(productsText, "NODES", "distinct: site", 1), "together: region",
			"together: "+of, 1)
		l, err := launch.Prepare(launch.Config{File: "products.yml", Text: []byte(text), Registry: registry,
			Workers: workers, Replications: 1, Transport: launch.TransportInproc, Spread: launch.SpreadNodes,
			Partition: method,
			Files: &scenario.Files{Graph: func(request []byte) ([]byte, error) {
				return Read(t.Context(), url, time.Minute, request)
			}}})
		if err != nil {
			t.Fatalf("%s, %d workers, %s: %v", method, workers, of, err)
		}
		on := map[string]int32{}
		for n, w := range l.Placement().Of {
			on[l.Structure().NodeName(n)] = w
		}
		if slices.Contains(l.Placement().Nodes, 0) {
			t.Errorf("%s, %d workers, %s: %v", method, workers, of, l.Placement().Nodes)
		}
		return l.Placement().Workers, on
	}
	for _, method := range []partition.Method{partition.MinCut, partition.Block, partition.RoundRobin} {
		for _, workers := range []int{2, 3, 4, 5, 6} {
			n, on := place(t, method, workers, "region")
			if on["shop-1"] != on["shop-3"] || on["shop-2"] != on["shop-4"] || n > min(workers, 4) || n < 2 ||
				workers == 2 && on["shop-1"] == on["shop-2"] {
				t.Errorf("%s: %v, want shop-1 with shop-3, and shop-2 with shop-4, on two to %d workers, found %d",
					method, on, min(workers, 4), n)
			}
			if n, on := place(t, method, workers, "role"); n > 3 || on["shop-1"] != on["shop-2"] {
				t.Errorf("%s: %v on %d workers, want at most 3", method, on, n)
			}
		}
	}
}

// kindsText is scenarios of other kinds: what the graph fills in, and the same written out.
var kindsText = map[string][3]string{
	"queueing": {"model: queueing\nhorizon: 50\n", `graph:
  scenario: base
  fill:
    - list: stations
      vertices: { kind: shop }
      item: { id: $name, service: { distribution: exponential, mean: 0.2 }, arrivals: 1, to: { $out(1): $weight } }
`, `stations:
  - { id: shop-1, service: { distribution: exponential, mean: 0.2 }, arrivals: 1, to: { shop-2: 0.25 } }
  - { id: shop-2, service: { distribution: exponential, mean: 0.2 }, arrivals: 1, to: { shop-1: 0.5 } }
  - { id: shop-3, service: { distribution: exponential, mean: 0.2 }, arrivals: 1, to: {} }
`},
	"network": {`model: network
horizon: 5
traffic:
  packet_bytes: 1000
  flows:
    - { from: plant, to: shop-1, packets_per_second: 50 }
    - { from: shop-3, to: plant, packets_per_second: 30 }
`, `graph:
  scenario: base
  fill:
    - { list: topology.nodes, vertices: all, item: { id: $name, numbers: { size: $index } } }
    - { list: topology.edges, edges: 0, item: { source: $source, target: $target } }
`, `topology:
  nodes: [{ id: plant }, { id: depot-1 }, { id: depot-2 }, { id: shop-1 }, { id: shop-2 }, { id: shop-3 }]
  edges:
    - { source: plant, target: depot-1 }
    - { source: plant, target: depot-2 }
    - { source: depot-1, target: shop-1 }
    - { source: depot-1, target: shop-2 }
    - { source: depot-2, target: shop-3 }
`},
	"service": {`model: service
rqs_input: { id: users, avg_active_users: { mean: 30 }, avg_request_per_minute_per_user: { mean: 20 } }
sim_settings: { total_simulation_time: 30 }
`, `topology_graph:
  nodes:
    client: { id: client }
    load_balancer: { id: lb, server_covered: [shop-1, shop-2, shop-3] }
  edges:
    - { id: in, source: users, target: client, latency: { mean: 0.003, distribution: exponential } }
    - { id: on, source: client, target: lb, latency: { mean: 0.003, distribution: exponential } }
graph:
  scenario: base
  fill:
    - list: topology_graph.nodes.servers
      vertices: { kind: shop }
      item: { id: $name, server_resources: { cpu_cores: 1, ram_mb: 1024 }, endpoints: [{ endpoint_name: /x, steps: [
        { kind: cpu_bound_operation, step_operation: { cpu_time: 0.02 } }] }] }
    - list: topology_graph.edges
      vertices: { kind: shop }
      item: { id: to-$name, source: lb, target: $name, latency: { mean: 0.002, distribution: exponential } }
    - list: topology_graph.edges
      vertices: { kind: shop }
      item: { id: from-$name, source: $name, target: client, latency: { mean: 0.002, distribution: exponential } }
`, `topology_graph:
  nodes:
    client: { id: client }
    load_balancer: { id: lb, server_covered: [shop-1, shop-2, shop-3] }
    servers:
      - { id: shop-1, server_resources: { cpu_cores: 1, ram_mb: 1024 }, endpoints: [{ endpoint_name: /x, steps: [
          { kind: cpu_bound_operation, step_operation: { cpu_time: 0.02 } }] }] }
      - { id: shop-2, server_resources: { cpu_cores: 1, ram_mb: 1024 }, endpoints: [{ endpoint_name: /x, steps: [
          { kind: cpu_bound_operation, step_operation: { cpu_time: 0.02 } }] }] }
      - { id: shop-3, server_resources: { cpu_cores: 1, ram_mb: 1024 }, endpoints: [{ endpoint_name: /x, steps: [
          { kind: cpu_bound_operation, step_operation: { cpu_time: 0.02 } }] }] }
  edges:
    - { id: in, source: users, target: client, latency: { mean: 0.003, distribution: exponential } }
    - { id: on, source: client, target: lb, latency: { mean: 0.003, distribution: exponential } }
    - { id: to-shop-1, source: lb, target: shop-1, latency: { mean: 0.002, distribution: exponential } }
    - { id: to-shop-2, source: lb, target: shop-2, latency: { mean: 0.002, distribution: exponential } }
    - { id: to-shop-3, source: lb, target: shop-3, latency: { mean: 0.002, distribution: exponential } }
    - { id: from-shop-1, source: shop-1, target: client, latency: { mean: 0.002, distribution: exponential } }
    - { id: from-shop-2, source: shop-2, target: client, latency: { mean: 0.002, distribution: exponential } }
    - { id: from-shop-3, source: shop-3, target: client, latency: { mean: 0.002, distribution: exponential } }
`},
}

// TestKinds: lists of every kind with a graph are filled, and a run is the same, event by event, as that of the
// file that
// is written out.
func TestKinds(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "x.db")
	store(t, url)
	for name, text := range kindsText {
		want := hashOf(t, write(t, "written.yml", text[0]+text[2]))
		for _, workers := range []string{"1", "2"} {
			got := hashOf(t, write(t, "filled.yml", text[0]+text[1]), "--db", url, "--workers", workers)
			if got != want {
				t.Errorf("%s, %s workers: %s, want %s as written out", name, workers, got, want)
			}
		}
	}
}
