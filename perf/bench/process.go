// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// workerEnv marks a process that a coordinator started; its value is the number of arenas that it inherits.
const workerEnv = "DISCO_BENCH_WORKER"

// Descriptors of a worker process beyond standard input, output and error.
const (
	orderFD  = 3
	answerFD = 4
	arenaFD  = 5
)

// order is the coordinator's message: a task to prepare, or nil: start.
type order struct {
	Task *Task `json:"task,omitempty"`
}

// answer is the message of a worker process after each order.
type answer struct {
	Address string `json:"address,omitempty"` // after a task
	Result  Result `json:"result"`            // after go
	Error   string `json:"error,omitempty"`
	Aborted bool   `json:"aborted,omitempty"`
}

// process is a side in a process of its own.
type process struct {
	name    string
	fleet   *Fleet
	cmd     *exec.Cmd
	orders  *os.File
	answers *os.File
	encoder *json.Encoder
	decoder *json.Decoder
	ended   bool
	fell    bool // ended, by neither its orders' end nor this process's SIGKILL
}

func (f *Fleet) startProcess(pair, side int) (*process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("bench: the other side is started from this program's own file: %w", err)
	}
	theirOrders, orders, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	defer theirOrders.Close()
	answers, theirAnswers, err := os.Pipe()
	if err != nil {
		orders.Close()
		return nil, fmt.Errorf("bench: %w", err)
	}
	defer theirAnswers.Close()
	files := []*os.File{theirOrders, theirAnswers}
	for _, a := range f.arenas {
		files = append(files, a.segment.File())
	}
	p := &process{
		name:    fmt.Sprintf("side %d of pair %d", side, pair),
		fleet:   f,
		orders:  orders,
		answers: answers,
		encoder: json.NewEncoder(orders),
		decoder: json.NewDecoder(answers),
		cmd: &exec.Cmd{
			Path:       exe,
			Args:       []string{exe, "worker"},
			Env:        append(os.Environ(), workerEnv+"="+strconv.Itoa(len(f.arenas))),
			Stderr:     f.cfg.Stderr,
			ExtraFiles: files,
			// A group of its own, so that Ctrl-C reaches the coordinator only, which then ends all processes in
			// order.
			SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
		},
	}
	if err := f.starter.start(p.cmd); err != nil {
		orders.Close()
		answers.Close()
		return nil, fmt.Errorf("bench: %s can't be started: %w", p.name, err)
	}
	return p, nil
}

func (p *process) prepare(t Task) (string, error) {
	if err := p.send(order{Task: &t}); err != nil {
		return "", err
	}
	a, err := p.receive()
	return a.Address, err
}

func (p *process) start() error { return p.send(order{}) }

func (p *process) result() (Result, error) {
	a, err := p.receive()
	return a.Result, err
}

func (p *process) send(o order) error {
	if err := p.encoder.Encode(o); err != nil {
		return p.died()
	}
	return nil
}

// receive waits for the worker's next answer, or for the end of it or of the fleet.
func (p *process) receive() (answer, error) {
	type received struct {
		answer answer
		err    error
	}
	c := make(chan received, 1)
	go func() {
		var h received
		h.err = p.decoder.Decode(&h.answer)
		c <- h
	}()
	select {
	case h := <-c:
		switch {
		case h.err != nil:
			return answer{}, p.died()
		case h.answer.Aborted:
			return answer{}, ErrAborted
		case h.answer.Error != "":
			return answer{}, errors.New(h.answer.Error)
		}
		return h.answer, nil
	case <-p.fleet.broken:
		p.kill()
		return answer{}, ErrAborted
	}
}

// died is the error that says how the process ended.
func (p *process) died() error {
	p.kill()
	state := p.cmd.ProcessState
	if state == nil {
		return fmt.Errorf("bench: %s has ended", p.name)
	}
	return fmt.Errorf("bench: %s (process %d) has ended in the middle of a measurement: %s", p.name, state.Pid(), state)
}

