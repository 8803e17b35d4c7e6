// SPDX-License-Identifier: Apache-2.0

// Package plain plans once per type how values of it travel as bytes. Building the plan reads the type by reflection;
// encoding follows the plan, and decoding does too, but for the allocator of slices of slices. docs/format/value.md has
// the bytes and lists what can't travel.
//
// Guarantee: a fixed type (numbers, booleans, arrays and structs of them) is encoded and decoded without allocation,
// where there is room for its bytes, and what lies in padding never matters. Decode takes any bytes: it never reads
// beyond them, bounds every length by what is left before it allocates, and keeps none of them. What is decoded is
// encoded as the same bytes, where no AppendBinary has another opinion. The same source gives the same plan and the
// same Hash in every program. A Plan doesn't change: several goroutines may use it at once.
//
//	type Call struct { Arrived float64; Skill uint8 }
//
//	plan, err := plain.For[Call]()
//	bytes := plan.Append(nil, &call) // 9 of them
//	err = plan.Decode(&call, bytes)
//	plan.Text(bytes)                 // Call{Arrived: 3.2, Skill: 1}
package plain

import (
	"encoding"
	"reflect"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

// Plan is how values of T travel. The zero value isn't one: For makes them.
type Plan[T any] struct {
	layout
	whole  bool // a value's bytes are its memory
	prefix bool // a value's bytes are the first of its memory, and not many
	exact  bool // and any such bytes are a value: there are no booleans
}

// layout is what a plan has besides its type.
type layout struct {
	ops []op
	fixedProgram
	name  string
	hash  uint32
	size  int  // least bytes of a value
	fixed bool // all values have size bytes
	keeps bool // a method may keep the value's address: Append must not give it the caller's
	binds bool // the same of Decode
}

// kind is what an op does.
type kind uint8

const (
	opRun    kind = iota // bytes as they lie in memory
	opEach               // an array whose elements aren't one run
	opText               // a string
	opList               // a slice
	opBinary             // a value with methods of its own
)

// op is a step of a program that encodes or decodes one value.
type op struct {
	kind  kind
	flat  bool         // opList: an element's bytes are its memory
	at    uintptr      // where in memory, from the value's start
	bytes uintptr      // of memory: of the run, or of one element
	count int          // opEach: elements
	least int          // opEach, opList: fewest bytes of one element
	body  []op         // opEach, opList: program of one element
	slice reflect.Type // opList: the slice's type where its elements have pointers, else nil
	path  string       // for messages

	// opEach, opList: body once more where elements have fixed size; opRun: bools only.
	fixedProgram

	appender    encoding.BinaryAppender // opBinary: a nil pointer to the type, as these interfaces
	unmarshaler encoding.BinaryUnmarshaler
}

// fixedProgram encodes and decodes values that all have the same size. There are no moves where they haven't, or have
// none.
type fixedProgram struct {
	moves []move
	bools []span // in the bytes, but for those of elements, which have their own
}

// move is a step of a fixedProgram: a number, more bytes, or an array.
type move struct {
	at, wire uintptr // where in memory and in the bytes, from the value's start
	bytes    uintptr // 1, 2, 4, 8, more than moveMax; 0: each
	each     *op
}

// span is a boolean, or an array of them, in the bytes of a run or value.
type span struct {
	at, bytes uintptr
	path      string
}

// prefixMax is the largest size that is copied word by word.
const prefixMax = 64

// For plans how values of T travel. The error says which field can't, why, and what to write instead. It is meant for
// when a model is built, not for a run's events.
func For[T any]() (*Plan[T], error) {
	l, err := plan(reflect.TypeFor[T]())
	if err != nil {
		return nil, err
	}
	p := &Plan[T]{layout: l}
	p.whole = covers(l.ops, reflect.TypeFor[T]().Size())
	p.exact = p.whole && l.bools == nil
	p.prefix = !p.whole && l.moves != nil && l.size <= prefixMax && covers(l.ops, uintptr(l.size)) && l.ops[0].at == 0
	return p, nil
}

// Size is the number of bytes that every value has, or, where not all have the same (fixed is false), the least.
func (p *Plan[T]) Size() (n int, fixed bool) { return p.size, p.fixed }

// Hash recognises the type among those of a run: it depends on its package's name, its own, and what it is made of. It
// is the same in every program of the same source, whatever its module is called. Two types may have the same.
func (p *Plan[T]) Hash() uint32 { return p.hash }

// String is the type's name, for messages.
func (p *Plan[T]) String() string { return p.name }

// hashOf is the Hash of a type that is written as text in full.
func hashOf(text string) uint32 { return uint32(xxhash.Sum64String(text)) }

// short cuts a text for messages, between two characters.
func short(text string) string {
	if len(text) <= textMax {
		return text
	}
	n := textMax
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
