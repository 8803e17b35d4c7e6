// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/disco-sim/disco/internal/session"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"
)

const (
	helloLimit    = 3 * time.Second // from the connection to a hello that a session has taken
	helloBytesMax = 64 << 10        // read of a connection until then, TLS and HTTP/2 included
)

// ServerConfig is what a server is made from.
type ServerConfig struct {
	Security *Security
	// Accept uses a connection whose first message was that hello until it has ended, as [session.Session.Accept] does,
	// or answers it with [session.Refuse]. It is called by a goroutine for each connection. An error is reported.
	Accept func(session.Conn, session.Hello) error
	// Refused reports connections that came to nothing. Several goroutines may call it at a time.
	Refused func(error)
}

// Server takes connections from other machines.
type Server struct {
	cfg      ServerConfig
	listener net.Listener
	grpc     *grpc.Server
	waiting  waiting
	agreed   chan net.Conn // connections for gRPC
	closing  chan struct{}
	once     sync.Once
	ended    sync.WaitGroup
}

// Serve takes connections from a listener until Close; they have nothing in front of TLS. See [Handed].
func Serve(l net.Listener, cfg ServerConfig) *Server {
	s := &Server{cfg: cfg, listener: l, agreed: make(chan net.Conn), closing: make(chan struct{})}
	s.grpc = grpc.NewServer(grpc.ForceServerCodecV2(codec{}), grpc.UnknownServiceHandler(s.handle),
		grpc.Creds(shown{}), grpc.InTapHandle(stoppable), grpc.WaitForHandlers(true),
		grpc.ConnectionTimeout(helloLimit), grpc.MaxConcurrentStreams(1), grpc.MaxHeaderListSize(headerBytesMax),
		grpc.MaxRecvMsgSize(messageBytesMax+markBytes), grpc.MaxSendMsgSize(messageBytesMax+markBytes),
		grpc.InitialWindowSize(windowBytes), grpc.InitialConnWindowSize(windowBytes),
		grpc.WriteBufferSize(writeBytes), grpc.ReadBufferSize(readBytes))
	s.ended.Go(func() { _ = s.grpc.Serve((*agreed)(s)) }) // it ends with Close
	s.ended.Go(func() {
		acceptAll(l, s.closing, cfg.Refused, func(c net.Conn) { s.ended.Go(func() { s.one(c) }) })
	})
	return s
}

// Close ends all connections, and returns when nothing of the server runs any more. What was sent on those whose Accept
// has returned arrives before, if the other side reads it within a moment.
func (s *Server) Close() error {
	var err error
	s.once.Do(func() {
		close(s.closing)
		err = s.listener.Close()
		s.waiting.close()
		late := time.AfterFunc(moment, s.grpc.Stop)
		s.grpc.GracefulStop()
		late.Stop()
	})
	s.ended.Wait()
	return err
}

// agreed is a server as a listener for gRPC: of the connections that have passed TLS.
type agreed Server

// Accept gives the next one.
func (a *agreed) Accept() (net.Conn, error) {
	select {
	case c := <-a.agreed:
		return c, nil
	case <-a.closing:
		return nil, net.ErrClosed
	}
}

// Close does nothing: the server does it.
func (a *agreed) Close() error { return nil }

// Addr is the listener's.
func (a *agreed) Addr() net.Addr { return a.listener.Addr() }

// one does TLS with a connection, and gives it to gRPC.
func (s *Server) one(c net.Conn) {
	tune(c)
	g := &guarded{Conn: c, left: helloBytesMax, opened: make(chan struct{}), closed: make(chan struct{})}
	g.visitor = s.waiting.enter(g.shut, helloLimit)
	t, err := s.cfg.Security.server(g)
	if err != nil {
		s.cfg.Refused(fmt.Errorf("stream: %w", err))
		_ = g.Close()
		return
	}
	select {
	case s.agreed <- &admitted{Conn: t, guarded: g}:
	case <-s.closing: // which has closed it, or will
	}
}

// guarded is a connection of which only so much is read until it is open.
type guarded struct {
	net.Conn
	visitor *visitor
	left    int // bytes that may be read before
	isOpen  atomic.Bool
	opened  chan struct{}
	closed  chan struct{}
	once    sync.Once
}

