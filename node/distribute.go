// SPDX-License-Identifier: Apache-2.0

package node

import "math/bits"

// distributeBits is the most bits by which entries are dealt out at once: more parts than that don't stay in a core's
// own cache.
const distributeBits = 10

// field is a part of an entry that the total order goes by.
type field uint8

// The fields, as they count (see before).
const (
	byKey field = iota
	byProc
	bySender
	byNumber
	alike // they don't differ
)

// distribute sorts src into dst, which is as long, and leaves src in any order. It is for many entries, of which a good
// deal have the same epoch, as in models whose time goes by ticks: those differ in the target and the sender, and each
// comparison of two would be mispredicted. They are dealt out by the highest bits in which their first field that
// differs does, over and over until few agree: a radix sort from the most significant digit on (Knuth, The Art of
// Computer Programming 3, 5.2.5). Each turn takes those of one part at least one field, or distributeBits bits,
// further.
func (r *radix) distribute(dst, src []entry) {
	f, least, most := differ(src)
	if f == alike {
		copy(dst, src)
		return
	}
	width := min(distributeBits, bits.Len(uint(len(src))))
	parts := r.digitsOf(src, f, least, max(bits.Len64(most-least), width)-width)
	var ends [1<<distributeBits + 1]uint32
	for _, d := range parts {
		ends[d+1]++
	}
	for i := range ends[1:] {
		ends[i+1] += ends[i]
	}
	for i, d := range parts {
		dst[ends[d]] = src[i]
		ends[d]++
	}
	begin := uint32(0)
	for _, end := range ends[:1<<width] {
		part := dst[begin:end]
		if len(part) > binMost {
			copy(src[begin:end], part)
			r.distribute(part, src[begin:end])
		} else {
			insertionSort(part)
		}
		begin = end
	}
}

// differ finds the first field in which some entries differ, and its least and greatest value.
func differ(all []entry) (f field, least, most uint64) {
	for f = range alike {
		least, most = all[0].value(f), all[0].value(f)
		for i := range all {
			v := all[i].value(f)
			least, most = min(least, v), max(most, v)
		}
		if least < most {
			return f, least, most
		}
	}
	return alike, 0, 0
}

// value is a field as a number.
func (a *entry) value(f field) uint64 {
	switch f {
	case byKey:
		return a.key
	case byProc:
		return uint64(a.proc)
	case bySender:
		return uint64(a.sender)
	}
	return a.number
}

// digitsOf gives for each entry how far its field is above the least one, without the lowest bits. It is valid until
// it is called again.
func (r *radix) digitsOf(all []entry, f field, least uint64, lowest int) []uint16 {
	for len(r.dealt) < len(all) {
		r.dealt = append(r.dealt, 0)
	}
	parts := r.dealt[:len(all)]
	for i := range all {
		parts[i] = uint16((all[i].value(f) - least) >> lowest)
	}
	return parts
}

// insertionSort sorts a few entries.
func insertionSort(few []entry) {
	for i := 1; i < len(few); i++ {
		en := few[i]
		j := i
		for ; j > 0 && en.before(&few[j-1]); j-- {
			few[j] = few[j-1]
		}
		few[j] = en
	}
}
