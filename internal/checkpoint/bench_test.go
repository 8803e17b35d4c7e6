// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
)

const (
	benchChunks     = 16
	benchChunkBytes = 1 << 20
)

// benchData is chunks like states of nodes: counters that are near each other, times, and bits at random.
func benchData() (chunks [][]byte) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range benchChunks {
		data := make([]byte, 0, benchChunkBytes)
		for n := uint64(0); len(data)+32 <= benchChunkBytes; n++ {
			data = binary.LittleEndian.AppendUint64(data, n)
			data = binary.LittleEndian.AppendUint64(data, 1000+rng.Uint64N(100))
			data = binary.LittleEndian.AppendUint64(data, uint64(rng.NormFloat64()*1e6))
			data = binary.LittleEndian.AppendUint64(data, rng.Uint64())
		}
		chunks = append(chunks, data)
	}
	return chunks
}

// BenchmarkEncode: chunks into a spool, beside a bare loop of SHA-256, zstd and writing.
func BenchmarkEncode(b *testing.B) {
	chunks := benchData()
	b.Run("spool", func(b *testing.B) {
		b.SetBytes(benchChunks * benchChunkBytes)
		s := NewSpool(io.Discard)
		for b.Loop() {
			for i, data := range chunks {
				if _, err := s.Add(Chunk{Kind: Nodes, First: uint32(i), Nodes: 1}, data); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("bare", func(b *testing.B) {
		b.SetBytes(benchChunks * benchChunkBytes)
		w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderCRC(false))
		if err != nil {
			b.Fatal(err)
		}
		var frame []byte
		for b.Loop() {
			for _, data := range chunks {
				sum := sha256.Sum256(data)
				frame = w.EncodeAll(data, frame[:0])
				if _, err := io.Discard.Write(frame); err != nil || sum == [32]byte{} {
					b.Fatal(err)
				}
			}
		}
	})
}

// BenchmarkRead: all chunks of a checkpoint in a directory, beside a bare loop of pread, zstd and SHA-256 over the same
// file, with one buffer for all.
func BenchmarkRead(b *testing.B) {
	ctx := context.Background()
	dir := b.TempDir()
	run := testRun()
	r, err := Create(ctx, NewDir(dir), *run)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	spool, err := os.Create(filepath.Join(b.TempDir(), "spool"))
	if err != nil {
		b.Fatal(err)
	}
	defer spool.Close()
	s := NewSpool(spool)
	var chunks []Chunk
	for i, data := range benchData() {
		c, err := s.Add(Chunk{Kind: Nodes, First: uint32(i), Nodes: 1}, data)
		if err != nil {
			b.Fatal(err)
		}
		chunks = append(chunks, c)
	}
	d := r.Begin()
	if err := d.Add(spool, s.Size(), chunks); err != nil {
		b.Fatal(err)
	}
	m := &Manifest{Epoch: 1}
	if err := d.Commit(ctx, m); err != nil {
		b.Fatal(err)
	}
	chunks = nil
	if err := r.Chunks(ctx, m, func(c Chunk) error { chunks = append(chunks, c); return nil }); err != nil {
		b.Fatal(err)
	}
	b.Run("repo", func(b *testing.B) {
		b.SetBytes(benchChunks * benchChunkBytes)
		var data []byte
		for b.Loop() {
			for _, c := range chunks {
				if data, err = r.Read(ctx, m, c, data); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("bare", func(b *testing.B) { readBare(b, filepath.Join(dir, m.Packs[0].name()), chunks) })
}

func readBare(b *testing.B, path string, chunks []Chunk) {
	b.SetBytes(benchChunks * benchChunkBytes)
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		b.Fatal(err)
	}
	frame, data := make([]byte, 2*benchChunkBytes), make([]byte, 0, 2*benchChunkBytes)
	for b.Loop() {
		for i := range chunks {
			c := &chunks[i]
			if _, err := f.ReadAt(frame[:c.Size], c.At); err != nil {
				b.Fatal(err)
			}
			if data, err = z.DecodeAll(frame[:c.Size], data[:0]); err != nil {
				b.Fatal(err)
			}
			if Digest(sha256.Sum256(data)) != c.Digest {
				b.Fatal("other bytes")
			}
		}
	}
}
