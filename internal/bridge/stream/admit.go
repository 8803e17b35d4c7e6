// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// http2 is what TLS calls the protocol of gRPC: clients that aren't ours insist on it.
const http2 = "h2"

// admission is a listener of the connections that have passed TLS.
type admission struct {
	net.Listener
	security *Security
	refused  func(error)
	waiting  waiting
	passed   chan net.Conn
	closing  chan struct{}
	once     sync.Once
	ended    sync.WaitGroup
}

// Admit is a listener for a server of gRPC's: of those connections of another one that have shown a certificate of the
// authority, within the time and among as many as Serve allows. Its Close returns when nothing of it runs any more.
func Admit(l net.Listener, s *Security, refused func(error)) net.Listener {
	a := &admission{Listener: l, security: s, refused: refused, passed: make(chan net.Conn),
		closing: make(chan struct{})}
	a.ended.Go(func() { acceptAll(l, a.closing, refused, func(c net.Conn) { a.ended.Go(func() { a.one(c) }) }) })
	return a
}

// one does TLS with a connection.
func (a *admission) one(c net.Conn) {
	v := a.waiting.enter(func() { _ = c.Close() }, helloLimit)
	t, err := a.security.server(c, http2)
	if err == nil {
		select {
		case a.passed <- t:
			v.leave()
			return
		case <-v.gone: // by Close, too
			err = fmt.Errorf("%v: nothing has taken the connection for %v", c.RemoteAddr(), helloLimit)
		}
	}
	select {
	case <-a.closing:
	default:
		a.refused(fmt.Errorf("stream: %w", err))
	}
	if v.leave() {
		_ = c.Close()
	}
}

// Accept gives the next connection.
func (a *admission) Accept() (net.Conn, error) {
	select {
	case c := <-a.passed:
		return c, nil
	case <-a.closing:
		return nil, net.ErrClosed
	}
}

// Close closes the other listener, and what has not passed.
func (a *admission) Close() error {
	var err error
	a.once.Do(func() {
		close(a.closing)
		err = a.Listener.Close()
		a.waiting.close()
	})
	a.ended.Wait()
	return err
}

// Keepalive of the agent's own connections: gRPC's least for clients, and what servers may ask of them.
const (
	aliveAfter = 10 * time.Second
	aliveLimit = 3 * time.Second
	aliveLeast = aliveAfter / 2
)

// AgentOptions are those of a server behind [Admit]: it notices a client that has gone within some seconds, and takes
// no message above a size.
func AgentOptions(messageBytesMax int) []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ConnectionTimeout(helloLimit), grpc.MaxHeaderListSize(headerBytesMax),
		grpc.MaxConcurrentStreams(16), grpc.MaxRecvMsgSize(messageBytesMax), grpc.MaxSendMsgSize(messageBytesMax),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: time.Minute, Time: time.Second,
			Timeout: aliveLimit}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: aliveLeast, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true)}
}

// AgentConn is a connection to the services of an agent itself.
type AgentConn struct {
	*grpc.ClientConn
	Address  string
	security *Security
	raw      net.Conn
	watched  *watched
}

// A connection that ends before anything has come may be one that a busy agent hasn't looked at in time: another one is
// tried. What closes it at once, and goes on doing so, is no agent, or not one that is there soon.
const (
	againAfter = 50 * time.Millisecond // before the next connection, and twice as long each time
	againMost  = 500 * time.Millisecond
	atOnce     = preambleLimit / 2 // until a connection has ended that nobody has waited for
	atOnceMost = preambleLimit     // for how long such ones are tried
)

// Connect makes a connection to the agent at an address, which has answered then. ctx ends the attempt, not the
// connection. An error names the machine, and what to do.
func (s *Security) Connect(ctx context.Context, address string, messageBytesMax int) (*AgentConn, error) {
	var early error // how the last connection but this one has ended
	began, times := time.Now(), 0
	for wait := againAfter; ; wait = min(2*wait, againMost) {
		tried := time.Now()
		c, err := s.connectOnce(ctx, address, messageBytesMax)
		switch {
		case err == nil:
			return c, nil
		case ctx.Err() != nil && early != nil:
			return nil, s.explainAgent(fmt.Errorf("%w, and then %w", early, context.Cause(ctx)), address)
		case !endedEarly(err):
			return nil, err
		}
		times++
		early = fmt.Errorf("%w, %d times in %v", err, times, time.Since(began).Round(100*time.Millisecond))
		if time.Since(tried) < atOnce && time.Since(began) > atOnceMost {
			return nil, s.explainAgent(early, address)
		}
		again := time.NewTimer(wait)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return nil, s.explainAgent(early, address)
		}
	}
}

// endedEarly tells whether the other side has closed a connection without a word.
func endedEarly(err error) bool {
	var refused *RefusedError
	return !errors.As(err, &refused) && isGone(err)
}

// connectOnce makes one connection. Its error is in words, unless the other side has closed it early.
func (s *Security) connectOnce(ctx context.Context, address string, messageBytesMax int) (*AgentConn, error) {
	raw, err := dialTCP(ctx, address)
	if err != nil {
		return nil, err
	}
	interrupt := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Now().Add(-time.Hour)) })
	c, err := s.connect(raw, address, messageBytesMax)
	if !interrupt() && err == nil {
		c.Close()
		err = context.Cause(ctx)
	}
	switch {
	case err == nil:
		return c, nil
	case ctx.Err() != nil:
		err = unreached(ctx, err, address)
	case !endedEarly(err):
		err = s.explainAgent(err, address)
	}
	_ = raw.Close()
	return nil, err
}

