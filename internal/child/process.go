// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/disco-sim/disco/internal/workerproc"
)

// Command is the hidden command with which a program starts as a child.
const Command = workerproc.ChildCommand

// Flags of a child that joins machines of which some are lost: of which name, and others that don't take the run.
const (
	WithoutFlag = "without"
	LeftFlag    = "left"
)

// processName is the child in messages.
const processName = Command

// How long the launcher waits for its child.
const (
	sendMax  = 5 * time.Second       // until it takes a packet
	endMax   = 5 * time.Second       // until it has ended after it was asked to, or has closed its socket
	killMax  = 5 * time.Second       // until the system has ended it
	proceeds = 50 * time.Millisecond // between two looks whether the launcher is to go on
)

// Config says what to start.
type Config struct {
	Executable string
	Args       []string // behind Command
	Workers    int      // that the run is to have; 0: as many as there are slots
	Run        string   // its name, for people
	Log        *workerproc.LineWriter

	// Proceed is called now and then until the machines are known; its error ends the start. nil: there is nothing
	// to look at.
	Proceed func() error
}

// RefusedError is what the child refuses before anything runs on a machine: something that the caller can change.
type RefusedError struct{ text string }

// Error is what the child said.
func (e *RefusedError) Error() string { return e.text }

// Process is the child as its launcher sees it. Any goroutine may use it.
type Process struct {
	conn    *conn
	log     *workerproc.LineWriter
	kill    func()                 // ends it at once; any goroutine may call it
	wait    func() workerproc.Exit // returns when it has ended
	output  *workerproc.Output
	release func()        // frees what ran it, when it has ended
	network chan struct{} // has one value when known is set
	known   Network       // set by the goroutine that receives, before Start returns
	away    atomic.Bool   // machines that take part are cut off, or silent
	ended   chan struct{} // closed when it has ended and all that it had sent was taken

	mu      sync.Mutex // guards the rest
	sets    map[int]*Set
	next    int    // set
	closing bool   // the launcher ends it
	failed  error  // what it has said about its end
	said    error  // what it has said itself about that
	lost    string // machine that was lost first; "": none
	err     error  // why it has ended; set before ended is closed
}

// Start starts the child and returns when it knows the machines. What it refuses is a *RefusedError.
func Start(cfg Config) (*Process, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	output := workerproc.NewOutput(processName, cfg.Log)
	proc, err := workerproc.New(workerproc.Config{Executable: cfg.Executable, Name: processName, Control: theirs,
		Args: append([]string{Command}, cfg.Args...), Output: output, Steady: true,
		Parting: true})
	if err != nil {
		ours.Close()
		return nil, err
	}
	starter := workerproc.NewStarter()
	if err := starter.Start(proc); err != nil {
		starter.Close()
		ours.Close()
		return nil, err
	}
	c, err := newConn(ours, true)
	if err != nil {
		proc.Kill()
		proc.Wait()
		starter.Close()
		ours.Close()
		return nil, err
	}
	p := newProcess(c, cfg.Log, output, proc.Kill, proc.Wait, starter.Close)
	if err := p.hello(cfg); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// newProcess begins to serve a child.
func newProcess(c *conn, log *workerproc.LineWriter, output *workerproc.Output, kill func(),
	wait func() workerproc.Exit, release func()) *Process {
	c.limit = sendMax
	p := &Process{conn: c, log: log, output: output, kill: kill, wait: wait, release: release,
		network: make(chan struct{}, 1), ended: make(chan struct{}), sets: map[int]*Set{}}
	exit := make(chan workerproc.Exit, 1)
	go func() { exit <- p.wait() }()
	go p.serve(exit)
	return p
}

func (p *Process) hello(cfg Config) error {
	p.send(KindHello, 0, &Hello{Workers: cfg.Workers, Run: cfg.Run})
	_, err := await(p, p.network, cfg.Proceed)
	return err
}

// Network is the machines, and what was measured between them.
func (p *Process) Network() Network { return p.known }

// Away reports whether machines that take part are cut off from others at the moment, or silent: they come back, or are
// lost. It is known Network.Silence later.
func (p *Process) Away() bool { return p.away.Load() }

// Keep says how many slots of each machine all sets use together that are made from now on. The others, and machines
// without any, are free for other runs when the next one is made.
func (p *Process) Keep(slots []int) { p.send(KindKeep, 0, &KeepBody{slots}) }

// await waits for an answer of the child.
func await[T any](p *Process, answer <-chan T, proceed func() error) (T, error) {
	ticker := time.NewTicker(proceeds)
	defer ticker.Stop()
	var none T
	for {
		select {
		case a := <-answer:
			return a, nil
		case <-p.ended:
			return none, p.err
		case <-ticker.C:
			if proceed == nil {
				continue
			}
			if err := proceed(); err != nil {
				return none, err
			}
		}
	}
}

// send sends a packet. A child that can't be told is ended, and whoever waits for it learns why.
func (p *Process) send(k Kind, set int, b Body, files ...*os.File) {
	err := p.conn.send(k, set, b, files...)
	if err == nil || errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) {
		return // or it is ending already, and receive finds that
	}
	p.fail(err)
	p.kill()
}

