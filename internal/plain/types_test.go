// SPDX-License-Identifier: Apache-2.0

package plain

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

type Call struct {
	Arrived float64
	Skill   uint8
}

type skill uint8

func (s skill) String() string { return [...]string{"none", "sales", "repair"}[s] }

type customer struct {
	name   string
	Orders []order
	vip    bool
}

type order struct {
	ID    uint32
	Items [2]item
	Notes []string
	paid  bool
}

type item struct {
	Price float64
	N     uint16
	gift  bool
}

type flags struct {
	A, B bool
	C    uint8
	D    [3]bool
}

type blanks struct {
	_ [0]func()
	A uint32
	_ uint32
	_ struct{}
	B uint64
	_ [5]byte
	C uint8
	_ map[string]int
}

type whole24 struct {
	A float64
	B uint64
	C int32
	D float32
}

type everything struct {
	A bool
	B int8
	C uint16
	D int32
	E complex64
	F complex128
	G int
	H uint
	I float32
	J [3][2]struct {
		X uint16
		Y bool
	}
	K struct{}
	L [0]string
	M time.Duration
	N skill
}

// counted appends itself as one byte and keeps its own address, as no type should.
type counted struct{ n uint8 }

var lastCounted *counted

func (c *counted) AppendBinary(b []byte) ([]byte, error) {
	lastCounted = c
	if c.n == 255 {
		return nil, errors.New("is full")
	}
	return append(b, c.n), nil
}

var keptBytes []byte

func (c *counted) UnmarshalBinary(b []byte) error {
	lastCounted, keptBytes = c, b
	if len(b) != 1 {
		return fmt.Errorf("found %d bytes, want 1", len(b))
	}
	c.n = b[0]
	return nil
}

type withMethods struct {
	When time.Time
	From netip.Addr
	N    counted
	Many []counted
}

// table is a map that knows how it travels.
type table map[string]int

func (t table) AppendBinary(b []byte) ([]byte, error) { return fmt.Append(b, len(t)), nil }
func (t *table) UnmarshalBinary(b []byte) error       { *t = table{string(b): 1}; return nil }

type generic[T any] struct {
	Value T
	Last  bool
}

