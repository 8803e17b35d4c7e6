// SPDX-License-Identifier: Apache-2.0

package viewproc

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/disco-sim/disco/internal/workerproc"
)

// partingMax is how long the process has when its run was killed: it removes what is temporary.
const partingMax = 2 * time.Second

// Config says what to start.
type Config struct {
	Executable string // that has Command
	Begin      Begin
	Log        *workerproc.LineWriter // gets what it says

	// Gone is called when it has ended and Close wasn't called, with how.
	Gone func(how string)
}

// Process is the process as its run sees it.
type Process struct {
	conn    *Conn
	proc    *workerproc.Process
	starter *workerproc.Starter
	output  *workerproc.Output
	exit    workerproc.Exit
	closing chan struct{}
	ended   chan struct{} // closed when it has ended; exit is set then
	over    chan struct{} // closed when nothing of it is received any more
}

// Start starts the process, and returns when it serves. What it refuses is a *Refused.
func Start(cfg Config) (*Process, *Serving, error) {
	p := &Process{output: workerproc.NewOutput("disco-view", cfg.Log), starter: workerproc.NewStarter(),
		closing: make(chan struct{}), ended: make(chan struct{}), over: make(chan struct{})}
	var err error
	p.proc, err = workerproc.New(workerproc.Config{Executable: cfg.Executable, Name: "disco-view",
		Args: []string{Command}, Output: p.output, Steady: true, Parting: true})
	if err == nil {
		err = p.starter.Start(p.proc)
	}
	if err != nil {
		p.starter.Close()
		return nil, nil, err
	}
	p.conn = &Conn{file: p.proc.Control}
	go func() {
		p.exit = p.proc.Wait()
		close(p.ended)
	}()
	serving, err := p.begin(cfg)
	if err != nil {
		close(p.over)
		p.Close()
		return nil, nil, err
	}
	go p.receive(cfg)
	return p, serving, nil
}

// begin says what it is to do.
func (p *Process) begin(cfg Config) (*Serving, error) {
	late := time.AfterFunc(beginMax, p.proc.Kill)
	defer late.Stop()
	err := p.conn.Send(&Message{Begin: &cfg.Begin})
	var m *Message
	if err == nil {
		m, err = p.conn.Receive()
	}
	switch {
	case err != nil:
		p.conn.Close()
		<-p.ended
		return nil, fmt.Errorf("%s, which shows runs: it serves nothing within %v: %w (%s)%s", cfg.Executable, beginMax,
			err, p.exit.Text, indented(p.output.Lines()))
	case m.Refused != nil:
		return nil, m.Refused
	case m.Serving == nil:
		return nil, fmt.Errorf("%s, which shows runs, has answered something else: it is of another version",
			cfg.Executable)
	}
	return m.Serving, nil
}

func indented(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return "\n    " + strings.Join(lines, "\n    ")
}

// receive waits until it has ended: it says nothing more.
func (p *Process) receive(cfg Config) {
	defer close(p.over)
	for err := error(nil); err == nil; {
		_, err = p.conn.Receive()
	}
	p.conn.Close() // one that sends nonsense ends with that
	<-p.ended
	select {
	case <-p.closing:
	default:
		if cfg.Gone != nil {
			cfg.Gone(p.exit.Text)
		}
	}
}

// Send tells the process something, if it is there.
func (p *Process) Send(m *Message) { _ = p.conn.Send(m) } // one that has gone is noticed by who receives

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Close ends the process, and waits for that.
func (p *Process) Close() {
	close(p.closing)
	p.conn.Close()
	late := time.AfterFunc(endMax, p.proc.Kill)
	<-p.ended
	late.Stop()
	<-p.over
	p.starter.Close()
}

// Inherit takes over the stream that this process was started with, and what it is to do.
func Inherit() (*Conn, *Begin, error) {
	if !workerproc.Started(Command) {
		return nil, nil, errors.New("viewproc: no run has started this process")
	}
	files, control, err := workerproc.InheritParting(partingMax)
	for _, f := range files {
		f.Close() // there are none
	}
	if err != nil {
		return nil, nil, err
	}
	c := &Conn{file: control}
	m, err := c.Receive()
	if err == nil && m.Begin == nil {
		err = os.ErrInvalid
	}
	if err != nil {
		c.Close()
		return nil, nil, fmt.Errorf("viewproc: what to do: %w", err)
	}
	return c, m.Begin, nil
}
