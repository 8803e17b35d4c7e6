// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"slices"
)

// Piece is a value that holds during a window.
type Piece struct {
	Window
	Value float64
}

// Steps is a step function of time: 0 before its first change. It isn't changed after
// it was made.
type Steps struct {
	at    []float64 // of the changes
	value []float64 // from that change on
}

// NewSteps makes one value of the pieces that hold at a time with join, earliest piece
// first, beginning with 0. It does so anew for every change, so that the value comes
// back to exactly 0 behind the last piece.
func NewSteps(pieces []Piece, join func(value, piece float64) float64) Steps {
	var s Steps
	for _, p := range pieces {
		s.at = append(s.at, p.From, p.To)
	}
	slices.Sort(s.at)
	s.at = slices.Compact(s.at)
	later := slices.Clone(pieces)
	slices.SortStableFunc(later, func(a, b Piece) int { return cmp.Compare(a.From, b.From) })
	var active []Piece
	for _, t := range s.at {
		active = slices.DeleteFunc(active, func(p Piece) bool { return p.To <= t })
		for len(later) > 0 && later[0].From <= t {
			active = append(active, later[0])
			later = later[1:]
		}
		value := 0.0
		for _, p := range active {
			value = join(value, p.Value)
		}
		s.value = append(s.value, value)
	}
	return s
}

// Sum is the join that adds.
func Sum(value, piece float64) float64 { return value + piece }

// Zero reports whether it has no pieces.
func (s Steps) Zero() bool { return len(s.at) == 0 }

// Reader reads a step function at times that never go back.
type Reader struct {
	steps Steps
	next  int // index of the first change that lies ahead
}

// Reader begins before the first change.
func (s Steps) Reader() Reader { return Reader{steps: s} }

// At is the value at now.
func (r *Reader) At(now float64) float64 {
	for r.next < len(r.steps.at) && r.steps.at[r.next] <= now {
		r.next++
	}
	if r.next == 0 {
		return 0
	}
	return r.steps.value[r.next-1]
}
