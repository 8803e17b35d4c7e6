// SPDX-License-Identifier: Apache-2.0

package ipc

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/disco-sim/disco/ingress"
	"github.com/disco-sim/disco/shm"
)

// ListenConfig sets a Receiver up. The zero value is good.
type ListenConfig struct {
	// Dir as in DialConfig. It is made if it isn't there.
	Dir string

	// SendersMax is how many senders there may be at a time, default 64. Raising it
	// lets more memory be mapped; each sender costs every sweep some 10 ns.
	SendersMax int

	// LinkBytesMax and PoolBytesMax bound what one sender may bring along, in bytes:
	// its ring (default 64 MiB) and its pool (default 1 GiB). Raising them lets one
	// sender take more address space and, as the memory is mapped at once, more time.
	LinkBytesMax int
	PoolBytesMax int

	// BytesMax bounds the memory of all senders together, in bytes, default 4 GiB. It is
	// charged before a sender's memory is mapped; one that would go beyond it is told
	// that the receiver is busy.
	BytesMax int64

	// Wait is how Receive waits for messages: default shm.ModeAdaptive.
	Wait shm.Mode
}

const (
	sendersMaxDefault   = 64
	sendersMaxMax       = 1 << 12
	linkBytesMaxDefault = 64 << 20
	poolBytesMaxDefault = 1 << 30

	bytesMaxDefault = 4 << 30
	// acceptPause is how long the listener rests when the machine lets nobody in,
	// mostly because it has no file descriptors left.
	acceptPause = 50 * time.Millisecond
)

// validate fills in defaults and reports the first field that can't be.
func (cfg *ListenConfig) validate() error {
	if cfg.SendersMax == 0 {
		cfg.SendersMax = sendersMaxDefault
	}
	if cfg.LinkBytesMax == 0 {
		cfg.LinkBytesMax = linkBytesMaxDefault
	}
	if cfg.PoolBytesMax == 0 {
		cfg.PoolBytesMax = poolBytesMaxDefault
	}
	if cfg.BytesMax == 0 {
		cfg.BytesMax = bytesMaxDefault
	}
	if cfg.SendersMax < 1 || cfg.SendersMax > sendersMaxMax {
		return fmt.Errorf("ipc: up to %d senders, want 1 to %d", cfg.SendersMax, sendersMaxMax)
	}
	if cfg.LinkBytesMax < 0 || cfg.LinkBytesMax > shm.BytesMax || cfg.PoolBytesMax < 0 || cfg.PoolBytesMax > shm.BytesMax {
		return fmt.Errorf("ipc: limits of %d bytes for links and %d for pools, want 0 to %d", cfg.LinkBytesMax, cfg.PoolBytesMax, shm.BytesMax)
	}
	if cfg.BytesMax < 0 {
		return fmt.Errorf("ipc: limit of %d bytes for all senders, want more than 0", cfg.BytesMax)
	}
	return nil
}

// listener is the part of a Receiver that meets senders, in goroutines of its own. It
// hands them over to the one goroutine that receives through joined and news.
type listener struct {
	cfg     ListenConfig // immutable
	socket  *net.UnixListener
	claim   *claim
	board   *shm.Segment
	sleeper *sleeper
	done    chan struct{} // closed when Close begins

	// news rises whenever somebody has joined or hung up.
	news  atomic.Uint64
	tasks sync.WaitGroup // the goroutines

	mu       sync.Mutex // guards the fields below
	conns    []*net.UnixConn
	meetings []meeting // of conns, those that haven't said their hello, oldest first
	joined   []*inlet  // have met us and aren't received from yet
	seats    int       // senders whose memory is mapped, or about to be
	bytes    int64     // of that memory
	number   int       // of the next sender
	refused  uint64    // meetings that failed
	closing  bool
	lastFail error
}

