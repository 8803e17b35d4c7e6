// SPDX-License-Identifier: Apache-2.0

package workerproc

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Limits of what is kept of a worker's output.
const (
	linesKept    = 20   // last lines of a worker that ended without a crash text
	CrashLines   = 40   // first lines of a crash: its reason and the goroutine at fault
	linesBefore  = 5    // lines before a stack that begins unannounced
	lineBytesMax = 1024 // longer lines are cut
)

// Output takes a worker's output line by line. It passes lines on, with the worker's
// name in front, and keeps the last few for the report of a death. A crash is
// different: its first lines are the ones that matter, so from "panic:" or "fatal
// error:" on they are kept and no longer passed on, because the report will show
// them. Should the worker live on, Flush passes them on after all.
//
// Write belongs to the one goroutine that reads the worker's pipe; the rest may be
// called by any.
type Output struct {
	name string
	to   *LineWriter

	mu      sync.Mutex
	partial []byte   // an unfinished line
	last    []string // up to linesKept
	crash   []string // up to CrashLines
	more    int      // lines of the crash beyond that
}

// NewOutput is the output of the worker of that name, whose lines go to a LineWriter.
func NewOutput(name string, to *LineWriter) *Output { return &Output{name: name, to: to} }

// LineWriter writes whole lines of several workers to one writer. Any goroutine may use it.
type LineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// NewLineWriter writes to w; nil: nowhere.
func NewLineWriter(w io.Writer) *LineWriter { return &LineWriter{w: w} }

// Line writes one line, with a name in front.
func (l *LineWriter) Line(name, text string) {
	if l.w == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// A failure to write what a worker wrote has nowhere to be reported.
	_, _ = fmt.Fprintf(l.w, "%s: %s\n", name, text)
}

// Write takes the next bytes of the worker's output. It never fails.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			o.keep(p)
			return n, nil
		}
		o.keep(p[:i])
		o.line(string(o.partial))
		o.partial = o.partial[:0]
		p = p[i+1:]
	}
}

// keep appends to the unfinished line as much as fits.
func (o *Output) keep(p []byte) {
	room := lineBytesMax - len(o.partial)
	o.partial = append(o.partial, p[:min(room, len(p))]...)
}

func (o *Output) line(s string) {
	s = strings.TrimRight(s, "\r")
	if len(o.crash) > 0 || strings.HasPrefix(s, "panic: ") || strings.HasPrefix(s, "fatal error: ") {
		if len(o.crash) < CrashLines {
			o.crash = append(o.crash, s)
		} else {
			o.more++
		}
		return
	}
	if strings.HasPrefix(s, "goroutine ") && strings.HasSuffix(s, "]:") {
		// The crash began in the middle of a line, or with unknown words: its reason stands
		// in the lines before, which were passed on.
		o.crash = append(append(o.crash, o.last[max(0, len(o.last)-linesBefore):]...), s)
		return
	}
	if len(o.last) == linesKept {
		copy(o.last, o.last[1:])
		o.last = o.last[:linesKept-1]
	}
	o.last = append(o.last, s)
	o.to.Line(o.name, s)
}

// Flush ends an unfinished line and passes on what looked like a crash, for a
// worker that ended well.
func (o *Output) Flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endLine()
	for _, s := range o.crash {
		o.to.Line(o.name, s)
	}
	if o.more > 0 {
		o.to.Line(o.name, fmt.Sprintf("(%d more lines)", o.more))
	}
	o.crash, o.more = nil, 0
}

// Lines is what the report of a death shows.
func (o *Output) Lines() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endLine()
	if len(o.crash) == 0 {
		return append([]string(nil), o.last...)
	}
	out := append([]string(nil), o.crash...)
	for len(out) > 0 && out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	if o.more > 0 {
		out = append(out, fmt.Sprintf("(%d more lines)", o.more))
	}
	return out
}

func (o *Output) endLine() {
	if len(o.partial) > 0 {
		o.line(string(o.partial))
		o.partial = o.partial[:0]
	}
}
