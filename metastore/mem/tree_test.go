// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// hasOwn tells whether a map, or one in it, has the name "".
func hasOwn(v any) bool {
	fields, _ := v.(map[string]any)
	for name, value := range fields {
		if name == "" || hasOwn(value) {
			return true
		}
	}
	return false
}

// Any tree is stored and read again as it was, or refused as a whole, whatever was there before.
func FuzzTree(f *testing.F) {
	for _, c := range [][3]string{
		{`{"replications":{"r1":{"assignments":{"a":1}}}}`, `{"replications":{"assignments":null}}`, "d"},
		{`{"replications":{"assignments":{"a":1}}}`, `{"replications":null}`, "j1"},
		{`{"a":{},"b":null,"c":[{}]}`, `{"a":{"x":null},"b":null,"c":null}`, "z"},
		{`{"a/b":1}`, `null`, "j"}, {`{"a":{"..":1}}`, `{"a":null}`, "c"}, {`{"":{"a":1}}`, `{"":null}`, "x"},
	} {
		f.Add(c[0], c[1], c[2])
	}
	server := NewServer(time.Minute)
	raw := server.NewClient()
	s, err := metastore.New(f.Context(), server.NewClient(), metastore.Options{Group: "g"})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _, _ = raw.Close(), s.Close() })
	f.Fuzz(func(t *testing.T, fieldsText, expandText, before string) {
		var fields map[string]any
		var expand metastore.Expand
		if json.Unmarshal([]byte(fieldsText), &fields) != nil || json.Unmarshal([]byte(expandText), &expand) != nil ||
			fields == nil {
			return
		}
		if err := s.DeleteTree(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/g/t", "/g/t/a", "/g/t/a/x"} {
			op := metastore.Op{Path: path, Do: metastore.Set, Value: []byte(before)}
			if err := raw.Commit(t.Context(), nil, []metastore.Op{op}); err != nil {
				return // the value is too large or empty
			}
		}
		_, _ = s.GetTree(t.Context(), "t", expand) // which may fail
		if err := s.PutTree(t.Context(), "t", fields, expand, true); err != nil {
			return
		}
		want, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.GetTree(t.Context(), "t", expand)
		if err != nil {
			t.Fatalf("%s, expand %s: %v", want, expandText, err)
		}
		// Numbers come back as int64 where they can; the text is the same.
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var a, b any
		if json.Unmarshal(want, &a) != nil || json.Unmarshal(text, &b) != nil {
			t.Fatal("what was marshalled can't be read")
		}
		if !hasOwn(fields) && !reflect.DeepEqual(a, b) {
			t.Fatalf("stored %s with expand %s over %q, read %s", want, strings.TrimSpace(expandText), before, text)
		}
	})
}
