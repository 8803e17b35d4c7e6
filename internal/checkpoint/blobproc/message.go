// SPDX-License-Identifier: Apache-2.0

package blobproc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/wire"
)

// kind says what a message is: docs/format/blobs.md.
type kind uint8

// Kinds. Those up to cancel are sent by who uses the place, the others by the process that has it.
const (
	kindOpen   kind = iota + 1 // address, owner
	kindPut                    // name, size, onlyNew
	kindData                   // the bytes that were wanted, and, of both, bytes of a blob
	kindBroken                 // there are no more of them
	kindGet                    // name, from, size
	kindList                   // prefix
	kindDelete                 // names
	kindLock
	kindUnlock
	kindCancel // what is being done
	kindWant   // a number of bytes of what is put
	kindBlobs  // part of a list
	kindDone   // how what was asked for has ended
)

// Bounds of messages.
const (
	messageBytesMax = 2 << 20
	dataBytesMax    = 1 << 20  // of a blob, in one message
	pieceBytesMax   = 16 << 20 // that one get asks for
	namesInMessage  = 1000
)

// How something ends.
const (
	endOK = iota
	endExists
	endMissing // text: where, name
	endLocked  // text: where, owner: name
	endCanceled
	endError // text
)

// message is what either says. Each kind has some of the fields, and the others are zero.
type message struct {
	kind       kind
	name, text string
	from, size int64
	onlyNew    bool
	end        uint8
	data       []byte
	names      []string
	blobs      []checkpoint.Blob
}

// fields is the body.
func (m *message) fields(c *wire.Codec) {
	c.String(&m.name)
	c.String(&m.text)
	c.Int64(&m.from)
	c.Int64(&m.size)
	c.Bool(&m.onlyNew)
	c.Byte(&m.end)
	c.Bytes(&m.data)
	wire.List(c, &m.names, 4, func(s *string) { c.String(s) })
	wire.List(c, &m.blobs, 12, func(b *checkpoint.Blob) {
		c.String(&b.Name)
		c.Int64(&b.Size)
	})
}

// stream is one end of the control stream. Any goroutine may send; one receives.
type stream struct {
	file *os.File
	in   []byte // of a message, where it is used before the next one is received; nil: each has its own

	mu  sync.Mutex // guards out, and keeps messages apart
	out []byte
}

// headBytes are those in front of a body: its length, version and kind.
const (
	headBytes = 6
	version   = 1
)

// send sends a message.
func (s *stream) send(m *message) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out, err = wire.Append(append(s.out[:0], make([]byte, headBytes)...), m.fields); err != nil {
		return fmt.Errorf("blobproc: %w", err)
	}
	size := len(s.out) - headBytes
	if size > messageBytesMax {
		return fmt.Errorf("blobproc: a message of kind %d has %d bytes, want at most %d", m.kind, size,
			messageBytesMax)
	}
	binary.LittleEndian.PutUint32(s.out, uint32(size))
	s.out[4], s.out[5] = version, byte(m.kind)
	_, err = s.file.Write(s.out)
	return err
}

// receive receives a message, whose data is valid until the next one is received, unless each has its own.
func (s *stream) receive() (*message, error) {
	var head [headBytes]byte
	if _, err := io.ReadFull(s.file, head[:]); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size > messageBytesMax || head[4] != version {
		return nil, fmt.Errorf("blobproc: found a message of %d bytes and version %d, want at most %d and version %d: "+
			"both programs want to be of one build", size, head[4], messageBytesMax, version)
	}
	body := s.in
	if int(size) > len(body) {
		body = make([]byte, size)
	}
	body = body[:size]
	if _, err := io.ReadFull(s.file, body); err != nil {
		return nil, err
	}
	return parse(kind(head[5]), body)
}

// parse decodes a message, which refers to the body.
func parse(k kind, body []byte) (*message, error) {
	m := &message{kind: k}
	if k < kindOpen || k > kindDone {
		return nil, fmt.Errorf("blobproc: found a message of kind %d, want %d to %d", k, kindOpen, kindDone)
	}
	if err := wire.Decode(body, m.fields); err != nil {
		return nil, fmt.Errorf("blobproc: message of kind %d: %w", k, err)
	}
	if m.from < 0 || m.size < 0 || m.end > endError {
		return nil, fmt.Errorf("blobproc: message of kind %d: found %d bytes from %d, end %d, want none below 0, and "+
			"an end up to %d", k, m.size, m.from, m.end, endError)
	}
	for _, b := range m.blobs {
		if b.Size < 0 {
			return nil, fmt.Errorf("blobproc: message of kind %d: found %.80q of %d bytes, want 0 or more", k, b.Name,
				b.Size)
		}
	}
	return m, nil
}

// done is the message about an end. canceled: the other end has asked for it. Without that a context of the place's own
// has ended, as for a store that doesn't answer, and the error says so.
func done(err error, canceled bool) *message {
	m := &message{kind: kindDone}
	var missing *checkpoint.MissingError
	var locked *checkpoint.LockedError
	switch {
	case err == nil:
	case errors.Is(err, checkpoint.ErrExists):
		m.end = endExists
	case errors.As(err, &missing):
		m.end, m.text, m.name = endMissing, missing.Where, missing.Name
	case errors.As(err, &locked):
		m.end, m.text, m.name = endLocked, locked.Where, locked.Owner
	case canceled && errors.Is(err, context.Canceled):
		m.end = endCanceled
	default:
		m.end, m.text = endError, err.Error()
		const most = 64 << 10
		m.text = m.text[:min(len(m.text), most)]
	}
	return m
}

// error is the error of an end.
func (m *message) error() error {
	switch m.end {
	case endOK:
		return nil
	case endExists:
		return checkpoint.ErrExists
	case endMissing:
		return &checkpoint.MissingError{Where: m.text, Name: m.name}
	case endLocked:
		return &checkpoint.LockedError{Where: m.text, Owner: m.name}
	case endCanceled:
		return context.Canceled
	}
	return &FailedError{m.text}
}

// limit is until when the other end is waited for; the zero time: for ever.
func (s *stream) limit(until time.Time) { _ = s.file.SetDeadline(until) } // a socket has deadlines
