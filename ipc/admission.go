// SPDX-License-Identifier: Apache-2.0

package ipc

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// A connection that sends nothing costs the receiver a socket and a goroutine. So there are at most handshakesMax
// of them, none for longer than helloTimeout. One more evicts the oldest of the process that has most of them: so a
// process that sends its hello at once is admitted, however many others are silent.
const (
	handshakesMax = 64
	// helloTimeout is how long a sender may take to send its hello. It makes its memory before it connects, so that
	// it needs only microseconds.
	helloTimeout = time.Second
)

// errEvicted is the error of a silent connection that was closed for a newer one.
var errEvicted = errors.New("ipc: closed for newer connections before its hello")

// handshake is a connection before its hello.
type handshake struct {
	conn *net.UnixConn
	pid  int
}

// addHandshake adds a new connection. It returns the connection that is evicted for it, nil for none. The list of
// all connections is there for Close.
func (n *listener) addHandshake(m handshake) (evicted *net.UnixConn, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closing {
		return nil, false
	}
	n.conns = append(n.conns, m.conn)
	n.handshakes = append(n.handshakes, m)
	if len(n.handshakes) > handshakesMax {
		i := mostOf(n.handshakes)
		evicted = n.handshakes[i].conn
		n.handshakes = slices.Delete(n.handshakes, i, i+1)
	}
	return evicted, true
}

// mostOf is the index of the oldest handshake of the process that has most of them; of several such processes, the
// one with the oldest handshake.
func mostOf(handshakes []handshake) int {
	counts := make(map[int]int)
	most := 0
	for _, m := range handshakes {
		counts[m.pid]++
		most = max(most, counts[m.pid])
	}
	return slices.IndexFunc(handshakes, func(m handshake) bool { return counts[m.pid] == most })
}

// finishHandshake removes a connection whose hello has come from the list of handshakes. It returns false if the
// connection was evicted before.
func (n *listener) finishHandshake(conn *net.UnixConn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.IndexFunc(n.handshakes, func(m handshake) bool { return m.conn == conn })
	if i < 0 {
		return false
	}
	n.handshakes = slices.Delete(n.handshakes, i, i+1)
	return true
}

// removeConn closes a connection and removes it from all lists.
func (n *listener) removeConn(conn *net.UnixConn) {
	_ = conn.Close() // nothing is sent any more; the peer sees the end in any case
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns = slices.DeleteFunc(n.conns, func(c *net.UnixConn) bool { return c == conn })
	n.handshakes = slices.DeleteFunc(n.handshakes, func(m handshake) bool { return m.conn == conn })
}

// rejectBusy answers a connection that the receiver is busy, and closes it.
func rejectBusy(conn *net.UnixConn) {
	// The socket's buffer is empty, so the packet fits; if not, the peer sees only the end.
	_ = conn.SetWriteDeadline(time.Now().Add(helloTimeout))
	w := welcome{status: statusBusy, reason: "too many processes are connecting at the same time"}
	_ = sendPacket(conn, w.encode())
	_ = conn.Close()
}

// admission is what is reserved for a sender: one of SendersMax, and memory of BytesMax.
type admission struct {
	number int
	bytes  int64
}

// reserve counts a sender and its memory before any of it is mapped.
func (n *listener) reserve(h *hello) (admission, error) {
	s := admission{bytes: int64(h.laneSize + h.poolSize)} // no overflow: both were checked
	if s.bytes > n.cfg.BytesMax {
		return s, fmt.Errorf("%w: %d bytes of memory, at most %d are allowed here for all senders: a smaller "+
			"RingBytes or PoolBytes, or a larger BytesMax", ErrRefused, s.bytes, n.cfg.BytesMax)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.admitted >= n.cfg.SendersMax {
		return s, fmt.Errorf("%w: %w: there are %d senders already, at most %d may be", ErrRefused, ErrBusy, n.admitted,
			n.cfg.SendersMax)
	}
	if s.bytes > n.cfg.BytesMax-n.bytes {
		return s, fmt.Errorf("%w: %w: %d bytes of memory beside the %d of other senders, at most %d are allowed here "+
			"(BytesMax)", ErrRefused, ErrBusy, s.bytes, n.bytes, n.cfg.BytesMax)
	}
	s.number = n.number
	n.admitted++
	n.number++
	n.bytes += s.bytes
	return s, nil
}

func (n *listener) unreserve(s admission) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.admitted--
	n.bytes -= s.bytes
}
