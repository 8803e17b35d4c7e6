// SPDX-License-Identifier: Apache-2.0

package state

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/wire/wiretest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// everything has a field of every kind.
type everything struct {
	Flag   bool
	Small  uint8
	Int    int
	I32    int32
	I64    int64
	U32    uint32
	U64    uint64
	Float  float64
	Text   string
	Data   []byte
	List   []pair
	I64s   []int64
	U64s   []uint64
	Floats []float64
	I32s   []int32
	U32s   []uint32
	Map    map[string]float64
	Added  int // since version 2
	pcg    rand.PCG
}

type pair struct {
	Name string
	At   float64
}

func (e *everything) fields(c *Codec) {
	c.Bool(&e.Flag)
	c.Byte(&e.Small)
	c.Int(&e.Int)
	c.Int32(&e.I32)
	c.Int64(&e.I64)
	c.Uint32(&e.U32)
	c.Uint64(&e.U64)
	c.Float(&e.Float)
	c.String(&e.Text)
	c.Bytes(&e.Data)
	List(c, &e.List, 12, func(p *pair) {
		c.String(&p.Name)
		c.Float(&p.At)
	})
	Words(c, &e.I64s)
	Words(c, &e.U64s)
	Words(c, &e.Floats)
	Words(c, &e.I32s)
	Words(c, &e.U32s)
	Map(c, &e.Map, 12, func(k *string, v *float64) {
		c.String(k)
		c.Float(v)
	})
	if c.Version() >= 2 {
		c.Int(&e.Added)
	}
	c.Source(&e.pcg)
}

const newest = 2

func filled(t testing.TB) *everything {
	e := &everything{}
	wiretest.Fill(t, e)
	e.Map = map[string]float64{"b": 1, "": 2, "a": 3}
	e.pcg.Seed(1, 2)
	return e
}

func encoded(t testing.TB, e *everything, version uint32) []byte {
	t.Helper()
	b, err := Append([]byte("before"), version, e.fields)
	if err != nil {
		t.Fatal(err)
	}
	return b[len("before"):]
}

func TestRoundTrip(t *testing.T) {
	for version := uint32(1); version <= newest; version++ {
		want, got := filled(t), &everything{}
		if version < 2 {
			want.Added = 0
		}
		b := encoded(t, want, version)
		if err := Decode(b, newest, false, got.fields); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("version %d: %+v, %v; want %+v", version, got, err, want)
		}
		clear(b) // nothing of it is kept
		if !reflect.DeepEqual(got, want) {
			t.Errorf("version %d: %+v when the memory has ended, want %+v", version, got, want)
		}
	}
}

// The format itself (docs/format/checkpoint.md).
func TestBytes(t *testing.T) {
	e := &everything{Flag: true, Small: 2, I32: -1, Text: "ab", Floats: []float64{1}, I32s: []int32{-2},
		Map: map[string]float64{"d": 0, "c": 1}}
	e.pcg.Seed(1, 2)
	const want = "01000000 01 02 0000000000000000 ffffffff 0000000000000000 00000000 0000000000000000" +
		" 0000000000000000 02000000 6162 00000000 00000000 00000000 00000000 01000000 000000000000f03f" +
		" 01000000 feffffff 00000000 02000000 01000000 63 000000000000f03f 01000000 64 0000000000000000" +
		" 0100000000000000 0200000000000000"
	if got := fmt.Sprintf("%x", encoded(t, e, 1)); got != strings.ReplaceAll(want, " ", "") {
		t.Errorf("%s, want %s", got, want)
	}
}

// Infinities and each NaN are what they were.
func TestAnyFloat(t *testing.T) {
	for _, bits := range []uint64{0x7FF << 52, 0xFFF << 52, 0x7FF8000000000001, 0xFFFC0000DEADBEEF, 1 << 63} {
		x := math.Float64frombits(bits)
		b := encoded(t, &everything{Float: x, Floats: []float64{x}}, 1)
		var got everything
		if err := Decode(b, 1, false, got.fields); err != nil {
			t.Fatal(err)
		}
		if a, b := math.Float64bits(got.Float), math.Float64bits(got.Floats[0]); a != bits || b != bits {
			t.Errorf("%x and %x, want %x", a, b, bits)
		}
	}
}

