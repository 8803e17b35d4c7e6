// SPDX-License-Identifier: Apache-2.0

// Package forward passes TCP connections on to a server, with the delays, losses, cuts and half-open ends of a bad
// network: for tests and demonstrations on one machine.
//
// Guarantee: what passes is what was sent, in order; no fault changes, repeats or leaves out a byte of a connection
// that lasts. A connection that one side has ended, or half closed, ends on the other, at last when the forwarder is
// closed, which leaves nothing behind. It keeps at most 4 MiB of a connection's bytes in each direction.
//
//	f, err := forward.New("", "127.0.0.1:7400")
//	defer f.Close()
//	f.Set(forward.Traffic{Delay: time.Millisecond})
//	conn, err := net.Dial("tcp", f.Addr())
package forward

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Side is an end of a connection.
type Side int

// The sides.
const (
	Client Side = iota // who has connected to the forwarder
	Server             // whom it has connected to
)

// Traffic says how traffic passes.
type Traffic struct {
	// Delay is how long a byte is under way, each way. The rate is at most 4 MiB in that time.
	Delay time.Duration

	// Loss is the share of segments of 1,448 bytes that are lost, 0 to 1. TCP sends them again: what was lost and all
	// that is behind it come Resend later, 0: 200 ms, the least that Linux waits.
	Loss   float64
	Resend time.Duration

	// Bytewise hands on every byte by itself.
	Bytewise bool

	// Held holds back what goes to a side, and takes no further connection while it holds back either.
	Held [2]bool
}

const (
	segmentBytes  = 1448 // of data, in an Ethernet frame
	resendDefault = 200 * time.Millisecond
	chunkBytes    = 32 << 10
	chunks        = 4 << 20 / chunkBytes // in a queue

	// exactBelow is what the runtime's timers, which count milliseconds where nothing else happens, are too coarse for.
	exactBelow = 2 * time.Millisecond
)

// Forwarder passes connections on to one server. Any goroutine may use it.
type Forwarder struct {
	listener net.Listener
	to       string
	all      sync.WaitGroup
	bytes    atomic.Int64
	ctx      context.Context // of dials; ended when the forwarder is closed
	cancel   context.CancelFunc

	mu      sync.Mutex
	traffic Traffic
	random  *rand.Rand
	changed chan struct{} // closed when traffic changes, or the forwarder is closed
	closed  bool
	pairs   map[*pair]bool
}

// pair is the two connections that are joined, by Side.
type pair struct {
	ends [2]net.Conn
	half atomic.Bool // one end is closed, and the other isn't to know
}

// New listens at an address, "": a free port of the loopback, and passes on to another.
func New(listen, to string) (*Forwarder, error) {
	l, err := net.Listen("tcp", cmp.Or(listen, "127.0.0.1:0"))
	if err != nil {
		return nil, fmt.Errorf("forward: %w", err)
	}
	f := &Forwarder{listener: l, to: to, pairs: map[*pair]bool{}, changed: make(chan struct{}),
		random: rand.New(rand.NewPCG(1, 2))}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.all.Go(f.accept)
	return f, nil
}

// Addr is where clients connect to.
func (f *Forwarder) Addr() string { return f.listener.Addr().String() }

// Bytes is how many bytes were read so far, from clients and from the server.
func (f *Forwarder) Bytes() int64 { return f.bytes.Load() }

// Set changes how traffic passes from now on; what is under way already keeps its delay.
func (f *Forwarder) Set(l Traffic) { f.change(func(now *Traffic) { *now = l }) }

// Isolate holds back all traffic, in both directions, and takes no further connection: as a switch that lost its power,
// neither side hears of it.
func (f *Forwarder) Isolate() { f.change(func(l *Traffic) { l.Held = [2]bool{true, true} }) }

// Heal ends what holds traffic back. It passes then, as when lost packets are sent again.
func (f *Forwarder) Heal() { f.change(func(l *Traffic) { l.Held = [2]bool{} }) }

func (f *Forwarder) change(by func(*Traffic)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	by(&f.traffic)
	if !f.closed {
		close(f.changed)
		f.changed = make(chan struct{})
	}
}

// Reset closes all connections, which both sides hear of.
func (f *Forwarder) Reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for p := range f.pairs {
		p.close()
	}
}

// HalfOpen closes all connections towards one side, and leaves the other side's open: what that sends is lost, and it
// gets nothing any more, as when its peer's machine has started anew behind a firewall. New connections pass.
func (f *Forwarder) HalfOpen(closed Side) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for p := range f.pairs {
		p.half.Store(true)
		p.ends[closed].Close()
	}
}

