// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/disco-sim/disco/internal/bridge/stream"
)

// Names of what the agent serves beside its health.
const (
	serviceName  = "disco.Agent"
	lookMethod   = "Look"
	offersMethod = "Offers"
)

// offerLimit is how long a stream may take to make its offer.
const offerLimit = 5 * time.Second

// closeLimit is how long clients may take to notice that the server has ended.
const closeLimit = time.Second

// Work is a run that an agent has taken: its bridge.
type Work interface {
	// Take gives it a message of the launcher's: begin, go, done. An error ends the stream, and so the run.
	Take(*Message) error
	// Reports are its own: contact and, as the last one before it is closed, ended.
	Reports() <-chan *Message
	// Leave is called when the launcher's stream has ended, perhaps more than once.
	Leave()
}

// Measured is how a machine is now.
type Measured struct {
	Processors int
	Memory     int     // bytes that are free for new processes
	Load       float64 // processes that run or want to, of the last minute
}

// ServerConfig is what an agent serves.
type ServerConfig struct {
	Security *stream.Security
	Book     *Book
	Measure  func() Measured
	// Start starts the work of an offer that the book has taken, and frees that when the work has ended, or can't be
	// started. Nobody reads its reports any more when gone is closed. An error refuses the offer.
	Start   func(o *Offer, gone <-chan struct{}) (Work, error)
	Refused func(error) // reports connections that came to nothing; several goroutines may call it at a time
}

// Server is an agent's own services.
type Server struct {
	grpc_health_v1.UnimplementedHealthServer
	cfg      ServerConfig
	listener net.Listener
	grpc     *grpc.Server
	closing  chan struct{}
	once     sync.Once
	ended    sync.WaitGroup
}

// Serve serves the connections of a listener until Close.
func Serve(l net.Listener, cfg ServerConfig) *Server {
	s := &Server{cfg: cfg, listener: stream.Admit(l, cfg.Security, cfg.Refused), closing: make(chan struct{})}
	s.grpc = grpc.NewServer(stream.AgentOptions(MessageBytesMax + 64)...) // the rest is how protobuf wraps bytes
	grpc_health_v1.RegisterHealthServer(s.grpc, s)
	s.grpc.RegisterService(&grpc.ServiceDesc{ServiceName: serviceName, HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: lookMethod, Handler: handleLook}},
		Streams: []grpc.StreamDesc{{StreamName: offersMethod, Handler: handleOffers, ServerStreams: true,
			ClientStreams: true}}}, s)
	s.ended.Go(func() { _ = s.grpc.Serve(s.listener) }) // it ends with Close
	return s
}

// Close ends all connections, and returns when nothing of the server runs any more. Works go on.
func (s *Server) Close() error {
	var err error
	s.once.Do(func() {
		close(s.closing)
		err = s.listener.Close()
		late := time.AfterFunc(closeLimit, s.grpc.Stop)
		s.grpc.GracefulStop() // what was sent last arrives
		late.Stop()
	})
	s.ended.Wait()
	return err
}

// handleLook answers the question how the agent is.
func handleLook(server any, ctx context.Context, decode func(any) error,
	_ grpc.UnaryServerInterceptor) (any, error) {
	s := server.(*Server)
	came := clock()
	if err := decode(&wrapperspb.BytesValue{}); err != nil {
		return nil, err
	}
	m := &Message{Type: TypeStatus, Status: s.cfg.Book.Status()}
	now := s.cfg.Measure()
	m.Status.Processors, m.Status.Memory, m.Status.Load = now.Processors, now.Memory, now.Load
	m.Status.Came, m.Status.Went = came, clock()
	b, err := Append(nil, m)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &wrapperspb.BytesValue{Value: b}, ctx.Err()
}

// clock is this machine's, for comparison with that of another one.
func clock() int64 { return time.Now().UnixNano() }

// handleOffers is the goroutine of an offer's stream. The stream ends when it returns.
func handleOffers(server any, g grpc.ServerStream) error {
	s := server.(*Server)
	from := "an unknown address"
	if p, ok := peer.FromContext(g.Context()); ok {
		from = p.Addr.String()
	}
	received := make(chan *Message)
	failed := make(chan error, 1)
	gone := make(chan struct{})
	defer close(gone)
	s.ended.Go(func() { // its receive ends when the handler has returned
		for {
			m, err := receive(g)
			if err != nil {
				failed <- err
				return
			}
			select {
			case received <- m:
			case <-gone:
				return
			}
		}
	})
	late := time.NewTimer(offerLimit)
	defer late.Stop()
	select {
	case m := <-received:
		return s.offered(g, m, from, received, failed, gone)
	case err := <-failed:
		return s.mistaken(g, err)
	case <-late.C:
		return status.Errorf(codes.DeadlineExceeded, "found no offer within %v", offerLimit)
	case <-s.closing:
		return status.Error(codes.Unavailable, "the agent is ending")
	}
}

