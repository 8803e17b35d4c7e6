// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/session"
)

// Sizes in bytes; docs/bridge.md, section 2, has the layouts.
const (
	batchHead   = 24 // of a records frame, in front of the records
	recordHead  = 8  // of each record
	payloadHead = 16 // of a payload frame
	payloadMost = 64 << 10
	creditBytes = 16
	statusBytes = 40
)

// granted is a credit that says that nothing is read on that lane any more.
const shut = math.MaxUint64

var le = binary.LittleEndian

func padded(n int) int { return (n + 7) &^ 7 }

// costOf is what a record of n bytes takes of its lane's window.
func costOf(n int) uint64 { return uint64(recordHead + padded(n)) }

// costOfPayload is what a payload frame with n bytes takes: its header too, so that no number of small ones is free.
func costOfPayload(n int) uint64 { return uint64(session.HeaderBytes + payloadHead + n) }

// laneID is how frames call a lane.
func laneID(from, to int) uint32 { return uint32(from)<<16 | uint32(to) }

// batch is the first part of a records frame.
type batch struct {
	records, events uint32
	bound           bool
	level           uint32
	epoch           float64
}

func (h *batch) put(b []byte) {
	le.PutUint32(b, h.records)
	le.PutUint32(b[4:], h.events)
	le.PutUint32(b[8:], 0)
	if h.bound {
		b[8] = 1
	}
	le.PutUint32(b[12:], h.level)
	le.PutUint64(b[16:], math.Float64bits(h.epoch+0))
}

// parseBatch reads it, and gives the records behind it.
func parseBatch(body []byte) (h batch, rest []byte, err error) {
	if len(body) < batchHead {
		return h, nil, bad(0, fmt.Sprint("a body of ", len(body)), fmt.Sprint(batchHead, " or more"))
	}
	flag, epoch := le.Uint32(body[8:]), le.Uint64(body[16:])
	h = batch{le.Uint32(body), le.Uint32(body[4:]), flag == 1, le.Uint32(body[12:]), math.Float64frombits(epoch)}
	switch {
	case h.events > h.records:
		return h, nil, bad(4, fmt.Sprint(h.events, " events"), fmt.Sprint("0 to ", h.records))
	case flag > 1:
		return h, nil, bad(8, fmt.Sprintf("%#x", flag), "0 or 1")
	case h.bound && epoch > math.Float64bits(math.Inf(1)):
		return h, nil, bad(16, fmt.Sprintf("epoch %#x", epoch), "a time or +Inf")
	case !h.bound && (h.level != 0 || epoch != 0):
		return h, nil, bad(12, "a bound", "none in a frame without one")
	}
	return h, body[batchHead:], nil
}

// putRecord writes the head of a record of n bytes, and clears what is behind it up to the next one's.
func putRecord(b []byte, n int, payload uint32) {
	le.PutUint32(b, uint32(n))
	le.PutUint32(b[4:], payload)
	if end := padded(n); end > n {
		clear(b[recordHead+n : recordHead+end])
	}
}

// parseRecord reads the first record of what is left of a frame, which is at byte at of its body: at most most bytes
// long, of a kind that there is, and with the flags of that kind.
func parseRecord(b []byte, at, most int) (rec []byte, payload uint32, rest []byte, err error) {
	if len(b) < recordHead {
		return nil, 0, nil, bad(at, fmt.Sprint(len(b), " bytes"), "a record")
	}
	n, payload := le.Uint32(b), le.Uint32(b[4:])
	if uint64(n) > uint64(most) || padded(int(n)) > len(b)-recordHead {
		return nil, 0, nil, bad(at, fmt.Sprint("a record of ", n), fmt.Sprint(min(most, len(b)-recordHead), " or less"))
	}
	rec, rest = b[recordHead:recordHead+int(n):recordHead+int(n)], b[recordHead+padded(int(n)):]
	if found, allowed := wrongRecord(rec, payload); found != "" {
		return nil, 0, nil, bad(at+recordHead, found, allowed)
	}
	return rec, payload, rest, nil
}

// flagParts is the flag of an event whose data come otherwise; docs/format/envelope.md.
const flagParts = 2

