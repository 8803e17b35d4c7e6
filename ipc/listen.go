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

// ListenConfig configures a Receiver. The zero value is valid.
type ListenConfig struct {
	// Dir as in DialConfig. It is made if it isn't there.
	Dir string

	// SendersMax is how many senders there may be at a time, default 64. Raising it
	// lets more memory be mapped; each sender costs every sweep some 10 ns.
	SendersMax int

	// LaneBytesMax and PoolBytesMax limit what one sender may share, in bytes: its ring (default 64 MiB) and its
	// pool (default 1 GiB). Raising them lets one sender take more address space and, as the memory is mapped at
	// once, more time.
	LaneBytesMax int
	PoolBytesMax int

	// BytesMax bounds the memory of all senders together, in bytes, default 4 GiB. It is counted before a sender's
	// memory is mapped; a sender that would exceed it gets ErrBusy.
	BytesMax int64

	// Wait is how Receive waits for messages: default shm.ModeAdaptive.
	Wait shm.Mode

	gateway bool // hellos name receivers on other machines
}

const (
	sendersMaxDefault   = 64
	sendersMaxMax       = 1 << 12
	laneBytesMaxDefault = 64 << 20
	poolBytesMaxDefault = 1 << 30

	bytesMaxDefault = 4 << 30
	// acceptPause is how long the listener waits after a failed accept, mostly because there are no free file
	// descriptors.
	acceptPause = 50 * time.Millisecond
)

// validate fills in defaults and reports the first field that can't be.
func (cfg *ListenConfig) validate() error {
	if cfg.SendersMax == 0 {
		cfg.SendersMax = sendersMaxDefault
	}
	if cfg.LaneBytesMax == 0 {
		cfg.LaneBytesMax = laneBytesMaxDefault
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
	if cfg.LaneBytesMax < 0 || cfg.LaneBytesMax > shm.BytesMax || cfg.PoolBytesMax < 0 ||
		cfg.PoolBytesMax > shm.BytesMax {
		return fmt.Errorf("ipc: limits of %d bytes for lane segments and %d for pools, want 0 to %d", cfg.LaneBytesMax,
			cfg.PoolBytesMax, shm.BytesMax)
	}
	if cfg.BytesMax < 0 {
		return fmt.Errorf("ipc: limit of %d bytes for all senders, want more than 0", cfg.BytesMax)
	}
	return nil
}

// listener is the part of a Receiver that accepts senders, in goroutines of its own. It passes them to the one
// goroutine that receives, through joined and changes.
type listener struct {
	cfg     ListenConfig // immutable
	socket  *net.UnixListener
	claim   *claim
	board   *shm.Segment
	sleeper *sleeper
	done    chan struct{} // closed when Close begins

	depart func(*source) // of a gateway: it has the sender until that has ended; nil: no gateway

	// changes rises with each sender that has joined or whose socket has ended.
	changes atomic.Uint64
	tasks   sync.WaitGroup // the goroutines

	mu         sync.Mutex // guards the fields below
	conns      []*net.UnixConn
	handshakes []handshake // of conns, those without a hello, oldest first
	joined     []*source   // admitted and not yet known to the goroutine that receives
	admitted   int         // senders whose memory is mapped, or is about to be
	bytes      int64       // of that memory
	number     int         // of the next sender
	refused    uint64      // handshakes that failed
	closing    bool
	lastFail   error
}

// Listen makes this process the receiver of the name. ErrTaken means that another process is; what a dead one left
// is removed.
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
		r.stopAccepting()
		return nil, errors.Join(fmt.Errorf("ipc: listening as %q: %w", name, err), r.tearDown())
	}
	r.tasks.Go(r.accept)
	return r, nil
}

// open makes board and socket.
func (n *listener) open(name string) (err error) {
	if err := n.openBoard(name); err != nil {
		return err
	}
	return n.openSocket()
}

func (n *listener) openBoard(name string) (err error) {
	n.board, err = shm.Create(shm.Config{Name: "ipc-board-" + name, Kind: kindBoard, Size: boardBytes})
	if err != nil {
		return err
	}
	n.sleeper, err = newSleeper(n.board.Body(), n.cfg.Wait)
	return err
}

func (n *listener) openSocket() (err error) {
	n.socket, err = net.ListenUnix(network, &net.UnixAddr{Name: n.claim.socket, Net: network})
	if err != nil {
		return err
	}
	n.socket.SetUnlinkOnClose(false) // the claim removes it, while it holds the lock
	return os.Chmod(n.claim.socket, 0o600)
}

// notify wakes the goroutine that receives.
func (n *listener) notify() {
	n.changes.Add(1)
	n.sleeper.ring()
}

