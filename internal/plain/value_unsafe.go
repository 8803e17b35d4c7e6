// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || arm64

package plain

import (
	"reflect"
	"slices"
	"unsafe"
)

// What is here takes memory for bytes: numbers are little endian, and int has 8 bytes. On other machines the package
// doesn't compile.

// Append appends the bytes of a value. For a fixed type it can't fail, and allocates only where dst has no room for
// them. Otherwise it panics with an error where a string or slice has more than 4,294,967,295 bytes or elements, or
// an AppendBinary fails.
func (p *Plan[T]) Append(dst []byte, v *T) []byte {
	n := len(dst)
	if p.whole && cap(dst)-n >= int(unsafe.Sizeof(*v)) {
		dst = dst[:n+int(unsafe.Sizeof(*v))]
		*(*T)(unsafe.Pointer(&dst[n])) = *v
		return dst
	}
	if p.prefix && cap(dst)-n >= p.size {
		dst = dst[:n+p.size]
		copyPrefix(unsafe.Pointer(&dst[n]), unsafe.Pointer(v), p.size)
		return dst
	}
	if p.moves != nil && cap(dst)-n >= p.size {
		dst = dst[:n+p.size]
		store(unsafe.Pointer(&dst[n]), unsafe.Pointer(v), p.moves)
		return dst
	}
	return p.append(dst, v)
}

// Decode reads a value from its bytes, which must be all of src. All fields but those named _ are set, empty slices
// to nil. After an error v holds anything. It allocates what strings, slices and UnmarshalBinary need.
func (p *Plan[T]) Decode(v *T, src []byte) error {
	if p.exact && len(src) == int(unsafe.Sizeof(*v)) {
		*v = *(*T)(unsafe.Pointer(unsafe.SliceData(src)))
		return nil
	}
	if p.prefix && len(src) == p.size && p.bools == nil {
		copyPrefix(unsafe.Pointer(v), unsafe.Pointer(unsafe.SliceData(src)), p.size)
		return nil
	}
	if p.moves != nil && len(src) == p.size {
		return badBool(load(unsafe.Pointer(v), unsafe.Pointer(unsafe.SliceData(src)), &p.fixedProgram))
	}
	return p.decode(v, src)
}

// append is Append for all types.
func (p *Plan[T]) append(dst []byte, v *T) []byte {
	if p.keeps {
		kept := new(T)
		*kept = *v
		v = kept
	}
	return p.layout.append(dst, unsafe.Pointer(v))
}

// decode is Decode for all types.
func (p *Plan[T]) decode(v *T, src []byte) error {
	if p.binds {
		bound := new(T)
		err := p.layout.decode(unsafe.Pointer(bound), src)
		*v = *bound
		return err
	}
	return p.layout.decode(unsafe.Pointer(v), src)
}

// append appends the value at an address.
func (l *layout) append(dst []byte, v unsafe.Pointer) []byte {
	if l.moves == nil {
		return appendValue(dst, v, l.ops)
	}
	n := len(dst)
	dst = slices.Grow(dst, l.size)[:n+l.size]
	store(unsafe.Pointer(&dst[n]), v, l.moves)
	return dst
}

// decode sets the value at an address.
func (l *layout) decode(v unsafe.Pointer, src []byte) error {
	if l.fixed && len(src) != l.size {
		return wrongSize(l, len(src))
	}
	if l.moves != nil {
		return badBool(load(v, unsafe.Pointer(unsafe.SliceData(src)), &l.fixedProgram))
	}
	rest, err := decodeValue(v, src, l.ops)
	if err == nil && len(rest) > 0 {
		err = leftOver(l, len(src), len(rest))
	}
	return err
}

