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

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/trace"
)

// traces is where a run's trace comes together: every worker writes what it handled
// to a file without a name, and at the end they are merged into the file that was
// asked for. The files lie beside that one, where there is room for it.
type traces struct {
	path    string // empty: no trace
	files   []*os.File
	ends    [][]int64 // [replication][worker]: size of the worker's file then
	reached []float64 // [replication]: records from this epoch on are incomplete
}

func (l *Launch) openTraces() (*traces, error) {
	t := &traces{path: l.cfg.Trace}
	if t.path == "" {
		return t, nil
	}
	dir := scratchDir(t.path)
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

// mark notes where the records of a replication end; its workers have flushed. What
// an interrupted one has handled at or after reached isn't all that there would be.
func (t *traces) mark(reached float64) error {
	ends := make([]int64, len(t.files))
	for w, f := range t.files {
		info, err := f.Stat()
		if err != nil {
			return fmt.Errorf("launch: temporary file for the trace of worker %d: %w", w, err)
		}
		ends[w] = info.Size()
	}
	t.ends, t.reached = append(t.ends, ends), append(t.reached, reached)
	return nil
}

// merge writes the trace file.
func (t *traces) merge(ctx context.Context, g *node.Graph) error {
	if t.path == "" {
		return nil
	}
	out, err := CreateOutput(t.path)
	if err != nil {
		return fmt.Errorf("launch: trace: %w", err)
	}
	if err := t.write(ctx, out, g); err != nil {
		out.Abort()
		return err
	}
	if err := out.Commit(); err != nil {
		return fmt.Errorf("launch: trace: %w", err)
	}
	return nil
}

// write merges into w, which is compressed as the file's name says.
func (t *traces) write(ctx context.Context, w io.Writer, g *node.Graph) error {
	compressed, err := compressor(t.path, w)
	if err != nil {
		return fmt.Errorf("launch: trace: %w", err)
	}
	text := bufio.NewWriterSize(compressed, 1<<20)
	for r := range t.ends {
		if len(t.ends) > 1 {
			fmt.Fprintf(text, "# replication %d\n", r)
		}
		if err := t.replication(ctx, r, text, g); err != nil {
			return err
		}
	}
	if err := errors.Join(text.Flush(), compressed.Close()); err != nil {
		return fmt.Errorf("launch: trace: %w", plain(t.path, err))
	}
	return nil
}

// errCut ends the merge of a replication that was interrupted.
var errCut = errors.New("launch: end of what is complete")

// replication merges the workers' records of one replication.
func (t *traces) replication(ctx context.Context, r int, text *bufio.Writer, g *node.Graph) error {
	readers := make([]*trace.Reader, len(t.files))
	for w, f := range t.files {
		begin := int64(0)
		if r > 0 {
			begin = t.ends[r-1][w]
		}
		size := t.ends[r][w] - begin
		var err error
		if readers[w], err = trace.NewReader(io.NewSectionReader(f, begin, size), size); err != nil {
			return fmt.Errorf("launch: trace of worker %d: %w", w, err)
		}
	}
	var line []byte
	count := 0
	err := trace.Merge(readers, func(rec *trace.Record) error {
		if rec.Epoch >= t.reached[r] {
			return errCut
		}
		if count++; count%(1<<16) == 0 && ctx.Err() != nil {
			return ErrEnded
		}
		line = rec.AppendText(line[:0], g)
		_, err := text.Write(line)
		if err != nil {
			return plain(t.path, err)
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
