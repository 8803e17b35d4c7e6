// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/shm"
)

// A mirror shows what the board there does, and rings who waits for it: for its place, or to make room for it.
func TestMirror(t *testing.T) {
	layout, err := SegmentLayout(2, DefaultTuning())
	if err != nil {
		t.Fatal(err)
	}
	board := func() *shm.Segment {
		b, err := shm.Heap(layout.Board)
		if err == nil {
			err = layout.FormatBoard(b.Body())
		}
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	// A worker's own board is written as a mirror is.
	there, far, near := board(), board(), board()
	mirror, err := OpenMirror(there)
	if err != nil {
		t.Fatal(err)
	}
	var here []*View
	for _, b := range []*shm.Segment{far, near} {
		m, err := OpenMirror(b)
		if err != nil {
			t.Fatal(err)
		}
		waits := ShownFirst
		waits.WaitsAt = map[*shm.Segment]float64{far: 9, near: 3}[b]
		m.Show(waits, nil, nil)
		v, err := OpenView(b)
		if err != nil || v.Shown() != waits {
			t.Fatalf("shows %+v, want %+v (%v)", v.Shown(), waits, err)
		}
		here = append(here, v)
	}
	seen, err := OpenView(there)
	if err != nil || seen.Shown() != ShownFirst {
		t.Fatalf("a new mirror shows %+v (%v)", seen.Shown(), err)
	}
	never := math.Inf(1)
	for _, step := range []struct {
		shown Shown
		rings []int
	}{
		{Shown{StateWork, 1, 2, never, never}, nil},
		{Shown{StateWork, 2, 3, never, never}, []int{1}},
		{Shown{StateWork, 3, 4, never, 8}, nil}, // passed already
		{Shown{StateRoom, 3, 4, 4, never}, []int{0, 1}},
		{Shown{StateRoom, 3, 4, 4, never}, nil}, // they have been rung for that
		{Shown{StateRoom, 3, 4, 3.5, never}, []int{0, 1}},
		{Shown{StateWork, 4, 10, never, never}, []int{0}},
		{Shown{StateBound, 4, 1, never, never}, nil}, // an event has come to it
		{Shown{StateBound, 4, never, never, never}, []int{0, 1}},
	} {
		var rings []int
		mirror.Show(step.shown, here, func(i int) { rings = append(rings, i) })
		if seen.Shown() != step.shown || !slices.Equal(rings, step.rings) {
			t.Errorf("shows %+v and rings %v, want %+v and %v", seen.Shown(), rings, step.shown, step.rings)
		}
	}
}

// Machines that can't be are refused before anything is opened.
func TestSetupMachines(t *testing.T) {
	for what, s := range map[string]*Setup{
		"of 2 workers":   {Workers: 3, Machine: []int32{0, 1}},
		"machine 64":     {Workers: 2, Machine: []int32{0, 64}},
		"machine -1":     {Workers: 2, Machine: []int32{-1, 0}},
		"machine 0":      {Workers: 3, Machine: []int32{0, 1, 0}},
		"round trip of ": {Workers: 1, Machine: []int32{0}, Delay: math.NaN()},
	} {
		if err := s.checkMachines(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	s := &Setup{Worker: 2, Workers: 4, Machine: []int32{1, 1, 4, 6}}
	if err := s.checkMachines(); err != nil || !s.far() || s.here(1) || !s.here(2) || s.elsewhere() != 0 {
		t.Errorf("%v, far %v, elsewhere %d", err, s.far(), s.elsewhere())
	}
	s.Worker = 0
	if s.elsewhere() != 2 {
		t.Errorf("worker %d is the first elsewhere, want 2", s.elsewhere())
	}
	s.Machine = []int32{3, 3, 3, 3}
	if s.far() || !s.here(3) {
		t.Error("one machine is more than one")
	}
}
