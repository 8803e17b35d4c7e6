// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
)

// Bounds of series.csv. A run has at most 4 million numbers and some that are of the whole; a sweep that at each point.
const (
	seriesBytesMax  = 2 << 30
	seriesMax       = 1 << 20 // rows of the index
	answerSeriesMax = 20_000  // in one answer
	answerValuesMax = 4 << 20
)

// columns of series.csv (docs/outputs.md), behind the point of a sweep.
var columns = []string{"figure", "of", "unit", "from_s", "to_s", "value"}

// seriesIndex is where in one version of series.csv each series is.
type seriesIndex struct {
	tag     string
	point   int // columns before figure: 1 of a sweep
	entries []entry
	summary summary
}

// entry is one series: bytes from to to of the file.
type entry struct {
	point            int
	figure, of, unit string
	from, to         int64
}

// summary is which series there are.
type summary struct {
	Tag    string   `json:"tag"`
	Points int      `json:"points"` // of a sweep; 0: it is none
	Whole  []figure `json:"whole"`
	Each   []figure `json:"each"`
}

// figure is a figure of the whole, or of each of so many.
type figure struct {
	Figure string `json:"figure"`
	Unit   string `json:"unit"`
	Count  int    `json:"count"`
}

// seriesCache has the index of the version that was asked for last.
type seriesCache struct {
	mu   sync.Mutex
	last *seriesIndex
}

// of is the index of a file, whose version has a tag.
func (c *seriesCache) of(ctx context.Context, f *os.File, tag string) (*seriesIndex, error) {
	c.mu.Lock() // whoever asks for the same meanwhile gets it then
	defer c.mu.Unlock()
	if c.last != nil && c.last.tag == tag {
		return c.last, nil
	}
	x, err := newIndex(ctx, f, tag)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", seriesFile, err)
	}
	c.last = x
	return x, nil
}

// newIndex reads a file once.
func newIndex(ctx context.Context, f io.Reader, tag string) (*seriesIndex, error) {
	limited := &io.LimitedReader{R: f, N: seriesBytesMax + 1}
	r := csv.NewReader(bufio.NewReaderSize(limited, 1<<18))
	r.ReuseRecord = true
	head, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("its head: %w", err)
	}
	x := &seriesIndex{tag: tag, entries: []entry{}}
	if len(head) > 0 && head[0] == "point" {
		x.point = 1
	}
	if !slices.Equal(head[x.point:], columns) {
		return nil, fmt.Errorf("found the columns %.200q, want %q", head, columns)
	}
	var last *entry
	for rows := 0; ; rows++ {
		from := r.InputOffset()
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && rows%4096 == 0 {
			err = ctx.Err() // nobody waits any more
		}
		if err != nil {
			return nil, err
		}
		if last == nil || !last.has(row, x.point) {
			if len(x.entries) == seriesMax {
				return nil, fmt.Errorf("found more than %d series, which is more than the view has room for", seriesMax)
			}
			e := entry{from: from}
			if x.point == 1 {
				if e.point, err = strconv.Atoi(row[0]); err != nil {
					return nil, fmt.Errorf("byte %d: found the point %.100q, want a number", from, row[0])
				}
			}
			e.figure, e.of, e.unit = string([]byte(row[x.point])), string([]byte(row[x.point+1])),
				string([]byte(row[x.point+2]))
			x.entries = append(x.entries, e)
			last = &x.entries[len(x.entries)-1]
		}
		last.to = r.InputOffset()
	}
	if limited.N == 0 {
		return nil, fmt.Errorf("found more than %d bytes, which is more than the view reads", int64(seriesBytesMax))
	}
	x.summary = x.summarise()
	return x, nil
}

// has tells whether a row is one more window of a series.
func (e *entry) has(row []string, point int) bool {
	return row[point] == e.figure && row[point+1] == e.of && row[point+2] == e.unit &&
		(point == 0 || row[0] == strconv.Itoa(e.point))
}

