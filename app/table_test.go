// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// columns are the names and values that results make in a table.
func columns(t *testing.T, results string) (columns, left []string) {
	t.Helper()
	row := &sweepRow{document: &document{Results: json.RawMessage(results)}}
	cells, left, err := cellsOf(row)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cells[4:] {
		columns = append(columns, c.name+"="+c.text)
	}
	return columns, left
}

// TestListsBecomeColumns: an item is a column by what it is called, and none goes missing
// in silence.
func TestListsBecomeColumns(t *testing.T) {
	for results, want := range map[string]string{
		`{"a": 1, "b": {"c": "x", "d": true, "e": null}}`: "a=1 b.c=x b.d=true",
		`{"l": [{"id": "web-2", "n": 1}, {"id": "web-1", "n": 2}]}`: "l.web-2.id=web-2 l.web-2.n=1 " +
			"l.web-1.id=web-1 l.web-1.n=2",
		`{"l": [{"name": "/a.b", "n": 1}]}`: `l."/a.b".name=/a.b l."/a.b".n=1`,
		`{"l": [{"event_id": "e", "n": 1}, {"event_id": "f", "n": 2}]}`: "l.e.event_id=e l.e.n=1 " +
			"l.f.event_id=f l.f.n=2",
		`{"l": [{"endpoint_name": "/x", "n": 1}]}`: "l./x.endpoint_name=/x l./x.n=1",
		`{"l": [{"from": "P", "to": "Q", "n": 1}, {"from": "Q", "to": "P"}]}`: "l.P-Q.from=P l.P-Q.to=Q l.P-Q.n=1 " +
			"l.Q-P.from=Q l.Q-P.to=P",
		`{"l": [{"id": "x", "n": 1}, {"id": "x", "n": 2}]}`: "l.0.id=x l.0.n=1 l.1.id=x l.1.n=2",
		`{"l": [3, [4, 5]], "m": []}`:                       "l.0=3 l.1.0=4 l.1.1=5",
	} {
		got, left := columns(t, results)
		if strings.Join(got, " ") != want || left != nil {
			t.Errorf("%s: %s, left %q; want %s", results, strings.Join(got, " "), left, want)
		}
	}
	numbers, err := json.Marshal(make([]int, itemsMax+1))
	if err != nil {
		t.Fatal(err)
	}
	got, left := columns(t, fmt.Sprintf(`{"a": 1, "series": %s, "b": 2}`, numbers))
	if strings.Join(got, " ") != "a=1 b=2" || len(left) != 1 || !strings.HasPrefix(left[0],
		"series (a list of 101 items") {
		t.Errorf("a long series: %s, left %q", got, left)
	}
}

func TestChosenColumns(t *testing.T) {
	table := &table{keys: 1, columns: []string{"cores", "events", "servers.web-1.cpu", "servers.web-2.cpu",
		"servers.web-2.ram", `l."a,b"`}}
	for columns, want := range map[string]string{
		"events":                     "[0 1]",
		"servers.*.cpu,events":       "[0 2 3 1]",
		"servers.web-2.*, servers.*": "[0 3 4 2]",
		"*":                          "[0 1 2 3 4 5]",
		`l."a,b"`:                    "[0 5]",
		"*web*2*u":                   "[0 3]",
	} {
		if got, err := table.chosen(columns); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s: %v, %v; want %s", columns, got, err, want)
		}
	}
	for _, columns := range []string{"event", "cores", "servers", "*x", "events,,nope"} {
		_, err := table.chosen(columns)
		if err == nil || !strings.Contains(err.Error(),
			"want names with commas between, * for any text, of events, servers.web-1.cpu") ||
			statusOf(err) != ExitUsage {
			t.Errorf("%s: %v", columns, err)
		}
	}
	if got, err := table.chosen(""); got != nil || err != nil || slices.Contains(got, 0) {
		t.Errorf("none asked for: %v, %v", got, err)
	}
}
