// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/disco-sim/disco/internal/aligned"
)

// FuzzConsumer lays arbitrary bytes over a formatted ring, control area and data
// area alike, and reads: no panic, no record outside the data area or longer than
// allowed, no more records than there are header slots, and once there is an error
// it stays.
func FuzzConsumer(f *testing.F) {
	for _, capacity := range []int{32, 64, 256} {
		for _, start := range []uint64{0, uint64(capacity) - 16} {
			f.Add(uint8(capacity/32), start, seedRing(capacity, start), uint64(0b1010))
		}
	}
	f.Add(uint8(0), uint64(0), []byte{}, uint64(0))
	f.Add(uint8(1), uint64(1)<<63, []byte("\x00\x01\x02 not a ring"), ^uint64(0))
	f.Fuzz(func(t *testing.T, size uint8, start uint64, bytes []byte, releases uint64) {
		capacity := 32 << (size % 6)
		mem := aligned.Bytes(Size(capacity), Alignment)
		if err := Init(mem, Config{Start: start &^ 7}); err != nil {
			t.Fatal(err)
		}
		copy(mem[identityOffset+16:], bytes)
		c, err := OpenConsumer(mem)
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrTaken) {
				t.Fatalf("open: %v", err)
			}
			return
		}
		c.line = uint64(max(8, capacity/4>>(releases%3))) // small rings have none
		for n := 0; ; n++ {
			if n > capacity/8 {
				t.Fatalf("%d records out of %d slots", n, capacity/8)
			}
			var rec []byte
			if releases>>(n%64)&2 != 0 {
				rec = c.NextAlone()
			}
			if rec == nil {
				rec, err = c.Next()
			}
			if rec == nil {
				checkEnd(t, c, err)
				return
			}
			if len(rec) > c.MaxRecord() || cap(rec) != len(rec) || capFrom(c.data, rec) < len(rec) {
				t.Fatalf("record of %d bytes, capacity %d, longest allowed %d", len(rec), cap(rec), c.MaxRecord())
			}
			if releases>>(n%64)&1 != 0 {
				c.Release()
			}
		}
	})
}

// checkEnd: what Next says when it gives no record is repeatable.
func checkEnd(t *testing.T, c *Consumer, err error) {
	t.Helper()
	if err != nil && err != ErrClosed && !errors.Is(err, ErrCorrupt) {
		t.Fatalf("next: %v", err)
	}
	if rec, again := c.Next(); rec != nil || again != err {
		t.Fatalf("next: %v, then %v and %d bytes", err, again, len(rec))
	}
	c.Release()
	c.Close()
}

// seedRing is the memory of a ring with some records behind its first word pair.
func seedRing(capacity int, start uint64) []byte {
	mem := aligned.Bytes(Size(capacity), Alignment)
	if err := Init(mem, Config{Start: start}); err != nil {
		panic(err)
	}
	p, err := OpenProducer(mem)
	if err != nil {
		panic(err)
	}
	for n := 0; ; n++ {
		if _, err := p.Claim(n % (p.MaxRecord() + 1)); err != nil {
			break
		}
		p.Commit()
	}
	p.Close()
	return mem[identityOffset+16:]
}

// FuzzProducer plays an arbitrary consumer against the producer: before each call
// the head word may be anything. No panic, every claim inside the data area, and
// once the producer has noticed it stays with its error.
func FuzzProducer(f *testing.F) {
	f.Add(uint8(0), []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Add(uint8(1), []byte("\x10\x00\x00\x00\x00\x00\x00\x00\x08\x20\x00\x00\x00\x00\x00\x00\x00\x08"))
	f.Add(uint8(2), []byte("\x11\x00\x00\x00\x00\x00\x00\x00\x08"))
	f.Fuzz(func(t *testing.T, size uint8, script []byte) {
		capacity := 32 << (size % 6)
		mem := aligned.Bytes(Size(capacity), Alignment)
		if err := Init(mem, Config{Start: -uint64(capacity)}); err != nil {
			t.Fatal(err)
		}
		p, err := OpenProducer(mem)
		if err != nil {
			t.Fatal(err)
		}
		p.line = uint64(max(headerBytes, capacity/4)) // so that small rings have lines
		var stopped error
		for ; len(script) >= 9; script = script[9:] {
			binary.LittleEndian.PutUint64(mem[consumerOffset:], binary.LittleEndian.Uint64(script)-uint64(capacity))
			if room := p.Room(); room < 0 || room > p.MaxRecord() {
				t.Fatalf("room %d", room)
			}
			n := int(script[8])
			at := p.Position()
			if p.look, p.apart = 1, true; n%4 == 0 && p.PublishAlone(1, 2, 3, 4, make([]byte, n)) {
				if took := p.Position() - at; stopped != nil || took < uint64(40+n) || took >= uint64(capacity) {
					t.Fatalf("%d bytes were published alone in %d after %v", 32+n, took, stopped)
				}
				continue
			}
			buf, err := p.Claim(n)
			if stopped != nil && err != stopped {
				t.Fatalf("claim: %v after %v", err, stopped)
			}
			if err == nil {
				if len(buf) != n || cap(buf) != n || capFrom(p.data, buf) < n {
					t.Fatalf("claim of %d gave %d bytes, capacity %d", n, len(buf), cap(buf))
				}
				if n%2 == 0 {
					p.PublishClaimed()
				} else {
					p.Commit()
					p.Publish()
				}
			} else if err == ErrClosed || errors.Is(err, ErrCorrupt) {
				stopped = err
			}
		}
	})
}
