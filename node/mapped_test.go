// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/aligned"
)

// inMemory writes p into memory of its size and a little more.
func inMemory(t testing.TB, p *Placed) []byte {
	t.Helper()
	mem := aligned.Bytes(p.Size()+3, mappedAlign)
	if err := p.Write(mem); err != nil {
		t.Fatal(err)
	}
	return mem
}

// checkMapped writes p and opens it again: all columns are there, and all workers make the same plans of them.
func checkMapped(t *testing.T, p *Placed) {
	t.Helper()
	mem := inMemory(t, p)
	before := bytes.Clone(mem)
	got, err := OpenPlaced(mem)
	if err != nil {
		t.Fatal(err)
	}
	if got.Size() != p.Size() {
		t.Fatalf("%d bytes, want %d", got.Size(), p.Size())
	}
	for w := range p.workers {
		plan, err := got.Plan(w, nil)
		if err != nil {
			t.Fatal(err)
		}
		want, err := p.Plan(w, nil)
		if err != nil {
			t.Fatal(err)
		}
		plan.Placed, want.Placed = nil, nil
		if !reflect.DeepEqual(plan, want) {
			t.Fatalf("worker %d has the plan %+v, want %+v", w, plan, want)
		}
	}
	same, structure := *p, *p.Structure
	same.Structure, same.mapped = &structure, true
	structure.work, structure.rate, structure.epochs, structure.workEach = nil, nil, 0, 0
	for _, empty := range []*[]uint32{&structure.linkTo, &got.linkTo} {
		if len(*empty) == 0 {
			*empty, structure.lookahead, got.lookahead = nil, nil, nil
		}
	}
	if len(p.crossing) == 0 {
		same.crossing, got.crossing = nil, nil
	}
	if !reflect.DeepEqual(got, &same) {
		t.Fatalf("%+v %+v, want %+v %+v", got, got.Structure, same, structure)
	}
	if !bytes.Equal(mem, before) {
		t.Fatal("the memory was written to")
	}
}

