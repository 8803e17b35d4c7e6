// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/disco-sim/disco/internal/worker"
)

// ErrStalled is the error of a run that made no progress, where Config.EndStalled ends
// such runs.
var ErrStalled = errors.New("launch: no progress")

// StallDefault is how long a run may make no progress in simulated time before it says so.
const StallDefault = time.Minute

// stallWatch looks after workers that are waited for. A run stalls when no worker's
// simulated time rises for a while though its replication isn't over, or when workers
// take that long to get ready: then it tells what each of them waits for. Workers whose
// processes are stopped are told of at once. Owned by the supervisor's goroutine.
//
// Progress is read off the boards. They are written once in 64 batches, which may take
// long where handlers do, so from half the time on the workers are asked as well; what
// they answer is as fresh as can be, and so there is no false alarm.
type stallWatch struct {
	crew    *crew
	limit   time.Duration // 0: off
	end     bool          // a stall ends the run
	note    func(string)
	now     func() time.Time
	reached func(index int) (epoch float64, ok bool)
	state   func(pid int) string // of a process: "stopped" and others

	phase    phase
	waiting  func(index int) bool // this worker has not answered yet
	epochs   []float64            // latest known, by worker
	status   []*worker.Status     // latest, since the last progress
	stopped  []bool               // that its process is, and people know
	since    time.Time            // of the last progress
	ticked   time.Time
	asked    time.Time     // when they were asked last
	asks     int           // how often since the last progress or report: at half the time, and when it is over
	next     time.Duration // without progress after which it reports
	reported bool          // since the last progress
}

// ticks is the time between two looks. It bounds how late a report can be.
func (w *stallWatch) ticks() time.Duration {
	if w.limit == 0 {
		return time.Second
	}
	return min(max(w.limit/10, 10*time.Millisecond), time.Second)
}

// pauseLeast is more than a busy machine keeps a launcher from running.
const pauseLeast = 5 * time.Second

// answerPatience is how long workers have to answer before a report is written without
// them; one that can answers within 200 ms.
const answerPatience = time.Second

// begin starts the watch over a question to all workers.
func (w *stallWatch) begin(p phase, waiting func(index int) bool) {
	n := len(w.crew.members)
	w.phase, w.waiting = p, waiting
	w.epochs, w.status, w.stopped = make([]float64, n), make([]*worker.Status, n), make([]bool, n)
	w.ticked = w.now()
	w.progress(w.ticked)
}

func (w *stallWatch) progress(now time.Time) {
	clear(w.status)
	w.since, w.asks, w.next, w.reported = now, 0, w.limit, false
}

// heard files what a worker says of itself.
func (w *stallWatch) heard(index int, s *worker.Status) {
	w.status[index] = s
	w.advance(index, s.Epoch)
}

// advance takes in how far a worker is. Less than 2^-40 of the time itself is no
// progress: a model that sends to itself in ever smaller steps makes none.
func (w *stallWatch) advance(index int, epoch float64) {
	last := w.epochs[index]
	if !(epoch > last+last*0x1p-40) || math.IsInf(epoch, 1) {
		return
	}
	w.epochs[index] = epoch
	if w.reported {
		w.note(fmt.Sprintf("progress again: worker %d is at %.6g simulated seconds", w.crew.members[index].number, epoch))
	}
	w.progress(w.now())
}

// tick looks at all workers. Its error ends the run.
func (w *stallWatch) tick() error {
	now := w.now()
	if gap := now.Sub(w.ticked); gap > w.ticks()+pauseLeast {
		w.since = w.since.Add(gap) // this process itself was stopped, or the machine slept
	}
	w.ticked = now
	w.look()
	if w.phase.name == PhaseRun {
		for i := range w.crew.members {
			if epoch, ok := w.reached(i); ok {
				w.advance(i, epoch)
			}
		}
	}
	idle := now.Sub(w.since)
	switch {
	case w.limit == 0 || idle < w.next/2:
		return nil
	case w.asks == 0 || w.asks == 1 && idle >= w.next:
		w.ask(now)
		return nil
	case w.asks == 1 || w.unanswered() && now.Sub(w.asked) < answerPatience:
		return nil
	}
	w.reported, w.asks, w.next = true, 0, 2*idle
	report := w.report(idle)
	if w.end {
		return fmt.Errorf("%w%s", ErrStalled, strings.TrimPrefix(report, "no progress"))
	}
	w.note(report)
	return nil
}

