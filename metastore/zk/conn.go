// SPDX-License-Identifier: Apache-2.0

package zk

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// errBroken is the end of a connection with requests that were not answered.
var errBroken = errors.New("the connection broke")

// call is a request and what became of it, which is there when done is closed.
type call struct {
	out   packet
	watch *feed // wants to be woken by the next change of what the call reads
	op    int32
	path  string // of a watch

	done chan struct{}
	err  error // the connection broke
	code code  // what the server says; of a multi, the first step's error

	// What was read, if code is codeOK.
	value []byte
	stat  stat
	names []string
	name  string // what was created
	acl   []grant
}

// newCall is a call that sends out.
func newCall(op int32, out packet) *call { return &call{op: op, out: out, done: make(chan struct{})} }

// read is the call that reads a node, and leaves a watch for a feed.
func read(op int32, path string, watch *feed) *call {
	c := newCall(op, append(request(op).text(path), 0))
	if watch != nil {
		c.out[len(c.out)-1], c.watch, c.path = 1, watch, path
	}
	return c
}

// decode reads the rest of a reply.
func (c *call) decode(a *answer) {
	switch c.op {
	case opGetData:
		c.value = a.bytes()
		c.stat = a.stat()
	case opExists, opSetData:
		c.stat = a.stat()
	case opGetChildren:
		c.names = a.names()
		c.stat = a.stat()
	case opCreate:
		c.name = string(a.bytes())
	case opMulti:
		c.code = a.failed()
	case opGetACL:
		c.acl = a.acl()
	}
}

// conn is one connection of a session. Requests are answered in the order in which they were sent.
type conn struct {
	net    net.Conn
	link   *link
	alone  bool          // the server is the only one of its store
	turn   chan struct{} // has a token while nobody writes
	broken chan struct{} // closed when the connection is of no use any more
	strict fence         // before reads that must be linearizable
	weak   fence         // before those for which a server is enough that has caught up with its leader

	mu      sync.Mutex
	err     error // why it broke
	xid     int32
	waiting []*call            // sent, not answered
	data    map[string][]*feed // by path: watches of data, and of existence
	names   map[string][]*feed // by path: watches of children
}

func newConn(n net.Conn, l *link) *conn {
	c := &conn{net: n, link: l, turn: make(chan struct{}, 1), broken: make(chan struct{}),
		data: map[string][]*feed{}, names: map[string][]*feed{}}
	c.turn <- struct{}{}
	c.strict.call = func() *call {
		return newCall(opMulti, multi([]step{{op: opCheck, path: "/", version: anyVersion}}, nil))
	}
	c.weak.call = func() *call { return newCall(opSync, request(opSync).text("/")) }
	return c
}

// fail ends the connection: its calls fail, its feeds are woken, to read again elsewhere.
func (c *conn) fail(why error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = why
	waiting, data, names := c.waiting, c.data, c.names
	c.waiting, c.data, c.names = nil, nil, nil
	close(c.broken)
	c.mu.Unlock()
	c.net.Close()
	for _, call := range waiting {
		call.err = fmt.Errorf("%w: %w", errBroken, why)
		close(call.done)
	}
	for _, m := range []map[string][]*feed{data, names} {
		for _, feeds := range m {
			wake(feeds)
		}
	}
}

// send writes calls one after the other, with nothing between them. If it fails, it is certain that none of them
// reached the server.
func (c *conn) send(ctx context.Context, calls ...*call) error {
	select {
	case <-c.turn:
	case <-c.broken:
		return errBroken
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { c.turn <- struct{}{} }()
	out, err := c.queue(calls)
	if err != nil {
		return err
	}
	// The time limit is for a server that has stopped reading; keep ends a connection that is silent.
	_ = c.net.SetWriteDeadline(time.Now().Add(c.link.ttl / 4))
	if _, err := c.net.Write(out); err != nil {
		c.fail(err)
	}
	return nil
}

// queue notes calls as sent, and gives the bytes.
func (c *conn) queue(calls []*call) (out []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, errBroken
	}
	for _, call := range calls {
		c.xid = (c.xid + 1) & 0x7fffffff
		call.out.seal(c.xid)
	}
	c.waiting = append(c.waiting, calls...)
	if len(calls) == 1 {
		return calls[0].out, nil
	}
	for _, call := range calls {
		out = append(out, call.out...)
	}
	return out, nil
}

