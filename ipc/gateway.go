// SPDX-License-Identifier: Apache-2.0

package ipc

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Gateway is where Dial finds the way to other machines: the agent of a machine has one, passes on what the senders
// send, and dials, as a sender, what those of other machines name. Any goroutine may call its methods.
//
//	g, err := ipc.OpenGateway(ipc.ListenConfig{})
//	o, err := g.Accept()             // a sender; o.Address and o.Name are where its receiver is
//	err = o.Admit(number)            // or o.Refuse(err), or o.Close
//	_, err = o.Poll(visit)           // as of a Receiver with one sender
type Gateway struct {
	listener
	arrived chan *Outgoing
}

// OpenGateway makes this process the gateway of the directory. ErrTaken means that another process is.
func OpenGateway(cfg ListenConfig) (*Gateway, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c, err := takeName(directory(cfg.Dir), gatewayName)
	if err != nil {
		return nil, err
	}
	cfg.gateway = true
	g := &Gateway{listener: listener{cfg: cfg, claim: c, done: make(chan struct{})}, arrived: make(chan *Outgoing)}
	g.depart = g.pass
	if err := g.openSocket(); err != nil {
		g.stopAccepting()
		return nil, errors.Join(fmt.Errorf("ipc: opening the gateway: %w", err), c.release())
	}
	g.tasks.Go(g.accept)
	return g, nil
}

// Accept waits for the next sender whose receiver is on another machine. ErrClosed: the gateway was closed.
func (g *Gateway) Accept() (*Outgoing, error) {
	select {
	case o := <-g.arrived:
		return o, nil
	case <-g.done:
		return nil, fmt.Errorf("ipc: gateway: %w", ErrClosed)
	}
}

// Close ends the gateway. Senders that it has accepted are to be closed before: those that are still there take this
// for the death of their receiver.
func (g *Gateway) Close() error {
	g.stopAccepting()
	g.hangUpAll()
	return g.claim.release()
}

// pass hands a sender over, and watches its socket.
func (g *Gateway) pass(l *source) {
	o, err := newOutgoing(l)
	if err != nil {
		g.refuse(err)
		_ = sendPacket(l.conn, refusal(err).encode()) // a sender that doesn't read it sees the socket's end
		_ = l.close()
		return
	}
	select {
	case g.arrived <- o:
	case <-g.done:
		_ = o.Abandon()
		return
	}
	select {
	case <-o.decided:
	case <-g.done:
	}
	hangUp(l.conn)
	l.hungUp.Store(true)
	o.notify()
}

// Outgoing is a sender of this machine whose receiver is on another one: for the gateway's process a Receiver with this
// one sender. It gets no answer before Admit or Refuse; without one it gives up after 10 s.
type Outgoing struct {
	*Receiver
	from    *source
	decided chan struct{} // closed when the sender has an answer, or gets none
	once    sync.Once
}

func newOutgoing(l *source) (*Outgoing, error) {
	r := &Receiver{name: l.target.name, listener: listener{cfg: l.by.cfg, done: make(chan struct{})}}
	if err := r.openBoard(l.target.name); err != nil {
		return nil, errors.Join(err, r.tearDown())
	}
	r.conns, r.joined = append(r.conns, l.conn), append(r.joined, l)
	r.changes.Add(1)
	return &Outgoing{Receiver: r, from: l, decided: make(chan struct{})}, nil
}

// Address is that of the other machine: host:port.
func (o *Outgoing) Address() string { return o.from.target.address }

// PID is that of the sender's process.
func (o *Outgoing) PID() int { return o.from.pid }

// Config is that of a Sender with the same limits. The machine that dials with it has to bound it first.
func (o *Outgoing) Config() DialConfig { return o.from.target.config(o.from.memory.pool != nil) }

// Admit answers the sender that it has become one of the receiver's, with that number. An error is its end.
func (o *Outgoing) Admit(number int) error {
	defer o.once.Do(func() { close(o.decided) })
	return o.admitAs(o.from, number)
}

// Refuse answers the sender with an error, as Dial returns it: by its kind, ErrNoReceiver, ErrNoAnswer, ErrBusy, or
// else ErrRefused, and the text behind it. Then it closes.
func (o *Outgoing) Refuse(reason error) error {
	_ = o.from.conn.SetWriteDeadline(time.Now().Add(helloTimeout))
	_ = sendPacket(o.from.conn, refusal(reason).encode()) // a sender that doesn't read it sees the socket's end
	return o.Close()
}

// Close ends the sender as the Close of its receiver does.
func (o *Outgoing) Close() error {
	defer o.once.Do(func() { close(o.decided) })
	return o.shut(true)
}

// Abandon ends the sender as the death of its receiver does.
func (o *Outgoing) Abandon() error {
	defer o.once.Do(func() { close(o.decided) })
	return o.shut(false)
}
