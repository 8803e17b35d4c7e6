// SPDX-License-Identifier: Apache-2.0

// Package remote starts attempts at the pieces of the fleet's experiments on other machines, over ssh, Slurm,
// Kubernetes, or any command whose standard input and output reach them.
//
// The command starts a host there (Serve, the hidden command host of disco-group), which has an executor of package
// local. An agent's end of it is a Remote.
//
// Guarantee: when the connection between the two ends, or nothing passes for Options.Silent, both notice. The host then
// stops its attempts, which end at a checkpoint, or are killed after Options.Grace. The agent reports them as ended by
// the machine's fault, as soon as it knows that no process of them is left, which a new connection or the scheduler
// says; and otherwise after Options.Silent + Options.Grace + a minute, saying that it doesn't know.
package remote

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
	"github.com/disco-sim/disco/internal/circuit"
	"github.com/disco-sim/disco/internal/table"
)

// Machine is one on which a host runs as long as the agent does.
type Machine struct {
	Name    string   // for people, and in messages
	Slots   int      // workers at a time
	Command []string // starts the host
}

// Scheduler starts a host for each attempt where it finds room.
type Scheduler interface {
	// Command starts a host under a name, and has so many processors for it, on another node than those of a list.
	Command(name string, processors int, without []string) []string
	// Left lists the names of hosts that are there and begin with a prefix, those that wait for room included.
	Left(ctx context.Context, prefix string) ([]string, error)
	// End ends hosts, as by SIGTERM first. It doesn't wait for their end. One that isn't there is no error.
	End(ctx context.Context, names []string) error
}

// Options are what a Remote starts, and where. Owner, Version, Fetch, and either Machines or Scheduler and Slots are
// needed.
type Options struct {
	Owner   string // group and machine of the agent: no other agent has the same
	Version string // of this program: the hosts' is the same

	Machines  []Machine
	Scheduler Scheduler
	Slots     int // workers at a time of all that a Scheduler starts

	// Fetch gives the bytes of a text or an attachment. Hosts compare them with the digest.
	Fetch func(ctx context.Context, d fleet.Digest) ([]byte, error)
	// Report gets what people may want to know: connections that are lost or there again. nil: nobody.
	Report func(text string)

	Grace  time.Duration // for a run that was asked to end; 10 s if 0, at most an hour
	Locked time.Duration // how long a place is waited for in which another process writes; 20 s if 0
	Cache  int64         // bytes of texts and attachments that each host keeps for later; 1 GiB if 0

	// Silent is how long nothing may come before a connection is taken for lost, at both ends. Smaller finds out
	// sooner, and takes a slow machine for a lost one. 20 s if 0.
	Silent  time.Duration
	Now     func() time.Time // for how long a machine that starts nothing is left alone; time.Now if nil
	Connect time.Duration    // from the start of a command of Machines until its host answers; 30 s if 0
}

// unknownWait is how long the rest of a lost attempt may take to end, besides silence and grace.
const unknownWait = time.Minute

// Remote starts attempts at hosts on other machines.
type Remote struct {
	o     Options
	mark  string
	life  context.Context // until Close
	end   context.CancelCauseFunc
	ended sync.WaitGroup // what works for links and processes

	mu       sync.Mutex
	machines []*link
	jobs     map[string]*placed // prepared, by name
	parts    map[string]*part
	failed   map[piece][]string // machines at which pieces have failed
	closed   bool
}

// placed is a job that has a place.
type placed struct {
	link       *link
	processors int
	run        *run // the last that was started, or nil

	part   *part  // on which it is; nil: that isn't known
	number uint64 // for its circuit
	judged bool
}

var _ executor.Executor = (*Remote)(nil)

// Mark is what all that an agent starts elsewhere bears in its name.
func Mark(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return "disco-" + hex.EncodeToString(sum[:6])
}

