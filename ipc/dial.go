// SPDX-License-Identifier: Apache-2.0

package ipc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/ring"
	"github.com/disco-sim/disco/shm"
)

// DialConfig configures a Sender. The zero value suits small messages, and large ones up to a megabyte.
type DialConfig struct {
	// Dir is the directory of the sockets, which no other user may enter. Default: "disco" in $XDG_RUNTIME_DIR, or
	// "disco-<uid>" in the directory for temporary files. Both sides must name the same.
	Dir string

	// Retry tries again until the context ends while there is no receiver, it is busy, or it doesn't answer
	// (ErrNoReceiver, ErrBusy, ErrNoAnswer), at growing intervals. Default: these errors are returned at once.
	Retry bool

	// RingBytes is the capacity of the ring, a power of two; default 256 KiB. Raising
	// it lets the sender run further ahead before it has to wait, and costs memory
	// and cache.
	RingBytes int

	// InlineMax is the largest message in bytes that travels inside the ring; larger ones take a block. Default 4
	// KiB. Raising it saves the return of a block and costs the receiver a copy; at most a little less than half of
	// RingBytes.
	InlineMax int

	// PoolBytes is how much memory large messages have, default 16 MiB; the largest message takes about a sixteenth
	// of it (Sender.MessageMax). Raising it costs memory, and about a millisecond a MiB when the sender connects.
	PoolBytes int

	// NoPool is for senders that never send more than InlineMax bytes.
	NoPool bool

	// HugePages as in shm.Config. Default off.
	HugePages bool

	// Wait is how Send waits for room: default shm.ModeAdaptive.
	Wait shm.Mode
}

const (
	ringBytesDefault = 256 << 10 // 4096 messages of 32 bytes
	inlineMaxDefault = 4 << 10   // sending and returning a block costs about as much as copying 4 KiB
	poolBytesDefault = 16 << 20

	// handshakeTimeout is how long the other side may take to answer during the handshake.
	handshakeTimeout = 10 * time.Second
	// dialAgain is how long Dial with Retry waits before the next attempt. Where a receiver listens the next wait
	// is twice as long, up to dialAgainMax, and shorter by a random part of up to half, so that many senders don't
	// try at the same moment.
	dialAgain    = 20 * time.Millisecond
	dialAgainMax = 500 * time.Millisecond
)

// validate fills in defaults and reports the first field that can't be.
func (cfg *DialConfig) validate() error {
	if cfg.RingBytes == 0 {
		cfg.RingBytes = ringBytesDefault
	}
	if cfg.InlineMax == 0 {
		cfg.InlineMax = inlineMaxDefault
	}
	if cfg.PoolBytes == 0 {
		cfg.PoolBytes = poolBytesDefault
	}
	if err := ring.CheckCapacity(cfg.RingBytes, lane.RingBytesMin, ring.CapacityMax); err != nil {
		return fmt.Errorf("ipc: %w", err)
	}
	if most := ring.MaxRecord(cfg.RingBytes) - envelope.EventHeaderBytes; cfg.InlineMax < 0 || cfg.InlineMax > most {
		return fmt.Errorf("ipc: messages of up to %d bytes inside a ring of %d, want 0 to %d", cfg.InlineMax,
			cfg.RingBytes, most)
	}
	return nil
}

