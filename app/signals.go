// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/disco-sim/disco/internal/launch"
	"github.com/disco-sim/disco/internal/workerproc"
)

// cleanupMax is how long a run that was ended at once may take to clean up before the process ends without it. What
// is left then ends by itself: workers end when their launcher does, and nothing of the run has a name.
const cleanupMax = 150 * time.Millisecond

// answerMax is how long a run may take to end after the first signal before it says what it is still doing, or, where
// nothing was simulated and no machines are joined, before the process ends as it does after cleanupMax.
const answerMax = 100 * time.Millisecond

// sameSignal is how close signals follow each other that are meant as one: timeout(1)
// signals a process and then its group, a service manager may send two of them, and a
// terminal that closes sends what the shell sends too.
const sameSignal = 300 * time.Millisecond

// signals converts Ctrl-C, SIGTERM and the end of the terminal into the end of a run: the first closes stop, the
// second, or one that comes when all is simulated, ends ctx, and another one, or a clean-up that takes too long, ends
// the process. Ctrl-Z stops the workers too. SIGUSR1 asks for a checkpoint, and does nothing where there are none.
type signals struct {
	ctx    context.Context
	stop   chan struct{}
	screen *screen
	name   string
	first  atomic.Int32 // the signal that closed stop
	in     chan os.Signal
	asked  chan struct{} // gets something when a checkpoint is asked for; full: one is asked for already
	over   chan struct{}
	said   string // what the run is still doing; watch uses it
	cancel context.CancelFunc
	undo   func() // of spareThreads
}

// watchSignals starts handling; close ends it.
func watchSignals(screen *screen, name string) *signals {
	s := &signals{screen: screen, name: name, stop: make(chan struct{}), in: make(chan os.Signal, 16),
		asked: make(chan struct{}, 1), over: make(chan struct{}), undo: spareThreads()}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGTSTP,
		syscall.SIGUSR1} {
		s.notify(sig)
	}
	go s.watch()
	return s
}

// spareThreads lets two goroutines more run at once than there are processors: the one that takes a signal and the one
// that answers it. On a machine with more to do than processors the system may make a thread wait that has a place
// among GOMAXPROCS, for a tenth of a second or more; while all places were with such threads, nobody took the signal.
func spareThreads() (undo func()) {
	before := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(before + 2)
	return func() { runtime.GOMAXPROCS(before) }
}

// notify asks for a signal. nohup, and shells for what they run in the background, set some of them to be ignored;
// then this process must ignore them too.
func (s *signals) notify(sig os.Signal) {
	if !signal.Ignored(sig) {
		signal.Notify(s.in, sig)
	}
}

func (s *signals) watch() {
	var late <-chan time.Time
	var last time.Time
	for count := 0; ; {
		select {
		case <-s.over:
			return
		case <-late:
			s.late(count)
			late = time.After(answerMax) // what comes next may take long too
		case sig := <-s.in:
			switch sig {
			case syscall.SIGTSTP:
				workerproc.Suspend()
				continue
			case syscall.SIGUSR1:
				select {
				case s.asked <- struct{}{}:
				default:
				}
				continue
			}
			if now := time.Now(); count > 0 && now.Sub(last) < sameSignal {
				continue
			} else {
				last = now
			}
			switch count++; {
			case count == 1 && s.screen.at() < phaseFinishing:
				late = time.After(answerMax)
				s.end(sig, "ending the run; once more ends it at once, without results")
			case count == 1: // nothing is left that could end earlier with results
				count, late = 2, time.After(cleanupMax)
				s.first.Store(int32(sig.(syscall.Signal)))
				s.cancel()
				s.end(sig, "ending at once: results that aren't written yet are lost")
			case count == 2:
				s.cancel()
				late = time.After(cleanupMax)
			default:
				os.Exit(s.status())
			}
		}
	}
}

// end ends the run with the first signal, before anything is written: standard error may be full, and whoever holds
// the screen waiting for its reader. From here on nobody waits for that reader for long.
func (s *signals) end(sig os.Signal, how string) {
	s.first.Store(int32(sig.(syscall.Signal)))
	close(s.stop)
	s.screen.w.hurry()
	fmt.Fprintf(s.screen, "%s: %v: %s\n", s.name, sig, how)
}

