// SPDX-License-Identifier: Apache-2.0

package parquetout

import "encoding/binary"

// thrift writes structures in the compact protocol of Apache Thrift, in which the format keeps what it says of a file.
type thrift struct {
	buf  []byte
	last []int64 // by structure that was begun: number of its field that was written last
}

// Types of fields.
const (
	i32Type    = 5
	i64Type    = 6
	binaryType = 8
	listType   = 9
	structType = 12
)

// begin begins a structure.
func (t *thrift) begin() { t.last = append(t.last, 0) }

// end ends the structure that was begun last.
func (t *thrift) end() {
	t.last = t.last[:len(t.last)-1]
	t.buf = append(t.buf, 0)
}

// field begins a field of the structure: their numbers rise by at most 15.
func (t *thrift) field(number int64, kind byte) {
	at := &t.last[len(t.last)-1]
	t.buf = append(t.buf, byte(number-*at)<<4|kind)
	*at = number
}

// varint appends a whole number.
func (t *thrift) varint(x int64) { t.buf = binary.AppendVarint(t.buf, x) }

func (t *thrift) i32(number, x int64) {
	t.field(number, i32Type)
	t.varint(x)
}

func (t *thrift) i64(number, x int64) {
	t.field(number, i64Type)
	t.varint(x)
}

// text appends a text.
func (t *thrift) text(x string) {
	t.buf = append(binary.AppendUvarint(t.buf, uint64(len(x))), x...)
}

// list begins a field that is a list; its elements follow.
func (t *thrift) list(number int64, length int, kind byte) {
	t.field(number, listType)
	if length < 15 {
		t.buf = append(t.buf, byte(length)<<4|kind)
		return
	}
	t.buf = binary.AppendUvarint(append(t.buf, 0xf0|kind), uint64(length))
}