// copyPrefix copies the first bytes of a value, in words of 8 as its fields were mostly written: one move of
// another size would wait for them to be in the cache.
func copyPrefix(to, from unsafe.Pointer, size int) {
	n := uintptr(0)
	for ; n+8 <= uintptr(size); n += 8 {
		*(*uint64)(unsafe.Add(to, n)) = *(*uint64)(unsafe.Add(from, n))
	}
	if size&4 != 0 {
		*(*uint32)(unsafe.Add(to, n)) = *(*uint32)(unsafe.Add(from, n))
		n += 4
	}
	if size&2 != 0 {
		*(*uint16)(unsafe.Add(to, n)) = *(*uint16)(unsafe.Add(from, n))
		n += 2
	}
	if size&1 != 0 {
		*(*uint8)(unsafe.Add(to, n)) = *(*uint8)(unsafe.Add(from, n))
	}
}

// store writes a value of fixed size to where there is room for it.
func store(dst, v unsafe.Pointer, moves []move) {
	for i := range moves {
		m := &moves[i]
		to, from := unsafe.Add(dst, m.wire), unsafe.Add(v, m.at)
		switch m.bytes {
		case 8:
			*(*uint64)(to) = *(*uint64)(from)
		case 4:
			*(*uint32)(to) = *(*uint32)(from)
		case 2:
			*(*uint16)(to) = *(*uint16)(from)
		case 1:
			*(*uint8)(to) = *(*uint8)(from)
		case 0:
			for k := range m.each.count {
				store(unsafe.Add(to, k*m.each.least), unsafe.Add(from, uintptr(k)*m.each.bytes), m.each.moves)
			}
		default:
			copy(unsafe.Slice((*byte)(to), m.bytes), unsafe.Slice((*byte)(from), m.bytes))
		}
	}
}

// load sets a value of fixed size from its bytes, unless a boolean isn't one.
func load(v, src unsafe.Pointer, f *fixedProgram) (bad *span) {
	if f.bools != nil {
		if bad = notBool(src, f.bools); bad != nil {
			return bad
		}
	}
	for i := range f.moves {
		m := &f.moves[i]
		to, from := unsafe.Add(v, m.at), unsafe.Add(src, m.wire)
		switch m.bytes {
		case 8:
			*(*uint64)(to) = *(*uint64)(from)
		case 4:
			*(*uint32)(to) = *(*uint32)(from)
		case 2:
			*(*uint16)(to) = *(*uint16)(from)
		case 1:
			*(*uint8)(to) = *(*uint8)(from)
		case 0:
			o := m.each
			for k := range o.count {
				bad = load(unsafe.Add(to, uintptr(k)*o.bytes), unsafe.Add(from, k*o.least), &o.fixedProgram)
				if bad != nil {
					return bad
				}
			}
		default:
			copy(unsafe.Slice((*byte)(to), m.bytes), unsafe.Slice((*byte)(from), m.bytes))
		}
	}
	return nil
}

// notBool finds booleans in a value's bytes that are neither 0 nor 1, nil for none.
func notBool(src unsafe.Pointer, bools []span) *span {
	for i := range bools {
		s := &bools[i]
		for _, b := range unsafe.Slice((*byte)(unsafe.Add(src, s.at)), s.bytes) {
			if b > 1 {
				return s
			}
		}
	}
	return nil
}

// appendValue appends a value of any size.
func appendValue(dst []byte, v unsafe.Pointer, ops []op) []byte {
	for i := range ops {
		o := &ops[i]
		from := unsafe.Add(v, o.at)
		switch o.kind {
		case opRun:
			dst = append(dst, unsafe.Slice((*byte)(from), o.bytes)...)
		case opEach:
			dst = appendElements(dst, from, o.count, o)
		case opText:
			text := *(*string)(from)
			dst = append(appendLength(dst, len(text), o), text...)
		case opList:
			list := (*list)(from)
			dst = appendElements(appendLength(dst, list.len, o), list.data, list.len, o)
		case opBinary:
			dst = appendBinary(dst, withAddress(o.appender, from), o)
		}
	}
	return dst
}

