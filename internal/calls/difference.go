// SPDX-License-Identifier: Apache-2.0

package calls

import (
	"math"
	"slices"
)

// What a recorded stream doesn't have is which call a hash is of. So where a hash isn't the same, this may be another
// result of the same call, a call that only one of the runs has, or several of these. What follows tells them apart:
// the hashes of other simprocs are equal again, where both sides are moved by as many calls as one of them has more.

// What a Difference is.
const (
	Changed = 1 + iota // the same call has come to something else
	Extra              // a call of this run that the recorded one hasn't
	Missing            // a call of the recorded run that this one hasn't
	Unclear            // any of them: nothing behind it is equal
)

// Difference is the first one of a stream.
type Difference struct {
	Kind   int
	Number int    // calls in a row that are missing, or extra; else 1
	Was    uint16 // recorded hash at its place, but for Extra

	// Call is the call of this run: the one that has changed, the first extra one; where it is unclear the first that
	// may differ. It is the zero one for Missing.
	Call Call

	After  *Call   // the last one that is equal; nil: there is none in this leg
	Behind *Call   // for Missing the next one of this run; nil: there is none before Until
	Until  float64 // end of what was compared
	Then   *Call   // behind it, the next call of the stream that differs, in this run; nil: none that was compared

	stream *stream // nil: of simprocs that have no recorded calls
}

// Has reports whether calls of a simproc are in the stream: between After and Behind, a recorded call of one that is
// may be what is missing.
func (d *Difference) Has(simproc uint32) bool {
	return d.stream != nil && slices.ContainsFunc(d.stream.layout.runs, func(r layoutRun) bool {
		return r.class == d.stream.class && r.first <= simproc && simproc < r.end
	})
}

// Found is what is different.
type Found struct {
	// First is the one whose call, or call behind it, is the earliest in the total order.
	First Difference

	// Earlier may come before it: what they lack may be anywhere behind a call that is. There are at most earlierMost.
	Earlier []Difference
}

const earlierMost = 4

// low is the call behind which the difference is.
func (d *Difference) low() *Call {
	switch {
	case d.Kind == Changed || d.Kind == Extra:
		return &d.Call
	case d.After != nil:
		return d.After
	}
	return &Call{Epoch: -1}
}

// high is the call at which it is, at the latest.
func (d *Difference) high() *Call {
	switch {
	case d.Kind != Missing:
		return &d.Call
	case d.Behind != nil:
		return d.Behind
	}
	return &Call{Epoch: d.Until, Simproc: math.MaxUint32}
}

// differences are those of all streams.
type differences struct {
	c    *Comparer
	list []Difference
	same uint64
}

// extra adds the first of calls of simprocs that have no recorded ones.
func (all *differences) extra(calls []Call, until float64) {
	if len(calls) == 0 {
		return
	}
	first := slices.MinFunc(calls, func(a, b Call) int { return all.order(&a, &b) })
	all.list = append(all.list, Difference{Kind: Extra, Number: 1, Call: first, Until: until})
}

// order is the total order; a simproc that isn't there comes last at its epoch.
func (all *differences) order(a, b *Call) int {
	switch {
	case a.Epoch == b.Epoch && a.Simproc == math.MaxUint32 && b.Simproc != math.MaxUint32:
		return 1
	case a.Epoch == b.Epoch && b.Simproc == math.MaxUint32:
		return -1
	}
	return all.c.order(a, b)
}

// stream compares the calls of a stream with as many recorded ones. over: all calls of both are there, and end where
// the leg does.
func (all *differences) stream(s *stream, is []Call, over bool, end float64) {
	n := same(s.hashes, is)
	all.same += uint64(n)
	was := s.hashes[n*hashBytes:]
	if n > 0 {
		s.last = &Call{}
		*s.last = is[n-1] // memory of its own
	}
	if is = is[n:]; len(is) == 0 && (len(was) == 0 || !over) {
		s.hashes = append(s.hashes[:0], was...)
		return
	}
	d := Difference{Number: 1, After: s.last, Until: end, stream: s}
	if len(was) > 0 {
		d.Was = hash(was, 0)
	}
	d.judge(was, is, over)
	all.list = append(all.list, d)
	s.hashes = nil
}

// judge says what it is, from what both sides have at it and behind.
func (d *Difference) judge(was []byte, is []Call, over bool) {
	recorded := len(was) / hashBytes
	shift, clear := recorded-len(is), true
	if recorded > 0 && len(is) > 0 {
		shift, clear = align(was, is, over)
	}
	switch {
	case !clear:
		d.Kind, d.Call = Unclear, is[0]
		return
	case shift == 0:
		d.Kind, d.Call = Changed, is[0]
		was, is = was[hashBytes:], is[1:]
	case shift < 0:
		d.Kind, d.Number, d.Call = Extra, -shift, is[0]
		is = is[-shift:]
	default:
		d.Kind, d.Number = Missing, shift
		if was = was[shift*hashBytes:]; len(is) > 0 {
			d.Behind = copyOf(&is[0])
		}
	}
	if n := same(was, is); n < len(is) && n < len(was)/hashBytes {
		d.Then = copyOf(&is[n])
	}
}

func copyOf(c *Call) *Call {
	own := *c
	return &own
}

const (
	shiftMost  = 1024 // by how many calls one side is moved, at most
	alignPairs = 64   // are looked at
	alignLeast = 3    // of them are equal: by chance, that is one case in some 10^6
)

// align finds by how many calls the recorded side has to be moved, or below 0 the other one, so that both are equal
// again; 0: neither. The first pair isn't equal. ok is false where nothing is.
func align(was []byte, is []Call, over bool) (shift int, ok bool) {
	most := 0
	for k := range 2*shiftMost + 1 {
		s := (k + 1) / 2
		if k%2 == 0 {
			s = -s
		}
		if n, _ := equalPairs(was, is, s); n > most {
			shift, most = s, n
		}
	}
	if most >= alignLeast {
		return shift, true
	}
	// Too few are left. Where both end here, those that are left of the shorter side can be the last ones only.
	if shift = len(was)/hashBytes - len(is); over && shift >= -shiftMost && shift <= shiftMost {
		n, pairs := equalPairs(was, is, shift)
		if shift == 0 {
			pairs-- // the first, which isn't
		}
		return shift, n == pairs && n > 0
	}
	return 0, false
}

// equalPairs is how many of the first pairs are equal where a side is moved.
func equalPairs(was []byte, is []Call, shift int) (n, pairs int) {
	skipWas, skipIs := max(shift, 0), max(-shift, 0)
	pairs = min(len(was)/hashBytes-skipWas, len(is)-skipIs, alignPairs)
	for i := range max(pairs, 0) {
		if hash(was, skipWas+i) == uint16(is[skipIs+i].Hash) {
			n++
		}
	}
	return n, pairs
}

// first is the first of all streams, nil where there is none.
func (all *differences) first() *Found {
	if len(all.list) == 0 {
		return nil
	}
	slices.SortStableFunc(all.list, func(a, b Difference) int { return all.order(a.high(), b.high()) })
	f := &Found{First: all.list[0]}
	for i := 1; i < len(all.list) && len(f.Earlier) < earlierMost; i++ {
		if d := all.list[i]; all.order(d.low(), f.First.high()) < 0 {
			f.Earlier = append(f.Earlier, d)
		}
	}
	return f
}
