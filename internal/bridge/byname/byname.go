// SPDX-License-Identifier: Apache-2.0

// Package byname passes what senders of package ipc send on to receivers on other machines: it has this machine's
// gateway, and dials, as one more sender, what the senders of other machines name.
//
// For each sender there is a session of its own with the other machine, and on either side one goroutine. The sender's
// machine is 0 in it, the receiver's 1. docs/format/ipc.md has the frames.
//
// Guarantee: a receiver gets a remote sender's messages whole, in order and once each, whatever becomes of connections,
// or one error, as of a local sender; so does the sender. One that isn't received from holds no other one up. Nothing
// that another machine has sent is used before it is bounded, and a sender takes no more memory here than its window,
// its lane and its pool. Nothing is allocated for a message in the long run.
//
//	s, err := byname.Serve(byname.Config{Security: security, Connections: way, Report: report})
//	err = s.Close()
package byname

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/bridge/stream"
	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/ipc"
)

// Run stands in front of TLS on connections for this package, in the place of a run's number.
var Run = [16]byte([]byte("names of ipc\x00\x00\x00\x00"))

// The machines of a session.
const (
	senders   = 0
	receivers = 1
)

// Limits of what other machines get here.
const (
	sendersMax   = 64       // senders of other machines
	laneBytesMax = 64 << 20 // ring of one
	poolBytesMax = 1 << 30  // pool of one
	resendBytes  = 2 << 20  // frames of a session that aren't acknowledged
	dialTimeout  = 4 * time.Second
)

// Config is what a Server is made from.
type Config struct {
	Names       ipc.ListenConfig // where the gateway and the receivers are; its limits are those of senders here
	Cluster     string           // both machines name the same
	Security    *stream.Security
	Connections *os.File    // from the agent: one end of stream.Way, which Serve takes over
	Report      func(error) // what came to nothing; several goroutines may call it at a time

	// ConnectTimeout, PeerTimeout and Window are those of sessions; 0: 5 s, 3 s and 10 s.
	ConnectTimeout, PeerTimeout, Window time.Duration
}

// Server passes messages on, both ways.
type Server struct {
	cfg         Config
	gateway     *ipc.Gateway
	server      *stream.Server
	incarnation uint64
	ctx         context.Context // ended by Close
	cancel      context.CancelCauseFunc
	all         sync.WaitGroup

	mu      sync.Mutex
	in      map[[16]byte]*inward // by the number of their sessions' runs
	closing bool
}

// Serve opens the gateway, and takes connections.
func Serve(cfg Config) (*Server, error) {
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, 5*time.Second)
	cfg.PeerTimeout = cmp.Or(cfg.PeerTimeout, 3*time.Second)
	cfg.Window = cmp.Or(cfg.Window, 10*time.Second)
	l, err := stream.HandedFile(cfg.Connections)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, in: map[[16]byte]*inward{}, incarnation: random() | 1}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	if s.gateway, err = ipc.OpenGateway(cfg.Names); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	s.server = stream.Serve(l, stream.ServerConfig{Security: cfg.Security, Accept: s.accept, Refused: cfg.Report})
	s.all.Go(s.depart)
	return s, nil
}

func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])
}

// Close ends all senders, which their receivers take for dead, and the other way round. It returns when nothing of the
// Server runs any more.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.cancel(errors.New("the agent of its machine was ended"))
	err := s.gateway.Close()
	err = errors.Join(err, s.server.Close())
	s.all.Wait()
	return err
}

// depart gives each sender of this machine a goroutine.
func (s *Server) depart() {
	for {
		o, err := s.gateway.Accept()
		if err != nil {
			return // it was closed
		}
		s.all.Go(func() { s.outward(o) })
	}
}

// config is that of a session.
func (s *Server) config(self int, id session.Identity) session.Config {
	id.Cluster, id.Incarnation = s.cfg.Cluster, s.incarnation
	return session.Config{Self: self, Peer: 1 - self, Stream: session.Express, Identity: id,
		ConnectTimeout: s.cfg.ConnectTimeout, PeerTimeout: s.cfg.PeerTimeout, Window: s.cfg.Window,
		ResendBytes: resendBytes}
}

// accept uses a connection from another machine, of a sender's session that is here, or that begins.
func (s *Server) accept(c session.Conn, h session.Hello) error {
	in, err := s.inwardOf(&h)
	if err != nil {
		session.Refuse(c, err)
		return err
	}
	return in.session.Accept(c, h)
}

func (s *Server) inwardOf(h *session.Hello) (*inward, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.in[h.Run]
	switch {
	case in != nil:
		return in, nil
	case h.From != senders || h.To != receivers || h.Stream != session.Express:
		return nil, fmt.Errorf("a hello of machine %d to %d (%v), want %d to %d (%v)", h.From, h.To, h.Stream, senders,
			receivers, session.Express)
	case h.Peer != 0:
		return nil, errors.New("a sender that was here, and has ended")
	case s.closing:
		return nil, errors.New("the agent of this machine is ending")
	case len(s.in) >= sendersMax:
		return nil, fmt.Errorf("there are %d senders of other machines already, at most %d may be", len(s.in),
			sendersMax)
	}
	in, err := newInward(s, h.Identity)
	if err == nil {
		s.in[h.Run] = in
		s.all.Go(in.run)
	}
	return in, err
}

// forget ends what may be found by a hello.
func (s *Server) forget(run [16]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.in, run)
}
