// SPDX-License-Identifier: Apache-2.0

// Package stream is the connections between machines: each is one bidirectional gRPC stream over TLS, and carries the
// messages of one session. docs/bridge.md is its design.
//
// Guarantee: whoever hasn't shown a certificate of the authority reaches no gRPC, and whoever hasn't been taken by a
// session is read no further than 64 KiB, has a moment to show what it is, and shares 64 places with its like, of which
// the one that waits longest goes first; no message above a session's largest takes memory, compressed or not; every
// wait ends by its deadline, or with Close; in the long run nothing is allocated for a message, beside what gRPC
// allocates itself.
//
//	all := stream.Split(listener, refused)                            // the agent: one port for all
//	err := all.Add(run, toBridge)
//	server := stream.Serve(stream.Handed(fromAgent), security, serve) // a run's bridge
//	conn, err := dialer.Dial(ctx)                                     // another machine's bridge
package stream

import (
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/disco-sim/disco/internal/session"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
)

// Sizes in bytes.
const (
	messageBytesMax = session.HeaderBytes + session.BodyBytesMax
	windowBytes     = 16 << 20 // of gRPC: the credit of lanes is the limit
	writeBytes      = 32 << 10 // buffered by gRPC before it writes
	readBytes       = 64 << 10
	unsentBytesMax  = 128 << 10 // in the kernel, in front of what comes next
	smallBytes      = 2 << 10   // gRPC doesn't return buffers of up to 1 KiB
	headerBytesMax  = 4 << 10   // of a request
)

// moment is how long what was sent before Close may take to arrive.
const moment = time.Second

// method is what the stream is called in HTTP/2.
const method = "/disco.Bridge/Stream"

// codec passes bytes through: an *outgoing when sending, an *incoming when receiving.
type codec struct{}

// Name is part of the content type.
func (codec) Name() string { return "disco" }

// Marshal gives a message with one reference, which gRPC frees.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	o, ok := v.(*outgoing)
	if !ok {
		return nil, fmt.Errorf("stream: a message %T", v)
	}
	o.taken = true
	o.one[0] = mem.NewBuffer(&o.data, o)
	return o.one[:], nil
}

// Unmarshal keeps a message, as it is where it lies in one piece.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*incoming)
	if !ok {
		return fmt.Errorf("stream: a message for %T", v)
	}
	return in.take(data)
}

// outgoing is a message on its way out. gRPC frees it after the last of its readers, and none of them looks at one
// without a reference; so it is used again, with the slice in it.
type outgoing struct {
	one   [1]mem.Buffer
	data  []byte // what gRPC reads; more than 1 KiB of capacity
	small []byte // memory for data that have less
	kept  *session.Buffer
	taken bool // gRPC frees it
	list  *outgoings
}

var _ mem.BufferPool = (*outgoing)(nil)

// Get isn't used: the pool is there for Put.
func (o *outgoing) Get(int) *[]byte { panic("stream: outgoing.Get") }

// Put is called when gRPC has freed the message.
func (o *outgoing) Put(*[]byte) { o.free() }

func (o *outgoing) free() {
	if o.kept != nil {
		o.kept.Free()
	}
	o.kept, o.data = nil, nil
	o.list.put(o)
}

// outgoings are those of a connection that can be used again. A stream holds few at a time: 64 KiB wait in gRPC.
type outgoings struct {
	mu   sync.Mutex
	free []*outgoing
}

func (l *outgoings) get(b *session.Buffer) *outgoing {
	l.mu.Lock()
	var o *outgoing
	if n := len(l.free); n > 0 {
		o = l.free[n-1]
		l.free = l.free[:n-1]
	} else {
		o = &outgoing{list: l}
	}
	l.mu.Unlock()
	o.taken = false
	data := b.Bytes()
	if !mem.IsBelowBufferPoolingThreshold(cap(data)) {
		o.data, o.kept = data, b
		return o
	}
	if o.small == nil {
		o.small = make([]byte, smallBytes)
	}
	o.data = o.small[:copy(o.small, data)]
	b.Free()
	return o
}

func (l *outgoings) put(o *outgoing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free = append(l.free, o)
}

// incoming is the message that was received last.
type incoming struct {
	bytes []byte
	held  mem.Buffer // that bytes lie in; nil: own
	own   []byte
}

func (in *incoming) take(data mem.BufferSlice) error {
	size := data.Len()
	switch {
	case size > messageBytesMax:
		return fmt.Errorf("a message of %d bytes, at most %d are allowed", size, messageBytesMax)
	case len(data) == 1:
		in.held = data[0]
		in.held.Ref()
		in.bytes = in.held.ReadOnlyData()
		return nil
	case size > cap(in.own):
		in.own = make([]byte, max(size, session.MessageBytes+session.HeaderBytes))
	}
	in.bytes = in.own[:data.CopyTo(in.own[:size])]
	return nil
}

func (in *incoming) free() {
	if in.held != nil {
		in.held.Free()
	}
	in.held, in.bytes = nil, nil
}

// grpcStream is what both ends of a gRPC stream have.
type grpcStream interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

// frames is what both ends of a connection have.
type frames struct {
	stream grpcStream
	out    outgoings
	in     incoming
}

// send sends a message and takes over one reference to it.
func (f *frames) send(b *session.Buffer) error {
	o := f.out.get(b)
	err := f.stream.SendMsg(o)
	if err != nil && !o.taken {
		o.free()
	}
	return err
}

// receive gives the next message, until it is called again.
func (f *frames) receive() ([]byte, error) {
	f.in.free()
	err := f.stream.RecvMsg(&f.in)
	return f.in.bytes, err
}

// tune sets what a connection needs that carries more than one stream's worth of urgency: TCP takes only so much in
// front of the next message. Connections that aren't TCP stay as they are.
func tune(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { // without it, it is slower
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentBytesMax)
	})
}

var (
	_ encoding.CodecV2 = codec{}
	_ io.Closer        = (*Server)(nil)
)
