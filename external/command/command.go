// SPDX-License-Identifier: Apache-2.0

// Package command asks programs and files: a solver that reads a problem from its standard input and writes the
// solution to its standard output, or a file that is looked into.
//
// Guarantee: a program that was started is ended with the attempt that has started it, with all processes of its group,
// and what it writes is read up to external.BytesMax and not beyond.
//
//	external.External{Name: "solver", Ask: command.Command{Path: "glpsol", Args: []string{"--stdin"}}.Ask}
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/disco-sim/disco/external"
)

// Command is a program that is started for each attempt. Its standard input is the request, its standard output the
// answer, and the environment variable DISCO_KEY the call's key. An exit status other than 0 is an error, with the end
// of what it has written to its standard error.
type Command struct {
	Path string   // of the program, or its name in PATH
	Args []string // without its name
	Dir  string   // in which it is started; "": the worker's, which is the folder in which the run was started
	Env  []string // beside the worker's, as NAME=VALUE
}

// stderrShown is how much of standard error is in an error, bytes.
const stderrShown = 1000

// Ask is an external.Func.
func (c Command) Ask(ctx context.Context, call *external.Call) ([]byte, error) {
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	cmd.Dir = c.Dir
	cmd.Env = append(append(os.Environ(), c.Env...), "DISCO_KEY="+call.Key())
	cmd.Stdin = bytes.NewReader(call.Request)
	out, errs := &limited{max: external.BytesMax}, &last{max: stderrShown}
	cmd.Stdout, cmd.Stderr = out, errs
	// A group of its own, so that Ctrl-C doesn't end it before the run has decided, and what it starts ends with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 100 * time.Millisecond
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case out.full:
		return nil, fmt.Errorf("%s: found more than %d bytes on its standard output, want at most so many", c.Path,
			external.BytesMax)
	case err != nil:
		text := strings.TrimSpace(string(errs.b))
		if text != "" {
			text = ": " + text
		}
		return nil, fmt.Errorf("%s: %w%s", c.Path, err, text)
	}
	return out.b.Bytes(), nil
}

// limited takes so many bytes.
type limited struct {
	b    bytes.Buffer
	max  int
	full bool
}

var errFull = errors.New("command: too much output")

func (l *limited) Write(p []byte) (int, error) {
	if l.b.Len()+len(p) > l.max {
		l.full = true
		return 0, errFull
	}
	return l.b.Write(p)
}

// last keeps the last bytes.
type last struct {
	b   []byte
	max int
}

func (l *last) Write(p []byte) (int, error) {
	l.b = append(l.b, p...)
	if len(l.b) > l.max {
		l.b = append([]byte(nil), l.b[len(l.b)-l.max:]...)
	}
	return len(p), nil
}

// File is an external.Func that reads a file whole: the request is its path.
func File(_ context.Context, call *external.Call) ([]byte, error) {
	path := string(call.Request)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a named pipe is refused, and not waited for
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: found no regular file, want one", path)
	case info.Size() > external.BytesMax:
		return nil, fmt.Errorf("%s: found %d bytes, want at most %d", path, info.Size(), external.BytesMax)
	}
	var b bytes.Buffer
	_, err = b.ReadFrom(io.LimitReader(f, external.BytesMax))
	return b.Bytes(), err
}
