// SPDX-License-Identifier: Apache-2.0

package plain

import (
	"encoding"
	"fmt"
	"math/bits"
	"reflect"
	"slices"
	"strings"
)

const (
	sizeMax   = 1 << 30 // least bytes of a value: what an event can carry
	depthMax  = 64      // of types in types
	moveMax   = 32      // bytes that are moved number by number: in more steps that takes longer than a call
	memoryMax = 256     // memory of a slice's element, in its least bytes, so that a length can't ask for much
)

var (
	appenderType    = reflect.TypeFor[encoding.BinaryAppender]()
	unmarshalerType = reflect.TypeFor[encoding.BinaryUnmarshaler]()
)

const hasAddress = "an address means nothing at another node: write the value itself, for a number uint64"

// instead says why a kind of type can't travel, and what to write.
var instead = map[reflect.Kind]string{
	reflect.Map: "a map has no order: write a slice of structs with key and value, in an order of yours, or give " +
		"a type of your own AppendBinary and UnmarshalBinary",
	reflect.Pointer: "an address means nothing at another node: write the value itself, a slice of none or one, or " +
		"its number in a table",
	reflect.Interface: "what it holds isn't known before the run: write a struct with the fields of all cases and a " +
		"number that says which it is",
	reflect.Func:          "code stays where it is: write what the other node needs to decide what to do",
	reflect.Chan:          "nodes share nothing: send an event instead",
	reflect.Uintptr:       hasAddress,
	reflect.UnsafePointer: hasAddress,
}

// planner makes the plan of one type.
type planner struct {
	text  strings.Builder // the type in full, for the hash
	types []reflect.Type  // that are being planned, each in the one before
	keeps bool
}

// plan reads a type.
func plan(t reflect.Type) (layout, error) {
	name := t.Name()
	if name == "" {
		name = t.String()
	}
	b := &planner{}
	b.text.WriteString(nameOf(t) + " ")
	ops, err := b.add(nil, t, 0, name)
	if err != nil {
		return layout{}, err
	}
	size := leastOf(ops)
	if size > sizeMax {
		return layout{}, refuse(name, t, fmt.Sprintf("it has %d bytes, at most %d fit in an event", size, sizeMax))
	}
	return layout{ops, fixedOf(ops), name, hashOf(b.text.String()), size, isFixed(ops), b.keeps, hasBinary(ops)}, nil
}

// nameOf is the name of a type that is the same in every program with it: with its package's name, because the path of
// package main is "main" in a command and the module's in a test of it; and what is in brackets, which reflection gives
// with paths, with no package. Types of functions lose the numbers that tell them apart.
func nameOf(t reflect.Type) string {
	var out strings.Builder
	text, depth, word := t.String(), 0, 0 // word: where the word begins that is being read
	flush := func(end int) {
		w := text[word:end]
		if depth > 0 {
			w = w[strings.LastIndexByte(w, '.')+1:]
		}
		w, _, _ = strings.Cut(w, "·")
		out.WriteString(w)
	}
	for i := range len(text) {
		c := text[i]
		if !strings.ContainsRune("[]{}(),;* ", rune(c)) {
			continue
		}
		flush(i)
		out.WriteByte(c)
		word = i + 1
		switch c {
		case '[':
			depth++
		case ']':
			depth--
		}
	}
	flush(len(text))
	return out.String()
}

func refuse(path string, t reflect.Type, why string) error {
	return fmt.Errorf("%s: %s can't travel: %s", path, t, why)
}

