// SPDX-License-Identifier: Apache-2.0

package workerproc

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// handedMax bounds how many files a worker is handed: with 64 workers its boards, pools, and
// lanes from and to each peer; and the input, a trace and a profile.
const handedMax = 260

// IsWorker reports whether a launcher started this process as a worker.
func IsWorker() bool { return Started(Command) }

// Started reports whether this process was started by package workerproc with that command.
func Started(command string) bool {
	return len(os.Args) > 1 && os.Args[1] == command && os.Getenv(workerEnv) != ""
}

// Inherit takes over the descriptors that were handed to this process. Nothing that a
// model starts inherits them in turn, but for the life pipe, which is there for that.
func Inherit() (files []*os.File, control *os.File, err error) { return inherit(unix.SIGKILL) }

// InheritParting is Inherit of a process that was started with Config.Parting: when its launcher has died, it has so
// much time to end what it has elsewhere. Then its process group is killed.
func InheritParting(limit time.Duration) (files []*os.File, control *os.File, err error) {
	gone := make(chan os.Signal, 1)
	signal.Notify(gone, parting)
	go func() {
		<-gone
		time.Sleep(limit)
		_ = unix.Kill(0, unix.SIGKILL) // it can't fail
	}()
	return inherit(parting)
}

// parting is the signal by which a process learns that its launcher has died, where it doesn't end by that.
const parting = unix.SIGTERM

func inherit(with unix.Signal) (files []*os.File, control *os.File, err error) {
	count, err := strconv.Atoi(os.Getenv(workerEnv))
	if err != nil || count < 0 || count > handedMax {
		return nil, nil, fmt.Errorf("workerproc: %s is %q, want the number of descriptors that a launcher "+
			"handed over", workerEnv, os.Getenv(workerEnv))
	}
	if err := os.Unsetenv(workerEnv); err != nil {
		return nil, nil, fmt.Errorf("workerproc: %w", err)
	}
	for fd := controlFD; fd < firstFD+count; fd++ {
		if fd != lifeFD {
			syscall.CloseOnExec(fd)
		}
	}
	if err := endWithLauncher(lifeFD, with); err != nil {
		return nil, nil, err
	}
	if err := syscall.SetNonblock(controlFD, true); err != nil {
		return nil, nil, fmt.Errorf("workerproc: descriptor %d is no control stream: %w", controlFD, err)
	}
	for i := range count {
		files = append(files, os.NewFile(uintptr(firstFD+i), fmt.Sprintf("handed-%d", i)))
	}
	return files, os.NewFile(controlFD, "control"), nil
}
