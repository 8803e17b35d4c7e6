// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/disco-sim/disco/perf/bench"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// The gRPC row is one long stream of raw payloads each way: no protocol buffers, so that what is measured is gRPC
// and not an encoding.

const grpcMethod = "/disco.bench/Stream"

// messageBytesMax is more than the largest batch.
const messageBytesMax = bench.PayloadMax + 1<<20

// rawCodec passes payloads on as they are. A message is a *[]byte.
type rawCodec struct{}

var _ encoding.CodecV2 = rawCodec{}

// Name is the codec's content subtype.
func (rawCodec) Name() string { return "raw" }

// Marshal wraps a payload.
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("peers: gRPC message %T, want *[]byte", v)
	}
	return mem.BufferSlice{mem.NewBuffer(b, &messages)}, nil
}

// messages are those that gRPC is done with.
var messages = pool{sync.Pool{New: func() any { return new([]byte) }}}

// pool is a mem.BufferPool into which messages of any size come back.
type pool struct{ free sync.Pool }

// Get gives a message of that size. gRPC pools none of up to 1 KiB of capacity.
func (p *pool) Get(size int) *[]byte {
	b := p.free.Get().(*[]byte)
	if cap(*b) < size {
		*b = make([]byte, max(size, 2<<10))
	}
	*b = (*b)[:size]
	return b
}

// Put takes it back.
func (p *pool) Put(b *[]byte) { p.free.Put(b) }

// Unmarshal copies a payload out.
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok || data.Len() != len(*b) {
		return fmt.Errorf("peers: gRPC message of %d bytes for a %T", data.Len(), v)
	}
	data.CopyTo(*b)
	return nil
}

// grpcEnd is what the streams of client and server have in common.
type grpcEnd interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

// grpcStream is one end of the stream. gRPC has its own buffers, so there is nothing
// to flush.
type grpcStream struct {
	end   grpcEnd
	close func()
}

func (g *grpcStream) Send(payload []byte) error {
	own := messages.Get(len(payload)) // gRPC keeps it until it is on its way
	copy(*own, payload)
	return g.end.SendMsg(own)
}

func (g *grpcStream) Flush() error                 { return nil }
func (g *grpcStream) Receive(payload []byte) error { return g.end.RecvMsg(&payload) }

func (g *grpcStream) Close() error {
	g.close()
	return nil
}

// grpcListener is a server that expects one stream.
type grpcListener struct {
	address string
	server  *grpc.Server
	streams chan grpcEnd
	done    chan struct{}
}

// The settings are those of disco between machines (package internal/bridge/stream).
const (
	windowBytes = 16 << 20
	writeBytes  = 32 << 10
	readBytes   = 64 << 10
)

func listenGRPC(tlsDir string) (listener, error) {
	socket, err := listenLoopback(tlsDir)
	if err != nil {
		return nil, err
	}
	l := &grpcListener{address: socket.Addr().String(), streams: make(chan grpcEnd), done: make(chan struct{})}
	l.server = grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.MaxRecvMsgSize(messageBytesMax),
		grpc.InitialWindowSize(windowBytes), grpc.InitialConnWindowSize(windowBytes),
		grpc.WriteBufferSize(writeBytes), grpc.ReadBufferSize(readBytes),
		grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
			select {
			case l.streams <- s:
				<-l.done
			case <-l.done:
			}
			return nil
		}))
	go func() { _ = l.server.Serve(socket) }()
	return l, nil
}

func (l *grpcListener) Address() string { return l.address }

func (l *grpcListener) Accept() (stream, error) {
	select {
	case s := <-l.streams:
		return &grpcStream{end: s, close: func() {}}, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *grpcListener) Close() error {
	close(l.done)
	l.server.Stop()
	return nil
}

func dialGRPC(address, tlsDir string) (stream, error) {
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			return dialLoopback(address, tlsDir)
		}), grpc.WithInitialWindowSize(windowBytes), grpc.WithInitialConnWindowSize(windowBytes),
		grpc.WithWriteBufferSize(writeBytes), grpc.WithReadBufferSize(readBytes),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(messageBytesMax)))
	if err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, grpcMethod)
	if err != nil {
		cancel()
		conn.Close()
		return nil, fmt.Errorf("peers: %w", err)
	}
	return &grpcStream{end: s, close: func() {
		cancel()
		conn.Close()
	}}, nil
}
