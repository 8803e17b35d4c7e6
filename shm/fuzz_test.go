// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"github.com/disco-sim/disco/internal/printable"
)

// Any header of any file: what parseHeader accepts can be mapped and sliced.
func FuzzHeader(f *testing.F) {
	page := int64(os.Getpagesize())
	f.Add(goodHeader(3), 3*page, uint32(testKind), 0, 0)
	f.Add(goodHeader(2), 3*page, uint32(testKind), 1, 0)
	f.Add(make([]byte, HeaderBytes), page, uint32(0), 0, 1)
	f.Fuzz(func(t *testing.T, raw []byte, fileBytes int64, kind uint32, size, sizeMax int) {
		if len(raw) < HeaderBytes {
			raw = append(raw, make([]byte, HeaderBytes-len(raw))...)
		}
		want := Want{Kind: Kind(kind), Size: size, SizeMax: sizeMax}
		h, err := parseHeader(raw[:HeaderBytes], fileBytes, want)
		if err != nil {
			for _, known := range []error{ErrMagic, ErrByteOrder, ErrVersion, ErrKind, ErrSize, ErrIdentity} {
				if errors.Is(err, known) {
					return
				}
			}
			t.Fatalf("untyped refusal: %v", err)
		}
		switch {
		case int64(h.totalBytes) != fileBytes, h.totalBytes > BytesMax,
			h.bodyOffset != HeaderBytes && (h.bodyOffset < HeaderBytes || h.bodyOffset%int(page) != 0),
			h.bodyBytes <= 0, h.bodyOffset+h.bodyBytes > h.totalBytes,
			h.kind != Kind(kind), size > 0 && h.bodyBytes != size, sizeMax > 0 && h.bodyBytes > sizeMax,
			printable.ASCII([]byte(h.name)) != h.name:
			t.Fatalf("accepted %+v of a file of %d bytes for %+v", h, fileBytes, want)
		}
	})
}

// Any bytes as a pool, any reference into it: a view never reaches outside one
// block, and a pool that opens can be used.
func FuzzPoolView(f *testing.F) {
	sizes := []BlockSize{{64, 2}, {300, 1}}
	size, err := PoolBytes(sizes)
	if err != nil {
		f.Fatal(err)
	}
	good := alignedBytes(size, blockAlign)
	if err := FormatPool(good, sizes); err != nil {
		f.Fatal(err)
	}
	f.Add(good, uint32(0), uint32(10), uint64(1))
	lent := append([]byte(nil), good...)
	lent[PoolHeaderBytes] = 1
	lent[PoolHeaderBytes+offsetBlockLoan] = 64
	f.Add(lent, uint32(0), uint32(64), uint64(1))
	f.Add(lent, uint32(2), uint32(64), uint64(1))
	f.Fuzz(func(t *testing.T, raw []byte, number, length uint32, seq uint64) {
		body := alignedBytes(len(raw), blockAlign)
		copy(body, raw)
		v, err := OpenPoolView(body)
		if err != nil {
			if !errors.Is(err, ErrPool) {
				t.Fatalf("untyped refusal: %v", err)
			}
			return
		}
		got, err := v.View(number, length, seq)
		switch {
		case err == nil:
			c := v.sizes[sizeOf(v.sizes, number)]
			at := c.at(number)
			if len(got) != int(length) || cap(got) != len(got) || len(got) > c.payloadMax || len(got) > 0 &&
				!inside(got, body[at+BlockHeaderBytes:at+c.stride]) {
				t.Fatalf("view of %d bytes (cap %d) for %d of block %d", len(got), cap(got), length, number)
			}
		case !errors.Is(err, ErrBlockNumber) && !errors.Is(err, ErrBlockStale) && !errors.Is(err, ErrBlockLength):
			t.Fatalf("untyped refusal: %v", err)
		}
		p, err := NewPool(body)
		if err != nil {
			t.Fatalf("the view opens and the pool doesn't: %v", err)
		}
		for range 4 {
			b, err := p.Alloc(v.PayloadMax())
			if err != nil {
				break
			}
			b.Bytes[0], b.Bytes[len(b.Bytes)-1] = 1, 2
			if got, err := v.View(b.Number, uint32(len(b.Bytes)), b.Seq); err != nil || got[0] != 1 && len(got) > 1 {
				t.Fatalf("block %d: %v", b.Number, err)
			}
		}
		if err := p.Free(number, seq); err != nil && !errors.Is(err, ErrBlockNumber) &&
			!errors.Is(err, ErrBlockStale) && !errors.Is(err, ErrBlockFree) {
			t.Fatalf("untyped refusal: %v", err)
		}
	})
}

// A doorbell over any word: each call returns, with one of its own answers.
func FuzzDoorbell(f *testing.F) {
	f.Add(uint32(0), uint32(1))
	f.Add(^uint32(0), ^uint32(0))
	f.Fuzz(func(t *testing.T, first, second uint32) {
		mem := alignedBytes(DoorbellBytes, DoorbellBytes)
		binary.LittleEndian.PutUint32(mem, first)
		d := mustBell(t, mem)
		d.Ring()
		token := d.Arm()
		if second != 0 {
			d.word.Store(second)
		}
		if err := d.Wait(token, 1000); err != nil && err != ErrTimeout {
			t.Fatal(err)
		}
		d.RingAfterFence()
		d.Disarm()
		if d.Armed() {
			t.Fatalf("armed after %#x and %#x", first, second)
		}
	})
}
