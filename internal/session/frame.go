// SPDX-License-Identifier: Apache-2.0

package session

import (
	"encoding/binary"
	"fmt"
)

// Sizes in bytes.
const (
	HeaderBytes  = 32
	BodyBytesMax = 256 << 10
	MessageBytes = 64 << 10 // as many frames as fit this, or one larger one
	messageMax   = HeaderBytes + BodyBytesMax
	frameVersion = 1
	textBytesMax = 1 << 10
	offsetType   = 1
	offsetSet    = 2
	offsetLength = 4
	offsetNumber = 8
	offsetAck    = 16
	offsetLane   = 24
	offsetBegin  = 28
)

// Stream is one of the two streams of a pair of machines.
type Stream uint32

// Express carries what somebody waits for, Bulk what is large.
const (
	Express Stream = iota
	Bulk
	streams
)

// String names the stream.
func (s Stream) String() string {
	if s < streams {
		return [...]string{"express", "bulk"}[s]
	}
	return fmt.Sprintf("stream %d", uint32(s))
}

// Type is what a frame's body is; docs/bridge.md has their layouts.
type Type uint8

// Numbered frames, which are kept until they are acknowledged; state frames, which are not; frames of the session.
const (
	Records Type = 1 // express
	End     Type = 2
	Control Type = 3
	Process Type = 4
	Payload Type = 5 // bulk
	Blob    Type = 6

	Ping   Type = 16 // both: t0; 0 where no answer is wanted
	Pong   Type = 17
	Credit Type = 18
	Status Type = 19 // express
	Quiet  Type = 20
	Jump   Type = 21
	Boards Type = 22

	hello   Type = 64
	welcome Type = 65
	refuse  Type = 66
	bye     Type = 67
)

// shapes are what is allowed of each type: its streams, a bit for each, and the bytes of its body.
var shapes = [...]struct {
	on          uint8
	least, most int
}{
	Records: {1 << Express, 0, BodyBytesMax},
	End:     {1 << Express, 0, 0},
	Control: {1 << Express, 0, BodyBytesMax},
	Process: {1 << Express, 0, BodyBytesMax},
	Payload: {1 << Bulk, 0, BodyBytesMax},
	Blob:    {1 << Bulk, 0, BodyBytesMax},
	Ping:    {1<<Express | 1<<Bulk, 8, 8},
	Pong:    {1<<Express | 1<<Bulk, 24, 24},
	Credit:  {1<<Express | 1<<Bulk, 0, BodyBytesMax},
	Status:  {1 << Express, 0, BodyBytesMax},
	Quiet:   {1 << Express, 0, BodyBytesMax},
	Jump:    {1 << Express, 0, BodyBytesMax},
	Boards:  {1 << Express, 0, BodyBytesMax},
	hello:   {1<<Express | 1<<Bulk, helloBytes, helloBytes},
	welcome: {1<<Express | 1<<Bulk, helloBytes, helloBytes},
	refuse:  {1<<Express | 1<<Bulk, 4, 4 + textBytesMax},
	bye:     {1<<Express | 1<<Bulk, 4, 4 + textBytesMax},
}

func (t Type) numbered() bool { return t >= Records && t <= Blob }

// ofSession reports whether frames of this type are between the sessions of two machines, and of no set of workers.
func (t Type) ofSession() bool { return t == Ping || t == Pong || t >= hello }

// on reports whether frames of this type travel on a stream.
func (t Type) on(s Stream) bool { return int(t) < len(shapes) && shapes[t].on&(1<<s) != 0 }

// Header is the first 32 bytes of a frame. Number and Ack are the session's.
type Header struct {
	Type        Type
	Set         uint16 // of the run's workers, modulo 2^16; 0 where the frame is of none
	Number, Ack uint64 // number 0: a state frame
	Lane        uint32 // from << 16 + to
	Begin       uint32 // how often the lanes of the set had begun anew
}

func (h Header) put(b []byte, size int) {
	le := binary.LittleEndian
	b[0], b[offsetType] = frameVersion, byte(h.Type)
	le.PutUint16(b[offsetSet:], h.Set)
	putLength(b, size)
	le.PutUint64(b[offsetNumber:], h.Number)
	le.PutUint64(b[offsetAck:], h.Ack)
	le.PutUint32(b[offsetLane:], h.Lane)
	le.PutUint32(b[offsetBegin:], h.Begin)
}

func putLength(b []byte, size int) { binary.LittleEndian.PutUint32(b[offsetLength:], uint32(size)) }

// FrameError is a frame that no peer may send. Byte counts from the frame's first. Apply may return one with Byte,
// Found and Allowed; the session fills in the rest.
type FrameError struct {
	Machine        int // that sent it
	Stream         Stream
	Number         uint64 // of the frame; 0 for a state frame, or where it isn't known
	Byte           int
	Found, Allowed string
}

// Error has all of the fields.
func (e *FrameError) Error() string {
	return fmt.Sprintf("session: machine %d, %v, frame %d, byte %d: found %s, allowed: %s; "+
		"the run on that machine is broken, or of another build",
		e.Machine, e.Stream, e.Number, e.Byte, e.Found, e.Allowed)
}

func badFrame(number uint64, at int, found, allowed any) *FrameError {
	return &FrameError{Number: number, Byte: at, Found: fmt.Sprint(found), Allowed: fmt.Sprint(allowed)}
}

// parse reads the first frame of what is left of a message, and gives its header, its body and the rest. Nothing is
// used before it is bounded, and nothing is allocated but an error.
func parse(b []byte, on Stream) (h Header, body, rest []byte, bad *FrameError) {
	if len(b) < HeaderBytes {
		return h, nil, nil, badFrame(0, len(b), fmt.Sprint(len(b), " bytes"), fmt.Sprint("a header of ", HeaderBytes))
	}
	le := binary.LittleEndian
	h = Header{Type(b[offsetType]), le.Uint16(b[offsetSet:]), le.Uint64(b[offsetNumber:]), le.Uint64(b[offsetAck:]),
		le.Uint32(b[offsetLane:]), le.Uint32(b[offsetBegin:])}
	size := uint64(le.Uint32(b[offsetLength:]))
	switch {
	case b[0] != frameVersion:
		bad = badFrame(h.Number, 0, fmt.Sprint("version ", b[0]), frameVersion)
	case !h.Type.on(on):
		bad = badFrame(h.Number, offsetType, fmt.Sprint("type ", uint8(h.Type)), fmt.Sprint("a type of ", on))
	case h.Set != 0 && h.Type.ofSession():
		bad = badFrame(h.Number, offsetSet, fmt.Sprint("set ", h.Set), 0)
	case size > uint64(len(b)-HeaderBytes):
		bad = badFrame(h.Number, offsetLength, fmt.Sprint("a body of ", size),
			fmt.Sprint(len(b)-HeaderBytes, ", which are left of the message"))
	case int(size) < shapes[h.Type].least || int(size) > shapes[h.Type].most:
		bad = badFrame(h.Number, offsetLength, fmt.Sprint("a body of ", size),
			fmt.Sprint(shapes[h.Type].least, " to ", shapes[h.Type].most))
	case h.Type.numbered() != (h.Number != 0):
		bad = badFrame(h.Number, offsetNumber, fmt.Sprint("number ", h.Number, " of type ", uint8(h.Type)),
			"0 for state frames, others from 1")
	}
	if bad != nil {
		return h, nil, nil, bad
	}
	end := HeaderBytes + int(size)
	return h, b[HeaderBytes:end:end], b[end:], nil
}
