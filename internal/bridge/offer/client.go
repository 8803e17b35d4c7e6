// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/disco-sim/disco/internal/bridge/stream"
)

// Client is a connection to an agent.
type Client struct {
	conn *stream.AgentConn
}

// Dial makes a connection to the agent at an address, host:port. ctx ends the attempt. An error names the machine, and
// what to do.
func Dial(ctx context.Context, address string, security *stream.Security) (*Client, error) {
	conn, err := security.Connect(ctx, address, MessageBytesMax+64)
	if err != nil {
		return nil, err
	}
	return &Client{conn}, nil
}

// Close ends the connection, and all that goes over it.
func (c *Client) Close() { c.conn.Close() }

// looks are how often an agent is asked, of which the fastest answer counts.
const looks = 10

// Looked is how an agent is, from here.
type Looked struct {
	*Status
	RoundTrip time.Duration // of the fastest of some questions
	Offset    time.Duration // by which its clock is ahead of this machine's, by the same; for people
}

// Look asks an agent how it is.
func (c *Client) Look(ctx context.Context) (*Looked, error) {
	var best *Looked
	for range looks {
		l, err := c.look(ctx)
		if err != nil {
			return nil, err
		}
		if best == nil || l.RoundTrip < best.RoundTrip {
			best = l
		}
	}
	return best, nil
}

// look asks once.
func (c *Client) look(ctx context.Context) (*Looked, error) {
	var answer wrapperspb.BytesValue
	asked, began := clock(), time.Now()
	err := c.conn.Invoke(ctx, "/"+serviceName+"/"+lookMethod, &wrapperspb.BytesValue{}, &answer)
	took := time.Since(began)
	if err != nil {
		return nil, c.conn.Explain(ctx, err)
	}
	m, err := Parse(answer.GetValue())
	if err == nil && m.Type != TypeStatus {
		err = fmt.Errorf("offer: found a message %v, want status", m.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("machine %s: %w", c.conn.Address, err)
	}
	s := m.Status
	there := min(max(time.Duration(s.Went-s.Came), 0), took)
	ahead := time.Duration(s.Came-asked)/2 + time.Duration(s.Went-asked-int64(took))/2
	return &Looked{s, took - there, ahead}, nil
}

// Rate measures how many bytes a second reach the agent at least: questions that carry some, all at a time, of which
// the agent reads nothing. A first time warms the way up. roundTrip is what an empty question takes.
func (c *Client) Rate(ctx context.Context, roundTrip time.Duration) (bytes float64, err error) {
	noise := make([]byte, rateBytes)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise) // so that nothing on the way makes it shorter
	took := time.Duration(0)
	for range 2 {
		began := time.Now()
		failed := make(chan error, rateCalls)
		for range rateCalls {
			go func() {
				var answer wrapperspb.BytesValue
				failed <- c.conn.Invoke(ctx, "/"+serviceName+"/"+lookMethod, &wrapperspb.BytesValue{Value: noise},
					&answer)
			}()
		}
		for range rateCalls {
			err = errors.Join(err, <-failed)
		}
		if err != nil {
			return 0, c.conn.Explain(ctx, err)
		}
		took = time.Since(began)
	}
	return rateCalls * rateBytes / max(took-roundTrip, took/10, time.Microsecond).Seconds(), nil
}

// What is sent to measure a rate: fewer calls than an agent answers at a time.
const (
	rateCalls = 8
	rateBytes = 60 << 10
)

// Offered is an offer that an agent has accepted.
type Offered struct {
	*Accepted
	client *Client
	stream grpc.ClientStream
	ctx    context.Context
	cancel context.CancelFunc
}

// RefusedError is the answer of an agent that doesn't accept.
type RefusedError struct {
	Address string
	*Refused
}

// Error names the machine.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("machine %s refuses: %s", e.Address, e.Text)
}

// Offer makes an offer. ctx ends the attempt; Offered lasts until it is closed.
func (c *Client) Offer(ctx context.Context, o *Offer) (*Offered, error) {
	offered := &Offered{client: c}
	offered.ctx, offered.cancel = context.WithCancel(context.Background())
	interrupt := context.AfterFunc(ctx, offered.cancel)
	m, err := offered.open(o)
	if !interrupt() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil && m.Type == TypeRefused {
		err = &RefusedError{c.conn.Address, m.Refused}
	} else if err == nil && m.Type != TypeAccepted {
		err = fmt.Errorf("machine %s: offer: found a message %v, want accepted or refused", c.conn.Address, m.Type)
	}
	if err != nil {
		offered.cancel()
		return nil, c.failed(ctx, err)
	}
	offered.Accepted = m.Accepted
	return offered, nil
}

// open sends the offer, and gives the answer.
func (o *Offered) open(what *Offer) (m *Message, err error) {
	o.stream, err = o.client.conn.NewStream(o.ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		"/"+serviceName+"/"+offersMethod)
	if err == nil {
		err = o.Send(&Message{Type: TypeOffer, Offer: what})
	}
	if err == nil || errors.Is(err, io.EOF) { // the other side has ended it, and says why
		m, err = receive(o.stream)
	}
	return m, err
}

// failed puts into words why a call has failed. What is in words already stays.
func (c *Client) failed(ctx context.Context, err error) error {
	var refused *RefusedError
	if _, isStatus := status.FromError(err); !isStatus && (errors.As(err, &refused) || ctx.Err() == nil) {
		return err
	}
	return c.conn.Explain(ctx, err)
}

// Send sends a message: begin, go or done.
func (o *Offered) Send(m *Message) error { return send(o.stream, m) }

// Receive gives the agent's next message, until Close. io.EOF is the end of the run there, when all is free again.
func (o *Offered) Receive() (*Message, error) {
	m, err := receive(o.stream)
	if err != nil && !errors.Is(err, io.EOF) {
		if status.Code(err) == codes.Canceled {
			return nil, err
		}
		return nil, o.client.failed(o.ctx, err)
	}
	return m, err
}

// Close ends the stream at once. Before go it ends the run there.
func (o *Offered) Close() { o.cancel() }
