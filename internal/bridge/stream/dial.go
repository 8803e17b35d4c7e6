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
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// Dialer makes the connections of one stream to one machine; its Dial is for [session.Config].
type Dialer struct {
	Address  string // of the machine's agent: host:port
	Run      [16]byte
	Security *Security
	Compress Compression

	// For [Auto]: the bytes a second that the way to the machine carries, 0 while that isn't known, until when nothing
	// is looked at; and, if it isn't nil, a report of what was chosen.
	Rate   func() float64
	Chosen func(Choice)

	ending  sync.WaitGroup // connections whose Close was called
	mu      sync.Mutex
	settled bool // Auto has chosen
	chosen  Compression
}

// Dial makes a connection. ctx ends the attempt, not the connection. An error names the machine, and what to do. When
// Close was called, the connection's goroutines end within a moment.
func (d *Dialer) Dial(ctx context.Context) (session.Conn, error) {
	if d.Compress == Auto && d.Rate == nil {
		return nil, errors.New("stream: compression is to be chosen, and Rate is nil")
	}
	var tcp net.Dialer
	raw, err := tcp.DialContext(ctx, "tcp", d.Address)
	if err != nil {
		return nil, fmt.Errorf("machine %s: %w", d.Address, err)
	}
	tune(raw)
	interrupt := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Now().Add(-time.Hour)) })
	c, err := d.agree(raw)
	if !interrupt() && err == nil {
		c.Close()
		err = ctx.Err()
	}
	if err != nil {
		_ = raw.Close()
		return nil, d.Security.explain(err, d.Address)
	}
	return c, nil
}

// Wait returns when nothing of the connections runs any more whose Close was called, which takes a moment: what was
// sent on them has arrived, if the other side reads it. A process that exits before may keep the last of it.
func (d *Dialer) Wait() { d.ending.Wait() }

// agree does TLS and opens the stream.
func (d *Dialer) agree(raw net.Conn) (*dialled, error) {
	if _, err := raw.Write(preamble(d.Run)); err != nil {
		return nil, err
	}
	secured, err := d.Security.client(raw, d.Address)
	if err != nil {
		return nil, err
	}
	if d.Security.id != nil {
		// The other side has only now looked at our certificate. What it says would be lost if gRPC wrote first; its
		// first frame comes by itself.
		var first [1]byte
		if _, err := io.ReadFull(secured, first[:]); err != nil {
			return nil, err
		}
		secured = &prefixed{secured, first[:]}
	}
	w := &watched{Conn: secured}
	var once atomic.Bool
	cc, err := grpc.NewClient("passthrough:///"+d.Address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			if once.Swap(true) {
				return nil, errors.New("the connection has ended, and nothing is tried on another one")
			}
			return w, nil
		}), grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(), grpc.WithDisableHealthCheck(),
		grpc.WithIdleTimeout(0), grpc.WithMaxHeaderListSize(headerBytesMax),
		grpc.WithInitialWindowSize(windowBytes), grpc.WithInitialConnWindowSize(windowBytes),
		grpc.WithWriteBufferSize(writeBytes), grpc.WithReadBufferSize(readBytes),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{}),
			grpc.MaxCallRecvMsgSize(messageBytesMax+markBytes), grpc.MaxCallSendMsgSize(messageBytesMax+markBytes)))
	if err != nil {
		return nil, err
	}
	compression := d.compression()
	var options []grpc.CallOption
	if name := compression.name(); name != "" {
		options = append(options, grpc.UseCompressor(name))
	}
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method, options...)
	if err != nil {
		cancel()
		_ = raw.Close()
		_ = cc.Close()
		return nil, w.reason(err)
	}
	c := &dialled{frames: frames{stream: stream}, client: stream, cc: cc, raw: raw, watched: w, cancel: cancel,
		ending:   &d.ending,
		received: make(chan struct{}), aborted: make(chan struct{})}
	if compression == Auto {
		c.sample = d.newSample(c)
	}
	return c, nil
}

// watched is a connection that keeps its first error: gRPC puts it into words of its own. That may be one of writing,
// after which gRPC closes the connection: reading then only says that it was closed here, unless it had come to the
// other side's end before.
type watched struct {
	net.Conn
	first atomic.Pointer[error]
}

// Read is the connection's.
func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if err != nil {
		w.keep(err)
	}
	return n, err
}

// Write is the connection's.
func (w *watched) Write(b []byte) (int, error) {
	n, err := w.Conn.Write(b)
	if err != nil {
		w.keep(err)
	}
	return n, err
}

// keep keeps an error, unless there was one before. It is called for errors only: err is allocated.
func (w *watched) keep(err error) { w.first.CompareAndSwap(nil, &err) }

// reason is that error, or gRPC's.
func (w *watched) reason(err error) error {
	if first := w.first.Load(); first != nil {
		return *first
	}
	return errors.New(status.Convert(err).Message())
}

// dialled is a connection that was made here.
type dialled struct {
	frames
	client  grpc.ClientStream
	cc      *grpc.ClientConn
	raw     net.Conn
	watched *watched
	cancel  context.CancelFunc
	sample  *sample         // nil: none is taken
	ending  *sync.WaitGroup // the Dialer's

	sending  sync.Mutex    // held while something is sent, as long as the other side takes nothing
	last     bool          // nothing more may be sent; under sending
	received chan struct{} // closed when Receive has had an error
	aborted  chan struct{} // closed when Close has waited long enough
	failed   sync.Once
	closed   sync.Once
}

var _ session.Conn = (*dialled)(nil)

// Send sends a message.
func (c *dialled) Send(b *session.Buffer) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	if c.last {
		b.Free()
		return net.ErrClosed
	}
	if c.sample != nil {
		c.sample.offer(b)
	}
	return c.send(b)
}

// Receive gives the next message.
func (c *dialled) Receive() ([]byte, error) {
	b, err := c.receive()
	if err != nil {
		c.failed.Do(func() { close(c.received) })
		return nil, c.watched.reason(err)
	}
	return b, nil
}

// Close ends Send and Receive: at once when the other side has received the end, and after a moment in any case.
func (c *dialled) Close() {
	c.closed.Do(func() {
		if c.sample != nil {
			c.sample.end()
		}
		c.ending.Go(c.end)
	})
}

func (c *dialled) end() {
	limit := time.AfterFunc(moment, func() {
		c.cancel() // ends Send
		close(c.aborted)
	})
	defer limit.Stop()
	c.sending.Lock()
	c.last = true
	_ = c.client.CloseSend()
	c.sending.Unlock()
	select {
	case <-c.received:
	case <-c.aborted:
	}
	c.cancel()
	_ = c.raw.Close() // first, so that closing gRPC's side waits for nothing
	_ = c.cc.Close()
}
