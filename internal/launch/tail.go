// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Limits of what is kept of a worker's output.
const (
	tailLines     = 20   // last lines of a worker that ended without a crash text
	tailCrash     = 40   // first lines of a crash: its reason and the goroutine at fault
	tailBefore    = 5    // lines before a stack that begins unannounced
	tailLineBytes = 1024 // longer lines are cut
)

// tail takes a worker's output line by line. It passes lines on, with the worker's
// name in front, and keeps the last few for the report of a death. A crash is
// different: its first lines are the ones that matter, so from "panic:" or "fatal
// error:" on they are kept and no longer passed on, because the report will show
// them. Should the worker live on, flush passes them on after all.
//
// Write belongs to the one goroutine that reads the worker's pipe; the rest may be
// called by any.
type tail struct {
	name string
	to   *lineWriter

	mu      sync.Mutex
	partial []byte   // an unfinished line
	last    []string // up to tailLines
	crash   []string // up to tailCrash
	more    int      // lines of the crash beyond that
}

// lineWriter writes whole lines of several workers to one writer.
type lineWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lineWriter) line(name, text string) {
	if l.w == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// Nobody is there to hear of a failure to write what a worker said.
	_, _ = fmt.Fprintf(l.w, "%s: %s\n", name, text)
}

// Write takes the next bytes of the worker's output. It never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			t.keep(p)
			return n, nil
		}
		t.keep(p[:i])
		t.line(string(t.partial))
		t.partial = t.partial[:0]
		p = p[i+1:]
	}
}

// keep appends to the unfinished line as much as fits.
func (t *tail) keep(p []byte) {
	room := tailLineBytes - len(t.partial)
	t.partial = append(t.partial, p[:min(room, len(p))]...)
}

func (t *tail) line(s string) {
	s = strings.TrimRight(s, "\r")
	if len(t.crash) > 0 || strings.HasPrefix(s, "panic: ") || strings.HasPrefix(s, "fatal error: ") {
		if len(t.crash) < tailCrash {
			t.crash = append(t.crash, s)
		} else {
			t.more++
		}
		return
	}
	if strings.HasPrefix(s, "goroutine ") && strings.HasSuffix(s, "]:") {
		// The crash began in the middle of a line, or with words that aren't known: why
		// is said shortly before, and has been passed on.
		t.crash = append(append(t.crash, t.last[max(0, len(t.last)-tailBefore):]...), s)
		return
	}
	if len(t.last) == tailLines {
		copy(t.last, t.last[1:])
		t.last = t.last[:tailLines-1]
	}
	t.last = append(t.last, s)
	t.to.line(t.name, s)
}

// flush ends an unfinished line and passes on what looked like a crash, for a
// worker that ended well.
func (t *tail) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLine()
	for _, s := range t.crash {
		t.to.line(t.name, s)
	}
	if t.more > 0 {
		t.to.line(t.name, fmt.Sprintf("(%d more lines)", t.more))
	}
	t.crash, t.more = nil, 0
}

// lines is what the report of a death shows.
func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLine()
	if len(t.crash) == 0 {
		return append([]string(nil), t.last...)
	}
	out := append([]string(nil), t.crash...)
	for len(out) > 0 && out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	if t.more > 0 {
		out = append(out, fmt.Sprintf("(%d more lines)", t.more))
	}
	return out
}

func (t *tail) endLine() {
	if len(t.partial) > 0 {
		t.line(string(t.partial))
		t.partial = t.partial[:0]
	}
}
