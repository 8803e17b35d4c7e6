// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"encoding/binary"
	"os"
	"testing"
)

// words compares 32-bit words at offsets with what a page of docs/format draws.
func words(t *testing.T, what string, mem []byte, want map[int]uint32) {
	t.Helper()
	for offset, w := range want {
		if got := binary.LittleEndian.Uint32(mem[offset:]); got != w {
			t.Errorf("%s: the word at %d is %#x, want %#x", what, offset, got, w)
		}
	}
}

// The header page as docs/format/segment.md draws it, in the file and not only in the
// mapping.
func TestSegmentIsTheOneThatIsDrawn(t *testing.T) {
	s := mustCreate(t, Config{Name: "drawn", Kind: testKind, Size: 5000})
	page := os.Getpagesize()
	raw := make([]byte, page)
	if _, err := s.File().ReadAt(raw, 0); err != nil {
		t.Fatal(err)
	}
	if string(raw[:8]) != "discoseg" || string(raw[64:70]) != "drawn\x00" || string(raw[12:16]) != "test" {
		t.Errorf("magic %q, kind %q, name %q", raw[:8], raw[12:16], raw[64:72])
	}
	total := (page + 5000 + page - 1) / page * page
	words(t, "header", raw, map[int]uint32{8: 1, 16: 0x05060708, 20: 0x01020304, 24: uint32(total), 28: 0,
		32: uint32(page), 36: 0, 40: 5000, 44: 0, 56: 0, 60: 0})
	if id := binary.LittleEndian.Uint64(raw[48:]); id != s.ID() || id == 0 {
		t.Errorf("creation id %#x, want %#x", id, s.ID())
	}
	for i, b := range raw[70:] {
		if b != 0 {
			t.Errorf("byte %d is %#x, want 0", 70+i, b)
		}
	}
}

// A pool as docs/format/block.md draws it: header, sizes, and a block free, on loan,
// with a peer, and free again.
func TestPoolIsTheOneThatIsDrawn(t *testing.T) {
	sizes := []BlockSize{{BlockBytes: 100, Count: 2}, {BlockBytes: 300, Count: 3}}
	size, err := PoolBytes(sizes)
	if err != nil || size != 640+2*256+3*512 {
		t.Fatalf("%d bytes, %v", size, err)
	}
	body := mustHeap(t, size).Body()
	if err := FormatPool(body, sizes); err != nil {
		t.Fatal(err)
	}
	if string(body[:8]) != "discopol" {
		t.Errorf("magic %q", body[:8])
	}
	words(t, "header", body, map[int]uint32{8: 1, 12: 2})
	words(t, "first size", body[128:], map[int]uint32{0: 100, 4: 0, 8: 640, 12: 0, 16: 256, 20: 0, 24: 0, 28: 2})
	words(t, "second size", body[160:], map[int]uint32{0: 300, 8: 640 + 512, 16: 512, 24: 2, 28: 3})
	words(t, "no third size", body[192:], map[int]uint32{0: 0, 8: 0, 16: 0, 24: 0, 28: 0})
	pool, err := NewPool(body)
	if err != nil {
		t.Fatal(err)
	}
	const fourth = 640 + 512 + 512 // block 3, the second one of the second size
	words(t, "free", body[fourth:], map[int]uint32{0: 0, 4: 0, 8: 0, 12: 0, 16: 3})
	for range 2 {
		if _, err := pool.Alloc(200); err != nil { // blocks 2 and 3
			t.Fatal(err)
		}
	}
	words(t, "on loan", body[fourth:], map[int]uint32{0: 1, 4: 0, 8: 200, 12: 0, 16: 3})
	pool.Lend(3, 7)
	words(t, "with a peer", body[fourth:], map[int]uint32{0: 1, 4: 0, 8: 200, 12: 8})
	if err := pool.FreeFrom(7, 3, 1); err != nil {
		t.Fatal(err)
	}
	words(t, "free again", body[fourth:], map[int]uint32{0: 2, 4: 0, 16: 3})
}
