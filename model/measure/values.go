// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Numbers are counted in buckets that agree in sign, exponent and the first keyBits-12 binary digits behind the
// point: at most one part in 1,024 wide, wherever a number lies.
const (
	keyBits   = 22
	keyShift  = 64 - keyBits
	countMask = 1<<keyShift - 1 // so many numbers, some 4·10¹², can be told apart in a set
)

// ValueMax is the largest number, with either sign, that Values take: their squares have sums.
const ValueMax = 1e100

// Values are numbers of any size and sign: exact moments, and a histogram for percentiles that takes 8 bytes for
// each bucket with something in it (16 with what its table leaves free). Recording doesn't allocate but where the
// histogram grows. The zero value is the empty set.
//
// Latencies are for durations; percentiles of both are within 0.1 %, here of the number's distance from 0.
type Values struct {
	Moments
	table []uint64 // key and count of what was recorded, at a place by the key's hash; 0: free; a power of two long
	used  int      // of table
	list  []uint64 // key and count by rising key, of what was in the table once
}

// orderedKey is the bucket of a number; a larger number has no smaller key.
func orderedKey(x float64) uint64 {
	b := math.Float64bits(x + 0) // -0 is 0
	// All bits of a negative number are inverted, of others the sign's alone.
	return (b ^ (uint64(int64(b)>>63) | 1<<63)) >> keyShift
}

// bucketOf are the least and the greatest number of the bucket of an entry.
func bucketOf(e uint64) (low, high float64) {
	return ordered(e &^ countMask), ordered(e | countMask)
}

// ordered is the number of which orderedKey has shifted these bits.
func ordered(b uint64) float64 {
	if b>>63 == 0 {
		return math.Float64frombits(^b)
	}
	return math.Float64frombits(b &^ (1 << 63))
}

// Add adds a number from -ValueMax to ValueMax.
func (v *Values) Add(x float64) error {
	if !(math.Abs(x) <= ValueMax) {
		return fmt.Errorf("measure: a value of %v, want one from %v to %v", x, -ValueMax, ValueMax)
	}
	v.Moments.Add(x)
	key := orderedKey(x)
	for i := v.place(key); i < len(v.table); i = (i + 1) & (len(v.table) - 1) {
		if e := v.table[i]; e>>keyShift == key {
			v.table[i] = e + 1
			return nil
		} else if e == 0 {
			break
		}
	}
	v.insert(key<<keyShift | 1)
	return nil
}

// place is where to look for a key first.
func (v *Values) place(key uint64) int {
	return int(key*0x9e3779b97f4a7c15>>32) & (len(v.table) - 1)
}

// insert puts an entry of a new key into the table, which grows where it must.
func (v *Values) insert(e uint64) {
	if 4*(v.used+1) > 3*len(v.table) {
		old := v.table
		v.table, v.used = make([]uint64, max(16, 2*len(old))), 0
		for _, other := range old {
			if other != 0 {
				v.insert(other)
			}
		}
	}
	i := v.place(e >> keyShift)
	for v.table[i] != 0 {
		i = (i + 1) & (len(v.table) - 1)
	}
	v.table[i] = e
	v.used++
}

// settle brings what was recorded into the list.
func (v *Values) settle() {
	if v.used == 0 {
		return
	}
	fresh := slices.DeleteFunc(v.table, func(e uint64) bool { return e == 0 })
	slices.Sort(fresh)
	if v.list == nil {
		v.list = slices.Clip(fresh)
	} else {
		v.list = mergeLists(v.list, fresh)
	}
	v.table, v.used = nil, 0
}

// mergeLists adds up two lists of keys and counts.
func mergeLists(a, b []uint64) []uint64 {
	all := make([]uint64, 0, max(len(a), len(b)))
	for len(a) > 0 && len(b) > 0 {
		switch ka, kb := a[0]>>keyShift, b[0]>>keyShift; {
		case ka < kb:
			all, a = append(all, a[0]), a[1:]
		case ka > kb:
			all, b = append(all, b[0]), b[1:]
		default:
			all, a, b = append(all, a[0]+b[0]&countMask), a[1:], b[1:]
		}
	}
	return append(append(all, a...), b...)
}

// Merge adds all numbers of another set. That keeps its numbers, but not how it holds them: only one goroutine may
// use either of them meanwhile.
func (v *Values) Merge(o *Values) {
	v.settle()
	o.settle()
	v.Moments.Merge(&o.Moments)
	if v.list == nil {
		v.list = slices.Clone(o.list)
	} else if len(o.list) > 0 {
		v.list = mergeLists(v.list, o.list)
	}
}

// Percentile is the number of the nearest rank, the least that p percent don't exceed: at is the number of its
// bucket that is nearest to 0, which whole numbers up to 2,048 are themselves; low and high are the bucket's ends;
// none of them is outside the exact extremes. All are 0 of the empty set.
func (v *Values) Percentile(p float64) (at, low, high float64) {
	v.settle()
	if v.Count == 0 {
		return 0, 0, 0
	}
	left := uint64(rank(p, v.Count))
	switch left {
	case 1:
		return v.Min, v.Min, v.Min
	case uint64(v.Count):
		return v.Max, v.Max, v.Max
	}
	for _, e := range v.list {
		if count := e & countMask; left > count {
			left -= count
			continue
		}
		low, high = bucketOf(e)
		break
	}
	within := func(x float64) float64 { return min(max(x, v.Min), v.Max) }
	low, high = within(low), within(high)
	if at = low; math.Abs(high) < math.Abs(low) {
		at = high
	}
	return at, low, high
}

