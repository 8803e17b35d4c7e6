// SPDX-License-Identifier: Apache-2.0

package byname

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/ipc"
)

// inward is a sender of another machine, for which there is one here.
type inward struct {
	link
	server *Server
	run16  [16]byte
	cancel context.CancelCauseFunc
	again  atomic.Bool // a connection is up: credit is to be sent anew

	mu       sync.Mutex
	queue    []byte // frames that came: length of the data, head, data
	came     uint64 // by cost
	limit    uint64 // granted
	complete bool   // the sender's end is in the queue: the session isn't needed any more

	// Of the goroutine that passes messages on.
	spare   []byte
	moved   uint64 // by cost
	to      *ipc.Sender
	total   int    // of the message under way; 0: none
	whole   []byte // of it, if it gets no block
	inline  int    // the longest message that gets none
	loan    ipc.Loan
	lent    bool
	at      int
	granted uint64 // told
}

// newInward makes the session that a first hello begins.
func newInward(s *Server, id session.Identity) (*inward, error) {
	in := &inward{server: s, run16: id.Run, limit: windowBytes, granted: windowBytes}
	in.wake = make(chan struct{}, 1)
	in.ctx, in.cancel = context.WithCancelCause(s.ctx)
	cfg := s.config(receivers, id)
	cfg.Apply, cfg.Acked, cfg.Changed = in.apply, in.notify, in.changed
	var err error
	in.session, err = session.New(cfg)
	return in, err
}

// changed takes the session's new state. What has come whole is passed on without it.
func (in *inward) changed(state session.State) {
	switch state {
	case session.Up:
		in.again.Store(true)
		in.notify()
	case session.Lost, session.Ended:
		in.mu.Lock()
		defer in.mu.Unlock()
		if !in.complete {
			in.cancel(errLost)
		}
	}
}

// queueHead is in front of the data of a frame that waits.
const queueHead = 4 + headBytes

// apply takes a frame of the sender's machine. It never waits.
func (in *inward) apply(h session.Header, body []byte) error {
	if h.Type == session.Pong {
		return nil
	}
	if h.Type != session.Control {
		return bad(0, fmt.Sprint("type ", uint8(h.Type)), "control")
	}
	what, data, err := parse(body)
	if err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	counts := what.kind == kindMessage || what.kind == kindMore
	switch {
	case what.kind == kindOpened || what.kind < kindOpen || what.kind > kindEnd:
		return bad(0, fmt.Sprint("kind ", what.kind), "open, message, more, end")
	case in.complete:
		return bad(0, fmt.Sprintf("kind %d behind the end", what.kind), "nothing")
	case counts && in.came >= in.limit:
		return bad(0, fmt.Sprint(in.came, " bytes and more"), fmt.Sprint(in.limit, ", as granted"))
	case !counts && len(in.queue) > windowBytes+2*partMost:
		return bad(0, fmt.Sprint("kind ", what.kind, " behind ", len(in.queue), " bytes"), "one open, one end")
	}
	if counts {
		in.came += cost(len(data))
	}
	in.complete = what.kind == kindEnd
	in.queue = le.AppendUint32(in.queue, uint32(len(data)))
	in.queue = append(append(in.queue, body[:headBytes]...), data...)
	in.notify()
	return nil
}

// take gives what has come, until it is called again.
func (in *inward) take() []byte {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.queue, in.spare = in.spare[:0], in.queue
	return in.spare
}

// run passes messages on until one of the sides has ended.
func (in *inward) run() {
	reason := in.serve()
	in.server.forget(in.run16)
	if in.to != nil {
		in.server.report(in.to.Abandon()) // unless it was closed
	}
	if reason != nil {
		in.server.report(fmt.Errorf("names: a sender of another machine: %w", reason))
		in.end(in.server, reason.Error())
	} else {
		in.end(in.server, "")
	}
	in.cancel(nil)
}

// serve is run until the end; nil: in order.
func (in *inward) serve() error {
	var gone <-chan struct{} // of the receiver
	for {
		work := false
		for b := in.take(); len(b) > 0; work = true {
			n := queueHead + int(le.Uint32(b))
			h := head{le.Uint32(b[4:]), le.Uint32(b[8:])}
			end, err := in.one(h, b[queueHead:n])
			if end || err != nil {
				return err
			}
			b = b[n:]
		}
		if in.to != nil {
			gone = in.to.Gone()
		}
		if err := in.grant(); err != nil {
			return err
		}
		if work {
			continue
		}
		select {
		case <-in.wake:
		case <-gone:
			return in.ended(in.to.Err())
		case <-in.ctx.Done():
			return in.cause()
		}
	}
}

