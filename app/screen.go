// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/printable"
	"golang.org/x/term"
)

// screen is standard error while a run is under way: lines scroll, and on a terminal
// the last line shows how far the run is. Any goroutine may write.
type screen struct {
	terminal bool
	width    func() int

	mu    sync.Mutex
	w     *outlet           // raw: the line that shows progress is drawn with escapes
	lines *printable.Writer // to w
	name  string            // of the program
	about string            // stands before the progress, e.g. the point of a sweep
	what  string            // is being done, beside handling events; see launch.Config.Doing
	since time.Time         // since when
	noted bool              // that it takes long
	phase atomic.Int32      // a runPhase; changed under mu, and read by who can't wait for it
	kept  bool              // there are results of earlier runs, e.g. of a sweep's first points
	shown bool              // the progress line stands there
	last  launch.Progress
	speed float64 // events per wall second, smoothed

	joined atomic.Bool // machines may have something of the run
}

// runPhase is how far the run under way is. Each run of a command begins with the first.
type runPhase int32

const (
	phasePreparing  runPhase = iota
	phaseSimulating          // events are handled
	phaseFinishing           // nothing is left to be simulated: results are collected and added up
	phaseWriting             // the last run's results are written, perhaps on the same terminal: no line is drawn
)

func newScreen(w *outlet, name string) *screen {
	s := &screen{w: w, name: name, lines: printable.NewWriter(w)}
	if f, ok := w.w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s.terminal = true
		s.width = func() int {
			if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
				return width
			}
			return 80
		}
	}
	return s
}

// Write puts lines above the progress line, which is drawn anew with the next call
// of progress.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
	return s.lines.Write(p)
}

// slow is how long something may take without a message; a test sets it.
var slow = 3 * time.Second

// drawPeriod is the time between two looks at what is being done.
const drawPeriod = 200 * time.Millisecond

// watch shows what is being done where it takes long: on a terminal a line with the seconds that it has taken,
// elsewhere one remark after slow. stop ends that, and takes the line away.
func (s *screen) watch() (stop func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	ticker := time.NewTicker(min(drawPeriod, slow))
	go func() {
		defer close(ended)
		for {
			select {
			case <-over:
				return
			case <-ticker.C:
				s.remind()
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(over)
		<-ended
		s.clear()
	}
}

// doing says what is being done from now on, beside handling events, which it is where what is empty.
func (s *screen) doing(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.what, s.since, s.noted = what, time.Now(), false
	switch {
	case what == "":
		s.phase.Store(int32(phaseSimulating))
		s.wipe()
	case s.at() == phaseSimulating:
		s.phase.Store(int32(phaseFinishing))
	}
}

// at is how far the run under way is. It waits for nobody.
func (s *screen) at() runPhase { return runPhase(s.phase.Load()) }

// end says that results are being written from now on.
func (s *screen) end() {
	s.clear()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.what, s.since, s.noted = "writing the results", time.Now(), false
	s.phase.Store(int32(phaseWriting))
}

// now is what is being done, and whether the run under way has handled events; kept: there are results already.
func (s *screen) now() (what string, begun, kept bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at()
	return s.what, at == phaseSimulating || at == phaseFinishing, s.kept || at == phaseWriting
}

// remind shows what is being done.
func (s *screen) remind() {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := time.Since(s.since)
	switch {
	case s.what == "" || s.terminal && s.at() == phaseWriting:
	case s.terminal:
		s.draw(fmt.Sprintf("%s: %s%s  %.0f s", s.name, s.about, s.what, taken.Seconds()))
	case taken > slow && !s.noted:
		s.noted = true
		// If this fails, standard error is closed, and the message is lost.
		_, _ = fmt.Fprintf(s.lines, "%s: %s%s …\n", s.name, s.about, s.what)
	}
}

// next begins a new run of the same command: title stands in front of its progress, and kept says that results of
// earlier ones will be shown whatever becomes of this one.
func (s *screen) next(title string, kept bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.about, s.last, s.speed, s.kept = title, launch.Progress{}, 0, kept
	s.phase.Store(int32(phasePreparing))
}

// clear takes the progress line away, until something else is done.
func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.what = ""
	s.wipe()
}

func (s *screen) wipe() {
	if s.shown {
		// A terminal that was closed can't be wiped.
		_, _ = io.WriteString(s.w, "\r\x1b[K")
		s.shown = false
	}
}

// progress draws the progress line.
func (s *screen) progress(p launch.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.measure(p)
	if s.what == "" {
		s.draw(s.about + progressLine(p, s.speed))
	}
}

// draw puts a line in the place of the one that shows progress.
func (s *screen) draw(line string) {
	line = printable.Text(line)
	if width := s.width(); len(line) >= width {
		line = line[:width-1]
	}
	// Progress that can't be shown is no reason to end a run.
	_, _ = io.WriteString(s.w, "\r"+line+"\x1b[K")
	s.shown = true
}

// measure follows the speed: half of it is from the time since the last call.
func (s *screen) measure(p launch.Progress) {
	if p.Elapsed <= s.last.Elapsed || p.Events < s.last.Events {
		s.last, s.speed = p, rate(p.Events, p.Elapsed)
		return
	}
	s.speed = (s.speed + rate(p.Events-s.last.Events, p.Elapsed-s.last.Elapsed)) / 2
	s.last = p
}

func rate(events uint64, elapsed time.Duration) float64 {
	if elapsed <= 0 {
		return 0
	}
	return float64(events) / elapsed.Seconds()
}

// progressLine is e.g. " 42 %  252 of 600 s simulated  3.21 M events/s  2 s left".
func progressLine(p launch.Progress, speed float64) string {
	line := fmt.Sprintf("%3.0f %%  ", 100*p.Share)
	if p.Replications > 1 {
		line += fmt.Sprintf("%d of %d replications", p.Done, p.Replications)
	} else {
		line += fmt.Sprintf("%.6g of %.6g s simulated", min(p.Now, p.Horizon), p.Horizon)
	}
	line += fmt.Sprintf("  %s events/s", short(speed))
	if p.Share > 0.001 {
		line += "  " + duration(p.Elapsed.Seconds()*(1-p.Share)/p.Share) + " left"
	}
	return line
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
