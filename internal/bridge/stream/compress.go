// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/grpc/encoding"
)

// Compression is how the messages of a stream are compressed, in both directions.
type Compression int

// The compressions. Auto begins with None, and chooses by the first messages that are sent.
const (
	None Compression = iota
	S2
	Zstd
	Auto
	compressions = int(Auto) // that are one
)

var compressionNames = [...]string{"none", "s2", "zstd", "auto"}

// String is the compression's name.
func (c Compression) String() string { return compressionNames[c] }

// ParseCompression reads a name.
func ParseCompression(name string) (Compression, error) {
	for i, n := range compressionNames {
		if n == name {
			return Compression(i), nil
		}
	}
	return 0, fmt.Errorf("found the compression %.40q, want none, s2, zstd or auto", name)
}

// name is what gRPC calls it.
func (c Compression) name() string {
	if c == S2 || c == Zstd {
		return "disco-" + c.String()
	}
	return ""
}

// A compressed message begins with a mark: as it is, or compressed. So what can't be compressed becomes one byte longer
// and no more, and takes no time at the other side.
const (
	markBytes    = 1
	markPlain    = 0
	markCompress = 1
)

// block compresses and decompresses whole messages. It isn't safe for concurrent use.
type block interface {
	compress(dst, src []byte) []byte // appends
	// decompress gives at most messageBytesMax bytes, in dst if they fit.
	decompress(dst, src []byte) ([]byte, error)
}

var errTooLarge = fmt.Errorf("stream: a message above %d bytes after decompression", messageBytesMax)

type s2Block struct{}

func (s2Block) compress(dst, src []byte) []byte {
	most := s2.MaxEncodedLen(len(src))
	if cap(dst)-len(dst) < most {
		dst = append(make([]byte, 0, len(dst)+most), dst...)
	}
	return dst[:len(dst)+len(s2.Encode(dst[len(dst):len(dst)+most], src))]
}

func (s2Block) decompress(dst, src []byte) ([]byte, error) {
	size, err := s2.DecodedLen(src)
	if err == nil && size > messageBytesMax {
		err = errTooLarge
	}
	if err != nil {
		return nil, err
	}
	return s2.Decode(dst[:cap(dst)], src)
}

type zstdBlock struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

func newZstd() (block, error) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithWindowSize(512<<10), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, err
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderMaxWindow(512<<10))
	return &zstdBlock{e, d}, err
}

func (z *zstdBlock) compress(dst, src []byte) []byte { return z.encoder.EncodeAll(src, dst) }

func (z *zstdBlock) decompress(dst, src []byte) ([]byte, error) {
	if cap(dst) < messageBytesMax {
		dst = make([]byte, 0, messageBytesMax)
	}
	return z.decoder.DecodeAll(src, dst[:0])
}

// compressor is a [Compression] for gRPC.
type compressor struct {
	of    Compression
	spare sync.Pool // of *compressing
}

func init() {
	for _, c := range []Compression{S2, Zstd} {
		encoding.RegisterCompressor(&compressor{of: c})
	}
}

// Name is what stands in the stream's headers.
func (c *compressor) Name() string { return c.of.name() }

// compressing is one message on its way through a block, in one of the directions.
type compressing struct {
	block   block
	home    *compressor
	to      io.Writer
	in, out []byte
	left    []byte // of a result that is read
}

func newBlock(c Compression) (block, error) {
	if c == Zstd {
		return newZstd()
	}
	return s2Block{}, nil
}

func (c *compressor) get() (*compressing, error) {
	if x, ok := c.spare.Get().(*compressing); ok {
		return x, nil
	}
	b, err := newBlock(c.of)
	return &compressing{block: b, home: c}, err
}

// Compress gives a writer that compresses what it got when it is closed.
func (c *compressor) Compress(w io.Writer) (io.WriteCloser, error) {
	x, err := c.get()
	if err != nil {
		return nil, err
	}
	x.to, x.in = w, x.in[:0]
	return x, nil
}

// Write adds to the message.
func (x *compressing) Write(b []byte) (int, error) {
	x.in = append(x.in, b...)
	return len(b), nil
}

// Close writes the message.
func (x *compressing) Close() error {
	x.out = mark(x.block, x.out[:0], x.in)
	_, err := x.to.Write(x.out)
	x.to = nil
	x.home.spare.Put(x)
	return err
}

// mark compresses a message, or leaves it as it is.
func mark(b block, dst, src []byte) []byte {
	dst = b.compress(append(dst, markCompress), src)
	if len(dst) >= len(src)+markBytes {
		dst = append(append(dst[:0], markPlain), src...)
	}
	return dst
}

// Decompress gives a reader of the message. What it reads from is bounded by gRPC.
func (c *compressor) Decompress(r io.Reader) (io.Reader, error) {
	x, err := c.get()
	if err != nil {
		return nil, err
	}
	if x.left, err = x.unmark(r); err != nil {
		return nil, fmt.Errorf("stream: %v: %w", c.of, err)
	}
	return &inflated{x}, nil
}

// unmark reads a message, at most its largest size.
func (x *compressing) unmark(r io.Reader) ([]byte, error) {
	if cap(x.in) < messageBytesMax+markBytes+1 {
		x.in = make([]byte, messageBytesMax+markBytes+1)
	}
	n, err := io.ReadFull(r, x.in[:cap(x.in)])
	b := x.in[:n]
	switch {
	case err == nil:
		return nil, errTooLarge
	case !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF):
		return nil, err
	case n == 0 || b[0] > markCompress:
		return nil, errors.New("found no mark in front of a message")
	case b[0] == markPlain:
		return b[markBytes:], nil
	}
	x.out, err = x.block.decompress(x.out[:0], b[markBytes:])
	return x.out, err
}

// inflated is a message that is read once.
type inflated struct{ x *compressing }

// Read gives the message.
func (i *inflated) Read(b []byte) (int, error) {
	if i.x == nil || len(i.x.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b, i.x.left)
	i.x.left = i.x.left[n:]
	return n, nil
}

// Close is called by gRPC, once.
func (i *inflated) Close() error {
	i.x.left = nil
	i.x.home.spare.Put(i.x)
	i.x = nil
	return nil
}
