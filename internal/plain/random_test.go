// SPDX-License-Identifier: Apache-2.0

package plain

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/disco-sim/disco/internal/seed"
)

// reference encodes a value as docs/format/value.md says, by reflection.
func reference(dst []byte, v reflect.Value) []byte {
	le := binary.LittleEndian
	v = reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem() // fields that aren't exported, too
	a, appends := v.Addr().Interface().(encoding.BinaryAppender)
	if _, ok := v.Addr().Interface().(encoding.BinaryUnmarshaler); ok && appends {
		text, _ := a.AppendBinary(nil)
		return append(le.AppendUint32(dst, uint32(len(text))), text...)
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "_" {
				dst = reference(dst, v.Field(i))
			}
		}
	case reflect.Slice:
		dst = le.AppendUint32(dst, uint32(v.Len()))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			dst = reference(dst, v.Index(i))
		}
	case reflect.String:
		dst = append(le.AppendUint32(dst, uint32(v.Len())), v.String()...)
	case reflect.Int, reflect.Int64:
		dst = le.AppendUint64(dst, uint64(v.Int()))
	case reflect.Uint, reflect.Uint64:
		dst = le.AppendUint64(dst, v.Uint())
	case reflect.Int8, reflect.Int16, reflect.Int32:
		dst = append(dst, le.AppendUint64(nil, uint64(v.Int()))[:v.Type().Size()]...)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		dst = append(dst, le.AppendUint64(nil, v.Uint())[:v.Type().Size()]...)
	case reflect.Bool:
		b := byte(0)
		if v.Bool() {
			b = 1
		}
		dst = append(dst, b)
	case reflect.Float32, reflect.Complex64:
		// By words, because reflection makes a signalling NaN of 32 bits a quiet one.
		for _, w := range unsafe.Slice((*uint32)(v.Addr().UnsafePointer()), v.Type().Size()/4) {
			dst = le.AppendUint32(dst, w)
		}
	case reflect.Float64:
		dst = le.AppendUint64(dst, math.Float64bits(v.Float()))
	case reflect.Complex128:
		dst = le.AppendUint64(dst, math.Float64bits(real(v.Complex())))
		dst = le.AppendUint64(dst, math.Float64bits(imag(v.Complex())))
	default:
		panic(v.Kind().String())
	}
	return dst
}

var basic = []reflect.Type{
	reflect.TypeFor[bool](), reflect.TypeFor[int8](), reflect.TypeFor[uint8](), reflect.TypeFor[int16](),
	reflect.TypeFor[uint16](), reflect.TypeFor[int32](), reflect.TypeFor[uint32](), reflect.TypeFor[int64](),
	reflect.TypeFor[uint64](), reflect.TypeFor[int](), reflect.TypeFor[uint](), reflect.TypeFor[float32](),
	reflect.TypeFor[float64](), reflect.TypeFor[complex64](), reflect.TypeFor[complex128](),
}

// randomType makes a type; one of fixed size where varies is false.
func randomType(rng *rand.Rand, depth int, varies bool) reflect.Type {
	n := 10
	if depth == 0 {
		n = 5
	}
	switch k := rng.IntN(n); {
	case k < 4:
		return basic[rng.IntN(len(basic))]
	case k == 4 && varies:
		return reflect.TypeFor[string]()
	case k == 5 && varies:
		return reflect.SliceOf(randomType(rng, depth-1, varies))
	case k <= 6 && depth > 0:
		return reflect.ArrayOf(rng.IntN(4), randomType(rng, depth-1, varies))
	case depth == 0:
		return reflect.TypeFor[bool]()
	}
	fields := make([]reflect.StructField, rng.IntN(6))
	for i := range fields {
		f := &fields[i]
		f.Type = randomType(rng, depth-1, varies)
		switch f.Name = fmt.Sprintf("F%d", i); rng.IntN(5) {
		case 0:
			f.Name, f.PkgPath = fmt.Sprintf("f%d", i), "example.com/x"
		case 1:
			f.Name, f.PkgPath = "_", "example.com/x"
		}
	}
	return reflect.StructOf(fields)
}

