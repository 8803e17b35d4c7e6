// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a command that reaches a host by its standard input and output.
type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  io.ReadCloser
	errs tail
	gone chan struct{} // closed when it has ended
}

// startProcess starts a command. It has ended only behind reap.
func startProcess(command []string) (*process, error) {
	p := &process{cmd: exec.Command(command[0], command[1:]...), gone: make(chan struct{})}
	p.cmd.Stderr = &p.errs
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // with what it starts, such as ProxyCommand of ssh
	p.cmd.WaitDelay = time.Second                           // what it has left may hold its standard error
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.out, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("the command can't be started: %w", err)
	}
	return p, nil
}

func (p *process) Read(b []byte) (int, error)  { return p.out.Read(b) }
func (p *process) Write(b []byte) (int, error) { return p.in.Write(b) }

// Close ends both directions: a host that hears of it ends.
func (p *process) Close() error { return errors.Join(p.in.Close(), p.out.Close()) }

// killAfter is between SIGTERM and SIGKILL.
const killAfter = 3 * time.Second

// reap waits for the end of a process of which nothing is read any more. It may end by itself for a while.
func (p *process) reap(itself time.Duration) {
	go func() {
		_ = p.cmd.Wait() // its state says it all
		close(p.gone)
	}()
	for _, step := range []struct {
		wait time.Duration
		then syscall.Signal
	}{{itself, syscall.SIGTERM}, {killAfter, syscall.SIGKILL}} {
		t := time.NewTimer(step.wait)
		select {
		case <-p.gone:
			t.Stop()
			return
		case <-t.C:
			p.signal(step.then)
		}
	}
	<-p.gone
}

// signal signals the process, which wasn't waited for yet, and what it has started.
func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) } // it may have ended

// describe adds what a process has said and how it has ended to the end of its connection.
func (p *process) describe(ctx context.Context, err error) error {
	t := time.NewTimer(2 * killAfter)
	defer t.Stop()
	select {
	case <-p.gone:
	case <-t.C:
	case <-ctx.Done():
	}
	said := p.errs.text()
	if foreign := (*foreignError)(nil); errors.As(err, &foreign) {
		err = fmt.Errorf("%w, on the command's standard output, where only the host writes: if a startup file of the "+
			"login shell writes it (.bashrc, .profile), have that write only where standard output is a terminal", err)
	}
	ended := ""
	select {
	case <-p.gone:
		ended = fmt.Sprintf(" (%v)", p.cmd.ProcessState)
	default:
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the command has ended")
	}
	if said != "" {
		said = ": " + said
	}
	return fmt.Errorf("%w%s%s", err, ended, said)
}

// tailMax bounds what is kept of standard error, in bytes.
const tailMax = 1000

// tail keeps the last of what is written.
type tail struct {
	mu   sync.Mutex
	last []byte
}

// Write never fails.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b[max(0, len(b)-tailMax):]...)
	t.last = t.last[max(0, len(t.last)-tailMax):]
	return len(b), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(bytes.TrimSpace(t.last)), "\uFFFD")
}