func wrongRecord(rec []byte, payload uint32) (found, allowed string) {
	if len(rec) < envelope.PartHeaderBytes {
		return fmt.Sprint("a record of ", len(rec)), fmt.Sprint(envelope.PartHeaderBytes, " or more")
	}
	kind, flags := envelope.Kind(rec[0]), rec[1]
	switch kind {
	case envelope.KindEvent:
		if flags != 0 && flags != flagParts {
			return fmt.Sprint("flags ", flags), "0 or 2 of an event"
		}
	case envelope.KindPromise, envelope.KindPart:
		if flags != 0 {
			return fmt.Sprint("flags ", flags), fmt.Sprint("0 of a ", kind)
		}
	default:
		return fmt.Sprint("kind ", uint8(kind)), "1 to 3"
	}
	if payload == 0 {
		return "", ""
	}
	if kind != envelope.KindEvent || flags != flagParts || len(rec) < envelope.EventHeaderBytes+envelope.PartsRefBytes {
		return fmt.Sprint("payload ", payload), "a payload of an event with flags 2 only"
	}
	return "", ""
}

// totalOf is how many bytes of data the event of a payload has; its record has passed wrongRecord.
func totalOf(rec []byte) uint64 { return le.Uint64(rec[len(rec)-envelope.PartsRefBytes:]) }

// chunk is the first part of a payload frame.
type chunk struct{ id, total, offset uint32 }

func (c *chunk) put(b []byte) {
	le.PutUint32(b, c.id)
	le.PutUint32(b[4:], c.total)
	le.PutUint32(b[8:], c.offset)
	le.PutUint32(b[12:], 0)
}

// parseChunk reads it, and gives the bytes behind it.
func parseChunk(body []byte) (c chunk, bytes []byte, err error) {
	if len(body) <= payloadHead || len(body) > payloadHead+payloadMost {
		return c, nil, bad(0, fmt.Sprint("a body of ", len(body)),
			fmt.Sprint(payloadHead+1, " to ", payloadHead+payloadMost))
	}
	c = chunk{le.Uint32(body), le.Uint32(body[4:]), le.Uint32(body[8:])}
	bytes = body[payloadHead:]
	switch zero := le.Uint32(body[12:]); {
	case c.id == 0:
		return c, nil, bad(0, "payload 0", "1 or more")
	case c.total > envelope.DataMax:
		return c, nil, bad(4, fmt.Sprint("total ", c.total), fmt.Sprint(envelope.DataMax, " or less"))
	case uint64(c.offset)+uint64(len(bytes)) > uint64(c.total):
		return c, nil, bad(8, fmt.Sprint(len(bytes), " bytes at ", c.offset), fmt.Sprint("up to ", c.total))
	case zero != 0:
		return c, nil, bad(12, zero, 0)
	}
	return c, bytes, nil
}

func (s *Status) put(b []byte) {
	le.PutUint32(b, uint32(s.Worker))
	le.PutUint32(b[4:], s.State)
	le.PutUint64(b[8:], s.Calls)
	le.PutUint64(b[16:], math.Float64bits(s.Place))
	le.PutUint64(b[24:], math.Float64bits(s.RoomAt))
	le.PutUint64(b[32:], math.Float64bits(s.WaitsAt))
}

func parseStatus(b []byte) Status {
	return Status{int(le.Uint32(b)), le.Uint32(b[4:]), le.Uint64(b[8:]), math.Float64frombits(le.Uint64(b[16:])),
		math.Float64frombits(le.Uint64(b[24:])), math.Float64frombits(le.Uint64(b[32:]))}
}

// bad is a frame that no peer sends, at a byte of its body.
func bad(at int, found, allowed any) error {
	return &session.FrameError{Byte: session.HeaderBytes + at, Found: fmt.Sprint(found), Allowed: fmt.Sprint(allowed)}
}

// badHead is one with a wrong header.
func badHead(at int, found, allowed any) error { return bad(at-session.HeaderBytes, found, allowed) }

// offsetType, offsetLane and offsetBegin are fields of the header.
const offsetType, offsetSet, offsetLane, offsetBegin = 1, 2, 24, 28
