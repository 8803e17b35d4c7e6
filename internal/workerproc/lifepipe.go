// SPDX-License-Identifier: Apache-2.0

package workerproc

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// A worker ends with its launcher by PDEATHSIG. What its model has started doesn't: the
// kernel forgets that setting in every child. So each worker process also holds the
// reading end of a pipe, the life pipe, whose other end the launcher keeps open and
// never writes to. However the launcher dies, the kernel closes that end, and sends the
// signal that was asked for here to the worker's whole process group, stopped processes
// included. The model's processes inherit the reading end: PDEATHSIG comes when the
// launcher's first thread ends, before its last one closes the pipe, and were the worker's
// descriptor the only one, the kernel would forget the request with the worker. A process
// that leaves the group (setsid, setpgid) is out of reach, with the rights that a user has,
// and so is one that has closed the descriptor, if its worker ends first.

// endWithLauncher makes the kernel send a signal to this process's group, such as SIGKILL, when the other end of the
// life pipe is closed. The descriptor stays open as long as the process, or one that it has
// started, lives.
func endWithLauncher(fd int, with unix.Signal) error {
	err := func() error {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETOWN, -unix.Getpgrp()); err != nil {
			return err
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETSIG, int(with)); err != nil {
			return err
		}
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, unix.O_ASYNC|unix.O_NONBLOCK)
		return err
	}()
	if err != nil {
		return fmt.Errorf("workerproc: pipe to the launcher (descriptor %d): %w", fd, err)
	}
	// The launcher may have died before the kernel was asked.
	if n, err := unix.Read(fd, make([]byte, 1)); n == 0 && err == nil || err != nil &&
		!errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
		return errors.New("workerproc: the launcher is gone")
	}
	return nil
}

// lifePipe makes the pipe of one worker.
func lifePipe() (theirs, ours *os.File, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(p[0]), "life"), os.NewFile(uintptr(p[1]), "life"), nil
}
