// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/outfile"
)

// A journal is records that came one after the other, in a place of their own each so that what was cut short and what
// is damaged can be told apart:
//
//	head    run 16, replication u32, bytes of the record u32, the first 8 bytes of the SHA-256 of these 24
//	record  as in a chunk
//	sum     the first 8 bytes of the SHA-256 of head and record
//
// In a directory a journal grows; where blobs are written as a whole each record is one.

const (
	journalHead = 32
	sumBytes    = 8

	folder = "io/"
	suffix = ".journal"

	// A journal of more bytes isn't written to any more, so that it can be deleted.
	journalBytes = 64 << 20
)

// Journals are the files in which a run's answers outlive its processes until a checkpoint has them.
type Journals struct {
	run   checkpoint.ID
	blobs checkpoint.Blobs
	dir   string // of blobs; "": they aren't a directory
	sync  bool   // each record outlives a power failure
	next  int    // number of the next one
	all   []journal
	ended map[int]float64 // by replication: what is before it is in a checkpoint

	file *os.File // the last of all, which grows; nil: none does
	size int64
	buf  []byte
}

// journal is one of them.
type journal struct {
	name string
	last map[int]float64 // by replication: the latest epoch
}

// OpenJournals reads the journals of a run and calls yield with the bytes of each record. What is kept goes to new
// ones. torn are those whose last record was cut short, by a process that was killed while it wrote: it is left out.
// sync makes each record durable at once; else that is left to the system until a checkpoint has it.
func OpenJournals(ctx context.Context, run checkpoint.ID, blobs checkpoint.Blobs, sync bool,
	yield func(replication int, r *Record, bytes []byte) error) (j *Journals, torn []string, err error) {
	j = &Journals{run: run, blobs: blobs, sync: sync, ended: map[int]float64{}}
	if d, ok := blobs.(*checkpoint.Dir); ok {
		j.dir = d.String()
	}
	list, err := blobs.List(ctx, folder)
	if err != nil {
		return nil, nil, fmt.Errorf("answers: %w", err)
	}
	for _, b := range list {
		number, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(b.Name, folder), suffix))
		if err != nil || number < 0 || number > math.MaxInt32 || !strings.HasSuffix(b.Name, suffix) {
			continue // nothing of ours
		}
		j.next = max(j.next, number+1)
		one := journal{b.Name, map[int]float64{}}
		from := io.NewSectionReader(blobReader{ctx, blobs, b.Name}, 0, b.Size)
		cut, err := readJournal(run, from, b.Size, func(replication int, r *Record, bytes []byte) error {
			one.add(replication, r.Epoch)
			return yield(replication, r, bytes)
		})
		if err != nil {
			return nil, nil, &checkpoint.DamagedError{Where: blobs.String(), Name: b.Name, Err: err}
		}
		if cut {
			torn = append(torn, b.Name)
		}
		j.all = append(j.all, one)
	}
	return j, torn, nil
}

// ReadFile reads a file of records, as RecordTo writes it: begin gets the run that it is of, then yield the bytes of
// each record. cut says that the last one was cut short.
func ReadFile(path string, begin func(run checkpoint.ID) error, yield func(replication int, record []byte) error) (
	cut bool, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a named pipe is refused, and not waited for
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, fmt.Errorf("%s: found no regular file, want one", path)
	}
	var run checkpoint.ID
	if _, err := io.ReadFull(io.NewSectionReader(f, 0, info.Size()), run[:]); err != nil {
		return false, fmt.Errorf("%s: found %d bytes, want a file of recorded answers", path, info.Size())
	}
	if err := begin(run); err != nil {
		return false, err
	}
	cut, err = readJournal(run, f, info.Size(), func(replication int, _ *Record, record []byte) error {
		return yield(replication, record)
	})
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return cut, err
}

