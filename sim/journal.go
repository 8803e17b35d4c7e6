// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/binary"
	"fmt"
	"math"
	"path"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
)

// journal is what a node does, in words, for people who look for a mistake. Nodes have none otherwise, so what is noted
// costs one look at a flag.
type journal struct {
	text  []byte
	names map[*Process]string // of those that have begun and not ended
	begun int                 // processes
}

// wordsMax is how much an activation notes. What stands in a journal is less.
const wordsMax = 1 << 16

// StartJournal implements node.Journaler.
func (n *Node) StartJournal() { n.journal, n.journaled = &journal{names: map[*Process]string{}}, true }

// Journal implements node.Journaler.
func (n *Node) Journal() []byte {
	text := n.journal.text
	n.journal.text = text[:0]
	return text
}

// note adds a line. It is called where there is a journal only.
func (n *Node) note(format string, args ...any) {
	if len(n.journal.text) < wordsMax {
		n.journal.text = append(fmt.Appendf(n.journal.text, format, args...), '\n')
	}
}

// noteSet notes that something was put into the schedule. Processes and requests have words of their own for it.
func (n *Node) noteSet(epoch float64, do action) {
	switch do := do.(type) {
	case *Process, *request:
	case *beginning:
		j := n.journal
		j.begun++
		j.names[do.p] = fmt.Sprintf("process %d of %s", j.begun, codeOf(do.f))
		n.note("started %s", j.names[do.p])
	default:
		n.note("set for %v s: %s", epoch, describe(do))
	}
}

// noteDue notes what is done next.
func (n *Node) noteDue(do action) {
	switch do := do.(type) {
	case *Process:
		n.note("%s goes on", n.journal.names[do])
	case *beginning:
		n.note("%s begins", n.journal.names[do.p])
	case *request:
		do.noteDue()
	default:
		n.note("did %s", describe(do))
	}
}

// note adds a line about a process. It is called where there is a journal only.
func (p *Process) note(format string, args ...any) {
	p.n.note("%s %s", p.n.journal.names[p], fmt.Sprintf(format, args...))
}

// noteWait notes what a process waits for, and how long at most.
func (p *Process) noteWait(what string, delay float64) {
	if math.IsInf(delay, 1) {
		p.note("waits %s", what)
	} else {
		p.note("waits %s, until %v s at most", what, p.n.now+delay)
	}
}

// noteSuspend notes what a process waits for that is being suspended; delay is below 0 where it has no end.
func (p *Process) noteSuspend(delay float64) {
	what := "to be resumed"
	if p.list != nil {
		what = "for a signal"
	}
	if delay < 0 {
		delay = math.Inf(1)
	}
	p.noteWait(what, delay)
}

// noteOutcome notes how a wait has ended. The cause of an interrupt may be anything, an address too: its type is shown.
func (p *Process) noteOutcome() {
	switch p.outcome {
	case timeUp:
		p.note("waited until the time was up")
	case interrupted:
		p.note("is interrupted, cause: %T", p.cause)
	}
}

// noteEnd notes the end of a process.
func (p *Process) noteEnd() {
	p.note("ends")
	delete(p.n.journal.names, p)
}

// note adds a line about a request: format is what is said of its units and its server.
func (r *request) note(format string, args ...any) {
	n, who := r.s.n, "a request"
	switch {
	case r.p != nil:
		who = n.journal.names[r.p]
	case r.do != nil:
		who = "for " + describe(r.do) + ": a request"
	}
	units := ""
	if r.units > 1 {
		units = fmt.Sprintf("%d of ", r.units)
	}
	n.note("%s "+format, append([]any{who, units + r.s.name}, args...)...)
}

// noteDue notes what the timer of a request is about.
func (r *request) noteDue() {
	switch {
	case r.state == queued:
		r.note("has waited long enough for %s")
	case r.serves:
		r.note("is done at %s")
	default:
		r.note("has %s")
	}
}

// noteStatistic notes what a statistic was given.
func (n *Node) noteStatistic(s statistic, x float64) {
	if i := slices.Index(n.stats.list, s); i >= 0 {
		n.note("recorded %s: %v", n.stats.names[i], x)
	}
}

// Printf adds a line of the model's own to the journal that --print shows; without --print it does nothing.
func (c *Context) Printf(format string, args ...any) {
	if c.n.journaled {
		c.n.note(format, args...)
	}
}

// describe names an action by the model's function.
func describe(do action) string {
	switch do := do.(type) {
	case call:
		return codeOf(do)
	case *beginning:
		return "begin process " + codeOf(do.f)
	case *request:
		return "a request to " + do.s.name
	case *Process:
		if do.run != nil {
			return "resume process " + codeOf(do.run.body)
		}
	case *source:
		return codeOf(do.code)
	case interface{ function() string }:
		return do.function()
	}
	return "an action"
}

func (t *Timeout[T]) function() string { return codeOf(t.f) }

// codeOf names a function, "main.build.func1 (model.go:31)".
func codeOf(f any) string {
	name, file, line := locate(f)
	return fmt.Sprintf("%s (%s:%d)", path.Base(name), filepath.Base(file), line)
}

func locate(f any) (name, file string, line int) {
	pc := reflect.ValueOf(f).Pointer()
	fn := runtime.FuncForPC(pc)
	file, line = fn.FileLine(pc)
	return fn.Name(), file, line
}

// DescribeEvent implements scenario.Describer.
func (m *Model) DescribeEvent(data []byte) string {
	if len(data) >= keyBytes {
		key := binary.LittleEndian.Uint32(data)
		for _, t := range m.types {
			if t, ok := t.(interface{ text(uint32, []byte) string }); ok {
				if text := t.text(key, data[keyBytes:]); text != "" {
					return text
				}
			}
		}
	}
	return fmt.Sprintf("% x", data)
}

// text is what an event of this type is; "" where it is of another.
func (t *eventType[E]) text(key uint32, data []byte) string {
	if key != t.key {
		return ""
	}
	return t.plan.Text(data)
}

// SourceFiles implements scenario.Sourcer.
func (m *Model) SourceFiles() (files []string) {
	for _, g := range m.groups {
		for _, setup := range g.setups {
			if setup == nil {
				continue
			}
			if _, file, _ := locate(setup); !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	return files
}
