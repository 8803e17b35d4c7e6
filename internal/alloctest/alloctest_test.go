// SPDX-License-Identifier: Apache-2.0

package alloctest_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/disco-sim/disco/internal/alloctest"
	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var kept atomic.Value

// What is allocated is found, also by the standard library for this module and by another goroutine; else there is
// nothing to find.
func TestCount(t *testing.T) {
	c := alloctest.Begin()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range 1000 {
			kept.Store(fmt.Sprint(n, "and some more"))
		}
	}()
	<-done
	if n, text := c.End(); n < 2000 || !strings.Contains(text, "TestCount.func1") {
		t.Errorf("%d objects, want 2000 and more:\n%s", n, text)
	}
	c = alloctest.Begin()
	sum := 0
	for n := range 100_000 {
		sum += n
	}
	if n, text := c.End(); n > 100 || sum == 0 {
		t.Errorf("%d objects, want next to none:\n%s", n, text)
	}
}
