// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"sync"

	"github.com/disco-sim/disco/fleet"
)

// lineMax bounds a line of output, in bytes: what is longer is cut.
const lineMax = 64 << 10

// output is what a run has written: its last bytes for people, and what it says to programs. It is bounded.
type output struct {
	mu       sync.Mutex
	last     []byte // at most 2 × fleet.MaxLog bytes, of which the end counts
	progress fleet.Progress
	failed   *event
}

// line takes a line of the run.
func (o *output) line(line []byte) {
	var e event
	o.mu.Lock()
	defer o.mu.Unlock()
	if !e.parse(line) {
		o.keep(line)
		return
	}
	switch e.Event {
	case "progress":
		o.progress = fleet.Progress{Now: e.Simulated, Horizon: e.Horizon, Events: e.Events,
			Checkpoints: e.Checkpoints, Stopping: o.progress.Stopping}
	case "failed": // the same follows as text
		o.failed = &e
	default:
		o.keep([]byte(e.Text))
	}
}

func (o *output) keep(line []byte) {
	o.last = append(append(o.last, line...), '\n')
	if len(o.last) > 2*fleet.MaxLog {
		o.last = append(o.last[:0], o.last[len(o.last)-fleet.MaxLog:]...)
	}
}

// tail is the last of the text, at most so many bytes.
func (o *output) tail(most int) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.last[max(0, len(o.last)-most):])
}

// stopping says that the run was asked to end.
func (o *output) stopping() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.progress.Stopping = true
}

// begin forgets what an earlier process of the run said of its failure.
func (o *output) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed = nil
}

func (o *output) failure() *event {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}

func (o *output) now() fleet.Progress {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.progress
}

// lines makes lines of what one stream of a process writes. One goroutine writes.
type lines struct {
	to      *output
	partial []byte
}

// Write never fails.
func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			l.add(p)
			return n, nil
		}
		l.add(p[:i])
		l.to.line(l.partial)
		l.partial, p = l.partial[:0], p[i+1:]
	}
}

func (l *lines) add(p []byte) {
	l.partial = append(l.partial, p[:min(len(p), lineMax-len(l.partial))]...)
}

// end passes on a line that has no end.
func (l *lines) end() {
	if len(l.partial) > 0 {
		l.to.line(l.partial)
		l.partial = nil
	}
}
