// SPDX-License-Identifier: Apache-2.0

// Package tracefile collects the trace of a run: every worker writes what it handles to a
// temporary file, and at the end they are merged into one text in the total order. What
// handlers record goes the same way, in the same files.
//
// Guarantee: the file at the path appears whole or not at all, and is the same, byte for byte,
// for every placement. Temporary files have no names, so no way of dying leaves one behind.
//
//	files, err := tracefile.Open(path, workers)
//	// ... worker w writes to files.Of(w) ...
//	mark, err := files.Mark()
//	err = tracefile.Write(ctx, path, graph, []tracefile.Replication{{Section: files.Section(-1, mark), Reached: end}})
package tracefile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/disco-sim/disco/internal/outfile"
	"github.com/disco-sim/disco/internal/trace"
	"github.com/disco-sim/disco/node"
)

// Files is where the trace of one group of workers comes together: a file without a name for
// each of them, to which it writes what it handles. One goroutine uses it.
type Files struct {
	files []*os.File // by worker; none: no trace is wanted
	ends  [][]int64  // [mark][worker]: size of the worker's file then
}

// Open makes the files for a trace that will stand at path: beside it, where there is room for
// it. An empty path wants no trace.
func Open(path string, workers int) (*Files, error) {
	p := &Files{}
	if path == "" {
		return p, nil
	}
	dir := outfile.TemporaryDir(path)
	for range workers {
		f, err := outfile.Temporary(dir)
		if err != nil {
			p.Close()
			return nil, fmt.Errorf("tracefile: temporary file for the trace: %w", outfile.Error(dir, err))
		}
		p.files = append(p.files, f)
	}
	return p, nil
}

// Close frees the temporary files.
func (p *Files) Close() {
	for _, f := range p.files {
		f.Close()
	}
	p.files = nil
}

// Of is the file of one worker, nil where no trace is wanted.
func (p *Files) Of(worker int) *os.File {
	if len(p.files) == 0 {
		return nil
	}
	return p.files[worker]
}

// Mark notes where the records of a replication end; its workers have flushed.
func (p *Files) Mark() (mark int, err error) {
	ends := make([]int64, len(p.files))
	for w, f := range p.files {
		info, err := f.Stat()
		if err != nil {
			return 0, fmt.Errorf("tracefile: temporary file for the trace of worker %d: %w", w, err)
		}
		ends[w] = info.Size()
	}
	p.ends = append(p.ends, ends)
	return len(p.ends) - 1, nil
}

// Section is what workers have written between two marks. Any goroutine may read it, while Files is open.
type Section struct {
	files        []*os.File
	begins, ends []int64 // by worker
}

// Section is what was written behind a mark, -1 for the begin of the files, up to another one.
func (p *Files) Section(behind, mark int) Section {
	s := Section{files: p.files, begins: make([]int64, len(p.files)), ends: p.ends[mark]}
	if behind >= 0 {
		s.begins = p.ends[behind]
	}
	return s
}

// Bytes is how many bytes it has.
func (s *Section) Bytes() (sum int64) {
	for w := range s.files {
		sum += s.ends[w] - s.begins[w]
	}
	return sum
}

// Each calls yield for each record, in the total order. rec is valid during the call.
func (s *Section) Each(yield func(rec *trace.Record) error) error {
	readers, err := s.readers()
	if err != nil {
		return err
	}
	return trace.Merge(readers, yield)
}

// EachRow calls yield for each row that handlers have recorded, in the total order. r is valid during the call.
func (s *Section) EachRow(yield func(r *node.Recorded) error) error {
	readers, err := s.readers()
	if err != nil {
		return err
	}
	return trace.MergeRows(readers, yield)
}

func (s *Section) readers() ([]*trace.Reader, error) {
	readers := make([]*trace.Reader, len(s.files))
	for w, f := range s.files {
		size := s.ends[w] - s.begins[w]
		var err error
		if readers[w], err = trace.NewReader(io.NewSectionReader(f, s.begins[w], size), size); err != nil {
			return nil, fmt.Errorf("tracefile: trace of worker %d: %w", w, err)
		}
	}
	return readers, nil
}

// EachBlob calls yield for each blob (package trace) that a worker has written, with where it is.
func (s *Section) EachBlob(yield func(file *os.File, at int64, bytes int) error) error {
	for w, f := range s.files {
		size := s.ends[w] - s.begins[w]
		err := trace.EachBlob(io.NewSectionReader(f, s.begins[w], size), size, func(at int64, bytes int) error {
			return yield(f, s.begins[w]+at, bytes)
		})
		if err != nil {
			return fmt.Errorf("tracefile: worker %d: %w", w, err)
		}
	}
	return nil
}

