// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// The table of moves, enumerated: every pair that isn't here is refused.
func TestMoves(t *testing.T) {
	want := map[PieceState]string{
		Waiting: "DISPATCHED FAILED CANCELED", Dispatched: "RUNNING FINISHED FAILED HELD CANCELING",
		Running: "PAUSED FINISHED FAILED HELD CANCELING", Paused: "RUNNING FINISHED FAILED HELD CANCELING",
		Held: "WAITING FINISHED FAILED CANCELING", Canceling: "FINISHED CANCELED",
		Finished: "WAITING", Failed: "WAITING", Canceled: "WAITING", // by a retry
	}
	for from := Waiting; from <= Canceled; from++ {
		allowed := map[string]bool{}
		for _, name := range strings.Fields(want[from]) {
			allowed[name] = true
		}
		for to := Waiting; to <= Canceled; to++ {
			if from.May(to) != allowed[to.String()] {
				t.Errorf("%v to %v: %v", from, to, from.May(to))
			}
		}
		if from.Ended() && from.Holds() {
			t.Errorf("%v has ended, and holds servers", from)
		}
	}
}

// Names of states, statuses, pieces and attempts are read as they are written, and nothing else is.
func TestNames(t *testing.T) {
	for s := Waiting; s <= Canceled; s++ {
		var back PieceState
		text, _ := s.MarshalText()
		if err := back.UnmarshalText(text); err != nil || back != s {
			t.Errorf("%v: %v, %v", s, back, err)
		}
	}
	for s := StatusCreated; s <= StatusFailed; s++ {
		var back Status
		text, _ := s.MarshalText()
		if err := back.UnmarshalText(text); err != nil || back != s {
			t.Errorf("%v: %v, %v", s, back, err)
		}
	}
	type all struct {
		P PieceID
		A AttemptID
		C map[PieceState]int
	}
	v := all{PieceID{1, 20, 300}, AttemptID{PieceID{0, 0, 17}, 2}, map[PieceState]int{Held: 3}}
	text, err := json.Marshal(v)
	if want := `{"P":"1.20.300","A":"0.0.17.2","C":{"HELD":3}}`; err != nil || string(text) != want {
		t.Errorf("found %s, %v, want %s", text, err, want)
	}
	var back all
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, v) {
		t.Errorf("found %+v, %v, want %+v", back, err, v)
	}
	for _, wrong := range []string{"", "1", "1.2", "1.2.3.4", "01.2.3", "-1.2.3", "1.2.x", "1.2.4294967296", "1.2.3 "} {
		if _, err := ParsePieceID(wrong); err == nil {
			t.Errorf("the piece %q passes", wrong)
		}
	}
	for _, wrong := range []string{"", "1.2.3", "1.2.3.0", "1.2.3.4.5", "1.2.3.+4"} {
		if _, err := ParseAttemptID(wrong); err == nil {
			t.Errorf("the attempt %q passes", wrong)
		}
	}
	member, id, p, err := parseReportKey(reportKey("h1", "x", v.P))
	if err != nil || member != "h1" || id != "x" || p != v.P {
		t.Errorf("found %q, %q, %v, %v", member, id, p, err)
	}
	for _, wrong := range []string{"fleet/reports/h1/x", "fleet/reports/h1/x/1.2.3/4", "fleet/reports/h1/x/1.2"} {
		if _, _, _, err := parseReportKey(wrong); err == nil {
			t.Errorf("the key %q passes", wrong)
		}
	}
}

// The status of several parts is decided in the order that docs/fleet.md names.
func TestAll(t *testing.T) {
	for _, c := range []struct {
		parts []Status
		want  Status
	}{
		{nil, StatusCreated},
		{[]Status{StatusCreated, StatusSubmitted}, StatusSubmitted},
		{[]Status{StatusFinished, StatusFinished}, StatusFinished},
		{[]Status{StatusFinished, StatusSubmitted}, StatusActive},
		{[]Status{StatusFinished, StatusPaused}, StatusPaused},
		{[]Status{StatusPaused, StatusActive}, StatusActive},
		{[]Status{StatusAssigned, StatusLoaded, StatusInitialized}, StatusInitialized},
		{[]Status{StatusFinished, StatusCanceled, StatusActive}, StatusCanceled},
		{[]Status{StatusFinished, StatusCanceled, StatusFailed, StatusActive}, StatusFailed},
	} {
		parts := map[Status]int{}
		for _, p := range c.parts {
			parts[p]++
		}
		if got := All(parts); got != c.want {
			t.Errorf("%v: found %v, want %v", c.parts, got, c.want)
		}
	}
}
