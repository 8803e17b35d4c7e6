// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// A bundle is chunks on their way to who begins with them: for each its row (docs/format/checkpoint.md) and its frame,
// one behind the other. At is 0, and so is the index of the pack.

// Bundle writes chunks of a checkpoint to w as a bundle. They are not decoded: who reads the bundle verifies them.
func (r *Repo) Bundle(ctx context.Context, m *Manifest, w io.Writer, chunks []Chunk) error {
	out := bufio.NewWriterSize(w, packReadBytes)
	var row []byte
	for len(chunks) > 0 {
		n, size := adjacent(chunks)
		frames, err := r.framesOf(ctx, m, &chunks[0], size)
		if err != nil {
			return err
		}
		for _, c := range chunks[:n] {
			frame := frames[:min(c.Size, int64(len(frames)))]
			if frames = frames[len(frame):]; int64(len(frame)) != c.Size {
				return &DamagedError{Where: r.String(), Name: c.Pack.name(), Chunk: &c,
					Err: fmt.Errorf("found %d bytes, want %d: the file was cut short", len(frame), c.Size)}
			}
			c.At = 0
			row = appendRow(row[:0], &c, 0)
			_, err = out.Write(row)
			if err == nil {
				_, err = out.Write(frame)
			}
			if err != nil {
				return fmt.Errorf("checkpoint: %w", err)
			}
		}
		chunks = chunks[n:]
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

// adjacent is how many of the chunks are read together, and their bytes: those that lie side by side in one pack, up
// to packReadBytes. The chunks of a large run have some thousand bytes each, and each reading opens a file, or asks an
// object store.
func adjacent(chunks []Chunk) (n int, size int64) {
	for i := range chunks {
		c := &chunks[i]
		if i > 0 && (c.Pack != chunks[0].Pack || c.At != chunks[0].At+size || size+c.Size > packReadBytes) {
			break
		}
		n, size = n+1, size+c.Size
	}
	return n, size
}

// RowBytes is how many bytes stand in front of a chunk's frame in a bundle.
const RowBytes = rowBytes

// Bundler makes bundles of chunks that aren't in a store yet. One goroutine uses it.
type Bundler struct{ codec codec }

// Append appends a chunk whose Kind, First, Nodes and From are given: its row, and the frame of its data.
func (b *Bundler) Append(dst []byte, c Chunk, data []byte) ([]byte, error) {
	at := len(dst)
	dst, err := b.codec.encode(append(dst, make([]byte, rowBytes)...), data)
	if err != nil {
		return nil, err
	}
	c.Digest, c.Raw, c.Size, c.At = sha256.Sum256(data), int64(len(data)), int64(len(dst)-at-rowBytes), 0
	appendRow(dst[at:at], &c, 0)
	return dst, nil
}

// AppendStored appends a chunk like Bundler.Append, with a frame in which its bytes are as they are: for what can't be
// compressed.
func AppendStored(dst []byte, c Chunk, data []byte) []byte {
	c.Digest, c.Raw, c.Size, c.At = sha256.Sum256(data), int64(len(data)), storedBytes(len(data)), 0
	return appendFrame(appendRow(dst, &c, 0), data)
}

// Of a zstd frame (RFC 8878) with nothing but raw blocks: its head, with the content's size as u32 and no window of its
// own, and in front of each block three bytes.
const (
	frameHeadBytes  = 4 + 1 + 4
	frameMagic      = 0xFD2FB528
	frameDescriptor = 2<<6 | 1<<5
	blockHeadBytes  = 3
	blockMost       = 128 << 10
)

// storedBytes is what the frame of so many bytes takes.
func storedBytes(n int) int64 {
	return int64(frameHeadBytes + n + blockHeadBytes*max((n+blockMost-1)/blockMost, 1))
}

// appendFrame appends such a frame of at most windowBytesMax bytes.
func appendFrame(dst, data []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, frameMagic)
	dst = binary.LittleEndian.AppendUint32(append(dst, frameDescriptor), uint32(len(data)))
	for last := uint32(0); last == 0; {
		n := min(len(data), blockMost)
		if n == len(data) {
			last = 1
		}
		head := last | uint32(n)<<3
		dst = append(dst, byte(head), byte(head>>8), byte(head>>16))
		dst, data = append(dst, data[:n]...), data[n:]
	}
	return dst
}

// ParseBundled reads the row of a chunk in a bundle of a run with so many nodes. Size bytes, its frame, are behind it.
func ParseBundled(row *[RowBytes]byte, nodes int64) (Chunk, error) {
	c, err := parseBundled(row[:], nodes)
	if err != nil {
		err = fmt.Errorf("checkpoint: a chunk of a bundle: %w", err)
	}
	return c, err
}

// ReadBundle calls yield for each chunk of a bundle of a run with so many nodes, with its bytes, verified. They end
// with the call. The next ones are read meanwhile, and verified if yield takes long enough: else they are verified
// here, so that both sides have as much to do. It takes the memory of two batches and one frame. from isn't read any
// more when it returns.
func ReadBundle(from io.Reader, nodes int64, yield func(c Chunk, data []byte) error) error {
	r := bundleReader{in: bufio.NewReaderSize(from, packReadBytes), nodes: nodes, stop: make(chan struct{})}
	empty, read := make(chan *batch, 2), make(chan *batch) // one is read, and one with yield
	empty <- &batch{}
	empty <- &batch{}
	var reader sync.WaitGroup
	reader.Go(func() { r.readAll(empty, read) })
	defer reader.Wait()
	defer close(r.stop)
	for {
		b := <-read // one with an error is the last
		b.verify()
		for i := range b.chunks[:b.count] {
			if err := yield(b.chunks[i].chunk, b.chunks[i].data); err != nil {
				return err
			}
		}
		if errors.Is(b.err, errBundleEnd) {
			return nil
		}
		if b.err != nil {
			return b.err
		}
		empty <- b // there are two, so there is room
	}
}

// batchBytes is how many bytes of chunks go from one goroutine to the other together: those of large runs have some
// thousand bytes each.
const batchBytes = 1 << 20

// errBundleEnd: there is no further chunk.
var errBundleEnd = errors.New("the end of the bundle")

// batch is chunks that were read together, and why there are no more; nil: there may be.
type batch struct {
	chunks   []bundled // of which the others are memory of batches before
	count    int
	err      error
	verified bool
}

// bundled is a chunk that was read.
type bundled struct {
	chunk Chunk
	data  []byte
}

// verify compares chunks with their digests, unless that has been done. Those in front of the first one that differs
// are left.
func (b *batch) verify() {
	if b.verified {
		return
	}
	b.verified = true
	for i := range b.chunks[:b.count] {
		c := &b.chunks[i]
		if err := c.chunk.verify(c.data); err != nil {
			b.count, b.err = i, wrapBundled(&c.chunk, err)
			return
		}
	}
}

// bundleReader reads a bundle, one chunk after the other.
type bundleReader struct {
	in    *bufio.Reader
	nodes int64
	stop  chan struct{} // closed: nobody waits for chunks
	codec codec
	frame []byte
	count int // owned by readAll
}

// readAll reads chunks into empty batches until the first error, or stop.
func (r *bundleReader) readAll(empty <-chan *batch, to chan<- *batch) {
	for {
		var b *batch
		select {
		case b = <-empty:
		case <-r.stop:
			return
		}
		r.fill(b)
		last := b.err != nil
		select {
		case to <- b: // somebody waits for it
		default:
			b.verify()
			last = b.err != nil
			select {
			case to <- b:
			case <-r.stop:
				return
			}
		}
		if last {
			return
		}
	}
}

// fill reads the next batch.
func (r *bundleReader) fill(b *batch) {
	b.count, b.err, b.verified = 0, nil, false
	for size := 0; size < batchBytes; b.count++ {
		if b.count == len(b.chunks) {
			b.chunks = append(b.chunks, bundled{})
		}
		c := &b.chunks[b.count]
		if c.chunk, c.data, b.err = r.next(c.data); b.err != nil {
			return
		}
		r.count++
		size += len(c.data)
	}
}

// wrapBundled says of which chunk an error is.
func wrapBundled(c *Chunk, err error) error {
	if err != nil {
		err = fmt.Errorf("checkpoint: %v of a bundle: %w", c, err)
	}
	return err
}

// next reads a chunk into memory, or into larger one. It isn't verified.
func (r *bundleReader) next(data []byte) (c Chunk, read []byte, err error) {
	var head [rowBytes]byte
	if _, err := io.ReadFull(r.in, head[:]); errors.Is(err, io.EOF) {
		return c, nil, errBundleEnd
	} else if err != nil {
		return c, nil, fmt.Errorf("checkpoint: chunk %d of a bundle: %w", r.count, err)
	}
	if c, err = parseBundled(head[:], r.nodes); err != nil {
		return c, nil, fmt.Errorf("checkpoint: chunk %d of a bundle: %w", r.count, err)
	}
	if r.frame, err = readFrame(r.in, r.frame, c.Size); err == nil {
		data, err = r.codec.decompress(&c, r.frame, data)
	}
	return c, data, wrapBundled(&c, err)
}

// parseBundled reads the row of a chunk in a bundle.
func parseBundled(row []byte, nodes int64) (Chunk, error) {
	c, err := parseRowOf(row, nodes)
	if err == nil && (c.At != 0 || binary.LittleEndian.Uint32(row[12:]) != 0) {
		err = fmt.Errorf("found a place at %d, want 0 of pack 0", c.At)
	}
	return c, err
}

// readFrame reads size bytes, and takes memory as they come.
func readFrame(from io.Reader, frame []byte, size int64) ([]byte, error) {
	frame = frame[:0]
	for int64(len(frame)) < size {
		have := len(frame)
		step := min(size-int64(have), max(packReadBytes, int64(have)))
		frame = append(frame, make([]byte, step)...)
		if _, err := io.ReadFull(from, frame[have:]); err != nil {
			return frame, fmt.Errorf("found an end behind fewer than %d bytes: %w", size, err)
		}
	}
	return frame, nil
}

// recordHeadBytes stand in front of what a node has in a chunk: its number and the bytes.
const recordHeadBytes = 8

// recordBytesMax bounds what one node has in a chunk.
const recordBytesMax = 256 << 20

// AppendNode appends what node n has in a chunk of nodes or of what is pending. Nodes rise.
func AppendNode(dst []byte, n int, encoded []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(encoded)))
	return append(dst, encoded...)
}

