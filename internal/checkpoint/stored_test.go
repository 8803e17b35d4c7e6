// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/disco-sim/disco/internal/seed"
)

// What is stored as it is comes back as it was, over any number of blocks, also beside what is compressed; a bit that
// has changed is found.
func TestAppendStored(t *testing.T) {
	rng := seed.Rand(t)
	var bundle []byte
	var want [][]byte
	var bundler Bundler
	for _, size := range []int{1, 2, 1000, blockMost - 1, blockMost, blockMost + 1, 2 * blockMost, 3*blockMost + 77} {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		at := len(bundle)
		bundle = AppendStored(bundle, Chunk{Kind: Hashes, From: 2}, data)
		if n := binary.LittleEndian.Uint64(bundle[at+24:]); int(n) != len(bundle)-at-rowBytes {
			t.Fatalf("%d bytes: a frame of %d bytes, and the row says %d", size, len(bundle)-at-rowBytes, n)
		}
		var err error
		if bundle, err = bundler.Append(bundle, Chunk{Kind: Layout}, data[:1]); err != nil {
			t.Fatal(err)
		}
		want = append(want, data, data[:1])
	}
	read := func(bundle []byte) (n int, err error) {
		err = ReadBundle(bytes.NewReader(bundle), 1, func(c Chunk, data []byte) error {
			if !bytes.Equal(data, want[n]) || (c.Kind == Hashes) != (n%2 == 0) || c.Raw != int64(len(data)) {
				return errors.New("it has other bytes")
			}
			n++
			return nil
		})
		return n, err
	}
	if n, err := read(bundle); err != nil || n != len(want) {
		t.Fatalf("%d chunks of %d come back: %v", n, len(want), err)
	}
	for range 100 {
		bad := bytes.Clone(bundle)
		bad[rowBytes+rng.IntN(len(bad)-rowBytes)] ^= 1 << rng.IntN(8)
		if n, err := read(bad); err == nil && n == len(want) {
			t.Fatal("a bit has changed, and nothing was found")
		}
	}
}

// A bundle that is cut off anywhere but between two chunks is damaged; what stood before the cut is given out. Whoever
// is given the chunks may stop at any of them, and nothing is read any more then.
func TestReadBundleEndsEarly(t *testing.T) {
	const chunks = 6
	var bundle []byte
	whole := map[int]bool{0: true}
	var bundler Bundler
	for n := range chunks {
		var err error
		if bundle, err = bundler.Append(bundle, Chunk{Kind: Layout}, bytes.Repeat([]byte{byte(n)}, 40)); err != nil {
			t.Fatal(err)
		}
		whole[len(bundle)] = true
	}
	for cut := range len(bundle) + 1 {
		given := 0
		err := ReadBundle(bytes.NewReader(bundle[:cut]), 1, func(_ Chunk, data []byte) error {
			if int(data[0]) != given || len(data) != 40 {
				t.Fatalf("found %d bytes of chunk %d, want chunk %d", len(data), data[0], given)
			}
			given++
			return nil
		})
		if (err == nil) != whole[cut] || cut == len(bundle) && given != chunks {
			t.Fatalf("of %d bytes: found %v behind %d chunks", cut, err, given)
		}
	}
	enough := errors.New("enough")
	for stop := range chunks {
		in, given := &counted{Reader: bytes.NewReader(bundle)}, 0
		err := ReadBundle(in, 1, func(Chunk, []byte) error {
			if given == stop {
				return enough
			}
			given++
			return nil
		})
		reads := in.reads
		if runtime.Gosched(); !errors.Is(err, enough) || given != stop || in.reads != reads {
			t.Fatalf("found %v behind %d chunks, want an end behind %d", err, given, stop)
		}
	}
}

// counted counts reads without a lock: the race detector finds one that is under way.
type counted struct {
	io.Reader
	reads int
}

func (c *counted) Read(p []byte) (int, error) {
	c.reads++
	return c.Reader.Read(p)
}