// Close ends the forwarder and its connections.
func (f *Forwarder) Close() {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return
	}
	f.closed = true
	close(f.changed)
	f.mu.Unlock()
	f.cancel()
	f.listener.Close()
	f.Reset()
	f.all.Wait()
}

func (p *pair) close() {
	p.half.Store(false)
	for _, c := range p.ends {
		c.Close()
	}
}

func (f *Forwarder) accept() {
	for {
		client, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.all.Go(func() { f.serve(client) })
	}
}

// serve joins a client to the server until one of them has ended.
func (f *Forwarder) serve(client net.Conn) {
	defer client.Close()
	if !f.wait(time.Time{}, Client, Server) {
		return
	}
	server, err := new(net.Dialer).DialContext(f.ctx, "tcp", f.to)
	if err != nil {
		return
	}
	p := &pair{ends: [2]net.Conn{client, server}}
	f.mu.Lock()
	f.pairs[p] = true
	if f.closed {
		p.close()
	}
	f.mu.Unlock()
	var ways sync.WaitGroup
	for _, to := range []Side{Client, Server} {
		queue := make(chan chunk, chunks-1) // one more is being written
		ways.Go(func() { f.read(p, to, queue) })
		ways.Go(func() { f.write(p, to, queue) })
	}
	ways.Wait()
	p.close()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pairs, p)
}

// chunk is bytes under way.
type chunk struct {
	bytes    []byte    // none: the end
	due      time.Time // zero: at once
	bytewise bool
}

// read takes what the other side sends, until it has ended.
func (f *Forwarder) read(p *pair, to Side, queue chan<- chunk) {
	defer close(queue)
	var last time.Time
	buffer := make([]byte, chunkBytes)
	for {
		n, err := p.ends[1-to].Read(buffer)
		f.bytes.Add(int64(n))
		if n == 0 && err == nil {
			continue
		}
		c := f.delayed(bytes.Clone(buffer[:n]), last)
		last = c.due
		queue <- c // write takes until the queue is closed
		if n == 0 {
			return
		}
	}
}

// delayed says when bytes that were just read are due, not before those in front of them.
func (f *Forwarder) delayed(b []byte, last time.Time) chunk {
	f.mu.Lock()
	defer f.mu.Unlock()
	l, c := &f.traffic, chunk{bytes: b, bytewise: f.traffic.Bytewise}
	late := l.Delay
	segments := (len(b) + segmentBytes - 1) / segmentBytes
	if l.Loss > 0 && f.random.Float64() >= math.Pow(1-l.Loss, float64(segments)) {
		late += resendDefault
		if l.Resend > 0 {
			late += l.Resend - resendDefault
		}
	}
	if late > 0 || !last.IsZero() {
		if c.due = time.Now().Add(late); c.due.Before(last) {
			c.due = last
		}
	}
	return c
}

// write hands on what was read, and the end behind all of it.
func (f *Forwarder) write(p *pair, to Side, queue <-chan chunk) {
	for c := range queue {
		if !f.wait(c.due, to) || len(c.bytes) == 0 || !c.write(p.ends[to]) {
			break
		}
	}
	if !p.half.Load() {
		p.close()
	}
	for range queue { // until the reader has ended: what it reads is lost
	}
}

func (c *chunk) write(to net.Conn) bool {
	step := len(c.bytes)
	if c.bytewise {
		step = 1
	}
	for at := 0; at < len(c.bytes); at += step {
		if _, err := to.Write(c.bytes[at : at+step]); err != nil {
			return false
		}
	}
	return true
}

// wait returns when something is due and nothing that goes to these sides is held back; false: the forwarder is closed.
func (f *Forwarder) wait(due time.Time, sides ...Side) bool {
	for {
		f.mu.Lock()
		held, closed, changed := false, f.closed, f.changed
		for _, s := range sides {
			held = held || f.traffic.Held[s]
		}
		f.mu.Unlock()
		if closed {
			return false
		}
		if held {
			<-changed
			continue
		}
		if due.IsZero() {
			return true
		}
		left := time.Until(due)
		switch {
		case left <= 0:
			return true
		case left < exactBelow:
			exactly(left)
		default:
			select {
			case <-time.After(left - exactBelow/2):
			case <-changed:
			}
		}
	}
}

// exactly sleeps for less than the runtime's timers can.
func exactly(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil) // a signal ends it early, and it is called again
}