// Open connects to all machines, or sweeps what an earlier agent has left with the scheduler. Machines that can't be
// reached are tried again, unless none can.
func Open(ctx context.Context, o Options) (*Remote, error) {
	o.Grace, o.Locked = cmp.Or(o.Grace, 10*time.Second), cmp.Or(o.Locked, 20*time.Second)
	o.Cache, o.Silent = cmp.Or(o.Cache, 1<<30), cmp.Or(o.Silent, 20*time.Second)
	o.Connect = cmp.Or(o.Connect, 30*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Report == nil {
		o.Report = func(string) {}
	}
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("remote: %w", err)
	}
	r := &Remote{o: o, mark: Mark(o.Owner), jobs: map[string]*placed{}, parts: map[string]*part{},
		failed: map[piece][]string{}}
	r.life, r.end = context.WithCancelCause(context.Background())
	if o.Scheduler != nil {
		if _, err := r.Sweep(ctx); err != nil {
			return nil, err
		}
		return r, nil
	}
	first := make(chan error, len(o.Machines))
	for _, m := range o.Machines {
		l := r.newLink(m.Name, Mark(m.Name)[len("disco-"):], m.Command, m.Slots)
		r.machines = append(r.machines, l)
		r.ended.Go(func() { l.keep(first) })
	}
	var errs []error
	for range o.Machines {
		select {
		case err := <-first:
			if err != nil {
				errs = append(errs, err)
			}
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), r.Close(context.WithoutCancel(ctx)))
		}
	}
	if len(errs) == len(o.Machines) {
		_ = r.Close(context.WithoutCancel(ctx)) // nothing was there
		return nil, errors.Join(errs...)
	}
	return r, nil
}

// validate says what is wrong with options.
func (o *Options) validate() error {
	switch {
	case o.Fetch == nil || o.Owner == "":
		return errors.New("there is no Fetch, or no Owner")
	case (o.Scheduler == nil) == (len(o.Machines) == 0):
		return errors.New("there are neither machines nor a scheduler, or both")
	case o.Scheduler != nil && o.Slots < 1:
		return fmt.Errorf("found %d slots, want 1 or more", o.Slots)
	case o.Silent < silentMin || o.Silent > silentMax || o.Grace < 0 || o.Grace > graceMax || o.Locked < 0 ||
		o.Locked > graceMax || o.Cache < 0:
		return fmt.Errorf("found silence %v, grace %v, wait for locks %v, cache %d; want %v to %v, at most %v, the "+
			"same, 0 or more", o.Silent, o.Grace, o.Locked, o.Cache, silentMin, silentMax, graceMax)
	}
	names := map[string]bool{}
	for _, m := range o.Machines {
		if m.Name == "" || m.Slots < 1 || len(m.Command) == 0 || names[m.Name] {
			return fmt.Errorf("found the machine %.80q with %d slots and the command %.80q; want a name that no other "+
				"one has, 1 or more, and a command", m.Name, m.Slots, m.Command)
		}
		names[m.Name] = true
	}
	return nil
}

// Prepare implements Executor: it finds a host that has room, or has the scheduler start one, which takes until there
// is room, or ctx ends.
func (r *Remote) Prepare(ctx context.Context, j *executor.Job) error {
	if err := checkJob(j); err != nil {
		return fmt.Errorf("remote: %w", err)
	}
	for tried := map[string]error{}; ; {
		p, err := r.place(j, tried)
		if err != nil {
			return fmt.Errorf("remote: preparing %s: %w", j.Name(), err)
		}
		fetched, err := p.link.prepare(ctx, j, p)
		if err == nil {
			return nil
		}
		r.giveBack(ctx, j, p)
		if ctx.Err() != nil || !fetched || executor.IsOwn(err) {
			r.judge(p, circuit.Neither, nil)
			return fmt.Errorf("remote: preparing %s: %w", j.Name(), err)
		}
		r.judge(p, circuit.HasFailed, err)
		if p.part == nil || tried[p.part.name] != nil || r.o.Scheduler != nil && len(tried) == tryMost-1 {
			return fmt.Errorf("remote: preparing %s: %w", j.Name(), errors.Join(append(reasons(tried), err)...))
		}
		tried[p.part.name] = fmt.Errorf("%s: %w", p.part.name, err)
	}
}