// RecordTo makes a file at a path, where nothing may be, or an empty file, that gets all records.
func RecordTo(run checkpoint.ID, path string, sync bool) (*Journals, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NONBLOCK, 0o666)
	if err != nil {
		return nil, outfile.Error(path, err)
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() > 0) {
		err = fmt.Errorf("%s: found a file, want a new one: answers that were recorded aren't overwritten", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Journals{run: run, sync: sync, file: f, all: []journal{{name: path}}}, nil
}

// Copy adds the bytes of a record that was read elsewhere, to a file of RecordTo.
func (j *Journals) Copy(replication int, record []byte) error { return j.add(replication, 0, record) }

func (o *journal) add(replication int, epoch float64) {
	if o.last == nil {
		return // it is never deleted
	}
	if last, there := o.last[replication]; !there || epoch > last {
		o.last[replication] = epoch
	}
}

// add writes a record. The first error is not the last: what was written of the record is cut off.
func (j *Journals) add(replication int, epoch float64, record []byte) error {
	j.buf = appendJournal(j.buf[:0], j.run, replication, record)
	defer func() {
		if cap(j.buf) > keptBytes {
			j.buf = nil
		}
	}()
	if err := j.write(); err != nil {
		name := "io"
		if len(j.all) > 0 {
			name = j.all[len(j.all)-1].name
		}
		if j.blobs != nil {
			name = j.blobs.String() + "/" + name
		}
		return fmt.Errorf("answers: an answer can't be kept: %w", outfile.Error(name, err))
	}
	j.all[len(j.all)-1].add(replication, epoch)
	return nil
}

// write writes what is in buf.
func (j *Journals) write() error {
	if j.blobs != nil && j.size >= journalBytes {
		if err := j.end(); err != nil {
			return err
		}
	}
	if j.file == nil {
		name := fmt.Sprintf("%s%08d%s", folder, j.next, suffix)
		j.next++
		if j.dir == "" {
			err := j.blobs.Put(context.Background(), name, bytes.NewReader(j.buf), int64(len(j.buf)), true)
			if err == nil {
				j.all = append(j.all, journal{name, map[int]float64{}})
			}
			return err
		}
		if err := j.create(name); err != nil {
			return err
		}
	}
	if _, err := j.file.Write(j.buf); err != nil {
		return errors.Join(err, j.file.Truncate(j.size))
	}
	j.size += int64(len(j.buf))
	if j.sync {
		return j.file.Sync()
	}
	return nil
}

// create makes the journal that grows from now on.
func (j *Journals) create(name string) error {
	path := filepath.Join(j.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	if j.sync {
		if err := errors.Join(outfile.SyncDir(j.dir), outfile.SyncDir(filepath.Dir(path))); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	j.file, j.size = f, 0
	j.all = append(j.all, journal{name, map[int]float64{}})
	return nil
}

// committed notes what is in a checkpoint, and deletes the journals that have nothing else.
func (j *Journals) committed(ctx context.Context, replication int, epoch float64) error {
	if j.blobs == nil {
		return nil
	}
	j.ended[replication] = max(j.ended[replication], epoch)
	if j.size > 0 || j.file == nil {
		if err := j.end(); err != nil {
			return err
		}
	}
	var names []string
	j.all = slices.DeleteFunc(j.all, func(o journal) bool {
		for r, last := range o.last {
			if last >= j.ended[r] {
				return false
			}
		}
		names = append(names, o.name)
		return true
	})
	if len(names) == 0 {
		return nil
	}
	return j.blobs.Delete(ctx, names...)
}

// end has the next record go to another journal.
func (j *Journals) end() error {
	f := j.file
	j.file, j.size = nil, 0
	if f == nil {
		return nil
	}
	return f.Close()
}

func (j *Journals) close() error {
	if j.blobs == nil {
		return errors.Join(j.file.Sync(), j.file.Close())
	}
	return j.end()
}

// appendJournal appends a record as a journal has it.
func appendJournal(dst []byte, run checkpoint.ID, replication int, record []byte) []byte {
	at := len(dst)
	dst = append(dst, run[:]...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(replication))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(record)))
	sum := sha256.Sum256(dst[at:])
	dst = append(append(dst, sum[:sumBytes]...), record...)
	sum = sha256.Sum256(dst[at:])
	return append(dst, sum[:sumBytes]...)
}

// errCut is a record that was cut short at the end of its journal.
var errCut = errors.New("answers: cut short")

// readJournal reads records until the end, or up to one that was cut short there.
func readJournal(run checkpoint.ID, from io.ReaderAt, size int64,
	yield func(replication int, r *Record, bytes []byte) error) (cut bool, err error) {
	src := bufio.NewReaderSize(io.NewSectionReader(from, 0, size), 1<<20)
	var buf []byte
	for at := int64(0); at < size; at += int64(len(buf)) {
		buf, err = readWrapped(run, src, size-at, buf)
		if errors.Is(err, errCut) {
			return true, nil
		}
		if err == nil {
			record := buf[journalHead : len(buf)-sumBytes]
			r, rest, errRecord := Parse(record)
			if err = errRecord; err == nil && len(rest) > 0 {
				err = fmt.Errorf("found %d bytes behind the record", len(rest))
			}
			if err == nil {
				err = yield(int(binary.LittleEndian.Uint32(buf[16:])), r, record)
			}
		}
		if err != nil {
			return false, fmt.Errorf("byte %d: %w", at, err)
		}
	}
	return false, nil
}

// readWrapped reads the next record with head and sum, of a journal of which so many bytes are left.
func readWrapped(run checkpoint.ID, src io.Reader, left int64, buf []byte) ([]byte, error) {
	if left < journalHead {
		return buf, errCut
	}
	buf = slices.Grow(buf[:0], journalHead)[:journalHead]
	if _, err := io.ReadFull(src, buf); err != nil {
		return buf, err
	}
	if sum := sha256.Sum256(buf[:journalHead-sumBytes]); !bytes.Equal(sum[:sumBytes], buf[journalHead-sumBytes:]) {
		return buf, damaged(src, "found no head of a record, want one")
	}
	record := int64(binary.LittleEndian.Uint32(buf[20:]))
	switch whole := journalHead + record + sumBytes; {
	case record > RecordBytesMax:
		return buf, fmt.Errorf("found a record of %d bytes, want at most %d", record, RecordBytesMax)
	case checkpoint.ID(buf[:16]) != run:
		return buf, fmt.Errorf("found a record of run %v, want run %v", checkpoint.ID(buf[:16]), run)
	case whole > left:
		return buf, errCut
	default:
		buf = slices.Grow(buf, int(whole)-journalHead)[:whole]
	}
	if _, err := io.ReadFull(src, buf[journalHead:]); err != nil {
		return buf, err
	}
	body := len(buf) - sumBytes
	if sum := sha256.Sum256(buf[:body]); !bytes.Equal(sum[:sumBytes], buf[body:]) {
		return buf, damaged(src, fmt.Sprintf("found a record of %d bytes that isn't what was written", record))
	}
	return buf, nil
}

// damaged is the error of what isn't what was written. With nothing but zeros behind it, or nothing, it is errCut: a
// power failure may leave a file's size without its last bytes.
func damaged(rest io.Reader, found string) error {
	zero, err := allZero(rest)
	switch {
	case err != nil:
		return err
	case zero:
		return errCut
	}
	return fmt.Errorf("%s; the records behind it can't be read: without the file their calls are asked again", found)
}

// allZero reports whether all that is left is zeros.
func allZero(rest io.Reader) (bool, error) {
	buf := make([]byte, 64<<10)
	for {
		n, err := rest.Read(buf)
		for _, b := range buf[:n] {
			if b != 0 {
				return false, nil
			}
		}
		if err == io.EOF {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// blobReader reads a blob at any place.
type blobReader struct {
	ctx   context.Context
	blobs checkpoint.Blobs
	name  string
}

// ReadAt implements io.ReaderAt.
func (b blobReader) ReadAt(p []byte, at int64) (int, error) {
	data, err := b.blobs.Get(b.ctx, b.name, at, int64(len(p)), p[:0])
	n := copy(p, data)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}
