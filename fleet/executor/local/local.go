// SPDX-License-Identifier: Apache-2.0

// Package local starts attempts at the pieces of the fleet's experiments as processes of this machine.
//
// Guarantee: all that an attempt starts bears the executor's mark in its environment, and is ended with it; nothing
// outlives its agent for longer than a checkpoint takes, or until the next agent sweeps. Whether an attempt has ended
// by a fault of the model's, and would so again, or of the machine's, is what the run says of itself.
package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
)

// Options are what Local starts, and where. Program, Work and Fetch are needed.
type Options struct {
	Program string // that runs scenarios: disco-run, or one with models of one's own
	Work    string // folder for scenarios and what runs write; made where it is missing. One agent has it at a time
	Owner   string // in the environment of all that is started, for people: group and machine
	Env     []string

	// Fetch gives the bytes of a text or an attachment. They are compared with the digest.
	Fetch func(ctx context.Context, d fleet.Digest) ([]byte, error)
	// Bring gives directories with the parts of a closing job, some of which it may have filled below dir. nil: the
	// program opens the places.
	Bring func(ctx context.Context, j *executor.Job, dir string) ([]string, error)

	Joins []string // flags of a run over several machines, beside those that name them; nil: it has none

	Grace time.Duration // for a run that was asked to end; 10 s if 0
	// Locked is how long a place is waited for in which another process writes: one that was killed has the lock until
	// its session at the store ends. 20 s if 0.
	Locked time.Duration
	Cache  int64 // bytes of texts and attachments that are kept for later; 1 GiB if 0
}

// Local starts runs as processes of this machine.
//
// A run ends with its agent: the kernel sends SIGTERM to it when the agent's process ends, however that does, and it
// ends at a checkpoint. Nothing is adopted by the agent's next life, since that has no right to it: with the agent its
// servers are gone, by which the leader takes the attempt for lost and opens another one, which goes on from the
// checkpoint, or finds the part whole. A process that outlived its agent would only keep that attempt from the place.
type Local struct {
	o    Options
	lock *os.File

	mu    sync.Mutex
	jobs  map[string]bool // prepared, by name
	runs  map[string]*run // of them those that were started, and are not done
	busy  busy            // of the processors, the last
	cache sync.Mutex      // one at a time looks for what can be removed
}

var _ executor.Executor = (*Local)(nil)

// Open takes the folder, and ends what an earlier agent has left there. The error says who has the folder.
func Open(ctx context.Context, o Options) (*Local, error) {
	o.Grace, o.Locked = cmp.Or(o.Grace, 10*time.Second), cmp.Or(o.Locked, 20*time.Second)
	o.Cache = cmp.Or(o.Cache, 1<<30)
	var err error
	if o.Work, err = filepath.Abs(o.Work); err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	l := &Local{o: o, jobs: map[string]bool{}, runs: map[string]*run{}}
	for _, dir := range []string{l.blobs(), l.folders()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("local: the folder for work can't be used, want one in which files can be made "+
				"(--work): %w", err)
		}
	}
	if l.lock, err = lockFolder(o.Work); err != nil {
		return nil, err
	}
	if _, err := l.Sweep(ctx); err != nil {
		return nil, errors.Join(err, l.lock.Close())
	}
	return l, nil
}

// lockFolder keeps other agents out of a folder, as long as the file that it returns is open.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("local: the folder for work: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("local: %s: another agent works there (%w): name another folder (--work)", dir, err)
	}
	return f, nil
}

func (l *Local) blobs() string   { return filepath.Join(l.o.Work, "blobs") }
func (l *Local) folders() string { return filepath.Join(l.o.Work, "runs") }

// folder is a job's own.
func (l *Local) folder(j *executor.Job) string {
	return filepath.Join(l.folders(), j.Experiment, j.Attempt.String())
}

