// SPDX-License-Identifier: Apache-2.0

// Package trace records what a run handled: every worker writes a file, and the files are merged into one sequence
// at the end.
//
// Guarantee: the merged sequence is in the total order (epoch, level, target, sender, number) and holds every
// record once, whichever worker wrote it; so the text of a trace is the same, to the byte, for every placement.
//
//	w := trace.NewWriter(file)          // in each worker; it is a node.Tracer
//	…
//	err := w.Flush()                    // at the end of the replication
//	r, err := trace.NewReader(file, n)  // in the launcher
//	err = trace.Merge([]*trace.Reader{r}, func(rec *trace.Record) error { … })
package trace

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/disco-sim/disco/internal/heap"
	"github.com/disco-sim/disco/node"
)

// Record is one handled event, or one wakeup.
type Record struct {
	Epoch  float64
	Level  uint32
	Target node.SimprocID
	Sender node.SimprocID // Wakeup for a wakeup
	Size   uint32         // bytes of data
	Number uint64         // the sender's own number
	Hash   uint64         // of headers and data

	// Words are, in a journal, the event's data, cut at WordsMax, and of a Did what was done.
	Words string
}

// Wakeup is the sender of a record that is a wakeup.
const Wakeup = node.SimprocID(math.MaxUint32)

// A record whose sender is Wakeup and whose number is DidNumber says what an activation did; with SentNumber, how many
// events its simproc has sent up to its end, in Hash.
const (
	DidNumber  = 1
	SentNumber = 2
)

// Sent reports whether a record says how many events were sent.
func (r *Record) Sent() bool { return r.Sender == Wakeup && r.Number == SentNumber }

// Did reports whether a record says what an activation did.
func (r *Record) Did() bool { return r.Sender == Wakeup && r.Number == DidNumber }

// A trace file is a run of chunks: u32 class, u32 bytes, and that many bytes of
// records of that class. Within a class the records are in order; the classes of a
// worker run at different simulated times. docs/format/trace.md draws it.
const (
	RecordBytes = 40
	chunkHeader = 8
	chunkMax    = 1638 * RecordBytes // just under 64 KiB
)

// ErrCorrupt is what every refused trace file unwraps to.
var ErrCorrupt = errors.New("trace: corrupt")

// Writer is a node.Tracer that writes to w. One goroutine. It allocates one chunk per
// class, and makes a system call per full chunk.
type Writer struct {
	w      io.Writer
	chunks [][]byte // by class
	mark   uint32   // journalMark, or 0
	err    error
}

var _ node.Tracer = (*Writer)(nil)

// NewWriter makes a Writer.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Event implements node.Tracer.
func (w *Writer) Event(class int, level uint32, target node.SimprocID, ev *node.Event, hash uint64) {
	w.add(class, &Record{Epoch: ev.Epoch, Level: level, Target: target, Sender: ev.Sender, Size: uint32(len(ev.Data)),
		Number: ev.Number, Hash: hash})
}

// Wakeup implements node.Tracer.
func (w *Writer) Wakeup(class int, level uint32, target node.SimprocID, epoch float64) {
	w.add(class, &Record{Epoch: epoch, Level: level, Target: target, Sender: Wakeup})
}

func (w *Writer) add(class int, r *Record) {
	if w.put(class, r); len(w.chunks[class]) == chunkHeader+chunkMax {
		w.flush(class)
	}
}

// put appends a record to its class's chunk, which has room.
func (w *Writer) put(class int, r *Record) {
	for len(w.chunks) <= class {
		w.chunks = append(w.chunks, make([]byte, chunkHeader, chunkHeader+chunkMax))
	}
	w.chunks[class] = r.Append(w.chunks[class])
}

// Append appends the record as trace files have it, without words: RecordBytes.
func (r *Record) Append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(r.Epoch))
	dst = binary.LittleEndian.AppendUint32(dst, r.Level)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(r.Target))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(r.Sender))
	dst = binary.LittleEndian.AppendUint32(dst, r.Size)
	dst = binary.LittleEndian.AppendUint64(dst, r.Number)
	return binary.LittleEndian.AppendUint64(dst, r.Hash)
}

