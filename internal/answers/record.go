// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strings"

	"github.com/disco-sim/disco/internal/checkpoint"
)

// Bounds of a record.
const (
	BytesMax    = 16 << 20 // of a request, and of an answer
	CallsMax    = 4096     // calls of an activation
	nameMax     = 64
	attemptsMax = 1000

	headBytes = 4 + 4 + 8 + 4 + 4 + 8 + 4 + 4 + 4 + 2*sha256.Size

	// RecordBytesMax is what a record has at most.
	RecordBytesMax = headBytes + nameMax + 2*BytesMax
)

// Key is which call of a replication a record is of.
type Key struct {
	Simproc uint32
	Epoch   float64 // of the activation
	Call    uint32  // its number in the activation, from 0
}

// Compare is the order of keys: by epoch, simproc, call.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Epoch, other.Epoch), cmp.Compare(k.Simproc, other.Simproc),
		cmp.Compare(k.Call, other.Call))
}

// String is the key for messages where no names are known.
func (k Key) String() string {
	return fmt.Sprintf("call %d of simproc %d at epoch %v", k.Call, k.Simproc, k.Epoch)
}

// IdempotencyKey is the key of a call by which the outside knows it again: 64 hexadecimal digits.
func (k Key) IdempotencyKey(run checkpoint.ID, replication int) string {
	b := append(make([]byte, 0, 64), run[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(replication))
	b = binary.LittleEndian.AppendUint32(b, k.Simproc)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(k.Epoch))
	b = binary.LittleEndian.AppendUint32(b, k.Call)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Record is a call of the outside world, and what came of it.
type Record struct {
	Key
	Name     string // of the external
	Request  []byte
	Failed   bool // Answer is the text of an error
	Answer   []byte
	Attempts int
	Took     float64 // seconds
}

// Append appends the record: docs/format/checkpoint.md, "An external".
func (r *Record) Append(dst []byte) []byte {
	size := headBytes - 4 + len(r.Name) + len(r.Request) + len(r.Answer)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(size))
	dst = binary.LittleEndian.AppendUint32(dst, r.Simproc)
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(r.Epoch))
	dst = binary.LittleEndian.AppendUint32(dst, r.Call)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(r.Attempts))
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(r.Took))
	failed := byte(0)
	if r.Failed {
		failed = 1
	}
	dst = append(dst, failed, byte(len(r.Name)), 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(r.Request)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(r.Answer)))
	request, answer := sha256.Sum256(r.Request), sha256.Sum256(r.Answer)
	dst = append(append(dst, request[:]...), answer[:]...)
	return append(append(append(dst, r.Name...), r.Request...), r.Answer...)
}

// Parse reads the record that src begins with, and checks all of it. Request and Answer are parts of src.
func Parse(src []byte) (r *Record, rest []byte, err error) {
	if len(src) < headBytes {
		return nil, nil, fmt.Errorf("found %d bytes, want the %d of a record's head", len(src), headBytes)
	}
	word := binary.LittleEndian.Uint32
	size := int64(word(src)) + 4
	name, request, answer := int64(src[33]), int64(word(src[36:])), int64(word(src[40:]))
	switch {
	case size > int64(len(src)):
		return nil, nil, fmt.Errorf("found a record of %d bytes, want at most %d: so many are left", size, len(src))
	case request > BytesMax || answer > BytesMax:
		return nil, nil, fmt.Errorf("found a request of %d bytes and an answer of %d, want at most %d", request, answer,
			BytesMax)
	case name < 1 || name > nameMax:
		return nil, nil, fmt.Errorf("found a name of %d bytes, want 1 to %d", name, nameMax)
	case size != headBytes+name+request+answer:
		return nil, nil, fmt.Errorf("found a record of %d bytes, want %d by its parts", size,
			headBytes+name+request+answer)
	case src[32] > 1 || src[34]|src[35] != 0:
		return nil, nil, fmt.Errorf("found outcome %d with % x behind it, want 0 or 1 and zeros", src[32], src[34:36])
	}
	r = &Record{Key: Key{word(src[4:]), math.Float64frombits(binary.LittleEndian.Uint64(src[8:])), word(src[16:])},
		Failed: src[32] == 1, Attempts: int(word(src[20:])),
		Took: math.Float64frombits(binary.LittleEndian.Uint64(src[24:]))}
	body := src[headBytes:size]
	r.Name, body = string(body[:name]), body[name:]
	r.Request, r.Answer = body[:request:request], body[request:]
	if err := r.check(src[44:headBytes]); err != nil {
		return nil, nil, err
	}
	return r, src[size:], nil
}

