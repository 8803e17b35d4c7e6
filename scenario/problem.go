// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// ProblemsMax bounds how many problems of one file are kept. Further ones are
// counted.
const ProblemsMax = 1000

// Problem is one thing that is wrong with a scenario file.
type Problem struct {
	File   string // as it was given to ReadFile or Parse
	Line   int    // 1 is the first; 0: the file as a whole
	Column int    // in characters, 1 is the first; 0: the whole line
	Field  string // path of the field, e.g. edges[2].latency.mean; "" for the file itself
	Found  string
	Want   string // "" where Found says it all
	ToDo   string // how to put it right; "" where Want says it all
}

// String is file:line:column: field: found X, want Y; what to do.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	if p.Line > 0 && p.Column > 0 {
		fmt.Fprintf(&b, ":%d", p.Column)
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

// Problems is the error of a file at fault: all that is wrong with it, in the
// order of the file.
type Problems []Problem

// Error lists all problems, one a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Sort puts the problems into the order of the file; those at one place stay in theirs.
func (ps Problems) Sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