// cause is why the session has ended.
func (in *inward) cause() error {
	if err := in.session.Err(); err != nil {
		return err
	}
	return context.Cause(in.ctx)
}

// grant tells the sender's machine of room, when a quarter of the window has become free, or the last word may be lost.
func (in *inward) grant() error {
	again := in.again.Swap(false)
	fresh := in.moved + windowBytes
	if fresh-in.granted < windowBytes/4 && !again {
		return nil
	}
	in.mu.Lock()
	in.limit = fresh
	in.mu.Unlock()
	in.granted = fresh
	le.PutUint64(in.session.State(session.Header{Type: session.Credit}, 8), fresh)
	if err := in.session.Flush(); err != nil && !in.isComplete() {
		return in.cause()
	}
	return nil
}

func (in *inward) isComplete() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.complete
}

// one does what a frame says. end: nothing comes any more.
func (in *inward) one(h head, data []byte) (end bool, err error) {
	if (h.kind == kindOpen) != (in.to == nil) {
		return true, fmt.Errorf("a frame of kind %d, want open first, and once", h.kind)
	}
	switch h.kind {
	case kindOpen:
		return in.open(h.arg, data)
	case kindEnd:
		if in.total > 0 {
			return true, fmt.Errorf("the end within a message, behind %d bytes of %d", in.at, in.total)
		}
		if h.arg == closed {
			err = in.to.Close()
		}
		return true, err
	case kindMessage:
		if in.total > 0 || int64(h.arg) > int64(in.to.MessageMax()) {
			return true, fmt.Errorf("a message of %d bytes behind %d of %d, want at most %d", h.arg, in.at, in.total,
				in.to.MessageMax())
		}
		in.total, in.at = int(h.arg), 0
		err = in.first(data)
	case kindMore:
		err = in.more(data)
	}
	in.moved += cost(len(data))
	if err != nil {
		return true, in.ended(err)
	}
	return false, nil
}

// open dials the receiver, and answers.
func (in *inward) open(arg uint32, data []byte) (end bool, err error) {
	cfg, name, err := parseOpen(arg, data)
	if err == nil && strings.Contains(name, "/") {
		err = fmt.Errorf("%w: the name %.80q", ipc.ErrRefused, name)
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(in.ctx, dialTimeout)
		defer cancel()
		cfg.Dir, in.inline = in.server.cfg.Names.Dir, cfg.InlineMax
		if cfg.NoPool {
			in.inline = math.MaxInt
		}
		in.to, err = ipc.Dial(ctx, name, cfg)
	}
	if err != nil {
		text := append([]byte{0, 0, 0, 0}, err.Error()...)
		return true, in.send(head{kindOpened, statusOf(err)}, text)
	}
	return false, in.send(head{kindOpened, 0}, le.AppendUint32(nil, uint32(in.to.Number())))
}

// first begins a message, which may be all of it.
func (in *inward) first(data []byte) (err error) {
	if len(data) == in.total {
		in.total = 0
		return in.to.Send(in.ctx, data)
	}
	if in.lent = in.total > in.inline; in.lent {
		if in.loan, err = in.to.Loan(in.ctx, in.total); err != nil {
			return err
		}
	}
	in.whole = in.whole[:0]
	return in.more(data)
}

// more adds to a message that has begun.
func (in *inward) more(data []byte) error {
	if len(data) == 0 || len(data) > in.total-in.at {
		return fmt.Errorf("names: %d bytes behind %d of %d", len(data), in.at, in.total)
	}
	if in.lent {
		copy(in.loan.Data[in.at:], data)
	} else {
		in.whole = append(in.whole, data...)
	}
	if in.at += len(data); in.at < in.total {
		return nil
	}
	in.total = 0
	if in.lent {
		return in.to.SendLoan(in.ctx, &in.loan)
	}
	return in.to.Send(in.ctx, in.whole)
}

// ended tells the sender's machine how the receiver has ended, if that is what the error says.
func (in *inward) ended(err error) error {
	how := uint32(died)
	switch {
	case in.ctx.Err() != nil:
		return in.cause()
	case errors.Is(err, ipc.ErrClosed):
		how = closed
	case !errors.Is(err, ipc.ErrPeerDead):
		return err
	}
	if err := in.send(head{kindEnded, how}, nil); err != nil && !in.isComplete() {
		return in.cause()
	}
	return nil
}
