// SPDX-License-Identifier: Apache-2.0

package metastore

import (
	"bytes"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	mark := strings.Repeat("M", markLen)
	for _, c := range []struct {
		raw  string
		tag  byte
		data string
		want string // an error's part, or ""
	}{
		{"d", 0, "", ""}, {"j1", 'j', "1", ""}, {"c", 'c', "", ""}, {"xown", 'x', "own", ""},
		{"J" + mark + "1", 'j', "1", ""}, {"C" + mark, 'c', "", ""}, {"X" + mark + "own", 'x', "own", ""},
		{"", 0, "", "holds nothing"}, {"dx", 0, "", "a directory with 1 bytes"},
		{"J" + mark[1:], 0, "", "12 bytes, needs 13"},
		{"D", 0, "", "no tag"}, {"\x00", 0, "", "0x0"}, {"e", 0, "", "no tag"},
	} {
		tag, data, err := parse([]byte(c.raw))
		if tag != c.tag || string(data) != c.data || (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("parse(%q) = %q, %q, %v; want %q, %q, %q", c.raw, tag, data, err, c.tag, c.data, c.want)
		}
	}
	if a, b := newMark(), newMark(); len(a) != markLen || a == b {
		t.Errorf("marks %q and %q", a, b)
	}
}

// What is shown as JSON is what was written, to the last digit.
func TestValueJSON(t *testing.T) {
	s := &Store{}
	for _, c := range []struct{ raw, want string }{
		{"j 12345678901234567890123.0 ", "12345678901234567890123.0"}, {"j1e400", "1e400"},
		{`j{"a": 1, "a": "<"}`, `{"a":1,"a":"<"}`}, {"c\xa1\x61a\x82\x01\x20", `{"a":[1,-1]}`}, {"c\x41\x00", `"AA=="`},
		{"j{", ""}, {"j1 2", ""}, {"c\xf9\x7e\x00", ""}, {"xown", ""}, {"d", ""}, {"z", ""},
	} {
		got, err := s.value("key", Node{Value: []byte(c.raw)}).JSON()
		if string(got) != c.want || (err == nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(),
			"key") {
			t.Errorf("%q: %s, %v; want %s", c.raw, got, err, c.want)
		}
	}
}

// What anybody has put into a store is decoded or refused, and what was decoded is encoded and decoded as the same.
func FuzzValue(f *testing.F) {
	for _, raw := range []string{"d", "j1", `j{"a":[1,2.5e3,null]}`, "J0123456789ABC\"x\"", "c\xa1\x61a\x82\x01\x20",
		"xown",
		"c\xbf\x61a\x01\xff", "j" + strings.Repeat("[", 100), "c" + strings.Repeat("\x81", 100), "c\xc2\x41\x00", "z"} {
		f.Add([]byte(raw))
	}
	s := &Store{}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v := s.value("key", Node{Value: bytes.Clone(raw)})
		free, err := v.Any()
		if err != nil {
			return
		}
		codec := JSON
		if v.tag == tagCBOR {
			codec = CBOR
		}
		first, err := encode(codec, free, newMark())
		if err != nil {
			t.Fatalf("%q is read as %#v, which can't be written: %v", raw, free, err)
		}
		again, err := s.value("key", Node{Value: first}).Any()
		if err != nil {
			t.Fatalf("%q is read as %#v, and written as %q: %v", raw, free, first, err)
		}
		second, err := encode(codec, again, string(first[1:1+markLen]))
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%q is written as %q, and then as %q, %v", raw, first, second, err)
		}
	})
}