// accept accepts senders until the socket is closed.
func (n *listener) accept() {
	for {
		conn, err := n.socket.AcceptUnix()
		switch {
		case err == nil:
			n.startHandshake(conn)
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

// startHandshake begins the handshake of a new connection. It never waits.
func (n *listener) startHandshake(conn *net.UnixConn) {
	pid, err := checkPeer(conn)
	if err != nil {
		n.refuse(err)
		_ = conn.Close() // a peer of another user is disconnected without a reply
		return
	}
	evicted, ok := n.addHandshake(handshake{conn, pid})
	if !ok {
		_ = conn.Close()
		return
	}
	n.tasks.Go(func() { n.serve(conn, pid) })
	if evicted != nil {
		rejectBusy(evicted)
	}
}

// refuse counts a handshake that failed, before the sender gets the answer: so a refused sender is counted in the
// next Stats.
func (n *listener) refuse(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refused++
	n.lastFail = err
}

// serve does the handshake with one sender and then waits for its end. The sender is passed on before its welcome
// is sent: so every sender that got a welcome sees when the receiver closes.
func (n *listener) serve(conn *net.UnixConn, pid int) {
	defer n.removeConn(conn)
	l := n.handshake(conn)
	if l == nil {
		return
	}
	l.pid = pid
	if n.depart != nil {
		n.depart(l)
		return
	}
	if !n.join(l) {
		return
	}
	if n.welcome(l) == nil {
		hangUp(conn)
	}
	l.hungUp.Store(true)
	n.notify()
}

// join passes a sender to the goroutine that receives.
func (n *listener) join(l *source) bool {
	n.mu.Lock()
	if n.closing {
		n.mu.Unlock()
		_ = l.close() // the receiver is closing: the peer sees the socket's end
		return false
	}
	n.joined = append(n.joined, l)
	n.mu.Unlock()
	n.notify()
	return true
}

// handshake waits for a hello and maps what it names. nil: it failed, which is counted, and the sender has got the
// reason.
func (n *listener) handshake(conn *net.UnixConn) *source {
	packet, files, err := n.readHello(conn)
	defer closeFiles(files)
	if err != nil {
		n.refuse(err)
		return nil
	}
	l, err := n.admit(packet, files)
	if err != nil {
		n.refuse(err)
		_ = sendPacket(conn, refusal(err).encode()) // a sender that doesn't read it sees the socket's end
		return nil
	}
	l.conn = conn
	return l
}

// readHello waits for a hello, and sets the deadline of the rest of the handshake.
func (n *listener) readHello(conn *net.UnixConn) (packet []byte, files []*os.File, err error) {
	if err := conn.SetDeadline(time.Now().Add(helloTimeout)); err != nil {
		return nil, nil, err
	}
	packet, files, err = receivePacket(conn)
	if !n.finishHandshake(conn) {
		return nil, files, errEvicted
	}
	if err != nil {
		return nil, files, err
	}
	return packet, files, conn.SetDeadline(time.Now().Add(handshakeTimeout))
}

// refusal is the answer for a sender that isn't admitted, with the reason.
func refusal(err error) *welcome {
	w := &welcome{status: statusRefused, reason: strings.TrimPrefix(err.Error(), ErrRefused.Error()+": ")}
	for _, k := range []struct {
		err    error
		status uint32
	}{{ErrBusy, statusBusy}, {ErrNoReceiver, statusAbsent}, {ErrNoAnswer, statusSilent}} {
		if errors.Is(err, k.err) {
			w.status, w.reason = k.status, strings.TrimPrefix(w.reason, k.err.Error()+": ")
			break
		}
	}
	return w
}

// welcome answers a sender that it is admitted. After an error no second answer is tried: the sender is dead, or
// has closed.
func (n *listener) welcome(l *source) error {
	return n.admitAs(l, l.number)
}

// admitAs is welcome, with the number that the sender has.
func (n *listener) admitAs(l *source, number int) error {
	w := welcome{number: uint32(number), boardSize: uint64(n.board.Size()), boardID: n.board.ID()}
	if err := sendPacket(l.conn, w.encode(), n.board.File()); err != nil {
		return err
	}
	return l.conn.SetDeadline(time.Time{})
}

// admit reserves what a hello asks for and maps it.
func (n *listener) admit(packet []byte, files []*os.File) (*source, error) {
	h, err := parseHello(packet, len(files), &n.cfg)
	if err != nil {
		return nil, err
	}
	taken, err := n.reserve(&h)
	if err != nil {
		return nil, err
	}
	l, err := openSource(taken, &h, files)
	if err != nil {
		n.unreserve(taken)
		return nil, err
	}
	l.by = n
	return l, nil
}

// arrivals takes over the senders that have joined.
func (n *listener) arrivals() []*source {
	n.mu.Lock()
	defer n.mu.Unlock()
	joined := n.joined
	n.joined = nil
	return joined
}

// stopAccepting ends the admission of senders. Handshakes that are going on fail.
func (n *listener) stopAccepting() {
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

// source is one sender, as the receiver sees it.
type source struct {
	admission                  // immutable
	by        *listener        // that has reserved it; immutable
	target    target           // of a gateway's sender; immutable
	pid       int              // immutable
	conn      *net.UnixConn    // immutable
	memory    *memory          // immutable
	in        *ingress.Ingress // immutable; over this one lane
	hungUp    atomic.Bool      // the socket's other end is gone

	// Owned by the goroutine that receives.
	next  uint64 // number of the next message
	dead  bool   // in was informed that the peer is gone
	ended bool   // nothing comes any more; waits for leases
	fault error  // of a Release

	freed sync.Once
}

// close unmaps the memory, once, and gives back what was reserved for it.
func (l *source) close() (err error) {
	l.freed.Do(func() {
		err = l.memory.close()
		l.by.unreserve(l.admission)
	})
	return err
}

// openSource maps what a checked hello names and builds the receiving side.
func openSource(taken admission, h *hello, files []*os.File) (*source, error) {
	k, err := attachMemory(h, files)
	if err != nil {
		return nil, err
	}
	l := &source{admission: taken, memory: k, target: h.target}
	if err := l.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrRefused, err), k.close())
	}
	return l, nil
}

// laneRecordsMax is how many messages one sweep takes from one sender. More would
// give the ring's room back more rarely, fewer would store its head more often.
const laneRecordsMax = 128

func (l *source) open() (err error) {
	bell, err := shm.OpenDoorbell(l.memory.bell())
	if err != nil {
		return err
	}
	l.in, err = ingress.New(ingress.Config{
		Lanes:      []ingress.Source{{Peer: peerSender, Lane: l.memory.lane(), Pool: l.memory.poolBody(), Bell: bell}},
		RecordsMax: laneRecordsMax,
	})
	return err
}

const peerSender = 0 // the number of the sender in its own ingress
