// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/disco-sim/disco/internal/heap"
	"github.com/disco-sim/disco/node"
)

// rowsMark is set in the class of chunks that aren't of a trace, but of what handlers have recorded: node.RecordLog.
const rowsMark = 1 << 29

// rowsMax is how many bytes of rows a chunk has.
const rowsMax = 2048 * node.RowBytes

// RowWriter writes what handlers record to the file beside the trace, or without one. One goroutine. It allocates one
// chunk per class, and makes a system call per full chunk.
type RowWriter struct {
	Log node.RecordLog // for the Engine

	w      io.Writer
	chunks [][]byte // by class
	err    error
}

// NewRowWriter makes a RowWriter.
func NewRowWriter(w io.Writer) *RowWriter {
	r := &RowWriter{w: w}
	r.Log.Full = func(class int, rows []byte) []byte {
		for len(r.chunks) <= class {
			r.chunks = append(r.chunks, make([]byte, chunkHeader+rowsMax))
		}
		r.write(class, len(rows))
		return r.chunks[class][chunkHeader:]
	}
	return r
}

// write writes what a class has: so many bytes.
func (r *RowWriter) write(class, bytes int) {
	if bytes == 0 || r.err != nil {
		return
	}
	c := r.chunks[class][:chunkHeader+bytes]
	binary.LittleEndian.PutUint32(c, uint32(class)|rowsMark)
	binary.LittleEndian.PutUint32(c[4:], uint32(bytes))
	if _, err := r.w.Write(c); err != nil {
		r.err = fmt.Errorf("trace: writing %d bytes: %w", len(c), err)
	}
}

// Flush writes what is left and returns the first error of any write.
func (r *RowWriter) Flush() error {
	r.Log.Take(func(class int, rows []byte) { r.write(class, len(rows)) })
	return r.err
}

// addRows takes a chunk of rows into the index.
func (t *Reader) addRows(class uint32, c span, size int64) error {
	if class >= ClassesMax || c.len == 0 || c.len > rowsMax || c.off+int64(c.len) > size || c.len%node.RowBytes != 0 {
		return fmt.Errorf("%w: chunk at byte %d of %d has rows of class %d and %d bytes, want a class below %d and "+
			"a multiple of %d up to %d that fits", ErrCorrupt, c.off-chunkHeader, size, class, c.len, ClassesMax,
			node.RowBytes, rowsMax)
	}
	for uint32(len(t.rows)) <= class {
		t.rows = append(t.rows, stream{})
	}
	t.rows[class].chunks = append(t.rows[class].chunks, c)
	return nil
}

// nextRow reads the next row of a class; ok is false at its end.
func (t *Reader) nextRow(class int, r *node.Recorded) (ok bool, err error) {
	s := &t.rows[class]
	if ok, err := t.fill(s); !ok {
		return false, err
	}
	r.Parse((*[node.RowBytes]byte)(s.buf[s.at:]))
	s.at += node.RowBytes
	if !(r.Epoch >= 0 && r.Epoch <= math.MaxFloat64) {
		return false, fmt.Errorf("%w: class %d has a row at epoch %v, want a time >= 0", ErrCorrupt, class, r.Epoch)
	}
	return true, nil
}

// CompareRows is the total order of calls of handlers. Rows of one call are in one class, and in their order there.
func CompareRows(a, b *node.Recorded) int {
	return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Level, b.Level), cmp.Compare(a.Simproc, b.Simproc))
}

type rowCursor struct {
	reader *Reader
	class  int
	row    node.Recorded
}

// MergeRows calls yield with every row of all readers, in the total order. r is valid during the call. Rows of one
// class that are out of order are ErrCorrupt.
func MergeRows(readers []*Reader, yield func(r *node.Recorded) error) error {
	h := heap.New(func(a, b *rowCursor) bool { return CompareRows(&a.row, &b.row) < 0 })
	for _, r := range readers {
		for class := range r.rows {
			c := &rowCursor{reader: r, class: class}
			ok, err := r.nextRow(class, &c.row)
			if err != nil {
				return err
			}
			if ok {
				h.Push(c.row.Epoch, c)
			}
		}
	}
	for h.Len() > 0 {
		c := h.First().Value
		last := c.row
		if err := yield(&c.row); err != nil {
			return err
		}
		ok, err := c.reader.nextRow(c.class, &c.row)
		switch {
		case err != nil:
			return err
		case !ok:
			h.Pop()
			continue
		case CompareRows(&last, &c.row) > 0:
			return fmt.Errorf("%w: class %d has a row at epoch %v behind one at %v", ErrCorrupt, c.class, c.row.Epoch,
				last.Epoch)
		}
		h.Fix(0, c.row.Epoch)
	}
	return nil
}
