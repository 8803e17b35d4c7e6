// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"math"
)

// What one call of a handler takes in a CallLog.
const (
	CallHashBytes  = 2  // low 16 bits of the simproc's hash behind the call, little endian
	CallWholeBytes = 16 // simproc u32, hash u32, epoch f64, little endian
)

// CallLog takes the journal of activations: what each call of a handler has come to. Within a class calls are in the
// total order (epoch, level, simproc), and a simproc's hash has its epochs and all that it has handled before. So which
// call a hash is of follows from its place, and it is all that is kept of a call. The goroutine of its Engine uses it.
type CallLog struct {
	// Whole has all of each call be kept, of all classes as one.
	Whole bool

	// Full is called where a call has no room in the buffer of its class, with that, which is empty at first, and the
	// epoch of its first call. It gives another one for this call and the next ones, of a multiple of what a call
	// takes, at least once. It may wait, for nothing that needs this Engine.
	Full func(class int, from float64, calls []byte) (empty []byte)

	classes []callBuffer
}

// callBuffer is the buffer of a class.
type callBuffer struct {
	buf  []byte
	used int
	from float64 // epoch of its first call
}

// Begin has it take calls of an Engine with so many classes. The buffers of the one before were taken.
func (l *CallLog) Begin(classes int) { l.classes = make([]callBuffer, classes) }

// Take ends the buffers of all classes before they are full, and calls yield for each that there is, also for one
// without calls.
func (l *CallLog) Take(yield func(class int, from float64, calls []byte)) {
	for c := range l.classes {
		b := &l.classes[c]
		buf, used := b.buf, b.used
		b.buf, b.used = nil, 0
		if buf != nil {
			yield(c, b.from, buf[:used])
		}
	}
}

// add appends a call that p is about to get, behind which its hash is this.
func (l *CallLog) add(class int, p *Simproc, hash uint64) {
	b := &l.classes[class]
	at := uint(b.used)
	if l.Whole || at+1 >= uint(len(b.buf)) {
		l.addSlowly(class, p, hash)
		return
	}
	b.used = int(at + CallHashBytes)
	b.buf[at], b.buf[at+1] = byte(hash), byte(hash>>8) // one access, without further checks
}

// addSlowly is add where all of a call is kept, or another buffer is wanted first.
func (l *CallLog) addSlowly(class int, p *Simproc, hash uint64) {
	if l.Whole {
		l.addWhole(p)
		return
	}
	l.more(class, p.now)
	b := &l.classes[class]
	binary.LittleEndian.PutUint16(b.buf, uint16(hash))
	b.used = CallHashBytes
}

// addWhole is add where all of a call is kept.
func (l *CallLog) addWhole(p *Simproc) {
	b := &l.classes[0]
	if b.used == len(b.buf) {
		l.more(0, p.now)
	}
	at := b.buf[b.used:][:CallWholeBytes]
	binary.LittleEndian.PutUint64(at, uint64(p.id)|p.hash<<32)
	binary.LittleEndian.PutUint64(at[8:], math.Float64bits(p.now))
	b.used += CallWholeBytes
}

// more gives a class another buffer, whose first call is at an epoch.
func (l *CallLog) more(class int, epoch float64) {
	b := &l.classes[class]
	b.buf = l.Full(class, b.from, b.buf[:b.used])
	b.used, b.from = 0, epoch
}

// NumClasses is how many classes the simprocs of this worker are in: those of one are called in the total order
// (epoch, level, simproc), whatever the others do.
func (p *Plan) NumClasses() int { return len(p.classes) }

// EachClass calls yield for each simproc that this worker hosts, by rising id, with its class.
func (p *Plan) EachClass(yield func(id SimprocID, class int)) {
	for place := range p.count {
		class := 0
		if p.classOf != nil {
			class = int(p.classOf[place])
		}
		yield(p.hostedAt(place), class)
	}
}
