// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/seed"
	"github.com/disco-sim/disco/internal/worker"
)

// threeMachines is a plan of six workers on machines 0, 2 and 5, who send each other traffic.
func threeMachines(traffic [][]float64) Plan {
	tuning := worker.DefaultTuning()
	tuning.PoolBytes = 1 << 20
	p := NewPlan([]int32{0, 0, 0, 2, 2, 5}, traffic, tuning, WindowBytesDefault)
	p.First, p.InputBytes = 6, 1000
	return p
}

// ofOne is a plan of so many workers on one machine.
func ofOne(workers int) Plan {
	return NewPlan(make([]int32, workers), evenTraffic(workers), worker.DefaultTuning(), WindowBytesDefault)
}

func randomTraffic(r *rand.Rand, workers int) [][]float64 {
	traffic := evenTraffic(workers)
	for from := range traffic {
		for to := range traffic {
			if r.IntN(3) == 0 {
				traffic[from][to] = 0
			}
			traffic[from][to] *= r.ExpFloat64()
		}
	}
	return traffic
}

// Whatever is in a plan travels, and what was cut short or goes on is refused.
func TestPlanTravels(t *testing.T) {
	r := seed.Rand(t)
	for range 100 {
		want := threeMachines(randomTraffic(r, 6))
		if r.IntN(2) == 0 {
			want.Expect([]float64{0, 1, r.Float64() * 1e12, 1e300, 3, 4})
		}
		b, err := want.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParsePlan(b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, %v\nwant %+v", got, err, want)
		}
		for n := range b {
			if _, err := ParsePlan(b[:n]); err == nil {
				t.Fatalf("the first %d of %d bytes pass", n, len(b))
			}
		}
		if _, err := ParsePlan(append(b, 0)); err == nil {
			t.Fatal("a byte behind the last lane passes")
		}
	}
}

// Each rule of a plan, broken alone, is refused with what is wrong and what is allowed.
func TestPlanIsRefused(t *testing.T) {
	for what, c := range map[string]struct {
		spoil func(*Plan)
		text  string
	}{
		"no workers":                 {func(p *Plan) { p.Machine, p.Rings = nil, nil }, "0 workers, want 1 to 64"},
		"too many workers":           {func(p *Plan) { *p = ofOne(65) }, "65 workers, want 1 to 64"},
		"a machine that isn't":       {func(p *Plan) { p.Machine[5] = 64 }, "on machine 64, want 2 to 63"},
		"a machine below all":        {func(p *Plan) { p.Machine[0] = -1 }, "on machine -1"},
		"machines that fall":         {func(p *Plan) { p.Machine[3], p.Machine[2] = 0, 2 }, "machine by machine"},
		"a lane to itself":           {func(p *Plan) { p.Rings[1][1] = 4096 }, "to itself"},
		"a ring that is too large":   {func(p *Plan) { p.Rings[0][1] = 1 << 21 }, "from 1024 to 1048576"},
		"a ring that is too small":   {func(p *Plan) { p.Rings[0][1] = 512 }, "ring of 512 bytes"},
		"a ring of 5000 bytes":       {func(p *Plan) { p.Rings[0][1] = 5000 }, "power of two"},
		"a ring below 0":             {func(p *Plan) { p.Rings[0][1] = -4096 }, "ring of -4096"},
		"no window":                  {func(p *Plan) { p.Windows[0][5] = 0 }, "worker 0 to 5 has a ring"},
		"a window on one machine":    {func(p *Plan) { p.Windows[0][1] = WindowMin }, "0 for others"},
		"a window without a ring":    {func(p *Plan) { p.Rings[0][5] = 0 }, "ring of 0 bytes"},
		"a window that is too small": {func(p *Plan) { p.Windows[0][5] = WindowMin - 1 }, "want 16384"},
		"a window that is too large": {func(p *Plan) { p.Windows[0][5] = WindowMax + 1 }, "window of 1073741825"},
		"first below 0":              {func(p *Plan) { p.First = -1 }, "number -1"},
		"first beyond all":           {func(p *Plan) { p.First = firstMax + 1 }, "1073741824"},
		"no input":                   {func(p *Plan) { p.InputBytes = 0 }, "input of 0 bytes"},
		"input beyond all":           {func(p *Plan) { p.InputBytes = inputMax + 1 }, "want 0 to"},
		"tuning that can't be":       {func(p *Plan) { p.Tuning.BatchMax = -1 }, "batches of -1"},
		"tuning left out":            {func(p *Plan) { p.Tuning.Sync = "" }, "left out"},
		"memory of too few":          {func(p *Plan) { p.Heap = []int{1, 2} }, "memory of 2 workers, want that of 6"},
		"memory below 0":             {func(p *Plan) { p.Heap = []int{0, 0, -1, 0, 0, 0} }, "worker 2 is expected"},
		"memory beyond all":          {func(p *Plan) { p.Heap = []int{5: heapMax + 1} }, "worker 5 is expected"},
		"pools that are too small":   {func(p *Plan) { p.Tuning.PoolBytes = 1 }, "two blocks"},
	} {
		p := threeMachines(evenTraffic(6))
		c.spoil(&p)
		b, err := p.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		// What has no encoding of its own, such as a window without a ring, is refused before it is sent.
		_, err = ParsePlan(b)
		if err == nil {
			err = p.Check()
		}
		if err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want an error with %q", what, err, c.text)
		}
	}
	p := threeMachines(evenTraffic(6))
	b, err := p.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	lane := len(b) - 24*30
	for what, c := range map[string]struct {
		at    int
		value byte
		text  string
	}{
		"version":            {0, 1, "found version 1, want 2"},
		"a lane to itself":   {lane + 4, 0, "to itself"},
		"a lane out of turn": {lane + 24 + 4, 1, "lane 1 one of"},
		"a lane of nobody":   {lane + 24*29, 6, "lane 29 one of"},
		"a lane below all":   {lane + 3, 0x80, "lane 0 one of"},
		"more lanes":         {lane - 4, 31, "found a length of 31"},
	} {
		spoilt := bytes.Clone(b)
		spoilt[c.at] = c.value
		_, err := ParsePlan(spoilt)
		if err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want an error with %q", what, err, c.text)
		}
	}
}

