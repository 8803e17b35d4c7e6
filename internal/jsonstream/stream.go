// SPDX-License-Identifier: Apache-2.0

// Package jsonstream writes JSON of any size in parts, in the bytes that encoding/json would make of all of it at once.
//
// Guarantee: memory doesn't grow with what is written. Many members of an object are encoded by several goroutines, and
// come out in their order.
//
//	err := jsonstream.Write(w, prefix, indent, func(s *jsonstream.Stream) {
//		s.Object(func() {
//			s.Key("name").Text(name)
//			s.Key("boxes")
//			s.Members(len(boxes), func(e *jsonstream.Encoder, i int) { e.Key(boxes[i].id).Value(boxes[i]) })
//		})
//	})
package jsonstream

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"runtime"
	"strconv"
	"strings"
)

// Encoder appends values to memory. After an error it does nothing. One goroutine uses it.
type Encoder struct {
	buf    []byte
	line   string // a line's end and its indentation, for depthMax levels; empty: all in one line
	unit   int    // bytes of line for each level
	first  int    // bytes of line for none
	depth  int
	behind bool // something stands before, in the same object or list
	err    error
}

// depthMax bounds how deep objects and lists may be in each other.
const depthMax = 16

// Stream is an Encoder whose text goes to a writer. It is written at the latest after Flush.
type Stream struct {
	Encoder
	w io.Writer
}

// Write writes the one value that encode makes, as json.MarshalIndent does, or as json.Marshal where prefix and indent
// are empty. The error is the writer's, or says which number JSON can't express.
func Write(w io.Writer, prefix, indent string, encode func(s *Stream)) error {
	s := &Stream{w: w}
	if prefix != "" || indent != "" {
		s.first, s.unit = 1+len(prefix), len(indent)
		s.line = "\n" + prefix + strings.Repeat(indent, depthMax)
	}
	encode(s)
	s.Flush()
	return s.err
}

// Flush writes what isn't written yet.
func (s *Stream) Flush() {
	if s.err == nil {
		_, s.err = s.w.Write(s.buf)
	}
	s.buf = s.buf[:0]
}

// chunkMax is the most members that are encoded at a time.
const chunkMax = 512

// chunk is some neighbouring members on their way.
type chunk struct {
	from, to int
	e        Encoder
	done     chan struct{} // one value: it is encoded
}

// Members is an object of n members, which encode appends one by one: a Key and its value. Several goroutines call it
// at once, each for other members; it may only read.
func (s *Stream) Members(n int, encode func(e *Encoder, i int)) {
	s.open('{')
	if s.err == nil {
		s.members(n, encode)
	}
	s.behind = n > 0
	s.close('}')
}

func (s *Stream) members(n int, encode func(e *Encoder, i int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	size := max(1, min(n/(4*max(1, workers)), chunkMax))
	free, work := make(chan *chunk, 2*workers), make(chan *chunk, 2*workers)
	for range workers {
		go func() {
			for c := range work {
				for i := c.from; i < c.to; i++ {
					encode(&c.e, i)
				}
				c.done <- struct{}{}
			}
		}()
	}
	defer close(work)
	for range 2 * workers {
		free <- &chunk{done: make(chan struct{}, 1)}
	}
	s.Flush()
	var order []*chunk // given away, and not written yet
	for from := 0; from < n || len(order) > 0; {
		if from < n && len(free) > 0 {
			c := <-free
			c.from, c.to = from, min(from+size, n)
			c.e = Encoder{buf: c.e.buf[:0], line: s.line, unit: s.unit, first: s.first, depth: s.depth,
				behind: from > 0}
			from = c.to
			order = append(order, c)
			work <- c
			continue
		}
		c := order[0]
		order = order[1:]
		<-c.done
		if s.err == nil {
			s.err = c.e.err
		}
		s.buf = c.e.buf
		s.Flush()
		s.buf = nil
		if s.err != nil {
			n = from // what was given away is waited for
		}
		free <- c
	}
}

// Object is an object of the members that fill appends.
func (e *Encoder) Object(fill func()) {
	e.open('{')
	fill()
	e.close('}')
}

// List is a list of n items, which item appends one by one.
func (e *Encoder) List(n int, item func(i int)) {
	e.open('[')
	for i := range n {
		e.next()
		item(i)
	}
	e.behind = n > 0
	e.close(']')
}

func (e *Encoder) open(with byte) {
	e.buf = append(e.buf, with)
	e.depth, e.behind = e.depth+1, false
}

func (e *Encoder) close(with byte) {
	e.depth--
	if e.behind {
		e.newLine()
	}
	e.buf = append(e.buf, with)
	e.behind = true
}

func (e *Encoder) newLine() {
	if e.line != "" {
		e.buf = append(e.buf, e.line[:e.first+e.depth*e.unit]...)
	}
}

// next is what stands before a member or an item.
func (e *Encoder) next() {
	if e.behind {
		e.buf = append(e.buf, ',')
	}
	e.newLine()
	e.behind = true
}

// Key begins a member; its value is to follow.
func (e *Encoder) Key(name string) *Encoder {
	e.next()
	e.Text(name)
	e.buf = append(e.buf, ':')
	if e.line != "" {
		e.buf = append(e.buf, ' ')
	}
	return e
}

// Text is a string.
func (e *Encoder) Text(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, _ := json.Marshal(s) // texts always can
			e.buf = append(e.buf, text...)
			return
		}
	}
	e.buf = append(append(append(e.buf, '"'), s...), '"')
}

// Int is a whole number.
func (e *Encoder) Int(n int64) { e.buf = strconv.AppendInt(e.buf, n, 10) }

// Float is a number, which must be finite.
func (e *Encoder) Float(x float64) {
	size := math.Abs(x)
	switch {
	case math.Float64bits(x) == 0:
		e.buf = append(e.buf, '0')
	case math.IsNaN(x) || math.IsInf(x, 0):
		if e.err == nil {
			_, e.err = json.Marshal(x)
		}
	case size != 0 && (size < 1e-6 || size >= 1e21):
		e.buf = strconv.AppendFloat(e.buf, x, 'e', -1, 64)
		if n := len(e.buf); e.buf[n-4] == 'e' && e.buf[n-3] == '-' && e.buf[n-2] == '0' { // e-09 is e-9
			e.buf[n-2] = e.buf[n-1]
			e.buf = e.buf[:n-1]
		}
	default:
		e.buf = strconv.AppendFloat(e.buf, x, 'f', -1, 64)
	}
}

// FloatOrNull is a number that may be missing.
func (e *Encoder) FloatOrNull(x *float64) {
	if x == nil {
		e.buf = append(e.buf, "null"...)
		return
	}
	e.Float(*x)
}

// Value is anything that encoding/json can write, in memory: for what isn't large.
func (e *Encoder) Value(v any) {
	if e.err != nil {
		return
	}
	text, err := json.Marshal(v)
	if err != nil {
		e.err = err
		return
	}
	if e.line == "" {
		e.buf = append(e.buf, text...)
		return
	}
	b := bytes.NewBuffer(e.buf)
	e.err = json.Indent(b, text, e.line[1:e.first+e.depth*e.unit], e.line[e.first:e.first+e.unit])
	e.buf = b.Bytes()
}