// add appends the steps for a value of type t that lies at an offset.
func (b *planner) add(ops []op, t reflect.Type, at uintptr, path string) ([]op, error) {
	p := reflect.PointerTo(t)
	if p.Implements(appenderType) && p.Implements(unmarshalerType) {
		return b.addBinary(ops, t, at, path)
	}
	if why := instead[t.Kind()]; why != "" {
		return nil, refuse(path, t, why)
	}
	if slices.Contains(b.types, t) {
		return nil, refuse(path, t, "it contains itself: write a slice of structs that refer to each other by number")
	}
	if len(b.types) == depthMax {
		return nil, refuse(path, t, fmt.Sprintf("it is more than %d types deep", depthMax))
	}
	b.types = append(b.types, t)
	defer func() { b.types = b.types[:len(b.types)-1] }()
	switch t.Kind() {
	case reflect.Struct:
		return b.addStruct(ops, t, at, path)
	case reflect.Array:
		return b.addArray(ops, t, at, path)
	case reflect.Slice:
		return b.addList(ops, t, at, path)
	}
	b.text.WriteString(t.Kind().String())
	switch t.Kind() {
	case reflect.String:
		return append(ops, op{kind: opText, at: at, path: path}), nil
	case reflect.Bool:
		return addRun(ops, at, 1, []span{{0, 1, path}}, path), nil
	}
	return addRun(ops, at, t.Size(), nil, path), nil
}

// addRun appends memory, or makes the last run longer where it ends there.
func addRun(ops []op, at, bytes uintptr, bools []span, path string) []op {
	last := len(ops) - 1
	if last < 0 || ops[last].kind != opRun || ops[last].at+ops[last].bytes != at {
		return append(ops, op{kind: opRun, at: at, bytes: bytes, path: path, fixedProgram: fixedProgram{nil, bools}})
	}
	run := &ops[last]
	for _, s := range bools {
		s.at += run.bytes
		run.bools = append(run.bools, s)
	}
	run.bytes += bytes
	return ops
}

func (b *planner) addStruct(ops []op, t reflect.Type, at uintptr, path string) ([]op, error) {
	b.text.WriteByte('{')
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Name == "_" {
			continue
		}
		b.text.WriteString(f.Name + " ")
		var err error
		if ops, err = b.add(ops, f.Type, at+f.Offset, path+"."+f.Name); err != nil {
			return nil, err
		}
		b.text.WriteByte(';')
	}
	b.text.WriteByte('}')
	return ops, nil
}

func (b *planner) addArray(ops []op, t reflect.Type, at uintptr, path string) ([]op, error) {
	fmt.Fprintf(&b.text, "[%d]", t.Len())
	if t.Len() == 0 {
		return ops, nil
	}
	elem := t.Elem()
	body, err := b.add(nil, elem, 0, path+"[]")
	least := leastOf(body)
	switch {
	case err != nil || len(body) == 0:
		return ops, err
	case covers(body, elem.Size()) && len(body[0].bools) == 0:
		return addRun(ops, at, t.Size(), nil, path), nil
	case covers(body, elem.Size()) && body[0].bools[0].bytes == elem.Size():
		return addRun(ops, at, t.Size(), []span{{0, t.Size(), path}}, path), nil
	case t.Len() > sizeMax/least:
		return nil, refuse(path, t, fmt.Sprintf("it has more than %d bytes, which don't fit in an event", sizeMax))
	}
	return append(ops, op{kind: opEach, at: at, bytes: elem.Size(), count: t.Len(), body: body, least: least,
		path: path, fixedProgram: fixedOf(body)}), nil
}

func (b *planner) addList(ops []op, t reflect.Type, at uintptr, path string) ([]op, error) {
	b.text.WriteString("[]")
	elem := t.Elem()
	body, err := b.add(nil, elem, 0, path+"[]")
	if err != nil {
		return nil, err
	}
	least := leastOf(body)
	switch {
	case least == 0:
		return nil, refuse(path, t, "its elements have nothing to send: write their number as an int")
	case least > sizeMax:
		return nil, refuse(path, t, fmt.Sprintf("an element has %d bytes, at most %d fit in an event", least, sizeMax))
	case elem.Size() > memoryMax*uintptr(least):
		return nil, refuse(path, t, fmt.Sprintf("an element takes %d bytes of memory and may have only %d to send, "+
			"and at most %d times as much is allowed: write an array, or leave out what isn't sent", elem.Size(), least,
			memoryMax))
	}
	o := op{kind: opList, at: at, bytes: elem.Size(), body: body, least: least, path: path,
		flat: covers(body, elem.Size()), fixedProgram: fixedOf(body)}
	if hasPointers(elem) {
		o.slice = t
	}
	return append(ops, o), nil
}

