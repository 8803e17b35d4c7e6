// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/binary"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/ingress"
)

// sink reads what arrives and compares it with what was sent.
type sink struct {
	in     *ingress.Ingress
	check  Check
	tips   bool   // only the first and the last word were written, and are read
	number bool   // only the number that stamp writes is read, but of each 1,024th event, which is read in full
	events uint64 // received
	wrong  uint64 // sum of all differences

	// answer, if not nil, is called with each event in place of reading it.
	answer func(number uint64, payload []byte) error
}

// readEvery is how often a sink reads an event in full of which it reads only the number otherwise.
const readEvery = 1024

var _ ingress.Sink = (*sink)(nil)

// ReceiveEvent reads the event's data. An event without data is an answer that has
// none.
func (s *sink) ReceiveEvent(_ int, ev *envelope.Event, lease uint64) error {
	s.events++
	if s.answer != nil {
		return s.answerEvent(ev, lease)
	}
	if len(ev.Data) == 0 {
		return nil
	}
	switch {
	case s.number && s.events%readEvery != 0:
		s.wrong += binary.LittleEndian.Uint64(ev.Data) - ev.Number
	case s.tips:
		s.wrong += sumTips(ev.Data) - s.check.at(ev.Number)
	default:
		s.wrong += sum(ev.Data) - s.check.at(ev.Number)
	}
	if lease != 0 {
		return s.in.Release(lease)
	}
	return nil
}

// answerEvent is ReceiveEvent for a side that answers at once.
func (s *sink) answerEvent(ev *envelope.Event, lease uint64) error {
	if err := s.answer(ev.Number, ev.Data); err != nil {
		return err
	}
	if lease != 0 {
		return s.in.Release(lease)
	}
	return nil
}

// ReceivePromise is for promises in records, which are not sent here.
func (s *sink) ReceivePromise(int, *envelope.Promise) error { return nil }

// ReceiveBound is for bounds, which are not raised here.
func (s *sink) ReceiveBound(int, float64, uint32) error { return nil }

// tipBytes is what stampTips writes and sumTips reads.
const tipBytes = 16

// stampTips writes the number of an event into the first and the last word of its
// payload.
func stampTips(b []byte, number uint64) {
	stamp(b, number)
	if len(b) >= tipBytes {
		binary.LittleEndian.PutUint64(b[len(b)-8:], ^number)
	}
}

// sumTips reads the first and the last word.
func sumTips(b []byte) uint64 {
	if len(b) < tipBytes {
		return sum(b)
	}
	return binary.LittleEndian.Uint64(b) + 2*binary.LittleEndian.Uint64(b[len(b)-8:])
}

// newTipCheck computes what sumTips gives: n + 2(2^64-1-n) = -2 - n.
func newTipCheck(payload []byte) Check {
	if len(payload) < tipBytes {
		return NewCheck(payload)
	}
	return Check{base: ^uint64(1), stamped: ^uint64(0)}
}
