// SPDX-License-Identifier: Apache-2.0

// Package workerproc is the processes of workers: how the launcher starts, stops, kills and
// waits for one, what becomes of its output, and what the process inherits.
//
// Guarantee: a worker's process group ends with the worker and with the launcher, however
// either ends, SIGKILL included, except for a process that has left the group. A process id
// is only signalled while it is this worker's. Output is taken line by line, bounded, and
// never held up.
//
//	starter := workerproc.NewStarter()
//	p, err := workerproc.New(workerproc.Config{Executable: exe, Name: "worker 0",
//		Args: []string{workerproc.Command, "0"}, Output: out})
//	err = starter.Start(p)
//	exit := p.Wait()
//	starter.Close()
//
// The process itself finds out by IsWorker, and takes over its files by Inherit.
package workerproc

import (
	"cmp"
	"errors"
	"fmt"
	"io"
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

// Hidden commands of the processes of a run over machines: of that which joins them for its launcher, and of that which
// has the workers of one of them.
const (
	ChildCommand  = "child"
	BridgeCommand = "bridge"
)

// workerEnv marks a process that a launcher started; its value is the number of
// descriptors that were handed over, from firstFD on. A person who types the hidden
// command doesn't have it.
const workerEnv = "DISCO_WORKER"

// Descriptors of a worker beyond standard input, output and error.
const (
	controlFD = 3 // the stream to the launcher
	lifeFD    = 4 // the life pipe, which the kernel closes when the launcher dies
	firstFD   = 5 // segments, then the trace file if there is one
)

// pipeGrace is how long the rest of a dead worker's output is waited for: a process that
// the worker has started may hold the pipe open.
const pipeGrace = 200 * time.Millisecond

// Config says what to start.
type Config struct {
	Executable string     // its file: see Executable
	Name       string     // for messages
	Args       []string   // behind the program's name: its command first
	Control    *os.File   // its end of the control stream, which New takes over; nil: New makes the stream
	Handed     []*os.File // that it gets as descriptors, in this order; they stay the caller's
	Threads    int        // that run Go code at once (GOMAXPROCS), there and in what it starts; 0: as here
	Output     io.Writer  // gets what it writes to standard output and standard error
	Steady     bool       // Suspend lets it run
	Parting    bool       // it isn't killed with this process at once: see InheritParting
	Title      string     // by which the process calls itself; "": Executable
}

// Process is a worker in a process of its own. Its process group is its own too, so
// that Ctrl-C in a terminal reaches the launcher only, which then ends the run in
// good order, and so that what a model may have started ends with it.
type Process struct {
	// Control is the launcher's end of the control stream; nil where New hasn't made it.
	Control *os.File

	cmd    *exec.Cmd
	life   *os.File // our end of its life pipe: the worker's group is killed when it is closed
	pipe   *os.File // reading end of the pipe behind its standard output and error
	output io.Writer
	name   string
	steady bool
	theirs []*os.File // ends that only the worker needs; closed once it runs

	mu     sync.Mutex
	reaped bool // guarded by mu: the process id may belong to another process by now
}

// ControlStream makes the two ends of a control stream.
func ControlStream() (ours, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("workerproc: control stream: %w%s", err, shm.Advice(err))
	}
	return os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control"), nil
}

// New prepares a worker; nothing runs yet.
func New(cfg Config) (*Process, error) {
	name, theirs := cfg.Name, cfg.Control
	p := &Process{output: cfg.Output, name: name, steady: cfg.Steady}
	if theirs == nil {
		var err error
		if p.Control, theirs, err = ControlStream(); err != nil {
			return nil, fmt.Errorf("%w (for %s)", err, name)
		}
	}
	p.theirs = []*os.File{theirs}
	output, input, err := os.Pipe()
	if err != nil {
		p.close()
		return nil, fmt.Errorf("workerproc: output pipe of %s: %w%s", name, err, shm.Advice(err))
	}
	p.pipe, p.theirs = output, append(p.theirs, input)
	life, ours, err := lifePipe()
	if err != nil {
		p.close()
		return nil, fmt.Errorf("workerproc: life pipe of %s: %w%s", name, err, shm.Advice(err))
	}
	p.life, p.theirs = ours, append(p.theirs, life)
	p.cmd = &exec.Cmd{
		Path:       cfg.Executable,
		Args:       append([]string{cmp.Or(cfg.Title, cfg.Executable)}, cfg.Args...),
		Env:        cfg.environment(),
		Stdout:     input,
		Stderr:     input,
		ExtraFiles: append([]*os.File{theirs, life}, cfg.Handed...),
		SysProcAttr: &syscall.SysProcAttr{
			Setpgid:   true,
			Pdeathsig: syscall.SIGKILL,
		},
	}
	if cfg.Parting {
		p.cmd.SysProcAttr.Pdeathsig = parting
	}
	return p, nil
}

func (cfg *Config) environment() []string {
	env := append(os.Environ(), workerEnv+"="+strconv.Itoa(len(cfg.Handed)))
	if cfg.Threads > 0 {
		env = append(env, "GOMAXPROCS="+strconv.Itoa(cfg.Threads)) // the last one counts
	}
	return env
}

