// SPDX-License-Identifier: Apache-2.0

package node

import "math"

// mark is a Bound at one simproc, in one word that orders as bounds do: the bits of the
// epoch, and below them whether everything at the epoch is over. One simproc has only one
// level, so a Bound at it says either "nothing earlier than e" or "nothing up to e".
type mark uint64

// markNever is the mark of those to whom nothing comes any more.
const markNever = mark(0x7FF0_0000_0000_0000<<1 | 1)

// markOf says that nothing earlier than epoch comes, which is not NaN and not negative.
func markOf(epoch float64) mark {
	if math.IsInf(epoch, 1) {
		return markNever
	}
	return mark(math.Float64bits(epoch+0) << 1) // + 0: minus zero becomes plus zero
}

// markAt is a bound as it is at a simproc of the given level.
func markAt(b Bound, level uint32) mark {
	if b.Level > level {
		return markOf(b.Epoch).after()
	}
	return markOf(b.Epoch)
}

// bound is the mark of a simproc of the given level as a Bound.
func (m mark) bound(level uint32) Bound {
	switch {
	case m >= markNever:
		return Never
	case m&1 != 0:
		return Bound{m.epoch(), LevelMax}
	}
	return Bound{m.epoch(), level}
}

func (m mark) epoch() float64 { return math.Float64frombits(uint64(m) >> 1) }

// after says that what comes is strictly later.
func (m mark) after() mark { return m | 1 }

// ahead is the mark behind a link with lookahead > 0. It adds as Send does, one link at a
// time, so that no rounding comes between a bound and an event.
func (m mark) ahead(lookahead float64) mark {
	if m >= markNever {
		return markNever
	}
	// As in shift.apply: a lookahead that is lost in rounding means strictly later.
	if e := m.epoch() + lookahead; e > m.epoch() && lookahead >= 0x1p-1022 {
		return markOf(e)
	}
	return m.after()
}

// over is the mark behind a declared link: to the same epoch over a link of lookahead 0.
func (m mark) over(lookahead float64) mark {
	if lookahead == 0 {
		return m
	}
	return m.ahead(lookahead)
}
