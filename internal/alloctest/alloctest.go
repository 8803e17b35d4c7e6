// SPDX-License-Identifier: Apache-2.0

// Package alloctest tells whose allocations are made, for tests of code that other modules work for.
//
// Guarantee: what this module's code has allocated by itself, or by the standard library, is counted, in all
// goroutines; what another module's code has allocated isn't, whoever has called it, nor what cryptography has.
//
//	c := alloctest.Begin()
//	work()
//	n, text := c.End()
package alloctest

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

const module = "github.com/disco-sim/disco/"

// kept keeps what is allocated from the stack.
var kept atomic.Pointer[[1 << 10]byte]

// Counter counts from Begin on.
type Counter struct {
	rate   int
	before map[string]int64
}

// Begin makes the runtime note every allocation, for the rest of the process or until End. Tests beside it may allocate
// too, so there should be none.
func Begin() *Counter {
	c := &Counter{rate: runtime.MemProfileRate}
	runtime.MemProfileRate = 1
	// A processor of the runtime looks at the rate when it has noted one more: at the old rate that takes some 512 KiB.
	var all sync.WaitGroup
	for range 4 * runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for range 16 << 10 {
				kept.Store(new([1 << 10]byte)) // it escapes
			}
		})
	}
	all.Wait()
	c.before = counts()
	return c
}

// End gives how many objects were allocated, and where most of them.
func (c *Counter) End() (objects int64, text string) {
	after := counts()
	runtime.MemProfileRate = c.rate
	var sites []string
	for site, n := range after {
		if n -= c.before[site]; n > 0 {
			objects += n
			sites = append(sites, fmt.Sprintf("%9d %s", n, site))
		}
	}
	slices.SortFunc(sites, func(a, b string) int { return strings.Compare(b, a) })
	return objects, strings.Join(sites[:min(len(sites), 10)], "\n")
}

// counts are the allocations so far, by where they were made.
func counts() map[string]int64 {
	runtime.GC() // a profile is that of the collection before the last one
	runtime.GC()
	var records []runtime.MemProfileRecord
	for n, ok := runtime.MemProfile(nil, true); !ok; {
		records = make([]runtime.MemProfileRecord, n+100)
		if n, ok = runtime.MemProfile(records, true); ok {
			records = records[:n]
		}
	}
	sums := map[string]int64{}
	for _, r := range records {
		if site := siteOf(r.Stack()); site != "" {
			sums[site] += r.AllocObjects
		}
	}
	return sums
}

// siteOf names the innermost function of a module, if it is one of this one; "": it isn't, or cryptography's is further
// in.
func siteOf(stack []uintptr) string {
	for frames := runtime.CallersFrames(stack); ; {
		f, more := frames.Next()
		if strings.HasPrefix(f.Function, module) {
			if strings.HasPrefix(f.Function, module+"internal/alloctest.") {
				return ""
			}
			return fmt.Sprintf("%s:%d", strings.TrimPrefix(f.Function, module), f.Line)
		}
		// Only modules have a dot in front of the first slash.
		first, _, ok := strings.Cut(f.Function, "/")
		if ok && (strings.Contains(first, ".") || first == "crypto") || !more {
			return ""
		}
	}
}
