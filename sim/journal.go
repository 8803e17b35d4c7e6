// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/binary"
	"fmt"
	"path"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
)

// journal is what a node does, in words, for people who look for a mistake. Nodes have none otherwise, so what is noted
// costs one look at a pointer.
type journal struct{ text []byte }

// StartJournal implements node.Journaler.
func (n *Node) StartJournal() { n.journal, n.journaled = &journal{}, true }

// Journal implements node.Journaler.
func (n *Node) Journal() []byte {
	text := n.journal.text
	n.journal.text = text[:0]
	return text
}

// note adds a line. It is called where there is a journal only.
func (n *Node) note(format string, args ...any) {
	n.journal.text = append(fmt.Appendf(n.journal.text, format, args...), '\n')
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
	case *Process:
		if do.run != nil {
			return "resume process " + codeOf(do.run.body)
		}
	case *source:
		return codeOf(do.f)
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
