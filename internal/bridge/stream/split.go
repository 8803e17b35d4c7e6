// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// What stands in front of TLS on a connection for a run: it chooses a process and nothing else.
const (
	preambleMagic   = "disc"
	preambleVersion = 1
	preambleRunAt   = 8
	preambleZeroAt  = 24
	preambleBytes   = 32
	preambleLimit   = time.Second // until it has come in, and its process has taken the connection
)

func preamble(run [16]byte) []byte {
	b := make([]byte, preambleBytes)
	copy(b, preambleMagic)
	binary.LittleEndian.PutUint32(b[len(preambleMagic):], preambleVersion)
	copy(b[preambleRunAt:], run[:])
	return b
}

// parsePreamble reads the 32 bytes.
func parsePreamble(b []byte) (run [16]byte, err error) {
	version := binary.LittleEndian.Uint32(b[len(preambleMagic):])
	zero := binary.LittleEndian.Uint64(b[preambleZeroAt:])
	switch {
	case version != preambleVersion:
		return run, fmt.Errorf("found version %d in front of TLS, allowed: %d: use one build of disco", version,
			preambleVersion)
	case zero != 0:
		return run, fmt.Errorf("found %#x at byte %d in front of TLS, allowed: 0", zero, preambleZeroAt)
	}
	return [16]byte(b[preambleRunAt:preambleZeroAt]), nil
}

// Splitter divides the connections of an agent's one port. Those for a run go to the process of that run; it is a
// listener of all others, which are the agent's own.
type Splitter struct {
	listener net.Listener
	refused  func(error)
	waiting  waiting
	own      chan net.Conn
	closing  chan struct{}
	once     sync.Once
	ended    sync.WaitGroup

	mu   sync.Mutex
	runs map[[16]byte]*hand
}

// hand is the way to the process of a run.
type hand struct {
	to    *net.UnixConn
	token chan struct{} // held while something is sent
}

// Split divides the connections of a listener until Close. It reports those that come to nothing; refused may be called
// by several goroutines at a time, as often as somebody connects.
func Split(l net.Listener, refused func(error)) *Splitter {
	p := &Splitter{listener: l, refused: refused, own: make(chan net.Conn), closing: make(chan struct{}),
		runs: map[[16]byte]*hand{}}
	p.ended.Go(func() { acceptAll(l, p.closing, refused, func(c net.Conn) { p.ended.Go(func() { p.one(c) }) }) })
	return p
}

// acceptAll takes connections until the listener has ended. An error that may pass, such as too many open files, is
// waited out.
func acceptAll(l net.Listener, closing <-chan struct{}, refused func(error), take func(net.Conn)) {
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
			take(c)
			continue
		case errors.Is(err, net.ErrClosed), errors.Is(err, io.EOF):
			return
		}
		refused(fmt.Errorf("stream: %w", err))
		pause := time.NewTimer(100 * time.Millisecond)
		select {
		case <-closing:
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

// Add sends connections for a run to the other end of a socket of type SOCK_SEQPACKET, from which [Handed] takes them.
// The socket stays the caller's, who may close it after Remove.
func (p *Splitter) Add(run [16]byte, to *net.UnixConn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runs[run] != nil {
		return fmt.Errorf("stream: run %x is here already", run)
	}
	p.runs[run] = &hand{to, make(chan struct{}, 1)}
	return nil
}

// Remove ends that. A connection may be on its way meanwhile.
func (p *Splitter) Remove(run [16]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.runs, run)
}

// Accept gives the next connection that isn't for a run.
func (p *Splitter) Accept() (net.Conn, error) {
	select {
	case c := <-p.own:
		return c, nil
	case <-p.closing:
		return nil, net.ErrClosed
	}
}

// Addr is the listener's.
func (p *Splitter) Addr() net.Addr { return p.listener.Addr() }

// Close closes the listener and what waits, and returns when nothing of the Splitter runs any more. What it has handed
// over goes on.
func (p *Splitter) Close() error {
	var err error
	p.once.Do(func() {
		close(p.closing)
		err = p.listener.Close()
		p.waiting.close()
	})
	p.ended.Wait()
	return err
}

