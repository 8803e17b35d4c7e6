// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"math"
)

// Row is what a handler records of one thing that it simulates: words whose meaning is the model's.
type Row [6]uint64

// RowBytes is what a row takes in a RecordLog: epoch f64, level u32, simproc u32, and the words, little endian.
const RowBytes = 8 + 4 + 4 + 8*len(Row{})

// Recorded is a row with where and when it was recorded.
type Recorded struct {
	Epoch   float64
	Level   uint32
	Simproc SimprocID
	Row     Row
}

// Append appends it as a RecordLog has it: RowBytes.
func (r *Recorded) Append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(r.Epoch))
	dst = binary.LittleEndian.AppendUint32(dst, r.Level)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(r.Simproc))
	for _, word := range r.Row {
		dst = binary.LittleEndian.AppendUint64(dst, word)
	}
	return dst
}

// Parse reads what Append has written. The epoch may be anything.
func (r *Recorded) Parse(b *[RowBytes]byte) {
	r.Epoch = math.Float64frombits(binary.LittleEndian.Uint64(b[:]))
	r.Level = binary.LittleEndian.Uint32(b[8:])
	r.Simproc = SimprocID(binary.LittleEndian.Uint32(b[12:]))
	for i := range r.Row {
		r.Row[i] = binary.LittleEndian.Uint64(b[16+8*i:])
	}
}

// RecordLog takes what handlers record. Within a class rows are in the total order (epoch, level, simproc), and those
// of one call of a handler in the order in which it has recorded them. The goroutine of its Engine uses it.
type RecordLog struct {
	// Full is called where the buffer of a class has no room for a row, with that, which is empty at first. It gives
	// one of a multiple of RowBytes, at least one.
	Full func(class int, rows []byte) (empty []byte)

	classes []recordBuffer
}

// recordBuffer is the buffer of a class.
type recordBuffer struct {
	buf  []byte
	used int
}

// Take calls yield with the rows of each class that has some, which are gone then.
func (l *RecordLog) Take(yield func(class int, rows []byte)) {
	for class := range l.classes {
		if b := &l.classes[class]; b.used > 0 {
			yield(class, b.buf[:b.used])
			b.used = 0
		}
	}
}

// add appends a row of p.
func (l *RecordLog) add(class int, p *Simproc, r *Row) {
	if class >= len(l.classes) {
		l.classes = append(l.classes, make([]recordBuffer, class+1-len(l.classes))...)
	}
	b := &l.classes[class]
	if b.used == len(b.buf) {
		b.buf, b.used = l.Full(class, b.buf[:b.used]), 0
	}
	at := (*[RowBytes]byte)(b.buf[b.used:])
	binary.LittleEndian.PutUint64(at[:], math.Float64bits(p.now))
	binary.LittleEndian.PutUint32(at[8:], p.level())
	binary.LittleEndian.PutUint32(at[12:], uint32(p.id))
	for i, word := range r {
		binary.LittleEndian.PutUint64(at[16+8*i:], word)
	}
	b.used += RowBytes
}

// Recording reports whether what is simulated is recorded, always the same: Record does nothing else. Asking costs a
// handler no memory of its own.
func (p *Simproc) Recording() bool { return p.engine.cfg.Records != nil }

// Record records a row, where that is asked for (scenario.Recorder). It must be called from Handle. Nothing that is
// simulated may depend on it.
func (p *Simproc) Record(r Row) {
	if log := p.engine.cfg.Records; log != nil {
		log.add(p.class(), p, &r)
	}
}