func must[T any](t testing.TB) *Plan[T] {
	t.Helper()
	p, err := For[T]()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// trip encodes and decodes a value, and holds bytes and value against the reference.
func trip[T any](t *testing.T, v T) {
	t.Helper()
	p := must[T](t)
	want := reference(nil, reflect.ValueOf(&v).Elem())
	got := p.Append([]byte("before"), &v)
	if string(got) != "before"+string(want) {
		t.Fatalf("%s: encoded as\n%x, want\n%x", p, got[6:], want)
	}
	if n, fixed := p.Size(); fixed && n != len(want) || n > len(want) {
		t.Errorf("%s: Size is %d, %v, and a value has %d bytes", p, n, fixed, len(want))
	}
	src := got[6:len(got):len(got)]
	var back T
	if err := p.Decode(&back, src); err != nil {
		t.Fatalf("%s: %v", p, err)
	}
	clear(src) // back has its own
	if again := reference(nil, reflect.ValueOf(&back).Elem()); string(again) != string(want) {
		t.Errorf("%s: decoded as %s, want %s", p, p.Format(&back), p.Format(&v))
	}
	for n := range len(want) {
		if err := p.Decode(&back, want[:n]); err == nil {
			t.Errorf("%s: %d of %d bytes are accepted", p, n, len(want))
		} else if !strings.HasPrefix(err.Error(), p.String()) {
			t.Errorf("%s: the error names no field: %v", p, err)
		}
	}
	if err := p.Decode(&back, append(want, 0)); err == nil {
		t.Errorf("%s: a byte behind the value is accepted", p)
	}
}

func TestRoundTrips(t *testing.T) {
	trip(t, Call{3.2, 1})
	trip(t, whole24{math.Copysign(0, -1), 1 << 63, -1, -0.5})
	trip(t, flags{true, false, 2, [3]bool{true, false, true}})
	trip(t, blanks{A: 1, B: 2, C: 3})
	trip(t, struct{}{})
	trip(t, [3]bool{true})
	trip(t, true)
	trip(t, uint8(7))
	trip(t, int16(-7))
	trip(t, -7)
	trip(t, [5]uint8{1, 2, 3, 4, 5})
	trip(t, time.Minute)
	trip(t, skill(2))
	trip(t, "text \xff\xfe and \x00")
	trip(t, "")
	trip(t, []byte("bytes"))
	trip(t, [][]string{{"a"}, nil, {"", "bc"}})
	trip(t, []flags{{A: true}, {B: true}})
	trip(t, []Call{{1, 2}, {3, 4}})
	trip(t, []struct{ a, b bool }{{true, false}})
	trip(t, []bool{true, false})
	trip(t, []complex128{complex(math.Inf(1), math.NaN())})
	trip(t, [2]struct {
		A []Call
		B uint8
	}{{[]Call{{1, 2}}, 3}, {nil, 4}})
	trip(t, generic[[]string]{[]string{"x"}, true})
	trip(t, customer{"Ada", []order{{1, [2]item{{9.5, 2, true}, {}}, []string{"late", ""}, true}, {}}, true})
	trip(t, everything{A: true, B: -1, G: math.MinInt64, J: [3][2]struct {
		X uint16
		Y bool
	}{1: {{5, true}, {6, false}}}, M: time.Hour, N: 1})
	trip(t, withMethods{time.Date(2026, 11, 22, 1, 2, 3, 4, time.UTC), netip.MustParseAddr("::1"), counted{3},
		[]counted{{4}, {5}}})
	trip(t, counted{9})
}

// The bits of a NaN, its sign and payload, signalling or not, are kept in every way that a float can travel.
func TestNaNsKeepTheirBits(t *testing.T) {
	for _, b := range []uint64{0x7ff8000000000001, 0xfff8000000000001, 0x7ff0000000000001, 0xfff4000000000123} {
		f := math.Float64frombits(b)
		g := math.Float32frombits(uint32(b>>32) | 1)
		trip(t, f)
		trip(t, g)
		trip(t, struct {
			A float64
			B float32
		}{f, g})
		trip(t, [2]float64{f, 1})
		trip(t, []float32{g})
		trip(t, complex(g, g))
		trip(t, struct {
			A complex128
			B []complex64
		}{complex(f, f), []complex64{complex(g, g)}})
	}
}

func TestGoldenBytes(t *testing.T) {
	p := must[customer](t)
	v := customer{"Ada", []order{{7, [2]item{{1, 2, true}, {}}, []string{"x"}, false}}, true}
	want := "03000000416461" + "01000000" + "07000000" +
		"000000000000f03f020001" + "0000000000000000000000" + "0100000001000000" + "78" + "00" + "01"
	if got := hex.EncodeToString(p.Append(nil, &v)); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// These change when docs/format/value.md does, and not with the build.
func TestHashesAreStable(t *testing.T) {
	for _, h := range []struct {
		what      string
		got, want uint32
	}{
		{"Call", must[Call](t).Hash(), 0xfb1d5a6f},
		{"customer", must[customer](t).Hash(), 0x0fd15872},
		{"float64", must[float64](t).Hash(), 0xddc6760b},
		{"generic", must[generic[time.Time]](t).Hash(), 0x3a519c18},
	} {
		if h.got != h.want {
			t.Errorf("%s: hash %#x, want %#x", h.what, h.got, h.want)
		}
	}
}

type pair[A, B any] struct{}

// Names have no path: that of package main differs between a command and its test.
func TestNames(t *testing.T) {
	type local struct{}
	for _, n := range []struct {
		of   reflect.Type
		want string
	}{
		{reflect.TypeFor[Call](), "plain.Call"},
		{reflect.TypeFor[float64](), "float64"},
		{reflect.TypeFor[[2][]netip.Addr](), "[2][]netip.Addr"},
		{reflect.TypeFor[generic[netip.Addr]](), "plain.generic[Addr]"},
		{reflect.TypeFor[generic[generic[*netip.Addr]]](), "plain.generic[generic[*Addr]]"},
		{reflect.TypeFor[generic[local]](), "plain.generic[local]"},
		{reflect.TypeFor[[]generic[struct{ X []Call }]](), "[]plain.generic[struct { X []Call }]"},
		{reflect.TypeFor[pair[Call, map[item]int]](), "plain.pair[Call,map[item]int]"},
	} {
		if got := nameOf(n.of); got != n.want {
			t.Errorf("%s: %q, want %q", n.of, got, n.want)
		}
	}
}

func TestHashesDiffer(t *testing.T) {
	seen := map[uint32]string{}
	add := func(what string, hash uint32) {
		if other, ok := seen[hash]; ok {
			t.Errorf("%s and %s have the same hash", what, other)
		}
		seen[hash] = what
	}
	add("Call", must[Call](t).Hash())
	{
		type Call struct {
			Arrived float64
			Skill   int8
		}
		add("another Call", must[Call](t).Hash())
	}
	{
		type Call struct {
			Came  float64
			Skill uint8
		}
		add("a Call with another field", must[Call](t).Hash())
	}
	{
		type Ring struct {
			Arrived float64
			Skill   uint8
		}
		add("Ring", must[Ring](t).Hash())
	}
	add("generic[int]", must[generic[int]](t).Hash())
	add("generic[uint]", must[generic[uint]](t).Hash())
	add("int64", must[int64](t).Hash())
	add("Duration", must[time.Duration](t).Hash())
	add("[]int64", must[[]int64](t).Hash())
	add("[1]int64", must[[1]int64](t).Hash())
}

type tree struct {
	Name string
	Kids []tree
}

type embeds struct {
	time.Time
	Skill uint8
}

type alone struct{ time.Time }

func refusal[T any](t *testing.T, want ...string) {
	t.Helper()
	_, err := For[T]()
	if err == nil {
		t.Errorf("%s isn't refused, want %q", reflect.TypeFor[T](), want)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %q doesn't contain %q", reflect.TypeFor[T](), err, w)
		}
	}
}

func TestRefusals(t *testing.T) {
	type inner struct{ Orders map[string]int }
	type outer struct {
		A        int
		Customer [2]inner
	}
	refusal[outer](t, "outer.Customer[].Orders: map[string]int can't travel: ", "write a slice")
	refusal[struct{ f func() }](t, ".f: func() can't travel")
	refusal[*Call](t, "*plain.Call can't travel: ", "write the value itself")
	refusal[[]*Call](t, "[]*plain.Call[]: *plain.Call can't travel: ")
	refusal[any](t, "interface {} can't travel: ", "number that says which")
	refusal[chan int](t, "chan int can't travel: ", "event")
	refusal[uintptr](t, "uintptr can't travel: ", "uint64")
	refusal[tree](t, "tree.Kids[]: plain.tree can't travel: it contains itself")
	refusal[embeds](t, "embeds: plain.embeds can't travel", "Time", "a name of its own")
	refusal[[]struct{}](t, "nothing to send")
	refusal[[][0]string](t, "nothing to send")
	refusal[[]struct{ _ int }](t, "nothing to send")
	refusal[[]struct {
		_ [300]byte
		A byte
	}](t, "301 bytes of memory", "at most 256 times")
	refusal[[1 << 31]byte](t, "2147483648 bytes")
	refusal[[1<<28 + 1]string](t, "more than 1073741824 bytes") // 4 each
	refusal[[1 << 29]Call](t, "more than 1073741824 bytes")
	refusal[struct{ A, B [1 << 29 / 5 * 6]byte }](t, "at most 1073741824")
	if _, err := For[alone](); err != nil {
		t.Errorf("a struct of nothing but an embedded time: %v", err)
	}
	if _, err := For[table](); err != nil {
		t.Errorf("a map with methods: %v", err)
	}
	deep := reflect.TypeFor[int]()
	for range depthMax {
		deep = reflect.SliceOf(deep)
	}
	if _, err := plan(deep); err == nil || !strings.Contains(err.Error(), "64 types deep") {
		t.Errorf("%d types in each other: %v", depthMax+1, err)
	}
}

// A method that keeps the address it is given has one of its own, not that of the caller's variable, which may be on a
// stack. UnmarshalBinary may keep the bytes, too.
func TestMethodsMayKeepWhatTheyGet(t *testing.T) {
	p := must[withMethods](t)
	v := withMethods{N: counted{7}, From: netip.MustParseAddr("10.0.0.1")}
	src := p.Append(nil, &v)
	if lastCounted == &v.N {
		t.Error("AppendBinary was called with the caller's address")
	}
	var back withMethods
	if err := p.Decode(&back, src); err != nil {
		t.Fatal(err)
	}
	clear(src)
	if lastCounted == &back.N || back.N.n != 7 || len(keptBytes) != 1 || keptBytes[0] != 7 {
		t.Errorf("UnmarshalBinary was called with the caller's address or bytes: %v", keptBytes)
	}
}

type shrinks struct{ N int }

func (shrinks) AppendBinary(b []byte) ([]byte, error) { return nil, nil }
func (*shrinks) UnmarshalBinary([]byte) error         { return nil }

func TestMethodsThatFail(t *testing.T) {
	p := must[struct{ C []counted }](t)
	v := struct{ C []counted }{[]counted{{1}, {255}}}
	if got := panicOf(func() { p.Append(nil, &v) }); !strings.Contains(got, ".C[]: AppendBinary: is full") {
		t.Errorf("panicked with %q", got)
	}
	q := must[shrinks](t)
	if got := panicOf(func() { q.Append([]byte("x"), new(shrinks)) }); !strings.Contains(got, "must append") {
		t.Errorf("panicked with %q", got)
	}
	err := p.Decode(&v, []byte{1, 0, 0, 0, 2, 0, 0, 0, 5, 6})
	if err == nil || !strings.Contains(err.Error(), ".C[]: UnmarshalBinary: found 2 bytes, want 1") {
		t.Errorf("got %v", err)
	}
}

func panicOf(f func()) (text string) {
	defer func() { text = fmt.Sprint(recover()) }()
	f()
	return ""
}

func TestText(t *testing.T) {
	show := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	c := must[Call](t)
	show(c.String(), "Call")
	show(c.Text(c.Append(nil, &Call{3.2, 1})), "Call{Arrived: 3.2, Skill: 1}")
	show(c.Text([]byte{1, 2}), "Call that can't be read, 01 02 (Call: found 2 bytes, want 9: "+damaged+")")
	v := customer{"Ada", []order{{ID: 1, Notes: []string{"a\nb"}}}, true}
	show(must[customer](t).Format(&v), `customer{name: "Ada", Orders: [order{ID: 1, Items: [item{Price: 0, N: 0, `+
		`gift: false}, item{Price: 0, N: 0, gift: false}], Notes: ["a\nb"], paid: false}], vip: true}`)
	show(must[blanks](t).Format(&blanks{A: 1}), "blanks{A: 1, B: 0, C: 0}")
	type timed struct {
		wait  time.Duration
		skill skill
	}
	show(must[timed](t).Format(&timed{time.Second, 2}), "timed{wait: 1s, skill: repair}")
	long := strings.Repeat("ä", 100)
	show(must[string](t).Format(&long), `"`+strings.Repeat("ä", 32)+`…"`)
	many := make([]int8, 100)
	show(must[[]int8](t).Format(&many), "["+strings.Repeat("0, ", 16)+"… 100 in all]")
	// A String that panics for what came doesn't end the run.
	s := must[skill](t)
	if got := s.Text([]byte{9}); !strings.Contains(got, "PANIC") {
		t.Errorf("got %s", got)
	}
}

// Slices whose elements have pointers lie in memory that the garbage collector looks into.
func TestElementsSurviveCollection(t *testing.T) {
	p := must[[][]string](t)
	v := make([][]string, 1000)
	for i := range v {
		v[i] = []string{fmt.Sprint("text number ", i), "other"}
	}
	var back [][]string
	if err := p.Decode(&back, p.Append(nil, &v)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		runtime.GC()
		for i := range 10000 {
			keptBytes = []byte(fmt.Sprint("other text ", i)) // takes what was freed
		}
	}
	if !reflect.DeepEqual(back, v) {
		t.Error("what was decoded has changed")
	}
}
