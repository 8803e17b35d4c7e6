// SPDX-License-Identifier: Apache-2.0

package envelope

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"testing"
)

func TestHeadersRoundTrip(t *testing.T) {
	for _, h := range []map[string]string{
		{"a": "b"},
		{"trace": "4bf92f", "": "empty key", "empty value": ""},
		{"z": "1", "y": "2", "x": "3", "ä": "ö"},
		{"long": strings.Repeat("v", HeadersMax-headerPrefixBytes-4)},
	} {
		enc, err := EncodeHeaders(h)
		if err != nil {
			t.Fatalf("%v: %v", h, err)
		}
		if err := CheckHeaders(enc); err != nil {
			t.Errorf("%v: own encoding is refused: %v", h, err)
		}
		got := map[string]string{}
		for k := range maps.Keys(h) {
			v, ok := Header(enc, k)
			if !ok {
				t.Errorf("%v: header %q is lost", h, k)
			}
			got[k] = string(v)
		}
		if !maps.Equal(got, h) {
			t.Errorf("sent %v, got %v", h, got)
		}
		if _, ok := Header(enc, "no such"); ok {
			t.Errorf("%v: a header that nobody sent was found", h)
		}
	}
	if enc, err := EncodeHeaders(nil); enc != nil || err != nil {
		t.Errorf("no headers: %v, %v, want nil, nil", enc, err)
	}
}

// Equal headers have equal bytes, however the map is ordered.
func TestHeadersDoNotDependOnTheMap(t *testing.T) {
	first, err := EncodeHeaders(map[string]string{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"})
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		again, _ := EncodeHeaders(map[string]string{"e": "5", "d": "4", "c": "3", "b": "2", "a": "1"})
		if !bytes.Equal(first, again) {
			t.Fatalf("%q and %q", first, again)
		}
	}
}

func TestHeadersTooLarge(t *testing.T) {
	_, err := EncodeHeaders(map[string]string{"k": strings.Repeat("v", HeadersMax-headerPrefixBytes)})
	if err == nil || !strings.Contains(err.Error(), "65536 bytes") {
		t.Errorf("%d bytes too many: %v", 1, err)
	}
}

func TestMalformedHeaders(t *testing.T) {
	for _, c := range []struct {
		what string
		enc  []byte
	}{
		{"prefix cut short", []byte{1, 0, 1}},
		{"key beyond the end", []byte{3, 0, 0, 0, 'a', 'b'}},
		{"value beyond the end", []byte{1, 0, 2, 0, 'a', 'b'}},
		{"longest lengths", []byte{0xFF, 0xFF, 0xFF, 0xFF, 'a'}},
		{"same key twice", []byte{1, 0, 0, 0, 'a', 1, 0, 0, 0, 'a'}},
		{"keys falling", []byte{1, 0, 0, 0, 'b', 1, 0, 0, 0, 'a'}},
		{"rubbish after a good one", []byte{1, 0, 0, 0, 'a', 9}},
	} {
		if err := CheckHeaders(c.enc); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, want ErrMalformed", c.what, err)
		}
		if _, ok := Header(c.enc, "nobody"); ok {
			t.Errorf("%s: found a header in it", c.what)
		}
	}
	if err := CheckHeaders(nil); err != nil {
		t.Errorf("no headers: %v", err)
	}
}

func TestHeaderDoesNotAllocate(t *testing.T) {
	enc, _ := EncodeHeaders(map[string]string{"a": "1", "trace": "4bf92f"})
	var v []byte
	if n := testing.AllocsPerRun(100, func() { v, _ = Header(enc, "trace") }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
	if string(v) != "4bf92f" {
		t.Errorf("got %q", v)
	}
}