// fill sets what travels of a value, and notes which bytes of its memory these are, from base on.
func fill(rng *rand.Rand, v reflect.Value, sends []bool, base uintptr) {
	at := v.Addr().Pointer() - base
	set := func() {
		for i := range v.Type().Size() {
			sends[at+i] = true
		}
	}
	v = reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem()
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "_" {
				fill(rng, v.Field(i), sends, base)
			} else if f := v.Field(i); hasPointers(f.Type()) {
				for i := range f.Type().Size() {
					sends[f.Addr().Pointer()-base+i] = true // the collector looks at it
				}
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(rng, v.Index(i), sends, base)
		}
	case reflect.String:
		text := make([]byte, rng.IntN(5))
		for i := range text {
			text[i] = byte(rng.Uint32())
		}
		v.SetString(string(text))
		set()
	case reflect.Slice:
		n := rng.IntN(4)
		v.Set(reflect.MakeSlice(v.Type(), n, n+rng.IntN(2)))
		if n > 0 {
			fillElements(rng, v)
		}
		set()
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 1)
		set()
	default:
		for i := range v.Type().Size() {
			*(*byte)(unsafe.Add(v.Addr().UnsafePointer(), i)) = byte(rng.Uint32())
		}
		set()
	}
}

// fillElements fills a slice and puts garbage between what its elements send.
func fillElements(rng *rand.Rand, v reflect.Value) {
	size := v.Type().Elem().Size() * uintptr(v.Len())
	sends := make([]bool, size)
	for i := range v.Len() {
		fill(rng, v.Index(i), sends, v.Pointer())
	}
	garbage(rng, v.UnsafePointer(), sends)
}

// garbage overwrites what isn't sent.
func garbage(rng *rand.Rand, memory unsafe.Pointer, sends []bool) {
	for i, s := range sends {
		if !s {
			*(*byte)(unsafe.Add(memory, i)) = byte(rng.Uint32())
		}
	}
}

// randomValue makes a value with garbage in its padding and blank fields.
func randomValue(rng *rand.Rand, t reflect.Type) reflect.Value {
	v := reflect.New(t)
	sends := make([]bool, t.Size())
	fill(rng, v.Elem(), sends, v.Pointer())
	garbage(rng, v.UnsafePointer(), sends)
	return v
}

// Random types, most with padding, blank fields, and fields without size: what is encoded is what the reference says,
// garbage in the padding makes no difference, and what comes back is the same.
func TestRandomTypes(t *testing.T) {
	rng := seed.Rand(t)
	types, fixed, refused := 0, 0, 0
	for types < 3000 {
		typ := randomType(rng, 4, rng.IntN(8) > 0)
		l, err := plan(typ)
		if err != nil {
			if !strings.Contains(err.Error(), "nothing to send") {
				t.Fatalf("%s: %v", typ, err)
			}
			refused++
			continue
		}
		types++
		if l.fixed {
			fixed++
		}
		for range 3 {
			checkRandom(t, rng, typ, &l)
		}
	}
	if fixed < types/4 || fixed > types*3/4 || refused > types {
		t.Errorf("of %d types %d have fixed size; %d were refused", types, fixed, refused)
	}
}

func checkRandom(t *testing.T, rng *rand.Rand, typ reflect.Type, l *layout) {
	v := randomValue(rng, typ)
	want := reference(nil, v.Elem())
	got := l.append(nil, v.UnsafePointer())
	if !bytes.Equal(got, want) {
		t.Fatalf("%s: encoded as\n%x, want\n%x", typ, got, want)
	}
	if l.fixed != (isFixed(l.ops)) || l.fixed && l.size != len(got) || l.size > len(got) {
		t.Fatalf("%s: size %d, fixed %v, and a value has %d bytes", typ, l.size, l.fixed, len(got))
	}
	back := randomValue(rng, typ) // what was there before makes no difference
	if err := l.decode(back.UnsafePointer(), got); err != nil {
		t.Fatalf("%s: %v of %x", typ, err, got)
	}
	clear(got)
	if again := l.append(nil, back.UnsafePointer()); !bytes.Equal(again, want) {
		t.Fatalf("%s: came back as\n%x, want\n%x", typ, again, want)
	}
	if err := l.decode(back.UnsafePointer(), append(want, 0)); err == nil {
		t.Fatalf("%s: a byte behind the value is accepted", typ)
	}
	if n := len(want); n > 0 {
		n = rng.IntN(n)
		if err := l.decode(back.UnsafePointer(), want[:n]); err == nil {
			t.Fatalf("%s: %d of %d bytes are accepted: %x", typ, n, len(want), want)
		}
		want[n] ^= 1 << rng.IntN(8)
		if err := l.decode(back.UnsafePointer(), want); err == nil {
			if again := l.append(nil, back.UnsafePointer()); !bytes.Equal(again, want) {
				t.Fatalf("%s: accepted\n%x, which is\n%x", typ, want, again)
			}
		}
	}
}

