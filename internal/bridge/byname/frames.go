// SPDX-License-Identifier: Apache-2.0

package byname

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/disco-sim/disco/internal/session"
	"github.com/disco-sim/disco/ipc"
)

// Bodies of control frames, which stand for all that is numbered here: what it is, an argument, and bytes.
const (
	kindOpen    = 1 // to the receiver's machine: version; limits and name
	kindOpened  = 2 // the answer: status, number of the sender; a text
	kindMessage = 3 // bytes of the message in all; the first of them
	kindMore    = 4 // 0; the following
	kindEnd     = 5 // how the sender has ended
	kindEnded   = 6 // to the sender's machine: how the receiver has ended

	headBytes = 8
	openBytes = 32 // in front of the name
	version   = 1
)

// partMost is how many bytes of a message a frame has at most: a frame fills a message of the session.
const partMost = session.MessageBytes - session.HeaderBytes - headBytes

// How a side has ended.
const (
	closed = 0 // in order
	died   = 1
)

// windowBytes is how much of a sender's messages may be under way, each frame with what is around it. The last one may
// overdraw it.
const windowBytes = 1 << 20

// cost is what a frame takes of the window.
func cost(data int) uint64 { return uint64(data + session.HeaderBytes + headBytes) }

var le = binary.LittleEndian

// head is the beginning of a body.
type head struct{ kind, arg uint32 }

func (h head) put(b []byte) []byte {
	le.PutUint32(b, h.kind)
	le.PutUint32(b[4:], h.arg)
	return b[headBytes:]
}

// parse divides a body.
func parse(body []byte) (h head, data []byte, err error) {
	if len(body) < headBytes || len(body) > headBytes+partMost {
		return h, nil, bad(0, fmt.Sprint("a body of ", len(body)), fmt.Sprintf("%d to %d", headBytes,
			headBytes+partMost))
	}
	return head{le.Uint32(body), le.Uint32(body[4:])}, body[headBytes:], nil
}

// bad is a frame that no peer may send.
func bad(at int, found, allowed string) error {
	return &session.FrameError{Byte: session.HeaderBytes + at, Found: found, Allowed: allowed}
}

// putOpen appends what the receiver's machine has to know of a sender.
func putOpen(b []byte, cfg ipc.DialConfig, name string) []byte {
	for _, v := range []int{cfg.RingBytes, cfg.InlineMax, cfg.PoolBytes} {
		b = le.AppendUint64(b, uint64(v))
	}
	pool := uint64(1)
	if cfg.NoPool {
		pool = 0
	}
	return append(le.AppendUint64(b, pool), name...)
}

// parseOpen bounds it.
func parseOpen(arg uint32, b []byte) (cfg ipc.DialConfig, name string, err error) {
	if arg != version {
		return cfg, "", fmt.Errorf("%w: the other machine speaks version %d of names, this one %d: use one build of "+
			"disco", ipc.ErrRefused, arg, version)
	}
	if len(b) < openBytes {
		return cfg, "", bad(headBytes, fmt.Sprint(len(b), " bytes"), fmt.Sprint(openBytes, " and a name"))
	}
	ring, inline, pool := le.Uint64(b), le.Uint64(b[8:]), le.Uint64(b[16:])
	if ring > laneBytesMax/2 || inline > laneBytesMax || pool > poolBytesMax {
		return cfg, "", fmt.Errorf("%w: a ring of %d bytes, a pool of %d: at most %d and %d for senders of other "+
			"machines", ipc.ErrRefused, ring, pool, laneBytesMax/2, poolBytesMax)
	}
	cfg = ipc.DialConfig{RingBytes: int(ring), InlineMax: int(inline), PoolBytes: int(pool),
		NoPool: le.Uint64(b[24:]) == 0}
	return cfg, string(b[openBytes:]), nil
}

// Status of an answer: what Dial returns.
var statuses = []error{nil, ipc.ErrRefused, ipc.ErrBusy, ipc.ErrNoReceiver, ipc.ErrNoAnswer}

func statusOf(err error) uint32 {
	for i, kind := range statuses {
		if i > 1 && errors.Is(err, kind) {
			return uint32(i)
		}
	}
	return 1
}

// errorOf is the error of an answer.
func errorOf(status uint32, text string) error {
	if status == 0 {
		return nil
	}
	if status >= uint32(len(statuses)) {
		status = 1
	}
	return fmt.Errorf("%w: %s", statuses[status], text)
}

// link is what both ends of a sender's session have.
type link struct {
	session *session.Session
	ctx     context.Context // ended when nothing is to be sent any more; the cause says why
	wake    chan struct{}   // there may be room, or credit, or something that came
}

func (l *link) notify() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// end ends the session, and returns when nothing of it runs any more. What ends in order doesn't keep a server that
// closes from its end.
func (l *link) end(s *Server, reason string) {
	stop := context.AfterFunc(s.ctx, func() { l.session.Close(context.Cause(s.ctx).Error()) })
	l.session.Close(reason)
	stop()
}

// frame adds a frame, and gives its data to be filled. It waits for room.
func (l *link) frame(h head, size int) ([]byte, error) {
	for {
		if b, ok := l.session.Frame(session.Header{Type: session.Control}, headBytes+size); ok {
			return h.put(b), nil
		}
		if err := l.await(); err != nil {
			return nil, err
		}
	}
}

// await sends what there is, and waits until something has changed.
func (l *link) await() error {
	if err := l.session.Flush(); err != nil {
		return err
	}
	select {
	case <-l.wake:
		return nil
	case <-l.ctx.Done():
		return context.Cause(l.ctx)
	}
}

// send sends one frame with a text.
func (l *link) send(h head, text []byte) error {
	b, err := l.frame(h, min(len(text), math.MaxUint16))
	if err != nil {
		return err
	}
	copy(b, text)
	return l.session.Flush()
}
