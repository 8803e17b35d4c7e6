// SPDX-License-Identifier: Apache-2.0

package gml

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/disco-sim/disco/internal/printable"
)

// Limits of a file. They bound the memory and the time that reading it can take.
const (
	// FileBytesMax: 64 MiB, some 300,000 nodes and edges.
	FileBytesMax = 64 << 20

	// depthMax bounds how deep lists are nested. The Zoo's files need 3.
	depthMax = 32
)

// Kind says what a Value is.
type Kind uint8

// The kinds of values.
const (
	Integer Kind = iota
	Real
	Text
	List
)

// Value is what a key stands for.
type Value struct {
	Kind  Kind
	Whole int64   // of an Integer
	Float float64 // of an Integer or a Real; finite
	Text  string  // of a Text, entities decoded
	List  []Pair  // of a List
}

// Pair is a key with its value.
type Pair struct {
	Key          string
	Value        Value
	Line, Column int // of the key
}

// Number gives the number that a value is. The Zoo writes some numbers in quotes, so
// text never counts.
func (v *Value) Number() (float64, bool) {
	return v.Float, v.Kind == Integer || v.Kind == Real
}

// describe is what to say after "found".
func (v *Value) describe() string {
	switch v.Kind {
	case Integer:
		return fmt.Sprint(v.Whole)
	case Real:
		return fmt.Sprint(v.Float)
	case Text:
		return fmt.Sprintf("the text %q", printable.Short(v.Text))
	}
	return "a list"
}

// parser builds the tree of keys and values.
type parser struct {
	lexer
	depth int
	pairs []Pair // of lists that aren't closed, those of each behind those of the one that it is in
}

// parseTree reads the whole text. Its error is a scenario.Problems with what is wrong first:
// after a bracket that is missing nothing means what it should.
func parseTree(file string, text []byte) ([]Pair, error) {
	p := &parser{lexer: lexer{file: file, rest: bytes.TrimPrefix(text, []byte("\ufeff")), line: 1, column: 1}}
	return p.list(Pair{})
}

// list reads pairs up to the bracket that closes the list of open, or, where that has no key, up to the end of the
// file.
func (p *parser) list(open Pair) ([]Pair, error) {
	if p.depth++; p.depth > depthMax {
		return nil, p.fault(token{line: open.Line, column: open.Column},
			fmt.Sprintf("lists nested more than %d deep", depthMax), "", "close the lists around it")
	}
	defer func() { p.depth-- }()
	begin, whole := len(p.pairs), open.Key == ""
	for {
		t, err := p.next()
		switch {
		case err != nil:
			return nil, err
		case t.kind == tokenEnd && whole, t.kind == tokenClose && !whole:
			list := slices.Clone(p.pairs[begin:])
			p.pairs = p.pairs[:begin]
			return list, nil
		case t.kind == tokenEnd:
			return nil, p.fault(t, p.describe(&t), fmt.Sprintf("] for the list%s that begins on line %d",
				p.quote(" "+printable.Short(open.Key), ""), open.Line), "is the file cut short?")
		case t.kind != tokenKey:
			return nil, p.fault(t, p.describe(&t), "a key", "")
		}
		pair := Pair{Key: t.text, Line: t.line, Column: t.column}
		if pair.Value, err = p.value(pair); err != nil {
			return nil, err
		}
		p.pairs = append(p.pairs, pair)
	}
}

// value reads what stands after a key.
func (p *parser) value(pair Pair) (v Value, err error) {
	t, err := p.next()
	if err != nil {
		return v, err
	}
	switch t.kind {
	case tokenInt:
		return Value{Kind: Integer, Whole: t.whole, Float: t.value}, nil
	case tokenReal:
		return Value{Kind: Real, Float: t.value}, nil
	case tokenString:
		return Value{Kind: Text, Text: t.text}, nil
	case tokenOpen:
		v.Kind = List
		p.isGraph = p.isGraph || p.depth == 1 && pair.Key == "graph"
		v.List, err = p.list(pair)
		return v, err
	}
	todo := ""
	if t.kind == tokenEnd {
		todo = "is the file cut short?"
	}
	return v, p.fault(t, p.describe(&t), fmt.Sprintf("the value of %s: a number, text in quotes or a list",
		p.quote(printable.Short(pair.Key), "the key before it")), todo)
}