// Replication is the records of one replication.
type Replication struct {
	Index   int
	Section Section
	Reached float64 // records at or after this simulated time are incomplete, and left out

	// Before gives the records that come first, of an earlier run that this one goes on with; nil: there are none.
	Before func(yield func(rec *trace.Record) error) error

	// RowsBefore gives the rows that come first, as Before.
	RowsBefore func(yield func(r *node.Recorded) error) error
}

// EachRow calls yield for each row of what was simulated, in the total order. r is valid during the call.
func (r *Replication) EachRow(yield func(r *node.Recorded) error) error {
	whole := func(row *node.Recorded) error {
		if row.Epoch >= r.Reached {
			return errReached
		}
		return yield(row)
	}
	err := error(nil)
	if r.RowsBefore != nil {
		err = r.RowsBefore(whole)
	}
	if err == nil {
		err = r.Section.EachRow(whole)
	}
	if errors.Is(err, errReached) {
		return nil
	}
	return err
}

// Bytes is how many bytes workers have written for these replications.
func Bytes(replications []Replication) (sum int64) {
	for i := range replications {
		sum += replications[i].Section.Bytes()
	}
	return sum
}

// Write merges replications into the file at path, which appears whole or not at all. The
// names are those of the graph's simprocs. It ends early, with ctx's error, when ctx ends.
func Write(ctx context.Context, path string, g trace.Namer, replications []Replication) error {
	out, err := outfile.Create(path)
	if err != nil {
		return fmt.Errorf("tracefile: %w", err)
	}
	m := &merger{ctx: ctx, path: path, graph: g}
	if err := m.write(out, replications); err != nil {
		out.Abort()
		return err
	}
	if err := out.Commit(); err != nil {
		return fmt.Errorf("tracefile: %w", err)
	}
	return nil
}

// merger writes one file.
type merger struct {
	ctx   context.Context
	path  string
	graph trace.Namer
	text  *bufio.Writer
}

// write merges into w, which is compressed as the file's name says.
func (m *merger) write(w io.Writer, replications []Replication) error {
	compressed, err := compressor(m.path, w)
	if err != nil {
		return fmt.Errorf("tracefile: %w", err)
	}
	m.text = bufio.NewWriterSize(compressed, 1<<20)
	for i := range replications {
		if len(replications) > 1 {
			fmt.Fprintf(m.text, "# replication %d\n", replications[i].Index)
		}
		if err := m.replication(&replications[i]); err != nil {
			return err
		}
	}
	if err := errors.Join(m.text.Flush(), compressed.Close()); err != nil {
		return fmt.Errorf("tracefile: %w", outfile.Error(m.path, err))
	}
	return nil
}

// errReached ends the merge of a replication that was interrupted.
var errReached = errors.New("tracefile: end of what is complete")

// replication merges the workers' records of one replication.
func (m *merger) replication(r *Replication) error {
	var line []byte
	count := 0
	write := func(rec *trace.Record) error {
		if rec.Epoch >= r.Reached {
			return errReached
		}
		if count++; count%(1<<16) == 0 && m.ctx.Err() != nil {
			return m.ctx.Err()
		}
		line = rec.AppendText(line[:0], m.graph)
		if _, err := m.text.Write(line); err != nil {
			return outfile.Error(m.path, err)
		}
		return nil
	}
	err := error(nil)
	if r.Before != nil {
		err = r.Before(write)
	}
	if err == nil {
		err = r.Section.Each(write)
	}
	switch {
	case err == nil, errors.Is(err, errReached):
		return nil
	case m.ctx.Err() != nil && errors.Is(err, m.ctx.Err()):
		return err
	}
	return fmt.Errorf("tracefile: %w", err)
}

// compressor wraps w as the name of a file asks for.
func compressor(path string, w io.Writer) (io.WriteCloser, error) {
	switch {
	case strings.HasSuffix(path, ".gz"):
		return gzip.NewWriterLevel(w, gzip.BestSpeed)
	case strings.HasSuffix(path, ".zst"):
		// One goroutine, so that equal traces have equal files.
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	}
	return uncompressed{w}, nil
}

// uncompressed is a writer whose Close leaves the writer behind it open.
type uncompressed struct{ io.Writer }

func (uncompressed) Close() error { return nil }

// windowMax bounds what a compressed trace may have the reader keep, in bytes.
const windowMax = 128 << 20

// Reader gives the text of a trace that is read from r, compressed as the name of its file says. Its errors, and those
// of reading, are about the file's content, or r's own. Close doesn't close r. Any goroutine may call it.
func Reader(path string, r io.Reader) (io.ReadCloser, error) {
	switch {
	case strings.HasSuffix(path, ".gz"):
		return gzip.NewReader(r)
	case strings.HasSuffix(path, ".zst"):
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(windowMax))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}
	return io.NopCloser(r), nil
}
