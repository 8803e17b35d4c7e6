// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
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
