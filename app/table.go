// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	tables "github.com/disco-sim/disco/internal/table"
	"github.com/disco-sim/disco/scenario"
)

// cell is one value of a sweep's table, with the name of its column.
type cell struct {
	name   string
	text   string
	number bool
	listed bool // it stands in a list
}

// cellsOf makes the columns behind a point's own: what every run has, and everything in
// the results that is one value. left names the lists that have no columns.
func cellsOf(row *sweepRow) (cells []cell, left []string, err error) {
	d := row.document
	cells = []cell{
		{"events", strconv.FormatUint(d.Events, 10), true, false},
		{"wall_s", strconv.FormatFloat(d.WallSeconds, 'g', 6, 64), true, false},
		{"events_per_s", strconv.FormatFloat(d.EventsPerSecond, 'g', 6, 64), true, false},
		{"trace_hash", d.TraceHash, false, false},
	}
	text, err := json.Marshal(d.Results)
	if err != nil {
		return nil, nil, fmt.Errorf("the model's results can't be written as JSON: %w: its numbers must be finite", err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	tree, err := readTree(dec)
	if err != nil {
		return nil, nil, err
	}
	f := &flattener{cells: cells}
	f.flatten("", tree)
	return f.cells, f.left, nil
}

// tree is a JSON value that keeps the order of its fields.
type tree struct {
	value json.Token // number, text, boolean or nil, where it is no list and no object
	list  bool
	names []string // of an object's fields
	below []tree   // fields of an object, items of a list
}

// readTree reads one value.
func readTree(dec *json.Decoder) (t tree, err error) {
	if t.value, err = dec.Token(); err != nil {
		return t, err
	}
	open, ok := t.value.(json.Delim)
	if !ok {
		return t, nil
	}
	t.value, t.list = nil, open == '['
	for dec.More() {
		if !t.list {
			name, err := dec.Token()
			if err != nil {
				return t, err
			}
			t.names = append(t.names, fmt.Sprint(name))
		}
		item, err := readTree(dec)
		if err != nil {
			return t, err
		}
		t.below = append(t.below, item)
	}
	_, err = dec.Token()
	return t, err
}

// field is the text or the whole number that an object's field holds, "" otherwise.
func (t *tree) field(name string) string {
	for i, n := range t.names {
		if n == name {
			switch v := t.below[i].value.(type) {
			case string:
				return v
			case json.Number:
				return v.String()
			}
		}
	}
	return ""
}

// flattener makes columns of a tree.
type flattener struct {
	cells  []cell
	left   []string
	listed int // lists around the value at hand
}

// itemsMax bounds how many items of a list without names become columns: a series of
// samples is no row of a table.
const itemsMax = 100

// flatten appends the single values of a tree, in its order. What is in an object or in a
// list is named with a dot, in the form of a key.
func (f *flattener) flatten(name string, t tree) {
	names := t.names
	if t.list {
		var named bool
		if names, named = itemNames(t.below); !named && len(names) > itemsMax {
			f.left = append(f.left, fmt.Sprintf("%s (a list of %d items without names)", name, len(names)))
			return
		}
		f.listed++
		defer func() { f.listed-- }()
	}
	for i, below := range t.below {
		f.flatten(strings.TrimPrefix(name+"."+scenario.KeyStep(names[i]), "."), below)
	}
	switch v := t.value.(type) {
	case json.Number:
		f.cells = append(f.cells, cell{name, v.String(), true, f.listed > 0})
	case string:
		f.cells = append(f.cells, cell{name, v, false, f.listed > 0})
	case bool:
		f.cells = append(f.cells, cell{name, strconv.FormatBool(v), false, f.listed > 0})
	}
}

// itemNames names the items of a list: by the field that a key would name them by, or by
// where they lead from and to, where that tells them apart; by their numbers otherwise.
func itemNames(items []tree) (names []string, named bool) {
	ways := make([][]string, 0, 8)
	for _, field := range scenario.ItemNames() {
		ways = append(ways, []string{field})
	}
	ways = append(ways, []string{"from", "to"}, []string{"link", "from", "to"})
	for _, way := range ways {
		if names = namesBy(items, way); names != nil {
			return names, true
		}
	}
	names = make([]string, len(items))
	for i := range items {
		names[i] = strconv.Itoa(i)
	}
	return names, false
}

// namesBy is what some fields call the items, nil where they don't tell them apart.
func namesBy(items []tree, fields []string) []string {
	seen := make(map[string]bool, len(items))
	names := make([]string, len(items))
	for i := range items {
		var parts []string
		for _, field := range fields {
			part := items[i].field(field)
			if part == "" {
				return nil
			}
			parts = append(parts, part)
		}
		names[i] = strings.Join(parts, "-")
		if seen[names[i]] {
			return nil
		}
		seen[names[i]] = true
	}
	return names
}

// table is a sweep as rows and columns.
type table struct {
	columns []string
	numbers []bool     // the column holds numbers only
	listed  []bool     // its values stand in a list
	rows    [][]string // empty where a run has no such value
	keys    int        // the first columns are the point
}

func newTable(doc *sweepDocument) *table {
	t := &table{keys: len(doc.Sweep)}
	index := make(map[string]int)
	column := func(name string, number, listed bool) int {
		i, ok := index[name]
		if !ok {
			i = len(t.columns)
			index[name] = i
			t.columns, t.numbers, t.listed = append(t.columns, name), append(t.numbers, number),
				append(t.listed, listed)
		}
		t.numbers[i] = t.numbers[i] && number
		return i
	}
	for _, axis := range doc.Sweep {
		column(axis.Key, true, false)
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
			i := column(name, c.number, c.listed)
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

// chosen are the columns that --columns asks for, in its order, behind those of the
// point; nil where it isn't given.
func (t *table) chosen(columns string) ([]int, error) {
	if columns == "" {
		return nil, nil
	}
	var all []int
	for i := range t.keys {
		all = append(all, i)
	}
	for _, want := range splitColumns(columns) {
		found := false
		for i := t.keys; i < len(t.columns); i++ {
			if matches(want, t.columns[i]) {
				found = true
				if !slices.Contains(all, i) {
					all = append(all, i)
				}
			}
		}
		if !found {
			return nil, t.noColumn(want)
		}
	}
	return all, nil
}

// noColumn says which columns there are.
func (t *table) noColumn(want string) error {
	const shown = 40
	names := t.columns[t.keys:]
	list := strings.Join(names[:min(shown, len(names))], ", ")
	if len(names) > shown {
		list += fmt.Sprintf(", … (%d in all)", len(names))
	}
	hint := scenario.Suggest(want, names)
	if hint != "" {
		hint = "; " + hint
	}
	return usage("--columns: found no column %q, want names with commas between, * for any text, of %s%s", want, list,
		hint)
}

// splitColumns cuts a list of names at the commas outside of quotes.
func splitColumns(list string) []string {
	quoted := false
	return strings.FieldsFunc(list, func(c rune) bool {
		if c == '"' {
			quoted = !quoted
		}
		return c == ',' && !quoted
	})
}

// matches reports whether a name is what a pattern means, whose * stand for any text.
func matches(pattern, name string) bool {
	parts := strings.Split(strings.TrimSpace(pattern), "*")
	rest, ok := strings.CutPrefix(name, parts[0])
	if len(parts) == 1 || !ok {
		return ok && rest == ""
	}
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(rest, part)
		if i < 0 {
			return false
		}
		rest = rest[i+len(part):]
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}

// sweepCSV is the whole table, or the columns of it that were asked for.
func sweepCSV(doc *sweepDocument) ([]byte, error) {
	t := newTable(doc)
	shown, err := t.chosen(doc.columns)
	if err != nil {
		return nil, err
	}
	if shown == nil {
		for i := range t.columns {
			shown = append(shown, i)
		}
	}
	var records [][]string
	for _, row := range append([][]string{t.columns}, t.rows...) {
		record := make([]string, len(shown))
		for k, i := range shown {
			record[k] = row[i]
		}
		records = append(records, record)
	}
	return encodeCSV(records)
}

func encodeCSV(records [][]string) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	err := w.WriteAll(records)
	return b.Bytes(), err
}

// shownColumns is how many columns of results the text table has by default.
const shownColumns = 8

// differing are the columns of the text table without --columns: the points, and the first results that differ
// between them, those in lists behind the others; left is how many more do.
func (t *table) differing() (shown []int, left int) {
	for i := range t.keys {
		shown = append(shown, i)
	}
	same := t.allSame()
	for _, listed := range []bool{false, true} {
		for i := t.keys; i < len(t.columns); i++ {
			switch {
			case t.listed[i] != listed || !t.numbers[i] || timed(t.columns[i]) || !t.differs(i) && !same:
			case len(shown) < t.keys+shownColumns:
				shown = append(shown, i)
			default:
				left++
			}
		}
	}
	return shown, left
}

// sweepText writes the text table.
func (p *program) sweepText(doc *sweepDocument) error {
	t := newTable(doc)
	left := 0
	shown, err := t.chosen(doc.columns)
	if err != nil {
		return err
	}
	if shown == nil {
		shown, left = t.differing()
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
	// The writer behind it keeps its errors.
	_ = w.Flush()
	if left > 0 {
		fmt.Fprintf(p.stdout, "and %s, which --columns chooses and --csv FILE has\n",
			tables.Plural(left, "more column"))
	}
	return nil
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

// differs reports whether not all rows have the same in column i.
func (t *table) differs(i int) bool {
	for _, row := range t.rows {
		if row[i] != t.rows[0][i] {
			return true
		}
	}
	return false
}

// allSame reports whether all points have the same numbers.
func (t *table) allSame() bool {
	for i := t.keys; i < len(t.columns); i++ {
		if t.numbers[i] && !timed(t.columns[i]) && t.differs(i) {
			return false
		}
	}
	return true
}

// timed reports whether a column is about the machine and not about the model.
func timed(column string) bool { return column == "wall_s" || column == "events_per_s" }

// rounded is a number with six digits.
func rounded(text string, number bool) string {
	if x, err := strconv.ParseFloat(text, 64); number && err == nil {
		return strconv.FormatFloat(x, 'g', 6, 64)
	}
	return text
}
