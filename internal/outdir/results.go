// SPDX-License-Identifier: Apache-2.0

package outdir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
)

// The tables of a result are made of its JSON, whatever the model is. A field of "results" that is a list of objects,
// or an object of objects, is a table of its name with a row for each of them; an object of objects has their names in
// a first column, "id". What else is in "results" is one row of the table "summary". Objects inside of a row are
// columns with a dot in their names. Lists there, and objects of objects, have none: result.json has them.
//
// A column in which no row has a value isn't there: what is null may stand for an object elsewhere.
//
// result.json is read twice, an item at a time: for the columns, which may differ from row to row, and for the rows.

// summaryTable is the table of all that stands in no other.
const summaryTable = "summary"

// idColumn has the names of the items of an object.
const idColumn = "id"

// resultTables writes the tables of a result that open reads from its start.
func (w *Writer) resultTables(open func() io.Reader) error {
	shapes := map[string]*shape{}
	var names []string
	note := func(table string, row []cell) error {
		s := shapes[table]
		if s == nil {
			s = &shape{index: map[string]int{}}
			shapes[table], names = s, append(names, table)
		}
		s.note(row)
		return nil
	}
	if err := readResults(open(), note); err != nil {
		return err
	}
	tables := map[string]*Table{}
	for _, name := range names {
		if slices.Contains(w.names, name+".csv") || !tableName(name) || len(shapes[name].columns) == 0 {
			delete(shapes, name) // a field that is called like a table that there is, or like no file
			continue
		}
		var err error
		if tables[name], err = w.Table(name, shapes[name].columns); err != nil {
			return err
		}
	}
	return readResults(open(), func(table string, row []cell) error {
		t := tables[table]
		if t == nil {
			return nil
		}
		return t.Row(shapes[table].fill(row))
	})
}

// shape is the columns that the rows of a table have.
type shape struct {
	columns []Column
	index   map[string]int
	cells   []any
}

// note takes in what a row has.
func (s *shape) note(row []cell) {
	for _, c := range row {
		kind, found := typeOf(c.value)
		i, there := s.index[c.name]
		if !found {
			continue
		}
		if !there {
			if i = len(s.columns); i == columnsMax {
				continue
			}
			s.index[c.name] = i
			s.columns = append(s.columns, Column{Name: c.name, Type: kind})
		}
		switch was := s.columns[i].Type; {
		case was == kind:
		case was == Int && kind == Number || was == Number && kind == Int:
			s.columns[i].Type = Number
		default:
			s.columns[i].Type = Text
		}
	}
}

// columnsMax bounds the columns of a table; what is in further ones only result.json has.
const columnsMax = 1000

// typeOf is the type of a value of JSON; false of null.
func typeOf(value json.Token) (Type, bool) {
	switch v := value.(type) {
	case bool:
		return Bool, true
	case string:
		return Text, true
	case json.Number:
		if _, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return Int, true
		}
		return Number, true
	}
	return Number, false
}

// fill puts a row into the columns.
func (s *shape) fill(row []cell) []any {
	s.cells = append(s.cells[:0], make([]any, len(s.columns))...)
	for _, c := range row {
		if i, there := s.index[c.name]; there {
			s.cells[i] = as(s.columns[i].Type, c.value)
		}
	}
	return s.cells
}

// as is a value of JSON as one of a column.
func as(kind Type, value json.Token) any {
	n, isNumber := value.(json.Number)
	switch {
	case value == nil:
		return nil
	case kind == Text && isNumber:
		return string(n)
	case kind == Text:
		return fmt.Sprint(value)
	case kind == Int:
		x, _ := n.Int64() // typeOf has read it
		return x
	case kind == Number:
		x, err := n.Float64()
		if err != nil {
			x = math.NaN()
		}
		return x
	}
	return value
}

// cell is one value with the name of its column.
type cell struct {
	name  string
	value json.Token
}