// FuzzPlan: any bytes are refused, or are the one encoding of a plan that can be made.
func FuzzPlan(f *testing.F) {
	p := threeMachines(evenTraffic(6))
	for range 2 {
		b, err := p.Append(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		p = NewPlan([]int32{3}, evenTraffic(1), worker.DefaultTuning(), 0)
		p.InputBytes = 1
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParsePlan(b)
		if err != nil {
			return
		}
		if again, err := p.Append(nil); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x is written as %x (%v)", b, again, err)
		}
		for m := range MachinesMax {
			if _, _, err := p.Needs(m, false); err != nil {
				t.Fatalf("machine %d: %v", m, err)
			}
		}
	})
}

// Windows share what a machine has among the lanes that lead to it from others, none gets less than the least, and
// those within a machine have none.
func TestWindowSizes(t *testing.T) {
	r := seed.Rand(t)
	for range 200 {
		p := threeMachines(randomTraffic(r, 6))
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		sum := map[int32]int{}
		for from, row := range p.Windows {
			for to, bytes := range row {
				sum[p.Machine[to]] += bytes
				if (bytes > 0) != (p.Rings[from][to] > 0 && p.Machine[from] != p.Machine[to]) {
					t.Fatalf("from %d to %d: window %d, ring %d", from, to, bytes, p.Rings[from][to])
				}
			}
		}
		for m, bytes := range sum {
			if bytes > WindowBytesDefault/2 {
				t.Fatalf("machine %d has windows of %d bytes", m, bytes)
			}
		}
	}
	// 64 workers on two machines have the least, and fill what there is.
	machine := make([]int32, 64)
	for w := 32; w < 64; w++ {
		machine[w] = 1
	}
	p := NewPlan(machine, evenTraffic(64), worker.DefaultTuning(), WindowBytesDefault)
	if p.Windows[0][63] != WindowMin || p.Windows[63][0] != WindowMin {
		t.Errorf("windows of %d and %d bytes", p.Windows[0][63], p.Windows[63][0])
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
}
