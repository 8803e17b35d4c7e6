// SPDX-License-Identifier: Apache-2.0

package nearest

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// The bounded distance against the plain recursion.
func TestDistanceAgainstRecursion(t *testing.T) {
	var plain func(a, b string) int
	plain = func(a, b string) int {
		switch {
		case a == "":
			return len(b)
		case b == "":
			return len(a)
		case a[0] == b[0]:
			return plain(a[1:], b[1:])
		}
		return 1 + min(plain(a[1:], b), plain(a, b[1:]), plain(a[1:], b[1:]))
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	word := func() string {
		var s strings.Builder
		for range rng.IntN(7) {
			s.WriteByte("ab-"[rng.IntN(3)])
		}
		return s.String()
	}
	for range 2000 {
		a, b, limit := word(), word(), 1+rng.IntN(8)
		if got, want := distance(a, b, limit), min(plain(a, b), limit); got != want &&
			!(want == limit && got >= limit) {
			t.Fatalf("seed %d: distance(%q, %q, %d) = %d, want %d", seed, a, b, limit, got, want)
		}
	}
}

func TestWord(t *testing.T) {
	names := []string{"round_robin", "least_connection", "a", "abc", "abd"}
	for found, want := range map[string]string{
		"roundrobin": "round_robin", "Round-Robin": "round_robin", "least connections": "least_connection",
		"abe": "abc", "ABD": "abd", "": "", "b": "", "random": "", strings.Repeat("a", 1<<20): "",
	} {
		if got := Word(found, names); got != want {
			t.Errorf("%.20q: got %q, want %q", found, got, want)
		}
	}
}

// Neither many nor long names make a search long.
func TestWorkIsBounded(t *testing.T) {
	many := make([]string, 1_000_000)
	for i := range many {
		many[i] = strings.Repeat("x", 20)
	}
	long := []string{strings.Repeat("ab", 1<<20), "abba"}
	began := time.Now()
	for _, c := range []struct {
		found string
		names []string
	}{{"yyyyyyyyyyyyyyyyyyyy", many}, {strings.Repeat("ba", 1<<20), long}} {
		if got := Word(c.found, c.names); got != "" {
			t.Errorf("%.20q: %.20q is not near", c.found, got)
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("two searches took %v", took)
	}
}
