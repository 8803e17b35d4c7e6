// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"runtime"

	"github.com/disco-sim/disco/internal/machine"
	"github.com/disco-sim/disco/internal/workerproc"
)

// start starts the set's workers. After an error all of them have ended.
func (ws *workerSet) start(proceed func() error) error {
	ws.supervisor.stage.phase = PhaseStart
	if ws.launch.cfg.Transport == TransportInproc {
		return ws.startGoroutines()
	}
	return ws.startProcesses(proceed)
}

// startProcesses starts every worker as a process of this executable. A worker that dies
// meanwhile, and proceed's error, end the start.
func (ws *workerSet) startProcesses(proceed func() error) error {
	exe, err := workerproc.Executable()
	if err != nil {
		return err
	}
	for w := range ws.stats {
		err := proceed()
		if err == nil {
			err = ws.startProcess(exe, w)
		}
		if err == nil {
			err = ws.supervisor.checkStarted()
		}
		if err != nil {
			ws.supervisor.terminate(false)
			return err
		}
	}
	return nil
}

func (ws *workerSet) startProcess(exe string, index int) error {
	profile, err := ws.createProfile(index)
	if err != nil {
		return err
	}
	return ws.startWorker(index, machine.Spec{Executable: exe, Profile: profile, Threads: ws.goThreads(index),
		Log: ws.launch.log})
}

// startWorker starts one, and begins to serve it.
func (ws *workerSet) startWorker(index int, spec machine.Spec) error {
	spec.Trace = ws.trace.Of(index)
	if k := &ws.checkpointing; k.spools != nil {
		spec.Spool, spec.Restore = k.spools[index], k.restore[index]
	}
	w, err := ws.home.Start(index, spec)
	if err != nil {
		return err
	}
	ws.supervisor.add(&connection{index: index, number: ws.number(index), machine: w.Machine, control: w.Control,
		pid: w.PID, kill: w.Kill, output: w.Output}, w.Wait)
	return nil
}

// manyTurns is how many threads of a run there are for each processor where goThreads saves memory: with fewer of them,
// 3 workers on 2 processors, a worker that waits in the kernel and has to ask for its place again was slower.
const manyTurns = 4

// goThreads is how many threads of a worker process may run Go code at once, 0: as many as processors. Where many
// workers take turns on the processors, a worker needs no more than it has threads that take in and handle events: each
// further one has lists of free memory of its own, 300 KiB in all.
func (ws *workerSet) goThreads(index int) int {
	on := ws.plan.Machine[index]
	workers, each := ws.launch.threads(&ws.plan, on)
	if workers*each < manyTurns*ws.launch.cfg.machineProcessors(on) {
		return 0
	}
	return each
}

// startGoroutines starts every worker as a goroutine. A profile, if any, is of the whole
// process.
func (ws *workerSet) startGoroutines() error {
	l := ws.launch
	ws.cleanup = append(ws.cleanup, l.raiseGOMAXPROCS())
	if l.cfg.Profiles != "" && ws.index == 0 {
		file, err := ws.createProfile(0)
		if err != nil {
			return err
		}
		stop, err := machine.ProfileTo(file)
		if err != nil {
			return err
		}
		ws.cleanup = append(ws.cleanup, stop)
	}
	for w := range ws.stats {
		if err := ws.startWorker(w, machine.Spec{Registry: l.cfg.Registry}); err != nil {
			ws.supervisor.terminate(false)
			return err
		}
	}
	return nil
}

// raiseGOMAXPROCS lets as many goroutines run at once as workers hold threads, with their
// ingress threads, and two more to supervise them; the system shares the CPUs out among them,
// as it does among processes. Where the Go scheduler had to do it, a worker that waits
// in the kernel for a moment would keep its place, and another one that has work would
// get it only when the scheduler notices, 10 ms later. undo sets back what was before.
func (l *Launch) raiseGOMAXPROCS() (undo func()) {
	threads := 2*l.Workers() + 2
	before := runtime.GOMAXPROCS(0)
	if before >= threads {
		return func() {}
	}
	runtime.GOMAXPROCS(threads)
	return func() { runtime.GOMAXPROCS(before) }
}
