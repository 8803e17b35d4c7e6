// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/wire/wiretest"
	"github.com/disco-sim/disco/model/modeltest"
)

// packedText is a network with everything that is packed: all distributions, a limited buffer, customers from outside
// and from the start, ways on that leave and that stay.
const packedText = `
model: queueing
horizon: 50
warmup: 5
transit: 0.01
stations:
  - {id: a, service: {distribution: exponential, mean: 0.1}, arrivals: 5, to: {b: 0.5, c: 0.25}}
  - {id: b, servers: 3, buffer: 2, service: {distribution: uniform, min: 0.1, max: 0.2}, to: {d: 1}}
  - {id: c, service: {distribution: erlang, mean: 0.1, shape: 3}, initial: 4, to: {e: 0.5, a: 0.1}}
  - {id: d, service: {distribution: gamma, mean: 0.1, cv: 2},
     arrivals: {distribution: log_normal, mean: 1, cv: 2}, to: {f: 0.9}}
  - {id: e, service: {distribution: hyperexponential, mean: 0.1, cv: 2}, to: {f: 1}}
  - {id: f, service: {distribution: constant, mean: 0.1}}
`

func TestPackedRun(t *testing.T) {
	modeltest.ComparePacked(t, Kind(), modeltest.MustLoad(t, Kind(), packedText).(*Model), 3)
}

// Every field of what is packed is decoded as it was encoded.
func TestPackedWhole(t *testing.T) {
	want := Station{ID: "b", Servers: 2, Buffer: 3, Initial: 4, Stay: true, Service: Dist{Gamma, 1, 2, 3, 4, 5},
		Arrivals: &Dist{Uniform, 6, 7, 8, 9, 10}}
	wiretest.Fill(t, &want.To)
	wiretest.Whole(t, want, (*Station).fields)
	all := common{"n", 3, 2, 1, batchCount, true}
	wiretest.Whole(t, all, (*common).fields)
}

// openAll unpacks b and decodes all stations.
func openAll(b []byte) error {
	s, err := unpack(b)
	if err != nil {
		return err
	}
	p := s.(*packed)
	for n := range p.items.Len() {
		if _, err := p.station(n); err != nil {
			return err
		}
	}
	return nil
}

func TestBadPacked(t *testing.T) {
	good, err := modeltest.MustLoad(t, Kind(), packedText).(*Model).Pack(nil)
	if err != nil {
		t.Fatal(err)
	}
	wiretest.Truncated(t, good, "queueing: packed", openAll)
	b := slices.Clone(good)
	binary.LittleEndian.PutUint64(b[4+4+len("test"):], 0)
	if err := openAll(b); err == nil || !strings.Contains(err.Error(), "found the horizon 0") {
		t.Errorf("%v", err)
	}
	exponential := Dist{Kind: Exponential, Mean: 1}
	for want, st := range map[string]Station{
		"found 0 servers":        {Service: exponential},
		"found 1048577 servers":  {Service: exponential, Servers: serversMax + 1},
		"a buffer of -2":         {Service: exponential, Servers: 1, Buffer: -2},
		"1048577 initial":        {Service: exponential, Servers: 1, Initial: initialMax + 1},
		"{Kind:uniform":          {Service: Dist{Kind: Uniform, Min: 1, Max: 1}, Servers: 1},
		"{Kind:erlang":           {Service: Dist{Kind: Erlang, Mean: 1}, Servers: 1},
		"{Kind:gamma":            {Service: Dist{Kind: Gamma, Mean: 1}, Servers: 1},
		"{Kind:hyperexponential": {Service: Dist{Kind: Hyperexponential, Mean: 1, CV: 0.9}, Servers: 1},
		"{Kind:constant":         {Service: exponential, Arrivals: &Dist{Kind: Constant}, Servers: 1},
	} {
		wiretest.Refused(t, st, (*Station).fields, want)
	}
}

// Whatever the bytes are, unpacking them ends, with an error or a scenario.
func FuzzUnpack(f *testing.F) {
	b, err := modeltest.MustLoad(f, Kind(), packedText).(*Model).Pack(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(_ *testing.T, b []byte) { _ = openAll(b) })
}

// What a station and its customers take grows with the servers, with those who are there from the start, and with those
// who come faster than they are served.
func TestMemory(t *testing.T) {
	for _, c := range []struct {
		station string
		pending int64
		bytes   int
	}{
		{"servers: 1, initial: 100, to: {a: 1}", 100, stationBytes + serverBytes},
		{"servers: 1000, initial: 100, to: {a: 1}", 100, stationBytes + 1000*serverBytes},
		{"servers: 10, arrivals: 5", 1 + 5, stationBytes + 10*serverBytes},
		{"servers: 10, arrivals: 30", 1 + 10 + 20*100, stationBytes + 10*serverBytes},
		{"servers: 10, buffer: 5, arrivals: 30", 1 + 10, stationBytes + 10*serverBytes},
	} {
		m := modeltest.MustLoad(t, Kind(), "model: queueing\nhorizon: 100\nstations: [{id: a, service: {distribution: "+
			"exponential, mean: 1}, "+c.station+"}]").(*Model)
		if got := m.Memory(); got.Pending != c.pending || got.NodeBytes != c.bytes {
			t.Errorf("%s: %+v, want %d pending, %d bytes", c.station, got, c.pending, c.bytes)
		}
	}
}
