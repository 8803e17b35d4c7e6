// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/disco-sim/disco/internal/plain"
	"github.com/disco-sim/disco/sim/dist"
)

// failure is the panic of a model that uses the package in a way that it can't be used: an error, with the model's
// words and the place in its code, instead of a stack.
type failure struct{ text string }

func (f *failure) Error() string { return f.text }

// misuse ends the run, or the building of the model.
func (n *Node) misuse(format string, args ...any) {
	panic(&failure{n.at() + fmt.Sprintf(format, args...) + place()})
}

// running refuses a call from a setup function.
func (n *Node) running(what string) {
	if n.proc == nil || !n.begun {
		n.misuse("%s: a setup function can't: put it into n.Start(func(c *sim.Context) { … })", what)
	}
}

// at names node and time at the start of a message.
func (n *Node) at() string {
	if !n.begun {
		return n.name + ": "
	}
	return fmt.Sprintf("%s, at %v s: ", n.name, n.now)
}

// failureOf is a panic as a failure, where it is one, or that of a distribution or of an event's type; nil for others.
func failureOf(panicked any, at string) *failure {
	switch r := panicked.(type) {
	case *failure:
		return r
	case dist.Error:
		return &failure{at + r.Error() + place()}
	case plain.Fault:
		return &failure{at + r.Error() + place()}
	}
	return nil
}

// epochLimitDefault is the most that one node does at one epoch, unless the model says otherwise: more than what models
// mean by it, and done in seconds.
const epochLimitDefault = 10_000_000

// endlessShown is how many of the last actions before the limit are named.
const endlessShown = 8

// endless notes what an epoch near the limit consists of, and ends the run beyond it.
func (n *Node) endless(left int, do action) error {
	if left == min(endlessShown, n.m.epochLimit)-1 {
		n.m.endless = nil // another epoch came near
	}
	if text := describe(do); !slices.Contains(n.m.endless, text) {
		n.m.endless = append(n.m.endless, text)
	}
	if left >= 0 {
		return nil
	}
	return &failure{fmt.Sprintf("%s%d things were done at this one time, and there is more to do; the last: %s. "+
		"Time never goes on where each of them sets the next for 0 s later: give one of them a Hold, a gap or a "+
		"delay above 0. A model that means it says `epoch_limit: %d` in its file, or calls Builder.EpochLimit",
		n.at(), n.m.epochLimit, strings.Join(n.m.endless, "; "), 10*n.m.epochLimit)}
}

// rescue makes an error of a failure. Other panics go on: package node reports them, with the model's stack.
func rescue(err *error) {
	if r := recover(); r != nil {
		f := failureOf(r, "")
		if f == nil {
			panic(r)
		}
		*err = f
	}
}

// ends is rescue for an activation: an error is the end of the run, so the processes of all nodes are ended, too.
// r is what it has recovered from, nil for nothing.
func (n *Node) ends(r any, err *error) {
	n.m.close()
	if r != nil {
		f := failureOf(r, n.at())
		if f == nil {
			panic(r)
		}
		*err = f
	}
}

// End implements scenario.Ender: a run that others have ended leaves processes.
func (m *Model) End() { m.close() }

// close ends the processes of all nodes.
func (m *Model) close() {
	for n := range m.hosts {
		n.workers.close()
	}
	clear(m.hosts)
}

// self is what the names of functions begin with that aren't the model's.
var self = [...]string{"github.com/disco-sim/disco/sim.", "github.com/disco-sim/disco/sim/dist.",
	"github.com/disco-sim/disco/internal/plain."}

// place is the model's line that called this package, " (file.go:12)"; "" where none is found.
func place() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		ours := !strings.HasSuffix(f.File, "_test.go") && slices.ContainsFunc(self[:], func(prefix string) bool {
			return strings.HasPrefix(f.Function, prefix)
		})
		if !ours && !strings.HasPrefix(f.Function, "runtime.") && f.File != "" {
			return fmt.Sprintf(" (%s:%d)", filepath.Base(f.File), f.Line)
		}
		if !more {
			return ""
		}
	}
}
