// SPDX-License-Identifier: Apache-2.0

package gml

import (
	"fmt"
	"strings"
)

// problemsMax bounds how many problems of one file are listed.
const problemsMax = 100

// Problem is one thing that is wrong with a file.
type Problem struct {
	File   string // as it was given to ReadFile or Parse
	Line   int    // 1 is the first; 0: the file as a whole
	Column int    // in characters, 1 is the first
	Field  string // e.g. edge.source; "" where there is none
	Found  string
	Want   string // "" where Found says it all
	ToDo   string // "" where Want says it all
}

// String is file:line:column: field: found X, want Y; what to do.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": ")
	if p.Field != "" {
		b.WriteString(p.Field + ": ")
	}
	b.WriteString("found " + p.Found)
	if p.Want != "" {
		b.WriteString(", want " + p.Want)
	}
	if p.ToDo != "" {
		b.WriteString("; " + p.ToDo)
	}
	return b.String()
}

// Problems is the error of a file at fault, in the order of the file.
type Problems []Problem

// Error lists all problems, one a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// shortRunes bounds how much of the file's text a message repeats.
const shortRunes = 60

func short(s string) string {
	runes := 0
	for i := range s {
		if runes++; runes > shortRunes {
			return s[:i] + "…"
		}
	}
	return s
}
