// SPDX-License-Identifier: Apache-2.0

package launch

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

	"github.com/disco-sim/disco/internal/trace"
)

// traces is where a team's part of a run's trace comes together: every worker writes
// what it handled to a file without a name, and at the end they are merged into the
// file that was asked for. The files lie beside that one, where there is room for it.
type traces struct {
	files []*os.File // by worker of the team; none: no trace
	ends  [][]int64  // [mark][worker]: size of the worker's file then
}

func (l *Launch) openTraces() (*traces, error) {
	t := &traces{}
	if l.cfg.Trace == "" {
		return t, nil
	}
	dir := scratchDir(l.cfg.Trace)
	for range l.placement.Workers {
		f, err := scratch(dir)
		if err != nil {
			t.close()
			return nil, fmt.Errorf("launch: temporary file for the trace: %w", plain(dir, err))
		}
		t.files = append(t.files, f)
	}
	return t, nil
}

// close frees the temporary files.
func (t *traces) close() {
	for _, f := range t.files {
		f.Close()
	}
	t.files = nil
}

// mark notes where the records of a replication end; its workers have flushed.
func (t *traces) mark() (mark int, err error) {
	ends := make([]int64, len(t.files))
	for w, f := range t.files {
		info, err := f.Stat()
		if err != nil {
			return 0, fmt.Errorf("launch: temporary file for the trace of worker %d: %w", w, err)
		}
		ends[w] = info.Size()
	}
	t.ends = append(t.ends, ends)
	return len(t.ends) - 1, nil
}

// readers reads the records of one mark.
func (t *traces) readers(mark int) ([]*trace.Reader, error) {
	readers := make([]*trace.Reader, len(t.files))
	for w, f := range t.files {
		begin := int64(0)
		if mark > 0 {
			begin = t.ends[mark-1][w]
		}
		size := t.ends[mark][w] - begin
		var err error
		if readers[w], err = trace.NewReader(io.NewSectionReader(f, begin, size), size); err != nil {
			return nil, fmt.Errorf("launch: trace of worker %d: %w", w, err)
		}
	}
	return readers, nil
}

// mergeTraces writes the trace file.
func (l *Launch) mergeTraces(ctx context.Context, done []*finished) error {
	if l.cfg.Trace == "" {
		return nil
	}
	out, err := CreateOutput(l.cfg.Trace)
	if err != nil {
		return fmt.Errorf("launch: trace: %w", err)
	}
	if size := tracesSize(done); size > largeTrace && l.cfg.Stderr != nil {
		fmt.Fprintf(l.cfg.Stderr, "writing the trace of %d MiB of records to %s\n", size>>20, l.cfg.Trace)
	}
	if err := l.writeTrace(ctx, out, done); err != nil {
		out.Abort()
		return err
	}
	if err := out.Commit(); err != nil {
		return fmt.Errorf("launch: trace: %w", err)
	}
	return nil
}

// largeTrace is what takes so long to merge that people wonder.
const largeTrace = 64 << 20

// tracesSize is how many bytes the workers have written.
func tracesSize(done []*finished) int64 {
	sum := int64(0)
	for _, f := range done {
		for w, end := range f.traces.ends[f.mark] {
			sum += end
			if f.mark > 0 {
				sum -= f.traces.ends[f.mark-1][w]
			}
		}
	}
	return sum
}

// writeTrace merges into w, which is compressed as the file's name says.
func (l *Launch) writeTrace(ctx context.Context, w io.Writer, done []*finished) error {
	compressed, err := compressor(l.cfg.Trace, w)
	if err != nil {
		return fmt.Errorf("launch: trace: %w", err)
	}
	text := bufio.NewWriterSize(compressed, 1<<20)
	for _, f := range done {
		if len(done) > 1 {
			fmt.Fprintf(text, "# replication %d\n", f.Index)
		}
		if err := l.traceReplication(ctx, text, f); err != nil {
			return err
		}
	}
	if err := errors.Join(text.Flush(), compressed.Close()); err != nil {
		return fmt.Errorf("launch: trace: %w", plain(l.cfg.Trace, err))
	}
	return nil
}

// errCut ends the merge of a replication that was interrupted.
var errCut = errors.New("launch: end of what is complete")

// traceReplication merges the workers' records of one replication. What an interrupted
// one has handled at or after Reached isn't all that there would be.
func (l *Launch) traceReplication(ctx context.Context, text *bufio.Writer, f *finished) error {
	readers, err := f.traces.readers(f.mark)
	if err != nil {
		return err
	}
	var line []byte
	count := 0
	err = trace.Merge(readers, func(rec *trace.Record) error {
		if rec.Epoch >= f.Reached {
			return errCut
		}
		if count++; count%(1<<16) == 0 && ctx.Err() != nil {
			return ErrEnded
		}
		line = rec.AppendText(line[:0], l.graph)
		_, err := text.Write(line)
		if err != nil {
			return plain(l.cfg.Trace, err)
		}
		return nil
	})
	switch {
	case err == nil, errors.Is(err, errCut):
		return nil
	case errors.Is(err, ErrEnded):
		return err
	}
	return fmt.Errorf("launch: trace: %w", err)
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
