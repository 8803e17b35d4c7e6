// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/disco-sim/disco/internal/aligned"
	"github.com/disco-sim/disco/internal/wire/wiretest"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// written is an input all fields of which are set, and the body of its segment.
func written(t testing.TB) (*Input, []byte) {
	t.Helper()
	in := new(Input)
	wiretest.Fill(t, in)
	in.Placed = smallPlaced(t)
	body := aligned.Bytes(in.Segment().Size, 8)
	if err := in.Write(body); err != nil {
		t.Fatal(err)
	}
	return in, body
}

// smallPlaced is a graph of two nodes on two workers.
func smallPlaced(t testing.TB) *node.Placed {
	t.Helper()
	return placedOn(t, &node.Graph{Simprocs: []string{"x"}, Nodes: []node.Node{{Name: "a"}, {Name: "b"}},
		Links: []node.Link{{To: node.Endpoint{Node: 1}, Lookahead: 1}}}, []int32{0, 1}, 2)
}

func placedOn(t testing.TB, g *node.Graph, placement []int32, workers int) *node.Placed {
	t.Helper()
	s, err := node.Compile(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	placed, err := s.Place(placement, workers)
	if err != nil {
		t.Fatal(err)
	}
	return placed
}

// testInput is what the launcher makes of a file.
func testInput(t testing.TB, kinds scenario.Registry, text string, placement []int32, workers int) *Input {
	t.Helper()
	in := &Input{File: "test.yml", Text: []byte(text)}
	sc, err := in.load(kinds, scenario.Options{})
	if err != nil {
		t.Fatal(err)
	}
	in.Placed = placedOn(t, sc.Graph(), placement, workers)
	return in
}

// Every field of the input travels, in exactly the bytes that its segment has, and files are not copied.
func TestInput(t *testing.T) {
	for _, want := range []*Input{{Placed: smallPlaced(t)}, func() *Input { in, _ := written(t); return in }()} {
		body := aligned.Bytes(want.Segment().Size, 8)
		if err := want.Write(body); err != nil {
			t.Fatal(err)
		}
		got, err := ReadInput(body)
		if err != nil {
			t.Fatal(err)
		}
		if want.Text == nil {
			want.Text, want.Packed = []byte{}, []byte{}
		}
		if got.Placed.Workers() != 2 || got.Placed.NodeName(1) != "b" || got.Placed.NumLinks() != 1 {
			t.Errorf("another graph: %+v", got.Placed)
		}
		if got.Placed = want.Placed; !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
		for _, file := range got.Attached {
			at := uintptr(unsafe.Pointer(unsafe.SliceData(file.Text))) - uintptr(unsafe.Pointer(&body[0]))
			if at >= uintptr(len(body)) {
				t.Errorf("the file %s is a copy", file.Name)
			}
		}
	}
}

// A body that is too small or too large for the input is refused, and so is one with other bytes in it.
func TestBadInput(t *testing.T) {
	in, body := written(t)
	for _, n := range []int{len(body) - 1, len(body) + 1} {
		if err := in.Write(aligned.Bytes(n, 8)); err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("body of %d bytes for %d: %v", n, len(body), err)
		}
	}
	for n := range len(body) {
		if _, err := ReadInput(body[:n]); err == nil || !strings.Contains(err.Error(), "worker: input of") {
			t.Fatalf("%d of %d bytes: %v", n, len(body), err)
		}
	}
	if _, err := ReadInput(append(body, 0)); err == nil {
		t.Error("a byte behind the last field was accepted")
	}
}

func FuzzReadInput(f *testing.F) {
	_, body := written(f)
	f.Add(body)
	f.Fuzz(func(t *testing.T, found []byte) {
		body := aligned.Bytes(len(found), 8)
		copy(body, found)
		in, err := ReadInput(body)
		if err != nil {
			return
		}
		again := aligned.Bytes(in.Segment().Size, 8)
		fields := in.Placed.Size() // what is between the columns of the graph isn't read
		if err := in.Write(again); err != nil || string(again[fields:]) != string(body[fields:]) {
			t.Errorf("%q was read from %q: %v", again, body, err)
		}
	})
}