// Listen makes this process the receiver of the name. ErrTaken says that another one
// is; what a dead one left is cleared away.
func Listen(name string, cfg ListenConfig) (*Receiver, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := checkName(name); err != nil {
		return nil, err
	}
	c, err := takeName(directory(cfg.Dir), name)
	if err != nil {
		return nil, err
	}
	r := &Receiver{name: name, listener: listener{cfg: cfg, claim: c, done: make(chan struct{})}}
	if err := r.open(name); err != nil {
		r.closeDoor()
		return nil, errors.Join(fmt.Errorf("ipc: listening as %q: %w", name, err), r.tearDown())
	}
	r.tasks.Go(r.accept)
	return r, nil
}

// open makes board and socket.
func (n *listener) open(name string) (err error) {
	n.board, err = shm.Create(shm.Config{Name: "ipc-board-" + name, Kind: kindBoard, Size: boardBytes})
	if err != nil {
		return err
	}
	if n.sleeper, err = newSleeper(n.board.Body(), n.cfg.Wait); err != nil {
		return err
	}
	n.socket, err = net.ListenUnix(network, &net.UnixAddr{Name: n.claim.socket, Net: network})
	if err != nil {
		return err
	}
	n.socket.SetUnlinkOnClose(false) // the claim removes it, while it holds the lock
	return os.Chmod(n.claim.socket, 0o600)
}

// tell wakes the goroutine that receives.
func (n *listener) tell() {
	n.news.Add(1)
	n.sleeper.ring()
}

// accept lets senders in until the socket is closed.
func (n *listener) accept() {
	for {
		conn, err := n.socket.AcceptUnix()
		switch {
		case err == nil:
			n.letIn(conn)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			timer := time.NewTimer(acceptPause)
			select {
			case <-timer.C:
			case <-n.done:
				timer.Stop()
			}
		}
	}
}

// letIn begins the meeting with whoever has connected. It never waits.
func (n *listener) letIn(conn *net.UnixConn) {
	pid, err := checkPeer(conn)
	if err != nil {
		n.refuse(err)
		_ = conn.Close() // no word to strangers
		return
	}
	victim, ok := n.enter(meeting{conn, pid})
	if !ok {
		_ = conn.Close()
		return
	}
	n.tasks.Go(func() { n.serve(conn, pid) })
	if victim != nil {
		turnAway(victim)
	}
}

// refuse counts a meeting that came to nothing: before the sender learns it, so that whoever
// has been refused is in the next Stats.
func (n *listener) refuse(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refused++
	n.lastFail = err
}

// serve meets one sender and then waits for its end. The sender is handed over before
// it is welcomed: whoever has been welcomed is told when the receiver closes.
func (n *listener) serve(conn *net.UnixConn, pid int) {
	defer n.leave(conn)
	l := n.meet(conn)
	if l == nil {
		return
	}
	l.pid = pid
	if !n.join(l) {
		return
	}
	if n.welcome(l) == nil {
		hangUp(conn)
	}
	l.hungUp.Store(true)
	n.tell()
}

// join hands a sender over to the goroutine that receives.
func (n *listener) join(l *inlet) bool {
	n.mu.Lock()
	if n.closing {
		n.mu.Unlock()
		_ = l.link.close() // memory of a peer that came too late, and sees the socket's end
		return false
	}
	n.joined = append(n.joined, l)
	n.mu.Unlock()
	n.tell()
	return true
}

// meet waits for a hello and maps what it names. nil: it came to nothing, which is counted
// and the sender has been told why.
func (n *listener) meet(conn *net.UnixConn) *inlet {
	packet, files, err := n.readHello(conn)
	defer closeFiles(files)
	if err != nil {
		n.refuse(err)
		return nil
	}
	l, err := n.admit(packet, files)
	if err != nil {
		n.refuse(err)
		_ = sendPacket(conn, refusal(err).encode()) // who doesn't read it sees the socket's end
		return nil
	}
	l.conn = conn
	return l
}

