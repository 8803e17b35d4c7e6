// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/printable"
	"github.com/disco-sim/disco/model/overview"
)

// texts is a Summary that has nothing but its text.
type texts int

func (n texts) WriteText(w io.Writer) error {
	for i := range int(n) {
		if _, err := fmt.Fprintf(w, "line %d\n", i+1); err != nil {
			return err
		}
	}
	return nil
}

func shownOn(buffer *bytes.Buffer, color bool) *paper {
	p := &program{stdout: &output{w: printable.NewWriter(buffer), raw: buffer}}
	return &paper{p: p, color: color, room: overview.Limits{Lines: 10, Columns: 60}}
}

// TestTextOnly: of a kind that has only text, so much is shown as fits, and all where --tables asks for it.
func TestTextOnly(t *testing.T) {
	for _, c := range []struct {
		lines  int
		tables []string
		want   string
	}{
		{9, nil, "line 9\n\n"},
		{10, nil, "line 8\n  … and 2 more lines: --tables results\n\n"},
		{11, nil, "line 8\n  … and 3 more lines: --tables results\n\n"},
		{11, []string{"results"}, "line 11\n\n"},
		{11, []string{"all"}, "line 11\n\n"},
	} {
		var b bytes.Buffer
		if err := shownOn(&b, false).text(&order{tables: c.tables}, texts(c.lines)); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(b.String(), c.want) || c.tables == nil && strings.Count(b.String(), "\n") > 10 {
			t.Errorf("%d lines with --tables %v: found\n%swant ten lines at most, with at the end\n%s", c.lines,
				c.tables, b.String(), c.want)
		}
	}
}

// TestPaper: names of a scenario can't bring escapes to the terminal, whatever the program itself puts there.
func TestPaper(t *testing.T) {
	lines := []overview.Line{{{Text: "head", Style: overview.Head}},
		{{Text: "a\x1b[31mb  "}, {Text: "7", Style: overview.Bad}}}
	for _, c := range []struct {
		color bool
		want  string
	}{
		{false, "head\na\\u001b[31mb  7\n"},
		{true, "\x1b[1mhead\x1b[m\na\\u001b[31mb  \x1b[1;31m7\x1b[m\n"},
	} {
		var b bytes.Buffer
		shownOn(&b, c.color).write(lines)
		if b.String() != c.want {
			t.Errorf("found %q, want %q", b.String(), c.want)
		}
	}
}
