// SPDX-License-Identifier: Apache-2.0

package door

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/disco-sim/disco/metastore"
)

// record is what has happened in a schedule: the times at which processes go on, by which messages' random delays are
// known, and what doors have committed at home. Of that it has no names: an experiment's id ends with a random number.
type record struct{ bytes.Buffer }

// event notes that a process goes on.
func (r *record) event(now float64) {
	if r != nil {
		fmt.Fprintln(r, now)
	}
}

// commit notes what a door has committed.
func (r *record) commit(h *doorHost, ops []metastore.Op) {
	if r == nil {
		return
	}
	fmt.Fprint(r, h.name)
	for _, op := range ops {
		fmt.Fprint(r, " ", op.Do)
	}
	fmt.Fprintln(r)
}

// TestSchedulesReplay runs schedules three times each, and wants the same one each time: its number replays it.
func TestSchedulesReplay(t *testing.T) {
	count := *replays
	if count == 0 {
		count = 10
		if testing.Short() {
			count = 3
		}
	}
	var sum tally
	for seed := *firstSeed; seed < *firstSeed+count; seed++ {
		var first record
		if err := runSchedule(t, seed, "", &sum, &first); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			var again record
			if err := runSchedule(t, seed, "", &sum, &again); err != nil {
				t.Fatal(err)
			}
			if bytes.Equal(first.Bytes(), again.Bytes()) {
				continue
			}
			was, is := bytes.Split(first.Bytes(), []byte("\n")), bytes.Split(again.Bytes(), []byte("\n"))
			line := 0
			for line < min(len(was), len(is))-1 && bytes.Equal(was[line], is[line]) {
				line++
			}
			t.Errorf("schedule %d is another one when it is run again, from line %d of its record on: %s and %s", seed,
				line+1, was[line], is[line])
			break
		}
	}
	t.Logf("%d schedules, three times each: %d events", count, sum.events)
}
