package launch

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/disco-sim/disco/worker"
)

// start starts all workers. release frees what their starting took, once all have
// ended.
func (l *Launch) start(mem *memory, traces *traces) (c *crew, release func(), err error) {
	if l.cfg.Transport == TransportInproc {
		return l.startLocal(mem, traces)
	}
	return l.startProcesses(mem, traces)
}

// startProcesses starts every worker as a process of this executable.
func (l *Launch) startProcesses(mem *memory, traces *traces) (*crew, func(), error) {
	exe, err := executable()
	if err != nil {
		return nil, nil, err
	}
	crew, keep := newCrew(), newKeeper()
	said := &lineWriter{w: l.cfg.Stderr}
	for w := range l.placement.Workers {
		if err := l.startProcess(exe, w, mem, traces, said, crew, keep); err != nil {
			newSupervisor(crew, &l.cfg, l.times).end(false)
			keep.close()
			return nil, nil, err
		}
	}
	return crew, keep.close, nil
}

func (l *Launch) startProcess(exe string, index int, mem *memory, traces *traces, said *lineWriter, crew *crew, keep *keeper) error {
	handed := mem.files(index)
	if traces.path != "" {
		handed = append(handed, traces.files[index])
	}
	var args []string
	if l.cfg.Profiles != "" {
		path, err := profilePath(l.cfg.Profiles, index)
		if err != nil {
			return err
		}
		args = append(args, profileFlag+path)
	}
	t := &tail{name: fmt.Sprintf("worker %d", index), to: said}
	p, err := newProcess(exe, index, args, handed, t)
	if err != nil {
		return err
	}
	if err := keep.run(p); err != nil {
		return err
	}
	crew.add(&member{index: index, control: p.control, kill: p.kill, tail: t}, p.wait)
	return nil
}

// startLocal starts every worker as a goroutine. A profile, if any, is of the whole
// process.
func (l *Launch) startLocal(mem *memory, traces *traces) (*crew, func(), error) {
	release := l.widen()
	if l.cfg.Profiles != "" {
		stop, err := profileTo(filepath.Join(l.cfg.Profiles, profileName(0)))
		if err != nil {
			release()
			return nil, nil, err
		}
		narrow := release
		release = func() { stop(); narrow() }
	}
	crew := newCrew()
	for w := range l.placement.Workers {
		var file *os.File
		if traces.path != "" {
			file = traces.files[w]
		}
		ours, theirs := net.Pipe()
		ended := make(chan exitStatus, 1)
		go func() {
			ended <- l.serveLocal(theirs, mem.segments(w), file)
		}()
		crew.add(&member{index: w, control: ours}, func() exitStatus { return <-ended })
	}
	return crew, release, nil
}

// widen lets as many goroutines run at once as workers hold threads, with their ingress
// threads, and two more to supervise them; the system shares the CPUs out among them,
// as it does among processes. Where the Go scheduler had to do it, a worker that waits
// in the kernel for a moment would keep its place, and another one that has work would
// get it only when the scheduler notices, 10 ms later. undo sets back what was before.
func (l *Launch) widen() (undo func()) {
	threads := 2*l.placement.Workers + 2
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
