// SPDX-License-Identifier: Apache-2.0

package ipc

import (
	"context"
	"sync"

	"github.com/disco-sim/disco/shm"
)

// sleeper is how one side waits: its own doorbell, and when to sleep on it. The doorbell's memory is unmapped by
// Close, and other goroutines (the socket's watcher, a context's end) may ring it later, so they call ring.
type sleeper struct {
	waiter *shm.Waiter // for the goroutine that waits

	// Of the goroutine that waits: contexts by their Done. Who waits with one context again and again has its end
	// arranged for once.
	last <-chan struct{} // of the last wait that slept
	kept <-chan struct{} // whose end rings, from wait to wait; nil: of none
	stop func() bool     // of context.AfterFunc of kept

	mu   sync.Mutex
	bell *shm.Doorbell // nil once closed
}

func newSleeper(mem []byte, mode shm.Mode) (*sleeper, error) {
	bell, err := shm.OpenDoorbell(mem)
	if err != nil {
		return nil, err
	}
	// Goroutines: a program that uses this package has others, among them the watchers.
	waiter, err := shm.NewWaiter(shm.WaiterConfig{Bell: bell, Mode: mode, Goroutines: true})
	if err != nil {
		return nil, err
	}
	return &sleeper{waiter: waiter, bell: bell}, nil
}

// ring wakes the goroutine that waits. Any goroutine may call it at any time.
func (s *sleeper) ring() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bell != nil {
		// SYNC POINT work-published: either the sleeping goroutine's second look finds what the caller stored
		// before, or the caller finds the bell armed.
		s.bell.Ring()
	}
}

// close makes ring do nothing. Afterwards the doorbell's memory may be unmapped.
func (s *sleeper) close() {
	s.waiter.Reset()
	if s.kept != nil {
		s.stop()
		s.kept = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bell = nil
}

// arrange makes the end of a context ring the bell. It returns what ends that with the wait; nil: it stays, because the
// wait before had the same context.
func (s *sleeper) arrange(ctx context.Context) (stop func() bool) {
	done := ctx.Done()
	if s.kept == done {
		return nil
	}
	again := s.last == done
	s.last, stop = done, context.AfterFunc(ctx, s.ring)
	if !again {
		return stop
	}
	if s.kept != nil {
		s.stop()
	}
	s.kept, s.stop = done, stop
	return nil
}

// pause is one wait of one call. The caller looks for what it waits for, calls step,
// and looks again, until it has found it or step returns the context's error; then it
// calls end.
type pause struct {
	s       *sleeper
	ctx     context.Context
	stop    func() bool // of context.AfterFunc, nil: not needed so far, or not only by this wait
	stepped bool
}

// step spins, yields or sleeps once. The context's end rings the bell, but that is arranged only when a sleep is
// next, because it takes time, and allocates.
func (p *pause) step() error {
	done := p.ctx.Done()
	select {
	case <-done:
		return p.ctx.Err()
	default:
	}
	if done != nil && p.stop == nil && p.s.waiter.Armed() {
		p.stop = p.s.arrange(p.ctx)
	}
	p.stepped = true
	p.s.waiter.Idle(false)
	return nil
}

// end ends the wait; came says whether what it waited for has come.
func (p *pause) end(came bool) {
	if p.stop != nil {
		p.stop()
	}
	switch {
	case !p.stepped:
	case came:
		p.s.waiter.Idle(true)
	default:
		p.s.waiter.Reset()
	}
}
