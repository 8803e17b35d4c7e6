// SPDX-License-Identifier: Apache-2.0

package ring

import "sync/atomic"

// Status is the state of a ring, as its words in memory show it.
type Status struct {
	Capacity       int    // bytes of the data area
	Start          uint64 // position of the first record
	Tail           uint64 // position behind the last published record
	Head           uint64 // position of the first record that isn't released
	ProducerTaken  bool   // the writing side was acquired
	ConsumerTaken  bool   // the reading side was acquired
	ProducerClosed bool   // nothing follows at Tail
	ConsumerClosed bool   // nothing will be read any more
}

// Inspect reads the status of a ring from outside, for display: of a live ring, whose words move while they are
// read, or of one whose processes have died. It only loads, so read-only memory will do. It finds Tail by following
// the records from Head on; it stops where they move or are damaged. It fails with ErrFormat when mem is not a
// ring.
func Inspect(mem []byte) (Status, error) {
	v, start, err := attach(mem)
	if err != nil {
		return Status{}, err
	}
	head := atomic.LoadUint64(&v.ctl.consumer.head)
	tail := v.endOfRecords(head &^ headClosed)
	return Status{
		Capacity:       int(v.capacity),
		Start:          start,
		Tail:           tail,
		Head:           head &^ headClosed,
		ProducerTaken:  atomic.LoadUint64(&v.ctl.producer.owner) != 0,
		ConsumerTaken:  atomic.LoadUint64(&v.ctl.consumer.owner) != 0,
		ProducerClosed: atomic.LoadUint64(v.word(tail)) == kindEnd|markerBits|lapOf(tail, v.shift),
		ConsumerClosed: head&headClosed != 0,
	}, nil
}

// endOfRecords is the position behind the last record or padding that can be reached from a position, at most a
// capacity behind it.
func (v *view) endOfRecords(from uint64) uint64 {
	for at := from; ; {
		// SYNC POINT record-published: only the headers are looked at, nothing behind
		// them.
		header := atomic.LoadUint64(v.word(at))
		next := at + headerBytes + alignUp(header&lengthMask)
		if header&lineBit != 0 {
			next = v.lineUp(next)
		}
		if kind := header & kindMask; kind != kindData && kind != kindPadding ||
			header&^(kindMask|lengthMask|lineBit) != markerBits|lapOf(at, v.shift) ||
			next-at > v.capacity-at&v.mask || next-from > v.capacity-headerBytes {
			return at
		}
		at = next
	}
}
