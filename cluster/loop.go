// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/disco-sim/disco/metastore"
)

// life is one registration of a member: what every commit of its servers is bound to.
type life struct {
	ctx         context.Context // ends with the session, or when the member's key is gone or another's
	cancel      context.CancelCauseFunc
	session     metastore.Session
	incarnation string

	leading    context.Context    // ends with ctx, or when the member begins to leave
	leadNoMore context.CancelFunc // ends it; the member's lock is held
	leads      sync.WaitGroup     // leaderships of this life that haven't ended
}

// serverLoop is the one goroutine that owns a server: its state machine, its keys, and its runner's tasks.
// Everybody else leaves a note and wakes it.
type serverLoop struct {
	m      *Membership
	name   string
	number int
	kick   chan struct{} // something below has changed
	done   chan struct{}

	mu      sync.Mutex // notes for the loop
	life    *life      // nil while there is no session
	request *Request
	reports []func(*Slot) Step // what the runner reports, and tasks that ended
	leave   bool
	letters func() DeadLetters

	// The rest is the loop's own.
	slot    *Slot
	runner  Runner
	life0   *life // that it follows
	made    *life // in which its keys were made
	writing uint64
	since   time.Time
	shown   State
	ack     *Ack
	info    Info
	next    Step               // a task that waits for the one that runs
	running context.CancelFunc // ends the task that runs, or nil
	dirty   bool               // what the store has isn't what is

	lettersIn    *life  // in which its dead letters were written
	lettersTimes uint64 // as they were then
	ticks        int    // since then, or longer
}

// Reporter is how a runner tells what happens to its partition between requests. Its methods may be called by any
// goroutine, and don't wait.
type Reporter struct{ loop *serverLoop }

// Ended says that the partition is all done, or has failed.
func (r *Reporter) Ended(err error) { r.loop.note(func(s *Slot) Step { return s.Ended(err) }) }

// Broken says that the server can't be used any more.
func (r *Reporter) Broken(reason string) { r.loop.note(func(s *Slot) Step { return s.Break(reason) }) }

// newServerLoop makes a loop; the member's run starts it.
func newServerLoop(m *Membership, number int) *serverLoop {
	s := &serverLoop{m: m, name: serverName(m.options.Name, number), number: number, slot: NewSlot(""),
		kick: make(chan struct{}, 1), done: make(chan struct{}),
		info: Info{Member: m.options.Name, Slot: number, Application: m.options.Application, Numa: -1}}
	s.runner = m.options.Runner(number, &Reporter{s})
	return s
}

// wake makes the loop look.
func (s *serverLoop) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// note leaves an event for the loop.
func (s *serverLoop) note(f func(*Slot) Step) {
	s.mu.Lock()
	s.reports = append(s.reports, f)
	s.mu.Unlock()
	s.wake()
}

// live gives the loop a new life, or none.
func (s *serverLoop) live(l *life) {
	s.mu.Lock()
	s.life = l
	s.mu.Unlock()
	s.wake()
}

// watch follows the requests for this server, in one life.
func (s *serverLoop) watch(store *metastore.Store) (*metastore.Watch, error) {
	return store.Follow(dirDesired+"/"+s.name, func(v metastore.Value, key string) bool {
		var r Request
		if !v.Exists() {
			return true
		}
		if err := v.Decode(&r); err != nil || r.ID == "" {
			s.m.options.Report(fmt.Errorf("cluster: the request in %s can't be read, and is ignored: %w", key, err))
			return true
		}
		s.mu.Lock()
		s.request = &r
		s.mu.Unlock()
		s.wake()
		return true
	})
}

// run is the loop. It ends when the member leaves, with no task running and the partition given up.
func (s *serverLoop) run() {
	defer close(s.done)
	tick := time.NewTicker(time.Second) // writes that failed are tried again
	defer tick.Stop()
	for {
		select {
		case <-s.kick:
		case <-tick.C:
			s.showLetters()
		}
		if s.look() {
			return
		}
	}
}