// mistaken answers what is no message, if there is somebody to answer.
func (s *Server) mistaken(g grpc.ServerStream, err error) error {
	if g.Context().Err() != nil {
		return nil
	}
	code := CodeMistaken
	if _, ok := err.(*VersionError); ok {
		code = CodeVersion
	}
	return send(g, &Message{Type: TypeRefused, Refused: s.cfg.Book.no(code, "%s", Text(err.Error()))})
}

// offered takes the first message of a stream.
func (s *Server) offered(g grpc.ServerStream, m *Message, from string, received <-chan *Message,
	failed <-chan error, gone <-chan struct{}) error {
	if m.Type != TypeOffer {
		return s.mistaken(g, fmt.Errorf("offer: found a message %v, want offer", m.Type))
	}
	accepted, refused := s.cfg.Book.Take(m.Offer, from)
	var w Work
	if refused == nil {
		now := s.cfg.Measure()
		accepted.Processors, accepted.Memory = now.Processors, now.Memory
		var err error
		if w, err = s.cfg.Start(m.Offer, gone); err != nil {
			refused = s.cfg.Book.no(CodeFailed, "%s", Text(err.Error()))
		}
	}
	if refused != nil {
		s.cfg.Refused(fmt.Errorf("offer: the run %q from %s was refused: %s", m.Offer.Name, from, refused.Text))
		return send(g, &Message{Type: TypeRefused, Refused: refused})
	}
	defer w.Leave()
	if err := send(g, &Message{Type: TypeAccepted, Accepted: accepted}); err != nil {
		return err
	}
	reports := w.Reports()
	for {
		select {
		case m := <-received:
			if err := w.Take(m); err != nil {
				return status.Error(codes.InvalidArgument, err.Error())
			}
		case m, ok := <-reports:
			if !ok {
				return nil
			}
			if err := send(g, m); err != nil {
				return err
			}
		case <-failed:
			w.Leave()
			if g.Context().Err() != nil {
				return nil
			}
			failed = nil // it has only said that it sends nothing more, and waits for the end
		case <-s.closing:
			return status.Error(codes.Unavailable, "the agent is ending")
		}
	}
}

// messages is what both ends of a stream have.
type messages interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

func send(g messages, m *Message) error {
	b, err := Append(nil, m)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return g.SendMsg(&wrapperspb.BytesValue{Value: b})
}

func receive(g messages) (*Message, error) {
	var b wrapperspb.BytesValue
	if err := g.RecvMsg(&b); err != nil {
		return nil, err
	}
	return Parse(b.GetValue())
}

// Check is part of gRPC's health service: the whole agent for the name "", else a run.
func (s *Server) Check(_ context.Context,
	r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	serving, known, _ := s.cfg.Book.Serving(r.GetService())
	if !known {
		return nil, status.Errorf(codes.NotFound, "there is no run %.300q here", r.GetService())
	}
	return &grpc_health_v1.HealthCheckResponse{Status: healthOf(serving, known)}, nil
}

func healthOf(serving, known bool) grpc_health_v1.HealthCheckResponse_ServingStatus {
	switch {
	case serving:
		return grpc_health_v1.HealthCheckResponse_SERVING
	case known:
		return grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	return grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN
}

// List is part of gRPC's health service: everything for which there is something to check.
func (s *Server) List(context.Context,
	*grpc_health_v1.HealthListRequest) (*grpc_health_v1.HealthListResponse, error) {
	all := map[string]*grpc_health_v1.HealthCheckResponse{}
	for _, name := range s.cfg.Book.Names() {
		serving, known, _ := s.cfg.Book.Serving(name)
		all[name] = &grpc_health_v1.HealthCheckResponse{Status: healthOf(serving, known)}
	}
	return &grpc_health_v1.HealthListResponse{Statuses: all}, nil
}

// Watch is part of gRPC's health service: what Check says, whenever it changes. A run that isn't here may come.
func (s *Server) Watch(r *grpc_health_v1.HealthCheckRequest, g grpc_health_v1.Health_WatchServer) error {
	last := grpc_health_v1.HealthCheckResponse_UNKNOWN
	for {
		serving, known, changed := s.cfg.Book.Serving(r.GetService())
		if now := healthOf(serving, known); now != last {
			if err := g.Send(&grpc_health_v1.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
			last = now
		}
		select {
		case <-changed:
		case <-g.Context().Done():
			return status.FromContextError(g.Context().Err()).Err()
		case <-s.closing:
			return status.Error(codes.Unavailable, "the agent is ending")
		}
	}
}
