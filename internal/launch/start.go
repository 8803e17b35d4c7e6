// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
)

// start starts the set's workers. After an error all of them have ended.
func (ws *workerSet) start(proceed func() error) error {
	ws.supervisor.stage.phase = PhaseStart
	if ws.launch.cfg.Transport == TransportInproc {
		return ws.startGoroutines()
	}
	return ws.startProcesses(proceed)
}

// startProcesses starts every worker as a process of this executable. A worker that dies
// meanwhile, and proceed's error, end the start.
func (ws *workerSet) startProcesses(proceed func() error) error {
	exe, err := workerproc.Executable()
	if err != nil {
		return err
	}
	starter := workerproc.NewStarter()
	ws.cleanup = append(ws.cleanup, starter.Close)
	for w := range ws.stats {
		err := proceed()
		if err == nil {
			err = ws.startProcess(starter, exe, w)
		}
		if err == nil {
			err = ws.supervisor.checkStarted()
		}
		if err != nil {
			ws.supervisor.terminate(false)
			return err
		}
	}
	return nil
}

func (ws *workerSet) startProcess(starter *workerproc.Starter, exe string, index int) error {
	handed := ws.memory.files(index)
	if f := ws.trace.Of(index); f != nil {
		handed = append(handed, f)
	}
	number := ws.number(index)
	var args []string
	if dir := ws.launch.cfg.Profiles; dir != "" {
		path, err := profilePath(dir, number)
		if err != nil {
			return err
		}
		args = append(args, profileFlag+path)
	}
	output := workerproc.NewOutput(fmt.Sprintf("worker %d", number), ws.launch.log)
	p, err := workerproc.New(workerproc.Config{Executable: exe, Number: number, Args: args, Handed: handed,
		Threads: ws.launch.goThreads(), Output: output})
	if err != nil {
		return err
	}
	if err := starter.Start(p); err != nil {
		return err
	}
	ws.supervisor.add(&connection{
		index: index, number: number, control: p.Control, pid: p.PID(), kill: p.Kill, output: output,
	}, p.Wait)
	return nil
}

// manyTurns is how many threads of a run there are for each processor where goThreads saves memory: with fewer of them,
// 3 workers on 2 processors, a worker that waits in the kernel and has to ask for its place again was slower.
const manyTurns = 4

// goThreads is how many threads of a worker process may run Go code at once, 0: as many as processors. Where many
// workers take turns on the processors, a worker needs no more than it has threads that take in and handle events: each
// further one has lists of free memory of its own, 300 KiB in all.
func (l *Launch) goThreads() int {
	workers, each := l.threads()
	if workers*each < manyTurns*l.cfg.Processors {
		return 0
	}
	return each
}

// startGoroutines starts every worker as a goroutine. A profile, if any, is of the whole
// process.
func (ws *workerSet) startGoroutines() error {
	l := ws.launch
	ws.cleanup = append(ws.cleanup, l.raiseGOMAXPROCS())
	if l.cfg.Profiles != "" && ws.index == 0 {
		stop, err := profileTo(filepath.Join(l.cfg.Profiles, profileName(0)))
		if err != nil {
			return err
		}
		ws.cleanup = append(ws.cleanup, stop)
	}
	for w := range ws.stats {
		// Not net.Pipe: package net may link a C library into every worker.
		ours, theirs, err := workerproc.ControlStream()
		if err != nil {
			ws.supervisor.terminate(false)
			return err
		}
		ended := make(chan workerproc.Exit, 1)
		segments, trace := ws.memory.segments(w), ws.trace.Of(w) // here: release may come before the goroutine
		go func() { ended <- l.serveLocal(theirs, segments, trace) }()
		wait := func() workerproc.Exit { return <-ended }
		ws.supervisor.add(&connection{index: w, number: ws.number(w), control: ours}, wait)
	}
	return nil
}

// raiseGOMAXPROCS lets as many goroutines run at once as workers hold threads, with their
// ingress threads, and two more to supervise them; the system shares the CPUs out among them,
// as it does among processes. Where the Go scheduler had to do it, a worker that waits
// in the kernel for a moment would keep its place, and another one that has work would
// get it only when the scheduler notices, 10 ms later. undo sets back what was before.
func (l *Launch) raiseGOMAXPROCS() (undo func()) {
	threads := 2*l.Workers() + 2
	before := runtime.GOMAXPROCS(0)
	if before >= threads {
		return func() {}
	}
	runtime.GOMAXPROCS(threads)
	return func() { runtime.GOMAXPROCS(before) }
}

// serveLocal runs a worker that is a goroutine. A model that panics ends
// its worker, as it would end its process.
func (l *Launch) serveLocal(control *os.File, segments worker.Segments, trace *os.File) (exit workerproc.Exit) {
	defer func() {
		if r := recover(); r != nil {
			stack := firstLines(string(debug.Stack()), workerproc.CrashLines)
			exit = workerproc.Exit{Text: fmt.Sprintf("panic: %v", r), Lines: stack}
		}
	}()
	err := worker.Serve(control, l.cfg.Registry, func(*worker.Setup) (worker.Segments, *os.File, error) {
		return segments, trace, nil
	})
	if err != nil {
		return workerproc.Exit{Text: "ended with an error"}
	}
	return workerproc.Exit{OK: true}
}

// firstLines is the first lines of a text.
func firstLines(text string, lines int) []string {
	parts := strings.SplitN(text, "\n", lines+1)
	return parts[:min(lines, len(parts))]
}
