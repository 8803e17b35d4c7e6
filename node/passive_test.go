// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/disco-sim/disco/state"
)

// heapFile is a StateFile in memory that can be full, and can lose bytes.
type heapFile struct {
	bytes []byte
	most  int // bytes; 0: any number
}

var errFull = errors.New("no space left on device")

func (f *heapFile) WriteAt(b []byte, at int64) (int, error) {
	end := int(at) + len(b)
	if f.most > 0 && end > f.most {
		return 0, errFull
	}
	if end > len(f.bytes) {
		f.bytes = append(f.bytes, make([]byte, end-len(f.bytes))...)
	}
	return copy(f.bytes[at:], b), nil
}

func (f *heapFile) ReadAt(b []byte, at int64) (int, error) {
	return bytes.NewReader(f.bytes).ReadAt(b, at)
}

// A shelf gives what was put there last, wherever it lies, and takes the place of what nobody needs any more.
func TestShelf(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	f := shelf{file: &heapFile{}}
	type kept struct {
		at   extent
		data []byte
	}
	records := make([]kept, 200)
	compacted := 0
	for step := range 20000 {
		n := rnd.IntN(len(records))
		k := &records[n]
		f.ahead = rnd.IntN(2) == 0
		if k.at.units > 0 {
			got, at, err := f.read(k.at.first, n)
			if err != nil || !bytes.Equal(got, k.data) || at != k.at {
				t.Fatalf("step %d: record %d is %d bytes at %v, %v, want %d at %v", step, n, len(got), at, err,
					len(k.data), k.at)
			}
			if rnd.IntN(3) > 0 {
				continue
			}
		}
		k.data = make([]byte, 8+[]int{rnd.IntN(100), rnd.IntN(3000), rnd.IntN(1 << 17)}[rnd.IntN(20)/18+rnd.IntN(2)])
		for i := range k.data {
			k.data[i] = byte(rnd.Uint32())
		}
		var err error
		if f.wasteful() {
			err = f.compact(func(n, first uint32) bool {
				return n < uint32(len(records)) && records[n].at.first == first && records[n].at.units > 0
			}, func(n, first uint32) { records[n].at.first = first })
			if err != nil {
				t.Fatal(err)
			}
			compacted++
		}
		if k.at, err = f.write(append(beginRecord(nil, n), k.data...), k.at); err != nil {
			t.Fatal(err)
		}
	}
	used := uint64(0)
	for i := range records {
		used += uint64(records[i].at.units)
	}
	if uint64(f.used) > 2*used+wasteLeast || uint64(f.live) != used || compacted == 0 {
		t.Errorf("%d units for %d in use, which are said to be %d; compacted %d times", f.used, used, f.live, compacted)
	}
}

func TestUnitsOf(t *testing.T) {
	for units := uint32(1); units < 1<<20; units++ {
		size := sizeOf(units)
		least, next := unitsAt(size), unitsAt(size+1)
		if least > units || next <= units || unitsOf(int(least)*unitBytes) != least {
			t.Fatalf("%d units are of size %d, which has %d; the next one has %d", units, size, least, next)
		}
	}
	if last := sizeOf(unitsMax); last >= sizesMax {
		t.Errorf("the largest size is number %d of %d", last, sizesMax)
	}
	before := uint32(0)
	for size := recordHead; size < 1<<20; size += 13 {
		u := unitsOf(size)
		if u < before || int(u)*unitBytes < size || u > 16 && float64(u)*unitBytes > 1.13*float64(size+unitBytes) {
			t.Fatalf("%d bytes get %d units, the size before them %d", size, u, before)
		}
		before = u
	}
}

// drifter passes on an event to a node drawn from all, and keeps sums.
type drifter struct {
	nodes, events int
	mute          bool // handlers aren't Savers
}

func (m *drifter) Graph() *Graph {
	g := &Graph{Simprocs: []string{"a", "b"}, Meshes: []Mesh{{From: 0, To: 0, Lookahead: 1},
		{From: 0, To: 1, Lookahead: 2}}}
	for n := range m.nodes {
		g.Nodes = append(g.Nodes, Node{Name: fmt.Sprint("n", n)})
	}
	return g
}

func (m *drifter) NewHandler(p *Simproc) (Handler, error) {
	h := &drift{model: m}
	h.pcg.Seed(p.Seed("drift"))
	if m.mute {
		return muteHandler{h}, nil
	}
	return h, nil
}

// muteHandler hides that a handler can be saved.
type muteHandler struct{ Handler }

type drift struct {
	model *drifter
	pcg   rand.PCG
	sum   uint64
	trail []byte // grows
}