// BeginNode appends the head of a record whose bytes EndNode finds between it and the end of dst.
func BeginNode(dst []byte, n int) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	return append(dst, 0, 0, 0, 0)
}

// EndNode fills in the size of the record that begins at.
func EndNode(dst []byte, at int) {
	binary.LittleEndian.PutUint32(dst[at+4:], uint32(len(dst)-at-recordHeadBytes))
}

// EachNode calls yield for each node in the data of such a chunk, with what it has, a part of data. What is pending may
// have several records of a node.
func EachNode(c *Chunk, data []byte, yield func(n int, encoded []byte) error) error {
	least, end := int64(c.First), int64(c.First)+int64(c.Nodes)
	for rest := data; len(rest) > 0; {
		at := len(data) - len(rest)
		if len(rest) < recordHeadBytes {
			return fmt.Errorf("checkpoint: %v: byte %d: found %d bytes, want the head of a record", c, at, len(rest))
		}
		n, size := binary.LittleEndian.Uint32(rest), int64(binary.LittleEndian.Uint32(rest[4:]))
		rest = rest[recordHeadBytes:]
		if int64(n) < least || int64(n) >= end {
			return fmt.Errorf("checkpoint: %v: byte %d: found node %d, want %d to %d", c, at, n, least, end-1)
		}
		if size > min(recordBytesMax, int64(len(rest))) {
			return fmt.Errorf("checkpoint: %v: byte %d: found %d bytes of node %d, want at most %d", c, at, size, n,
				min(recordBytesMax, int64(len(rest))))
		}
		if err := yield(int(n), rest[:size:size]); err != nil {
			return err
		}
		least, rest = int64(n), rest[size:]
		if c.Kind != Pending {
			least++
		}
	}
	return nil
}