// Read waits where too much has come too early.
func (g *guarded) Read(b []byte) (int, error) {
	if g.isOpen.Load() {
		return g.Conn.Read(b)
	}
	if g.left == 0 {
		select {
		case <-g.opened:
			return g.Conn.Read(b)
		case <-g.closed:
			return 0, net.ErrClosed
		}
	}
	n, err := g.Conn.Read(b[:min(len(b), g.left)])
	g.left -= n
	return n, err
}

// open ends the guard, unless the connection was closed for waiting too long.
func (g *guarded) open() bool {
	if g.isOpen.Load() {
		return true
	}
	if !g.visitor.leave() {
		return false
	}
	g.isOpen.Store(true)
	close(g.opened)
	return true
}

// Close closes the connection. It may be called more than once.
func (g *guarded) Close() error {
	g.visitor.leave()
	g.shut()
	return nil
}

func (g *guarded) shut() {
	g.once.Do(func() {
		close(g.closed)
		_ = g.Conn.Close()
	})
}

// admitted is a connection that has passed TLS.
type admitted struct {
	net.Conn
	guarded *guarded
	used    atomic.Bool // by its one stream
}

// shown are gRPC's credentials of connections that have passed TLS: a stream finds its connection in them.
type shown struct{}

// Close closes the connection below. TLS would say goodbye first, and wait where the other side takes nothing.
func (a *admitted) Close() error { return a.guarded.Close() }

// AuthType is part of [credentials.AuthInfo].
func (*admitted) AuthType() string { return "disco" }

// ServerHandshake has nothing left to do.
func (shown) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	a, ok := c.(*admitted)
	if !ok {
		return nil, nil, fmt.Errorf("stream: a connection %T", c)
	}
	return a, a, nil
}

// ClientHandshake isn't used.
func (shown) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("stream: the credentials are a server's")
}

// Info says nothing.
func (shown) Info() credentials.ProtocolInfo { return credentials.ProtocolInfo{} }

// Clone gives the same.
func (s shown) Clone() credentials.TransportCredentials { return s }

// OverrideServerName isn't used.
func (shown) OverrideServerName(string) error { return nil }

// stopKey is where a stream's context holds what ends its receiving.
type stopKey struct{}

// stoppable gives a stream a context that can be ended. gRPC has no other way by which a server ends a receive, and
// still sends what stands before the end.
func stoppable(ctx context.Context, _ *tap.Info) (context.Context, error) {
	ctx, stop := context.WithCancel(ctx)
	return context.WithValue(ctx, stopKey{}, stop), nil
}

// handle is the goroutine of a connection's stream. The stream ends when it returns.
func (s *Server) handle(_ any, stream grpc.ServerStream) error {
	p, _ := peer.FromContext(stream.Context())
	a, ok := p.AuthInfo.(*admitted)
	stop, can := stream.Context().Value(stopKey{}).(context.CancelFunc)
	if !ok || !can || !a.used.CompareAndSwap(false, true) {
		return errors.New("stream: one stream for each connection")
	}
	c := &accepted{frames: frames{stream: stream}, guarded: a.guarded, stop: stop}
	err := s.greet(c)
	if err != nil {
		s.cfg.Refused(fmt.Errorf("stream: %v: %w", a.RemoteAddr(), err))
	}
	stop()
	// The other side closes the connection when it has received the end; if it doesn't, it is closed here.
	time.AfterFunc(moment, func() { _ = a.guarded.Close() })
	return nil
}

// greet takes the hello.
func (s *Server) greet(c *accepted) error {
	b, err := c.frames.receive()
	if err != nil {
		return fmt.Errorf("no hello within %v and %d bytes, or one of more than %d such connections: %w", helloLimit,
			helloBytesMax, waitingMax, err)
	}
	h, err := session.ParseHello(b)
	if err != nil {
		session.Refuse(c, err)
		return err
	}
	return s.cfg.Accept(c, h)
}

// accepted is a connection that has come in.
type accepted struct {
	frames
	guarded *guarded
	stop    context.CancelFunc
}

var _ session.Conn = (*accepted)(nil)

// Send sends a message.
func (c *accepted) Send(b *session.Buffer) error { return c.send(b) }

// Receive gives the next message. Whoever calls it has taken the hello.
func (c *accepted) Receive() ([]byte, error) {
	if !c.guarded.open() {
		return nil, io.EOF
	}
	return c.receive()
}

// Close ends Receive, and by that the stream, once the goroutine that receives has returned.
func (c *accepted) Close() { c.stop() }
