// SPDX-License-Identifier: Apache-2.0

package trace_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/trace"
	"github.com/disco-sim/disco/node"
)

// A journal has what its selection says, with words of any length, and no cut or changed length is read beyond.
func TestJournal(t *testing.T) {
	var file bytes.Buffer
	j := trace.NewJournal(&file, trace.Selection{First: 1, End: 3, From: 2, Until: 90})
	var want []string
	for i := range 100 {
		epoch, target := float64(i), node.SimprocID(i%4)
		data := strings.Repeat("d", i*i*10)
		ev := node.Event{Epoch: epoch, Sender: 7, Number: uint64(i), Data: []byte(data)}
		j.Event(i%2, 0, target, &ev, 5)
		j.Wakeup(i%2, 0, target, epoch)
		j.Did(i%2, 0, target, epoch, []byte(fmt.Sprint("did ", i)))
		if target == 1 || target == 2 {
			if i >= 2 && i <= 90 {
				want = append(want, data[:min(len(data), trace.WordsMax)], "", fmt.Sprint("did ", i))
			}
		}
	}
	if err := j.Flush(); err != nil {
		t.Fatal(err)
	}
	var got []string
	read := func(b []byte) error {
		r, err := trace.NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return err
		}
		return trace.Merge([]*trace.Reader{r}, func(rec *trace.Record) error {
			got = append(got, rec.Words)
			if rec.Did() != strings.HasPrefix(rec.Words, "did") {
				t.Errorf("%+v", rec)
			}
			return nil
		})
	}
	if err := read(file.Bytes()); err != nil {
		t.Fatal(err)
	}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%d records, want %d", len(got), len(want))
	}
	damaged := bytes.Clone(file.Bytes())
	damaged[8+40+3] = 0xFF // the length of the first words
	if err := read(damaged); !errors.Is(err, trace.ErrCorrupt) {
		t.Errorf("a length that is too large: %v", err)
	}
	if err := read(file.Bytes()[:file.Len()-1]); !errors.Is(err, trace.ErrCorrupt) {
		t.Errorf("a file cut short: %v", err)
	}
}