// placedGraph has two layers, a mesh, links with and without lookahead, and three workers.
func placedGraph(t testing.TB) *Placed {
	g := &Graph{Simprocs: []string{"up", "down"}, Meshes: []Mesh{{From: 0, To: 1, Lookahead: 2}},
		Nodes: []Node{{Name: "a"}, {Name: "b", Shared: true}, {Name: "cc"}, {Name: "d"}},
		Links: []Link{{From: Endpoint{0, 0}, To: Endpoint{1, 1}, Lookahead: 1},
			{From: Endpoint{1, 0}, To: Endpoint{2, 0}},
			{From: Endpoint{2, 1}, To: Endpoint{3, 0}, Lookahead: 3}, {From: Endpoint{3, 0}, To: Endpoint{3, 1}}}}
	s, err := Compile(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Place([]int32{0, 1, 2, 1}, 3)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// useMapped does with memory what workers do.
func useMapped(mem []byte) error {
	p, err := OpenPlaced(mem)
	if err != nil {
		return err
	}
	find := p.IndexNodes()
	for id := range SimprocID(p.NumSimprocs()) {
		find(p.Name(id))
	}
	for w := range p.workers {
		plan, err := p.Plan(w, nil)
		if err != nil {
			return err
		}
		if p.NumSimprocs() > 1<<10 {
			continue
		}
		if p.CheckLinks() == nil {
			err = plan.PromiseByLink()
		}
		if err != nil {
			return err
		}
		e, err := NewEngine(plan, Config{Model: idleModel{}, Horizon: 1})
		if err != nil {
			return err
		}
		e.Next()
	}
	return nil
}

type idleModel struct{}

func (idleModel) Graph() *Graph                        { return nil }
func (idleModel) NewHandler(*Simproc) (Handler, error) { return idleHandler{}, nil }

type idleHandler struct{}

func (idleHandler) Handle(*Simproc, []Event) error { return nil }

// Mistakes in each part are found before they can do harm, and their messages say which it is.
func TestBadMapped(t *testing.T) {
	p := placedGraph(t)
	good := inMemory(t, p)
	if err := useMapped(good); err != nil {
		t.Fatal(err)
	}
	for n := range p.Size() {
		if err := useMapped(aligned.Bytes(n, mappedAlign)); err == nil {
			t.Fatalf("%d zeros were accepted", n)
		}
		short := aligned.Bytes(n, mappedAlign)
		copy(short, good)
		if err := useMapped(short); err == nil {
			t.Fatalf("the first %d of %d bytes were accepted", n, p.Size())
		}
	}
	// Places of columns, by the page of the format: 8 ids, 4 links, 1 mesh, some crossings.
	where, lookahead := 64, 64+8*8
	mesh := lookahead + 4*8
	crossing := mesh + 32
	levels := crossing + 8*len(p.crossing)
	linkStart := levels + 8*4
	linkTo := linkStart + 10*4
	place := linkTo + 4*4
	hostStart := place + 4*4
	hosted := hostStart + 4*4
	for _, c := range []struct {
		at   int
		to   uint32
		want string
	}{
		{8, 3, "version 3, want 2"},
		{12, 0, "0 layers"},
		{16, 1 << 29, "536870912 nodes"},
		{20, 5, "want"},
		{24, 4, "want"},
		{24, 1 << 20, "1048576 workers"},
		{56, 8, "8 bytes in memory"},
		{52, 1 << 31, "least lookahead"},
		{where + 4, 3, "node 0 is on worker 3, want 0 to 2"},
		{where, 9, "index 9"},
		{where + 12, 1, "on worker 1"},
		{lookahead + 4, 1 << 31, ""}, // -0
		{lookahead + 4, 0xfff00000, "with lookahead -Inf"},
		{mesh, 2, "mesh 0"},
		{mesh + 20, 0, "mesh 0"},
		{crossing, 8, "link 0 of simproc 8"},
		{crossing + 4, 1, "link 1 isn't one from worker 0 to 1"},
		{crossing + 4, 4, "link 4 of simproc 0"},
		{levels, 8, "and level 8"},
		{linkStart + 4, 9, "links 0 to 9 of simproc 0, there are 4"},
		{linkTo, 8, "leads to 8 of 8"},
		{place, 1, "node 0 isn't in place 1"},
		{hostStart + 8, 5, "hosted nodes"},
		{hosted, 1, "node 0 isn't in place 0"},
	} {
		mem := inMemory(t, p)
		binary.NativeEndian.PutUint32(mem[c.at:], c.to)
		err := useMapped(mem)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%d at %d: %v, want %q", c.to, c.at, err, c.want)
		}
	}
	if err := p.Write(good[:p.Size()-1]); err == nil {
		t.Error("memory that is too small was written to")
	}
	if _, err := OpenPlaced(good[1:]); err == nil {
		t.Error("memory that begins at an odd place was opened")
	}
}

// Whatever a byte is changed to, workers get an error, or use what is there without harm.
func FuzzOpenPlaced(f *testing.F) {
	f.Add(bytes.Clone(inMemory(f, placedGraph(f))))
	f.Fuzz(func(t *testing.T, b []byte) {
		mem := aligned.Bytes(len(b), mappedAlign)
		copy(mem, b)
		_ = useMapped(mem) // an error or not: no panic, no endless loop
	})
}

// The same with many small changes of one good graph.
func TestMappedMutations(t *testing.T) {
	good := inMemory(t, placedGraph(t))
	rnd := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for range 20000 {
		mem := aligned.Bytes(len(good), mappedAlign)
		copy(mem, good)
		for range 1 + rnd.IntN(3) {
			mem[rnd.IntN(len(mem))] = byte(rnd.Uint32() >> rnd.IntN(8))
		}
		if useMapped(mem) != nil {
			refused++
		}
	}
	if refused < 10000 {
		t.Errorf("%d of 20000 were refused", refused)
	}
}