// Parse reads what Append has written. The epoch may be anything.
func (r *Record) Parse(b *[RecordBytes]byte) {
	*r = Record{
		Epoch:  math.Float64frombits(binary.LittleEndian.Uint64(b[:])),
		Level:  binary.LittleEndian.Uint32(b[8:]),
		Target: node.SimprocID(binary.LittleEndian.Uint32(b[12:])),
		Sender: node.SimprocID(binary.LittleEndian.Uint32(b[16:])),
		Size:   binary.LittleEndian.Uint32(b[20:]),
		Number: binary.LittleEndian.Uint64(b[24:]),
		Hash:   binary.LittleEndian.Uint64(b[32:]),
	}
}

func (w *Writer) flush(class int) {
	c := w.chunks[class]
	w.chunks[class] = c[:chunkHeader]
	if len(c) == chunkHeader || w.err != nil {
		return
	}
	binary.LittleEndian.PutUint32(c, uint32(class)|w.mark)
	binary.LittleEndian.PutUint32(c[4:], uint32(len(c)-chunkHeader))
	if _, err := w.w.Write(c); err != nil {
		w.err = fmt.Errorf("trace: writing %d bytes: %w", len(c), err)
	}
}

// Flush writes what is left and returns the first error of any write.
func (w *Writer) Flush() error {
	for class := range w.chunks {
		w.flush(class)
	}
	return w.err
}

// Reader finds the records of one trace file again, class by class.
type Reader struct {
	r       io.ReaderAt
	classes []stream
	rows    []stream // of what handlers have recorded
}

// stream is the chunks of one class, in the order of the file.
type stream struct {
	chunks  []span
	buf     []byte
	at      int // next record in buf
	journal bool
}

type span struct {
	off int64
	len int
}

// ClassesMax bounds the class number in a file: far above what an Engine makes.
const ClassesMax = 1 << 10

// NewReader reads the index of the size bytes of r. A file that is cut short, or whose numbers are invalid, is
// ErrCorrupt with the offset.
func NewReader(r io.ReaderAt, size int64) (*Reader, error) {
	t := &Reader{r: r}
	var head [chunkHeader]byte
	for off := int64(0); off < size; {
		if _, err := r.ReadAt(head[:], off); err != nil {
			return nil, fmt.Errorf("%w: chunk at byte %d of %d: %w", ErrCorrupt, off, size, err)
		}
		class, n := binary.LittleEndian.Uint32(head[:]), int(binary.LittleEndian.Uint32(head[4:]))
		off += chunkHeader
		if class == blobClass {
			if err := checkBlob(off, n, size); err != nil {
				return nil, err
			}
			off += int64(n)
			continue
		}
		if class&rowsMark != 0 {
			if err := t.addRows(class&^rowsMark, span{off, n}, size); err != nil {
				return nil, err
			}
			off += int64(n)
			continue
		}
		journal := class&journalMark != 0
		if class &^= journalMark; class >= ClassesMax || n == 0 || n > chunkMax || off+int64(n) > size ||
			!journal && n%RecordBytes != 0 || class < uint32(len(t.classes)) && len(t.classes[class].chunks) > 0 &&
			journal != t.classes[class].journal {
			return nil, fmt.Errorf("%w: chunk at byte %d of %d has class %d and %d bytes, want a class below %d and "+
				"a multiple of %d up to %d that fits",
				ErrCorrupt, off-chunkHeader, size, class, n, ClassesMax, RecordBytes, chunkMax)
		}
		for uint32(len(t.classes)) <= class {
			t.classes = append(t.classes, stream{})
		}
		t.classes[class].chunks = append(t.classes[class].chunks, span{off, n})
		t.classes[class].journal = journal
		off += int64(n)
	}
	return t, nil
}

// next reads the next record of a class; ok is false at its end.
func (t *Reader) next(class int, rec *Record) (ok bool, err error) {
	s := &t.classes[class]
	if ok, err := t.fill(s); !ok {
		return false, err
	}
	if len(s.buf)-s.at < RecordBytes {
		return false, fmt.Errorf("%w: class %d has %d bytes behind its last record", ErrCorrupt, class, len(s.buf)-s.at)
	}
	rec.Parse((*[RecordBytes]byte)(s.buf[s.at:]))
	s.at += RecordBytes
	if s.journal {
		if rec.Words, ok = s.words(); !ok {
			return false, fmt.Errorf("%w: class %d has a record at epoch %v with more words than its chunk", ErrCorrupt,
				class, rec.Epoch)
		}
	}
	if !(rec.Epoch >= 0 && rec.Epoch <= math.MaxFloat64) {
		return false, fmt.Errorf("%w: class %d has a record at epoch %v, want a time >= 0", ErrCorrupt, class,
			rec.Epoch)
	}
	return true, nil
}

