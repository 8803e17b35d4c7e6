// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bufio"
	"cmp"
	"io"
	"strconv"
	"strings"
)

// traceRecord is a line of a trace's text.
type traceRecord struct {
	replication int
	epoch       float64
	simproc     string
	text        string // the whole line
}

// traceText reads a trace's text record by record.
type traceText struct {
	path        string
	lines       *bufio.Scanner
	line        int // its number, from 1
	replication int
}

func newTraceText(path string, r io.Reader) *traceText {
	t := &traceText{path: path, lines: bufio.NewScanner(r)}
	t.lines.Buffer(make([]byte, 1<<16), journalLineMax)
	return t
}

// next reads the next record; nil at the end. Its errors are about the file.
func (t *traceText) next() (*traceRecord, error) {
	for t.lines.Scan() {
		t.line++
		text := t.lines.Text()
		if index, ok := strings.CutPrefix(text, "# replication "); ok {
			n, err := strconv.Atoi(index)
			if err != nil || n < t.replication {
				return nil, t.refuse(text, "replications that rise")
			}
			t.replication = n
			continue
		}
		f := strings.Split(text, "\t")
		epoch, err := strconv.ParseFloat(f[0], 64)
		if err != nil || !(epoch >= 0) || len(f) != 6 && (len(f) != 3 || f[2] != "wakeup") {
			return nil, t.refuse(text, "epoch, simproc, sender, number, bytes and hash, or epoch, simproc and wakeup, "+
				"with tabs between, as --trace writes them")
		}
		return &traceRecord{replication: t.replication, epoch: epoch, simproc: f[1], text: text}, nil
	}
	if err := t.lines.Err(); err != nil {
		return nil, usage("%s can't be read behind line %d: %v: want a trace, as --trace writes it", t.path, t.line,
			err)
	}
	return nil, nil
}

func (t *traceText) refuse(found, want string) error {
	return usage("%s:%d: found %q, want %s", t.path, t.line, printableShort(found), want)
}

// firstOther gives the first record that two traces don't share, as it is in each, and how many they share before it.
// Where one of them comes earlier, or one trace has ended, the other is nil; both are nil where the traces are equal.
func firstOther(a, b *traceText) (left, right *traceRecord, shared int, err error) {
	for {
		if left, err = a.next(); err != nil {
			return nil, nil, shared, err
		}
		if right, err = b.next(); err != nil {
			return nil, nil, shared, err
		}
		if left == nil || right == nil {
			return left, right, shared, nil
		}
		if left.replication != right.replication || left.text != right.text {
			break
		}
		shared++
	}
	switch c := cmp.Or(cmp.Compare(left.replication, right.replication), cmp.Compare(left.epoch, right.epoch)); {
	case c < 0:
		right = nil
	case c > 0:
		left = nil
	}
	return left, right, shared, nil
}
