// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"strings"
	"testing"
	"time"
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

// TestUntilLook: who watches takes a fifth of the time at most.
func TestUntilLook(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{0: time.Second, 250 * time.Millisecond: time.Second,
		300 * time.Millisecond: 1200 * time.Millisecond, 5 * time.Second: 20 * time.Second} {
		if got := untilLook(took); got != want {
			t.Errorf("behind a look of %v: found %v, want %v", took, got, want)
		}
	}
}
