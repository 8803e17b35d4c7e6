// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/disco-sim/disco/internal/child"
	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/internal/worker"
)

// Sizes in bytes; docs/format/relay.md has the layouts.
const (
	headBytes   = 16
	chunkBytes  = session.MessageBytes - session.HeaderBytes - headBytes // of a stream or a file, in one frame
	windowBytes = 256 << 10                                              // of a worker on one session, each way
	inputWindow = 1 << 41                                                // of an input: it goes straight into memory
	costMost    = session.HeaderBytes + session.BodyBytesMax             // of one frame
)

// costOf is what a frame takes of its window: its header too, so that no number of small ones is free.
func costOf(body int) uint64 { return uint64(session.HeaderBytes + body) }

// head is the first part of a control and of a blob frame, and all of a credit; a board's numbers follow one.
type head struct {
	set    uint32
	worker uint16
	what   uint16
	at     uint64
}

// What a control frame is.
const (
	isBytes = iota
	isEnd   // of the stream; a machine's has the worker's last numbers
)

// Files of blob frames.
const (
	fileInput = iota
	fileTrace
	fileProfile
	fileSpool
	fileRestore
	files
)

// Numbers that no worker has, and no set.
const (
	noWorker = 1<<16 - 1 // of the input's flow; of the machine's own
	noSet    = 1<<32 - 1 // of the machine's own flow: notes and failures
)

// ownID is the flow of notes and failures of a machine itself.
var ownID = flowID{noSet, noWorker}

var le = binary.LittleEndian

func (h *head) put(b []byte) {
	le.PutUint32(b, h.set)
	le.PutUint16(b[4:], h.worker)
	le.PutUint16(b[6:], h.what)
	le.PutUint64(b[8:], h.at)
}

// parse reads the head at a byte of a body, of a kind below most, and gives what is behind it.
func (h *head) parse(body []byte, at, most int) (rest []byte, err error) {
	if len(body)-at < headBytes {
		return nil, bad(at, fmt.Sprint(len(body)-at, " bytes"), fmt.Sprint(headBytes, " or more"))
	}
	b := body[at:]
	*h = head{le.Uint32(b), le.Uint16(b[4:]), le.Uint16(b[6:]), le.Uint64(b[8:])}
	if int(h.what) >= most {
		return nil, bad(at+6, h.what, fmt.Sprint("0 to ", most-1))
	}
	return b[headBytes:], nil
}

// packetAt is where the packet of a process frame begins.
const packetAt = 4

// parsePacket reads a process frame, and gives which set's input a plan shares.
func (it *item) parsePacket(body []byte) (sharing int, err error) {
	if len(body) < packetAt {
		return 0, bad(0, fmt.Sprint("a body of ", len(body)), fmt.Sprint(packetAt, " or more"))
	}
	if err := it.packet.Parse(bytes.Clone(body[packetAt:])); err != nil {
		return 0, bad(packetAt, err, "a packet of docs/format/child.md")
	}
	sharing = int(le.Uint32(body))
	if it.packet.Kind != child.KindPlan && sharing != 0 {
		return 0, bad(0, sharing, 0)
	}
	return sharing, nil
}

func (h *head) flow() flowID { return flowID{h.set, h.worker} }

// numbersBytes is what a board shows.
const numbersBytes = 8 * worker.NumbersCount

func putNumbers(b []byte, numbers []uint64) []byte {
	for _, n := range numbers {
		b = le.AppendUint64(b, n)
	}
	return b
}

// parseNumbers reads numbersBytes bytes.
func parseNumbers(b []byte) []uint64 {
	numbers := make([]uint64, worker.NumbersCount)
	for i := range numbers {
		numbers[i] = le.Uint64(b[8*i:])
	}
	return numbers
}

// bad is a frame that no peer sends, at a byte of its body.
func bad(at int, found, allowed any) error {
	return &session.FrameError{Byte: session.HeaderBytes + at, Found: fmt.Sprint(found), Allowed: fmt.Sprint(allowed)}
}

// badType is one of a type that no peer sends on that session.
func badType(h session.Header, allowed string) error {
	const offsetType = 1
	return bad(offsetType-session.HeaderBytes, fmt.Sprint("type ", uint8(h.Type)), allowed)
}
