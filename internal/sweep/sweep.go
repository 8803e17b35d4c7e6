// SPDX-License-Identifier: Apache-2.0

// Package sweep makes many scenarios of one: a point of its grid is a list of settings,
// which scenario.Document.With puts into the file.
//
// Guarantee: every point has one value for each axis, all combinations are there once,
// and there are at most PointsMax of them; what isn't a key with a list of values is
// refused.
//
//	rate, err := sweep.ParseAxis("rqs_input.avg_active_users.mean=10,20,40")
//	points, err := sweep.Grid([]sweep.Axis{rate})
//	for _, p := range points {
//		changed, err := doc.With(p)
//	}
package sweep

import (
	"errors"
	"fmt"
	"strings"

	"github.com/disco-sim/disco/internal/setting"
	"github.com/disco-sim/disco/scenario"
)

// PointsMax bounds a grid.
const PointsMax = 10_000

// ErrSweep is what all errors of this package unwrap to; its text is not part of theirs.
var ErrSweep = errors.New("sweep: mistake")

type sweepError struct{ text string }

func (e *sweepError) Error() string { return e.text }
func (e *sweepError) Unwrap() error { return ErrSweep }

func refuse(format string, args ...any) error {
	return &sweepError{fmt.Errorf(format, args...).Error()}
}

// Axis is one field of a scenario and the values that it takes in turn.
type Axis struct {
	Key    string
	Values []string // YAML
}

// Point is one scenario of the grid.
type Point []scenario.Setting

// String is e.g. "users=10 cores=2".
func (p Point) String() string {
	parts := make([]string, len(p))
	for i, s := range p {
		parts[i] = s.String()
	}
	return strings.Join(parts, " ")
}

// ParseAxis reads "key=a,b,c", with a key as scenario.Document.With reads it. Commas in
// quotes and in brackets are part of a value.
func ParseAxis(text string) (Axis, error) {
	key, list, ok := scenario.SplitKey(text)
	if !ok || key == "" {
		return Axis{}, refuse("found %q, want key=a,b,c: the path of a field, and the values that it takes in turn",
			text)
	}
	a := Axis{Key: key}
	values, err := setting.Split(list)
	if err != nil {
		return Axis{}, refuse("%s: %w", key, err)
	}
	seen := make(map[string]bool, len(values))
	for _, v := range values {
		if v == "" {
			return Axis{}, refuse("%s: found an empty value, want values with commas between, such as 1,2,4", key)
		}
		if seen[v] {
			return Axis{}, refuse("%s: found the value %s twice, want every value once", key, v)
		}
		seen[v] = true
	}
	a.Values = values
	return a, nil
}

// Grid is all combinations of the axes' values; the last axis changes fastest.
func Grid(axes []Axis) ([]Point, error) {
	count := 1
	for i, a := range axes {
		for _, b := range axes[:i] {
			if a.Key == b.Key {
				return nil, refuse("%s is given twice: give it once, with all of its values", a.Key)
			}
		}
		if count *= len(a.Values); count > PointsMax {
			return nil, refuse("the grid has more than %d points, which is the most: sweep fewer values at a time",
				PointsMax)
		}
	}
	points := []Point{nil}
	for _, a := range axes {
		var next []Point
		for _, p := range points {
			for _, v := range a.Values {
				next = append(next, append(p[:len(p):len(p)], scenario.Setting{Key: a.Key, Value: v}))
			}
		}
		points = next
	}
	return points, nil
}
