// SPDX-License-Identifier: Apache-2.0

package network

import (
	"reflect"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/wire/wiretest"
	"github.com/disco-sim/disco/model/modeltest"
)

func TestPackedRun(t *testing.T) {
	modeltest.ComparePacked(t, Kind(), New(storm(t)), 3)
	s := storm(t)
	s.Arrivals, s.Sizes, s.Events = Constant, Sizes{Kind: Uniform, Mean: 500, Min: 100, Max: 900}, nil
	modeltest.ComparePacked(t, Kind(), New(s), 3)
}

// unpackOf is what is unpacked of a scenario.
func unpackOf(t testing.TB, m *Model) *packed {
	t.Helper()
	b, err := m.Pack(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := unpack(b)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*packed)
}

// What is unpacked has all that routers are made from, and no more.
func TestPackedWhole(t *testing.T) {
	m := New(storm(t))
	p := unpackOf(t, m)
	want, got := *m.spec, *p.spec
	if !reflect.DeepEqual(got.Topology.Channels, want.Topology.Channels) ||
		!reflect.DeepEqual(got.Topology.Out, want.Topology.Out) ||
		!reflect.DeepEqual(got.Topology.In, want.Topology.In) {
		t.Errorf("channels %+v, want %+v", got.Topology, want.Topology)
	}
	if len(got.Topology.Nodes) != len(want.Topology.Nodes) || len(got.Topology.Cables) != len(want.Topology.Cables) {
		t.Fatalf("%d nodes, %d cables", len(got.Topology.Nodes), len(got.Topology.Cables))
	}
	for i := range want.Topology.Nodes {
		if got.Topology.Nodes[i].Name != want.Topology.Nodes[i].Name {
			t.Errorf("node %d is %q", i, got.Topology.Nodes[i].Name)
		}
		starts, err := p.starts(i)
		if wanted, _ := m.starts(i); err != nil || len(starts)+len(wanted) > 0 && !reflect.DeepEqual(starts, wanted) {
			t.Errorf("node %d starts %v, %v, want %v", i, starts, err, wanted)
		}
	}
	want.Topology, got.Topology, want.Flows, want.Notes = nil, nil, nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if !reflect.DeepEqual(p.ending, m.ending) || !reflect.DeepEqual(p.metric, m.metric) || p.perFlow != m.perFlow {
		t.Errorf("%+v, want %+v", p.maker.ending, m.ending)
	}
	var sizes Sizes
	wiretest.Fill(t, &sizes)
	sizes.Kind, sizes.Mean = Discrete, 1
	wiretest.Whole(t, sizes, (*Sizes).fields)
}

// openAll unpacks b and decodes all flows.
func openAll(b []byte) error {
	s, err := unpack(b)
	if err != nil {
		return err
	}
	p := s.(*packed)
	for n := range p.items.Len() {
		if _, err := p.starts(n); err != nil {
			return err
		}
	}
	return nil
}

// startsAll gives every node the same flows that begin there.
func startsAll(starts ...flowStart) func(int) ([]flowStart, error) {
	return func(int) ([]flowStart, error) { return starts, nil }
}

// What can't have been packed is refused: bytes that are cut short, and numbers that lead out of the network.
func TestBadPacked(t *testing.T) {
	good, err := New(storm(t)).Pack(nil)
	if err != nil {
		t.Fatal(err)
	}
	wiretest.Truncated(t, good, "network: packed", openAll)
	for want, spoil := range map[string]func(m *Model){
		"found the horizon 0":       func(m *Model) { m.spec.Horizon = 0 },
		"buffers of -1 packets":     func(m *Model) { m.spec.BufferPackets = -1 },
		"found the mean size 0":     func(m *Model) { m.spec.Sizes.Mean = 0 },
		"3 sizes, 2 shares":         func(m *Model) { m.spec.Sizes.Shares = m.spec.Sizes.Shares[:2] },
		"a cable with the rate 0":   func(m *Model) { m.spec.Topology.Cables[1].Rate = 0 },
		"to 7 of 7, on cable":       func(m *Model) { m.spec.Topology.Channels[1].To = 7 },
		"on cable 7 of 7":           func(m *Model) { m.spec.Topology.Channels[1].Cable = 7 },
		"with mtbf_s 0":             func(m *Model) { m.spec.Events[6].MTBF = 0 },
		"found flow 0 to end at":    func(m *Model) { m.ends[0] = 7 },
		"the 9th there":             func(m *Model) { m.ends[4] = 9 },
		"in 7 bytes, want a multip": func(m *Model) { m.ends, m.starts = m.ends[:7], startsAll() },
		"found flow 99 of":          func(m *Model) { m.starts = startsAll(flowStart{99, 1}) },
		"with the rate 0":           func(m *Model) { m.starts = startsAll(flowStart{0, 0}) },
	} {
		m := New(storm(t))
		spoil(m)
		b, err := m.Pack(nil)
		if err != nil {
			t.Fatalf("%s: %v", want, err)
		}
		if err := openAll(b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for want, target := range map[string]Target{
		"found cable 7 of 7":     {Cables: []int{7}},
		"found the node 7 of 7":  {Node: 7},
		"found the node -1 of 7": {Node: -1},
	} {
		m := New(storm(t))
		m.spec.Events[2].Targets = []Target{target}
		if _, err := m.Pack(nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Whatever the bytes are, unpacking them ends, with an error or a scenario.
func FuzzUnpack(f *testing.F) {
	b, err := New(storm(f)).Pack(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(_ *testing.T, b []byte) { _ = openAll(b) })
}

// What is said of memory grows with what takes it.
func TestMemory(t *testing.T) {
	base, large := New(storm(t)).Memory(), storm(t)
	large.Flows = append(large.Flows, large.Flows...)
	if got := New(large).Memory(); got.NodeBytes <= base.NodeBytes || got.PackedBytes <= base.PackedBytes {
		t.Errorf("twice the flows: %+v, before %+v", got, base)
	}
}
