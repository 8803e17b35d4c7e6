package app

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
)

// cell is one value of a sweep's table, with the name of its column.
type cell struct {
	name   string
	text   string
	number bool
}

// cellsOf makes the columns behind a point's own: what every run has, and everything
// in the results that is one value. A value in an object is named with a dot; lists
// (histograms, series) are left to the JSON.
func cellsOf(row *sweepRow) ([]cell, error) {
	d := row.document
	cells := []cell{
		{"events", strconv.FormatUint(d.Events, 10), true},
		{"wall_s", strconv.FormatFloat(d.WallSeconds, 'g', 6, 64), true},
		{"events_per_s", strconv.FormatFloat(d.EventsPerSecond, 'g', 6, 64), true},
		{"trace_hash", d.TraceHash, false},
	}
	text, err := json.Marshal(d.Results)
	if err != nil {
		return nil, fmt.Errorf("the model's results can't be written as JSON: %w: its numbers must be finite", err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return flatten(cells, "", dec)
}

// flatten reads one JSON value and appends the single values in it, in its order.
func flatten(cells []cell, name string, dec *json.Decoder) ([]cell, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		if v == '[' {
			return cells, skipList(dec)
		}
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return nil, err
			}
			if cells, err = flatten(cells, strings.TrimPrefix(fmt.Sprintf("%s.%v", name, key), "."), dec); err != nil {
				return nil, err
			}
		}
		_, err := dec.Token() // }
		return cells, err
	case json.Number:
		cells = append(cells, cell{name, v.String(), true})
	case string:
		cells = append(cells, cell{name, v, false})
	case bool:
		cells = append(cells, cell{name, strconv.FormatBool(v), false})
	}
	return cells, nil
}

// skipList reads to the end of a list that has begun.
func skipList(dec *json.Decoder) error {
	for depth := 1; depth > 0; {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('['), json.Delim('{'):
			depth++
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
	}
	return nil
}

// table is a sweep as rows and columns.
type table struct {
	columns []string
	numbers []bool     // the column holds numbers only
	rows    [][]string // empty where a run has no such value
	keys    int        // the first columns are the point
}

func newTable(doc *sweepDocument) *table {
	t := &table{keys: len(doc.Sweep)}
	index := make(map[string]int)
	column := func(name string, number bool) int {
		i, ok := index[name]
		if !ok {
			i = len(t.columns)
			index[name] = i
			t.columns, t.numbers = append(t.columns, name), append(t.numbers, number)
		}
		t.numbers[i] = t.numbers[i] && number
		return i
	}
	for _, axis := range doc.Sweep {
		column(axis.Key, true)
	}
	for _, r := range doc.Rows {
		row := make([]string, len(t.columns))
		for k, s := range r.at {
			row[k] = s.Value
		}
		for _, c := range r.cells {
			// A result may be named like a swept field: it isn't the same thing.
			name := c.name
			if i, ok := index[name]; ok && i < t.keys {
				name = "results." + name
			}
			i := column(name, c.number)
			for len(row) <= i {
				row = append(row, "")
			}
			row[i] = c.text
		}
		t.rows = append(t.rows, row)
	}
	for r := range t.rows {
		for len(t.rows[r]) < len(t.columns) {
			t.rows[r] = append(t.rows[r], "")
		}
	}
	return t
}

// sweepCSV is the whole table.
func sweepCSV(doc *sweepDocument) ([]byte, error) {
	t := newTable(doc)
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if err := w.Write(t.columns); err != nil {
		return nil, err
	}
	if err := w.WriteAll(t.rows); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// shownColumns is how many columns of results a table for people has.
const shownColumns = 8

// sweepText writes a table for people: the points, and the first results that differ
// between them.
func (p *program) sweepText(doc *sweepDocument) {
	t := newTable(doc)
	shown := make([]int, 0, t.keys+shownColumns)
	left, same := 0, t.allSame()
	for i := range t.columns {
		switch {
		case i < t.keys:
			shown = append(shown, i)
		case !t.numbers[i] || timed(t.columns[i]) || !t.differs(i) && !same:
		case len(shown) < t.keys+shownColumns:
			shown = append(shown, i)
		default:
			left++
		}
	}
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, i := range shown {
		if i < t.keys {
			fmt.Fprintf(w, "%s\t", t.shortKey(i))
		} else {
			fmt.Fprintf(w, "%s\t", t.columns[i])
		}
	}
	fmt.Fprintln(w)
	for _, row := range t.rows {
		for _, i := range shown {
			fmt.Fprintf(w, "%s\t", rounded(row[i], i >= t.keys))
		}
		fmt.Fprintln(w)
	}
	// The writer behind it remembers its errors.
	_ = w.Flush()
	if left > 0 {
		fmt.Fprintf(p.stdout, "and %d more columns, which --csv FILE and --json FILE have\n", left)
	}
}

// shortKey is the end of a swept field's path: two steps, or as many more as tell it
// from the other ones.
func (t *table) shortKey(i int) string {
	steps := strings.Split(t.columns[i], ".")
	for n := 2; n < len(steps); n++ {
		end := "." + strings.Join(steps[len(steps)-n:], ".")
		same := 0
		for _, key := range t.columns[:t.keys] {
			if strings.HasSuffix(key, end) {
				same++
			}
		}
		if same == 1 {
			return end[1:]
		}
	}
	return t.columns[i]
}

// differs tells whether not all rows have the same in column i.
func (t *table) differs(i int) bool {
	for _, row := range t.rows {
		if row[i] != t.rows[0][i] {
			return true
		}
	}
	return false
}

// allSame tells whether the points made no difference to any number.
func (t *table) allSame() bool {
	for i := t.keys; i < len(t.columns); i++ {
		if t.numbers[i] && !timed(t.columns[i]) && t.differs(i) {
			return false
		}
	}
	return true
}

// timed tells whether a column is about the machine and not about the model.
func timed(column string) bool { return column == "wall_s" || column == "events_per_s" }

// rounded is a number with six digits.
func rounded(text string, number bool) string {
	if x, err := strconv.ParseFloat(text, 64); number && err == nil {
		return strconv.FormatFloat(x, 'g', 6, 64)
	}
	return text
}
