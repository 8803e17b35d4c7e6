// SPDX-License-Identifier: Apache-2.0

// Package worker is one worker of a run: it connects the transport and the simulation. It hosts the nodes that were
// placed on it, drives their Engine, and keeps the lanes to its peers moving, in one duty cycle on one thread. It
// is the same in a process of its own and in a goroutine of the launcher's process.
//
// Guarantee: Serve ends on Exit, when its launcher is gone, and after any
// error, and then holds no lane, mapping or goroutine any more. While there is work the
// cycle makes no system call and doesn't allocate; while there is none it sleeps.
//
//	err := worker.Serve(control, registry, func(s *worker.Setup) (worker.Segments, *os.File, error) {
//		return attach(s)
//	})
//
// control.go has the protocol with the launcher, segments.go what is in memory, run.go
// the cycle.
package worker