// readResults calls row for each row of each table, those of one table behind each other but for the summary's one,
// which is the last.
func readResults(in io.Reader, row func(table string, cells []cell) error) error {
	r := &results{dec: json.NewDecoder(in), row: row}
	r.dec.UseNumber()
	if err := r.object(func(name string) error {
		if name != "results" {
			return r.skip()
		}
		return r.tables()
	}); err != nil {
		return fmt.Errorf("the tables of the results: %w", err)
	}
	if len(r.summary) == 0 {
		return nil
	}
	return row(summaryTable, r.summary)
}

// results reads them from JSON.
type results struct {
	dec     *json.Decoder
	row     func(table string, cells []cell) error
	summary []cell
	cells   []cell
}

var errShape = errors.New("found JSON that isn't that of a result")

// object reads an object's beginning, calls field for each of its fields, and reads its end.
func (r *results) object(field func(name string) error) error {
	if t, err := r.dec.Token(); err != nil {
		return err
	} else if t != json.Delim('{') {
		return errShape
	}
	return r.fields(field)
}

// fields is object behind its beginning.
func (r *results) fields(field func(name string) error) error {
	for r.dec.More() {
		t, err := r.dec.Token()
		if err != nil {
			return err
		}
		name, ok := t.(string)
		if !ok {
			return errShape
		}
		if err := field(name); err != nil {
			return err
		}
	}
	_, err := r.dec.Token()
	return err
}

// skip reads a value.
func (r *results) skip() error {
	depth := 0
	for {
		t, err := r.dec.Token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

// tables reads "results", which may be anything: what is no object has no tables.
func (r *results) tables() error {
	t, err := r.dec.Token()
	if err != nil || t != json.Delim('{') {
		return r.rest(t, err)
	}
	return r.fields(func(name string) error {
		t, err := r.dec.Token()
		switch {
		case err != nil:
			return err
		case t == json.Delim('['):
			return r.list(name)
		case t == json.Delim('{'):
			return r.named(name)
		}
		r.summary = append(r.summary, cell{name, t})
		return nil
	})
}

// rest reads what is left of a value whose first token was read.
func (r *results) rest(t json.Token, err error) error {
	if _, open := t.(json.Delim); err != nil || !open {
		return err
	}
	for depth := 1; depth > 0 && err == nil; {
		switch t, err = r.dec.Token(); t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
	return err
}

// list reads the items of a list, of which objects are rows.
func (r *results) list(table string) error {
	for r.dec.More() {
		t, err := r.dec.Token()
		if err != nil || t != json.Delim('{') {
			if err := r.rest(t, err); err != nil {
				return err
			}
			continue
		}
		r.cells = r.cells[:0]
		if err := r.flatten("", &r.cells); err != nil {
			return err
		}
		if err := r.row(table, r.cells); err != nil {
			return err
		}
	}
	_, err := r.dec.Token()
	return err
}

// named reads an object: where its first field is an object, it is a table with a row for each field, and else part of
// the summary.
func (r *results) named(name string) error {
	first, isTable := true, false
	return r.fields(func(field string) error {
		t, err := r.dec.Token()
		if err != nil {
			return err
		}
		isTable = isTable || first && t == json.Delim('{')
		first = false
		switch {
		case t == json.Delim('{') && isTable:
			r.cells = append(r.cells[:0], cell{idColumn, field})
			if err := r.flatten("", &r.cells); err != nil {
				return err
			}
			return r.row(name, r.cells)
		case t == json.Delim('{'):
			return r.flatten(name+"."+field+".", &r.summary)
		case t == json.Delim('['):
			return r.rest(t, nil)
		}
		r.summary = append(r.summary, cell{name + "." + field, t})
		return nil
	})
}

// flatten appends the single values of an object, behind its beginning: those of objects in it, too, unless these
// begin with an object.
func (r *results) flatten(prefix string, to *[]cell) error {
	first, ofObjects := true, false
	return r.fields(func(name string) error {
		t, err := r.dec.Token()
		ofObjects = ofObjects || first && prefix != "" && t == json.Delim('{')
		first = false
		switch {
		case err != nil:
			return err
		case t == json.Delim('{') && ofObjects:
			return r.rest(t, nil)
		case t == json.Delim('{'):
			return r.flatten(prefix+name+".", to)
		case t == json.Delim('['):
			return r.rest(t, nil)
		}
		*to = append(*to, cell{prefix + name, t})
		return nil
	})
}
