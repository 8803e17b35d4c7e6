// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/blobproc"
	"github.com/disco-sim/disco/internal/workerproc"
)

var benchBytes = flag.Int64("bytes", 1<<30, "of the checkpoint that is benchmarked")

const benchChunkBytes = 16 << 20

// benchWay is a way to write, and to read, the same bytes.
type benchWay struct {
	name        string
	write, read func() error
	took        [2]time.Duration
}

// BenchmarkPlaces commits and reads a checkpoint whose chunks can't be compressed, in each place, beside bare loops
// that do the same, one after the other in each round:
//
//	go test -run - -bench Places -benchtime 3x ./internal/checkpoint/s3
func BenchmarkPlaces(b *testing.B) {
	server := start(b)
	spool, chunks := benchSpool(b)
	near := open(b, server.Addr(), "near")
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	for name, value := range map[string]string{endpointVar: "http://" + server.Addr(), keyVar: near.secrets[2],
		secretVar: near.secrets[0], regionVar: "us-east-1"} {
		b.Setenv(name, value)
	}
	far, err := blobproc.Start(b.Context(), blobproc.Config{Executable: exe, Address: "s3://" + bucket + "/far",
		Log: workerproc.NewLineWriter(os.Stderr)})
	if err != nil {
		b.Fatal(err)
	}
	defer far.Close()
	dir := b.TempDir()
	ways := []*benchWay{repoWay(b, "dir", checkpoint.NewDir(filepath.Join(dir, "repo")), spool, chunks),
		fileWay(filepath.Join(dir, "bare"), spool), repoWay(b, "s3", near, spool, chunks), minioWay(near, spool),
		repoWay(b, "process", far, spool, chunks)}
	b.SetBytes(2 * int64(len(ways)) * *benchBytes)
	for b.Loop() {
		for _, w := range ways {
			for i, do := range []func() error{w.write, w.read} {
				begin := time.Now()
				if err := do(); err != nil {
					b.Fatalf("%s: %v", w.name, err)
				}
				w.took[i] += time.Since(begin)
			}
		}
	}
	for _, w := range ways {
		for i, what := range []string{"write", "read"} {
			b.ReportMetric(float64(b.N)*float64(*benchBytes)/1e6/w.took[i].Seconds(), w.name+"-"+what+"-MB/s")
		}
	}
}

// benchSpool is a spool of chunks.
func benchSpool(b *testing.B) (*os.File, []checkpoint.Chunk) {
	f, err := os.Create(filepath.Join(b.TempDir(), "spool"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	spool := checkpoint.NewSpool(f)
	var chunks []checkpoint.Chunk
	data := make([]byte, benchChunkBytes-1024) // with zstd's own bytes less than 16 MiB
	for i := range max(1, *benchBytes/benchChunkBytes) {
		rand.Read(data)
		c, err := spool.Add(checkpoint.Chunk{Kind: checkpoint.Nodes, First: uint32(i), Nodes: 1}, data)
		if err != nil {
			b.Fatal(err)
		}
		chunks = append(chunks, c)
	}
	*benchBytes = spool.Size() // for the others
	return f, chunks
}

// repoWay commits a checkpoint after the other, keeps one, and reads all of it.
func repoWay(b *testing.B, name string, blobs checkpoint.Blobs, spool *os.File, chunks []checkpoint.Chunk) *benchWay {
	ctx := context.Background()
	r := run()
	r.Nodes, r.Simprocs, r.Horizon = int64(len(chunks)), int64(len(chunks)), 1e6
	repo, err := checkpoint.Create(ctx, blobs, r)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { repo.Close() })
	epoch := 0.0
	return &benchWay{name: name, write: func() error {
		epoch++
		// The end of the spool tells one pack from the one before: its chunks are in another order.
		chunks = append(chunks[1:], chunks[0])
		d := repo.Begin()
		if err := d.Add(spool, int64(len(chunks))*benchChunkBytes*2, chunks); err != nil {
			return err
		}
		if err := d.Commit(ctx, &checkpoint.Manifest{Epoch: epoch}); err != nil {
			return err
		}
		_, err := repo.Prune(ctx, 1)
		return err
	}, read: func() error {
		m, err := repo.Find(ctx, "latest", 0)
		if err != nil {
			return err
		}
		var buf []byte
		return repo.Chunks(ctx, m, func(c checkpoint.Chunk) (err error) {
			buf, err = repo.Read(ctx, m, c, buf)
			return err
		})
	}}
}

// fileWay is a loop of read and write with an fsync at the end, and of read and SHA-256.
func fileWay(path string, spool *os.File) *benchWay {
	buf := make([]byte, 1<<20)
	return &benchWay{name: "file", write: func() error {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		defer f.Close()
		from := io.NewSectionReader(spool, 0, *benchBytes)
		if _, err := io.CopyBuffer(struct{ io.Writer }{f}, from, buf); err != nil {
			return err
		}
		return f.Sync()
	}, read: func() error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.CopyBuffer(sha256.New(), struct{ io.Reader }{f}, buf)
		return err
	}}
}

// minioWay is the client by itself: four parts of 16 MiB at once, and gets of 16 MiB with SHA-256.
func minioWay(s *Store, spool *os.File) *benchWay {
	ctx := context.Background()
	return &benchWay{name: "minio", write: func() error {
		_, err := s.core.Client.PutObject(ctx, bucket, "bare", io.NewSectionReader(spool, 0, *benchBytes), *benchBytes,
			minio.PutObjectOptions{PartSize: partLeast, NumThreads: flights})
		return err
	}, read: func() error {
		var data bytes.Buffer
		for at := int64(0); at < *benchBytes; at += benchChunkBytes {
			var o minio.GetObjectOptions
			if err := o.SetRange(at, at+benchChunkBytes-1); err != nil {
				return err
			}
			body, _, _, err := s.core.GetObject(ctx, bucket, "bare", o)
			if err != nil {
				return err
			}
			data.Reset()
			if n, err := io.Copy(&data, body); err != nil || n != benchChunkBytes && at+n < *benchBytes {
				return fmt.Errorf("%d bytes: %w", n, err)
			}
			body.Close()
			sha256.Sum256(data.Bytes())
		}
		return nil
	}}
}
