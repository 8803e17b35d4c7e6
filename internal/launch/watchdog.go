// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/disco-sim/disco/internal/procfs"
	"github.com/disco-sim/disco/internal/worker"
)

// ErrStalled is the error of a run that made no progress, where Config.EndStalled ends
// such runs.
var ErrStalled = errors.New("launch: no progress")

// StallDefault is how long a run may make no progress in simulated time before it says so.
const StallDefault = time.Minute

// watchdog watches workers that are waited for. A run stalls when no worker's simulated time
// rises for a while though its replication isn't over, or when workers take that long to get
// ready: then it reports what each of them waits for. Workers whose processes are stopped are
// reported at once. Owned by the supervisor's goroutine.
//
// Progress is read from the boards. They are written once in 64 batches, which may take
// long where handlers do, so from half the time on the workers are asked as well. Their
// answers are up to date, and so there is no false alarm.
type watchdog struct {
	conns        *connections
	boards       boardReader
	limit        time.Duration // 0: off
	endStalled   bool          // a stall ends the run
	note         func(string)
	now          func() time.Time
	processState func(pid int) string // procfs.Stopped and others
	away         func() bool          // see supervisor

	stage      stage
	waitingFor func(index int) bool // this worker has not answered yet
	epochs     []float64            // latest known, by worker
	status     []*worker.Status     // latest, since the last progress
	stopped    []bool               // that its process is, and was reported
	progressed time.Time            // when there was progress last
	checked    time.Time
	asked      time.Time     // when the workers were asked last
	asks       int           // how often since the last progress or report: at half the time, and when it is over
	reportAt   time.Duration // without progress after which it reports
	reported   bool          // since the last progress
}

func newWatchdog(cs *connections, boards boardReader, l *Launch) watchdog {
	return watchdog{
		conns: cs, boards: boards, limit: l.cfg.Stall, endStalled: l.cfg.EndStalled, note: l.note,
		now: time.Now, processState: procfs.State, away: l.away,
	}
}

// period is the time between two checks. It bounds how late a report can be.
func (w *watchdog) period() time.Duration {
	if w.limit == 0 {
		return time.Second
	}
	return min(max(w.limit/10, 10*time.Millisecond), time.Second)
}

// pauseMin is longer than a busy machine keeps a launcher from running.
const pauseMin = 5 * time.Second

// statusTimeout is how long workers have to answer before a report is written without
// them; one that can answers within 200 ms.
const statusTimeout = time.Second

// begin starts to watch a request to all workers.
func (w *watchdog) begin(at stage, waitingFor func(index int) bool) {
	n := len(w.conns.workers)
	w.stage, w.waitingFor = at, waitingFor
	w.epochs, w.status, w.stopped = make([]float64, n), make([]*worker.Status, n), make([]bool, n)
	w.checked = w.now()
	w.resetAt(w.checked)
}

// resetAt notes progress at a time.
func (w *watchdog) resetAt(now time.Time) {
	clear(w.status)
	w.progressed, w.asks, w.reportAt, w.reported = now, 0, w.limit, false
}

// handleStatus records what a worker answered.
func (w *watchdog) handleStatus(index int, s *worker.Status) {
	w.status[index] = s
	w.handleEpoch(index, s.Epoch)
}

// handleEpoch records how far a worker is. Less than 2^-40 of the time itself is no
// progress: a model that sends to itself in ever smaller steps makes none.
func (w *watchdog) handleEpoch(index int, epoch float64) {
	last := w.epochs[index]
	if !(epoch > last+last*0x1p-40) || math.IsInf(epoch, 1) {
		return
	}
	w.epochs[index] = epoch
	if w.reported {
		w.note(fmt.Sprintf("progress again: %s is at %.6g simulated seconds", w.conns.workers[index].name(), epoch))
	}
	w.resetAt(w.now())
}

// check looks at all workers. Its error ends the run.
func (w *watchdog) check() error {
	now := w.now()
	if gap := now.Sub(w.checked); gap > w.period()+pauseMin || w.away() {
		w.progressed = w.progressed.Add(gap) // this process itself was stopped, or a machine can't get on
	}
	w.checked = now
	w.checkStopped()
	if w.stage.phase == PhaseRun {
		for i := range w.conns.workers {
			if epoch, ok := w.boards.reached(i); ok {
				w.handleEpoch(i, epoch)
			}
		}
	}
	idle := now.Sub(w.progressed)
	switch {
	case w.limit == 0 || idle < w.reportAt/2:
		return nil
	case w.asks == 0 || w.asks == 1 && idle >= w.reportAt:
		w.requestStatus(now)
		return nil
	case w.asks == 1 || w.unanswered() && now.Sub(w.asked) < statusTimeout:
		return nil
	}
	w.reported, w.asks, w.reportAt = true, 0, 2*idle
	report := w.report(idle)
	if w.endStalled {
		return fmt.Errorf("%w%s", ErrStalled, strings.TrimPrefix(report, "no progress"))
	}
	w.note(report)
	return nil
}