// late is called when a run hasn't ended answerMax after a first signal, and again and again from then on, or
// cleanupMax after a second one.
func (s *signals) late(count int) {
	what, begun, kept := s.screen.now()
	switch {
	case count > 1 && kept:
		fmt.Fprintf(s.screen, "%s: ended at once: what it was writing isn't complete\n", s.name)
		os.Exit(s.status())
	case count > 1:
		fmt.Fprintf(s.screen, "%s: ended at once, without results\n", s.name)
		os.Exit(s.status())
	case !begun && !kept && s.screen.joined.Load(): // ended before, it would leave them taken for the next run
		what = "leaving the machines"
	case !begun && !kept:
		fmt.Fprintf(s.screen, "%s: %v before anything was simulated\n", s.name, errInterrupted)
		os.Exit(s.status())
	case what == "":
		what = "ending the simulation"
	}
	if what != s.said {
		s.said = what
		fmt.Fprintf(s.screen, "%s: still %s\n", s.name, what)
	}
}

// status is the exit status of a run that a signal has ended.
func (s *signals) status() int { return ExitSignal + int(s.first.Load()) }

// close ends the watch.
func (s *signals) close() {
	signal.Stop(s.in)
	close(s.over)
	s.cancel()
	s.undo()
}

// interrupted is an error that a signal has caused: it has an exit status of its own.
type interrupted struct {
	status int
	err    error
}

func (e *interrupted) Error() string { return e.err.Error() }
func (e *interrupted) Unwrap() error { return e.err }

// errInterrupted is what an error unwraps to that contains how far an interrupted run has come.
var errInterrupted = errors.New("interrupted")

// cause marks errors that the first signal has caused. Others are left alone: a worker
// that dies while a run is being ended is a failure.
func (s *signals) cause(err error) error {
	for _, caused := range []error{errInterrupted, launch.ErrEnded, launch.ErrUnresponsive} {
		if s.first.Load() != 0 && errors.Is(err, caused) {
			return &interrupted{s.status(), err}
		}
	}
	return err
}

// unbegunMax is how long after the first signal a run may take to end that hasn't simulated anything.
const unbegunMax = answerMax / 2

// endedMax is how long after the end of its context a run may take to end: less than cleanupMax, so that what a sweep
// has come to is still written.
const endedMax = cleanupMax * 2 / 3

// simulate is simulateBy with Launch.Run.
func simulate(ctx context.Context, l *launch.Launch, stop <-chan struct{}, screen *screen) (*launch.Outcome, error) {
	return simulateBy(ctx, l.Run, stop, screen)
}

// simulateBy returns what run does, until unbegunMax after a first signal that comes before anything was simulated, and
// endedMax after the end of ctx: a step that can't be cut short then ends with the process.
func simulateBy(ctx context.Context, run func(context.Context) (*launch.Outcome, error), stop <-chan struct{},
	screen *screen) (*launch.Outcome, error) {
	type result struct {
		out *launch.Outcome
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan result, 1)
	go func() {
		out, err := run(ctx)
		done <- result{out, err}
	}()
	select {
	case r := <-done:
		return r.out, r.err
	case <-stop:
	}
	select {
	case r := <-done:
		return r.out, r.err
	case <-time.After(unbegunMax):
	}
	if _, begun, _ := screen.now(); !begun {
		return nil, fmt.Errorf("%w before anything was simulated", errInterrupted)
	}
	select {
	case r := <-done:
		return r.out, r.err
	case <-ctx.Done():
	}
	select {
	case r := <-done:
		return r.out, r.err
	case <-time.After(endedMax):
		return nil, launch.ErrEnded
	}
}

// prepare is launch.Prepare, which may take minutes for a large scenario, until the first signal. Nothing has been
// started then: the goroutine that still reads ends with the process.
func prepare(cfg launch.Config) (*launch.Launch, error) {
	type result struct {
		l   *launch.Launch
		err error
	}
	done := make(chan result, 1)
	go func() {
		l, err := launch.Prepare(cfg)
		done <- result{l, err}
	}()
	select {
	case r := <-done:
		select {
		case <-cfg.Stop: // which may be why it has ended
		default:
			return r.l, r.err
		}
	case <-cfg.Stop:
	}
	return nil, fmt.Errorf("%w before anything was simulated, while %s was being read and placed", errInterrupted,
		cfg.File)
}