// close frees what a process that never ran has opened.
func (p *Process) close() {
	for _, f := range []*os.File{p.Control, p.pipe, p.life} {
		f.Close() // nil: it is an error, and nothing else
	}
	p.closeTheirs()
}

func (p *Process) closeTheirs() {
	for _, f := range p.theirs {
		f.Close()
	}
	p.theirs = nil
}

// Starter is the thread that starts processes. Linux sends the death signal that a
// child asked for (PDEATHSIG) when the thread that made it ends, not the process;
// the Go runtime ends threads as it likes. So one locked thread starts them all and
// stays until all have ended.
type Starter struct {
	start chan *Process
	err   chan error
}

// NewStarter starts the thread.
func NewStarter() *Starter {
	s := &Starter{start: make(chan *Process), err: make(chan error)}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for p := range s.start {
			s.err <- p.cmd.Start()
		}
	}()
	return s
}

// Start starts p. After an error nothing of it is left.
func (s *Starter) Start(p *Process) error {
	s.start <- p
	err := <-s.err
	p.closeTheirs()
	if err != nil {
		p.close()
		return fmt.Errorf("workerproc: %s can't be started: %w%s", p.name, err, shm.Advice(err))
	}
	if !p.steady {
		register(p)
	}
	return nil
}

// Close ends the thread. All processes must have ended.
func (s *Starter) Close() { close(s.start) }

// PID is the process id, once the process runs.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Wait returns once the process has ended, all that it left in its process group
// has been killed, and its output has been read.
func (p *Process) Wait() Exit {
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 16<<10)
		for {
			n, err := p.pipe.Read(buf)
			_, _ = p.output.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	p.awaitEnd()
	p.Kill()
	err := p.reap()
	p.life.Close()
	_ = p.pipe.SetReadDeadline(time.Now().Add(pipeGrace))
	<-read
	p.pipe.Close()
	// The worker's last messages are still to be read from the control stream; only its
	// end may be slow to come, when another process holds the other side.
	LastMessages(p.Control)
	return exitOf(p.cmd.ProcessState, err)
}

// LastMessages lets a launcher's end of a control stream end soon: its worker has ended. nil: there is none.
func LastMessages(control *os.File) {
	_ = control.SetReadDeadline(time.Now().Add(pipeGrace)) // it may be closed already
}

// awaitEnd waits for the end of the process and leaves it a zombie: as long as it
// is one, its id can't be given to another process and the group can be killed safely. No thread waits where the kernel
// (from 5.10 on) has a descriptor for the process: a thread for each of 64 workers is 3 MiB.
func (p *Process) awaitEnd() {
	if fd, err := unix.PidfdOpen(p.PID(), unix.PIDFD_NONBLOCK); err == nil {
		f := os.NewFile(uintptr(fd), "process")
		defer f.Close()
		if conn, err := f.SyscallConn(); err == nil {
			err = conn.Read(func(uintptr) bool { return p.ended(unix.WNOHANG) })
			if err == nil {
				return
			}
		}
	}
	p.ended(0)
}

// ended reports whether the process has ended; it waits for that, unless options say otherwise.
func (p *Process) ended(options int) bool {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, p.PID(), &info, unix.WEXITED|unix.WNOWAIT|options, nil)
		if !errors.Is(err, unix.EINTR) {
			return err != nil || info.Signo != 0
		}
	}
}

// Kill ends the process group at once; any goroutine may call it at any time once
// the process runs.
func (p *Process) Kill() { p.signal(unix.SIGKILL) }

// signal sends a signal to the process group; as Kill.
func (p *Process) signal(s unix.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		// ESRCH: all of the group is gone already.
		_ = unix.Kill(-p.cmd.Process.Pid, s)
	}
}

// reap takes the zombie away.
func (p *Process) reap() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	unregister(p)
	return p.cmd.Wait()
}

// LostPrefix begins Exit.Text where that is about the machine of the worker, and not about all of them.
const LostPrefix = "a machine was lost: "

// Exit is how a worker ended.
type Exit struct {
	OK     bool           // with status 0
	Lost   bool           // nobody saw how: its machine, or what joins all machines, can't be reached any more
	Ended  bool           // its machine has ended it because of something else
	Signal syscall.Signal // 0: it exited by itself
	Text   string         // the same in words
	Lines  []string       // what it left behind, where it has no output of its own
}

func exitOf(state *os.ProcessState, err error) Exit {
	if state == nil {
		return Exit{Text: fmt.Sprintf("unknown exit status (%v)", err)}
	}
	ws, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !ws.Signaled() {
		return Exit{OK: state.ExitCode() == 0, Text: fmt.Sprintf("exit status %d", state.ExitCode())}
	}
	s := Exit{Signal: ws.Signal(), Text: "killed by " + unix.SignalName(ws.Signal())}
	switch ws.Signal() {
	case syscall.SIGKILL:
		s.Text += " (somebody killed it, or the system was out of memory)"
	case syscall.SIGBUS:
		s.Text += " (shared memory ran out)"
	}
	return s
}

// Executable is the file to start workers from: this process's own, also when its
// path has been removed or replaced since (a rebuild while it runs).
func Executable() (string, error) {
	const self = "/proc/self/exe"
	own, err := os.Stat(self)
	if err != nil {
		return "", fmt.Errorf("workerproc: the workers are started from this program's own file: %w", err)
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
