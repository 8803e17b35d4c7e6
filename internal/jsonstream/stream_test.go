// SPDX-License-Identifier: Apache-2.0

package jsonstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// thing is a member: every kind of value, and objects and lists with nothing in them.
type thing struct {
	Text  string         `json:"text"`
	Int   int64          `json:"int"`
	Float float64        `json:"float"`
	None  *float64       `json:"none"`
	List  []int64        `json:"list"`
	Deep  map[string]any `json:"deep"`
}

func draw(rng *rand.Rand) thing {
	floats := []float64{0, math.Copysign(0, -1), 1e-7, 1e-6, 9.99e-7, 1e20, 1e21, 1.5e-300, -2.5e300, 0.1, 1}
	texts := []string{"", "plain", "a \"quoted\" one", "<&>", "\u2028 and ä", "\x00\x7f\xff", "back\\slash"}
	x := thing{Text: texts[rng.IntN(len(texts))], Int: rng.Int64() >> rng.IntN(64) * int64(1-2*rng.IntN(2)),
		Float: floats[rng.IntN(len(floats))], List: []int64{}, Deep: map[string]any{}}
	if rng.IntN(2) == 0 {
		x.Float = math.Float64frombits(rng.Uint64())
		if math.IsNaN(x.Float) || math.IsInf(x.Float, 0) {
			x.Float = rng.NormFloat64()
		}
		x.None = &x.Float
	}
	for range rng.IntN(3) {
		x.List = append(x.List, rng.Int64N(9))
		x.Deep[fmt.Sprint(len(x.List))] = map[string]any{"in": []int{1, 2}}
	}
	return x
}

func (x *thing) write(e *Encoder) {
	e.Object(func() {
		e.Key("text").Text(x.Text)
		e.Key("int").Int(x.Int)
		e.Key("float").Float(x.Float)
		e.Key("none").FloatOrNull(x.None)
		e.Key("list").List(len(x.List), func(i int) { e.Int(x.List[i]) })
		e.Key("deep").Value(x.Deep)
	})
}

// TestWrite compares with encoding/json.
func TestWrite(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for round := range 200 {
		n := []int{0, 1, 2, 10, 5000}[rng.IntN(5)]
		if round > 20 {
			n %= 100
		}
		things, members := make([]thing, n), make(map[string]thing, n)
		for i := range things {
			things[i] = draw(rng)
			members[fmt.Sprintf("%05d", i)] = things[i]
		}
		one := draw(rng)
		for _, form := range [][2]string{{"", "  "}, {"> ", "\t"}, {"x", ""}, {"", ""}} {
			var got bytes.Buffer
			err := Write(&got, form[0], form[1], func(s *Stream) {
				s.Object(func() {
					one.write(s.Key("first"))
					s.Key("many")
					s.Members(n, func(e *Encoder, i int) { things[i].write(e.Key(fmt.Sprintf("%05d", i))) })
					s.Key("last").Value(one)
				})
			})
			whole := struct {
				First thing            `json:"first"`
				Many  map[string]thing `json:"many"`
				Last  thing            `json:"last"`
			}{one, members, one}
			want, err2 := json.MarshalIndent(whole, form[0], form[1])
			if form == [2]string{} {
				want, err2 = json.Marshal(whole)
			}
			if err != nil || err2 != nil || !bytes.Equal(got.Bytes(), want) {
				t.Fatalf("%q, %d members: %v, %v: got\n%.500s\nwant\n%.500s", form, n, err, err2, got.Bytes(), want)
			}
		}
	}
}

// failing takes so many writes.
type failing struct{ left int }

var errFull = errors.New("full")

func (f *failing) Write(p []byte) (int, error) {
	if f.left--; f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// TestErrors: the first error ends the writing, wherever it comes, and no goroutine stays (TestMain).
func TestErrors(t *testing.T) {
	const n = 20_000
	for _, left := range []int{0, 1, 2, 7} {
		calls := make([]bool, n)
		err := Write(&failing{left}, "", " ", func(s *Stream) {
			s.Members(n, func(e *Encoder, i int) { calls[i] = true; e.Key("x").Int(1) })
		})
		if !errors.Is(err, errFull) || left < 3 && calls[n-1] {
			t.Errorf("after %d writes: %v, and the last member encoded: %v", left, err, calls[n-1])
		}
	}
	for _, x := range []float64{math.NaN(), math.Inf(1)} {
		err := Write(&failing{n}, "", "", func(s *Stream) {
			s.Members(n, func(e *Encoder, i int) {
				if e.Key("x"); i == 777 {
					e.Float(x)
				} else {
					e.Int(1)
				}
			})
		})
		if bad := (*json.UnsupportedValueError)(nil); !errors.As(err, &bad) {
			t.Errorf("%v: %v", x, err)
		}
	}
}
