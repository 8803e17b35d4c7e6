// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/disco-sim/disco/internal/infile"
	"github.com/disco-sim/disco/internal/procfs"
)

// strike sends a signal and records the time. errMissed when the process has ended.
func (t *try) strike(pid int, s syscall.Signal) error {
	t.struck = time.Now()
	err := syscall.Kill(pid, s)
	if errors.Is(err, syscall.ESRCH) {
		return errMissed
	}
	if err != nil {
		return fmt.Errorf("%v to process %d: %w", s, pid, err)
	}
	return nil
}

// anyWorker draws one of the workers.
func (t *try) anyWorker() (int, error) {
	pids := workersOf(t.launcher)
	if len(pids) == 0 {
		return 0, errMissed
	}
	return pids[t.random.IntN(len(pids))], nil
}

// never is for faults that the run causes itself.
func never(*try) error { return nil }

// killWorker kills a worker that simulates.
func killWorker(least, most time.Duration) func(*try) error {
	return func(t *try) error {
		if err := errors.Join(t.simulating()); err != nil {
			return err
		}
		if err := t.pause(least, most); err != nil {
			return err
		}
		pid, err := t.anyWorker()
		if err != nil {
			return err
		}
		return t.strike(pid, syscall.SIGKILL)
	}
}

// killStarting kills a worker soon after the first of them has started.
func killStarting(most time.Duration) func(*try) error {
	return func(t *try) error {
		if err := t.until("a worker", func() bool { return len(workersOf(t.launcher)) > 0 }); err != nil {
			return err
		}
		if err := t.pause(0, most); err != nil {
			return err
		}
		pid, err := t.anyWorker()
		if err != nil {
			return err
		}
		return t.strike(pid, syscall.SIGKILL)
	}
}

// killEnding kills a worker when others have ended, or some time before.
func killEnding(t *try) error {
	if err := t.simulating(); err != nil {
		return err
	}
	pids := workersOf(t.launcher)
	if len(pids) == 0 {
		return errMissed
	}
	if err := t.until("the end of a worker",
		func() bool { return len(workersOf(t.launcher)) < len(pids) }); err != nil {
		return err
	}
	pid, err := t.anyWorker()
	if err != nil {
		return err
	}
	return t.strike(pid, syscall.SIGKILL)
}

func killLauncher(least, most time.Duration) func(*try) error {
	return func(t *try) error {
		if err := t.simulating(); err != nil {
			return err
		}
		if err := t.pause(least, most); err != nil {
			return err
		}
		return t.strike(t.launcher, syscall.SIGKILL)
	}
}

func killLauncherStarting(t *try) error {
	if err := t.until("a worker", func() bool { return len(workersOf(t.launcher)) > 0 }); err != nil {
		return err
	}
	if err := t.pause(0, 30*time.Millisecond); err != nil {
		return err
	}
	return t.strike(t.launcher, syscall.SIGKILL)
}

func hangUp(t *try) error {
	if err := t.simulating(); err != nil {
		return err
	}
	t.struck = time.Now()
	return t.term.hangUp()
}

// background types Ctrl-Z, checks that launcher and workers stop, and continues them as fg does.
func background(t *try) error {
	if err := t.simulating(); err != nil {
		return err
	}
	workers := workersOf(t.launcher)
	const ctrlZ = 0x1A
	t.struck = time.Now()
	if _, err := t.term.window.Write([]byte{ctrlZ}); err != nil {
		return err
	}
	all := append([]int{t.launcher}, workers...)
	allIn := func(stopped bool) func() bool {
		return func() bool {
			for _, pid := range all {
				if s := procfs.State(pid); s == "" || (s == procfs.Stopped) != stopped {
					return false
				}
			}
			return true
		}
	}
	if err := t.within(deathMax, "the launcher and its workers to stop", allIn(true)); err != nil {
		return errors.Join(err, syscall.Kill(-t.launcher, syscall.SIGCONT))
	}
	time.Sleep(200 * time.Millisecond) // long enough to see a worker that still runs
	if !allIn(true)() {
		return errors.New("a process that was stopped continues without fg")
	}
	t.struck = time.Now()
	if err := syscall.Kill(-t.launcher, syscall.SIGCONT); err != nil {
		return err
	}
	return t.within(deathMax, "the launcher and its workers to go on", func() bool {
		for _, pid := range all {
			if procfs.State(pid) == procfs.Stopped {
				return false
			}
		}
		return true
	})
}

// stopWorker stops a worker for the time that the tour allows, then continues it.
func stopWorker(t *try) error {
	if err := t.simulating(); err != nil {
		return err
	}
	pid, err := t.anyWorker()
	if err != nil {
		return err
	}
	if err := t.strike(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	time.Sleep(t.stopFor)
	return t.strike(pid, syscall.SIGCONT)
}

// interruptAnywhere signals the launcher while it reads the scenario, places nodes, starts workers, makes nodes, calls
// them for the first time, or simulates: at any time from the one at which it has asked for signals.
func interruptAnywhere(s syscall.Signal) func(*try) error {
	return func(t *try) error {
		asked := func() bool { return catches(t.launcher, syscall.SIGTSTP) }
		if err := t.until("asking for signals", asked); err != nil {
			return err
		}
		if err := t.pause(0, 2*time.Second); err != nil {
			return err
		}
		return t.strike(t.launcher, s)
	}
}

// catches reports whether a process has a handler for a signal.
func catches(pid int, s syscall.Signal) bool {
	text, err := infile.Read(fmt.Sprintf("/proc/%d/status", pid), said)
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), "SigCgt:")
	caught, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
	mask, err := strconv.ParseUint(caught, 16, 64)
	return err == nil && mask&(1<<(s-1)) != 0
}

// interrupt signals the launcher, and again after a pause unless that is 0. The second
// time the workers can't answer.
func interrupt(s syscall.Signal, again time.Duration) func(*try) error {
	return func(t *try) error {
		if err := t.simulating(); err != nil {
			return err
		}
		if again > 0 {
			for _, pid := range workersOf(t.launcher) {
				if err := t.strike(pid, syscall.SIGSTOP); err != nil {
					return err
				}
			}
		}
		if err := t.strike(t.launcher, s); err != nil || again == 0 {
			return err
		}
		if err := t.pause(again, again); err != nil {
			return err
		}
		return t.strike(t.launcher, s)
	}
}
