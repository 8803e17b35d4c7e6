// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Percentiles come from whole nanoseconds in a histogram of three significant digits:
// its buckets are at most one part in a thousand wide, and a percentile is interpolated
// in its bucket.
const (
	nanosPerSecond = 1e9
	digits         = 3
	nanosMax       = 1 << 62 // 146 years: longer ones count as this long
	subBucketBits  = 11      // a bucket's values agree in so many leading bits, which are digits decimal ones
)

// Latencies are durations in seconds: exact moments, and a histogram for percentiles
// that takes memory for what it holds. The zero value is the empty set.
type Latencies struct {
	Moments
	histogram *hdrhistogram.PackedHistogram // nil: empty
}

// Add adds one duration >= 0.
func (l *Latencies) Add(seconds float64) error {
	if !(seconds >= 0) {
		return fmt.Errorf("measure: a duration of %v s, want one >= 0", seconds)
	}
	l.Moments.Add(seconds)
	nanos := int64(nanosMax)
	if x := math.Round(seconds * nanosPerSecond); x < nanosMax {
		nanos = int64(x)
	}
	return l.record(nanos, 1)
}

func (l *Latencies) record(nanos, count int64) error {
	if l.histogram == nil {
		l.histogram = hdrhistogram.NewPacked(1, nanosMax, digits)
	}
	if err := l.histogram.RecordValues(nanos, count); err != nil {
		return fmt.Errorf("measure: %d times %d ns: %w", count, nanos, err)
	}
	return nil
}

func (l *Latencies) recorded() int64 {
	if l.histogram == nil {
		return 0
	}
	return l.histogram.TotalCount()
}

// Merge adds all durations of another set, which stays as it is.
func (l *Latencies) Merge(o *Latencies) {
	l.Moments.Merge(&o.Moments)
	switch {
	case o.histogram == nil:
	case l.histogram == nil:
		l.histogram = o.histogram.Clone()
	default:
		l.histogram.Merge(o.histogram)
	}
}

// rank is the place of a percentile among n sorted values: the least number of them
// that is at least p percent (the nearest rank, ⌈pn/100⌉, at least 1). p counts in
// thousandths of a percent, in whole numbers: in float64, 99.9 % of 1000 is more than
// 999.
func rank(p float64, n int64) int64 {
	const whole = 100_000
	hi, lo := bits.Mul64(uint64(math.Round(min(max(p, 0), 100)*whole/100)), uint64(n))
	r, rest := bits.Div64(hi, lo, whole)
	if rest > 0 || r == 0 {
		r++
	}
	return int64(r)
}

// Percentile is the duration of the nearest rank, the least that p percent don't
// exceed: at is where it most likely lies in its bucket of the histogram, low and high
// are the bucket's edges; none of them is outside the exact extremes. All are 0 of the
// empty set.
func (l *Latencies) Percentile(p float64) (at, low, high float64) {
	if l.histogram == nil {
		return 0, 0, 0
	}
	left := rank(p, l.Count)
	l.histogram.ForEachBucket(func(value, count int64) bool {
		if left > count {
			left -= count
			return true
		}
		// Durations were rounded to whole nanoseconds; the bucket's are value and those
		// behind it that have as many bits left out.
		low = float64(value) - 0.5
		width := float64(int64(1) << max(0, bits.Len64(uint64(value))-subBucketBits))
		high, at = low+width, low+width*(float64(left)-0.5)/float64(count)
		return false
	})
	within := func(nanos float64) float64 { return min(max(nanos/nanosPerSecond, l.Min), l.Max) }
	return within(at), within(low), within(high)
}

// P is where the percentile most likely lies.
func (l *Latencies) P(p float64) float64 {
	at, _, _ := l.Percentile(p)
	return at
}

// Append appends the set as bytes: count; and unless it is 0, mean, m2, min, max as
// float64, the number of histogram buckets, and for each the distance of its value to
// the one before and its count. Whole numbers are varints.
func (l *Latencies) Append(dst []byte) []byte {
	dst = l.Moments.append(dst)
	if l.Count == 0 {
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(l.histogram.Populated()))
	last := int64(0)
	l.histogram.ForEachBucket(func(value, count int64) bool {
		dst, last = appendBucket(dst, last, value, count), value
		return true
	})
	return dst
}

// append appends the moments as bytes.
func (m *Moments) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(m.Count))
	if m.Count > 0 {
		for _, x := range []float64{m.Mean, m.M2, m.Min, m.Max} {
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(x))
		}
	}
	return dst
}

// appendBucket appends a bucket that follows the one of value last.
func appendBucket(dst []byte, last, value, count int64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, uint64(value-last)), uint64(count))
}

var errShort = errors.New("measure: the bytes of a set of durations are cut short or wrong")

// Read adds the set that Append wrote at the start of src and returns what is behind
// it.
func (l *Latencies) Read(src []byte) ([]byte, error) {
	var o Latencies
	r := reader{rest: src}
	if o.Count = r.whole(); o.Count == 0 {
		return r.rest, r.err
	}
	o.Mean, o.M2, o.Min, o.Max = r.float(), r.float(), r.float(), r.float()
	value := int64(0)
	for n := r.whole(); n > 0 && r.err == nil; n-- {
		value += r.whole()
		count := r.whole()
		if r.err == nil {
			r.err = o.record(value, count)
		}
	}
	if r.err == nil && o.recorded() != o.Count {
		r.err = errShort
	}
	if r.err != nil {
		return nil, r.err
	}
	l.Merge(&o)
	return r.rest, nil
}

// reader takes numbers off the front of bytes; after an error it gives zeros.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) whole() int64 {
	x, n := binary.Uvarint(r.rest)
	if r.err != nil || n <= 0 || x > math.MaxInt64 {
		r.err = errShort
		return 0
	}
	r.rest = r.rest[n:]
	return int64(x)
}

func (r *reader) float() float64 {
	if r.err != nil || len(r.rest) < 8 {
		r.err = errShort
		return 0
	}
	x := math.Float64frombits(binary.LittleEndian.Uint64(r.rest))
	r.rest = r.rest[8:]
	return x
}

// Summary is a set of durations in short, in seconds. Percentiles are within 0.1 %,
// the rest is exact.
type Summary struct {
	Mean   float64 `json:"mean"`
	P50    float64 `json:"p50"`
	P90    float64 `json:"p90"`
	P95    float64 `json:"p95"`
	P99    float64 `json:"p99"`
	P999   float64 `json:"p999"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	StdDev float64 `json:"stddev"`
}

// Summary sums up; nil for the empty set.
func (l *Latencies) Summary() *Summary {
	if l.Count == 0 {
		return nil
	}
	p := l.P
	return &Summary{Mean: l.Mean, P50: p(50), P90: p(90), P95: p(95), P99: p(99), P999: p(99.9), Min: l.Min, Max: l.Max,
		StdDev: l.StdDev()}
}
