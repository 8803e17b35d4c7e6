// SPDX-License-Identifier: Apache-2.0

package plain

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"fmt"
	"math"
)

// lengthBytes is a u32 in front of what has no fixed size.
const lengthBytes = 4

// Fault is the panic of Append where a value can't be encoded after all.
type Fault struct{ error }

// appendLength appends the length of a string, a slice, or what a method has appended.
func appendLength(dst []byte, n int, o *op) []byte {
	if uint64(n) > math.MaxUint32 {
		panic(Fault{fmt.Errorf("%s: it has %d bytes or elements, at most %d can travel", o.path, n,
			uint32(math.MaxUint32))})
	}
	return binary.LittleEndian.AppendUint32(dst, uint32(n))
}

// takeLength reads a length that src begins with, of elements with at least so many bytes each, which are in the rest.
func takeLength(src []byte, least int, o *op) (n int, rest []byte, err error) {
	if len(src) < lengthBytes {
		return 0, nil, tooShort(o, lengthBytes, len(src))
	}
	length := binary.LittleEndian.Uint32(src)
	rest = src[lengthBytes:]
	if uint64(length) > uint64(len(rest)/least) {
		return 0, nil, fmt.Errorf("%s: found the length %d, at most %d fit in the %d bytes left: %s",
			o.path, length, len(rest)/least, len(rest), damaged)
	}
	return int(length), rest, nil
}

// takeBytes reads a length and so many bytes.
func takeBytes(src []byte, o *op) (taken, rest []byte, err error) {
	n, rest, err := takeLength(src, 1, o)
	if err != nil {
		return nil, nil, err
	}
	return rest[:n], rest[n:], nil
}

// appendBinary appends what a method of the value appends.
func appendBinary(dst []byte, v encoding.BinaryAppender, o *op) []byte {
	at := len(dst) + lengthBytes
	dst, err := v.AppendBinary(append(dst, make([]byte, lengthBytes)...))
	if err != nil {
		panic(Fault{fmt.Errorf("%s: AppendBinary: %w", o.path, err)})
	}
	if len(dst) < at {
		panic(Fault{fmt.Errorf("%s: AppendBinary returned %d bytes when given %d: it must append to them",
			o.path, len(dst), at)})
	}
	appendLength(dst[:at-lengthBytes], len(dst)-at, o)
	return dst
}

// decodeBinary hands a method bytes that it may keep.
func decodeBinary(v encoding.BinaryUnmarshaler, src []byte, o *op) error {
	if err := v.UnmarshalBinary(bytes.Clone(src)); err != nil {
		return fmt.Errorf("%s: UnmarshalBinary: %w", o.path, err)
	}
	return nil
}

// damaged ends messages about bytes.
const damaged = "the bytes are damaged, or of another type"

func wrongSize(l *layout, found int) error {
	return fmt.Errorf("%s: found %d bytes, want %d: %s", l.name, found, l.size, damaged)
}

func leftOver(l *layout, found, left int) error {
	return fmt.Errorf("%s: found %d bytes, of which the last %d are too many: %s", l.name, found, left, damaged)
}

func tooShort(o *op, want, found int) error {
	return fmt.Errorf("%s: found %d bytes, want at least %d: %s", o.path, found, want, damaged)
}

// badBool is the error of what notBool has found.
func badBool(s *span) error {
	if s == nil {
		return nil
	}
	return fmt.Errorf("%s: found a bool that is neither 0 nor 1: %s", s.path, damaged)
}