// Dial connects to the process that listens under the name, as one of its senders: on this machine, or, where the name
// is host:port/name, on the one whose agent listens at host:port, by the agent of this one. The context limits the
// handshake only. Errors unwrap to ErrNoReceiver, ErrBusy, ErrRefused, ErrNoAnswer, ErrPrivate, ErrProtocol, those of
// shm.Create and shm.Attach, or the context's. Where the context ends during an attempt, with Retry, the error is that
// of the attempt before as well.
func Dial(ctx context.Context, name string, cfg DialConfig) (*Sender, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	d := &dialing{name: name, socket: name, cfg: &cfg}
	if err := d.setTarget(); err != nil {
		return nil, err
	}
	var before error // why the attempt before came to nothing
	for wait := dialAgain; ; {
		s, err := d.once(ctx)
		if err == nil {
			return s, nil
		}
		err = fmt.Errorf("ipc: dialing %q: %w", name, err)
		if end := ctx.Err(); end != nil && !errors.Is(err, end) {
			err = fmt.Errorf("%w: %w", err, end)
		}
		noReceiver, busy := errors.Is(err, ErrNoReceiver), errors.Is(err, ErrBusy)
		if before != nil && ctx.Err() != nil && !noReceiver && !busy { // it was cut short
			err = fmt.Errorf("%w; the attempt before: %w", err, before)
		}
		before = err
		if again := noReceiver || busy || errors.Is(err, ErrNoAnswer); !again || !cfg.Retry ||
			ctx.Err() != nil {
			return nil, errors.Join(err, d.close())
		}
		if ctxErr := sleep(ctx, wait-rand.N(wait/2)); ctxErr != nil {
			return nil, errors.Join(fmt.Errorf("%w: %w", err, ctxErr), d.close())
		}
		if !noReceiver {
			wait = min(2*wait, dialAgainMax)
		}
	}
}

// sleep waits, or returns the context's error as soon as that ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err() // when the time is over as well, too
}

// dialing is one Dial, of one attempt or several. It owns the memory until a Sender does.
type dialing struct {
	name   string
	socket string // the name of the socket that is dialled here
	target target // on another machine
	cfg    *DialConfig
	memory *memory // nil: to be made
}

// setTarget finds out where the receiver is.
func (d *dialing) setTarget() (err error) {
	if !strings.Contains(d.name, "/") {
		return checkName(d.name)
	}
	t := &d.target
	if t.address, t.name, err = splitTarget(d.name); err != nil {
		return err
	}
	t.ring, t.inline, t.pool = uint64(d.cfg.RingBytes), uint64(d.cfg.InlineMax), uint64(d.cfg.PoolBytes)
	d.socket = gatewayName
	return nil
}

// explain says what to do where no agent is there.
func (d *dialing) explain(err error) error {
	if d.target.name == "" || !errors.Is(err, ErrNoReceiver) {
		return err
	}
	return fmt.Errorf("%w: another machine is reached by an agent on this one and one on that: start each with "+
		"`disco-run agent --listen HOST:PORT --ipc`", err)
}

// once makes one attempt. The memory is made before the socket, because a receiver waits only briefly for a hello.
// A busy receiver has not mapped it; after any other answer the next attempt needs new memory.
func (d *dialing) once(ctx context.Context) (*Sender, error) {
	path, err := findSocket(d.socket, d.cfg.Dir)
	if err != nil {
		return nil, d.explain(err)
	}
	if d.memory == nil {
		if d.memory, err = createMemory(strings.TrimPrefix(d.socket, "."), d.cfg); err != nil {
			return nil, err
		}
	}
	conn, err := connect(ctx, path)
	if err != nil {
		return nil, d.explain(err)
	}
	s := &Sender{name: d.name, conn: conn, inlineMax: d.cfg.InlineMax, gone: make(chan struct{}), memory: d.memory}
	if err := s.handshake(ctx, d); err != nil {
		if errors.Is(err, ErrBusy) {
			s.memory = nil
		} else {
			d.memory = nil
		}
		return nil, errors.Join(err, s.tearDown())
	}
	d.memory = nil
	go s.watch()
	return s, nil
}

func (d *dialing) close() error {
	if d.memory == nil {
		return nil
	}
	return d.memory.close()
}

// findSocket is the path of the name's socket, if there is one.
func findSocket(name, dir string) (path string, err error) {
	dir = directory(dir)
	if err := checkPrivate(dir); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("%w under this name: there is no directory %s", ErrNoReceiver, dir)
		}
		return "", err
	}
	if path, err = socketPath(dir, name); err != nil {
		return "", err
	}
	if _, err := os.Lstat(path); err != nil {
		return "", fmt.Errorf("%w under this name: %w", ErrNoReceiver, err)
	}
	return path, nil
}

