// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// written are three items of one, two and three numbers, behind a text.
func written(t testing.TB) []byte {
	text := "shared"
	b, err := AppendPacked([]byte("before"), func(c *Codec) { c.String(&text) }, 3, 8,
		func(n int) (func(*Codec), error) {
			numbers := slices.Repeat([]float64{float64(n)}, n+1)
			return func(c *Codec) { Floats(c, &numbers) }, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return b[len("before"):]
}

// decodeAll decodes all that there is.
func decodeAll(b []byte) (text string, items [][]float64, err error) {
	p, err := OpenPacked(b, func(c *Codec) { c.String(&text) })
	if err != nil {
		return "", nil, err
	}
	items = make([][]float64, p.Len())
	for n := range items {
		if err := p.Decode(n, func(c *Codec) { Floats(c, &items[n]) }); err != nil {
			return text, items, err
		}
	}
	return text, items, nil
}

func TestPacked(t *testing.T) {
	text, items, err := decodeAll(written(t))
	if want := "[[0] [1 1] [2 2 2]]"; err != nil || text != "shared" || fmt.Sprint(items) != want {
		t.Errorf("%q %v %v, want %s", text, items, err, want)
	}
	if b, err := AppendPacked(nil, func(*Codec) {}, 0, 1, nil); err != nil {
		t.Error(err)
	} else if p, err := OpenPacked(b, func(*Codec) {}); err != nil || p.Len() != 0 {
		t.Errorf("%d items of none, %v", p.Len(), err)
	} else if err := p.Decode(0, func(*Codec) {}); err == nil {
		t.Error("item 0 of none was decoded")
	}
}

// What can't be written is an error that names the item.
func TestPackedRefuse(t *testing.T) {
	bad := errors.New("bad")
	fails := func(c *Codec) { c.Fail("%w", bad) }
	for want, f := range map[string]func() ([]byte, error){
		"bad": func() ([]byte, error) { return AppendPacked(nil, fails, 0, 1, nil) },
		"item 1: bad": func() ([]byte, error) {
			return AppendPacked(nil, func(*Codec) {}, 2, 1, func(n int) (func(*Codec), error) {
				return func(*Codec) {}, []error{nil, bad}[n]
			})
		},
		"item 0: bad": func() ([]byte, error) {
			return AppendPacked(nil, func(*Codec) {}, 2, 1, func(int) (func(*Codec), error) { return fails, nil })
		},
	} {
		if _, err := f(); !errors.Is(err, bad) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestBadPacked(t *testing.T) {
	good := written(t)
	for n := range good {
		if _, _, err := decodeAll(good[:n]); err == nil {
			t.Errorf("the first %d of %d bytes were read", n, len(good))
		}
	}
	ends := 4 + 4 + len("shared") + 8
	for _, c := range []struct {
		at   int
		to   uint64
		want string
	}{
		{ends - 8, 1 << 40, "found 1099511627776 items, want at most 10"},
		{ends, 1 << 40, "item 0 is from byte 0 to 1099511627776 of 60"},
		{ends + 8, 0, "item 1 is from byte 12 to 0"},
		{ends + 8, 1 << 63, "item 1 is from byte 12 to 9223372036854775808"},
		{ends, 11, "item 0: byte 4: found a length of 1, want at most 0"},
	} {
		b := slices.Clone(good)
		binary.LittleEndian.PutUint64(b[c.at:], c.to)
		if _, _, err := decodeAll(b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d at %d: %v, want %q", c.to, c.at, err, c.want)
		}
	}
}

// Whatever the bytes are, reading ends, with an error or the items.
func FuzzPacked(f *testing.F) {
	f.Add(written(f))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _, _ = decodeAll(b) })
}

func TestWord(t *testing.T) {
	words := []string{"red", "green"}
	for _, want := range words {
		b, err := Append(nil, func(c *Codec) { c.Word(&want, words) })
		if err != nil {
			t.Fatal(err)
		}
		var got string
		if err := Decode(b, func(c *Codec) { c.Word(&got, words) }); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
		if err := Decode(b, func(c *Codec) { c.Word(&got, nil) }); err == nil {
			t.Errorf("%q of no words", got)
		}
	}
	blue := "blue"
	if _, err := Append(nil, func(c *Codec) { c.Word(&blue, words) }); err == nil ||
		!strings.Contains(err.Error(), `"blue"`) {
		t.Errorf("blue of red and green: %v", err)
	}
}
