// SPDX-License-Identifier: Apache-2.0

package service

import (
	"math"
	"math/big"
	"strings"

	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/internal/wire"
	"github.com/disco-sim/disco/state"
)

// ledger proves Little's law for one place of one box, in exact arithmetic: the
// time integral of how many are there equals the sum of how long each stays. The
// first side comes from the counter, the second from the times that are kept with
// each request, so that a request that is counted and not there, or there and not
// counted, or moved at the wrong time, breaks it.
//
// Only the checked build keeps ledgers; they allocate.
type ledger struct {
	level int64
	last  float64
	area  exactSum // integral of level over [0, last]
	stays exactSum // of those who left
}

func (l *ledger) change(now float64, by int64) {
	invariants.Assert(now >= l.last, "service: ledger goes back from %v to %v", l.last, now)
	l.area.add(l.level, now)
	l.area.add(-l.level, l.last)
	l.level += by
	l.last = now
	invariants.Assert(l.level >= 0, "service: level %d at %v", l.level, now)
}

func (l *ledger) enter(now float64, weight int64) { l.change(now, weight) }

func (l *ledger) leave(since, now float64, weight int64) {
	l.change(now, -weight)
	l.stays.add(weight, now)
	l.stays.add(-weight, since)
}

// forget begins the ledger anew: whoever is there now entered now, as far as it goes.
func (l *ledger) forget(now float64) {
	l.change(now, 0)
	l.area, l.stays = exactSum{}, exactSum{}
}

// stay is called at the end of the run for each one that is still there.
func (l *ledger) stay(since, end float64, weight int64) {
	l.stays.add(weight, end)
	l.stays.add(-weight, since)
}

// check closes the ledger at end. area is what the plain build reports, a sum of so
// many terms: it may differ from the exact value by its own rounding, and no more.
func (l *ledger) check(box, place string, end, area float64, terms int64) {
	l.change(end, 0)
	invariants.Assert(l.area.sum.Cmp(&l.stays.sum) == 0,
		"service: %s: Little's law broken for %s over [0, %v]: integral %v, stays %v", box, place, end, &l.area.sum,
		&l.stays.sum)
	invariants.Assert(l.area.rounds(area, terms),
		"service: %s: integral of %s over [0, %v] is %v, want %v but for the rounding of %d terms", box, place, end,
		area, &l.area.sum, terms)
}

func (l *ledger) state(c *state.Codec) {
	c.Int64(&l.level)
	c.Float(&l.last)
	l.area.state(c)
	l.stays.state(c)
}

// exactBits holds every sum of products of an int64 and a float64 that a run can
// make: 2098 bits for the span of the float64s, 64 for the weight, the rest for
// the number of terms.
const exactBits = 2304

// exactSum adds without rounding. The zero value is 0.
type exactSum struct{ sum, term, weight big.Float }

func (x *exactSum) add(weight int64, t float64) {
	if weight == 0 {
		return
	}
	x.sum.SetPrec(exactBits)
	x.term.SetPrec(exactBits).SetFloat64(t)
	x.weight.SetPrec(64).SetInt64(weight)
	x.term.Mul(&x.term, &x.weight)
	invariants.Assert(x.term.Acc() == big.Exact, "service: %d × %v isn't exact in %d bits", weight, t, exactBits)
	x.sum.Add(&x.sum, &x.term)
	invariants.Assert(x.sum.Acc() == big.Exact, "service: a sum isn't exact in %d bits", exactBits)
}

// rounds reports whether y can be what float64 arithmetic makes of the sum, as n
// products of a whole number and a difference of two times, none of them negative,
// added one by one. The difference and the product are each off by one part in 2^53
// at most, each of the n-1 additions too, and so is the sum as a float64 here: n+2
// such parts, and what their products add to that is far less than the two more.
func (x *exactSum) rounds(y float64, n int64) bool {
	exact, _ := x.sum.Float64()
	return math.Abs(exact-y) <= float64(n+4)*0x1p-53*exact
}

// plus adds all of y.
func (x *exactSum) plus(y *exactSum) {
	x.sum.SetPrec(exactBits)
	x.sum.Add(&x.sum, &y.sum)
	invariants.Assert(x.sum.Acc() == big.Exact, "service: a sum isn't exact in %d bits", exactBits)
}

// fields are those of the reports.
func (x *exactSum) fields(c *wire.Codec) { x.text(c, c.Decoding()) }

func (x *exactSum) state(c *state.Codec) { x.text(c, c.Loading()) }

// text is the sum without rounding, as a text with a hexadecimal mantissa and a binary exponent.
func (x *exactSum) text(c interface {
	String(v *string)
	Fail(format string, args ...any)
}, decoding bool) {
	text := string(x.sum.Append(nil, 'p', 0))
	if c.String(&text); !decoding {
		return
	}
	const most = exactBits/4 + 32
	digits := strings.TrimPrefix(text, "-")
	binary := digits == "0" || strings.HasPrefix(digits, "0x.") // decimal ones may take an age
	if binary && len(text) <= most {
		_, _, err := x.sum.SetPrec(exactBits).Parse(text, 0)
		// Adding numbers of very different sizes takes as many bits as lie between them.
		if e := x.sum.MantExp(nil); err == nil && max(e, -e) < exactBits && string(x.sum.Append(nil, 'p', 0)) == text {
			return
		}
	}
	c.Fail("found the sum %.40q of %d bytes, want a hexadecimal one of at most %d, as it is written, from 2^%d to 2^%d",
		text, len(text), most, -exactBits, exactBits)
}
