// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"testing"
)

var replays = flag.Int("replays", 0, "how many schedules TestSchedulesReplay makes; 0: 40, or 10 with -short")

// record is what has happened in a schedule, a line for each event and each decision. Events have their times, and so
// whatever chance has given: two schedules with the same record have done the same.
type record struct{ bytes.Buffer }

// event notes that something happens.
func (r *record) event(now float64) {
	if r != nil {
		fmt.Fprintln(r, now)
	}
}

// decision notes what a leader has decided, with all that it writes.
func (r *record) decision(l *leader, actions []Action) {
	if r == nil || len(actions) == 0 {
		return
	}
	for _, a := range actions {
		text, err := json.Marshal(struct { // a state that isn't asked for has no text
			Action
			From, State int
		}{a, int(a.From), int(a.State)})
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(r, "%s with the token %d: %s\n", l.host.name, l.token, text)
	}
}

// firstDifference is the first line in which two records differ, by its number, with what each of them has there.
func firstDifference(a, b *record) (line int, inA, inB []byte) {
	x, y := bytes.Split(a.Bytes(), []byte("\n")), bytes.Split(b.Bytes(), []byte("\n"))
	for line < min(len(x), len(y))-1 && bytes.Equal(x[line], y[line]) {
		line++
	}
	return line + 1, x[line], y[line]
}

// TestSchedulesReplay runs each schedule three times, and wants the same decisions and events each time: its number
// replays it, and Decide depends on the state and the time alone. What Go leaves to chance, such as the order of a map,
// differs from time to time.
func TestSchedulesReplay(t *testing.T) {
	count := *replays
	if count == 0 {
		count = 40
		if testing.Short() {
			count = 10
		}
	}
	sum := tally{moves: map[[2]PieceState]int{}}
	all := sha256.New()
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
			if !bytes.Equal(first.Bytes(), again.Bytes()) {
				line, was, is := firstDifference(&first, &again)
				t.Errorf("schedule %d is another one when it is run again, from line %d of its record on:\n%.3000s\n"+
					"%.3000s", seed, line, was, is)
				break
			}
		}
		all.Write(first.Bytes())
	}
	t.Logf("%d schedules, three times each: %d events; SHA-256 of the records: %x", count, sum.events, all.Sum(nil))
}