// connect opens the socket.
func connect(ctx context.Context, path string) (*net.UnixConn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, path)
	switch {
	case err == nil:
		return conn.(*net.UnixConn), nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%w under this name: %w", ErrNoReceiver, err)
	case errors.Is(err, syscall.EAGAIN):
		return nil, fmt.Errorf("%w: %w: its queue of connections is full: %w", ErrRefused, ErrBusy, err)
	case errors.Is(err, os.ErrDeadlineExceeded): // the only deadline is the context's
		return nil, fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return nil, fmt.Errorf("%w: %w%s", ErrNoAnswer, err, shm.Advice(err))
}

// handshake sends the receiver the memory and maps the board that comes with the answer. What it has acquired is in
// s, also after an error.
func (s *Sender) handshake(ctx context.Context, d *dialing) error {
	if _, err := checkPeer(s.conn); err != nil {
		return err
	}
	w, board, err := s.introduce(ctx, d.target)
	if err != nil {
		return err
	}
	defer closeFiles(board)
	s.board, err = shm.Attach(board[0], shm.Want{Kind: kindBoard, Size: int(w.boardSize), ID: w.boardID})
	if err != nil {
		return err
	}
	s.number = int(w.number)
	return s.open(d.cfg)
}

// introduce sends the hello and waits for the welcome. The caller closes the file.
func (s *Sender) introduce(ctx context.Context, t target) (welcome, []*os.File, error) {
	if err := s.conn.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return welcome{}, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = s.conn.SetDeadline(time.Unix(1, 0)) })
	h, files := s.memory.hello()
	h.target = t
	packet, board, err := exchange(s.conn, h.encode(), files)
	if !stop() && err != nil {
		return welcome{}, nil, fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	if err != nil {
		return welcome{}, nil, err
	}
	w, err := parseWelcome(packet, len(board))
	if err != nil {
		closeFiles(board)
		return welcome{}, nil, err
	}
	return w, board, s.conn.SetDeadline(time.Time{})
}

// exchange sends a packet and receives the answer. A receiver that rejects the sender answers without having read
// the hello and closes: then sending may fail, and receiving too, once, before the answer comes.
func exchange(conn *net.UnixConn, hello []byte, files []*os.File) (packet []byte, board []*os.File, err error) {
	sent := sendPacket(conn, hello, files...)
	packet, board, err = receivePacket(conn)
	if errors.Is(err, syscall.ECONNRESET) {
		packet, board, err = receivePacket(conn)
	}
	if err != nil && !errors.Is(err, ErrProtocol) {
		err = fmt.Errorf("%w: %w", ErrNoAnswer, errors.Join(sent, err))
	}
	return packet, board, err
}

// open builds the sending side over the memory.
func (s *Sender) open(cfg *DialConfig) (err error) {
	if s.sleeper, err = newSleeper(s.memory.bell(), cfg.Wait); err != nil {
		return err
	}
	if s.memory.pool != nil {
		if s.pool, err = shm.NewPool(s.memory.pool.Body()); err != nil {
			return err
		}
	}
	peer, err := shm.OpenDoorbell(s.board.Body())
	if err != nil {
		return err
	}
	s.out, err = egress.New(egress.Config{
		Peer:      peerReceiver,
		Lane:      s.memory.lane(),
		Pool:      s.pool,
		Bell:      peer,
		InlineMax: cfg.InlineMax,
		Wait:      func() error { return errWaitsItself },
	})
	return err
}

const peerReceiver = 0 // the number of the receiver in a sender's pool

// errWaitsItself would be returned by the blocking forms of egress, which aren't used:
// Send waits with a context.
var errWaitsItself = errors.New("ipc: the sender waits by itself")
