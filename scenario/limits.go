// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"math"
)

// Range says which numbers a field takes. Its text is the "want" of a problem.
// The zero Range takes nothing: make one with AnyNumber, AtLeast, MoreThan or
// Between.
type Range struct {
	min, max float64
	openMin  bool // min itself is outside
	or       string
}

// AnyNumber takes every finite number.
func AnyNumber() Range { return Range{min: -math.MaxFloat64, max: math.MaxFloat64} }

// AtLeast takes finite numbers >= min.
func AtLeast(min float64) Range { return Range{min: min, max: math.MaxFloat64} }

// MoreThan takes finite numbers > min.
func MoreThan(min float64) Range { return Range{min: min, max: math.MaxFloat64, openMin: true} }

// Between takes numbers from min to max, both included.
func Between(min, max float64) Range { return Range{min: min, max: max} }

// AtMost narrows the range to numbers <= max.
func (r Range) AtMost(max float64) Range {
	r.max = max
	return r
}

// Or adds to the text what a field takes besides a number, e.g. "a mapping with
// mean and distribution".
func (r Range) Or(text string) Range {
	r.or = text
	return r
}

// plain is r without what else a field takes.
func (r Range) plain() Range { return r.Or("") }

// Holds reports whether x is in the range; NaN and infinities never are.
func (r Range) Holds(x float64) bool {
	return x >= r.min && x <= r.max && !(r.openMin && x == r.min) && !math.IsInf(x, 0)
}

// String is e.g. "a number > 0", to be read after "want".
func (r Range) String() string { return r.text("a number") }

func (r Range) text(what string) string {
	low, high := r.min > -math.MaxFloat64, r.max < math.MaxFloat64
	switch {
	case low && high && !r.openMin:
		what += fmt.Sprintf(" from %s to %s", number(r.min), number(r.max))
	case low && high:
		what += fmt.Sprintf(" > %s and <= %s", number(r.min), number(r.max))
	case low && r.openMin:
		what += fmt.Sprintf(" > %s", number(r.min))
	case low:
		what += fmt.Sprintf(" >= %s", number(r.min))
	case high:
		what += fmt.Sprintf(" <= %s", number(r.max))
	}
	if r.or != "" {
		what += " or " + r.or
	}
	return what
}

// number writes a limit the way people write it in a file.
func number(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e15 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%v", x)
}