// readHello waits for a hello, and gives the connection time for the rest of the meeting.
func (n *listener) readHello(conn *net.UnixConn) (packet []byte, files []*os.File, err error) {
	if err := conn.SetDeadline(time.Now().Add(helloLimit)); err != nil {
		return nil, nil, err
	}
	packet, files, err = receivePacket(conn)
	if !n.greeted(conn) {
		return nil, files, errEvicted
	}
	if err != nil {
		return nil, files, err
	}
	return packet, files, conn.SetDeadline(time.Now().Add(meetLimit))
}

// refusal puts into words, for the sender, why it isn't let in.
func refusal(err error) *welcome {
	w := &welcome{status: statusRefused, reason: strings.TrimPrefix(err.Error(), ErrRefused.Error()+": ")}
	if errors.Is(err, ErrBusy) {
		w.status, w.reason = statusBusy, strings.TrimPrefix(w.reason, ErrBusy.Error()+": ")
	}
	return w
}

// welcome tells a sender that it may send. After an error nothing more can be said to
// it: it is dead, or takes us for dead.
func (n *listener) welcome(l *inlet) error {
	w := welcome{number: uint32(l.number), boardSize: uint64(n.board.Size()), boardID: n.board.ID()}
	if err := sendPacket(l.conn, w.encode(), n.board.File()); err != nil {
		return err
	}
	return l.conn.SetDeadline(time.Time{})
}

// admit takes a seat and maps what a hello names.
func (n *listener) admit(packet []byte, files []*os.File) (*inlet, error) {
	h, err := parseHello(packet, len(files), &n.cfg)
	if err != nil {
		return nil, err
	}
	taken, err := n.takeSeat(&h)
	if err != nil {
		return nil, err
	}
	l, err := openInlet(taken, &h, files)
	if err != nil {
		n.freeSeat(taken)
		return nil, err
	}
	return l, nil
}

// arrivals takes over who has joined.
func (n *listener) arrivals() []*inlet {
	n.mu.Lock()
	defer n.mu.Unlock()
	joined := n.joined
	n.joined = nil
	return joined
}

// closeDoor lets nobody in any more. Whoever is meeting us fails.
func (n *listener) closeDoor() {
	n.mu.Lock()
	n.closing = true
	n.mu.Unlock()
	close(n.done)
	if n.socket != nil {
		_ = n.socket.Close() // waits for nothing and writes nothing
	}
}

// hangUpAll closes all sockets and waits until their goroutines have ended.
func (n *listener) hangUpAll() {
	n.mu.Lock()
	for _, conn := range n.conns {
		_ = conn.Close()
	}
	n.mu.Unlock()
	n.tasks.Wait()
}

// inlet is one sender, as the receiver sees it.
type inlet struct {
	seat                    // immutable
	pid    int              // immutable
	conn   *net.UnixConn    // immutable
	link   *link            // immutable
	in     *ingress.Ingress // immutable; over this one lane
	hungUp atomic.Bool      // the socket's other end is gone

	// Owned by the goroutine that receives.
	next  uint64 // number of the next message
	dead  bool   // in knows that the peer is gone
	ended bool   // nothing comes any more; waits for leases
	fault error  // of a Release
}

// openInlet maps what a checked hello names and puts the receiving side together.
func openInlet(taken seat, h *hello, files []*os.File) (*inlet, error) {
	k, err := attachLink(h, files)
	if err != nil {
		return nil, err
	}
	l := &inlet{seat: taken, link: k}
	if err := l.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrRefused, err), k.close())
	}
	return l, nil
}

// laneRecordsMax is how many messages one sweep takes from one sender. More would
// give the ring's room back more rarely, fewer would store its head more often.
const laneRecordsMax = 128

func (l *inlet) open() (err error) {
	bell, err := shm.OpenDoorbell(l.link.bell())
	if err != nil {
		return err
	}
	l.in, err = ingress.New(ingress.Config{
		Lanes:      []ingress.Source{{Peer: peerSender, Lane: l.link.lane(), Pool: l.link.poolBody(), Bell: bell}},
		RecordsMax: laneRecordsMax,
	})
	return err
}

const peerSender = 0 // the number of the sender in its own ingress
