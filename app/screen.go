// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/printable"
	"github.com/disco-sim/disco/model/overview"
	"golang.org/x/term"
)

// screen is standard error while a run is under way: lines scroll, and on a terminal
// the last line shows how far the run is. Any goroutine may write.
type screen struct {
	terminal bool
	width    func() int

	mu      sync.Mutex
	w       *outlet           // raw: the line that shows progress is drawn with escapes
	lines   *printable.Writer // to w
	name    string            // of the program
	about   string            // stands before the progress, e.g. the point of a sweep
	what    string            // is being done, beside handling events; see launch.Config.Doing
	since   time.Time         // since when
	noted   bool              // that it takes long
	phase   atomic.Int32      // a runPhase; changed under mu, and read by who can't wait for it
	kept    bool              // there are results of earlier runs, e.g. of a sweep's first points
	shown   bool              // the progress line stands there
	last    launch.Progress
	speed   speed
	form    string    // progressLine and so on
	emitted time.Time // when programs were told last

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
	if s.form == progressJSON {
		return len(p), s.emit(&progressEvent{Event: "message", Text: strings.TrimRight(string(p), "\n")})
	}
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
	s.emitDoing()
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
	s.emitDoing()
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
	case s.what == "" || s.terminal && s.at() == phaseWriting || s.form == progressJSON || s.form == progressOff:
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
	s.about, s.last, s.speed, s.kept = title, launch.Progress{}, speed{}, kept
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

// progress draws the progress line, or tells programs how far the run is.
func (s *screen) progress(p launch.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.measure(p)
	switch {
	case s.form == progressJSON:
		s.emitProgress(p)
	case s.what == "":
		s.draw(s.about + lineOf(p, s.speed))
	}
}

// draw puts a line in the place of the one that shows progress.
func (s *screen) draw(line string) {
	line = printable.Text(line)
	line = overview.Shorten(line, s.width()-1)
	// Progress that can't be shown is no reason to end a run.
	_, _ = io.WriteString(s.w, "\r"+line+"\x1b[K")
	s.shown = true
}
