// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/disco-sim/disco/scenario"
)

// fileHead is the first line of a demand file.
var fileHead = []string{"time", "location", "product", "quantity"}

// problemsMax is the number of problems of a demand file after which no more is read: a file of the wrong form has one
// in every line.
const problemsMax = 20

// readFile reads the file of demands.
func (l *loader) readFile(v scenario.Value) {
	if !v.Present() {
		return
	}
	path, text := v.File()
	if path == "" {
		return
	}
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(text, []byte("\ufeff"))))
	r.ReuseRecord = true
	f := demandFile{l: l, path: path, last: 0, r: r}
	head, err := r.Read()
	if err == nil && !slices.Equal(head, fileHead) {
		f.refuse(0, fmt.Sprintf("the columns %q", head), fmt.Sprintf("%q, in this order", fileHead), "")
		return
	}
	for err == nil && len(l.problems) < problemsMax {
		var record []string
		if record, err = r.Read(); err == nil {
			f.demand(record)
		}
	}
	if errors.Is(err, csv.ErrFieldCount) {
		f.refuse(0, "another number of columns than in the first line", fmt.Sprintf("%d", len(fileHead)), "")
		return
	}
	var bad *csv.ParseError
	if errors.As(err, &bad) {
		l.problems = append(l.problems, scenario.Problem{File: path, Line: bad.Line, Column: bad.Column,
			Found: bad.Err.Error(), Want: "a table in CSV"})
		return
	}
	if err != nil && err != io.EOF || len(head) == 0 {
		l.problems = append(l.problems, scenario.Problem{File: path, Line: 1, Found: "no first line",
			Want: fmt.Sprintf("the columns %q", fileHead)})
	}
}

// demandFile reads the lines of one.
type demandFile struct {
	l    *loader
	path string
	r    *csv.Reader
	last float64
}

// refuse notes what is wrong with a column of the line that was read last.
func (f *demandFile) refuse(column int, found, want, todo string) {
	line, at := f.r.FieldPos(column)
	f.l.problems = append(f.l.problems, scenario.Problem{File: f.path, Line: line, Column: at, Field: fileHead[column],
		Found: found, Want: want, ToDo: todo})
}

// demand reads one line.
func (f *demandFile) demand(record []string) {
	t, err := strconv.ParseFloat(record[0], 64)
	if err != nil || !(t >= 0 && t <= secondsMax) {
		f.refuse(0, strconv.Quote(record[0]), fmt.Sprintf("a time from 0 to %.0f s", float64(secondsMax)), "")
		return
	}
	if t < f.last {
		f.refuse(0, fmt.Sprintf("%v s behind %v s", t, f.last), "times that don't fall", "sort the file by time")
		return
	}
	at, ok := f.one(1, record[1], &f.l.locations)
	product, known := f.one(2, record[2], &f.l.products)
	if !ok || !known {
		return
	}
	n, err := strconv.ParseInt(record[3], 10, 64)
	if err != nil || n < 1 || n > quantityMax {
		f.refuse(3, strconv.Quote(record[3]), fmt.Sprintf("a whole number from 1 to %.0f", float64(quantityMax)), "")
		return
	}
	loc := &f.l.spec.Locations[at]
	k := loc.find(product)
	if k < 0 {
		f.refuse(2, fmt.Sprintf("demand of %s at %s, where no stock of it is", record[2], record[1]),
			"a product with a stock there", "")
		return
	}
	f.last = t
	loc.File = append(loc.File, FileDemand{Time: math.Abs(t), Point: int32(k), Quantity: n})
}

// one finds what a name stands for, which is no group.
func (f *demandFile) one(column int, id string, n *names) (int, bool) {
	s, _, ok := n.find(id)
	if !ok || s.count != 1 {
		f.refuse(column, fmt.Sprintf("the unknown %s %q", n.what, id), "the id of a "+n.what,
			scenario.Suggest(id, n.known()))
		return 0, false
	}
	return s.first, true
}