// requestStatus asks all workers for their status. One that has no room for the message
// doesn't read its messages, and is reported so.
func (w *watchdog) requestStatus(now time.Time) {
	w.asks++
	w.asked = now
	clear(w.status)
	if w.stage.phase == PhaseStart {
		return // no worker could answer yet
	}
	for _, c := range w.conns.workers {
		_ = c.send(&worker.Message{Type: worker.TypeAsk})
	}
}

func (w *watchdog) unanswered() bool {
	return w.stage.phase != PhaseStart && slices.Contains(w.status, nil)
}

// checkStopped reports workers whose processes were stopped or go on.
func (w *watchdog) checkStopped() {
	for i, c := range w.conns.workers {
		if c.pid == 0 || !w.waitingFor(i) {
			continue
		}
		stopped := w.processState(c.pid) == procfs.Stopped
		if stopped == w.stopped[i] {
			continue
		}
		w.stopped[i] = stopped
		what := "goes on"
		if stopped {
			what = "is stopped, by a signal or a debugger: the run waits for it"
		}
		w.note(fmt.Sprintf("worker %d (process %d) %s", c.number, c.pid, what))
	}
}

// report says what every worker does and waits for.
func (w *watchdog) report(idle time.Duration) string {
	var b strings.Builder
	what := "in simulated time"
	if w.stage.phase != PhaseRun {
		what = "while workers get ready"
	}
	fmt.Fprintf(&b, "no progress %s for %v (--stall)", what, idle.Round(10*time.Millisecond))
	if names := w.notWaiting(); len(names) > 0 {
		fmt.Fprintf(&b, ": all wait for %s", strings.Join(names, " and "))
	}
	for i, c := range w.conns.workers {
		name := c.name()
		if c.pid != 0 {
			name += fmt.Sprintf(" (process %d)", c.pid)
		}
		fmt.Fprintf(&b, "\n  %s %s", name, w.describe(i))
		if s := w.status[i]; s != nil {
			for _, line := range strings.Split(strings.TrimSpace(s.Text), "\n") {
				if line != "" {
					fmt.Fprintf(&b, "\n      %s", strings.TrimPrefix(line, "\t"))
				}
			}
		}
	}
	return b.String()
}

// notWaiting names the workers that have not answered and wait for no peer.
func (w *watchdog) notWaiting() (names []string) {
	for i, c := range w.conns.workers {
		s := w.status[i]
		waits := s != nil && (s.State == worker.StateBound || s.State == worker.StateRoom ||
			s.State == worker.StateAhead)
		if waits && !w.stopped[i] || !w.waitingFor(i) {
			continue
		}
		names = append(names, c.name())
	}
	return names
}

// describe says what one worker does.
func (w *watchdog) describe(i int) string {
	s := w.status[i]
	switch {
	case !w.waitingFor(i):
		return "is ready"
	case w.stopped[i]:
		return "is stopped, by a signal or a debugger"
	case w.stage.phase != PhaseRun:
		return fmt.Sprintf("is busy (%s)", w.stage.phase)
	case s == nil:
		return "doesn't answer"
	case s.State == worker.StateRoom && s.Peer < 0:
		return fmt.Sprintf("waits for room in the rings to its peers; everything before %.6g is handled", s.Epoch)
	case s.State == worker.StateRoom:
		return fmt.Sprintf("waits for room in the ring to %s, in %s at epoch %.6g",
			w.conns.workers[s.Peer].name(), handlerName(s.Handler), s.Epoch)
	case s.State == worker.StateBound && s.Peer >= 0:
		return fmt.Sprintf("waits for %s; everything before %.6g is handled", w.conns.workers[s.Peer].name(), s.Epoch)
	case s.State == worker.StateBound:
		return fmt.Sprintf("has nothing to do before its peers; everything before %.6g is handled", s.Epoch)
	case s.State == worker.StateAhead:
		return fmt.Sprintf("is ahead of the others and waits for them; everything before %.6g is handled", s.Epoch)
	case s.State == worker.StateOutside:
		return fmt.Sprintf("waits for an answer from outside, in %s at epoch %.6g", handlerName(s.Handler), s.Epoch)
	case s.Handler != "":
		return fmt.Sprintf("is in %s at epoch %.6g, %d calls so far", handlerName(s.Handler), s.Epoch, s.Activations)
	}
	state := worker.StateName(uint64(s.State))
	return fmt.Sprintf("is %s at epoch %.6g, %d handlers called so far", state, s.Epoch, s.Activations)
}

func handlerName(simproc string) string {
	if simproc == "" {
		return "no handler"
	}
	return "the handler of " + simproc
}
