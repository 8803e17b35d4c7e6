// Package sweep makes many scenarios of one: it puts other values into a scenario file,
// one for every point of a grid.
//
// Guarantee: nothing of the file changes but the values that are swept, so line numbers
// in messages stay true; a path that doesn't lead to exactly one value, and a value that
// is more than one, are refused before anything runs.
//
//	rate, err := sweep.ParseAxis("rqs_input.avg_active_users.mean=10,20,40")
//	points, err := sweep.Grid([]sweep.Axis{rate})
//	for _, p := range points {
//		text, err := sweep.Apply("shop.yml", shop, p)
//	}
package sweep

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
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
	Values []string // as they stand in YAML
	path   []string // steps of Key
}

// Setting is one field with one value.
type Setting struct {
	Key   string
	Value string
	path  []string
}

// Point is one scenario of the grid.
type Point []Setting

// String is e.g. "users=10 cores=2".
func (p Point) String() string {
	parts := make([]string, len(p))
	for i, s := range p {
		parts[i] = s.Key + "=" + s.Value
	}
	return strings.Join(parts, " ")
}

// ParseAxis reads "key=a,b,c". The key is a path of field names with dots between;
// an item of a list is written as its number (servers.0 or servers[0]) or as its id or
// name (servers.web-1). A value may be quoted, and may then hold commas.
func ParseAxis(text string) (Axis, error) {
	key, list, ok := strings.Cut(text, "=")
	if key = strings.TrimSpace(key); !ok || key == "" {
		return Axis{}, refuse("found %q, want key=a,b,c: the path of a field, and the values that it takes in turn", text)
	}
	a := Axis{Key: key}
	plain := strings.ReplaceAll(strings.ReplaceAll(key, "[", "."), "]", "")
	for step := range strings.SplitSeq(plain, ".") {
		if step == "" {
			return Axis{}, refuse("%s: found an empty step, want field names with dots between, such as a.b.0.c", key)
		}
		a.path = append(a.path, step)
	}
	values, err := split(list)
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

// split cuts a list at the commas outside of quotes.
func split(list string) ([]string, error) {
	var values []string
	begin, quote := 0, byte(0)
	for i := range len(list) {
		switch c := list[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == ',':
			values = append(values, strings.TrimSpace(list[begin:i]))
			begin = i + 1
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a %s is not closed", strconv.Quote(string(quote)))
	}
	return append(values, strings.TrimSpace(list[begin:])), nil
}

// Grid is all combinations of the axes' values; the last axis changes fastest.
func Grid(axes []Axis) ([]Point, error) {
	count := 1
	for i, a := range axes {
		for _, b := range axes[:i] {
			if strings.Join(a.path, ".") == strings.Join(b.path, ".") {
				return nil, refuse("%s is given twice: give it once, with all of its values", a.Key)
			}
		}
		if count *= len(a.Values); count > PointsMax {
			return nil, refuse("the grid has more than %d points, which is the most: sweep fewer values at a time", PointsMax)
		}
	}
	points := []Point{nil}
	for _, a := range axes {
		var next []Point
		for _, p := range points {
			for _, v := range a.Values {
				next = append(next, append(p[:len(p):len(p)], Setting{Key: a.Key, Value: v, path: a.path}))
			}
		}
		points = next
	}
	return points, nil
}
