// SPDX-License-Identifier: Apache-2.0

// Package machine is what one machine has of a set of workers: segments of shared memory, and workers as processes,
// or as goroutines of this process.
//
// Guarantee: segments have no names, so they are gone when the last process that maps them is. Memory that can't be
// made, and a worker that can't be started, leave nothing of them behind. A worker process ends with the one that
// started it (package workerproc), and maps nothing but what it was handed, each with its kind and size checked.
//
//	m, err := machine.Make(plan, machine.Config{Input: input, Proceed: proceed})
//	defer m.Close() // when all workers have ended
//	w, err := m.Start(0, machine.Spec{Log: log})
//	// ... docs/format/control.md over w.Control
//	m.Release() // once all workers have attached
//	exit := w.Wait()
//
// The process itself finds out by workerproc.IsWorker, and is then all Serve.
package machine
