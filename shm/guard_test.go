// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"os"
	"runtime/debug"
	"testing"
)

// faultOf is the address at which f touched memory that it may not, 0 if it didn't.
func faultOf(f func()) (address uintptr) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault, ok := recover().(interface{ Addr() uintptr }); ok {
			address = fault.Addr()
		}
	}()
	f()
	return 0
}

// What is lent can be read and not written; afterwards it can be neither read, written,
// copied nor compared, and the address says which Lend it was, however large.
func TestGuard(t *testing.T) {
	g, err := NewGuard()
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	for i, n := range []int{1, page, page + 1, 5, 8 << 20, 3, 40 << 20} {
		write, read, number, err := g.Lend(n)
		if err != nil || len(write) != n || len(read) != n || number != uint64(i) {
			t.Fatalf("%d bytes: %d and %d as number %d, %v", n, len(write), len(read), number, err)
		}
		for j := range write {
			write[j] = byte(i + 1)
		}
		if read[0] != byte(i+1) || read[n-1] != byte(i+1) {
			t.Errorf("%d bytes: read %d and %d", n, read[0], read[n-1])
		}
		lends := func(what string, f func()) {
			address := faultOf(f)
			if got, ok := g.Lent(address); address == 0 || !ok || got != number {
				t.Errorf("%d bytes: %s: fault at %#x, lent as %d, %v; want %d", n, what, address, got, ok, number)
			}
		}
		lends("write during the call", func() { read[n-1] = 1 })
		if err := g.End(); err != nil {
			t.Fatal(err)
		}
		var sink byte
		other := make([]byte, n)
		lends("read", func() { sink += read[0] })
		lends("read at the end", func() { sink += read[n-1] })
		lends("write", func() { read[0] = 1 })
		lends("copy from", func() { copy(other, read) })
		lends("copy to", func() { copy(read, other) })
		lends("string", func() { other = []byte(string(read)) })
	}
	if n, ok := g.Lent(startOf(make([]byte, 8))); ok {
		t.Errorf("another address is of number %d", n)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if err := g.Close(); err != nil {
		t.Error("twice:", err)
	}
}

// Memory goes round and round: what is lent later doesn't make what was lent before
// accessible again at another time, and the memory in use doesn't grow.
func TestGuardGoesRound(t *testing.T) {
	g, err := NewGuard()
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	var first []byte
	for i := range 3 * guardBytes / os.Getpagesize() {
		_, read, _, err := g.Lend(10)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = read
		}
		if err := g.End(); err != nil {
			t.Fatal(err)
		}
	}
	if faultOf(func() { first[0]++ }) == 0 {
		t.Error("the first memory can be used")
	}
	if len(g.view) != guardBytes {
		t.Errorf("%d bytes", len(g.view))
	}
}
