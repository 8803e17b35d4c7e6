// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math"
)

// Conservative synchronisation between workers, after Chandy and Misra
// (Distributed simulation, IEEE TSE 5(5), 1979) and Bryant (1977), with levels so
// that links of lookahead 0 can cross workers. docs/sync.md has the derivation.

// Bound says: nothing earlier than (Epoch, Level) will come. Bounds are ordered
// by epoch, then level.
type Bound struct {
	Epoch float64
	Level uint32
}

// LevelMax is above the level of every simproc: (e, LevelMax) means that
// everything at epoch e has been sent.
const LevelMax = math.MaxUint32

// Never is the bound of those who will send nothing any more.
var Never = Bound{math.Inf(1), LevelMax}

// Before reports whether b is earlier than c.
func (b Bound) Before(c Bound) bool {
	return b.Epoch < c.Epoch || b.Epoch == c.Epoch && b.Level < c.Level
}

// String is stable: golden scripts compare it.
func (b Bound) String() string {
	switch {
	case math.IsInf(b.Epoch, 1):
		return "never"
	case b.Level == LevelMax:
		return fmt.Sprintf("after %v", b.Epoch)
	}
	return fmt.Sprintf("(%v, %d)", b.Epoch, b.Level)
}

func least(a, b Bound) Bound {
	if b.Before(a) {
		return b
	}
	return a
}

// shift maps a bound on what happens at one place to a bound on what that can cause
// at another: the least over all ways between them.
type shift struct {
	kind      shiftKind
	step      uint32  // zero: levels that the way rises at the least
	low, high uint32  // zero: least and highest level at its end
	lookahead float64 // ahead: least sum of lookaheads, > 0
	slack     float64 // ahead: what rounding can take from epoch + lookahead, as a share of it
}

type shiftKind uint8

const (
	shiftNone  shiftKind = iota // no way at all
	shiftAhead                  // every way has lookahead
	shiftAfter                  // some way takes no time, but is strictly later
	shiftZero                   // some way stays within the epoch, on rising levels
)

func (h shift) apply(b Bound) Bound {
	if math.IsInf(b.Epoch, 1) {
		return Never
	}
	switch h.kind {
	case shiftNone:
		return Never
	case shiftAhead:
		// A lookahead too small to change the sum still means strictly later: Send
		// refuses an epoch that isn't. One below the normal numbers changes the sum next to
		// 0 alone, where workers would raise each other's bounds by it for ever.
		e := b.Epoch + h.lookahead
		if h.slack > 0 {
			e -= e * h.slack
		}
		if e > b.Epoch && h.lookahead >= 0x1p-1022 {
			return Bound{e, 0}
		}
	case shiftZero:
		if b.Level <= h.high && b.Level+h.step <= h.high {
			return Bound{b.Epoch, max(b.Level+h.step, h.low)}
		}
	}
	return Bound{b.Epoch, LevelMax}
}

// join is the shift over the ways of both.
func (h shift) join(k shift) shift {
	if h.kind != k.kind {
		if h.kind > k.kind {
			return h
		}
		return k
	}
	h.step = min(h.step, k.step)
	h.low = min(h.low, k.low)
	h.high = max(h.high, k.high)
	h.lookahead = min(h.lookahead, k.lookahead)
	h.slack = max(h.slack, k.slack)
	return h
}

// linksMargin is the share by which aheadBy rounds the number of links in a sum up.
const linksMargin = 0x1p-10

// aheadBy is the shift over ways whose lookaheads sum up to at least sum.
//
// An event's epoch comes about link by link, and each addition rounds: over links with
// lookaheads a and b it is (e + a) + b, which may be less than e + (a + b). A bound
// must not be above it. Each addition is off by at most half a unit in the last place
// (ulp) of its result, and so of the last one, which is the largest; the sum of the
// lookaheads was rounded as often. Over k links that is k ulp at the most, and one more
// for the addition in apply. A longer way that sums up to more has more of these, but
// also at least one whole lookahead more each, which is more than an ulp, or time would
// stand still on it. So k is how many of the least lookaheads fit into the sum, and at the
// most as many as there are simprocs here, each of which is left once.
//
// Over a single link e + lookahead is what Send checks the event's epoch against, and so
// exact. But beside a link with a little less than two of the least lookaheads there may be
// two with these, over which rounding makes an event earlier than over the one. So what
// falls short of a further lookahead by less than linksMargin of the sum counts as having
// it: then 3 ulp of an epoch up to 10^12 times the least lookahead don't bridge the gap.
func (w *wiring) aheadBy(sum float64) shift {
	h := shift{kind: shiftAhead, lookahead: sum}
	links := min(math.Floor(sum/w.least*(1+linksMargin)), float64(w.most))
	if links > 1 {
		h.slack = (links + 2) * 0x1p-52
	}
	return h
}
