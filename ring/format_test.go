// SPDX-License-Identifier: Apache-2.0

package ring_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/disco-sim/disco/internal/aligned"
	"github.com/disco-sim/disco/ring"
)

// A short life of a ring, byte by byte as docs/format/ring.md draws it: two records
// published together, padding at the end of the data area, a record in the next lap,
// the end mark, and the head when the consumer has closed.
func TestFormatIsTheOneThatIsDrawn(t *testing.T) {
	mem := aligned.Bytes(ring.Size(64), ring.Alignment)
	if err := ring.Init(mem, ring.Config{Start: 0x1_0000 * 64}); err != nil { // the lap's 16 bits have wrapped
		t.Fatal(err)
	}
	p, err := ring.OpenProducer(mem)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ring.OpenConsumer(mem)
	if err != nil {
		t.Fatal(err)
	}
	word := func(offset int) uint64 { return binary.LittleEndian.Uint64(mem[offset:]) }
	expect := func(when string, words map[int]uint64) {
		t.Helper()
		for offset, want := range words {
			if got := word(offset); got != want {
				t.Errorf("%s: the word at %d is %#016x, want %#016x", when, offset, got, want)
			}
		}
	}
	put := func(text string) {
		t.Helper()
		rec, err := p.Claim(len(text))
		if err != nil {
			t.Fatal(err)
		}
		copy(rec, text)
		p.Commit()
	}
	take := func(want ...string) {
		t.Helper()
		for _, w := range want {
			if rec, err := c.Next(); err != nil || string(rec) != w {
				t.Fatalf("%q, %v, want %q", rec, err, w)
			}
		}
		c.Release()
	}
	const start, data = 0x1_0000 * 64, 384

	expect("formatted and opened", map[int]uint64{
		8: 64, 16: start,
		136: 1,
		256: start, 264: 1,
		data: 0,
	})
	if got := string(mem[:7]); got != "DISCORN" || mem[7] != 'G'^3 {
		t.Errorf("the format word is %q", mem[:8])
	}

	put("abc")
	put("")
	expect("committed", map[int]uint64{data: 0})
	p.Publish()
	expect("published", map[int]uint64{data: 0x0000_D501_0000_0003, data + 16: 0x0000_D501_0000_0000, data + 24: 0,
		256: start})
	if got := string(mem[data+8 : data+11]); got != "abc" {
		t.Errorf("the body is %q", got)
	}
	take("abc", "")
	expect("released", map[int]uint64{256: start + 24})

	put("twenty-four bytes: text.")
	p.Publish()
	expect("at the end", map[int]uint64{data + 24: 0x0000_D501_0000_0018})
	take("twenty-four bytes: text.")

	put("wrapped") // 8 bytes are left up to the end: padding
	p.Close()
	expect("padded and closed", map[int]uint64{data + 56: 0x0000_D502_0000_0000, data: 0x0001_D501_0000_0007,
		data + 16: 0x0001_D503_0000_0000})
	take("wrapped")
	c.Close()
	expect("both closed", map[int]uint64{256: start + 80 | 1})
}

// A record that is published alone to a consumer that waits leaves the rest of its last line free. The header behind
// the next one of the same size is cleared already.
func TestFormatOfRecordsPublishedAlone(t *testing.T) {
	mem := aligned.Bytes(ring.Size(4096), ring.Alignment)
	if err := ring.Init(mem, ring.Config{}); err != nil {
		t.Fatal(err)
	}
	for i := ring.ControlBytes + 8; i < len(mem); i++ {
		mem[i] = 0xEE
	}
	p, err := ring.OpenProducer(mem)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ring.OpenConsumer(mem)
	if err != nil {
		t.Fatal(err)
	}
	word := func(at int) uint64 { return binary.LittleEndian.Uint64(mem[ring.ControlBytes+at:]) }
	for n := range 3 {
		rec, err := p.Stage(100)
		if err != nil {
			t.Fatal(err)
		}
		copy(rec, bytes.Repeat([]byte{7}, 100))
		p.Publish()
		got := [3]uint64{word(128 * n), word(128 * (n + 1)), word(128 * (n + 2))}
		if got != [3]uint64{0xD581_0000_0064, 0, 0xEEEE_EEEE_EEEE_EEEE} {
			t.Errorf("after record %d the words of three records are %#x", n, got)
		}
		if rec, err := c.Next(); len(rec) != 100 || err != nil || !c.Alone() || c.Position() != uint64(128*(n+1)) {
			t.Errorf("record %d: %d bytes, %v, alone %t, position %d", n, len(rec), err, c.Alone(), c.Position())
		}
		c.Release()
	}
	if !p.PublishAlone(1, 2, 3, 4, []byte{5}) || [7]uint64{word(384), word(392), word(400), word(408), word(416),
		word(424), word(448)} != [7]uint64{0xD581_0000_0021, 1, 2, 3, 4, 0xEEEE_EEEE_EEEE_EE05, 0} {
		t.Errorf("four words and a byte alone: words %#x", mem[ring.ControlBytes+384:][:72])
	}
	for range 2 {
		if _, err := p.Stage(100); err != nil {
			t.Fatal(err)
		}
	}
	p.Publish()
	if word(448) != 0xD501_0000_0064 || word(448+112) != 0xD501_0000_0064 || word(448+224) != 0 {
		t.Errorf("two records together: words %#x, %#x, %#x", word(448), word(448+112), word(448+224))
	}
}