// one finds out whose a connection is.
func (p *Splitter) one(c net.Conn) {
	v := p.waiting.enter(func() { _ = c.Close() }, preambleLimit)
	var b [preambleBytes]byte
	const first = len(preambleMagic)
	_, err := io.ReadFull(c, b[:first])
	ours := err == nil && string(b[:first]) == preambleMagic
	if ours {
		_, err = io.ReadFull(c, b[first:])
	}
	switch {
	case err != nil && !ours && errors.Is(err, io.EOF): // it only looked whether the port is open
	case err != nil:
		err = fmt.Errorf("stream: %v: it doesn't say within %v what it is for, or is one of more than %d such "+
			"connections (%w)", c.RemoteAddr(), preambleLimit, waitingMax, err)
		p.report(err)
	case ours:
		if err = p.toRun(v, c, b[:]); err != nil {
			p.report(fmt.Errorf("stream: %v: %w", c.RemoteAddr(), err))
		}
	default:
		p.toAgent(v, &prefixed{c, b[:first]})
		return
	}
	if v.leave() { // the process of a run has a descriptor of its own
		_ = c.Close()
	}
}

// report reports what came to nothing, but for what Close has ended.
func (p *Splitter) report(err error) {
	select {
	case <-p.closing:
	default:
		p.refused(err)
	}
}

// toAgent waits for Accept.
func (p *Splitter) toAgent(v *visitor, c net.Conn) {
	select {
	case p.own <- c:
		v.leave()
	case <-v.gone:
		p.report(fmt.Errorf("stream: %v: the agent has taken no connection for %v", c.RemoteAddr(), preambleLimit))
	}
}

// toRun hands a connection's descriptor over.
func (p *Splitter) toRun(v *visitor, c net.Conn, message []byte) error {
	run, err := parsePreamble(message)
	if err != nil {
		return err
	}
	p.mu.Lock()
	h := p.runs[run]
	p.mu.Unlock()
	if h == nil {
		return fmt.Errorf("there is no run %x here", run)
	}
	select {
	case h.token <- struct{}{}:
		defer func() { <-h.token }()
		return h.give(c, message)
	case <-v.gone:
		return errors.New("its bridge takes no connections")
	}
}

// give sends a descriptor. It waits no longer than its limit, whatever the process of the run does.
func (h *hand) give(c net.Conn, message []byte) error {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return fmt.Errorf("a connection %T can't be handed over", c)
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	if err := h.to.SetWriteDeadline(time.Now().Add(preambleLimit)); err != nil {
		return fmt.Errorf("its bridge: %w", err)
	}
	controlled := raw.Control(func(fd uintptr) {
		_, _, err = h.to.WriteMsgUnix(message, unix.UnixRights(int(fd)), nil)
	})
	if err = errors.Join(controlled, err); err != nil {
		return fmt.Errorf("its bridge takes no connections: %w", err)
	}
	return nil
}

// prefixed is a connection of which a few bytes were read already.
type prefixed struct {
	net.Conn
	first []byte
}

// Read gives these first.
func (c *prefixed) Read(b []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(b, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

// handed is the process's end of the way from its agent.
type handed struct {
	from *net.UnixConn
}

// Handed is a listener for the connections that an agent hands over. When the agent has ended, Accept gives io.EOF.
func Handed(from *net.UnixConn) net.Listener { return handed{from} }

// Accept gives the next connection.
func (h handed) Accept() (net.Conn, error) {
	message := make([]byte, preambleBytes+1)
	control := make([]byte, unix.CmsgSpace(4*4))
	n, size, flags, _, err := h.from.ReadMsgUnix(message, control)
	if err != nil {
		return nil, err
	}
	files, err := descriptors(control[:size])
	if err == nil && (n != preambleBytes || len(files) != 1 || flags&unix.MSG_CTRUNC != 0) {
		err = fmt.Errorf("found %d bytes and %d descriptors from the agent, allowed: %d and 1", n, len(files),
			preambleBytes)
	}
	var c net.Conn
	if err == nil {
		c, err = net.FileConn(files[0]) // a descriptor of its own
	}
	for _, f := range files {
		_ = f.Close()
	}
	return c, err
}

// descriptors are the files in what came beside a message.
func descriptors(control []byte) (files []*os.File, err error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, fmt.Errorf("beside a connection from the agent: %w", err)
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue // something else
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "connection"))
		}
	}
	return files, nil
}

// Close ends Accept.
func (h handed) Close() error { return h.from.Close() }

// Addr is the socket's.
func (h handed) Addr() net.Addr { return h.from.LocalAddr() }
