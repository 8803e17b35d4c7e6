// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"
	"testing"
)

func TestRefs(t *testing.T) {
	for text, want := range map[string]Ref{
		"disco://c/n/s":                {"c", "n", "s", ""},
		"disco://c/n":                  {"c", "n", "", ""},
		"disco://c/n?rep=3":            {"c", "n", "", "3"},
		"disco://c/n/s?rep=r%3F1":      {"c", "n", "s", "r?1"},
		"disco://c/rack%2F1/%C3%BC%20": {"c", "rack/1", "ü ", ""},
	} {
		got, err := ParseRef(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: %+v, %v, printed %s", text, got, err, got)
		}
	}
	for text, want := range map[string]string{
		"": "disco://", "http://c/n/s": "disco://", "disco://c": "1 parts", "disco://c/n/s/x": "4 parts",
		"disco:///n/s": "part 1: it is empty", "disco://c//s": "part 2", "disco://c/n/": "part 3",
		"disco://c/n/%zz":   "%zz",
		"disco://c/n/s?r=3": "no rep=", "disco://c/n/s?rep=": "the replication", "disco://c/%ff": "UTF-8",
		"disco://c/n/" + strings.Repeat("x", maxRef): "4096 bytes",
	} {
		if got, err := ParseRef(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %+v, %v; want an error with %q", text, got, err, want)
		}
	}
}

func FuzzParseRef(f *testing.F) {
	f.Add("disco://c/n/s?rep=1")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRef(text)
		if err != nil {
			return
		}
		again, err := ParseRef(r.String())
		if err != nil || again != r {
			t.Fatalf("%q: %+v, printed %s, read as %+v, %v", text, r, r, again, err)
		}
	})
}
