// SPDX-License-Identifier: Apache-2.0

package zk

import (
	"context"
	"slices"
	"sync"
)

// fence is what stands before reads in one connection so that they miss nothing that was acknowledged when they began:
// a write that changes nothing, which a majority takes, or a sync. All reads that wait share the next one.
//
// A read joins a group, and the fence of a group is sent when nobody can join it any more: after the read began. So
// each change that was acknowledged before that has a smaller number than the fence. The reads of the group come after
// it in the same packet, and a server answers the requests of a connection in their order: it has applied the fence
// then, and all before it. One fence that is under way never serves a read that comes later.
type fence struct {
	call func() *call

	mu      sync.Mutex
	flights []*group // that were sent and not answered, oldest first
	next    *group   // that waits to be sent, or nil
}

// fencesMax is how many fences are under way at once: with one, two callers that read in turn would wait for each
// other.
const fencesMax = 2

// group is reads that share a fence.
type group struct {
	fence *call
	reads []*call
	sent  chan struct{} // closed when err is there
	err   error         // of sending: none of them reached the server
}

// behind reads behind a fence. Whoever finds that one may be sent sends it, for all that wait; who waits looks again
// whenever one is answered, so that nobody depends on a caller that has left. Errors are those of do.
func (c *conn) behind(ctx context.Context, f *fence, reads ...*call) error {
	f.mu.Lock()
	g := f.next
	if g == nil {
		g = &group{sent: make(chan struct{})}
		f.next = g
	}
	g.reads = append(g.reads, reads...)
	for f.next == g {
		f.flights = slices.DeleteFunc(f.flights, func(g *group) bool { return g.fence.answered() })
		if len(f.flights) < fencesMax {
			f.flights, f.next = append(f.flights, g), nil
			g.fence = f.call()
			f.mu.Unlock()
			// For all of the group, so not by the end of one caller's context: it takes no longer than a write may.
			g.err = c.send(context.Background(), append([]*call{g.fence}, g.reads...)...)
			close(g.sent)
			f.mu.Lock()
			break
		}
		oldest := f.flights[0].fence
		f.mu.Unlock()
		select {
		case <-oldest.done:
		case <-g.sent:
		case <-c.broken:
			return errBroken
		case <-ctx.Done(): // what it wanted is read for nobody
			return context.Cause(ctx)
		}
		f.mu.Lock()
	}
	f.mu.Unlock()
	select {
	case <-g.sent:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if g.err != nil {
		return g.err
	}
	if _, err := c.await(ctx, g.fence); err != nil {
		return err
	}
	if code := g.fence.code; code != codeOK && code != codeNoAuth { // a majority has refused it, then
		return refused("/", code)
	}
	_, err := c.await(ctx, reads...)
	return err
}

// answered tells whether an answer has come, or none will.
func (c *call) answered() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}