// do sends calls and waits for their answers. The first error is that of send, with sent false, or of a connection
// that broke or a context that ended meanwhile; what the server said is in the calls.
func (c *conn) do(ctx context.Context, calls ...*call) (sent bool, err error) {
	if err := c.send(ctx, calls...); err != nil {
		return false, err
	}
	return c.await(ctx, calls...)
}

// await waits for the answers of calls that were sent.
func (c *conn) await(ctx context.Context, calls ...*call) (sent bool, err error) {
	for _, call := range calls {
		select {
		case <-call.done:
		case <-ctx.Done():
			return true, context.Cause(ctx)
		}
		if call.err != nil {
			return true, call.err
		}
		if call.code == codeExpired || call.code == codeMoved {
			c.fail(fmt.Errorf("the server says %d: the session isn't this connection's any more", call.code))
			return false, errBroken
		}
	}
	return true, nil
}

// read is the goroutine that takes in what the server says.
func (c *conn) read(r *bufio.Reader) {
	for {
		frame, err := readFrame(r)
		if err == nil {
			err = c.take(&answer{rest: frame})
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
}

// take takes one reply or event.
func (c *conn) take(a *answer) error {
	xid, zxid, code := a.int32(), a.int64(), code(a.int32())
	if a.bad {
		return errMalformed
	}
	if xid == xidEvent {
		kind := a.int32()
		a.int32() // the state of the session
		path := string(a.bytes())
		if a.bad {
			return errMalformed
		}
		c.event(kind, path)
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		return errMalformed
	}
	call := c.waiting[0]
	if want := int32(packetXid(call.out)); xid != want {
		return fmt.Errorf("%w (reply %d where %d is due)", errMalformed, xid, want)
	}
	c.waiting[0] = nil
	c.waiting = c.waiting[1:]
	if zxid > 0 {
		c.link.saw(zxid)
	}
	if call.code = code; code == codeOK {
		call.decode(a)
	}
	if a.bad {
		call.err = errMalformed
		close(call.done)
		return errMalformed
	}
	if call.watch != nil && (code == codeOK || code == codeNoNode && call.op == opExists) {
		// Before the next event is taken in: it may be this watch's.
		c.arm(call)
	}
	close(call.done)
	return nil
}

// arm notes the watch that the server has just left. The lock is held.
func (c *conn) arm(call *call) {
	if call.watch.ended() != nil {
		return // after Close has looked for it here
	}
	m := c.data
	if call.op == opGetChildren {
		m = c.names
	}
	if !slices.Contains(m[call.path], call.watch) {
		m[call.path] = append(m[call.path], call.watch)
	}
}

// disarm forgets the watches of a feed that was closed.
func (c *conn) disarm(f *feed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range []map[string][]*feed{c.data, c.names} {
		if feeds := slices.DeleteFunc(m[f.path], func(g *feed) bool { return g == f }); len(feeds) > 0 {
			m[f.path] = feeds
		} else {
			delete(m, f.path)
		}
	}
}

// event wakes the feeds whose watch has fired, and is gone with that.
func (c *conn) event(kind int32, path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kind == eventCreated || kind == eventDeleted || kind == eventChanged {
		wake(c.data[path])
		delete(c.data, path)
	}
	if kind == eventChildren || kind == eventDeleted {
		wake(c.names[path])
		delete(c.names, path)
	}
}

// keep asks the leader again and again whether it is there, and ends a connection without an answer. Each answer keeps
// the session: it shows that the server still had its leader after the question was sent.
func (c *conn) keep() {
	tick := time.NewTicker(c.link.ttl / 8)
	defer tick.Stop()
	for {
		sent := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), c.link.ttl/4)
		_, err := c.do(ctx, newCall(opSync, request(opSync).text("/")))
		cancel()
		if err != nil {
			c.fail(fmt.Errorf("no answer within %v: %w", c.link.ttl/4, err))
			return
		}
		c.link.confirm(sent)
		select {
		case <-tick.C:
		case <-c.broken:
			return
		}
	}
}