// A generator goes on where it was, or, where streams are to begin anew, stays as it is.
func TestGenerators(t *testing.T) {
	was := rand.NewPCG(3, 4)
	was.Uint64()
	b, err := Append(nil, 1, func(c *Codec) { c.Source(was) })
	if err != nil || len(b) != 4+16 {
		t.Fatalf("%x, %v", b, err)
	}
	next := was.Uint64()
	for _, fresh := range []bool{false, true} {
		g := rand.NewPCG(5, 6)
		want := next
		if fresh {
			want = rand.NewPCG(5, 6).Uint64()
		}
		if err := Decode(b, 1, fresh, func(c *Codec) { c.PCG(g) }); err != nil {
			t.Fatal(err)
		}
		if got := g.Uint64(); got != want {
			t.Errorf("fresh %v: %d is drawn, want %d", fresh, got, want)
		}
	}
	for _, other := range []rand.Source{nil, (*rand.PCG)(nil), rand.NewChaCha8([32]byte{})} {
		_, err := Append(nil, 1, func(c *Codec) { c.Source(other) })
		if err == nil || !strings.Contains(err.Error(), "want one of node.Simproc.Source") {
			t.Errorf("%T: %v", other, err)
		}
	}
}

func TestRefused(t *testing.T) {
	good := encoded(t, filled(t), newest)
	wiretest.Truncated(t, good, "byte ", func(b []byte) error {
		return Decode(b, newest, false, (&everything{}).fields)
	})
	flag := func(c *Codec) { c.Bool(new(bool)) }
	pairs := func(c *Codec) {
		Map(c, new(map[int]bool), 9, func(k *int, v *bool) {
			c.Int(k)
			c.Bool(v)
		})
	}
	key := "\x07\x00\x00\x00\x00\x00\x00\x00\x01"
	for _, x := range []struct {
		in, want string
		fields   func(*Codec)
	}{
		{"", "byte 0: found 0 bytes, want 4", flag},
		{"\x00\x00\x00\x00\x00", "found version 0 of an encoding, want 1 to 2", flag},
		{"\x03\x00\x00\x00\x00", "found version 3 of an encoding, want 1 to 2: a newer program has written it", flag},
		{"\x01\x00\x00\x00\x02", "byte 5: found 2, want 0 or 1", flag},
		{"\x01\x00\x00\x00\x01\x00", "byte 5: found 1 bytes behind the last field, want none", flag},
		{"\x01\x00\x00\x00\x01", "byte 5: bad luck", func(c *Codec) { flag(c); c.Fail("bad %s", "luck") }},
		{"\x01\x00\x00\x00\x02\x00\x00\x00" + key + key, "found the key 7 behind 7 in a map, want rising ones", pairs},
		{"\x01\x00\x00\x00\x02\x00\x00\x00" + key, "found a length of 2, want at most 1: 9 bytes are left", pairs},
		{"\x01\x00\x00\x00\xff\xff\xff\xff", "want at least 1",
			func(c *Codec) { List(c, new([]struct{}), 0, func(*struct{}) {}) }},
	} {
		if err := Decode([]byte(x.in), newest, false, x.fields); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%x: %v, want %q", x.in, err, x.want)
		}
	}
	for want, f := range map[string]func() ([]byte, error){
		"found version 0 of an encoding, want at least 1": func() ([]byte, error) { return Append(nil, 0, flag) },
		"bad": func() ([]byte, error) { return Append(nil, 1, func(c *Codec) { c.Fail("bad"); c.Fail("worse") }) },
	} {
		if _, err := f(); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// What can be read is what was written: whatever the bytes are, reading ends, and writing it again gives the same.
func FuzzDecode(f *testing.F) {
	f.Add(encoded(f, filled(f), newest), false)
	f.Add(encoded(f, &everything{}, 1), true)
	f.Fuzz(func(t *testing.T, in []byte, fresh bool) {
		e, version := &everything{}, uint32(0)
		err := Decode(in, newest, fresh, func(c *Codec) {
			version = c.Version()
			e.fields(c)
		})
		if err != nil || fresh {
			return
		}
		if out := encoded(t, e, version); !bytes.Equal(out, in) {
			t.Fatalf("%x is read, and written as %x", in, out)
		}
	})
}
