// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
	"github.com/disco-sim/disco/internal/infile"
	"github.com/disco-sim/disco/internal/until"
)

const (
	pipesMax   = 2 * time.Second // that output of processes is waited for which a run has left
	leaveWait  = 3 * time.Second // that they have to end by themselves: what reaches a store gives its lock back
	leaveMax   = 9 * time.Second // until they are killed
	lockedWait = time.Second     // between two looks at a place in which another process writes
)

// resultsKind is the file with the results of one replication.
var resultsKind = infile.Kind{Name: "the results of a run", BytesMax: 256 << 20}

// run is a Run of Local.
type run struct {
	l       *Local
	job     *executor.Job
	output  output
	outcome executor.Outcome // before done is closed
	done    chan struct{}
	stop    chan struct{} // closed when Stop is called first

	mu      sync.Mutex
	process *os.Process // the one that runs now, or nil
	stopped bool
}

func (r *run) Progress() fleet.Progress  { return r.output.now() }
func (r *run) Output() []byte            { return r.output.tail(fleet.MaxLog) }
func (r *run) Done() <-chan struct{}     { return r.done }
func (r *run) Outcome() executor.Outcome { return r.outcome }

// Stop implements Run.
func (r *run) Stop(ctx context.Context) error {
	r.mu.Lock()
	if !r.stopped {
		r.stopped = true
		close(r.stop)
		r.signal(syscall.SIGTERM)
		r.signal(syscall.SIGCONT) // it may have been stopped
	}
	r.mu.Unlock()
	r.output.stopping()
	grace := time.NewTimer(r.l.o.Grace)
	defer grace.Stop()
	for {
		select {
		case <-r.done:
			if e := r.outcome.Error; e != nil && e.Step == stepEnding {
				return errors.New(e.Message)
			}
			return nil
		case <-grace.C:
			r.mu.Lock()
			r.signal(syscall.SIGKILL)
			r.mu.Unlock()
		case <-ctx.Done():
			return fmt.Errorf("local: stopping %s: %w", r.job.Name(), context.Cause(ctx))
		}
	}
}

// signal sends a signal to the process, if there is one. mu is held.
func (r *run) signal(s syscall.Signal) {
	if r.process != nil {
		_ = r.process.Signal(s) // it may have ended
	}
}

// The steps in errors.
const (
	stepStarting   = "starting"
	stepSimulating = "simulating"
	stepEnding     = "ending"
)

// run is the attempt, from its begin to its end.
func (r *run) run() executor.Outcome {
	began := time.Now()
	command := []string{"run", fileArgument(r.job.File), "--only", strconv.Itoa(r.job.Attempt.Replication),
		"--replications", strconv.Itoa(r.job.Replications), "--checkpoint-to", r.job.Place}
	more := saving(r.job)
	for _, figure := range r.job.Figures {
		more = append(more, "--figure", figure)
	}
	if r.job.From != "" {
		command = slices.Concat([]string{"resume", r.job.From, "--at", fleet.HandedOn}, command[2:])
	}
	command = slices.Concat(command, r.job.Args, more)
	begins := true
	for {
		state, err := r.process1(r.simulating(command))
		if left := r.endRest(); left != nil {
			return r.failed(fleet.ErrorMachine, stepEnding, left.Error())
		}
		out, again := r.outcomeOf(state, err, began)
		switch {
		case again == "":
			return out
		case again == causeBegun && begins:
			begins = false
			command = slices.Concat([]string{"resume", r.job.Place}, saved(r.job.Args), more)
			continue
		case time.Since(began) > r.l.o.Locked:
			out := r.failed(fleet.ErrorMachine, stepStarting, again)
			out.Own = r.job.OwnPlace
			return out
		}
		select {
		case <-time.After(lockedWait):
		case <-r.stop:
			return executor.Outcome{Stopped: true}
		}
	}
}

// fileArgument names a file of the folder in which a program is started, so that it is taken neither for a flag nor for
// standard input.
func fileArgument(name string) string {
	if strings.HasPrefix(name, "-") {
		return "./" + name
	}
	return name
}

// simulating are the arguments of a run with those that it has whatever it begins with.
func (r *run) simulating(command []string) []string {
	dir := r.l.folder(r.job)
	return append(slices.Concat(command, r.l.joins(r.job)), "--workers", strconv.Itoa(r.job.Workers), "--progress",
		"json", "--json", filepath.Join(dir, "result.json"), "--out", filepath.Join(dir, "out"), "--crash-dir", "none")
}