// addBinary is for types with methods of their own.
func (b *planner) addBinary(ops []op, t reflect.Type, at uintptr, path string) ([]op, error) {
	if f, ok := promoted(t); ok {
		return nil, refuse(path, t, fmt.Sprintf("the AppendBinary or UnmarshalBinary of its embedded field %s would "+
			"leave out the others: give that field a name of its own", f))
	}
	b.text.WriteString("binary " + nameOf(t))
	b.keeps = b.keeps || !t.Implements(appenderType)
	zero := reflect.Zero(reflect.PointerTo(t)).Interface()
	return append(ops, op{kind: opBinary, at: at, path: path, appender: zero.(encoding.BinaryAppender),
		unmarshaler: zero.(encoding.BinaryUnmarshaler)}), nil
}

// promoted finds an embedded field with one of the methods in a struct that has others beside it. The struct may have
// the method itself, which can't be seen; a name for the field makes it clear.
func promoted(t reflect.Type) (field string, ok bool) {
	if t.Kind() != reflect.Struct || t.NumField() == 1 {
		return "", false
	}
	for i := range t.NumField() {
		f := t.Field(i)
		p := reflect.PointerTo(f.Type)
		if f.Anonymous && (f.Type.Implements(appenderType) || f.Type.Implements(unmarshalerType) ||
			p.Implements(appenderType) || p.Implements(unmarshalerType)) {
			return f.Name, true
		}
	}
	return "", false
}

// covers reports whether a program is one run of all the memory of a value.
func covers(ops []op, bytes uintptr) bool {
	return len(ops) == 1 && ops[0].kind == opRun && ops[0].bytes == bytes
}

// leastOf is the fewest bytes that a program writes.
func leastOf(ops []op) (n int) {
	for i := range ops {
		switch o := &ops[i]; o.kind {
		case opRun:
			n += int(o.bytes)
		case opEach:
			n += o.count * o.least
		default:
			n += lengthBytes
		}
	}
	return n
}

// isFixed reports whether a program writes the same number of bytes always.
func isFixed(ops []op) bool {
	return !slices.ContainsFunc(ops, func(o op) bool {
		return o.kind != opRun && (o.kind != opEach || !isFixed(o.body))
	})
}

// fixedOf gives the moves of a program, none where it isn't fixed.
func fixedOf(ops []op) (f fixedProgram) {
	if !isFixed(ops) {
		return f
	}
	wire := uintptr(0)
	for i := range ops {
		o := &ops[i]
		if o.kind == opEach {
			f.moves = append(f.moves, move{at: o.at, wire: wire, each: o})
			wire += uintptr(o.count * o.least)
			continue
		}
		for _, s := range o.bools {
			s.at += wire
			f.bools = append(f.bools, s)
		}
		for done := uintptr(0); done < o.bytes; {
			n := moveBytes(o.bytes - done)
			f.moves = append(f.moves, move{at: o.at + done, wire: wire, bytes: n})
			done, wire = done+n, wire+n
		}
	}
	return f
}

// moveBytes is how much of so many bytes to move in one step.
func moveBytes(n uintptr) uintptr {
	if n > moveMax {
		return n
	}
	return 1 << min(bits.Len(uint(n))-1, 3)
}

// hasBinary reports whether a program calls methods.
func hasBinary(ops []op) bool {
	return slices.ContainsFunc(ops, func(o op) bool { return o.kind == opBinary || hasBinary(o.body) })
}

// hasPointers reports whether the garbage collector looks into values of a type.
func hasPointers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return t.Len() > 0 && hasPointers(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if hasPointers(t.Field(i).Type) {
				return true
			}
		}
		return false
	}
	return t.Kind() > reflect.Array
}