// Prepare implements Executor.
func (l *Local) Prepare(ctx context.Context, j *executor.Job) error {
	if !filepath.IsLocal(j.Experiment) || strings.Contains(j.Experiment, "/") {
		return fmt.Errorf("local: found %.80q as the id of an experiment", j.Experiment)
	}
	if len(j.Machines) > 0 && l.o.Joins == nil {
		return fmt.Errorf("local: %s is for %d machines, and this agent has no runs over several: want --listen",
			j.Name(), len(j.Machines))
	}
	l.mu.Lock()
	l.jobs[j.Name()] = true
	l.mu.Unlock()
	dir := l.folder(j)
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = l.listMachines(j)
	}
	if err != nil {
		return fmt.Errorf("local: a folder for %s: %w", j.Name(), err)
	}
	if j.Closing != nil {
		return l.prepareParts(ctx, j)
	}
	files := append([]fleet.Attachment{{Name: j.File, Digest: j.Text}}, j.Attachments...)
	for _, f := range files {
		text, err := l.fetch(ctx, f.Digest)
		if err != nil {
			return fmt.Errorf("local: %s of %s: %w", f.Name, j.Experiment, err)
		}
		path := filepath.Join(dir, "scenario", f.Name)
		err = os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		if err != nil {
			return fmt.Errorf("local: %s of %s: %w", f.Name, j.Experiment, err)
		}
	}
	return nil
}

// Start implements Executor.
func (l *Local) Start(j *executor.Job) (executor.Run, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.jobs[j.Name()] || l.runs[j.Name()] != nil {
		return nil, fmt.Errorf("local: %s isn't prepared, or runs already", j.Name())
	}
	r := &run{l: l, job: j, done: make(chan struct{}), stop: make(chan struct{})}
	l.runs[j.Name()] = r
	go func() {
		if j.Closing != nil {
			r.outcome = r.close()
		} else {
			r.outcome = r.run()
		}
		l.mu.Lock()
		delete(l.runs, j.Name())
		l.mu.Unlock()
		close(r.done)
	}()
	return r, nil
}

// Release implements Executor.
func (l *Local) Release(j *executor.Job) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs[j.Name()] != nil {
		return fmt.Errorf("local: %s still runs", j.Name())
	}
	delete(l.jobs, j.Name())
	if err := os.RemoveAll(l.folder(j)); err != nil {
		return fmt.Errorf("local: the folder of %s: %w", j.Name(), err)
	}
	_ = os.Remove(filepath.Dir(l.folder(j))) // the experiment's, unless it has other pieces here
	return nil
}

// Sweep implements Executor.
func (l *Local) Sweep(ctx context.Context) (ended int, err error) {
	orphans := func(job string) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.runs[job] == nil
	}
	if ended, err = endMarked(ctx, l.o.Work, orphans, 0, l.o.Grace); err != nil {
		return ended, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	found, err := filepath.Glob(filepath.Join(l.folders(), "*", "*"))
	for _, dir := range found {
		name, wrong := filepath.Rel(l.folders(), dir)
		if wrong == nil && l.jobs[name] {
			continue
		}
		err = errors.Join(err, wrong, os.RemoveAll(dir))
		_ = os.Remove(filepath.Dir(dir)) // unless it has others
	}
	if err != nil {
		err = fmt.Errorf("local: folders of earlier runs: %w", err)
	}
	return ended, err
}

// Close implements Executor.
func (l *Local) Close(ctx context.Context) error {
	l.mu.Lock()
	var all []*run
	for _, r := range l.runs {
		all = append(all, r)
	}
	clear(l.jobs)
	l.mu.Unlock()
	var wg sync.WaitGroup
	errs := make([]error, len(all))
	for i, r := range all {
		wg.Go(func() { errs[i] = r.Stop(ctx) })
	}
	wg.Wait()
	_, err := l.Sweep(ctx)
	return errors.Join(append(errs, err, l.lock.Close())...)
}