// process1 runs one process to its end.
func (r *run) process1(args []string) (*os.ProcessState, error) {
	// Linux sends the signal that is asked for here when the thread ends that has started the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dir := r.l.folder(r.job)
	cmd := exec.Command(r.l.o.Program, args...)
	cmd.Dir = filepath.Join(dir, "scenario")
	cmd.Env = append(append(os.Environ(), r.l.o.Env...), ownerVariable+"="+r.l.o.Owner,
		workVariable+"="+r.l.o.Work, jobVariable+"="+r.job.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.WaitDelay = pipesMax
	out, errs := &lines{to: &r.output}, &lines{to: &r.output}
	cmd.Stdout, cmd.Stderr = out, errs
	r.output.begin()
	_ = os.Remove(filepath.Join(dir, "result.json"))
	r.mu.Lock()
	if r.stopped {
		r.mu.Unlock()
		return nil, nil
	}
	if err := cmd.Start(); err != nil {
		r.mu.Unlock()
		return nil, err
	}
	r.process = cmd.Process
	r.mu.Unlock()
	err := cmd.Wait()
	r.mu.Lock()
	r.process = nil
	r.mu.Unlock()
	out.end()
	errs.end()
	if cmd.ProcessState == nil {
		return nil, err
	}
	return cmd.ProcessState, nil
}

// endRest ends what is left of the run's processes: those that models have started, and what reaches a store, which
// gives its lock back first.
func (r *run) endRest() error {
	name := r.job.Name()
	_, err := endMarked(context.Background(), r.l.o.Work, func(job string) bool { return job == name },
		leaveWait, leaveMax)
	return err
}

// The causes that --progress json has for the end of a run (docs/running.md).
const (
	causeModel  = "model"
	causeBegun  = "begun"
	causeLocked = "locked"
)

// outcomeOf is what a process has come to. again is why another one is to be started: causeBegun, or what the run says
// of a place in which another process writes.
func (r *run) outcomeOf(state *os.ProcessState, err error, began time.Time) (out executor.Outcome, again string) {
	stopped := r.wasStopped()
	if err != nil {
		return r.failed(fleet.ErrorMachine, stepStarting,
			fmt.Sprintf("%s can't be started: %v", r.l.o.Program, err)), ""
	}
	failed := r.output.failure()
	switch {
	case state != nil && (state.ExitCode() == 0 || state.ExitCode() == 3):
		return r.finished(began), ""
	case stopped: // whatever it says
		return executor.Outcome{Stopped: true}, ""
	case failed != nil && failed.Cause == causeBegun:
		return out, causeBegun
	case failed != nil && failed.Cause == causeLocked:
		return out, failed.Text
	case failed != nil && failed.Cause == causeModel:
		return r.failed(fleet.ErrorModel, stepSimulating, failed.Text), ""
	case failed != nil:
		out = r.failed(fleet.ErrorMachine, stepSimulating, failed.Text)
		out.Own, out.Error.Scarce = failed.Memory || failed.Place && r.job.OwnPlace, failed.Memory
		if isMachine(r.job, failed.Machine) {
			out.Error.Where = failed.Machine
		}
		return out, ""
	case state.ExitCode() < 0:
		return r.failed(fleet.ErrorMachine, stepSimulating,
			fmt.Sprintf("the run's process has ended: %v", state)), ""
	}
	return r.failed(fleet.ErrorModel, stepSimulating, fmt.Sprintf("the run has ended with %v: %s", state,
		r.lastLines())), ""
}

func (r *run) wasStopped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopped
}

// lastLines are the last few lines that a run has written.
func (r *run) lastLines() string {
	all := bytes.Split(bytes.TrimSpace(r.output.tail(1000)), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-3):], []byte("\n")))
}

// finished reads the results.
func (r *run) finished(began time.Time) executor.Outcome {
	text, err := infile.Read(filepath.Join(r.l.folder(r.job), "result.json"), resultsKind)
	var found results
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	if err == nil && found.Hash == "" {
		err = errors.New("there is no trace hash among them")
	}
	if err != nil {
		return r.failed(fleet.ErrorMachine, stepEnding, fmt.Sprintf("the run has ended well, but its results can't be "+
			"read: %v", err))
	}
	figures := found.figures(r.job)
	for _, must := range r.job.Must {
		if until.NameOf(must, func(name string) (float64, bool) { x, ok := figures[name]; return x, ok }) == "" {
			return r.failed(fleet.ErrorModel, stepEnding, fmt.Sprintf("--until: the results have no figure %s: %s",
				must, strings.Join(found.NoFigures, "; ")))
		}
	}
	return executor.Outcome{Kept: &fleet.Kept{Place: r.job.Place, Hash: found.Hash, Events: found.Events,
		Wall: time.Since(began).Seconds(), Figures: figures}}
}

// failed is an outcome with an error, in bounded text.
func (r *run) failed(kind, step, message string) executor.Outcome {
	message = strings.ToValidUTF8(message, "\uFFFD")
	if len(message) > fleet.MaxReason {
		message = strings.ToValidUTF8(message[:fleet.MaxReason-4], "") + " …"
	}
	trace := strings.ToValidUTF8(string(r.output.tail(fleet.MaxTrace)), "\uFFFD")
	trace = strings.ToValidUTF8(trace[max(0, len(trace)-fleet.MaxTrace):], "")
	return executor.Outcome{Error: &fleet.Error{Type: kind, Step: step, Trace: trace,
		Message: cmp.Or(strings.TrimSpace(message), "it has said nothing")}}
}
