// SPDX-License-Identifier: Apache-2.0

package saving

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/klauspost/compress/zstd"
)

// bareState is what the bare loops work with: plain arrays of what a node and an event have, in the order of the bytes.
// They know that all nodes have the same fields, check nothing, and file events nowhere.
type bareState struct {
	nodes  []bareNode
	counts []uint32 // of events, by node
	events []bareEvent
	data   []byte // of all events

	in    *zstd.Encoder
	out   *zstd.Decoder
	frame []byte
	chunk []byte
}

// bareNode is what a process of PHOLD saves: eight words.
type bareNode [8]uint64

type bareEvent struct {
	epoch, number uint64
	sender        uint32
	size          uint32 // of its data
}

const (
	headBytes     = 8                             // of a record
	blockBytes    = 8                             // of a block's head: size and version
	nodeBytes     = headBytes + 2*blockBytes + 68 // with the count of floors
	ownWords      = 4                             // of a node, in the first block
	eventHead     = 28
	pendingHead   = 8 // version and count, of one simproc
	floorsBytes   = 4
	versionOfBoth = 1
)

// recordBytes is how many bytes the first record has.
func recordBytes(data []byte) int { return headBytes + int(binary.LittleEndian.Uint32(data[4:])) }

func (w *world) bareEncodeNodes(t *watch) (int, error) {
	out, word := w.space[:0], binary.LittleEndian
	t.start()
	for n := range w.bare.nodes {
		v := &w.bare.nodes[n]
		at := len(out)
		out = out[:at+nodeBytes]
		b := out[at : at+nodeBytes]
		word.PutUint32(b, uint32(n))
		word.PutUint32(b[4:], nodeBytes-headBytes)
		word.PutUint32(b[8:], blockBytes-4+8*ownWords+floorsBytes)
		word.PutUint32(b[12:], versionOfBoth)
		for i, x := range v[:ownWords] {
			word.PutUint64(b[16+8*i:], x)
		}
		word.PutUint32(b[48:], 0)
		word.PutUint32(b[52:], blockBytes-4+8*(8-ownWords))
		word.PutUint32(b[56:], versionOfBoth)
		for i, x := range v[ownWords:] {
			word.PutUint64(b[60+8*i:], x)
		}
	}
	t.stop()
	w.space = out
	return len(w.bare.nodes), nil
}

func (w *world) bareDecodeNodes(t *watch) (int, error) {
	w.bare.nodes = make([]bareNode, w.plan.NumNodes())
	t.start()
	defer t.stop()
	return len(w.bare.nodes), w.bareNodes(w.nodes)
}

// bareNodes decodes records of nodes.
func (w *world) bareNodes(data []byte) error {
	if len(data)%nodeBytes != 0 {
		return errors.New("saving: a node has other fields than the bare loop knows")
	}
	for ; len(data) > 0; data = data[nodeBytes:] {
		b, word := data[:nodeBytes], binary.LittleEndian
		v := &w.bare.nodes[word.Uint32(b)]
		for i := range v[:ownWords] {
			v[i] = word.Uint64(b[16+8*i:])
		}
		for i := range v[ownWords:] {
			v[ownWords+i] = word.Uint64(b[60+8*i:])
		}
	}
	return nil
}

func (w *world) bareEncodePending(t *watch) (int, error) {
	out, word := w.space[:0], binary.LittleEndian
	events, data := w.bare.events, w.bare.data
	t.start()
	for n, count := range w.bare.counts {
		if count == 0 {
			continue
		}
		begin := len(out)
		out = word.AppendUint32(out, uint32(n))
		out = word.AppendUint32(out, 0)
		out = word.AppendUint32(out, versionOfBoth)
		out = word.AppendUint32(out, count)
		for i := range events[:count] {
			e := &events[i]
			at := len(out)
			out = out[:at+eventHead]
			b := out[at : at+eventHead]
			word.PutUint64(b, e.epoch)
			word.PutUint32(b[8:], e.sender)
			word.PutUint64(b[12:], e.number)
			word.PutUint32(b[20:], 0)
			word.PutUint32(b[24:], e.size)
			out = append(out, data[:e.size]...)
			data = data[e.size:]
		}
		events = events[count:]
		checkpoint.EndNode(out, begin)
	}
	t.stop()
	w.space = out
	return len(w.bare.events), nil
}

func (w *world) bareDecodePending(t *watch) (int, error) {
	b := &w.bare
	b.counts = make([]uint32, w.plan.NumNodes())
	b.events, b.data = make([]bareEvent, 0, w.events), make([]byte, 0, len(w.pending))
	t.start()
	defer t.stop()
	err := w.barePending(w.pending)
	return len(b.events), err
}

// barePending decodes records of what is pending.
func (w *world) barePending(data []byte) error {
	v, word := &w.bare, binary.LittleEndian
	for len(data) > 0 {
		count := word.Uint32(data[headBytes+4:])
		v.counts[word.Uint32(data)] = count
		data = data[headBytes+pendingHead:]
		for range count {
			b := data[:eventHead]
			e := bareEvent{word.Uint64(b), word.Uint64(b[12:]), word.Uint32(b[8:]), word.Uint32(b[24:])}
			if word.Uint32(b[20:]) != 0 {
				return errors.New("saving: an event has headers, which the bare loop doesn't know")
			}
			v.events = append(v.events, e)
			v.data = append(v.data, data[eventHead:eventHead+e.size]...)
			data = data[eventHead+e.size:]
		}
	}
	return nil
}

// bareWrite is SHA-256 and zstd, chunk by chunk.
func (w *world) bareWrite(t *watch) (int, error) {
	b := &w.bare
	if b.in == nil {
		var err error
		b.in, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderCRC(false))
		if err != nil {
			return 0, err
		}
	}
	t.start()
	defer t.stop()
	return w.kibis(), w.chunks(func(_ checkpoint.Chunk, data []byte) error {
		if sha256.Sum256(data) == [32]byte{} {
			return errors.New("saving: a digest of zeros")
		}
		b.frame = b.in.EncodeAll(data, b.frame[:0])
		return nil
	})
}

// bareResume reads the pack of the checkpoint, frame by frame, and decodes it.
func (w *world) bareResume(t *watch) (int, error) {
	b, s := &w.bare, &w.store
	if b.out == nil {
		var err error
		if b.out, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1)); err != nil {
			return 0, err
		}
	}
	b.nodes, b.counts = make([]bareNode, w.plan.NumNodes()), make([]uint32, w.plan.NumNodes())
	b.events, b.data = make([]bareEvent, 0, w.events), make([]byte, 0, len(w.pending))
	t.start()
	defer t.stop()
	f, err := os.Open(filepath.Join(s.dir, "run", "packs", s.manifest.Packs[0].Digest.String()+".pack"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for i := range s.chunks {
		c := &s.chunks[i]
		b.frame = append(b.frame[:0], make([]byte, c.Size)...)
		if _, err := io.ReadFull(io.NewSectionReader(f, c.At, c.Size), b.frame); err != nil {
			return 0, err
		}
		if b.chunk, err = b.out.DecodeAll(b.frame, b.chunk[:0]); err != nil {
			return 0, err
		}
		if sha256.Sum256(b.chunk) != c.Digest {
			return 0, fmt.Errorf("saving: %v has another digest", c)
		}
		decode := w.bareNodes
		if c.Kind == checkpoint.Pending {
			decode = w.barePending
		}
		if err := decode(b.chunk); err != nil {
			return 0, err
		}
	}
	return w.kibis(), nil
}