// Padding in memory that generic code copies as a whole type.
func TestGarbageInPadding(t *testing.T) {
	rng := seed.Rand(t)
	samePadded[Call](t, rng)
	samePadded[blanks](t, rng)
	samePadded[everything](t, rng)
	samePadded[flags](t, rng)
	samePadded[customer](t, rng)
	samePadded[[]Call](t, rng)
	samePadded[[3]Call](t, rng)
}

func samePadded[T any](t *testing.T, rng *rand.Rand) {
	t.Helper()
	p := must[T](t)
	for range 50 {
		a := randomValue(rng, reflect.TypeFor[T]()).Interface().(*T)
		bytesOfA := p.Append(nil, a)
		b := randomValue(rng, reflect.TypeFor[T]()).Interface().(*T) // other garbage
		if err := p.Decode(b, bytesOfA); err != nil {
			t.Fatal(err)
		}
		if got := p.Append(nil, b); !bytes.Equal(got, bytesOfA) {
			t.Fatalf("%s: equal values are\n%x and\n%x", p, bytesOfA, got)
		}
	}
}

// A length that what is left can't have is refused before memory is asked for.
func TestHostileLengths(t *testing.T) {
	hostile[string](t)
	hostile[[]byte](t)
	hostile[[]bool](t)
	hostile[[]Call](t)
	hostile[[]string](t)
	hostile[[][]byte](t)
	hostile[[][]byte](t, 1, 0, 0, 0)
	hostile[customer](t)
	hostile[customer](t, 0, 0, 0, 0)
	hostile[customer](t, append([]byte{0, 0, 0, 0, 1, 0, 0, 0}, make([]byte, 26)...)...)
	hostile[withMethods](t)
	hostile[counted](t)
	hostile[[2]string](t)
}

// hostile decodes a huge length behind some bytes, and in front of some.
func hostile[T any](t *testing.T, before ...byte) {
	t.Helper()
	p := must[T](t)
	for _, length := range []uint32{math.MaxUint32, 1 << 31, 1<<31 - 1, 1 << 24, 101} {
		src := append(binary.LittleEndian.AppendUint32(slices.Clone(before), length), make([]byte, 100)...)
		var v T
		var from, to runtime.MemStats
		runtime.ReadMemStats(&from)
		err := p.Decode(&v, src)
		runtime.ReadMemStats(&to)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("found the length %d, at most", length)) {
			t.Errorf("%s: a length of %d in front of 100 bytes: %v", p, length, err)
		}
		if n := to.TotalAlloc - from.TotalAlloc; n > 1<<18 {
			t.Errorf("%s: refusing a length of %d took %d bytes of memory", p, length, n)
		}
	}
}

// Fixed types don't allocate, also those whose values the caller has on its stack.
func TestFixedTypesDontAllocate(t *testing.T) {
	noAllocs(t, Call{1, 2})
	noAllocs(t, whole24{1, 2, 3, 4})
	noAllocs(t, everything{A: true})
	noAllocs(t, [300]uint16{7})
	noAllocs(t, [3]Call{{1, 2}})
	noAllocs(t, flags{A: true})
	noAllocs(t, struct{}{})
	noAllocs(t, true)
}

func noAllocs[T any](t *testing.T, v T) {
	t.Helper()
	p := must[T](t)
	buf := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() {
		own := v
		buf = p.Append(buf[:0], &own)
		var back T
		if err := p.Decode(&back, buf); err != nil {
			t.Fatal(err)
		}
		if err := p.Decode(&v, buf); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%s: %v allocations for encoding and decoding a value", p, n)
	}
}

