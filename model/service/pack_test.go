// SPDX-License-Identifier: Apache-2.0

package service

import (
	"encoding/binary"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/wire/wiretest"
	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// packedModels are scenarios with everything that is packed: outages, spikes, balancers of both kinds, endpoints with
// and without something to draw, groups.
func packedModels(t testing.TB) map[string]*Model {
	t.Helper()
	models := make(map[string]*Model)
	for _, name := range []string{"shop.yml", "mini.yml"} {
		doc, err := scenario.ReadFile(filepath.Join("..", "..", "examples", name))
		if err != nil {
			t.Fatal(err)
		}
		spec, err := Load(doc, scenario.Options{Horizon: 6})
		if err != nil {
			t.Fatal(err)
		}
		models[name] = New(spec)
	}
	doc, err := scenario.Parse("groups.yml", []byte(groupsOfTwo))
	if err != nil {
		t.Fatal(err)
	}
	spec, err := Load(doc, scenario.Options{})
	if err != nil {
		t.Fatal(err)
	}
	models["groups"] = New(spec)
	return models
}

const groupsOfTwo = `
rqs_input: {id: users, avg_active_users: {mean: 20}, avg_request_per_minute_per_user: {mean: 60}}
topology_graph:
  nodes:
    client: {id: client}
    load_balancer: {id: lb, algorithms: least_connection, server_covered: [a, b]}
    servers:
      - {id: a, count: 3, server_resources: {cpu_cores: 2, ram_mb: 512}, endpoints: [{endpoint_name: x, steps: [
          {kind: cpu_bound_operation, step_operation: {cpu_time: 0.01}}]}]}
      - {id: b, server_resources: {cpu_cores: 1, ram_mb: 512}, endpoints: [
          {endpoint_name: y, steps: [{kind: io_wait, step_operation: {io_waiting_time:
          {mean: 0.01, distribution: exponential}}}]}, {endpoint_name: z, steps: []}]}
  edges:
    - {id: in, source: users, target: client, latency: {mean: 0.001, distribution: exponential}}
    - {id: front, source: client, target: lb, latency: {mean: 0.001, distribution: exponential}}
    - {id: to-a, source: lb, target: a, latency: {mean: 0.001, distribution: exponential}}
    - {id: to-b, source: lb, target: b, latency: {mean: 0.001, distribution: normal, variance: 0.0001}}
    - {id: from-a, source: a, target: client, latency: {mean: 0.001, distribution: exponential}}
    - {id: from-b, source: b, target: client, latency: {mean: 0.001, distribution: exponential}}
sim_settings: {total_simulation_time: 5}
`

// What is unpacked makes every box of the same.
func TestPack(t *testing.T) {
	for name, m := range packedModels(t) {
		b, err := m.Pack([]byte("before"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := unpack(b[len("before"):])
		if err != nil {
			t.Fatal(err)
		}
		p := s.(*packed)
		if p.Name() != m.Name() || p.Horizon() != m.Horizon() || p.items.Len() != len(m.topology.boxes) {
			t.Errorf("%s: %s, %v, %d boxes", name, p.Name(), p.Horizon(), p.items.Len())
		}
		for n := range m.topology.boxes {
			want, _ := m.box(n)
			got, err := p.box(n)
			if len(want.edges) == 0 {
				want.edges = nil
			}
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: box %d is %+v, %v; want %+v", name, n, got, err, want)
			}
		}
		if !reflect.DeepEqual(p.shared, m.shared) {
			t.Errorf("%s: programs %+v, want %+v", name, p.shared, m.shared)
		}
	}
}

// A run of what is unpacked is the run of the model, to the last event.
func TestPackedRun(t *testing.T) {
	for _, m := range packedModels(t) {
		modeltest.ComparePacked(t, Kind(), m, 3)
	}
}

// Every field of what is packed is decoded as it was encoded.
func TestPackedWhole(t *testing.T) {
	edge := edgeSpec{id: "e", to: node.Endpoint{Node: 7, Simproc: 1}, latency: Dist{LogNormal, -1, 2}, dropout: 0.5}
	wiretest.Fill(t, &edge.spikes)
	wiretest.Fill(t, &edge.touching)
	want := boxSpec{id: "b", role: serverRole, least: true, changes: []change{{at: 1, edge: 0, up: true}}, cores: 3,
		ram: 4, list: 5, edges: []edgeSpec{edge}}
	wiretest.Whole(t, want, (*boxSpec).fields)
	all := common{name: "n", horizon: 1, users: Dist{Normal, 2, 3}, perMinute: 4, window: 5, period: 6, sampling: true,
		lists: [][]Endpoint{{{RAM: 7, Steps: []Step{{CPU: true, Time: Dist{Uniform, 8, 9}}}}}}}
	wiretest.Fill(t, &all.events)
	wiretest.Whole(t, all, (*common).fields)
}

// openAll unpacks b and decodes all boxes.
func openAll(b []byte) error {
	s, err := unpack(b)
	if err != nil {
		return err
	}
	p := s.(*packed)
	for n := range p.items.Len() {
		if _, err := p.box(n); err != nil {
			return err
		}
	}
	_, err = p.box(p.items.Len())
	if err == nil {
		panic("a box behind the last one")
	}
	return nil
}

func TestBadPacked(t *testing.T) {
	good, err := packedModels(t)["groups"].Pack(nil)
	if err != nil {
		t.Fatal(err)
	}
	wiretest.Truncated(t, good, "service: ", openAll)
	common := 4 + int(binary.LittleEndian.Uint32(good))
	for _, c := range []struct {
		at   int
		to   uint64
		want string
	}{
		{common, 1 << 40, "found 1099511627776 items"},
		{common + 8, 1 << 40, "packed box 0: item 0 is from byte 0 to 1099511627776"},
		{common + 16, 0, "packed box 1: item 1 is from byte"},
		{4 + 4 + len("groups"), 0, "found the horizon 0"},
	} {
		b := slices.Clone(good)
		binary.LittleEndian.PutUint64(b[c.at:], c.to)
		if err := openAll(b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d at %d: %v, want %q", c.to, c.at, err, c.want)
		}
	}
	for want, b := range map[string]boxSpec{
		"found role 4": {role: serverRole + 1}, "found a change of edge 1 of 0": {changes: []change{{edge: 1}}},
		"65536000 cores": {cores: 65536000},
	} {
		wiretest.Refused(t, b, (*boxSpec).fields, want)
	}
}

// Whatever the bytes are, unpacking them ends, with an error or a scenario.
func FuzzUnpack(f *testing.F) {
	for _, m := range packedModels(f) {
		b, err := m.Pack(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(_ *testing.T, b []byte) { _ = openAll(b) })
}