func (x *seriesIndex) summarise() summary {
	s := summary{Tag: x.tag, Whole: []figure{}, Each: []figure{}}
	type key struct {
		of           bool
		figure, unit string
	}
	at := map[key]int{}
	first := 0
	for _, e := range x.entries {
		s.Points = max(s.Points, e.point)
		if first == 0 {
			first = e.point
		}
		if e.point != first {
			continue // all points have the same
		}
		list, k := &s.Whole, key{e.of != "", e.figure, e.unit}
		if k.of {
			list = &s.Each
		}
		i, ok := at[k]
		if !ok {
			i = len(*list)
			at[k] = i
			*list = append(*list, figure{e.figure, e.unit, 0})
		}
		(*list)[i].Count++
	}
	return s
}

// choice is what an answer has.
type choice struct {
	point      int
	figure, of string
}

func (c *choice) has(e *entry) bool {
	switch {
	case c.point != e.point || c.figure != "" && c.figure != e.figure:
		return false
	case c.of != "":
		return c.of == e.of
	}
	return (c.figure != "") == (e.of != "") // of all boxes and links, or of the whole
}

// values writes series as JSON: those with the same windows together, so that these are there once.
func (x *seriesIndex) values(f io.ReaderAt, c choice) (string, error) {
	var out bytes.Buffer
	out.WriteString(`{"sets":[`)
	var edges, before []float64
	var values []byte
	count, numbers := 0, 0
	for i := range x.entries {
		e := &x.entries[i]
		if !c.has(e) {
			continue
		}
		var err error
		if edges, values, err = e.read(f, x.point, edges[:0], values[:0]); err != nil {
			return "", fmt.Errorf("%s: %w", seriesFile, err)
		}
		count, numbers = count+1, numbers+len(edges)
		if count > answerSeriesMax || numbers > answerValuesMax {
			return "", fmt.Errorf("%s: found more than %d series or %d values of this, which is more than a page "+
				"can draw", seriesFile, answerSeriesMax, answerValuesMax)
		}
		if count == 1 || !slices.Equal(edges, before) {
			if count > 1 {
				out.WriteString("]},")
			}
			text, err := json.Marshal(edges)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&out, `{"edges":%s,"items":[`, text)
			before = append(before[:0], edges...)
		} else {
			out.WriteByte(',')
		}
		names, err := json.Marshal([]string{e.figure, e.of, e.unit})
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, `{"name":%s,"values":[%s]}`, names, values)
	}
	if count > 0 {
		out.WriteString("]}")
	}
	out.WriteString("]}")
	return out.String(), nil
}

// read reads one series: the ends of its windows, and its values as JSON.
func (e *entry) read(f io.ReaderAt, point int, edges []float64, values []byte) ([]float64, []byte, error) {
	r := csv.NewReader(bufio.NewReader(io.NewSectionReader(f, e.from, e.to-e.from)))
	r.ReuseRecord, r.FieldsPerRecord = true, point+len(columns)
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return edges, values, nil
		}
		if err != nil {
			return nil, nil, err
		}
		from, err1 := finite(row[point+3])
		to, err2 := finite(row[point+4])
		if err := errors.Join(err1, err2); err != nil || to <= from ||
			len(edges) > 0 && edges[len(edges)-1] != from {
			return nil, nil, fmt.Errorf("%s of %.100q: found a window from %.40q to %.40q s, want windows one behind "+
				"the other", e.figure, e.of, row[point+3], row[point+4])
		}
		if len(edges) == 0 {
			edges = append(edges, from)
		} else {
			values = append(values, ',')
		}
		edges = append(edges, to)
		if text := row[point+5]; text == "" {
			values = append(values, "null"...)
		} else if x, err := finite(text); err != nil {
			return nil, nil, fmt.Errorf("%s of %.100q: found %.40q, want a number", e.figure, e.of, text)
		} else {
			values = strconv.AppendFloat(values, x, 'g', 6, 64) // more than a picture shows
		}
	}
}

// finite is a number that JSON can have.
func finite(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err == nil && (math.IsInf(x, 0) || math.IsNaN(x)) {
		err = fmt.Errorf("found %q", text)
	}
	return x, err
}
