// SPDX-License-Identifier: Apache-2.0

// Package pty gives tests a pseudo terminal: a person's side, and the side of the programs that it starts.
//
// Guarantee: what is written to one side comes out at the other, as on a terminal, until one is closed; nothing is left
// then.
//
//	window, line, err := pty.Open()
//	err = pty.Resize(line, 60, 24)
//	cmd.Stdout = line
package pty

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Open makes a pseudo terminal. What is written to window is typed input; what programs write to line must be read
// from window, or they wait. Both are for the caller to close.
func Open() (window, line *os.File, err error) {
	window, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("pty: %w", err)
	}
	number, err := unlock(window)
	if err == nil {
		line, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("pty: %w", err), window.Close())
	}
	return window, line, nil
}

// control calls f with the descriptor of a file. Fd would make it block, also while it is closed.
func control(file *os.File, f func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = f(int(fd)) })
	return errors.Join(err, failed)
}

// unlock makes the programs' side of a terminal usable and says which one it is.
func unlock(window *os.File) (number int, err error) {
	err = control(window, func(fd int) (failed error) {
		if failed = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); failed == nil {
			number, failed = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		}
		return failed
	})
	return number, err
}

// Resize says how many columns and rows the terminal has.
func Resize(side *os.File, columns, rows uint16) error {
	return control(side, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	})
}