// reasons are why machines didn't do, by their names.
func reasons(tried map[string]error) (all []error) {
	for _, name := range slices.Sorted(maps.Keys(tried)) {
		all = append(all, tried[name])
	}
	return all
}

// giveBack takes back what Prepare has done.
func (r *Remote) giveBack(ctx context.Context, j *executor.Job, p *placed) {
	r.mu.Lock()
	gone := r.jobs[j.Name()] == p && p.run == nil
	if gone {
		delete(r.jobs, j.Name())
	}
	r.mu.Unlock()
	if gone {
		_ = p.link.forget(context.WithoutCancel(ctx), j) // the host that has failed may have nothing of it
	}
}

// place finds a host for a job: the one that has it already, if it is there; none of those that were tried.
func (r *Remote) place(j *executor.Job, tried map[string]error) (*placed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errors.New("the executor is closed")
	}
	old := r.jobs[j.Name()]
	if old != nil && (old.link.usable() || !old.over()) {
		return old, nil
	}
	used, all := map[*link]int{}, 0
	for _, p := range r.jobs {
		if p != old {
			used[p.link] += p.processors
			all += p.processors
		}
	}
	p := &placed{processors: j.Workers}
	if r.o.Scheduler != nil {
		if all+j.Workers > r.o.Slots {
			return nil, fmt.Errorf("it wants %s, and %d of %d are taken", table.Plural(j.Workers, "slot"), all,
				r.o.Slots)
		}
		p.link = r.schedule(j, r.without(j, tried))
	} else if p.link = r.roomiest(j, used, tried); p.link == nil {
		err := fmt.Errorf("it wants %s: %w", table.Plural(j.Workers, "slot"), r.full(used, tried))
		if len(tried) == 0 && slices.ContainsFunc(r.machines, func(l *link) bool { return l.slots >= j.Workers }) {
			err = &executor.RefusedError{Why: err} // there will be room
		}
		return nil, err
	} else {
		p.part = r.part(p.link.title)
		p.number, _ = p.part.starts.Allow(r.o.Now()) // as it was asked for
	}
	r.jobs[j.Name()] = p
	return p, nil
}

// roomiest is the machine with most free slots, or nil if none has enough. One at which the piece has failed is taken
// where no other will do. mu is held.
func (r *Remote) roomiest(j *executor.Job, used map[*link]int, tried map[string]error) (best *link) {
	failed := r.failed[pieceOf(j)]
	worse := func(l *link) int {
		if slices.Contains(failed, l.title) {
			return 1
		}
		return 0
	}
	for _, l := range r.machines {
		if l.slots-used[l] < j.Workers || tried[l.title] != nil || r.away(l) != nil {
			continue
		}
		if best == nil || cmp.Or(worse(l)-worse(best), best.slots-used[best]-(l.slots-used[l])) < 0 {
			best = l
		}
	}
	return best
}

// full says how the machines are. mu is held.
func (r *Remote) full(used map[*link]int, tried map[string]error) error {
	var errs []error
	for _, l := range r.machines {
		if why := cmp.Or(tried[l.title], r.away(l)); why != nil {
			errs = append(errs, why)
		} else {
			errs = append(errs, fmt.Errorf("%s has %d of %d taken", l.title, used[l], l.slots))
		}
	}
	return errors.Join(errs...)
}

// schedule makes the host of one attempt, which the scheduler starts. mu is held.
func (r *Remote) schedule(j *executor.Job, without []string) *link {
	sum := sha256.Sum256([]byte(j.Name()))
	// A name isn't used again: what had it may still end.
	name := fmt.Sprintf("%s-%016x", hex.EncodeToString(sum[:4]), rand.Uint64())
	l := r.newLink(j.Name(), name, r.o.Scheduler.Command(r.mark+"-"+name, j.Workers, without), j.Workers)
	l.job = r.mark + "-" + name
	r.ended.Go(l.once)
	return l
}

