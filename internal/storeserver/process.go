// SPDX-License-Identifier: Apache-2.0

// Package storeserver starts real servers of metadata stores on free ports of the loopback, kills, stops and restarts
// them, and puts a proxy between them and their clients that cuts the traffic off.
//
// Guarantee: nothing outlives the process that started it, and [ErrAbsent] says what is missing where a server can't
// be had. Nothing here stands in for a server.
package storeserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// ErrAbsent is wrapped by errors that say that a program isn't installed here.
var ErrAbsent = errors.New("isn't installed")

// Process is one server process, which can be started again after its end with what it left in its folder.
type Process struct {
	dir  string // the output goes to output.txt in there
	args []string

	mu    sync.Mutex
	cmd   *exec.Cmd     // nil before the first start and after Kill
	ended chan struct{} // closed when cmd has ended, by whatever
}

// newProcess doesn't start it.
func newProcess(dir string, args ...string) *Process { return &Process{dir: dir, args: args} }

// Start starts the process. What it needs until it serves is for the caller to wait for.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		return fmt.Errorf("storeserver: %s runs already", p.args[0])
	}
	output, err := os.OpenFile(filepath.Join(p.dir, "output.txt"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer output.Close()
	cmd := exec.Command(p.args[0], p.args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("storeserver: %w", err)
	}
	p.cmd, p.ended = cmd, make(chan struct{})
	go func(ended chan struct{}) {
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		close(ended)
	}(p.ended)
	return nil
}

// Wait waits until a process that was started has ended by itself or by a signal, and gives its exit code (-1: a
// signal).
func (p *Process) Wait(ctx context.Context) (code int, err error) {
	p.mu.Lock()
	cmd, ended := p.cmd, p.ended
	p.mu.Unlock()
	select {
	case <-ended:
		return cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("storeserver: %s hasn't ended: %w", cmd.Path, context.Cause(ctx))
	}
}

// Signal sends a signal: SIGSTOP halts the process without closing its connections, SIGCONT lets it go on. One that
// doesn't run takes none.
func (p *Process) Signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(s) // it may have ended by itself
	}
}

// Kill ends the process at once, and waits until it is gone. Calling it again does nothing.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended by itself
	<-p.ended
	p.cmd = nil
}

// Output is the end of what the process wrote, for messages.
func (p *Process) Output() string { return p.outputFrom(0) }

// outputFrom is the end of what was written after the first bytes.
func (p *Process) outputFrom(from int64) string {
	const most = 4 << 10
	f, err := os.Open(filepath.Join(p.dir, "output.txt"))
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, _ = f.Seek(max(0, from, size-most), io.SeekStart)
	}
	var text strings.Builder
	_, _ = io.Copy(&text, io.LimitReader(f, most)) // what could be read
	return text.String()
}

// freePorts are ports of the loopback on which nobody listened just now.
func freePorts(n int) (ports []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("storeserver: %w", err)
		}
		defer l.Close()
		ports = append(ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return ports, nil
}
