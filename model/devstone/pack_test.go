// SPDX-License-Identifier: Apache-2.0

package devstone

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/wire/wiretest"
	"github.com/disco-sim/disco/model/modeltest"
)

func TestPackedRun(t *testing.T) {
	for _, kind := range []string{LI, HI, HO, HOmod} {
		modeltest.ComparePacked(t, Kind(), New(Params{Type: kind, Width: 4, Depth: 3, Pulses: 3}), 1)
	}
}

// What is unpacked makes every node of the same.
func TestPackedWhole(t *testing.T) {
	m := New(Params{Type: HOmod, Width: 4, Depth: 3, Pulses: 3})
	b, err := m.Pack(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := unpack(b)
	if err != nil {
		t.Fatal(err)
	}
	p := s.(*packed)
	if p.items.Len() != len(m.wiring.out) {
		t.Fatalf("%d nodes, want %d", p.items.Len(), len(m.wiring.out))
	}
	for n := range m.wiring.out {
		i, err := p.item(n)
		if err != nil || i.input != m.wiring.input[n] || !slices.Equal(i.out, m.wiring.out[n]) {
			t.Errorf("node %d: %+v, %v, want %v %v", n, i, err, m.wiring.input[n], m.wiring.out[n])
		}
	}
	if memory := m.Memory(); memory.PackedBytes > int64(len(b)) || memory.PackedBytes < int64(len(b))*9/10 {
		t.Errorf("%d bytes packed, said were %d", len(b), memory.PackedBytes)
	}
}

// openAll unpacks b and decodes all nodes.
func openAll(b []byte) error {
	s, err := unpack(b)
	if err != nil {
		return err
	}
	p := s.(*packed)
	for n := range p.items.Len() {
		if _, err := p.item(n); err != nil {
			return err
		}
	}
	return nil
}

func TestBadPacked(t *testing.T) {
	good, err := New(Params{Type: HOmod, Width: 3, Depth: 2, Pulses: 1}).Pack(nil)
	if err != nil {
		t.Fatal(err)
	}
	wiretest.Truncated(t, good, "devstone: packed", openAll)
	horizon := 4 + int(binary.LittleEndian.Uint32(good)) - 8 - 8
	binary.LittleEndian.PutUint64(good[horizon+8:], 3)
	if err := openAll(good); err == nil || !strings.Contains(err.Error(), "found 3 windows") {
		t.Errorf("%v", err)
	}
	binary.LittleEndian.PutUint64(good[horizon:], 0)
	if err := openAll(good); err == nil || !strings.Contains(err.Error(), "found the horizon 0") {
		t.Errorf("%v", err)
	}
}

// Whatever the bytes are, unpacking them ends, with an error or a scenario.
func FuzzUnpack(f *testing.F) {
	b, err := New(Params{Type: HOmod, Width: 3, Depth: 2, Pulses: 1}).Pack(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(_ *testing.T, b []byte) { _ = openAll(b) })
}