// check refuses what no run writes.
func (r *Record) check(digests []byte) error {
	switch request, answer := sha256.Sum256(r.Request), sha256.Sum256(r.Answer); {
	case !(r.Epoch >= 0) || math.IsInf(r.Epoch, 1):
		return fmt.Errorf("found epoch %v, want a finite time of 0 or more", r.Epoch)
	case r.Call >= CallsMax:
		return fmt.Errorf("found call %d, want 0 to %d", r.Call, CallsMax-1)
	case r.Attempts < 1 || r.Attempts > attemptsMax:
		return fmt.Errorf("found %d attempts, want 1 to %d", r.Attempts, attemptsMax)
	case !(r.Took >= 0) || math.IsInf(r.Took, 1):
		return fmt.Errorf("found that it took %v s, want a finite time of 0 or more", r.Took)
	case string(request[:]) != string(digests[:sha256.Size]):
		return fmt.Errorf("found a request with digest %x, want %x", request, digests[:sha256.Size])
	case string(answer[:]) != string(digests[sha256.Size:]):
		return fmt.Errorf("found an answer with digest %x, want %x", answer, digests[sha256.Size:])
	}
	return nil
}

// Asked is what an external was asked.
type Asked struct {
	Name    string
	Request []byte
}

// MismatchError says that a call asks something else than what its record has: the model depends on more than its
// input, or is another one.
type MismatchError struct {
	Replication     int
	Key             Key
	Simproc         string // its name; "": it isn't known here
	Recorded, Found Asked
}

// Error shows both requests around the first difference.
func (e *MismatchError) Error() string {
	who := e.Simproc
	if who == "" {
		who = fmt.Sprintf("simproc %d", e.Key.Simproc)
	}
	at := 0
	for at < min(len(e.Recorded.Request), len(e.Found.Request)) && e.Recorded.Request[at] == e.Found.Request[at] {
		at++
	}
	text := fmt.Sprintf("replay mismatch: replication %d, %s at epoch %v, call %d: found another request than the "+
		"recorded one\n  recorded: %s\n  found:    %s", e.Replication, who, e.Key.Epoch, e.Key.Call,
		e.Recorded.text(at), e.Found.text(at))
	if e.Recorded.Name == e.Found.Name {
		text += fmt.Sprintf("\n  the first difference is at byte %d", at)
	}
	return text
}

// text shows a request around a place.
func (a Asked) text(at int) string {
	const before, shown = 40, 120
	from := max(0, at-before)
	part := a.Request[from:min(len(a.Request), from+shown)]
	dots := func(is bool) string {
		if is {
			return "…"
		}
		return ""
	}
	sum := sha256.Sum256(a.Request)
	quoted := fmt.Sprintf("%q", part)
	return fmt.Sprintf("%s, %d bytes, SHA-256 %x…: %s%s%s", a.Name, len(a.Request), sum[:8], dots(from > 0),
		strings.Trim(quoted, `"`), dots(from+len(part) < len(a.Request)))
}

// MissingError says that a call has no record, in a run that only repeats what is recorded.
type MissingError struct {
	Replication int
	Key         Key
	Name        string // of the external
	Simproc     string // its name; "": it isn't known here
}

// Error names the call.
func (e *MissingError) Error() string {
	who := e.Simproc
	if who == "" {
		who = fmt.Sprintf("simproc %d", e.Key.Simproc)
	}
	return fmt.Sprintf("replication %d, %s at epoch %v, call %d: found no recorded answer of external %q, want one: "+
		"nothing is asked in a run that repeats what is recorded", e.Replication, who, e.Key.Epoch, e.Key.Call, e.Name)
}
