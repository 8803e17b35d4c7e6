// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/internal/trace"
	"github.com/disco-sim/disco/scenario"
)

// journalLineMax is above what a line of a journal takes: words, quoted.
const journalLineMax = 5*trace.WordsMax + 4096

// activation is what a journal has about one call of a handler.
type activation struct {
	Replication string   `json:"replication,omitempty"`
	Epoch       string   `json:"epoch"`
	Simproc     string   `json:"simproc"`
	Events      []string `json:"events"`
	Did         []string `json:"did"`
	lines       []string // as they are in the journal
}

// journal reads the activations of a journal's text, one after the other.
type journal struct {
	lines       *bufio.Scanner
	next        string
	more        bool
	replication string
	describe    func(data []byte) string
}

// newJournal reads from r. Events are described by the scenario, where it can.
func newJournal(r io.Reader, s scenario.Scenario) *journal {
	j := &journal{lines: bufio.NewScanner(r), describe: func(data []byte) string { return fmt.Sprintf("% x", data) }}
	if d, ok := s.(scenario.Describer); ok {
		j.describe = d.DescribeEvent
	}
	j.lines.Buffer(make([]byte, 1<<16), journalLineMax)
	j.advance()
	return j
}

// advance goes to the next line that is about an activation.
func (j *journal) advance() {
	for j.more = j.lines.Scan(); j.more; j.more = j.lines.Scan() {
		if j.next = j.lines.Text(); !strings.HasPrefix(j.next, "#") {
			return
		}
		j.replication = strings.TrimPrefix(j.next, "# replication ")
	}
}

// read takes the next activation; nil at the end.
func (j *journal) read() (*activation, error) {
	if !j.more {
		return nil, j.lines.Err()
	}
	fields := strings.SplitN(j.next, "\t", 3)
	if len(fields) < 3 {
		return nil, fmt.Errorf("the journal has the line %q", j.next)
	}
	a := &activation{Replication: j.replication, Epoch: fields[0], Simproc: fields[1]}
	prefix := fields[0] + "\t" + fields[1] + "\t"
	for j.more && strings.HasPrefix(j.next, prefix) && j.replication == a.Replication {
		a.lines = append(a.lines, strings.TrimPrefix(j.next, prefix))
		j.advance()
	}
	return a, nil
}

// explain fills in what the lines of an activation mean.
func (j *journal) explain(a *activation) {
	if a == nil {
		return
	}
	for _, line := range a.lines {
		f := strings.Split(line, "\t")
		switch {
		case f[0] == "did" && len(f) == 2:
			text, err := strconv.Unquote(f[1])
			if err != nil {
				text = f[1]
			}
			a.Did = append(a.Did, strings.Split(strings.TrimSuffix(text, "\n"), "\n")...)
		case f[0] == "wakeup":
			a.Events = append(a.Events, "a wakeup")
		case len(f) >= 4:
			a.Events = append(a.Events, j.event(f))
		}
	}
}

// event is one event in words: fields are sender, number, bytes, hash and perhaps data.
func (j *journal) event(f []string) string {
	text := fmt.Sprintf("event %s of %s: ", f[1], f[0])
	if len(f) < 5 {
		return text + "no data"
	}
	data, err := hex.DecodeString(f[4])
	if err != nil {
		return text + f[4]
	}
	return text + printableShort(j.describe(data))
}

// eventTextMax is how much of an event is shown.
const eventTextMax = 300

func printableShort(text string) string {
	if len(text) > eventTextMax {
		return text[:eventTextMax] + "…"
	}
	return text
}

// firstDifference is the first activation that two journals don't share, as it is in each of them; nil where one has
// none then. Both are nil where the journals agree.
func firstDifference(s scenario.Scenario, pathA, pathB string) (a, b *activation, err error) {
	fileA, err := os.Open(pathA)
	if err != nil {
		return nil, nil, err
	}
	defer fileA.Close()
	fileB, err := os.Open(pathB)
	if err != nil {
		return nil, nil, err
	}
	defer fileB.Close()
	left, right := newJournal(fileA, s), newJournal(fileB, s)
	for {
		if a, err = left.read(); err != nil {
			return nil, nil, err
		}
		if b, err = right.read(); err != nil {
			return nil, nil, err
		}
		if a == nil && b == nil {
			return nil, nil, nil
		}
		if a == nil || b == nil || a.Epoch != b.Epoch || a.Simproc != b.Simproc || !slices.Equal(a.lines, b.lines) {
			left.explain(a)
			right.explain(b)
			return a, b, nil
		}
	}
}
