// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// Bounds of chunks and packs.
const (
	chunkBytesMax  = 1 << 30 // raw, and of its frame
	packBytesMax   = 1 << 40
	windowBytesMax = 8 << 20 // of zstd
	rowBytes       = 80
	tableRowsMax   = 65536
)

// Kind is what a chunk has.
type Kind uint8

// Kinds of chunks; docs/format/checkpoint.md.
const (
	Nodes     Kind = 1 // states of nodes
	Pending   Kind = 2 // what is pending for nodes
	Trace     Kind = 3
	Results   Kind = 4
	Externals Kind = 5
	Hashes    Kind = 6
	table     Kind = 7 // rows of other chunks
	Layout    Kind = 8 // which simprocs hashes are of
	Rows      Kind = 9 // what handlers have recorded
)

var kindNames = [...]string{"", "nodes", "pending", "trace", "results", "externals", "hashes", "table", "layout",
	"rows"}

// String names the kind.
func (k Kind) String() string {
	if k == 0 || int(k) >= len(kindNames) {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return kindNames[k]
}

// ofNodes reports whether such a chunk is about a group of nodes.
func (k Kind) ofNodes() bool { return k == Nodes || k == Pending }

// since reports whether such a chunk is about a stretch of simulated time.
func (k Kind) since() bool { return k == Trace || k == Externals || k == Hashes || k == Rows }

// Pack is a file with chunks: the SHA-256 of all of it, and its size.
type Pack struct {
	Digest Digest `json:"digest"`
	Bytes  int64  `json:"bytes"`
}

func (p Pack) name() string { return packFolder + p.Digest.String() + ".pack" }

// Chunk is what is written, read and kept as one: a group of nodes, or a stretch of a trace.
type Chunk struct {
	Kind   Kind
	First  uint32  // node with which the group begins; 0 for what isn't about nodes
	Nodes  uint32  // of the group
	From   float64 // epoch with which it begins, of a trace, hashes, externals, rows; else 0
	Digest Digest  // of its bytes, before they are compressed
	Raw    int64   // so many bytes
	Size   int64   // bytes of its zstd frame
	At     int64   // where the frame is, in a pack or spool
	Pack   Pack    // where it is; zero: in a spool
}

// String says what it is of, and where.
func (c *Chunk) String() string {
	what := c.Kind.String() + " chunk"
	if c.Kind.ofNodes() {
		what += fmt.Sprintf(" of nodes %d to %d", c.First, uint64(c.First)+uint64(c.Nodes)-1)
	}
	return fmt.Sprintf("%s (%d bytes at %d)", what, c.Size, c.At)
}

// check says which field is out of its bounds, for a chunk of a run with so many nodes.
func (c *Chunk) check(nodes int64) error {
	if c.Kind < Nodes || c.Kind > Rows {
		return fmt.Errorf("kind: found %d, want %d to %d", c.Kind, Nodes, Rows)
	}
	if c.Kind.ofNodes() {
		if err := within("nodes of a group", int64(c.Nodes), 1, nodes); err != nil {
			return err
		}
		if err := atMost("last node of a group and one", int64(c.First)+int64(c.Nodes), nodes); err != nil {
			return err
		}
	} else if c.First != 0 || c.Nodes != 0 {
		return fmt.Errorf("first, nodes: found %d, %d, want 0, 0 in a %v chunk", c.First, c.Nodes, c.Kind)
	}
	if bits := math.Float64bits(c.From); !c.Kind.since() && bits != 0 || !(c.From >= 0) || math.IsInf(c.From, 0) {
		return fmt.Errorf("from: found %v, want 0, or a finite epoch in a chunk of trace, externals, hashes or rows",
			c.From)
	}
	return errors.Join(within("size", c.Size, 1, chunkBytesMax), within("raw", c.Raw, 1, chunkBytesMax))
}

// checkPlace says whether a chunk is outside of its pack.
func (c *Chunk) checkPlace() error {
	if err := within("at", c.At, packHeadBytes, packBytesMax); err != nil {
		return err
	}
	return atMost("end in the pack", c.At+c.Size, c.Pack.Bytes)
}

// appendRow appends a chunk as a row of a table; pack is the index of its pack.
func appendRow(dst []byte, c *Chunk, pack int) []byte {
	dst = append(dst, byte(c.Kind), 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, c.First)
	dst = binary.LittleEndian.AppendUint32(dst, c.Nodes)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(pack))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(c.At))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(c.Size))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(c.Raw))
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(c.From))
	return append(dst, c.Digest[:]...)
}

// parseRow reads a row of a run with so many nodes, and checks all of it. What it stands in was verified, so a kind
// that isn't known, and what should be zeros, are no damage.
func parseRow(row []byte, packs []Pack, nodes int64) (c Chunk, err error) {
	if len(row) == rowBytes && (Kind(row[0]) > Rows || row[1]|row[2]|row[3] != 0) {
		return c, otherVersion(fmt.Sprintf("a chunk of kind % x, want one of %d to %d, and zeros behind it",
			row[:4], Nodes, Rows))
	}
	if c, err = parseRowOf(row, nodes); err != nil {
		return c, err
	}
	pack := binary.LittleEndian.Uint32(row[12:])
	if int64(pack) >= int64(len(packs)) {
		return c, fmt.Errorf("found pack %d, want less than %d", pack, len(packs))
	}
	c.Pack = packs[pack]
	return c, c.checkPlace()
}

