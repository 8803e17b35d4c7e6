// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
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
		{8, 2, "version 2, want 3"},
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

// Where blocks of nodes are computed all is as where they are listed: places, plans, and what is read from memory.
func TestBlocks(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for round := range 60 {
		g := &Graph{Simprocs: []string{"a"}, Meshes: []Mesh{{Lookahead: 0.1}}}
		if round%3 == 1 {
			g.Meshes = append(g.Meshes, Mesh{Lookahead: 0.19999999})
		}
		count := 1 + rnd.IntN(40)
		if round%20 == 0 {
			count += 3 * guesses // a guess is for several nodes
		}
		for n := range count {
			g.Nodes = append(g.Nodes, Node{Name: fmt.Sprint("n", n)})
		}
		for k := 0; round%4 == 3 && k < 30; k++ {
			g.Links = append(g.Links, Link{From: Endpoint{Node: rnd.IntN(count)}, To: Endpoint{Node: rnd.IntN(count)},
				Lookahead: 0.1 + rnd.Float64()})
		}
		workers := 1 + rnd.IntN(5)
		placement := make([]int32, count)
		for n := range placement {
			placement[n] = int32(rnd.IntN(workers)) // some have none
		}
		slices.Sort(placement)
		s, err := Compile(g, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Place(placement, workers)
		if err != nil || !got.blocks {
			t.Fatalf("%d nodes, %d workers: blocks %v, %v", count, workers, got.blocks, err)
		}
		listed := *got
		listed.blocks = false
		listed.list(placement)
		listed.locate(placement)
		mapped, err := OpenPlaced(inMemory(t, got))
		if err != nil || !mapped.blocks || got.Size() >= listed.Size() {
			t.Fatalf("%d bytes, listed %d: %v", got.Size(), listed.Size(), err)
		}
		for n := range count {
			id := SimprocID(n)
			for _, p := range []*Placed{got, mapped} {
				if p.at(id) != listed.at(id) || p.placeAt(n) != listed.placeAt(n) ||
					p.placeOf(id) != listed.placeOf(id) {
					t.Fatalf("node %d of %d: found %x in place %d, want %x in place %d", n, count, p.at(id),
						p.placeAt(n), listed.at(id), listed.placeAt(n))
				}
			}
		}
		for w := range workers {
			want, err := listed.Plan(w, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range []*Placed{got, mapped} {
				plan, err := p.Plan(w, nil)
				if err != nil || !slices.Equal(plan.Nodes(), want.Nodes()) ||
					!slices.Equal(plan.Local(), want.Local()) {
					t.Fatalf("worker %d: other nodes, %v", w, err)
				}
				for k := range plan.NumHosted() {
					if plan.hostedAt(k) != want.hostedAt(k) {
						t.Fatalf("worker %d has %d in place %d, want %d", w, plan.hostedAt(k), k, want.hostedAt(k))
					}
				}
				if !reflect.DeepEqual(plan.classes, want.classes) || !reflect.DeepEqual(plan.through, want.through) ||
					!reflect.DeepEqual(plan.across, want.across) || !reflect.DeepEqual(plan.sends, want.sends) ||
					!reflect.DeepEqual(plan.alike, want.alike) || !reflect.DeepEqual(plan.classOf, want.classOf) {
					t.Fatalf("worker %d of %d, %d nodes, %d links: other shifts:\n%+v\n%+v, want\n%+v\n%+v", w,
						workers, count,
						len(g.Links), plan.classes, plan.through, want.classes, want.through)
				}
			}
		}
	}
	p, err := (&Structure{layers: []string{"a"}, nodes: 2, nameStart: make([]uint32, 3), shared: make([]uint8, 2)}).
		Place([]int32{0, 1}, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at   int
		to   uint32
		want string
	}{
		{12, 1 | blocksBit, "want one layer and flat"},
		{64 + 4, 3, "hosted nodes"},
	} {
		mem := inMemory(t, p)
		binary.NativeEndian.PutUint32(mem[c.at:], c.to)
		if _, err := OpenPlaced(mem); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d at %d: %v, want %q", c.to, c.at, err, c.want)
		}
	}
}
