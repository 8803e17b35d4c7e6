// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/disco-sim/disco/fleet/executor"
)

// The waits between attempts to connect: random ones up to a bound that doubles.
const (
	backoffMin = 500 * time.Millisecond
	backoffMax = 15 * time.Second
)

// link is the agent's connection to one host, or the lack of it.
type link struct {
	r       *Remote
	title   string // for people
	name    string // of the host
	command []string
	slots   int
	job     string // its name at the scheduler; "": it is a machine's
	life    context.Context
	stop    context.CancelCauseFunc
	ended   chan struct{} // closed when nobody works for it any more

	mu      sync.Mutex
	c       *client // nil: it isn't connected
	why     error   // not connected, and not for the first time
	changed chan struct{}
	jobs    map[string]*executor.Job // prepared, by name: it may ask for their blobs
	runs    map[string]*run          // started, and not done
	closed  bool                     // the host has ended all
}

func (r *Remote) newLink(title, name string, command []string, slots int) *link {
	l := &link{r: r, title: title, name: name, command: command, slots: slots, ended: make(chan struct{}),
		changed: make(chan struct{}), jobs: map[string]*executor.Job{}, runs: map[string]*run{}}
	l.life, l.stop = context.WithCancelCause(r.life)
	return l
}

// keep connects to a machine, again and again, until the link is stopped. first gets what the first attempt comes to.
func (l *link) keep(first chan<- error) {
	defer close(l.ended)
	said := ""
	for failures := 0; ; failures++ {
		c, err := l.dial(l.r.o.Connect)
		if err == nil {
			l.up(c)
		} else {
			l.down(err)
		}
		if first != nil {
			first <- err // the link is up or down by then
			first = nil
		}
		if err == nil {
			began := time.Now()
			if said != "" {
				l.r.o.Report(l.title + " is connected again")
				said = ""
			}
			err = l.use(c)
			if time.Since(began) > backoffMax {
				failures = 0
			}
		}
		if l.life.Err() == nil && err.Error() != said {
			said = err.Error()
			l.r.o.Report(said + "; it is tried again")
		}
		if !sleep(l.life, rand.N(min(backoffMax, backoffMin<<min(failures, 10)))+time.Millisecond) {
			l.mu.Lock()
			well := l.closed
			l.mu.Unlock()
			l.settle(errClosing, well)
			return
		}
	}
}

// once has a scheduler start the host, uses it, and ends what the scheduler has left of it.
func (l *link) once() {
	defer close(l.ended)
	c, err := l.dial(schedulerMax)
	if err == nil {
		l.up(c)
		err = l.use(c)
	}
	l.down(err)
	ctx, cancel := context.WithTimeout(context.Background(), l.r.unknownAfter())
	defer cancel()
	for failures := 0; ; failures++ {
		left, wrong := l.r.o.Scheduler.Left(ctx, l.job)
		if wrong == nil && len(left) == 0 {
			l.settle(err, true)
			return
		}
		if wrong == nil {
			wrong = l.r.o.Scheduler.End(ctx, left)
		}
		wait := pollWait
		if wrong != nil {
			l.r.o.Report(fmt.Sprintf("ending %s: %v", l.title, wrong))
			wait += rand.N(min(backoffMax, backoffMin<<min(failures, 10)))
		}
		if !sleep(ctx, wait) {
			l.settle(err, false)
			return
		}
	}
}

// schedulerMax is longer than any queue: the caller of Prepare says when to give up.
const schedulerMax = 10 * 365 * 24 * time.Hour

// use has a connection used until it ends, and returns why it has.
func (l *link) use(c *client) error {
	err := c.serve()
	l.down(err)
	return err
}

// up says that a host is there: nothing of earlier attempts is left.
func (l *link) up(c *client) {
	l.settle(nil, true)
	l.change(func() { l.c, l.why = c, nil })
}

// down says that it isn't: what ran is lost.
func (l *link) down(err error) {
	l.change(func() { l.c, l.why = nil, err })
	for _, r := range l.running() {
		r.lose(err)
	}
}

