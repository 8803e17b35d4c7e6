// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
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

// Nodes that stay on a worker while others leave it and come back are as they were, in memory and in the file, and of
// those that leave nothing is left there.
func TestResidentMoves(t *testing.T) {
	const horizon = 200
	m := &drifter{nodes: 600, events: 20}
	all, err := residentRun(t, m, nil, horizon)
	if err != nil {
		t.Fatal(err)
	}
	want := outcomeOf(t, all, horizon)
	structure, err := Compile(m.Graph(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int64{1, 30_000, 1 << 30} {
		mv := mover{t: t, m: m, s: structure, horizon: horizon, rnd: rand.New(rand.NewPCG(3, uint64(limit))),
			r: &Resident{Bytes: limit, File: &heapFile{}}}
		whole := make([]int32, m.nodes)
		e := mv.engine(whole, nil)
		for until := 20.0; until < horizon; until += 20 {
			mv.run(e, until)
			some := make([]int32, m.nodes)
			for n := range some {
				some[n] = int32(mv.rnd.IntN(3) / 2)
			}
			states, pending := mv.taken(e, func(n int) bool { return some[n] == 1 })
			stays, stayPending := mv.taken(e, func(n int) bool { return some[n] == 0 })
			e = mv.engine(some, &Resume{Epoch: until, From: e})
			e.SetUntil(until)
			if s, p := mv.taken(e, func(n int) bool { return some[n] == 0 }); !maps.Equal(s, stays) ||
				!maps.Equal(p, stayPending) {
				t.Fatalf("%d bytes: nodes that stay at %v are others than before", limit, until)
			}
			checkShelf(t, e)
			e = mv.engine(whole, &Resume{Epoch: until, From: e,
				Each: func(node, wait func(n int, encoded []byte) error) (err error) {
					for n, s := range states {
						err = errors.Join(err, node(n, []byte(s)))
					}
					for n, s := range pending {
						err = errors.Join(err, wait(n, []byte(s)))
					}
					return err
				}})
			checkShelf(t, e)
		}
		mv.run(e, math.Inf(1))
		if got := outcomeOf(t, e, horizon); got != want {
			t.Errorf("%d bytes: found\n%.200s, want\n%.200s", limit, got, want)
		}
		if s := e.Passive(); limit < 1<<20 && s.Left == 0 {
			t.Errorf("%d bytes: nobody left memory", limit)
		}
	}
}

// mover makes Engines of worker 0 of two.
type mover struct {
	t       *testing.T
	m       *drifter
	s       *Structure
	horizon float64
	rnd     *rand.Rand
	r       *Resident
}

func (mv *mover) engine(placement []int32, from *Resume) *Engine {
	mv.t.Helper()
	placed, err := mv.s.Place(placement, 2)
	if err != nil {
		mv.t.Fatal(err)
	}
	plan, err := placed.Plan(0, nil)
	if err != nil {
		mv.t.Fatal(err)
	}
	e, err := NewEngine(plan, Config{Model: mv.m, Seed: 1, Horizon: mv.horizon, Resident: mv.r, Resume: from})
	if err != nil {
		mv.t.Fatal(err)
	}
	return e
}

func (mv *mover) run(e *Engine, until float64) {
	mv.t.Helper()
	for e.SetUntil(until); e.Next() != Never; {
		if _, err := e.Run(1000, math.Inf(1)); err != nil {
			mv.t.Fatal(err)
		}
	}
}

// taken is what an Engine saves of some nodes.
func (mv *mover) taken(e *Engine, of func(n int) bool) (states, pending map[int]string) {
	mv.t.Helper()
	states, pending = map[int]string{}, map[int]string{}
	for n := range mv.m.nodes {
		if !of(n) {
			continue
		}
		b, err := e.AppendNode(nil, n)
		if err != nil {
			mv.t.Fatal(err)
		}
		states[n] = string(b)
	}
	err := e.EachPendingOf(of, func(n int, encoded []byte) error {
		pending[n] = string(encoded)
		return nil
	})
	if err != nil {
		mv.t.Fatal(err)
	}
	return states, pending
}

// checkShelf checks that the file has the records of this Engine's nodes, and room for nothing else that counts.
func checkShelf(t *testing.T, e *Engine) {
	t.Helper()
	v, live := e.passive, uint32(0)
	for place, w := range v.where {
		if w == placeNever || w >= residentBit {
			continue
		}
		_, at, err := v.file.read(w-1, int(e.plan.nodeOn(e.plan.self, uint32(place))))
		if err != nil {
			t.Fatal(err)
		}
		live += at.units
	}
	for s := range v.slots {
		live += v.slots[s].record.units
	}
	if v.file.live != live {
		t.Errorf("the file has %d units of records, and counts %d", live, v.file.live)
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
