// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/urfave/cli/v2"
)

// The values of --progress.
const (
	progressLine = "line" // where standard error is a terminal
	progressJSON = "json"
	progressOff  = "off"
)

func progressFlag() cli.Flag {
	return textFlag(groupOutput, "progress", progressLine, "`HOW` standard error shows how far the run is: "+
		progressLine+", on a terminal; "+progressJSON+", one object a line, for programs; "+progressOff)
}

// show sets how progress is shown, and has the run report it where it is.
func (s *screen) show(form string, cfg *launch.Config) {
	s.form = cmp.Or(form, progressLine)
	s.terminal = s.terminal && s.form == progressLine
	if s.terminal || s.form == progressJSON {
		cfg.Progress = s.progress
	}
}

// speed is how fast a run is, smoothed.
type speed struct {
	events    float64 // per wall second
	simulated float64 // seconds per wall second
}

// measure follows the speed: half of it is from the time since the last call.
func (s *screen) measure(p launch.Progress) {
	now := speed{rate(float64(p.Events), p.Elapsed), rate(p.Simulated, p.Elapsed)}
	same := p.Events >= s.last.Events && p.Simulated >= s.last.Simulated
	if s.last.Elapsed > 0 && p.Elapsed > s.last.Elapsed && same {
		elapsed := p.Elapsed - s.last.Elapsed
		now.events = (s.speed.events + rate(float64(p.Events-s.last.Events), elapsed)) / 2
		now.simulated = (s.speed.simulated + rate(p.Simulated-s.last.Simulated, elapsed)) / 2
	}
	s.last, s.speed = p, now
}

func rate(x float64, elapsed time.Duration) float64 {
	if elapsed <= 0 {
		return 0
	}
	return x / elapsed.Seconds()
}

// left is how many wall seconds the rest of the run is expected to take; false: it isn't known yet.
func left(p launch.Progress) (seconds float64, known bool) {
	if p.Share <= 0.001 {
		return 0, false
	}
	return p.Elapsed.Seconds() * (1 - p.Share) / p.Share, true
}

// lineOf is e.g. " 42 %  2 s left  252 of 600 s  3.21 M events/s  84 s/s  waiting: 1 of 2 for worker 0". A narrow
// terminal has its beginning.
func lineOf(p launch.Progress, v speed) string {
	line := fmt.Sprintf("%3.0f %%  ", 100*p.Share)
	if seconds, known := left(p); known {
		line += duration(seconds) + " left  "
	}
	if p.Replications > 1 {
		line += fmt.Sprintf("%d of %d replications", p.Done, p.Replications)
	} else {
		line += fmt.Sprintf("%.4g of %.6g s", min(p.Now, p.Horizon), p.Horizon)
	}
	line += fmt.Sprintf("  %s events/s  %.3g s/s", short(v.events), v.simulated)
	if p.Checkpoints > 0 {
		line += "  " + count(p.Checkpoints, "checkpoint")
	}
	if waits := waiting(p.Waits); waits != "" {
		line += "  " + waits
	}
	return line
}

// waiting says what holds workers up; "" where that is nothing.
func waiting(w launch.Waits) string {
	var all []string
	if w.Outside > 0 {
		all = append(all, fmt.Sprintf("%d of %s for an answer from outside", w.Outside, count(w.Workers, "worker")))
	}
	if w.Lanes > 0 {
		all = append(all, fmt.Sprintf("%d of %d for room in a lane", w.Lanes, w.Workers))
	}
	if w.Peers > 0 && w.On >= 0 {
		all = append(all, fmt.Sprintf("%d of %d for worker %d", w.Peers, w.Workers, w.On))
	} else if w.Peers > 0 {
		all = append(all, fmt.Sprintf("%d of %d for others", w.Peers, w.Workers))
	}
	if len(all) == 0 {
		return ""
	}
	return "waiting: " + strings.Join(all, ", ")
}

// progressEvent is one line of --progress json: docs/running.md, "Progress". What an event doesn't have is left out.
type progressEvent struct {
	Event string `json:"event"` // progress, doing, recovery, message, failed
	Point string `json:"point,omitempty"`
	Text  string `json:"text,omitempty"`

	*progressFigures
	Recovery *launch.Recovery `json:"recovery,omitempty"`

	// Of the event failed.
	Status  int    `json:"status,omitempty"`
	Cause   string `json:"cause,omitempty"`
	Machine string `json:"machine,omitempty"` // that is at fault, of several
	Place   bool   `json:"place,omitempty"`   // the place for checkpoints is what the cause is about
	Memory  bool   `json:"memory,omitempty"`  // the run wanted more of it than there is
}

