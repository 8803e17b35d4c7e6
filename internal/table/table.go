// SPDX-License-Identifier: Apache-2.0

// Package table writes results for people: numbers with units and aligned tables, the
// same way whichever model they come from. Programs read the JSON instead.
//
// Guarantee: the text depends on nothing but what it is given.
//
//	t := table.New(40, "links", "packets", "utilisation")
//	t.Row("Paris - Lyon", table.Count(120345), table.Percent(0.31))
//	t.Write(w)
package table

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Table is aligned text: the first column to the left, the rest to the right.
type Table struct {
	rows    [][]string
	width   []int
	rowsMax int
	more    int // rows beyond rowsMax
}

// New makes a table of at most rowsMax rows under the given heads. Further rows are
// counted, and the count stands under the table.
func New(rowsMax int, heads ...string) *Table {
	t := &Table{rowsMax: rowsMax + 1}
	t.Row(heads...)
	return t
}

// Row adds a row, which may have fewer cells than the head.
func (t *Table) Row(cells ...string) {
	if len(t.rows) == t.rowsMax {
		t.more++
		return
	}
	t.rows = append(t.rows, cells)
	for i, c := range cells {
		if i == len(t.width) {
			t.width = append(t.width, 0)
		}
		t.width[i] = max(t.width[i], utf8.RuneCountInString(c))
	}
}

// Full tells whether a further row would only be counted.
func (t *Table) Full() bool { return len(t.rows) == t.rowsMax }

// More counts so many further rows of a table that is full.
func (t *Table) More(rows int) { t.more += rows }

// Write writes the table after an empty line, unless it has only its head.
func (t *Table) Write(b *bufio.Writer) {
	if len(t.rows) < 2 {
		return
	}
	b.WriteByte('\n')
	for _, cells := range t.rows {
		line := cells[0] + strings.Repeat(" ", t.width[0]-utf8.RuneCountInString(cells[0]))
		for i, c := range cells[1:] {
			line += strings.Repeat(" ", 2+t.width[i+1]-utf8.RuneCountInString(c)) + c
		}
		b.WriteString(strings.TrimRight(line, " "))
		b.WriteByte('\n')
	}
	if t.more > 0 {
		fmt.Fprintf(b, "  … and %s, which the JSON output has\n", Plural(t.more, "row"))
	}
}

// Count writes a whole number in groups of three digits.
func Count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Number writes four significant digits, and all digits before the point.
func Number(x float64) string {
	if a := math.Abs(x); a >= 1000 && a < 1e15 {
		return Count(int64(math.Round(x)))
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}

// Significant is how many digits of x show two digits of a step, the width of an interval
// say; at least least, and at most what a float64 has.
func Significant(x, step float64, least int) int {
	if x == 0 || !(step > 0) || math.IsInf(step, 0) {
		return least
	}
	digits := math.Floor(math.Log10(math.Abs(x))) - math.Floor(math.Log10(step)) + 2
	return int(min(max(digits, float64(least)), 15))
}

// NumberStep is Number with enough digits to show a step.
func NumberStep(x, step float64) string {
	n := Significant(x, step, 4)
	a := math.Abs(x)
	if a < 1000 || a >= 1e15 {
		return strconv.FormatFloat(x, 'g', n, 64)
	}
	text := strconv.FormatFloat(x, 'f', max(0, n-1-int(math.Floor(math.Log10(a)))), 64)
	whole, fraction, some := strings.Cut(text, ".")
	n64, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || !some {
		return Number(x)
	}
	return Count(n64) + "." + fraction
}

// SecondsStep is Seconds with enough digits to show a step.
func SecondsStep(x, step float64) string {
	by, unit := secondsUnit(x)
	return NumberStep(by*x, by*step) + unit
}

// PercentStep is Percent with enough digits to show a step.
func PercentStep(x, step float64) string {
	digits := 1
	if step > 0 && !math.IsInf(step, 0) {
		digits = int(min(max(1-math.Floor(math.Log10(100*step)), 1), 13))
	}
	return strconv.FormatFloat(100*x, 'f', digits, 64) + " %"
}

// Percent writes a part of one with one digit behind the point.
func Percent(x float64) string { return strconv.FormatFloat(100*x, 'f', 1, 64) + " %" }

// Seconds writes a duration in the unit that suits it.
func Seconds(x float64) string {
	by, unit := secondsUnit(x)
	return Number(by*x) + unit
}

// secondsUnit is the unit that suits a duration, and how many there are in a second.
func secondsUnit(x float64) (by float64, unit string) {
	switch a := math.Abs(x); {
	case a == 0 || a >= 1:
		return 1, " s"
	case a >= 1e-3:
		return 1e3, " ms"
	case a >= 1e-6:
		return 1e6, " µs"
	}
	return 1e9, " ns"
}

// SecondsOrNone writes a duration that may not exist.
func SecondsOrNone(x *float64) string {
	if x == nil {
		return "-"
	}
	return Seconds(*x)
}

// Rate writes bits per second in the unit that suits it.
func Rate(x float64) string {
	for _, u := range []struct {
		unit string
		size float64
	}{{"Tb/s", 1e12}, {"Gb/s", 1e9}, {"Mb/s", 1e6}, {"kb/s", 1e3}} {
		if math.Abs(x) >= u.size {
			return Number(x/u.size) + " " + u.unit
		}
	}
	return Number(x) + " b/s"
}

// Plural is e.g. "1 row" or "1,200 rows".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Count(int64(n)) + " " + noun + "s"
}

// ParseBytes reads a number of bytes of at most so many: digits, and perhaps K, M or G behind them for 2^10, 2^20 and
// 2^30. ok says that it is one; most+1 stands for more than that.
func ParseBytes(text string, most int64) (n int64, ok bool) {
	digits, shift := text, 0
	for i, unit := range []string{"K", "M", "G"} {
		if d, has := strings.CutSuffix(strings.ToUpper(text), unit); has {
			digits, shift = d, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange):
		return 0, false
	case err != nil && n > 0 || n > most>>shift:
		return most + 1, true
	}
	return n << shift, true
}
