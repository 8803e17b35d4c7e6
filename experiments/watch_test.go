// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"strings"
	"testing"
)

// TestBehind: what was shown of a log isn't shown again, also where its beginning is gone meanwhile.
func TestBehind(t *testing.T) {
	long := strings.Repeat("0123456789", 300)
	for _, c := range []struct{ shown, now, want string }{
		{"", "a\n", "a\n"}, {"a\n", "a\n", ""}, {"a\n", "a\nb\n", "b\n"},
		{long + "a\n", long[500:] + "a\nb\n", "b\n"}, {long + "a\n", "c\n", "[…]\nc\n"},
	} {
		if got := string(behind([]byte(c.shown), []byte(c.now))); got != c.want {
			t.Errorf("found %.50q, want %.50q", got, c.want)
		}
	}
}
