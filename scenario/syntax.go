// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// syntaxTries and syntaxBytes bound the work that goes into finding the line of a
// syntax error.
const (
	syntaxTries = 100
	syntaxBytes = 32 << 20
)

// yamlError is made when it is first needed: every worker starts with this package, and none reads a broken file.
var yamlError = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?s)^yaml: (?:line (\d+): )?(.*)$`)
})

// syntaxError says where the text stops being YAML. The reader's own line is the
// beginning of the construct around the error, or missing. The line wanted is the
// one after the longest run of first lines that is YAML by itself, because a run
// that contains the error never is. Only runs that end before the line at which
// the reader gave up are tried.
func (d *Document) syntaxError(err error) error {
	found, line := err.Error(), 0
	if m := yamlError().FindStringSubmatch(found); m != nil {
		line, _ = strconv.Atoi(m[1])
		found = m[2]
	}
	ends := lineEnds(d.text)
	last := min(consumedLines(d.text), len(ends))
	budget := syntaxBytes
	for k := last - 1; k >= 0 && k > last-syntaxTries && budget > 0; k-- {
		end := 0
		if k > 0 {
			end = ends[k-1]
		}
		budget -= end
		if wellFormed(d.text[:end]) {
			line = k + 1
			break
		}
	}
	for k := max(line, 1); k <= min(line+1, len(ends)); k++ {
		if column := indentTab(d.text[:ends[k-1]]); column > 0 {
			return d.fault(k, column, "a tab in the indentation", "spaces",
				"YAML indents with spaces only: replace every tab at the beginning of a line")
		}
	}
	return d.fault(max(line, 1), 0, "no YAML: "+strings.TrimSpace(found), "",
		"what begins on this line does not fit together with the lines around it")
}

// indentTab is the column of the first tab before anything else on the last line of text,
// 0 where there is none.
func indentTab(text []byte) int {
	line := bytes.TrimSuffix(text, []byte("\n"))
	line = line[bytes.LastIndexByte(line, '\n')+1:]
	indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
	return bytes.IndexByte(indent, '\t') + 1
}

// wellFormed reports whether text is YAML: no document, one or several.
func wellFormed(text []byte) bool {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var n yaml.Node
		if err := dec.Decode(&n); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// consumedLines is how many lines the YAML reader takes in before it gives up.
func consumedLines(text []byte) int {
	r := &lineReader{text: text}
	dec := yaml.NewDecoder(r)
	for {
		var n yaml.Node
		if err := dec.Decode(&n); err != nil {
			return r.lines
		}
	}
}

// lineReader gives one line a call, so that its count is how far a reader came.
type lineReader struct {
	text  []byte
	lines int
}

func (r *lineReader) Read(p []byte) (int, error) {
	if len(r.text) == 0 {
		return 0, io.EOF
	}
	n := bytes.IndexByte(r.text, '\n') + 1
	if n == 0 {
		n = len(r.text)
	}
	if n > len(p) {
		n = len(p)
	} else {
		r.lines++
	}
	copy(p, r.text[:n])
	r.text = r.text[n:]
	return n, nil
}

// lineEnds lists the offsets just after every line.
func lineEnds(text []byte) []int {
	var ends []int
	for i, c := range text {
		if c == '\n' {
			ends = append(ends, i+1)
		}
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		ends = append(ends, len(text))
	}
	return ends
}
