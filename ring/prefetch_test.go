// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"bytes"
	"errors"
	"math/rand"
	"testing"

	"github.com/disco-sim/disco/internal/aligned"
)

// The lines that a producer asks for are whole, within the data area, behind the one of the next header, which the
// consumer looks at, and free: no byte of them may still be read. Where there is room they reach the header after the
// next record.
func TestAhead(t *testing.T) {
	const capacity = 1 << 13
	mem := aligned.Bytes(Size(capacity), Alignment)
	if err := Init(mem, Config{Start: 3 * capacity / 4}); err != nil {
		t.Fatal(err)
	}
	p, err := OpenProducer(mem)
	if err != nil {
		t.Fatal(err)
	}
	c, err := OpenConsumer(mem)
	if err != nil {
		t.Fatal(err)
	}
	rng, some, far := rand.New(rand.NewSource(1)), 0, 0
	for range 20000 {
		size := uint64(rng.Intn(3000))
		if rec, err := p.Claim(int(size)); err == nil {
			clear(rec)
			p.PublishClaimed()
		} else if !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
		from, lines := p.ahead(size)
		end := from + lines*lineBytes
		if lines != 0 {
			some++
		}
		if from%lineBytes != 0 || lines != 0 && (from <= p.staged || end > c.released+capacity-headerBytes ||
			(end-1)/capacity != p.staged/capacity) || lines*lineBytes > aheadMax {
			t.Fatalf("%d lines from %d on, staged %d, released %d", lines, from, p.staged, c.released)
		}
		if next := p.staged + size; size >= lineBytes && next+3*lineBytes <= p.bound {
			if far++; end <= next {
				t.Fatalf("%d lines from %d on, staged %d: the header at %d isn't in them", lines, from, p.staged, next)
			}
		}
		if rng.Intn(3) == 0 {
			for rec, err := c.Next(); rec != nil; rec, err = c.Next() {
				if err != nil {
					t.Fatal(err)
				}
			}
			c.Release()
		}
	}
	if some < 1000 || far < 1000 {
		t.Fatalf("lines were asked for %d times only, up to the next header but one %d times", some, far)
	}
}

// Asking for lines and giving them away change nothing, and no address is wrong.
func TestPrefetch(t *testing.T) {
	mem := aligned.Bytes(4096, 4096)
	for i := range mem {
		mem[i] = byte(i * 7)
	}
	before := bytes.Clone(mem)
	m := memoryOf(mem)
	for _, lines := range []uint64{0, 1, 64, 1 << 16} { // far behind the end
		prefetchStore(m.word(0), lines)
		demote(m.word(0), lines)
	}
	if !bytes.Equal(mem, before) {
		t.Fatal("memory has changed")
	}
}

// Lines are asked for when a long record is published, or in Prepare, once, if it is called at all and the consumer
// waits for each record.
func TestPrepare(t *testing.T) {
	const capacity = 1 << 16
	mem := aligned.Bytes(Size(capacity), Alignment)
	if err := Init(mem, Config{}); err != nil {
		t.Fatal(err)
	}
	p, err := OpenProducer(mem)
	if err != nil {
		t.Fatal(err)
	}
	publish := func(n int) uint64 {
		at := p.staged
		if _, err := p.Claim(n); err != nil {
			t.Fatal(err)
		}
		p.PublishClaimed()
		return p.staged - at
	}
	want := func(what string, due uint64) {
		t.Helper()
		if p.due != due {
			t.Errorf("%s: %d bytes are due, want %d", what, p.due, due)
		}
	}
	publish(1000)
	want("Prepare wasn't called yet", 0)
	p.Prepare()
	if size := publish(1000); !p.apart || size != 1008 {
		t.Fatalf("%d bytes, alone %t", size, p.apart)
	}
	want("long record", 1008)
	p.Prepare()
	want("after Prepare", 0)
	publish(100)
	want("short record", 0)
	if !p.PublishAlone(1, 2, 3, 4, make([]byte, 1000)) {
		t.Fatal("not published")
	}
	want("long record in one step", 1040)
	p.Prepare()
	p.apart = false
	publish(1000)
	want("the consumer doesn't wait", 0)
}
