// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/disco-sim/disco/shm"
)

// Command is the hidden command with which an executable starts itself as a worker.
const Command = "worker"

// workerEnv tells a process that a launcher started it; its value is the number of
// descriptors that were handed over, from firstFD on. A person who types the hidden
// command doesn't have it.
const workerEnv = "DISCO_WORKER"

// Descriptors of a worker beyond standard input, output and error.
const (
	controlFD = 3 // the stream to the launcher
	lifeFD    = 4 // the pipe that tells of the launcher's death
	firstFD   = 5 // segments, then the trace file if there is one
)

// pipeGrace is how long the rest of a dead worker's output is waited for: somebody
// whom the worker started may hold the pipe open.
const pipeGrace = 200 * time.Millisecond

// process is a worker in a process of its own. Its process group is its own too, so
// that Ctrl-C in a terminal reaches the launcher only, which then ends the run in
// good order, and so that what a model may have started ends with it.
type process struct {
	cmd     *exec.Cmd
	control *os.File // our end
	life    *os.File // our end of its life pipe: the worker's group is killed when it is closed
	output  *os.File // reading end of the pipe behind its standard output and error
	tail    *tail
	theirs  []*os.File // ends that only the worker needs; closed once it runs

	mu     sync.Mutex
	reaped bool // guarded by mu: the process id may be anybody's by now
}

// newProcess prepares worker index; nothing runs yet. handed are the files that
// it gets from firstFD on.
func newProcess(exe string, index int, args []string, handed []*os.File, t *tail) (*process, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("launch: control stream of %s: %w%s", t.name, err, shm.Advice(err))
	}
	p := &process{tail: t, control: os.NewFile(uintptr(pair[0]), "control")}
	theirs := os.NewFile(uintptr(pair[1]), "control")
	output, input, err := os.Pipe()
	if err != nil {
		p.control.Close()
		theirs.Close()
		return nil, fmt.Errorf("launch: output pipe of %s: %w%s", t.name, err, shm.Advice(err))
	}
	p.output, p.theirs = output, []*os.File{theirs, input}
	life, ours, err := lifePipe()
	if err != nil {
		p.close()
		return nil, fmt.Errorf("launch: life pipe of %s: %w%s", t.name, err, shm.Advice(err))
	}
	p.life, p.theirs = ours, append(p.theirs, life)
	p.cmd = &exec.Cmd{
		Path:       exe,
		Args:       append([]string{exe, Command, strconv.Itoa(index)}, args...),
		Env:        append(os.Environ(), workerEnv+"="+strconv.Itoa(len(handed))),
		Stdout:     input,
		Stderr:     input,
		ExtraFiles: append([]*os.File{theirs, life}, handed...),
		SysProcAttr: &syscall.SysProcAttr{
			Setpgid:   true,
			Pdeathsig: syscall.SIGKILL,
		},
	}
	return p, nil
}

// close frees what a process that never ran has opened.
func (p *process) close() {
	p.control.Close()
	p.output.Close()
	if p.life != nil {
		p.life.Close()
	}
	p.closeTheirs()
}

func (p *process) closeTheirs() {
	for _, f := range p.theirs {
		f.Close()
	}
	p.theirs = nil
}

// keeper is the thread that starts processes. Linux sends the death signal that a
// child asked for (PDEATHSIG) when the thread that made it ends, not the process;
// the Go runtime ends threads as it likes. So one locked thread starts them all and
// stays until all have ended.
type keeper struct {
	start chan *process
	err   chan error
}

func newKeeper() *keeper {
	k := &keeper{start: make(chan *process), err: make(chan error)}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for p := range k.start {
			k.err <- p.cmd.Start()
		}
	}()
	return k
}

// run starts p.
func (k *keeper) run(p *process) error {
	k.start <- p
	err := <-k.err
	p.closeTheirs()
	if err == nil {
		register(p)
	}
	if err != nil {
		p.close()
		return fmt.Errorf("launch: %s can't be started: %w%s", p.tail.name, err, shm.Advice(err))
	}
	return nil
}

// close lets the thread go. All processes must have ended.
func (k *keeper) close() { close(k.start) }

// wait returns once the process has ended, all that it left in its process group
// has been killed, and its output has been read.
func (p *process) wait() exitStatus {
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 16<<10)
		for {
			n, err := p.output.Read(buf)
			_, _ = p.tail.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	p.awaitEnd()
	p.kill()
	err := p.reap()
	p.life.Close()
	_ = p.output.SetReadDeadline(time.Now().Add(pipeGrace))
	<-read
	p.output.Close()
	// The worker's last words are still to be read from the control stream; only its
	// end may be slow to come, when somebody else holds the other side.
	_ = p.control.SetReadDeadline(time.Now().Add(pipeGrace))
	return statusOf(p.cmd.ProcessState, err)
}

// awaitEnd waits for the end of the process and leaves it a zombie: as long as it
// is one, its id can't be given to anybody else and the group can be killed safely.
func (p *process) awaitEnd() {
	for {
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// kill ends the process group at once; any goroutine may call it at any time once
// the process runs.
func (p *process) kill() { p.signal(unix.SIGKILL) }

// signal sends a signal to the process group; as kill.
func (p *process) signal(s unix.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		// ESRCH: all of the group is gone already.
		_ = unix.Kill(-p.cmd.Process.Pid, s)
	}
}

// reap takes the zombie away.
func (p *process) reap() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	unregister(p)
	return p.cmd.Wait()
}

// isReset tells whether a control stream ended because the other side is gone, or
// was closed on this side.
func isReset(err error) bool {
	return errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) ||
		errors.Is(err, os.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded)
}

// exitStatus says how a worker ended.
type exitStatus struct {
	ok     bool
	signal syscall.Signal // 0: it exited by itself
	text   string
	lines  []string // what it left behind, where it has no output of its own
}

func statusOf(state *os.ProcessState, err error) exitStatus {
	if state == nil {
		return exitStatus{text: fmt.Sprintf("unknown exit status (%v)", err)}
	}
	ws, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !ws.Signaled() {
		return exitStatus{ok: state.ExitCode() == 0, text: fmt.Sprintf("exit status %d", state.ExitCode())}
	}
	s := exitStatus{signal: ws.Signal(), text: "killed by " + unix.SignalName(ws.Signal())}
	switch ws.Signal() {
	case syscall.SIGKILL:
		s.text += " (somebody killed it, or the system was out of memory)"
	case syscall.SIGBUS:
		s.text += " (shared memory ran out)"
	}
	return s
}

// executable is the file to start workers from: this process's own, also when its
// path has been removed or replaced since (a rebuild while it runs).
func executable() (string, error) {
	const self = "/proc/self/exe"
	own, err := os.Stat(self)
	if err != nil {
		return "", fmt.Errorf("launch: the workers are started from this program's own file: %w", err)
	}
	path, err := os.Executable()
	if err != nil {
		return self, nil
	}
	if at, err := os.Stat(path); err != nil || !os.SameFile(own, at) {
		return self, nil
	}
	return path, nil
}