// ask asks all workers for their status. One that has no room for the message doesn't
// read its messages, and is reported so.
func (w *stallWatch) ask(now time.Time) {
	w.asks++
	w.asked = now
	clear(w.status)
	if w.phase.name == PhaseStart {
		return // nobody could answer yet
	}
	for _, m := range w.crew.members {
		_ = m.say(&worker.Message{Type: worker.TypeAsk})
	}
}

func (w *stallWatch) unanswered() bool {
	return w.phase.name != PhaseStart && slices.Contains(w.status, nil)
}

// look finds workers whose processes were stopped or go on.
func (w *stallWatch) look() {
	for i, m := range w.crew.members {
		if m.pid == 0 || !w.waiting(i) {
			continue
		}
		if stopped := w.state(m.pid) == "stopped"; stopped != w.stopped[i] {
			w.stopped[i] = stopped
			if stopped {
				w.note(fmt.Sprintf("worker %d (process %d) is stopped, by a signal or a debugger: the run waits for it", m.number, m.pid))
			} else {
				w.note(fmt.Sprintf("worker %d (process %d) goes on", m.number, m.pid))
			}
		}
	}
}

// report tells what every worker does and waits for.
func (w *stallWatch) report(idle time.Duration) string {
	var b strings.Builder
	what := "in simulated time"
	if w.phase.name != PhaseRun {
		what = "while workers get ready"
	}
	fmt.Fprintf(&b, "no progress %s for %v (--stall)", what, idle.Round(10*time.Millisecond))
	if causes := w.causes(); len(causes) > 0 {
		fmt.Fprintf(&b, ": all wait for %s", strings.Join(causes, " and "))
	}
	for i, m := range w.crew.members {
		name := fmt.Sprintf("worker %d", m.number)
		if m.pid != 0 {
			name += fmt.Sprintf(" (process %d)", m.pid)
		}
		fmt.Fprintf(&b, "\n  %s %s", name, w.does(i))
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

// causes names the workers that wait for nobody, if there are others that do.
func (w *stallWatch) causes() (names []string) {
	for i, m := range w.crew.members {
		s := w.status[i]
		if waits := s != nil && (s.State == worker.StateBound || s.State == worker.StateRoom); waits && !w.stopped[i] || !w.waiting(i) {
			continue
		}
		names = append(names, fmt.Sprintf("worker %d", m.number))
	}
	return names
}

// does is what one worker does, in words.
func (w *stallWatch) does(i int) string {
	s := w.status[i]
	switch {
	case !w.waiting(i):
		return "is ready"
	case w.stopped[i]:
		return "is stopped, by a signal or a debugger"
	case w.phase.name != PhaseRun:
		return fmt.Sprintf("is busy (%s)", w.phase.name)
	case s == nil:
		return "doesn't answer"
	case s.State == worker.StateRoom && s.Peer < 0:
		return fmt.Sprintf("waits for room in the rings to its peers; everything before %.6g is handled", s.Epoch)
	case s.State == worker.StateRoom:
		return fmt.Sprintf("waits for room in the ring to worker %d, in %s at epoch %.6g", w.crew.members[s.Peer].number, orNothing(s.Handler), s.Epoch)
	case s.State == worker.StateBound && s.Peer >= 0:
		return fmt.Sprintf("waits for worker %d; everything before %.6g is handled", w.crew.members[s.Peer].number, s.Epoch)
	case s.State == worker.StateBound:
		return fmt.Sprintf("has nothing to do before its peers; everything before %.6g is handled", s.Epoch)
	case s.Handler != "":
		return fmt.Sprintf("is in the handler of %s at epoch %.6g, %d calls so far", s.Handler, s.Epoch, s.Activations)
	}
	return fmt.Sprintf("is %s at epoch %.6g, %d handlers called so far", worker.StateName(uint64(s.State)), s.Epoch, s.Activations)
}

func orNothing(handler string) string {
	if handler == "" {
		return "no handler"
	}
	return "the handler of " + handler
}
