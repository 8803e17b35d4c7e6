// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
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

// rescue makes an error of a failure. Other panics go on: package node reports them, with the model's stack.
func rescue(err *error) {
	switch r := recover().(type) {
	case nil:
	case *failure:
		*err = r
	default:
		panic(r)
	}
}

// ends is rescue for an activation: an error is the end of the run, so the processes of all nodes are ended, too.
func (m *Model) ends(err *error) {
	switch r := recover().(type) {
	case nil:
		if *err == nil {
			return
		}
	case *failure:
		*err = r
	default:
		m.close()
		panic(r)
	}
	m.close()
}

// close ends the processes of all nodes.
func (m *Model) close() {
	for n := range m.hosts {
		n.workers.close()
	}
	clear(m.hosts)
}

// self is what the names of this package's functions begin with.
const self = "github.com/disco-sim/disco/sim."

// place is the model's line that called this package, " (file.go:12)"; "" where none is found.
func place() string {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		ours := strings.HasPrefix(f.Function, self) && !strings.HasSuffix(f.File, "_test.go")
		if !ours && !strings.HasPrefix(f.Function, "runtime.") && f.File != "" {
			return fmt.Sprintf(" (%s:%d)", filepath.Base(f.File), f.Line)
		}
		if !more {
			return ""
		}
	}
}
