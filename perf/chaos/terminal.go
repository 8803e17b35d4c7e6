// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/disco-sim/disco/internal/pty"
)

// terminal is a pseudo terminal: what is written to window is typed input.
type terminal struct {
	window *os.File // the side of the user
	line   *os.File // the side of the programs
}

func openTerminal() (*terminal, error) {
	window, line, err := pty.Open()
	if err != nil {
		return nil, err
	}
	// What is shown on it must be read, or its writers wait.
	go func() { _, _ = io.Copy(io.Discard, window) }() // ends with the window
	return &terminal{window: window, line: line}, nil
}

// hangUp closes the window.
func (t *terminal) hangUp() error { return t.window.Close() }

// shellStatus is the exit status of a shell whose program was ended by a signal, less
// the signal's number.
const shellStatus = 128

// beShell is the life of the process between a terminal and the program: it leads the session, and the program is a
// job of its own in front. A stopped job stays stopped until fg, which here means SIGCONT to its group.
func beShell(args []string) int {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Foreground: true, Ctty: 0}
	if err := os.Setenv(roleEnv, roleProgram); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 2
	}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 2
	}
	_ = cmd.Wait() // its state says more
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return shellStatus + int(ws.Signal())
	}
	return cmd.ProcessState.ExitCode()
}
