// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/disco-sim/disco/internal/worker"
)

// start starts the team's workers. release frees what their starting took, once all have
// ended.
func (t *team) start(goOn func() error) (c *crew, release func(), err error) {
	if t.cfg.Transport == TransportInproc {
		return t.startLocal()
	}
	return t.startProcesses(goOn)
}

// startProcesses starts every worker as a process of this executable. A worker that dies
// meanwhile, and goOn's error, end it.
func (t *team) startProcesses(goOn func() error) (*crew, func(), error) {
	exe, err := executable()
	if err != nil {
		return nil, nil, err
	}
	crew, keep := newCrew(), newKeeper()
	s := newSupervisor(crew, t.Launch)
	s.phase.name = PhaseStart
	for w := range t.placement.Workers {
		err := goOn()
		if err == nil {
			err = t.startProcess(exe, w, crew, keep)
		}
		if err == nil {
			s.states = append(s.states, state{})
			err = s.early()
		}
		if err != nil {
			s.states = make([]state, len(crew.members))
			s.end(false)
			keep.close()
			return nil, nil, err
		}
	}
	return crew, keep.close, nil
}

func (t *team) startProcess(exe string, index int, crew *crew, keep *keeper) error {
	handed := t.memory.files(index)
	if len(t.traces.files) > 0 {
		handed = append(handed, t.traces.files[index])
	}
	number := t.number(index)
	var args []string
	if t.cfg.Profiles != "" {
		path, err := profilePath(t.cfg.Profiles, number)
		if err != nil {
			return err
		}
		args = append(args, profileFlag+path)
	}
	last := &tail{name: fmt.Sprintf("worker %d", number), to: t.said}
	p, err := newProcess(exe, number, args, handed, last)
	if err != nil {
		return err
	}
	if err := keep.run(p); err != nil {
		return err
	}
	crew.add(&member{index: index, number: number, control: p.control, pid: p.cmd.Process.Pid, kill: p.kill, tail: last}, p.wait)
	return nil
}

// startLocal starts every worker as a goroutine. A profile, if any, is of the whole
// process.
func (t *team) startLocal() (*crew, func(), error) {
	release := t.widen()
	if t.cfg.Profiles != "" && t.index == 0 {
		stop, err := profileTo(filepath.Join(t.cfg.Profiles, profileName(0)))
		if err != nil {
			release()
			return nil, nil, err
		}
		narrow := release
		release = func() { stop(); narrow() }
	}
	crew := newCrew()
	for w := range t.placement.Workers {
		var file *os.File
		if len(t.traces.files) > 0 {
			file = t.traces.files[w]
		}
		ours, theirs := net.Pipe()
		ended := make(chan exitStatus, 1)
		go func() {
			ended <- t.serveLocal(theirs, t.memory.segments(w), file)
		}()
		crew.add(&member{index: w, number: t.number(w), control: ours}, func() exitStatus { return <-ended })
	}
	return crew, release, nil
}

// widen lets as many goroutines run at once as workers hold threads, with their ingress
// threads, and two more to supervise them; the system shares the CPUs out among them,
// as it does among processes. Where the Go scheduler had to do it, a worker that waits
// in the kernel for a moment would keep its place, and another one that has work would
// get it only when the scheduler notices, 10 ms later. undo sets back what was before.
func (l *Launch) widen() (undo func()) {
	threads := 2*l.Workers() + 2
	before := runtime.GOMAXPROCS(0)
	if before >= threads {
		return func() {}
	}
	runtime.GOMAXPROCS(threads)
	return func() { runtime.GOMAXPROCS(before) }
}

// serveLocal is the life of a worker that is a goroutine. A model that panics ends
// its worker, as it would end its process.
func (l *Launch) serveLocal(control net.Conn, segments worker.Segments, trace *os.File) (status exitStatus) {
	defer func() {
		if r := recover(); r != nil {
			status = exitStatus{text: fmt.Sprintf("panic: %v", r), lines: head(string(debug.Stack()), tailCrash)}
		}
	}()
	err := worker.Serve(control, l.cfg.Registry, func(*worker.Setup) (worker.Segments, *os.File, error) {
		return segments, trace, nil
	})
	if err != nil {
		return exitStatus{text: "ended with an error"}
	}
	return exitStatus{ok: true}
}

// head is the first lines of a text.
func head(text string, lines int) []string {
	parts := strings.SplitN(text, "\n", lines+1)
	return parts[:min(lines, len(parts))]
}