// appendElements appends n elements of an array or slice.
func appendElements(dst []byte, first unsafe.Pointer, n int, o *op) []byte {
	if n == 0 {
		return dst // there may be no memory
	}
	if o.flat {
		return append(dst, unsafe.Slice((*byte)(first), uintptr(n)*o.bytes)...)
	}
	if o.moves == nil {
		for k := range uintptr(n) {
			dst = appendValue(dst, unsafe.Add(first, k*o.bytes), o.body)
		}
		return dst
	}
	at := len(dst)
	dst = slices.Grow(dst, n*o.least)[:at+n*o.least]
	for k := range uintptr(n) {
		store(unsafe.Pointer(&dst[at]), unsafe.Add(first, k*o.bytes), o.moves)
		at += o.least
	}
	return dst
}

// decodeValue sets a value of any size and returns the rest of src.
func decodeValue(v unsafe.Pointer, src []byte, ops []op) (rest []byte, err error) {
	for i := range ops {
		o := &ops[i]
		to := unsafe.Add(v, o.at)
		switch o.kind {
		case opRun:
			if uintptr(len(src)) < o.bytes {
				return nil, tooShort(o, int(o.bytes), len(src))
			}
			if bad := notBool(unsafe.Pointer(unsafe.SliceData(src)), o.bools); bad != nil {
				return nil, badBool(bad)
			}
			copy(unsafe.Slice((*byte)(to), o.bytes), src)
			src = src[o.bytes:]
		case opEach:
			if len(src)/o.count < o.least {
				return nil, tooShort(o, o.count*o.least, len(src))
			}
			src, err = decodeElements(to, o.count, src, o)
		case opText:
			var text []byte
			if text, src, err = takeBytes(src, o); err == nil {
				*(*string)(to) = string(text)
			}
		case opList:
			src, err = decodeList((*list)(to), src, o)
		case opBinary:
			var own []byte
			if own, src, err = takeBytes(src, o); err == nil {
				err = decodeBinary(withAddress(o.unmarshaler, to), own, o)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return src, nil
}

// decodeElements sets n elements, for which src has their least bytes.
func decodeElements(first unsafe.Pointer, n int, src []byte, o *op) (rest []byte, err error) {
	if o.moves == nil {
		for k := range uintptr(n) {
			if src, err = decodeValue(unsafe.Add(first, k*o.bytes), src, o.body); err != nil {
				return nil, err
			}
		}
		return src, nil
	}
	if o.flat && o.bools == nil {
		size := n * o.least
		copy(unsafe.Slice((*byte)(first), size), src)
		return src[size:], nil
	}
	for k := range uintptr(n) {
		bad := load(unsafe.Add(first, k*o.bytes), unsafe.Pointer(unsafe.SliceData(src)), &o.fixedProgram)
		if bad != nil {
			return nil, badBool(bad)
		}
		src = src[o.least:]
	}
	return src, nil
}

// list is how a slice lies in memory.
type list struct {
	data     unsafe.Pointer
	len, cap int
}

// decodeList makes a slice of its own for what src begins with.
func decodeList(to *list, src []byte, o *op) (rest []byte, err error) {
	n, src, err := takeLength(src, o.least, o)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		*to = list{}
		return src, nil
	}
	data := newElements(n, o)
	*to = list{data, n, n}
	return decodeElements(data, n, src, o)
}

// newElements allocates n elements of zeros. Those without pointers are words, which are aligned for every type.
func newElements(n int, o *op) unsafe.Pointer {
	if o.slice == nil {
		const word = unsafe.Sizeof(uint64(0))
		return unsafe.Pointer(unsafe.SliceData(make([]uint64, (uintptr(n)*o.bytes+word-1)/word)))
	}
	if o.slice.Elem().Kind() == reflect.String {
		return unsafe.Pointer(unsafe.SliceData(make([]string, n)))
	}
	return reflect.MakeSlice(o.slice, n, n).UnsafePointer()
}

// withAddress gives a method's interface, which holds a pointer, another pointer of the same type. The escape
// analysis doesn't see the address go there: where the method may keep it, it is that of a copy on the heap
// (layout.keeps).
func withAddress[I any](method I, v unsafe.Pointer) I {
	type words struct{ table, data unsafe.Pointer }
	hidden := uintptr(v)
	(*words)(unsafe.Pointer(&method)).data = *(*unsafe.Pointer)(unsafe.Pointer(&hidden))
	return method
}