// fill reads the next chunk of a stream where all of the one before was read; ok is false at its end.
func (t *Reader) fill(s *stream) (ok bool, err error) {
	if s.at < len(s.buf) {
		return true, nil
	}
	if len(s.chunks) == 0 {
		return false, nil
	}
	c := s.chunks[0]
	s.chunks = s.chunks[1:]
	s.buf = append(s.buf[:0], make([]byte, c.len)...)
	s.at = 0
	if _, err := t.r.ReadAt(s.buf, c.off); err != nil {
		return false, fmt.Errorf("%w: %d bytes at %d: %w", ErrCorrupt, c.len, c.off, err)
	}
	return true, nil
}

// Compare is the total order of records.
func Compare(a, b *Record) int {
	if c := cmp.Compare(a.Epoch, b.Epoch); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Sender, b.Sender),
		cmp.Compare(a.Number, b.Number))
}

type cursor struct {
	reader *Reader
	class  int
	rec    Record
}

// Merge calls yield with every record of all readers, in the total order. rec is
// valid during the call. Records of one class that are out of order are ErrCorrupt.
func Merge(readers []*Reader, yield func(rec *Record) error) error {
	h := heap.New(func(a, b *cursor) bool { return Compare(&a.rec, &b.rec) < 0 })
	for _, r := range readers {
		for class := range r.classes {
			c := &cursor{reader: r, class: class}
			ok, err := r.next(class, &c.rec)
			if err != nil {
				return err
			}
			if ok {
				h.Push(c.rec.Epoch, c)
			}
		}
	}
	for h.Len() > 0 {
		c := h.First().Value
		last := c.rec
		if err := yield(&c.rec); err != nil {
			return err
		}
		ok, err := c.reader.next(c.class, &c.rec)
		if err != nil {
			return err
		}
		if !ok {
			h.Pop()
			continue
		}
		if Compare(&last, &c.rec) >= 0 {
			return fmt.Errorf("%w: class %d has a record at epoch %v after one at %v", ErrCorrupt, c.class, c.rec.Epoch,
				last.Epoch)
		}
		h.Fix(0, c.rec.Epoch)
	}
	return nil
}

// Namer gives simprocs their names: a node.Graph or node.Structure.
type Namer interface {
	Name(node.SimprocID) string
}

// AppendText appends one line: epoch, target, sender, number, bytes, hash, between
// tabs; for a wakeup "wakeup" in place of the last four. In a journal an event has its data in hexadecimal digits
// behind that, and what an activation did is "did" and a quoted text.
func (r *Record) AppendText(dst []byte, g Namer) []byte {
	dst = strconv.AppendFloat(dst, r.Epoch, 'g', -1, 64)
	dst = append(append(dst, '\t'), g.Name(r.Target)...)
	if r.Did() {
		return append(strconv.AppendQuote(append(dst, "\tdid\t"...), r.Words), '\n')
	}
	if r.Sent() {
		return append(strconv.AppendUint(append(dst, "\tsent\t"...), r.Hash, 10), '\n')
	}
	if r.Sender == Wakeup {
		return append(dst, "\twakeup\n"...)
	}
	dst = append(append(dst, '\t'), g.Name(r.Sender)...)
	dst = strconv.AppendUint(append(dst, '\t'), r.Number, 10)
	dst = strconv.AppendUint(append(dst, '\t'), uint64(r.Size), 10)
	dst = append(dst, '\t')
	const digits = "0123456789abcdef"
	for shift := 60; shift >= 0; shift -= 4 {
		dst = append(dst, digits[r.Hash>>shift&15])
	}
	if r.Words != "" {
		dst = hex.AppendEncode(append(dst, '\t'), []byte(r.Words))
	}
	return append(dst, '\n')
}
