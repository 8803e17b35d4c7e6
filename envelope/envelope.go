// SPDX-License-Identifier: Apache-2.0

// Package envelope defines events and promises and their encoding. It is the lowest layer: the transport packages
// carry these bytes, the simulation packages interpret them, and neither imports the other.
//
// Guarantee: encoding and decoding never allocate, never read or write outside
// the slice they are given, and accept exactly the forms drawn in
// docs/format/envelope.md; every other input is ErrMalformed.
//
//	n := ev.Size()
//	ev.Encode(buf[:n])
//	got, err := envelope.DecodeEvent(buf[:n]) // got.Data lives as long as buf
package envelope

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Kind is the first byte of every envelope.
type Kind uint8

// The kinds. Zero is no kind, so that zeroed memory is never a valid envelope.
const (
	KindEvent   Kind = 1
	KindPromise Kind = 2
	KindPart    Kind = 3
)

// String names the kind in the words of the glossary.
func (k Kind) String() string {
	switch k {
	case KindEvent:
		return "event"
	case KindPromise:
		return "promise"
	case KindPart:
		return "part"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Sizes of the fixed parts, in bytes.
const (
	EventHeaderBytes = 32 // docs/format/envelope.md, event
	PromiseBytes     = 40 // docs/format/envelope.md, promise
	BlockRefBytes    = 16 // docs/format/envelope.md, block reference
	PartHeaderBytes  = 8  // docs/format/envelope.md, part
	PartsRefBytes    = 8  // docs/format/envelope.md, data in parts

	// HeadersMax bounds the encoded headers of one event: their length field is
	// 16 bits wide.
	HeadersMax = math.MaxUint16

	// DataMax bounds the data of one event: 1 GiB. It is a limit of disco and not
	// of the 32-bit length field, so that sums of lengths never overflow an int32.
	DataMax = 1 << 30
)

// Epochs on the wire never have the sign bit set, so that equal epochs have equal
// bits and one unsigned comparison refuses negative times, minus zero and NaN.
const (
	maxEpochBits = 0x7FEF_FFFF_FFFF_FFFF // math.MaxFloat64
	infEpochBits = 0x7FF0_0000_0000_0000 // +Inf
)

// Flags of an event; at most one is set. flagBlock: the data part is a BlockRef and the
// data itself lies in a pooled block. flagParts: the data part is the length of the data,
// which came before in parts.
const (
	flagBlock = 1
	flagParts = 2
)

// LevelMax is the level above every level of a scenario. The bound (e, LevelMax) means that everything at epoch e
// is done.
const LevelMax = math.MaxUint32

// ErrMalformed is what every refused envelope unwraps to. The text contains the field, what was found and what is
// allowed.
var ErrMalformed = errors.New("envelope: malformed")

// Event carries data from one simproc to another.
//
// Headers and Data alias the memory that the event was decoded from, or the sender's memory; the function that
// returns or takes the event documents for how long.
type Event struct {
	Epoch   float64 // simulated time at which the target handles it, seconds, finite, >= 0
	Number  uint64  // the sender's own number: 0, 1, 2, … over all its sends
	Target  uint32  // dense id of the simproc that handles it
	Sender  uint32  // dense id of the simproc that sent it
	Headers []byte  // encoded headers (EncodeHeaders), at most HeadersMax bytes
	Data    []byte  // payload, at most DataMax bytes; empty when Block is set
	Block   BlockRef
	InBlock bool   // the payload lies in Block, not in Data
	Parts   uint32 // bytes of payload that came before in parts, not in Data; 0: none
}

// BlockRef is the place of a large payload in the sender's pool. It comes from a peer: the pool's view checks every
// field before it is used.
type BlockRef struct {
	Block  uint32 // number of the block in the sender's pool
	Length uint32 // bytes of payload in it
	Seq    uint64 // the block's loan number, so that a stale reference is seen
}

// Promise is the null message of the literature: a sender's lower bound on what it will still send, with the number
// of events sent:
//
//	"I have sent you NumEvents events in total, and nothing that I will still
//	send is earlier than (Epoch, Level)."
//
// Between two simprocs Level is 0. Between two workers Target and Sender are WholeLane and the promise covers
// everything on the lane.
type Promise struct {
	Epoch     float64 // simulated seconds, >= 0; +Inf: nothing will be sent any more
	Seqnr     uint64  // 1, 2, 3, … on one link
	NumEvents uint64  // events sent on the link since the run began
	Level     uint32  // topological level within Epoch
	Target    uint32  // dense id of a simproc, or WholeLane
	Sender    uint32  // dense id of a simproc, or WholeLane
}

// WholeLane stands for "every simproc of the worker" in a promise.
const WholeLane = math.MaxUint32

// Size is the number of bytes that Encode writes.
func (e *Event) Size() int {
	if e.InBlock {
		return EventHeaderBytes + len(e.Headers) + BlockRefBytes
	}
	if e.Parts != 0 {
		return EventHeaderBytes + len(e.Headers) + PartsRefBytes
	}
	return EventHeaderBytes + len(e.Headers) + len(e.Data)
}

// Encode writes the event into dst, which must hold Size bytes, and returns the number written. Headers or Data
// beyond their maximum are a bug of disco, because every sender checks them first: Encode panics.
func (e *Event) Encode(dst []byte) int {
	size := e.Size()
	if len(e.Headers) > HeadersMax || len(e.Data) > DataMax || len(dst) < size {
		panic(fmt.Sprintf("envelope: event of %d header and %d data bytes into a buffer of %d", len(e.Headers),
			len(e.Data), len(dst)))
	}
	h := dst[:EventHeaderBytes:EventHeaderBytes]
	flags, dataLen := byte(0), len(e.Data)
	switch {
	case e.InBlock:
		flags, dataLen = flagBlock, BlockRefBytes
	case e.Parts != 0:
		flags, dataLen = flagParts, PartsRefBytes
	}
	binary.LittleEndian.PutUint64(h, uint64(KindEvent)|uint64(flags)<<8|uint64(len(e.Headers))<<16|uint64(dataLen)<<32)
	binary.LittleEndian.PutUint64(h[8:], math.Float64bits(e.Epoch+0)) // + 0: minus zero becomes plus zero
	binary.LittleEndian.PutUint64(h[16:], e.Number)
	binary.LittleEndian.PutUint32(h[24:], e.Target)
	binary.LittleEndian.PutUint32(h[28:], e.Sender)
	if len(e.Headers) != 0 {
		copy(dst[EventHeaderBytes:], e.Headers)
	}
	rest := dst[EventHeaderBytes+len(e.Headers):]
	switch {
	case e.InBlock:
		binary.LittleEndian.PutUint32(rest, e.Block.Block)
		binary.LittleEndian.PutUint32(rest[4:], e.Block.Length)
		binary.LittleEndian.PutUint64(rest[8:], e.Block.Seq)
	case e.Parts != 0:
		binary.LittleEndian.PutUint64(rest, uint64(e.Parts))
	default:
		copy(rest, e.Data)
	}
	return size
}

// EncodeInline is Encode without its checks, for the event path: the event isn't in a
// block, headers and data are within their maximum, and dst is exactly Size bytes.
// With another length of dst it panics or leaves a record that no Decode accepts.
func (e *Event) EncodeInline(dst []byte) {
	h := dst[:EventHeaderBytes:EventHeaderBytes]
	binary.LittleEndian.PutUint64(h, uint64(KindEvent)|uint64(len(e.Headers))<<16|uint64(len(e.Data))<<32)
	binary.LittleEndian.PutUint64(h[8:], math.Float64bits(e.Epoch+0)) // as in Encode
	binary.LittleEndian.PutUint64(h[16:], e.Number)
	binary.LittleEndian.PutUint64(h[24:], uint64(e.Target)|uint64(e.Sender)<<32)
	if len(e.Headers) != 0 {
		copy(dst[EventHeaderBytes:], e.Headers)
	}
	copy(dst[EventHeaderBytes+len(e.Headers):], e.Data)
}

// Words is what EncodeInline writes in front of headers and data, for who stores it as words: the EventHeaderBytes in
// little-endian order. The event isn't in a block or in parts, headers and data are within their maximum.
func (e *Event) Words() (w0, w1, w2, w3 uint64) {
	return uint64(KindEvent) | uint64(len(e.Headers))<<16 | uint64(len(e.Data))<<32,
		math.Float64bits(e.Epoch + 0), // as in Encode
		e.Number,
		uint64(e.Target) | uint64(e.Sender)<<32
}

// KindOf reads the kind of the envelope in src.
func KindOf(src []byte) (Kind, error) {
	if len(src) == 0 {
		return 0, fmt.Errorf("%w: empty record, want at least a kind byte", ErrMalformed)
	}
	k := Kind(src[0])
	if k < KindEvent || k > KindPart {
		return 0, fmt.Errorf("%w: kind %d, want 1 (event), 2 (promise) or 3 (part)", ErrMalformed, src[0])
	}
	return k, nil
}

// DecodeEvent reads one event that fills src exactly. Headers and Data of the
// result alias src. The epoch is checked to be finite and not negative; target
// and sender are not checked, because only the scenario knows how many there are.
func DecodeEvent(src []byte) (Event, error) {
	var e Event
	if err := e.Decode(src); err != nil {
		return Event{}, err
	}
	return e, nil
}

// Decode is DecodeEvent into an event that the caller keeps: every field is
// overwritten. It is the form for the event path, where returning an Event by
// value costs more than reading it. After an error e is not usable.
func (e *Event) Decode(src []byte) error {
	if len(src) < EventHeaderBytes {
		return malformedEvent(src)
	}
	h := src[:EventHeaderBytes:EventHeaderBytes]
	word := binary.LittleEndian.Uint64(h)
	epochBits := binary.LittleEndian.Uint64(h[8:])
	data := EventHeaderBytes + int(word>>16&0xFFFF)
	if word&^((flagBlock|flagParts)<<8)&0xFFFF != uint64(KindEvent) || word>>32 > DataMax ||
		data+int(word>>32) != len(src) || epochBits > maxEpochBits {
		return malformedEvent(src)
	}
	e.Epoch = math.Float64frombits(epochBits)
	e.Number = binary.LittleEndian.Uint64(h[16:])
	e.Target = binary.LittleEndian.Uint32(h[24:])
	e.Sender = binary.LittleEndian.Uint32(h[28:])
	e.Headers = nil
	if data != EventHeaderBytes {
		e.Headers = src[EventHeaderBytes:data:data]
	}
	e.Block, e.InBlock, e.Parts = BlockRef{}, false, 0
	switch word >> 8 & 0xFF {
	case flagBlock:
		return e.decodeBlock(src[data:])
	case flagParts:
		return e.decodeParts(src[data:])
	case flagBlock | flagParts:
		return malformedEvent(src)
	}
	e.Data = src[data:len(src):len(src)]
	return nil
}

// DecodeInline is Decode for the most frequent events: it returns false, without a reason, for everything that
// isn't a well-formed event with its data inline, and e is not usable then; Decode gives the reason. Precondition:
// Block, InBlock and Parts are zero, as in an event that only DecodeInline has written; it leaves them as they are. An
// event that is longer than DataMax with its headers is left to Decode.
func (e *Event) DecodeInline(src []byte) bool {
	n := len(src) - EventHeaderBytes
	if uint(n) > DataMax {
		return false
	}
	h := src[:EventHeaderBytes:EventHeaderBytes]
	epochBits := binary.LittleEndian.Uint64(h[8:])
	if epochBits > maxEpochBits {
		return false
	}
	e.Headers, e.Data = nil, src[EventHeaderBytes:len(src):len(src)]
	if word := binary.LittleEndian.Uint64(h); word != uint64(KindEvent)|uint64(n)<<32 {
		headers := int(word >> 16 & 0xFFFF)
		if word&0xFFFF != uint64(KindEvent) || headers+int(word>>32) != n {
			return false
		}
		e.Headers, e.Data = e.Data[:headers:headers], e.Data[headers:]
	}
	e.Epoch = math.Float64frombits(epochBits)
	e.Number = binary.LittleEndian.Uint64(h[16:])
	e.Target, e.Sender = binary.LittleEndian.Uint32(h[24:]), binary.LittleEndian.Uint32(h[28:])
	return true
}

// decodeBlock reads the block reference that stands in the place of e's data.
func (e *Event) decodeBlock(ref []byte) error {
	if len(ref) != BlockRefBytes {
		return fmt.Errorf("%w: block reference of %d bytes, want %d", ErrMalformed, len(ref), BlockRefBytes)
	}
	e.Data, e.InBlock = nil, true
	e.Block = BlockRef{
		Block:  binary.LittleEndian.Uint32(ref),
		Length: binary.LittleEndian.Uint32(ref[4:]),
		Seq:    binary.LittleEndian.Uint64(ref[8:]),
	}
	if e.Block.Length > DataMax {
		return fmt.Errorf("%w: block reference of %d data bytes, at most %d are allowed", ErrMalformed, e.Block.Length,
			DataMax)
	}
	return nil
}

// decodeParts reads the length that stands in the place of e's data.
func (e *Event) decodeParts(ref []byte) error {
	if len(ref) != PartsRefBytes {
		return fmt.Errorf("%w: length of data in parts of %d bytes, want %d", ErrMalformed, len(ref), PartsRefBytes)
	}
	length := binary.LittleEndian.Uint64(ref)
	if length == 0 || length > DataMax {
		return fmt.Errorf("%w: %d data bytes in parts, want 1 to %d", ErrMalformed, length, DataMax)
	}
	e.Data, e.Parts = nil, uint32(length)
	return nil
}

// EncodePart writes a part, the bytes of an event's data from offset on, into dst, which
// must hold PartHeaderBytes + len(data).
func EncodePart(dst []byte, offset uint32, data []byte) {
	h := dst[:PartHeaderBytes]
	binary.LittleEndian.PutUint64(h, uint64(KindPart)|uint64(offset)<<32)
	copy(dst[PartHeaderBytes:], data)
}

// DecodePart reads one part that fills src exactly; data aliases src. Data are at least a
// byte, and offset and data end at DataMax at the most.
func DecodePart(src []byte) (offset uint32, data []byte, err error) {
	if len(src) <= PartHeaderBytes {
		return 0, nil, fmt.Errorf("%w: part of %d bytes, want more than %d", ErrMalformed, len(src), PartHeaderBytes)
	}
	word := binary.LittleEndian.Uint64(src)
	if uint32(word) != uint32(KindPart) {
		return 0, nil, fmt.Errorf("%w: part starts with %#x, want kind 3 and three zero bytes", ErrMalformed,
			uint32(word))
	}
	data = src[PartHeaderBytes:len(src):len(src)]
	if word>>32+uint64(len(data)) > DataMax {
		return 0, nil, fmt.Errorf("%w: part of %d bytes at offset %d, want an end of at most %d", ErrMalformed,
			len(data), word>>32, DataMax)
	}
	return uint32(word >> 32), data, nil
}

// malformedEvent is the error of an event that Decode refused before it came to the data.
func malformedEvent(src []byte) error {
	if len(src) < EventHeaderBytes {
		return fmt.Errorf("%w: event of %d bytes, want at least %d", ErrMalformed, len(src), EventHeaderBytes)
	}
	if src[0] != byte(KindEvent) || src[1] > flagParts {
		return fmt.Errorf("%w: event with kind %d and flags %#x, want kind 1 and flags 0, 1 or 2", ErrMalformed, src[0],
			src[1])
	}
	headersLen, dataLen := int(binary.LittleEndian.Uint16(src[2:])), int(binary.LittleEndian.Uint32(src[4:]))
	if dataLen > DataMax || EventHeaderBytes+headersLen+dataLen != len(src) {
		return fmt.Errorf("%w: event says %d header and %d data bytes, but its record has %d bytes", ErrMalformed,
			headersLen, dataLen, len(src))
	}
	epoch := math.Float64frombits(binary.LittleEndian.Uint64(src[8:]))
	return fmt.Errorf("%w: event with epoch %v, want a finite time >= 0 without a sign", ErrMalformed, epoch)
}

// Encode writes the promise into dst, which must hold PromiseBytes, and returns
// the number written.
func (p *Promise) Encode(dst []byte) int {
	h := dst[:PromiseBytes]
	binary.LittleEndian.PutUint64(h, uint64(KindPromise)|uint64(p.Level)<<32)
	binary.LittleEndian.PutUint64(h[8:], math.Float64bits(p.Epoch+0))
	binary.LittleEndian.PutUint64(h[16:], p.Seqnr)
	binary.LittleEndian.PutUint64(h[24:], p.NumEvents)
	binary.LittleEndian.PutUint32(h[32:], p.Target)
	binary.LittleEndian.PutUint32(h[36:], p.Sender)
	return PromiseBytes
}

// DecodePromise reads one promise that fills src exactly. The epoch is checked
// to be a time or +Inf, never negative and never NaN.
func DecodePromise(src []byte) (Promise, error) {
	if len(src) != PromiseBytes {
		return Promise{}, fmt.Errorf("%w: promise of %d bytes, want %d", ErrMalformed, len(src), PromiseBytes)
	}
	word := binary.LittleEndian.Uint64(src)
	if uint32(word) != uint32(KindPromise) {
		return Promise{}, fmt.Errorf("%w: promise starts with %#x, want kind 2 and three zero bytes", ErrMalformed,
			uint32(word))
	}
	p := Promise{
		Epoch:     math.Float64frombits(binary.LittleEndian.Uint64(src[8:])),
		Seqnr:     binary.LittleEndian.Uint64(src[16:]),
		NumEvents: binary.LittleEndian.Uint64(src[24:]),
		Level:     uint32(word >> 32),
		Target:    binary.LittleEndian.Uint32(src[32:]),
		Sender:    binary.LittleEndian.Uint32(src[36:]),
	}
	if math.Float64bits(p.Epoch) > infEpochBits {
		return Promise{}, fmt.Errorf("%w: promise with epoch %v, want a time >= 0 without a sign, or +Inf",
			ErrMalformed, p.Epoch)
	}
	return p, nil
}

// String is stable: golden scripts compare it.
func (e *Event) String() string {
	if e.InBlock {
		return fmt.Sprintf("event %d->%d #%d @%g block %d (%d bytes)", e.Sender, e.Target, e.Number, e.Epoch,
			e.Block.Block, e.Block.Length)
	}
	if e.Parts != 0 {
		return fmt.Sprintf("event %d->%d #%d @%g %d bytes in parts", e.Sender, e.Target, e.Number, e.Epoch, e.Parts)
	}
	return fmt.Sprintf("event %d->%d #%d @%g %d bytes", e.Sender, e.Target, e.Number, e.Epoch, len(e.Data))
}

// String is stable: golden scripts compare it.
func (p *Promise) String() string {
	return fmt.Sprintf("promise %d->%d seqnr %d @(%g,%d) after %d events", p.Sender, p.Target, p.Seqnr, p.Epoch,
		p.Level, p.NumEvents)
}