// P is the percentile itself.
func (v *Values) P(p float64) float64 {
	at, _, _ := v.Percentile(p)
	return at
}

// Interval estimates a percentile of v, of which samples are the independent parts; nil of the empty set. Which share
// of the numbers lies beyond the percentile, on the side of the shorter tail, has an interval, a ratio of sums over
// the samples; its ends, on a logarithmic scale, are those of the percentiles between which the truth lies (Woodruff,
// Confidence intervals for medians and other position measures, 1952), each its bucket's outer end. Where they lie
// beyond the least or the greatest number there is no interval.
func (v *Values) Interval(p float64, samples []*Values) *Interval {
	if v.Count == 0 {
		return nil
	}
	at, low, high := v.Percentile(p)
	i := Interval{Mean: at, Low: low, High: high, N: len(samples)}
	if len(samples) > 1 && v.Min == v.Max {
		i.HalfWidth = max(high-at, at-low)
		return &i
	}
	key := orderedKey(at)
	series := make([]Series, len(samples))
	for k, s := range samples {
		beyond := s.above(key)
		if p < 50 {
			beyond = s.Count - beyond
		}
		series[k] = Series{Y: []float64{float64(beyond)}, X: []float64{float64(s.Count)}}
	}
	share, _ := Ratio(series)
	tail := min(p, 100-p)
	factor := math.Exp((share.High - share.Low) / 2 / share.Mean)
	if !share.Known() || !(tail*factor < 100) || !(tail/factor*float64(v.Count) > 100) {
		i = Unknown(at, len(samples))
		return &i
	}
	if p < 50 {
		_, i.Low, _ = v.Percentile(tail / factor)
		_, _, i.High = v.Percentile(tail * factor)
	} else {
		_, i.Low, _ = v.Percentile(100 - tail*factor)
		_, _, i.High = v.Percentile(100 - tail/factor)
	}
	i.HalfWidth = max(i.High-at, at-i.Low)
	return &i
}

// above is how many numbers have a greater key.
func (v *Values) above(key uint64) (count int64) {
	v.settle()
	for k := len(v.list) - 1; k >= 0 && v.list[k]>>keyShift > key; k-- {
		count += int64(v.list[k] & countMask)
	}
	return count
}

// Buckets calls yield for every bucket that holds something, from the least, with the least and the greatest number
// that falls into it and how many it holds, until yield returns false.
func (v *Values) Buckets(yield func(low, high float64, count int64) bool) {
	v.settle()
	for _, e := range v.list {
		low, high := bucketOf(e)
		if !yield(low, high, int64(e&countMask)) {
			return
		}
	}
}

// Append appends the set as bytes: count; and unless it is 0, mean, m2, min, max as float64, the number of
// buckets, and for each the distance of its key to the one before and its count. Whole numbers are varints.
func (v *Values) Append(dst []byte) []byte {
	v.settle()
	dst = v.Moments.append(dst)
	if v.Count == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(len(v.list)))
	last := uint64(0)
	for _, e := range v.list {
		key := e >> keyShift
		dst = appendBucket(dst, int64(last), int64(key), int64(e&countMask))
		last = key
	}
	return dst
}

// Read adds the set that Append wrote at the start of src and returns what is behind it.
func (v *Values) Read(src []byte) ([]byte, error) {
	var o Values
	r := reader{rest: src}
	if o.Count = r.whole(); o.Count == 0 {
		return r.rest, r.err
	}
	o.Mean, o.M2, o.Min, o.Max = r.float(), r.float(), r.float(), r.float()
	n, key, left := r.whole(), int64(0), o.Count
	if r.err != nil || n > int64(len(r.rest))/2 || o.Count > countMask || !o.sound() {
		return nil, errValues
	}
	o.list = make([]uint64, 0, n)
	least, most := int64(orderedKey(o.Min)), int64(orderedKey(o.Max))
	for ; n > 0; n-- {
		step, count := r.whole(), r.whole()
		key += step
		if r.err != nil || step > 1<<keyBits || key < least || key > most || step == 0 && len(o.list) > 0 ||
			count == 0 || count > left {
			return nil, errValues
		}
		left -= count
		o.list = append(o.list, uint64(key)<<keyShift|uint64(count))
	}
	if left != 0 || v.Count+o.Count > countMask {
		return nil, errValues
	}
	v.Merge(&o)
	return r.rest, nil
}

// sound reports whether moments of a set that isn't empty can be those of Values.
func (m *Moments) sound() bool {
	return math.Abs(m.Min) <= ValueMax && math.Abs(m.Max) <= ValueMax && m.Min <= m.Max &&
		math.Abs(m.Mean) <= 2*ValueMax && m.M2 >= 0 && !math.IsInf(m.M2, 1)
}

var errValues = fmt.Errorf("measure: the bytes of a set of values are cut short or wrong")
