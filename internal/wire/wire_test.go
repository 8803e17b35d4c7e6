// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// everything has a field of every kind.
type everything struct {
	Flag  bool
	U32   uint32
	U64   uint64
	I32   int32
	Var   int64
	Int   int
	Float float64
	Text  string
	Data  []byte
	List  []pair
	Some  *pair
	Vars  []int64
	Nums  []float64
	U32s  []uint32
	U64s  []uint64
	Fixed [3]float64
	Many  [4]int64
}

type pair struct {
	Name string
	At   float64
}

func (e *everything) fields(c *Codec) {
	c.Bool(&e.Flag)
	c.Uint32(&e.U32)
	c.Uint64(&e.U64)
	c.Int32(&e.I32)
	c.Varint(&e.Var)
	c.Int(&e.Int)
	c.Float(&e.Float)
	c.String(&e.Text)
	c.Bytes(&e.Data)
	List(c, &e.List, 12, func(p *pair) { p.fields(c) })
	Optional(c, &e.Some, (*pair).fields)
	Varints(c, &e.Vars)
	Floats(c, &e.Nums)
	Uint32s(c, &e.U32s)
	Uint64s(c, &e.U64s)
	c.FloatArray(e.Fixed[:])
	c.VarintArray(e.Many[:2])
	c.EachVarint(&e.Many[2], &e.Many[3])
}

func (p *pair) fields(c *Codec) {
	c.String(&p.Name)
	c.Float(&p.At)
}

func some() *everything {
	return &everything{
		Flag: true, U32: math.MaxUint32, U64: math.MaxUint64, I32: -1, Var: math.MinInt64, Int: -7, Float: -0.5,
		Text: "a\x00\xff", Data: []byte{0, 255}, List: []pair{{"x", 1}, {"", math.MaxFloat64}},
		Some: &pair{"y", 2}, Vars: []int64{0, 1 << 40}, Nums: []float64{1},
		U32s: []uint32{1, math.MaxUint32}, U64s: []uint64{math.MaxUint64},
		Fixed: [3]float64{1, -2, math.SmallestNonzeroFloat64}, Many: [4]int64{-1, 1 << 40, math.MaxInt64, 63},
	}
}

func TestRoundTrip(t *testing.T) {
	for _, want := range []*everything{some(), {Data: []byte{}}} {
		b, err := Append([]byte("before"), want.fields)
		if err != nil {
			t.Fatal(err)
		}
		got := &everything{}
		if err := Decode(b[len("before"):], got.fields); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
}

// Encoding only reads: the race detector sees it if not.
func TestEncodedTwiceAtOnce(t *testing.T) {
	e := some()
	done := make(chan []byte)
	for range 2 {
		go func() {
			b, err := Append(nil, e.fields)
			if err != nil {
				t.Error(err)
			}
			done <- b
		}()
	}
	if a, b := <-done, <-done; !bytes.Equal(a, b) {
		t.Errorf("%x and %x", a, b)
	}
}

// The format itself, word by word: two programs must agree on it.
func TestBytes(t *testing.T) {
	b, err := Append(nil, (&everything{
		Flag: true, U32: 1, U64: 2, I32: -1, Var: -65, Int: 3, Float: 1, Text: "ab", Data: []byte{9},
		List: []pair{{"c", 2}}, Fixed: [3]float64{1, 0, math.Copysign(0, -1)}, Many: [4]int64{0, -2, 64, -64},
	}).fields)
	const want = "01 01000000 0200000000000000 ffffffff 8101 0300000000000000 000000000000f03f" +
		" 02000000 6162 01000000 09 01000000 01000000 63 0000000000000040" +
		" 00 00000000 00000000 00000000 00000000" +
		" 000000000000f03f 0000000000000000 0000000000000080 00 03 8001 7f"
	if got := fmt.Sprintf("%x", b); err != nil || got != strings.ReplaceAll(want, " ", "") {
		t.Errorf("%s, %v", got, err)
	}
}

// Whatever is cut off or added is found, and so is every value that can't be.
func TestRefused(t *testing.T) {
	good, err := Append(nil, some().fields)
	if err != nil {
		t.Fatal(err)
	}
	for n := range good {
		if err := Decode(good[:n], (&everything{}).fields); err == nil {
			t.Errorf("the first %d of %d bytes are taken for all", n, len(good))
		}
	}
	text := 1 + 4 + 8 + 4 + 10 + 8 + 8 // offset of the length of Text
	list := text + 4 + 3 + 4 + 2       // … and of List
	change := func(at int, bytes ...byte) []byte {
		b := append([]byte(nil), good...)
		copy(b[at:], bytes)
		return b
	}
	for _, c := range []struct {
		want string
		in   []byte
	}{
		{"byte 188: found 1 bytes behind the last field, want none", append(change(0), 0)},
		{"byte 1: found 2, want 0 or 1", change(0, 2)},
		{"byte 43: found the number NaN, want a finite one", change(text-8, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f)},
		{"byte 43: found the number -Inf, want a finite one", change(text-8, 0, 0, 0, 0, 0, 0, 0xf0, 0xff)},
		{"found a length of 4294967295, want at most 141: 141 bytes are left", change(text, 255, 255, 255, 255)},
		{"found a length of 11, want at most 10: 128 bytes are left", change(list, 11)},
		{"byte 17: found no number of one to ten bytes", change(26, 0)},
		{"byte 17: found no number of one to ten bytes", change(26, 2)},
		{"byte 162: found the number NaN, want a finite one", change(160, 0xf8, 0x7f)}, // the second of Fixed
		{"byte 177: found no number of one to ten bytes", change(186, 2)},              // the third of Many
	} {
		if err := Decode(c.in, (&everything{}).fields); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	for _, e := range []everything{{Float: math.Inf(1)}, {Fixed: [3]float64{0, math.NaN()}}} {
		if _, err := Append(nil, e.fields); err == nil || !strings.Contains(err.Error(), "want a finite one") {
			t.Errorf("%+v is encoded: %v", e, err)
		}
	}
}

// What can be decoded is what was encoded: there is one encoding of everything.
func FuzzDecode(f *testing.F) {
	b, err := Append(nil, some().fields)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:40])
	f.Fuzz(func(t *testing.T, in []byte) {
		e := &everything{}
		if Decode(in, e.fields) != nil {
			return
		}
		if out, err := Append(nil, e.fields); err != nil || !bytes.Equal(out, in) {
			t.Fatalf("%x is decoded, and encoded as %x (%v)", in, out, err)
		}
	})
}
