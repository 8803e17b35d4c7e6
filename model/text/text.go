// Package text writes the results of models for people: aligned tables, numbers with a
// sensible number of digits.
//
// Guarantee: the same values give the same bytes, on every machine.
//
//	t := text.NewTable("station", "theory", "observed")
//	t.Row("cpu", text.Number(4), text.Number(3.97))
//	err := t.Write(w)
package text

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// rowsMax bounds a table: a page for people. JSON output has everything.
const rowsMax = 60

// Table is aligned text: the first column to the left, the others to the right.
type Table struct {
	rows   [][]string
	widths []int
	more   int // rows beyond rowsMax
}

// NewTable makes a table with its head.
func NewTable(heads ...string) *Table {
	t := &Table{}
	t.Row(heads...)
	return t
}

// Row adds a row. Rows beyond what fits a page are counted, and Write says how many.
func (t *Table) Row(cells ...string) {
	if len(t.rows) > rowsMax {
		t.more++
		return
	}
	t.rows = append(t.rows, cells)
	for i, c := range cells {
		if i == len(t.widths) {
			t.widths = append(t.widths, 0)
		}
		t.widths[i] = max(t.widths[i], utf8.RuneCountInString(c))
	}
}

// Write writes the table, unless it has only its head.
func (t *Table) Write(w io.Writer) error {
	if len(t.rows) < 2 {
		return nil
	}
	var b strings.Builder
	for _, cells := range t.rows {
		line := cells[0] + strings.Repeat(" ", t.widths[0]-utf8.RuneCountInString(cells[0]))
		for i, c := range cells[1:] {
			line += strings.Repeat(" ", 2+t.widths[i+1]-utf8.RuneCountInString(c)) + c
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	if t.more > 0 {
		fmt.Fprintf(&b, "  … and %s rows, which the JSON output has\n", Count(int64(t.more)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Count writes a whole number in groups of three digits.
func Count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Number writes five significant digits, and all digits before the point.
func Number(x float64) string {
	if math.Abs(x) >= 1e5 {
		if math.Abs(x) < 1e15 {
			return Count(int64(math.Round(x)))
		}
		return strconv.FormatFloat(x, 'g', 5, 64)
	}
	return strconv.FormatFloat(x, 'g', 5, 64)
}
