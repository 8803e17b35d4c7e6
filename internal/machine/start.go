// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/disco-sim/disco/scenario"
)

// Spec is what one worker is started with, beside the memory.
type Spec struct {
	// What its Setup will speak of. They stay the caller's.
	Trace          *os.File // gets the records of what it handles; nil: none are made
	Spool, Restore *os.File // for checkpoints (worker.Files); nil: none are made

	// Of a process. Executable is the program; Threads is how many of its threads run Go code at once, 0: as many as
	// processors. Profile gets its CPU profile; nil: none is made. It stays the caller's.
	Executable string
	Threads    int
	Profile    *os.File

	// Log gets the lines that it writes, of which Worker.Output keeps the last. Raw, where it isn't nil, gets all bytes
	// instead.
	Log *workerproc.LineWriter
	Raw io.Writer

	// Control is the worker's end of its control stream, which Start takes over. nil: Start makes the stream.
	Control *os.File

	// Registry has the kinds for a goroutine; a process has its own.
	Registry scenario.Registry
}

// files are what the worker reads and writes.
func (s *Spec) files() worker.Files {
	return worker.Files{Trace: s.Trace, Spool: s.Spool, Restore: s.Restore}
}

// Worker is one that runs.
type Worker struct {
	Control *os.File               // our end of its control stream; the caller's to close; nil: Start got the other one
	PID     int                    // its process; 0: it is a goroutine, or on another machine
	Machine string                 // that it is on; "": this one
	Kill    func()                 // ends it at once, any goroutine may call it; nil: nothing can
	Wait    func() workerproc.Exit // returns when it has ended; called once
	Output  *workerproc.Output     // keeps its last lines; nil: it is a goroutine, or Spec.Raw has them
}

// Start starts a worker: as a process, or as a goroutine where the memory is this process's own. After an error
// nothing of it is left. The worker is one of this machine's.
func (m *Memory) Start(index int, s Spec) (Worker, error) {
	if !m.plan.here(m.self, index) {
		return Worker{}, fmt.Errorf("machine: worker %d is to be started on machine %d, but is on %d", index, m.self,
			m.plan.Machine[index])
	}
	if m.cfg.Heap != nil {
		return m.startGoroutine(index, s)
	}
	own := s.files()
	handed := append(m.files(index), own.List()...)
	number := m.plan.First + index
	args := []string{workerproc.Command, strconv.Itoa(number)}
	if s.Profile != nil {
		args, handed = append(args, profileFlag), append(handed, s.Profile)
	}
	name := fmt.Sprintf("worker %d", number)
	output := (*workerproc.Output)(nil)
	if s.Raw == nil {
		output = workerproc.NewOutput(name, s.Log)
		s.Raw = output
	}
	p, err := workerproc.New(workerproc.Config{Executable: s.Executable, Name: name, Args: args, Handed: handed,
		Threads: s.Threads, Output: s.Raw, Control: s.Control})
	if err != nil {
		return Worker{}, err
	}
	if m.starter == nil {
		m.starter = workerproc.NewStarter()
	}
	if err := m.starter.Start(p); err != nil {
		return Worker{}, err
	}
	return Worker{Control: p.Control, PID: p.PID(), Kill: p.Kill, Wait: p.Wait, Output: output}, nil
}

func (m *Memory) startGoroutine(index int, s Spec) (Worker, error) {
	// Not net.Pipe: package net may link a C library into every worker.
	ours, theirs, err := workerproc.ControlStream()
	if err != nil {
		return Worker{}, err
	}
	ended := make(chan workerproc.Exit, 1)
	segments := m.segments(index) // here: Close may come before the goroutine
	go func() { ended <- serveLocal(theirs, segments, s) }()
	return Worker{Control: ours, Wait: func() workerproc.Exit { return <-ended }}, nil
}

// serveLocal runs a worker that is a goroutine. A model that panics ends
// its worker, as it would end its process.
func serveLocal(control *os.File, segments worker.Segments, s Spec) (exit workerproc.Exit) {
	defer func() {
		if r := recover(); r != nil {
			stack := firstLines(string(debug.Stack()), workerproc.CrashLines)
			exit = workerproc.Exit{Text: fmt.Sprintf("panic: %v", r), Lines: stack}
		}
	}()
	err := worker.Serve(control, s.Registry, func(*worker.Setup) (worker.Segments, worker.Files, error) {
		return segments, s.files(), nil
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
