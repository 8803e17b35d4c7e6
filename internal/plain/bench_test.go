// SPDX-License-Identifier: Apache-2.0

package plain

import (
	"encoding/binary"
	"math"
	"testing"
)

// Encoding beside decoding of a type without padding, of one with, and of one with a slice: by a plan, and by hand with
// encoding/binary. For figures run them several times in turn: -bench . -count 7.

func (v *whole24) append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.A))
	dst = binary.LittleEndian.AppendUint64(dst, v.B)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(v.C))
	return binary.LittleEndian.AppendUint32(dst, math.Float32bits(v.D))
}

func (v *whole24) decode(src []byte) bool {
	if len(src) != 24 {
		return false
	}
	v.A = math.Float64frombits(binary.LittleEndian.Uint64(src))
	v.B = binary.LittleEndian.Uint64(src[8:])
	v.C = int32(binary.LittleEndian.Uint32(src[16:]))
	v.D = math.Float32frombits(binary.LittleEndian.Uint32(src[20:]))
	return true
}

func (v *Call) append(dst []byte) []byte {
	return append(binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.Arrived)), v.Skill)
}

func (v *Call) decode(src []byte) bool {
	if len(src) != 9 {
		return false
	}
	v.Arrived, v.Skill = math.Float64frombits(binary.LittleEndian.Uint64(src)), src[8]
	return true
}

type listed struct {
	At    float64
	Items []uint32
}

func (v *listed) append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.At))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(v.Items)))
	for _, x := range v.Items {
		dst = binary.LittleEndian.AppendUint32(dst, x)
	}
	return dst
}

func (v *listed) decode(src []byte) bool {
	if len(src) < 12 {
		return false
	}
	v.At = math.Float64frombits(binary.LittleEndian.Uint64(src))
	n := binary.LittleEndian.Uint32(src[8:])
	if src = src[12:]; uint64(n)*4 != uint64(len(src)) {
		return false
	}
	v.Items = make([]uint32, n)
	for i := range v.Items {
		v.Items[i] = binary.LittleEndian.Uint32(src[4*i:])
	}
	return true
}

func BenchmarkWhole24(b *testing.B) {
	compare(b, whole24{1, 2, 3, 4}, (*whole24).append, (*whole24).decode)
}

func BenchmarkPadded16(b *testing.B) { compare(b, Call{1, 2}, (*Call).append, (*Call).decode) }

func BenchmarkListed(b *testing.B) {
	compare(b, listed{1, []uint32{1, 2, 3, 4}}, (*listed).append, (*listed).decode)
}

// compare measures a plan beside functions by hand, which are called through a variable like a model's would be through
// an interface.
func compare[T any](b *testing.B, v T, appendByHand func(*T, []byte) []byte, decodeByHand func(*T, []byte) bool) {
	p := must[T](b)
	buf := make([]byte, 0, 64)
	src := p.Append(nil, &v)
	b.Run("encode/plan", func(b *testing.B) {
		for b.Loop() {
			buf = p.Append(buf[:0], &v)
		}
	})
	b.Run("encode/by hand", func(b *testing.B) {
		for b.Loop() {
			buf = appendByHand(&v, buf[:0])
		}
	})
	b.Run("decode/plan", func(b *testing.B) {
		for b.Loop() {
			if p.Decode(&v, src) != nil {
				b.Fatal("refused")
			}
		}
	})
	b.Run("decode/by hand", func(b *testing.B) {
		for b.Loop() {
			if !decodeByHand(&v, src) {
				b.Fatal("refused")
			}
		}
	})
}
