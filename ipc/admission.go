// SPDX-License-Identifier: Apache-2.0

package ipc

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// Who connects and says nothing costs the receiver a socket and a goroutine. So there
// are at most meetingsMax such, none for longer than helloLimit, and one more puts out
// the one that has waited longest among those of the process that has most of them:
// whoever says its hello at once is let in however many others are silent.
const (
	meetingsMax = 64
	// helloLimit is how long a sender may take to say its hello. It makes its memory
	// before it connects, so that this is a matter of microseconds.
	helloLimit = time.Second
)

// errEvicted is why a silent connection was ended.
var errEvicted = errors.New("ipc: others came while it said nothing")

// meeting is a connection before its hello.
type meeting struct {
	conn *net.UnixConn
	pid  int
}

// enter notes a new connection. It returns the connection that has to go for it, nil
// for none. The list of all connections is there for Close.
func (n *listener) enter(m meeting) (victim *net.UnixConn, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closing {
		return nil, false
	}
	n.conns = append(n.conns, m.conn)
	n.meetings = append(n.meetings, m)
	if len(n.meetings) > meetingsMax {
		i := mostOf(n.meetings)
		victim = n.meetings[i].conn
		n.meetings = slices.Delete(n.meetings, i, i+1)
	}
	return victim, true
}

// mostOf is the index of the oldest meeting of the process that has most of them; of
// several such processes, the one whose oldest is oldest.
func mostOf(meetings []meeting) int {
	counts := make(map[int]int)
	most := 0
	for _, m := range meetings {
		counts[m.pid]++
		most = max(most, counts[m.pid])
	}
	return slices.IndexFunc(meetings, func(m meeting) bool { return counts[m.pid] == most })
}

// greeted takes a connection that has said its hello off the list of meetings. false:
// it had to go before.
func (n *listener) greeted(conn *net.UnixConn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := slices.IndexFunc(n.meetings, func(m meeting) bool { return m.conn == conn })
	if i < 0 {
		return false
	}
	n.meetings = slices.Delete(n.meetings, i, i+1)
	return true
}

// leave closes a connection and takes it off all lists.
func (n *listener) leave(conn *net.UnixConn) {
	_ = conn.Close() // nothing is sent any more; the peer sees the end in any case
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns = slices.DeleteFunc(n.conns, func(c *net.UnixConn) bool { return c == conn })
	n.meetings = slices.DeleteFunc(n.meetings, func(m meeting) bool { return m.conn == conn })
}

// turnAway tells a connection that there is no place for it now, and closes it.
func turnAway(conn *net.UnixConn) {
	// Its buffer is empty, so that the packet finds room; if not, it sees the end.
	_ = conn.SetWriteDeadline(time.Now().Add(helloLimit))
	w := welcome{status: statusBusy, reason: "too many processes are meeting the receiver at a time"}
	_ = sendPacket(conn, w.encode())
	_ = conn.Close()
}

// seat is what a sender takes up: one place of SendersMax, and memory of BytesMax.
type seat struct {
	number int
	bytes  int64
}

// takeSeat charges a sender's memory before any of it is mapped.
func (n *listener) takeSeat(h *hello) (seat, error) {
	s := seat{bytes: int64(h.linkSize + h.poolSize)} // no overflow: both were bounded
	if s.bytes > n.cfg.BytesMax {
		return s, fmt.Errorf("%w: %d bytes of memory, at most %d are allowed here for all senders: a smaller RingBytes or PoolBytes, or a larger BytesMax", ErrRefused, s.bytes, n.cfg.BytesMax)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seats >= n.cfg.SendersMax {
		return s, fmt.Errorf("%w: %w: there are %d senders already, at most %d may be", ErrRefused, ErrBusy, n.seats, n.cfg.SendersMax)
	}
	if s.bytes > n.cfg.BytesMax-n.bytes {
		return s, fmt.Errorf("%w: %w: %d bytes of memory beside the %d of other senders, at most %d are allowed here (BytesMax)", ErrRefused, ErrBusy, s.bytes, n.bytes, n.cfg.BytesMax)
	}
	s.number = n.number
	n.seats++
	n.number++
	n.bytes += s.bytes
	return s, nil
}

func (n *listener) freeSeat(s seat) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seats--
	n.bytes -= s.bytes
}
