// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"bytes"
	"errors"
	"math/rand"
	"testing"

	"github.com/disco-sim/disco/internal/aligned"
)

// The lines that a producer asks for are whole, within the data area, behind what is staged and free: no byte of them
// may still be read.
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
	rng, some := rand.New(rand.NewSource(1)), 0
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
		if from%lineBytes != 0 || lines != 0 && (from < p.staged || end > c.released+capacity-headerBytes ||
			(end-1)/capacity != p.staged/capacity) || lines*lineBytes > aheadMax {
			t.Fatalf("%d lines from %d on, staged %d, released %d", lines, from, p.staged, c.released)
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
	if some < 1000 {
		t.Fatalf("lines were asked for %d times only", some)
	}
}

// Asking for lines changes nothing, and no address is wrong.
func TestPrefetch(t *testing.T) {
	mem := aligned.Bytes(4096, 4096)
	for i := range mem {
		mem[i] = byte(i * 7)
	}
	before := bytes.Clone(mem)
	m := memoryOf(mem)
	for _, lines := range []uint64{0, 1, 64, 1 << 16} { // far behind the end
		prefetchStore(m.word(0), lines)
		prefetchLoad(m.word(4088), lines)
	}
	if !bytes.Equal(mem, before) {
		t.Fatal("memory has changed")
	}
}