// endTime is how long a process whose orders have ended may take until it has ended, too. One that spins while the
// processors are busy takes some of it; one that is stopped would never end.
const endTime = 5 * time.Second

// kill ends the process, if it hasn't ended, and takes its status. Its orders end first: then a working process
// ends by itself, with status 0.
func (p *process) kill() {
	if p.ended {
		return
	}
	p.ended = true
	p.orders.Close()
	group := -p.cmd.Process.Pid // with the programs that it has started
	late := time.AfterFunc(endTime, func() { _ = syscall.Kill(group, syscall.SIGKILL) })
	_ = p.cmd.Wait()
	_ = syscall.Kill(group, syscall.SIGKILL)
	p.fell = late.Stop() && p.cmd.ProcessState != nil && !p.cmd.ProcessState.Success()
	p.answers.Close()
}

func (p *process) close() { p.kill() }

// starter is the thread that starts processes: Linux sends the death signal that they ask for when that thread
// ends, and the Go runtime may end a thread at any time.
type starter struct {
	commands chan *exec.Cmd
	errs     chan error
}

func newStarter() *starter {
	s := &starter{commands: make(chan *exec.Cmd), errs: make(chan error)}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for c := range s.commands {
			s.errs <- c.Start()
		}
	}()
	return s
}

func (s *starter) start(c *exec.Cmd) error {
	s.commands <- c
	return <-s.errs
}

func (s *starter) close() { close(s.commands) }

// IsWorker reports whether this process was started by a coordinator.
func IsWorker() bool { return os.Getenv(workerEnv) != "" }

// ServeWorker is the main function of a worker process. It returns the exit status.
func ServeWorker(jobs []Job) int {
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), 4))
	count, err := strconv.Atoi(os.Getenv(workerEnv))
	if err != nil {
		fmt.Fprintf(os.Stderr, "disco-bench: %s=%q, want the number of arenas\n", workerEnv, os.Getenv(workerEnv))
		return 2
	}
	arenas := make([]*Arena, count)
	for i := range arenas {
		f := os.NewFile(uintptr(arenaFD+i), "arena")
		if arenas[i], err = attachArena(f); err != nil {
			fmt.Fprintln(os.Stderr, "disco-bench: worker:", err)
			return 1
		}
		f.Close()
	}
	// Nobody may wait for orders inside a system call: Go 1.26 can't stop the world while a thread has just begun one
	// (runtime: reentersyscall looks for a stop before it says that it is in a system call), and here that would be
	// until the next order. The reader goes to sleep just when the run that it has begun counts its allocations, which
	// stops the world; its coordinator, who polls, would wait for it for ever. A descriptor that doesn't block is
	// waited for by the runtime's poller.
	if err := syscall.SetNonblock(orderFD, true); err != nil {
		fmt.Fprintln(os.Stderr, "disco-bench: worker: its orders:", err)
		return 1
	}
	serve(os.NewFile(orderFD, "orders"), os.NewFile(answerFD, "answers"), jobsByName(jobs), arenas)
	return 0
}

func serve(orderFile, answerFile *os.File, jobs map[string]Job, arenas []*Arena) {
	var abort atomic.Bool
	orders := make(chan order)
	go func() {
		for d := json.NewDecoder(orderFile); ; {
			var o order
			if d.Decode(&o) != nil {
				os.Exit(0) // the coordinator has ended, and no result is needed
			}
			orders <- o
		}
	}()
	answers := json.NewEncoder(answerFile)
	l := &local{jobs: jobs, abort: &abort}
	for o := range orders {
		var a answer
		var err error
		if o.Task != nil {
			l.arena = arenas[o.Task.Pair]
			a.Address, err = l.prepare(*o.Task)
		} else if err = l.start(); err == nil {
			a.Result, err = l.result()
		}
		if err != nil {
			a.Error, a.Aborted = err.Error(), isAborted(err)
		}
		if answers.Encode(a) != nil {
			return
		}
	}
}