func (l *link) change(by func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	by()
	close(l.changed)
	l.changed = make(chan struct{})
}

// settle ends lost runs, of which nothing is left, or something may be.
func (l *link) settle(err error, known bool) {
	for _, r := range l.running() {
		r.settle(err, known)
	}
}

func (l *link) running() []*run {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.runs))
}

// now is the connection, or nil, and what is closed when there is another one or none.
func (l *link) now() (*client, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.c, l.changed
}

// usable tells whether there is a host, or will be one that a scheduler starts.
func (l *link) usable() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.c != nil || l.job != "" && l.why == nil
}

// errConnecting is why there is no connection yet.
var errConnecting = errors.New("it was never connected")

// reason is why there is no connection, or nil.
func (l *link) reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.c != nil:
		return nil
	case l.why == nil:
		return errConnecting
	}
	return l.why
}

// connected waits for a host that a scheduler starts.
func (l *link) connected(ctx context.Context) (*client, error) {
	for {
		c, changed := l.now()
		if c != nil {
			return c, nil
		}
		if !l.usable() {
			return nil, l.reason()
		}
		select {
		case <-changed:
		case <-l.life.Done():
			return nil, context.Cause(l.life)
		case <-ctx.Done():
			return nil, fmt.Errorf("%s waits for room: %w", l.title, context.Cause(ctx))
		}
	}
}

// prepare has a host prepare a job. fetched says that nothing was missing for it on this side.
func (l *link) prepare(ctx context.Context, j *executor.Job, p *placed) (fetched bool, err error) {
	l.mu.Lock()
	l.jobs[j.Name()] = j
	l.mu.Unlock()
	c, err := l.connected(ctx)
	if err != nil {
		return true, err
	}
	l.r.meet(p, c.node)
	missing := c.unfetched.Load()
	_, err = c.call(ctx, kindPrepare, &message{Job: j})
	return c.unfetched.Load() == missing, err
}

// forget has a host release a job. One that isn't there has nothing of it; one that a scheduler has started ends.
func (l *link) forget(ctx context.Context, j *executor.Job) error {
	if l.job != "" {
		return l.close(ctx)
	}
	l.mu.Lock()
	delete(l.jobs, j.Name())
	c := l.c
	l.mu.Unlock()
	if c == nil {
		return nil
	}
	_, err := c.call(ctx, kindRelease, &message{Job: j})
	if c.ended() != nil {
		return nil
	}
	return err
}

// start starts a job that was prepared.
func (l *link) start(j *executor.Job, p *placed) (*run, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.c == nil {
		return nil, fmt.Errorf("%s isn't connected: %w", l.title, l.why)
	}
	r := &run{l: l, placed: p, job: j, done: make(chan struct{}), began: make(chan struct{})}
	l.runs[j.Name()] = r
	go r.begin(l.c)
	return r, nil
}

// sweep has the host sweep.
func (l *link) sweep(ctx context.Context) (int, error) {
	c, _ := l.now()
	if c == nil {
		return 0, fmt.Errorf("it isn't connected: %w", l.reason())
	}
	m, err := c.call(ctx, kindSweep, &message{})
	if err != nil {
		return 0, err
	}
	return m.Ended, nil
}

// close stops all that runs, has the host end, and returns when nobody works for the link.
func (l *link) close(ctx context.Context) error {
	var wg sync.WaitGroup
	all := l.running()
	errs := make([]error, len(all)+1)
	for i, r := range all {
		wg.Go(func() { errs[i] = r.Stop(ctx) })
	}
	wg.Wait()
	if c, _ := l.now(); c != nil {
		_, err := c.call(ctx, kindClose, &message{})
		errs[len(all)] = err
		l.mu.Lock()
		l.closed = err == nil
		l.mu.Unlock()
	}
	l.stop(errClosing)
	select {
	case <-l.ended:
	case <-ctx.Done():
		errs = append(errs, fmt.Errorf("%s doesn't end: %w", l.title, context.Cause(ctx)))
	}
	return errors.Join(errs...)
}

// errClosing is the end of a link that isn't needed any more.
var errClosing = errors.New("it isn't needed any more")