// parseRowOf reads all of a row but for the pack, and checks what can be checked without.
func parseRowOf(row []byte, nodes int64) (c Chunk, err error) {
	if len(row) != rowBytes {
		return c, fmt.Errorf("found a row of %d bytes, want %d", len(row), rowBytes)
	}
	if row[1]|row[2]|row[3] != 0 {
		return c, fmt.Errorf("found % x behind the kind, want zeros", row[1:4])
	}
	c = Chunk{
		Kind:  Kind(row[0]),
		First: binary.LittleEndian.Uint32(row[4:]),
		Nodes: binary.LittleEndian.Uint32(row[8:]),
		At:    int64(binary.LittleEndian.Uint64(row[16:])),
		Size:  int64(binary.LittleEndian.Uint64(row[24:])),
		Raw:   int64(binary.LittleEndian.Uint64(row[32:])),
		From:  math.Float64frombits(binary.LittleEndian.Uint64(row[40:])),
	}
	copy(c.Digest[:], row[48:])
	return c, c.check(nodes)
}

// compareChunks is the order of rows.
func compareChunks(a, b *Chunk) int {
	switch {
	case a.Kind != b.Kind:
		return int(a.Kind) - int(b.Kind)
	case a.First != b.First && a.First < b.First:
		return -1
	case a.First != b.First:
		return 1
	}
	return bytes.Compare(a.Digest[:], b.Digest[:])
}

// codec compresses chunks and reads them. What it needs is made when it is first used.
type codec struct {
	in  *zstd.Encoder
	out *zstd.Decoder
}

// encode appends the frame of a chunk's bytes.
func (k *codec) encode(dst, data []byte) ([]byte, error) {
	if k.in == nil {
		// The chunk has a SHA-256, so its frame needs no sum of its own.
		var err error
		k.in, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderCRC(false))
		if err != nil {
			return nil, fmt.Errorf("checkpoint: %w", err)
		}
	}
	return k.in.EncodeAll(data, dst), nil
}

// decode gives the bytes of a chunk whose frame was read, verified, in the memory of buf where that is enough. The
// error says what was found.
func (k *codec) decode(c *Chunk, frame, buf []byte) ([]byte, error) {
	data, err := k.decompress(c, frame, buf)
	if err == nil {
		err = c.verify(data)
	}
	return data, err
}

// decompress is decode before the digest is compared: the bytes aren't known to be those of the chunk.
func (k *codec) decompress(c *Chunk, frame, buf []byte) ([]byte, error) {
	if int64(len(frame)) != c.Size {
		return nil, fmt.Errorf("found %d bytes, want %d: the file was cut short", len(frame), c.Size)
	}
	var head zstd.Header
	if err := head.Decode(frame); err != nil {
		return nil, fmt.Errorf("found no zstd frame: %w", err)
	}
	switch {
	case head.Skippable || head.HasFCS && head.FrameContentSize != uint64(c.Raw):
		return nil, fmt.Errorf("found a frame of %d bytes, want %d", head.FrameContentSize, c.Raw)
	case head.WindowSize > windowBytesMax || head.DictionaryID != 0:
		return nil, fmt.Errorf("found a frame with a window of %d bytes, dictionary %d; want at most %d, none",
			head.WindowSize, head.DictionaryID, windowBytesMax)
	}
	if k.out == nil {
		var err error
		k.out, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true),
			zstd.WithDecoderMaxMemory(chunkBytesMax))
		if err != nil {
			return nil, fmt.Errorf("checkpoint: %w", err)
		}
	}
	data, err := k.out.DecodeAll(frame, slices.Grow(buf[:0], int(c.Raw))[:0:c.Raw]) // no further than Raw
	if err != nil {
		return nil, fmt.Errorf("found a frame that can't be decoded: %w", err)
	}
	return data, nil
}

// verify compares what decompress has given with the chunk's row.
func (c *Chunk) verify(data []byte) error {
	if found := Digest(sha256.Sum256(data)); found != c.Digest || int64(len(data)) != c.Raw {
		return fmt.Errorf("found %d bytes with digest %v, want %d with %v", len(data), found, c.Raw, c.Digest)
	}
	return nil
}

// Spool writes chunks one behind the other, compressed, for Draft.Add. One goroutine uses it.
type Spool struct {
	// Known reports whether a chunk, given without its place, is in the store already: it isn't written then. nil: none
	// is. Known chunks are for Draft.Keep.
	Known func(Chunk) bool

	w     io.Writer
	codec codec
	frame []byte
	size  int64
}

// NewSpool begins a spool.
func NewSpool(w io.Writer) *Spool { return &Spool{w: w} }

// Add compresses, hashes and writes the chunk whose Kind, First, Nodes and From are given, and returns it with the
// rest; one that is Known with At -1, and its Size 0. After an error nothing more can be added.
func (s *Spool) Add(c Chunk, data []byte) (Chunk, error) {
	if err := within("bytes of a chunk", int64(len(data)), 1, chunkBytesMax); err != nil {
		return c, fmt.Errorf("checkpoint: %v: %w", &c, err)
	}
	c.Digest, c.Raw = sha256.Sum256(data), int64(len(data))
	if s.Known != nil && s.Known(c) {
		c.At = -1
		return c, nil
	}
	var err error
	if s.frame, err = s.codec.encode(s.frame[:0], data); err != nil {
		return c, err
	}
	if _, err := s.w.Write(s.frame); err != nil {
		return c, fmt.Errorf("checkpoint: %w", err)
	}
	c.Size, c.At = int64(len(s.frame)), s.size
	s.size += c.Size
	return c, nil
}

// Size is how many bytes were written.
func (s *Spool) Size() int64 { return s.size }
