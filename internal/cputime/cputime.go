// SPDX-License-Identifier: Apache-2.0

// Package cputime asks the kernel how much processor time this process has used, and what its monotonic clock says.
//
// Guarantee: a figure counts user and system time of all threads, and never falls. Where the kernel
// doesn't answer it is 0.
//
//	before := cputime.Self()
//	work()
//	used := cputime.Self() - before // seconds
package cputime

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Self gives the seconds that this process has used.
func Self() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// Monotonic gives the nanoseconds of the machine's monotonic clock, which is the same for all of its processes.
func Monotonic() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return t.Nano()
}