// fail records why the child is about to end. The first reason counts.
func (p *Process) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed == nil {
		p.failed = err
	}
}

// serve takes what the child sends until it ends.
func (p *Process) serve(exit <-chan workerproc.Exit) {
	if err := p.receive(); err != nil {
		p.fail(err)
		p.kill()
	}
	p.conn.finish()
	late := time.AfterFunc(endMax, p.kill)
	how := <-exit
	late.Stop()
	p.end(how) // first: a send that fails from here on is no reason
	p.conn.close()
	p.release()
	close(p.ended)
}

// receive takes packets until the child closes the socket. An error is a fault of the child.
func (p *Process) receive() error {
	for {
		m, err := p.conn.receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := p.handle(m); err != nil {
			return fmt.Errorf("child: %v for set %d: %w", m.Kind, m.Set, err)
		}
	}
}

func (p *Process) handle(m *packet) error {
	switch b := m.Body.(type) {
	case *Network:
		if p.known.Machines != nil {
			return errors.New("found the machines once more")
		}
		p.known = *b
		p.network <- struct{}{}
		return nil
	case *AwayBody:
		p.away.Store(b.Away)
		return nil
	case *LostBody:
		return p.lose(b)
	case *FailedBody:
		err := errors.New(b.Text)
		if b.Refused {
			err = &RefusedError{b.Text}
		}
		p.fail(err)
		p.mu.Lock()
		p.said = err
		p.loseEverywhere(err)
		p.mu.Unlock()
		p.conn.finish() // then it ends
		return nil
	}
	if m.Kind == KindNote {
		p.log.Line("disco", m.Body.(*TextBody).Text)
		return nil
	}
	p.mu.Lock()
	s, begun := p.sets[m.Set], p.next
	p.mu.Unlock()
	switch {
	case s != nil:
		return s.handle(m)
	case m.Set < begun:
		return nil // it was on its way when the set was closed
	}
	return fmt.Errorf("found a set that there isn't, want one below %d", begun)
}

// lose ends the workers of a machine that is lost.
func (p *Process) lose(b *LostBody) error {
	if b.Machine < 0 || b.Machine >= len(p.known.Machines) {
		return fmt.Errorf("found machine %d, want 0 to %d", b.Machine, len(p.known.Machines)-1)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost == "" {
		p.lost = p.known.Machines[b.Machine].Name
	}
	for _, s := range p.sets {
		s.lose(b.Machine, b.Text)
	}
	return nil
}

// Lost is the machine that was lost first: others may be lost because of it; "": none. failed is what the child has
// said where it couldn't go on by itself; nil: nothing, also where it has just ended.
func (p *Process) Lost() (machine string, failed error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost, p.said
}

// end records how the child has ended, and with it all workers that are left.
func (p *Process) end(how workerproc.Exit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.failed != nil:
		p.err = p.failed
	case p.closing:
		p.err = errors.New("child: it was closed")
	default:
		text := "the process that joins the machines (" + processName + ") ended too early: " + how.Text
		for _, line := range p.output.Lines() {
			text += "\n    " + line
		}
		p.err = errors.New(text)
	}
	p.loseEverywhere(p.err)
}

// loseEverywhere ends the workers that are left. The caller holds mu.
func (p *Process) loseEverywhere(err error) {
	first, _, _ := strings.Cut(err.Error(), "\n")
	for _, s := range p.sets {
		s.lose(everyMachine, first)
	}
}

// Close ends the child with all its workers and returns when it has ended. Only the first call does anything.
func (p *Process) Close() {
	p.mu.Lock()
	again := p.closing
	p.closing = true
	p.mu.Unlock()
	if again {
		return
	}
	p.conn.finish()
	late := time.AfterFunc(endMax, p.kill)
	defer late.Stop()
	select {
	case <-p.ended:
	case <-time.After(endMax + killMax): // a log that isn't read, or a system that can't end it
	}
}