// look takes in what was noted, acts, and writes. It tells whether the server has ended.
func (s *serverLoop) look() (ended bool) {
	s.mu.Lock()
	reports, request, now, leave := s.reports, s.request, s.life, s.leave
	s.reports, s.request = nil, nil
	s.mu.Unlock()
	if now != s.life0 {
		s.begin(now)
	}
	for _, f := range reports {
		s.follow(f(s.slot))
	}
	if request != nil && now != nil {
		s.follow(s.slot.Ask(*request))
	}
	if leave && s.slot.State() != Exited && s.slot.pendingState() != Exited {
		s.follow(s.slot.Ask(Request{ID: "leave", Incarnation: s.slot.incarnation, State: Exited}))
	}
	if s.dirty && s.life0 != nil {
		s.write()
	}
	return leave && s.slot.State() == Exited && s.running == nil
}

// begin starts another life of the server, or its time without one.
func (s *serverLoop) begin(l *life) {
	s.life0 = l
	if l == nil {
		return
	}
	s.slot.Renew(l.incarnation)
	s.slot.Open()
	s.ack, s.dirty = nil, true
}

// follow does what a step says.
func (s *serverLoop) follow(step Step) {
	if step.Ack != nil {
		s.ack = step.Ack
	}
	s.dirty = true
	if step.Task == Nothing {
		return
	}
	s.next = step
	if s.running != nil {
		s.running() // its end begins the next one
		return
	}
	s.start()
}

// start begins the task that waits. Its end comes as reports.
func (s *serverLoop) start() {
	step := s.next
	s.next = Step{}
	if step.Task == Nothing {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.running = cancel
	assignment := s.slot.Assignment()
	go func() {
		nodes, err := s.do(ctx, step.Task, assignment)
		s.note(func(slot *Slot) Step {
			cancel()
			s.running = nil
			after := slot.Done(step.Number, err)
			if step.Task == Initialize && err == nil {
				s.info.Assignment, s.info.Nodes = assignment, nodes
			}
			s.start()
			return after
		})
	}()
}

// do is one task. A panic of the runner is an error of the partition.
func (s *serverLoop) do(ctx context.Context, task Task, a *Assignment) (nodes []string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	switch task {
	case Initialize:
		return s.runner.Initialize(ctx, *a)
	case Activate:
		return nil, s.runner.Activate(ctx)
	case Pause:
		return nil, s.runner.Pause(ctx)
	}
	if a == nil { // Exit of a server that hosts nothing
		return nil, nil
	}
	return nil, s.runner.Terminate(ctx)
}

// write puts status and info into the store, in one commit that holds only while the member's life lasts. What fails
// stays dirty, and is tried again.
func (s *serverLoop) write() {
	l := s.life0
	if state := s.slot.State(); state != s.shown {
		s.shown, s.since = state, time.Now().UTC()
	}
	status := Status{State: s.shown, Incarnation: l.incarnation, Since: s.since, Reason: s.slot.Reason(), Ack: s.ack,
		Last: s.slot.Last()}
	info := s.info
	if a := s.slot.Assignment(); a != nil && (info.Assignment == nil || *a != *info.Assignment) {
		info.Assignment, info.Nodes = a, nil
	}
	if s.slot.State() == Broken {
		info.Assignment, info.Nodes = nil, nil
	}
	s.writing++
	status.Writing, info.Writing = s.writing, s.writing
	err := s.m.commit(l, s.name, s.made != l, &status, &info)
	switch {
	case err == nil:
		s.dirty, s.made = false, l
		s.m.wrote(l, s.name, s.shown)
	case errors.Is(err, errLifeOver): // another one begins, or none
	default:
		s.m.options.Report(fmt.Errorf("cluster: the state of server %s could not be written, trying again: %w",
			s.name, err))
	}
}

// serverName is the name of a member's slot. No two members' servers can have the same one.
func serverName(member string, slot int) string { return fmt.Sprintf("%s-%d", member, slot) }
