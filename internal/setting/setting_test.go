// SPDX-License-Identifier: Apache-2.0

package setting

import (
	"strings"
	"testing"
)

// Commas and equal signs in quotes and brackets are part of a key or a value.
func TestSplitAndKeyOf(t *testing.T) {
	for text, want := range map[string]string{
		"a=1":                           "a:1",
		" a.b = 1 , c=x=y":              "a.b:1|c:x=y",
		`"a=b".c='x,y',d="1,2"`:         `"a=b".c:'x,y'|d:"1,2"`,
		"a={mean: 20, kind: x},b=[1,2]": "a:{mean: 20, kind: x}|b:[1,2]",
		"a=],2":                         "a:]|2:none",
	} {
		all, err := Split(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		for i := range all {
			if key, value, ok := KeyOf(all[i]); ok {
				all[i] = key + ":" + value
			} else {
				all[i] = key + ":none"
			}
		}
		if got := strings.Join(all, "|"); got != want {
			t.Errorf("%s: found %s, want %s", text, got, want)
		}
	}
	if all, err := Split("a='x,y"); err == nil || !strings.Contains(err.Error(), "is not closed") {
		t.Errorf("found %q, %v", all, err)
	}
}