func (h *drift) Handle(p *Simproc, events []Event) error {
	if p.Rank() == 1 {
		h.sum += uint64(len(events))
		return nil
	}
	if p.NodeIndex() < -h.model.events {
		return p.Wakeup(p.Now() + 1)
	}
	if p.Now() == 0 && p.NodeIndex() < h.model.events {
		events = make([]Event, 1)
	}
	rnd := rand.New(&h.pcg)
	for range events {
		h.sum += rnd.Uint64()
		h.trail = append(h.trail, byte(h.sum))
		for _, to := range []Endpoint{{rnd.IntN(h.model.nodes), 0}, {p.NodeIndex(), 1}} {
			l, err := p.LinkTo(to)
			if err == nil {
				err = p.Send(l, p.Now()+2+rnd.Float64(), h.trail)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *drift) StateVersion() uint32 { return 1 }

func (h *drift) State(_ *Simproc, c *state.Codec) {
	c.PCG(&h.pcg)
	c.Uint64(&h.sum)
	c.Bytes(&h.trail)
}

func (h *drift) Report(*Simproc) ([]byte, error) {
	return fmt.Appendf(nil, "%d %x", h.sum, h.trail), nil
}

// residentRun is a run of one engine.
func residentRun(t *testing.T, m *drifter, r *Resident, horizon float64) (*Engine, error) {
	t.Helper()
	plan, err := NewPlan(m.Graph(), make([]int32, m.nodes), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEngine(plan, Config{Model: m, Seed: 1, Horizon: horizon, Resident: r})
	if err != nil {
		return nil, err
	}
	for {
		if n, err := e.Run(1000, math.Inf(1)); err != nil || n == 0 {
			return e, err
		}
	}
}

// outcomeOf is hashes and reports.
func outcomeOf(t *testing.T, e *Engine, horizon float64) string {
	t.Helper()
	var b strings.Builder
	err := e.EachReport(horizon, func(id SimprocID, hash uint64, report []byte) error {
		_, err := fmt.Fprintf(&b, "%d %x %x\n", id, hash, report)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	e.Hashes(func(id SimprocID, hash uint64) { fmt.Fprintf(&b, "%d %x\n", id, hash) })
	return b.String()
}

// However little of memory nodes may take, all is as if they had all of it; and they take no more than that.
func TestResident(t *testing.T) {
	m := &drifter{nodes: 2000, events: 20}
	all, err := residentRun(t, m, nil, 200)
	if err != nil {
		t.Fatal(err)
	}
	want := outcomeOf(t, all, 200)
	for _, limit := range []int64{1, 3000, 100_000, 1 << 30} {
		f := &heapFile{}
		e, err := residentRun(t, m, &Resident{Bytes: limit, File: f}, 200)
		if err != nil {
			t.Fatal(err)
		}
		s := e.Passive()
		if got := outcomeOf(t, e, 200); got != want {
			t.Errorf("%d bytes: found\n%.200s, want\n%.200s", limit, got, want)
		}
		each := int64(2*simprocSize + nodeBytes)
		switch {
		case limit < 1<<20 && (s.Left < uint64(m.nodes)-uint64(limit/each)-1 || s.Came == 0 || len(f.bytes) == 0):
			t.Errorf("%d bytes: found %+v, and %d bytes in the file", limit, s, len(f.bytes))
		case limit == 1<<30 && s.Left+s.Came > 0:
			t.Errorf("%d bytes: found %+v, want nobody to leave", limit, s)
		case int64(s.Most) > limit/each+2:
			t.Errorf("%d bytes: %d nodes were in memory, of %d bytes at least", limit, s.Most, each)
		}
	}
}

// Those who leave are those that were called longest ago: a few busy nodes stay.
func TestIdleLeave(t *testing.T) {
	m := &drifter{nodes: 2000, events: -10} // ten nodes call themselves
	e, err := residentRun(t, m, &Resident{Bytes: 60_000, File: &heapFile{}}, 500)
	if err != nil {
		t.Fatal(err)
	}
	if s := e.Passive(); s.Left < 1800 || s.Came > 2050 {
		t.Errorf("found %+v, want most to leave, all to come back for the first call of their second simprocs, "+
			"and then the busy ones at most", s)
	}
}

func TestResidentErrors(t *testing.T) {
	_, err := residentRun(t, &drifter{nodes: 10, events: 1, mute: true}, &Resident{Bytes: 1, File: &heapFile{}}, 10)
	var none *NoStateError
	if !errors.As(err, &none) {
		t.Errorf("handlers that can't be saved: %v", err)
	}
	if _, err = residentRun(t, &drifter{nodes: 5000, events: 1}, &Resident{Bytes: 1, File: &heapFile{most: 1 << 18}},
		10); !errors.Is(err, errFull) || !strings.Contains(err.Error(), "leaves memory") {
		t.Errorf("a full file: %v", err)
	}
	f := &heapFile{}
	e, err := residentRun(t, &drifter{nodes: 5000, events: 50}, &Resident{Bytes: 1, File: f}, 5)
	if err != nil {
		t.Fatal(err)
	}
	clear(f.bytes)
	err = e.EachReport(5, func(SimprocID, uint64, []byte) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "comes back to memory: its file has something else there") {
		t.Errorf("a file that was overwritten: %v", err)
	}
	f.bytes = nil
	e.Hashes(func(SimprocID, uint64) {})
	if e.err == nil || !strings.Contains(e.err.Error(), "which isn't in memory") {
		t.Errorf("a file that was emptied: %v", e.err)
	}
	s := shelf{file: f, most: 10}
	if _, err := s.write(append(beginRecord(nil, 1), make([]byte, 700)...), extent{}); err == nil ||
		!strings.Contains(err.Error(), "at most 640 are allowed") {
		t.Errorf("a file that may not grow: %v", err)
	}
	if _, err := (&shelf{file: f, used: 100}).bytes(64, 8); err != errRecord && err != io.EOF {
		t.Errorf("behind the end: %v", err)
	}
}