// over tells whether nothing of it runs.
func (p *placed) over() bool {
	if p.run == nil {
		return true
	}
	select {
	case <-p.run.done:
		return true
	default:
		return false
	}
}

// Start implements Executor.
func (r *Remote) Start(j *executor.Job) (executor.Run, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.jobs[j.Name()]
	if p == nil || !p.over() || r.closed {
		return nil, fmt.Errorf("remote: %s isn't prepared, or runs already", j.Name())
	}
	run, err := p.link.start(j, p)
	if err != nil {
		return nil, fmt.Errorf("remote: starting %s: %w", j.Name(), err)
	}
	p.run = run
	return run, nil
}

// Release implements Executor.
func (r *Remote) Release(j *executor.Job) error {
	r.mu.Lock()
	p := r.jobs[j.Name()]
	if p == nil {
		r.mu.Unlock()
		return nil
	}
	if !p.over() {
		r.mu.Unlock()
		return fmt.Errorf("remote: %s still runs", j.Name())
	}
	delete(r.jobs, j.Name())
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), r.unknownAfter())
	defer cancel()
	return p.link.forget(ctx, j)
}

// unknownAfter is when what is left of lost attempts has ended, as far as its machine runs.
func (r *Remote) unknownAfter() time.Duration { return r.o.Silent + r.o.Grace + unknownWait }

// Sweep implements Executor. A machine that isn't connected sweeps when it is; until then it is an error.
func (r *Remote) Sweep(ctx context.Context) (ended int, err error) {
	if r.o.Scheduler != nil {
		return r.sweepScheduler(ctx)
	}
	var errs []error
	for _, l := range r.machines {
		n, err := l.sweep(ctx)
		ended += n
		if err != nil {
			errs = append(errs, fmt.Errorf("remote: sweeping %s: %w", l.title, err))
		}
	}
	return ended, errors.Join(errs...)
}

// sweepScheduler ends hosts with this agent's mark that no job has, and waits for their end.
func (r *Remote) sweepScheduler(ctx context.Context) (ended int, err error) {
	told := map[string]bool{}
	for {
		all, err := r.o.Scheduler.Left(ctx, r.mark+"-")
		if err != nil {
			return len(told), fmt.Errorf("remote: sweeping: %w", err)
		}
		var left, fresh []string
		r.mu.Lock()
		lives := map[string]bool{}
		for _, p := range r.jobs {
			lives[p.link.job] = true
		}
		r.mu.Unlock()
		for _, name := range all {
			if !lives[name] {
				left = append(left, name)
				if !told[name] {
					told[name], fresh = true, append(fresh, name)
				}
			}
		}
		if len(left) == 0 {
			return len(told), nil
		}
		if len(fresh) > 0 {
			if err := r.o.Scheduler.End(ctx, fresh); err != nil {
				return len(told), fmt.Errorf("remote: sweeping: %w", err)
			}
		}
		if !sleep(ctx, pollWait) {
			return len(told), fmt.Errorf("remote: sweeping: %d don't end, %s among them: %w", len(left), left[0],
				context.Cause(ctx))
		}
	}
}

// pollWait is between two questions to a scheduler.
const pollWait = 500 * time.Millisecond

// Close implements Executor.
func (r *Remote) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	all := map[*link]bool{}
	for _, l := range r.machines {
		all[l] = true
	}
	for _, p := range r.jobs {
		all[p.link] = true
	}
	clear(r.jobs)
	r.mu.Unlock()
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	for l := range all {
		wg.Go(func() {
			if err := l.close(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("remote: closing %s: %w", l.title, err))
			}
		})
	}
	wg.Wait()
	r.end(errors.New("the executor is closed"))
	r.ended.Wait()
	if r.o.Scheduler != nil {
		_, err := r.sweepScheduler(ctx)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