// connect does TLS and makes gRPC's client.
func (s *Security) connect(raw net.Conn, address string, messageBytesMax int) (*AgentConn, error) {
	secured, err := s.client(raw, address)
	if err != nil {
		return nil, err
	}
	if t, ok := secured.(*tls.Conn); ok { // as in Dialer.agree
		var first [1]byte
		if _, err := io.ReadFull(t, first[:]); err != nil {
			return nil, err
		}
		secured = &prefixed{secured, first[:]}
	}
	w := &watched{Conn: secured}
	a := &awaited{Conn: w, came: make(chan struct{})}
	var once atomic.Bool
	cc, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if once.Swap(true) {
				return nil, errors.New("the connection has ended, and nothing is tried on another one")
			}
			return a, nil
		}), grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(), grpc.WithDisableHealthCheck(),
		grpc.WithIdleTimeout(0), grpc.WithMaxHeaderListSize(headerBytesMax),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: aliveAfter, Timeout: aliveLimit,
			PermitWithoutStream: true}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageBytesMax), grpc.MaxCallSendMsgSize(messageBytesMax)))
	if err != nil {
		return nil, err
	}
	c := &AgentConn{ClientConn: cc, Address: address, security: s, raw: raw, watched: w}
	cc.Connect()
	<-a.came // ctx, too, ends it
	if first := w.first.Load(); first != nil && endedEarly(*first) {
		c.Close()
		return nil, *first
	}
	return c, nil // whatever else was wrong is the answer to the first call
}

// awaited is a connection that tells when something has come on it for the first time, or nothing will.
type awaited struct {
	net.Conn
	once sync.Once
	came chan struct{}
}

// Read is the connection's.
func (a *awaited) Read(b []byte) (int, error) {
	n, err := a.Conn.Read(b)
	a.once.Do(func() { close(a.came) })
	return n, err
}

// Close is the connection's.
func (a *awaited) Close() error {
	err := a.Conn.Close()
	a.once.Do(func() { close(a.came) })
	return err
}

// Explain puts into words why a call has failed.
func (c *AgentConn) Explain(ctx context.Context, err error) error {
	s, ok := status.FromError(err)
	switch {
	case ctx.Err() != nil:
		return unreached(ctx, err, c.Address)
	case !ok:
	case s.Code() == codes.Unavailable:
		first := c.watched.first.Load()
		if first == nil || errors.Is(*first, net.ErrClosed) { // gRPC gives it up for what was said, or wasn't
			return &RefusedError{fmt.Errorf("machine %s: its agent is ending or stopped, or it isn't one of disco (%s)",
				c.Address, s.Message())}
		}
		err = *first
	case s.Code() == codes.Unimplemented:
		return &RefusedError{fmt.Errorf("machine %s: it has gRPC, but is no agent of this version of disco (%s)",
			c.Address, s.Message())}
	default:
		return &RefusedError{fmt.Errorf("machine %s: %s", c.Address, s.Message())}
	}
	return c.security.explainAgent(err, c.Address)
}

// Close ends the connection.
func (c *AgentConn) Close() {
	_ = c.raw.Close() // first, so that closing gRPC's side waits for nothing
	_ = c.ClientConn.Close()
}

// dialTCP makes a connection. Its error names the machine and what to do.
func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	var tcp net.Dialer
	c, err := tcp.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, unreached(ctx, err, address)
	}
	return c, nil
}

// unreached puts into words why there is no connection to an address.
func unreached(ctx context.Context, err error, address string) error {
	var name *net.DNSError
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("machine %s doesn't answer (%w): is it up, and does its network let this port through?",
			address, context.Cause(ctx))
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("machine %s: no agent listens there (%w): start one on it, with agent --listen", address, err)
	case errors.As(err, &name):
		return fmt.Errorf("machine %s: its name is unknown here (%w): is it spelt as its certificate has it?", address,
			err)
	}
	return fmt.Errorf("machine %s: %w", address, err)
}

// RefusedError is about a machine that was reached and can't be used: its certificate or ours is no good, or it is no
// agent of disco.
type RefusedError struct{ reason error }

// Error is the reason.
func (e *RefusedError) Error() string { return e.reason.Error() }

// Unwrap gives the reason.
func (e *RefusedError) Unwrap() error { return e.reason }

// explainAgent puts into words why a connection to an agent came to nothing.
func (s *Security) explainAgent(err error, address string) error {
	var late interface{ Timeout() bool }
	switch {
	case errors.As(err, &late) && late.Timeout():
		return fmt.Errorf("machine %s says nothing: it isn't an agent of disco, or is stopped (%w)", address, err)
	case !isGone(err):
		err = fmt.Errorf("machine %s: %w", address, err)
		if s.id != nil {
			err = s.id.Explain(errors.Unwrap(err), address)
		}
	case s.id != nil:
		err = fmt.Errorf("machine %s has closed the connection (%v): it is no agent of disco, is ending, or is too "+
			"busy to take a connection within %v", address, err, preambleLimit)
	default:
		err = fmt.Errorf("machine %s has closed the connection (%v): it expects TLS, which is --tls-dir here, is "+
			"no agent of disco, is ending, or is too busy to take a connection within %v", address, err,
			preambleLimit)
	}
	return &RefusedError{err}
}