// The bytes may lie anywhere: at odd addresses, and at the end of their memory.
func TestAnyAddress(t *testing.T) {
	p, q := must[whole24](t), must[Call](t)
	for shift := range 9 {
		buf := make([]byte, shift, shift+24)
		v := whole24{1, 2, 3, 4}
		out := p.Append(buf, &v)
		if &out[:1:1][0] != &buf[:1:1][0] {
			t.Error("moved although there was room")
		}
		var back whole24
		if err := p.Decode(&back, out[shift:]); err != nil || back != v {
			t.Errorf("shift %d: %v %v", shift, back, err)
		}
		c := Call{5, 6}
		out = q.Append(make([]byte, shift, shift+9), &c)
		var d Call
		if err := q.Decode(&d, out[shift:]); err != nil || c != d {
			t.Errorf("shift %d: %v %v", shift, d, err)
		}
	}
}

func TestBools(t *testing.T) {
	refuses := func(err error, path string) {
		t.Helper()
		if err == nil || !strings.HasPrefix(err.Error(), path+": found a bool") {
			t.Errorf("got %v, want an error of %s", err, path)
		}
	}
	var f flags
	p := must[flags](t)
	refuses(p.Decode(&f, []byte{2, 0, 9, 0, 0, 0}), "flags.A")
	refuses(p.Decode(&f, []byte{1, 255, 9, 0, 0, 0}), "flags.B")
	refuses(p.Decode(&f, []byte{1, 1, 9, 1, 1, 3}), "flags.D")
	if err := p.Decode(&f, []byte{1, 1, 9, 1, 1, 1}); err != nil {
		t.Error(err)
	}
	var l []flags
	refuses(must[[]flags](t).Decode(&l, []byte{1, 0, 0, 0, 1, 8, 9, 0, 0, 0}), "[]plain.flags[].B")
	var b []bool
	refuses(must[[]bool](t).Decode(&b, []byte{3, 0, 0, 0, 1, 0, 2}), "[]bool[]")
	var c customer
	refuses(must[customer](t).Decode(&c, []byte{0, 0, 0, 0, 0, 0, 0, 0, 2}), "customer.vip")
	var s struct {
		A [2]Call
		B [2]struct {
			X uint8
			Y bool
		}
	}
	src := make([]byte, 22)
	src[21] = 7
	err := must[struct {
		A [2]Call
		B [2]struct {
			X uint8
			Y bool
		}
	}](t).Decode(&s, src)
	if err == nil || !strings.Contains(err.Error(), ".B[].Y: found a bool") {
		t.Errorf("got %v", err)
	}
}

// decoder decodes bytes as one type, and holds what is accepted against them.
func decoder[T any](f *testing.F) func(*testing.T, []byte) {
	p := must[T](f)
	return func(t *testing.T, src []byte) {
		copied := bytes.Clone(src)
		var v T
		if err := p.Decode(&v, src); err != nil {
			return
		}
		p.Text(src)
		clear(src)
		if got := p.Append(nil, &v); !bytes.Equal(got, copied) {
			t.Errorf("%s: accepted\n%x, which is\n%x", p, copied, got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	types := []func(*testing.T, []byte){
		decoder[customer](f), decoder[everything](f), decoder[blanks](f), decoder[[][]string](f), decoder[[]flags](f),
		decoder[[2]order](f), decoder[generic[[][]bool]](f), decoder[[]counted](f), decoder[whole24](f),
	}
	v := customer{"Ada", []order{{1, [2]item{{9.5, 2, true}, {}}, []string{"late", ""}, true}, {}}, true}
	f.Add(uint8(0), must[customer](f).Append(nil, &v))
	f.Add(uint8(3), []byte{1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 'x'})
	f.Add(uint8(4), []byte{1, 0, 0, 0, 1, 0, 9, 0, 1, 1})
	f.Add(uint8(8), make([]byte, 24))
	f.Fuzz(func(t *testing.T, which uint8, src []byte) { types[int(which)%len(types)](t, src) })
}
