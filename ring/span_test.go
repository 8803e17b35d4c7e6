// SPDX-License-Identifier: Apache-2.0

package ring_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/disco-sim/disco/ring"
)

func all([]byte) bool { return true }

// spanOf puts records side by side, as in a ring.
func spanOf(bodies ...[]byte) (span []byte) {
	for _, b := range bodies {
		span = binary.LittleEndian.AppendUint64(span, uint64(len(b)))
		span = append(span, b...)
		span = append(span, make([]byte, -len(b)&7)...)
	}
	return span
}

// Records of all lengths go through two rings of any size, from one to the other in spans and one by one, from
// positions at which rings pad, begin a new lap, and pass 2^64.
func TestSpansPassOn(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 300 {
		size := func() int { return 32 << rng.IntN(10) }
		in, out := size(), size()
		from, fromEnd := open(t, in, uint64(rng.IntN(in/8))*8-uint64(in))
		to, toEnd := open(t, out, uint64(rng.IntN(out/8))*8-uint64(out))
		most := min(from.MaxRecord(), to.MaxRecord())
		var sent, got int
		body := func(n int) []byte {
			b := make([]byte, n*7919%(most+1))
			for i := range b {
				b[i] = byte(n + i)
			}
			return b
		}
		var wait []byte // taken and not passed on
		for got < 300 {
			for range rng.IntN(20) {
				b := body(sent)
				rec, err := from.Stage(len(b))
				if err != nil {
					break
				}
				copy(rec, b)
				sent++
			}
			from.Publish()
			wait = append(wait, takeSome(t, fromEnd, rng)...)
			n, _, err := to.StageSpan(wait)
			if err != nil && !errors.Is(err, ring.ErrFull) || err == nil && n != len(wait) {
				t.Fatalf("seed %d: staged %d bytes of %d: %v", seed, n, len(wait), err)
			}
			wait = wait[n:]
			to.Publish()
			for range rng.IntN(20) {
				rec, err := toEnd.Next()
				if err != nil {
					t.Fatal(err)
				}
				if rec == nil {
					break
				}
				if want := body(got); !bytes.Equal(rec, want) {
					t.Fatalf("seed %d: record %d is % x, want % x", seed, got, rec, want)
				}
				got++
			}
			toEnd.Release()
		}
	}
}

// takeSome copies a few records, in a span or alone, as who passes them on does.
func takeSome(t *testing.T, c *ring.Consumer, rng *rand.Rand) (taken []byte) {
	t.Helper()
	left := rng.IntN(20)
	if rng.IntN(4) > 0 {
		span := c.NextSpan(rng.IntN(4000), func([]byte) bool { left--; return left >= 0 })
		taken = append(taken, span...)
		for at := 0; at < len(taken); at += 8 + (int(binary.LittleEndian.Uint32(taken[at:]))+7)&^7 {
			binary.LittleEndian.PutUint32(taken[at+4:], 0)
		}
	} else if rec, err := c.Next(); err != nil {
		t.Fatal(err)
	} else if rec != nil {
		taken = spanOf(rec)
	}
	c.Release()
	return taken
}

// NextSpan ends where it is to, and leaves to Next what only Next knows.
func TestNextSpanEnds(t *testing.T) {
	p, c := open(t, 4096, 0)
	if span := c.NextSpan(1000, all); span != nil {
		t.Errorf("%d bytes in an empty ring", len(span))
	}
	for n := range 4 {
		rec, err := p.Stage(8 * n)
		if err != nil {
			t.Fatal(err)
		}
		copy(rec, bytes.Repeat([]byte{byte(n)}, 8*n))
	}
	if span := c.NextSpan(1000, all); span != nil {
		t.Errorf("%d bytes that aren't published", len(span))
	}
	p.Publish()
	for _, x := range []struct {
		most   int
		accept func([]byte) bool
		want   int
	}{{7, all, 0}, {8, all, 8}, {39, all, 16}, {1000, func(b []byte) bool { return b[0] != 3 }, 24}, {31, all, 0},
		{32, all, 32}} {
		if span := c.NextSpan(x.most, x.accept); len(span) != x.want {
			t.Errorf("%d bytes of at most %d, want %d", len(span), x.most, x.want)
		}
	}
	c.Release()
	rec, err := p.Claim(16) // to a consumer that has read everything
	if err != nil {
		t.Fatal(err)
	}
	clear(rec)
	p.PublishClaimed()
	p.Close()
	span, alone := c.NextSpan(1000, all), false
	if span == nil {
		rec, err = c.Next()
		if alone = c.Alone(); len(rec) != 16 || err != nil {
			t.Errorf("%d bytes, %v, want the record", len(rec), err)
		}
	}
	if !alone && len(span) != 24 {
		t.Errorf("%d bytes, want the record", len(span))
	}
	if span := c.NextSpan(1000, all); span != nil {
		t.Errorf("%d bytes at the end", len(span))
	}
	if _, err := c.Next(); err != ring.ErrClosed {
		t.Errorf("%v, want the end", err)
	}
	if span := c.NextSpan(1000, all); span != nil {
		t.Errorf("%d bytes behind the end", len(span))
	}
}

// StageSpan stops in front of what is no record, and says what Stage says of one for which there is no room.
func TestStageSpanEnds(t *testing.T) {
	one := []byte("12345678")
	word := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	for _, x := range []struct {
		name           string
		span           []byte
		bytes, records int
		err            error
	}{
		{"nothing", nil, 0, 0, nil},
		{"three", spanOf(one, nil, one[:3]), 40, 3, nil},
		{"half a word", append(spanOf(one), 1, 2, 3), 16, 1, nil},
		{"a length without its record", append(spanOf(one), word(1)...), 16, 1, nil},
		{"an upper half", append(spanOf(one), append(word(1<<32), one...)...), 16, 1, nil},
		{"too long", append(spanOf(one), append(word(121), make([]byte, 500)...)...), 16, 1, nil},
		{"the longest", spanOf(make([]byte, 120)), 128, 1, nil},
		{"more than the ring", spanOf(make([]byte, 112), make([]byte, 112), one), 240, 2, ring.ErrFull},
	} {
		p, c := open(t, 256, 0)
		n, records, err := p.StageSpan(x.span)
		if n != x.bytes || records != x.records || err != x.err {
			t.Errorf("%s: %d bytes, %d records, %v, want %d, %d, %v", x.name, n, records, err, x.bytes, x.records,
				x.err)
		}
		if got := p.Publish(); got != x.records {
			t.Errorf("%s: %d were published, want %d", x.name, got, x.records)
		}
		if span := c.NextSpan(256, all); len(span) != x.bytes {
			t.Errorf("%s: %d bytes came, want %d", x.name, len(span), x.bytes)
		}
		c.Close()
		p.Close()
		if _, _, err := p.StageSpan(spanOf(one)); err != ring.ErrClosed {
			t.Errorf("%s: %v behind the end, want ErrClosed", x.name, err)
		}
	}
}
