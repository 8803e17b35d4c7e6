// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"math"
)

// CallBytes is what one call of a handler takes in a CallLog: simproc u32, the low half of its hash behind the call
// u32, epoch f64, little endian.
const CallBytes = 16

// CallLog takes the journal of activations: what each call of a handler has come to, in the order of the calls. The
// goroutine of its Engine uses it.
type CallLog struct {
	// Full is called with a whole buffer, when the next call has no room in it, and gives another one, of at least
	// CallBytes. It may wait, for nothing that needs this Engine.
	Full func(calls []byte) (empty []byte)

	buf  []byte
	used int
}

// Take ends a buffer before it is full: what is in it, and none that goes on.
func (l *CallLog) Take() (calls []byte) {
	calls = l.buf[:l.used]
	l.buf, l.used = nil, 0
	return calls
}

// add appends a call that p is about to get.
func (l *CallLog) add(p *Simproc) {
	if len(l.buf)-l.used < CallBytes {
		l.buf = l.Full(l.Take())
	}
	b := l.buf[l.used : l.used+CallBytes]
	binary.LittleEndian.PutUint64(b, uint64(p.id)|p.hash<<32)
	binary.LittleEndian.PutUint64(b[8:], math.Float64bits(p.now))
	l.used += CallBytes
}