// progressFigures are those of the event progress.
type progressFigures struct {
	Share           float64  `json:"share"`
	Simulated       float64  `json:"simulated_s"` // of the first replication under way
	Horizon         float64  `json:"horizon_s"`
	Replications    int      `json:"replications"`
	Done            int      `json:"replications_done"`
	Events          uint64   `json:"events"`
	EventsPerSecond float64  `json:"events_per_s"`
	SimulatedPerS   float64  `json:"simulated_per_s"`
	Elapsed         float64  `json:"elapsed_s"`
	Left            *float64 `json:"left_s"` // null: it isn't known yet
	Workers         int      `json:"workers"`
	WaitingPeers    int      `json:"waiting_for_peers"`
	WaitingRoom     int      `json:"waiting_for_room"`
	WaitingOutside  int      `json:"waiting_for_outside"`
	WaitsFor        *int     `json:"waits_for_worker"` // null: none, or it isn't known
	Checkpoints     int      `json:"checkpoints"`
}

// emitPeriod is the time between two events progress.
const emitPeriod = time.Second

// emitProgress tells programs how far the run is, once a second.
func (s *screen) emitProgress(p launch.Progress) {
	if time.Since(s.emitted) < emitPeriod {
		return
	}
	s.emitted = time.Now()
	f := &progressFigures{Share: p.Share, Simulated: min(p.Now, p.Horizon), Horizon: p.Horizon,
		Replications: p.Replications, Done: p.Done, Events: p.Events, EventsPerSecond: s.speed.events,
		SimulatedPerS: s.speed.simulated, Elapsed: p.Elapsed.Seconds(), Workers: p.Waits.Workers,
		WaitingPeers: p.Waits.Peers, WaitingRoom: p.Waits.Lanes, WaitingOutside: p.Waits.Outside,
		Checkpoints: p.Checkpoints}
	if seconds, known := left(p); known {
		f.Left = &seconds
	}
	if p.Waits.On >= 0 {
		f.WaitsFor = &p.Waits.On
	}
	_ = s.emit(&progressEvent{Event: "progress", progressFigures: f})
}

// emitDoing tells programs what is being done, beside handling events. mu is held.
func (s *screen) emitDoing() {
	if s.form == progressJSON && s.what != "" {
		_ = s.emit(&progressEvent{Event: "doing", Text: s.what})
	}
}

// recovered says that the run has gone back behind a failure.
func (s *screen) recovered(back *launch.Recovery, failed error) {
	text := fmt.Sprintf("%s: %v\n%s\n", s.name, failed, goesOn(back))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.form == progressJSON {
		_ = s.emit(&progressEvent{Event: "recovery", Text: strings.TrimSpace(text), Recovery: back})
		return
	}
	s.wipe()
	_, _ = s.lines.Write([]byte(text))
}

// emit writes an event. Progress that can't be shown is no reason to end a run: who ignores the error means that.
func (s *screen) emit(e *progressEvent) error {
	e.Point = strings.TrimSpace(s.about)
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	_, err = s.lines.Write(append(text, '\n'))
	return err
}

// short is a number with three digits: 999, 12.3 k, 4.56 M.
func short(x float64) string {
	for _, unit := range []string{"", " k", " M", " G"} {
		if x < 999.5 || unit == " G" {
			switch {
			case unit == "" || x >= 99.95:
				return fmt.Sprintf("%.0f%s", x, unit)
			case x >= 9.995:
				return fmt.Sprintf("%.1f%s", x, unit)
			}
			return fmt.Sprintf("%.2f%s", x, unit)
		}
		x /= 1000
	}
	return ""
}

// duration is a wall time as text: 4 s, 3 min, 2.5 h.
func duration(seconds float64) string {
	switch {
	case seconds < 100:
		return fmt.Sprintf("%.0f s", seconds)
	case seconds < 6000:
		return fmt.Sprintf("%.0f min", seconds/60)
	}
	return fmt.Sprintf("%.1f h", seconds/3600)
}
