// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/launch"
)

func TestLineOf(t *testing.T) {
	for _, c := range []struct {
		p    launch.Progress
		want string
	}{
		{launch.Progress{Share: 0.42, Now: 252, Horizon: 600, Replications: 1, Elapsed: 3 * time.Second,
			Waits: launch.Waits{Workers: 2, Peers: 1, On: 0}},
			" 42 %  4 s left  252 of 600 s  3.21 M events/s  84.1 s/s  waiting: 1 of 2 for worker 0"},
		{launch.Progress{Share: 0.0005, Now: 700, Horizon: 600, Replications: 1,
			Waits: launch.Waits{Workers: 8, Peers: 3, Lanes: 2, Outside: 1, On: -1}},
			"  0 %  600 of 600 s  3.21 M events/s  84.1 s/s  waiting: 1 of 8 workers for an answer from " +
				"outside, 2 of 8 for room in a lane, 3 of 8 for others"},
		{launch.Progress{Share: 0.5, Done: 3, Replications: 7, Elapsed: time.Hour, Checkpoints: 4,
			Waits: launch.Waits{On: -1}},
			" 50 %  60 min left  3 of 7 replications  3.21 M events/s  84.1 s/s  4 checkpoints"},
	} {
		if got := lineOf(c.p, speed{3_210_000, 84.1}); got != c.want {
			t.Errorf("found\n%s\nwant\n%s", got, c.want)
		}
	}
}

// TestMeasure: the speed follows what has happened since the last look, by half, and begins anew with another run.
func TestMeasure(t *testing.T) {
	s := newScreen(newOutlet(io.Discard), "disco-run")
	for i, c := range []struct {
		p    launch.Progress
		want speed
	}{
		{launch.Progress{Events: 100, Simulated: 10, Elapsed: time.Second}, speed{100, 10}},
		{launch.Progress{Events: 400, Simulated: 30, Elapsed: 2 * time.Second}, speed{200, 15}},
		{launch.Progress{Events: 400, Simulated: 30, Elapsed: 3 * time.Second}, speed{100, 7.5}},
		{launch.Progress{Events: 50, Simulated: 5, Elapsed: time.Second}, speed{50, 5}},
		{launch.Progress{}, speed{}},
	} {
		if s.measure(c.p); s.speed != c.want {
			t.Errorf("look %d: found %v, want %v", i, s.speed, c.want)
		}
	}
}

// progressLines are the events that a screen has told.
func progressLines(t *testing.T, text string) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(text) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, e)
	}
	return all
}

// TestProgressJSON: everything that is shown while a run goes on is one object a line, also what workers print.
func TestProgressJSON(t *testing.T) {
	var b bytes.Buffer
	s := newScreen(newOutlet(&b), "disco-run")
	var cfg launch.Config
	s.show(progressJSON, &cfg)
	s.next("point 2 of 3  ", false)
	s.doing("starting 2 workers")
	if _, err := s.Write([]byte("worker 1: \x1b[31mhello\nand more\n")); err != nil {
		t.Error(err)
	}
	s.doing("")
	cfg.Progress(launch.Progress{Share: 0.5, Now: 5, Horizon: 10, Replications: 1, Events: 7, Elapsed: time.Second,
		Simulated: 5, Waits: launch.Waits{Workers: 2, Peers: 1, On: 1}, Checkpoints: 3})
	cfg.Progress(launch.Progress{Share: 0.6}) // too soon
	s.recovered(&launch.Recovery{Reason: "worker 1 died", Replication: 0, From: 4, Workers: 2}, errors.New("it died"))
	s.end()
	all := progressLines(t, b.String())
	want := []struct{ event, field, value string }{
		{"doing", "text", `"starting 2 workers"`}, {"message", "text", `"worker 1: \u001b[31mhello\nand more"`},
		{"progress", "waits_for_worker", "1"},
		{"recovery", "text", `"disco-run: it died\nreplication 0 goes on from 4 s with 2 workers"`},
		{"doing", "text", `"writing the results"`},
	}
	if len(all) != len(want) {
		t.Fatalf("%d events, want %d:\n%s", len(all), len(want), b.String())
	}
	for i, w := range want {
		value, _ := json.Marshal(all[i][w.field])
		if all[i]["event"] != w.event || string(value) != w.value || all[i]["point"] != "point 2 of 3" {
			t.Errorf("event %d: found %v, want %s with %s %s", i, all[i], w.event, w.field, w.value)
		}
	}
	for field, x := range map[string]float64{"share": 0.5, "simulated_s": 5, "horizon_s": 10, "replications": 1,
		"replications_done": 0, "events": 7, "events_per_s": 7, "simulated_per_s": 5, "elapsed_s": 1, "left_s": 1,
		"workers": 2, "waiting_for_peers": 1, "waiting_for_room": 0, "waiting_for_outside": 0, "checkpoints": 3} {
		if all[2][field] != x {
			t.Errorf("%s: found %v, want %v", field, all[2][field], x)
		}
	}
}

// TestProgressOff: nothing is said, however long something takes.
func TestProgressOff(t *testing.T) {
	for form, want := range map[string]string{progressOff: "", progressLine: "disco-run: placing nodes …\n"} {
		var b bytes.Buffer
		s := newScreen(newOutlet(&b), "disco-run")
		s.show(form, &launch.Config{})
		s.doing("placing nodes")
		s.since = time.Now().Add(-time.Hour)
		s.remind()
		if b.String() != want {
			t.Errorf("%s: found %q, want %q", form, b.String(), want)
		}
	}
}
