// SPDX-License-Identifier: Apache-2.0

package blobproc

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/disco-sim/disco/internal/seed"
)

// packs is packs in memory that count how they are read.
type packs struct {
	data  map[string][]byte
	gets  int
	bytes int64
	err   error
}

func (p *packs) get(_ context.Context, name string, from, size int64, _ []byte) ([]byte, error) {
	if p.err != nil {
		return nil, p.err
	}
	data := p.data[name]
	data = data[min(from, int64(len(data))):]
	data = data[:min(size, int64(len(data)))]
	p.gets, p.bytes = p.gets+1, p.bytes+int64(len(data))
	return bytes.Clone(data), nil
}

// makePacks has packs of pseudo-random bytes.
func makePacks(size int, names ...string) *packs {
	p := &packs{data: map[string][]byte{}}
	for i, name := range names {
		data := make([]byte, size)
		random := rand.NewChaCha8([32]byte{byte(i)})
		random.Read(data)
		p.data[name] = data
	}
	return p
}

// TestAhead: what is read is what is there, in whatever order, and small pieces one behind the other take few gets.
func TestAhead(t *testing.T) {
	const size = 10<<20 + 7
	p := makePacks(size, "packs/a", "packs/b", "points/c")
	a := newAhead(p.get)
	buf := make([]byte, 0, 10_000)
	for at := 0; at < size+5000; at += 10_000 {
		for _, name := range []string{"packs/a", "packs/b"} {
			found, err := a.read(t.Context(), name, int64(at), 10_000, buf)
			want := p.data[name][min(at, size):min(at+10_000, size)]
			if err != nil || !bytes.Equal(found, want) {
				t.Fatalf("%s: %d bytes at %d, %v, want %d", name, len(found), at, err, len(want))
			}
		}
	}
	if p.gets > 8 {
		t.Errorf("%d gets of %d bytes, want 4 for each pack at most", p.gets, p.bytes)
	}
	random := seed.Rand(t)
	for range 300 {
		name := []string{"packs/a", "packs/b", "points/c"}[random.IntN(3)]
		at, n := random.Int64N(size+10), random.Int64N(1<<random.IntN(23))
		found, err := a.read(t.Context(), name, at, n, nil)
		if err != nil || !bytes.Equal(found, p.data[name][min(at, size):min(at+n, size)]) {
			t.Fatalf("%s: %d bytes at %d: %d, %v", name, n, at, len(found), err)
		}
		if random.IntN(200) == 0 {
			a.clear()
		}
		if total := blocksBytes(a); total != a.bytes || total > aheadBytesMax {
			t.Fatalf("%d bytes are kept, %d are counted, want at most %d", total, a.bytes, aheadBytesMax)
		}
	}
}

func blocksBytes(a *ahead) (n int64) {
	for _, b := range a.blocks {
		n += int64(len(b.data))
	}
	return n
}

// TestAheadFull: where pieces are read from more places than there is room for, not much more is read than is asked
// for, and no more is kept than there is room for.
func TestAheadFull(t *testing.T) {
	const places, each, piece = 300, 8 << 10, 256
	p := makePacks(places*each, "packs/a")
	a := newAhead(p.get)
	a.room, a.most, a.least, a.next = aheadBytesMax>>6, blockBytesMost>>6, blockBytesLeast>>6, blockBytesMost>>6
	asked, least := int64(0), a.next
	for at := int64(0); at < each; at += piece {
		for place := range int64(places) {
			from := place*each + at
			found, err := a.read(t.Context(), "packs/a", from, piece, nil)
			if err != nil || !bytes.Equal(found, p.data["packs/a"][from:from+piece]) {
				t.Fatalf("at %d: %d bytes, %v", from, len(found), err)
			}
			asked, least = asked+piece, min(least, a.next)
		}
		if a.bytes > a.room {
			t.Fatalf("%d bytes are kept, want at most %d", a.bytes, a.room)
		}
	}
	if p.bytes > 20*asked || p.bytes < asked {
		t.Errorf("%d bytes were read in %d gets for %d that were asked for", p.bytes, p.gets, asked)
	}
	if least == a.most {
		t.Error("there was room for all, so nothing was tried")
	}
	t.Logf("%.1f times of what was asked for was read, %d bytes a get", float64(p.bytes)/float64(asked),
		p.bytes/int64(p.gets))
}

// TestAheadForgets: what was replaced is read anew when something else was done; an error keeps nothing.
func TestAheadForgets(t *testing.T) {
	p := makePacks(1000, "packs/a")
	a := newAhead(p.get)
	p.err = errors.New("gone")
	if _, err := a.read(t.Context(), "packs/a", 0, 10, nil); !errors.Is(err, p.err) || len(a.blocks) > 0 {
		t.Errorf("%v, %d blocks", err, len(a.blocks))
	}
	p.err = nil
	first, err := a.read(t.Context(), "packs/a", 0, 10, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.data["packs/a"] = make([]byte, 1000)
	for range 2 {
		second, err := a.read(t.Context(), "packs/a", 0, 10, nil)
		if err != nil || bytes.Equal(first, second) != (len(a.blocks) == 1 && p.gets == 1) {
			t.Errorf("%x, then %x, %v", first, second, err)
		}
		a.clear()
	}
}
