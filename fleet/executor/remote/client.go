// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/fleet/executor"
)

// client is the agent's end of a connection to a host.
type client struct {
	*conn
	l       *link
	process *process
	node    string // on which a scheduler has started the host; before anybody else knows the client

	unfetched atomic.Uint64 // blobs that this side couldn't get

	mu      sync.Mutex
	number  uint64
	calls   map[uint64]chan *message // requests that weren't answered
	fetches int
}

// errHost is that a host has refused a request: nothing of it is left there.
type errHost struct{ text string }

func (e *errHost) Error() string { return e.text }

// error is what an answer says has failed, or nil.
func (m *message) error() error {
	if m.Error == "" {
		return nil
	}
	var err error = &errHost{clip(m.Error, fleet.MaxReason)}
	if m.Own {
		err = &executor.OwnError{Why: err}
	}
	return err
}

// dial starts the command and greets the host.
func (l *link) dial(connect time.Duration) (*client, error) {
	p, err := startProcess(l.command)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.title, err)
	}
	c := &client{conn: newConn(p, connect), l: l, process: p, calls: map[uint64]chan *message{}}
	stop := context.AfterFunc(l.life, func() { c.fail(errClosing) })
	greeted := make(chan struct{})
	l.r.ended.Go(func() {
		defer stop()
		<-c.done
		patience := l.r.o.Grace + killAfter
		select {
		case <-greeted:
		default:
			patience = 0 // it doesn't know yet that it is to end with its standard input
		}
		if errors.Is(c.err, errSilent) {
			p.signal(syscall.SIGKILL) // it hears nothing
		}
		p.reap(patience)
	})
	if err := c.greetHost(greeted); err != nil {
		c.fail(err)
		return nil, fmt.Errorf("%s: %w", l.title, p.describe(l.life, c.ended()))
	}
	return c, nil
}

// greetHost waits until the host takes requests.
func (c *client) greetHost(greeted chan<- struct{}) error {
	o := &c.l.r.o
	own := &hello{Protocol: protocol, Version: o.Version, Mark: c.l.r.mark, Name: c.l.name, Owner: o.Owner,
		Once: c.l.job != "", Grace: o.Grace, Locked: o.Locked, Cache: o.Cache, Silent: o.Silent}
	_ = c.write([]byte(preamble)) // who has ended has said more on its standard error
	_ = c.send(kindHello, &message{Hello: own})
	h, err := c.greet()
	if err != nil {
		return err
	}
	close(greeted)
	if c.l.job != "" {
		c.node = oneLine(h.Node, fleet.MaxBehind)
	}
	if err := h.agrees(own, "the host", "this agent"); err != nil {
		return err
	}
	c.limit(o.Silent)
	go c.live()
	for {
		k, m, _, err := c.receive()
		switch {
		case err != nil:
			return err
		case k == kindReady:
			return nil
		case k == kindRefused:
			return &errHost{clip(m.Error, fleet.MaxReason)}
		case k != kindPing:
			return fmt.Errorf("found a frame of kind %d of a host that isn't ready", k)
		}
	}
}

// serve takes what comes until the connection ends, and returns why it has.
func (c *client) serve() error {
	for {
		k, m, _, err := c.receive()
		if err == nil {
			err = c.take(k, m)
		}
		if err != nil {
			c.fail(err)
			return fmt.Errorf("%s: the connection has ended: %w", c.l.title, c.process.describe(c.l.life, c.err))
		}
	}
}

// take does what a frame says. An error ends the connection.
func (c *client) take(k kind, m *message) error {
	switch k {
	case kindPing:
	case kindAnswer:
		c.mu.Lock()
		if answer := c.calls[m.ID]; answer != nil {
			delete(c.calls, m.ID)
			answer <- m // it has room for one
		}
		c.mu.Unlock()
	case kindFetch:
		return c.fetch(m)
	case kindProgress, kindDone:
		c.l.mu.Lock()
		r := c.l.runs[m.Name]
		c.l.mu.Unlock()
		if r != nil {
			r.take(m)
		}
	default:
		return fmt.Errorf("found a frame of kind %d of a host", k)
	}
	return nil
}

// fetch sends a blob that a job of the host's has.
func (c *client) fetch(m *message) error {
	if m.Digest == nil {
		return errors.New("found a request for a blob without its digest")
	}
	c.mu.Lock()
	c.fetches++
	n := c.fetches
	c.mu.Unlock()
	if n > fetchesMax {
		return fmt.Errorf("found requests for %d blobs at a time, want at most %d", n, fetchesMax)
	}
	known := c.l.mayFetch(*m.Digest)
	go func() {
		var blob []byte
		err := errors.New("no job of this host has this blob")
		if known {
			blob, err = c.l.r.o.Fetch(c.l.life, *m.Digest)
			if err != nil {
				c.unfetched.Add(1)
			}
		}
		c.mu.Lock()
		c.fetches-- // the host asks for another one when it has the end
		c.mu.Unlock()
		c.sendBlob(m.ID, blob, err)
	}()
	return nil
}

// mayFetch tells whether a job of the host's has a blob.
func (l *link) mayFetch(d fleet.Digest) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range l.jobs {
		if j.Text == d {
			return true
		}
		for _, a := range j.Attachments {
			if a.Digest == d {
				return true
			}
		}
	}
	return false
}

// call sends a request and waits for its answer. An errHost is the host's; another error leaves open whether the
// request was done.
func (c *client) call(ctx context.Context, k kind, m *message) (*message, error) {
	answer := make(chan *message, 1)
	c.mu.Lock()
	c.number++
	m.ID = c.number
	c.calls[m.ID] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.calls, m.ID)
	}()
	if err := c.send(k, m); err != nil {
		return nil, err
	}
	select {
	case a := <-answer:
		return a, a.error()
	case <-c.done:
		select {
		case a := <-answer: // it came before the end
			return a, a.error()
		default:
		}
		return nil, fmt.Errorf("the connection has ended: %w", c.err)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
