// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/blobproc"
	"github.com/disco-sim/disco/internal/launch"
)

// What would happen again is the model's fault, what others do to a run is the machine's.
func TestCauseOf(t *testing.T) {
	died := func(s syscall.Signal) error { return &launch.WorkerError{Died: true, Signal: s} }
	for _, c := range []struct {
		err  error
		want string
	}{
		{usage("found x, want y"), causeModel},
		{&usageError{"the store doesn't answer", errAway}, causeMachine},
		{errors.New("a handler's"), causeModel},
		{launch.ErrConfig, causeModel},
		{launch.ErrStalled, causeModel},
		{&launch.WorkerError{Reason: "index out of range"}, causeModel},
		{&launch.WorkerError{Died: true, Early: true}, causeModel},
		{died(0), causeModel}, // a panic: exit status 2
		{died(syscall.SIGSEGV), causeModel},
		{died(syscall.SIGABRT), causeModel},
		{fmt.Errorf("run: %w", died(syscall.SIGKILL)), causeMachine},
		{died(syscall.SIGBUS), causeMachine},
		{&launch.WorkerError{Lost: true}, causeMachine},
		{&launch.FileError{}, causeMachine},
		{&launch.WorkerError{Wrong: true, Reason: "it can't be saved"}, causeModel},
		{&launch.WorkerError{Wrong: true, File: true, Machine: "h1"}, causeMachine},
		{&launch.MemoryError{}, causeMachine},
		{&usageError{"--memory: too much", &launch.ScarceError{}}, causeMachine},
		{&checkpoint.LockedError{Where: "x"}, causeLocked},
		{storeError(awayError{&os.PathError{Op: "mkdir", Path: "x", Err: syscall.ENOENT}}), causeMachine},
		{fmt.Errorf("begin: %w", &blobproc.FailedError{}), causeMachine},
		{awayError{&checkpoint.LockedError{Where: "x"}}, causeLocked},
		{&usageError{"there are some", placeError(&checkpoint.OtherRunError{Found: &checkpoint.Run{}})}, causeBegun},
		{&usageError{"the disk is away", placeError(errors.New("no answer"))}, causeMachine},
		{errors.Join(awayError{errors.New("the end couldn't be saved")}, nil), causeMachine},
		{&checkpoint.OtherRunError{Name: "points/1", Found: &checkpoint.Run{}}, causeModel},
		{&os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, causeMachine},
		{&os.PathError{Op: "open", Path: "x", Err: syscall.ENOENT}, causeModel},
		{&interrupted{143, errInterrupted}, causeSignal},
		{&Ended{syscall.SIGTERM}, causeSignal},
	} {
		if got := causeOf(c.err); got != c.want {
			t.Errorf("%v: found %s, want %s", c.err, got, c.want)
		}
	}
	for _, err := range []error{&usageError{"the disk is away", placeError(errors.New("no answer"))},
		fmt.Errorf("begin: %w", &blobproc.FailedError{})} {
		if !atPlace(err) {
			t.Errorf("%v: found nothing about a place", err)
		}
	}
	for err, want := range map[error]bool{fmt.Errorf("run: %w", &launch.MemoryError{Machine: "h1"}): true,
		&usageError{"--memory: too much", &launch.ScarceError{}}: true,
		&launch.FileError{}: false} {
		if e := failedEvent(err); e.Memory != want || e.Cause != causeMachine {
			t.Errorf("%v: found %+v, want memory %v", err, e, want)
		}
	}
	if e := failedEvent(fmt.Errorf("run: %w", &launch.MemoryError{Machine: "h1"})); e.Machine != "h1" {
		t.Errorf("found the machine %q, want h1", e.Machine)
	}
	for _, err := range []error{&usageError{"the machines' store doesn't answer", errAway}, &launch.FileError{}} {
		if atPlace(err) {
			t.Errorf("%v: found that it is about a place", err)
		}
	}
}
