// SPDX-License-Identifier: Apache-2.0

package ipc

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/disco-sim/disco/internal/printable"
	"github.com/disco-sim/disco/shm"
)

// The layout of the two packets of the handshake, and of the segments whose files travel with them.
// docs/format/ipc.md draws it.
//
//	hello, sender to receiver           welcome, receiver to sender
//	offset size                         offset size
//	   0     8  magic "discoipc"           0     8  magic "discoipc"
//	   8     4  version                    8     4  version
//	  12     4  number of files            12     4  status
//	  16     8  bytes of the lane segment  16     4  the sender's number
//	  24     8  bytes of the pool's body   20     4  zero
//	  32     8  id of the lane segment     24     8  bytes of the board's body
//	  40     8  id of the pool             32     8  id of the board
//	  48     8  capacity of the ring       40   216  the reason, as text
//	  56     8  largest message inside it 256
//	  64     8  DialConfig.PoolBytes
//	  72   184  address/name on another machine, as text
//	 256
//
// What begins at 48 is there for a gateway only; for a receiver it is zero.
//
//	lane segment: the sender's doorbell, then the lane
//	   0   128  doorbell
//	 128        lane
const (
	packetBytes   = 256
	packetVersion = 1
	packetMagic   = "discoipc"

	offsetVersion = 8

	offsetFiles    = 12
	offsetLaneSize = 16
	offsetPoolSize = 24
	offsetLaneID   = 32
	offsetPoolID   = 40
	offsetRing     = 48
	offsetInline   = 56
	offsetPool     = 64
	offsetTarget   = 72
	targetMax      = packetBytes - offsetTarget

	offsetStatus    = 12
	offsetNumber    = 16
	offsetBoardSize = 24
	offsetBoardID   = 32
	offsetReason    = 40

	filesMax = 2 // with a hello: lane segment and pool; with a welcome there is one, the board

	laneOffset = shm.DoorbellBytes
	boardBytes = shm.DoorbellBytes
)

// The kinds of our segments. The pool is of shm.KindPool.
const (
	kindLane  shm.Kind = 'i' | 'p'<<8 | 'c'<<16 | 'l'<<24
	kindBoard shm.Kind = 'i' | 'p'<<8 | 'c'<<16 | 'b'<<24
)

// What a welcome says.
const (
	statusWelcome = 0
	statusRefused = 1
	statusBusy    = 2 // refused for now
	statusAbsent  = 3 // of a gateway: nobody listens there
	statusSilent  = 4 // of a gateway: the other machine doesn't answer
)

// hello is the sender's packet.
type hello struct {
	files              int
	laneSize, poolSize uint64 // bytes of the bodies; no pool: 0
	laneID, poolID     uint64
	target             target
}

// target is what a sender whose receiver is on another machine says to the gateway; the zero value: none.
type target struct {
	ring, inline, pool uint64 // of DialConfig
	address, name      string
}

func (h *hello) encode() []byte {
	b := newPacket()
	binary.LittleEndian.PutUint32(b[offsetFiles:], uint32(h.files))
	binary.LittleEndian.PutUint64(b[offsetLaneSize:], h.laneSize)
	binary.LittleEndian.PutUint64(b[offsetPoolSize:], h.poolSize)
	binary.LittleEndian.PutUint64(b[offsetLaneID:], h.laneID)
	binary.LittleEndian.PutUint64(b[offsetPoolID:], h.poolID)
	if t := &h.target; t.name != "" {
		binary.LittleEndian.PutUint64(b[offsetRing:], t.ring)
		binary.LittleEndian.PutUint64(b[offsetInline:], t.inline)
		binary.LittleEndian.PutUint64(b[offsetPool:], t.pool)
		copy(b[offsetTarget:], t.address+"/"+t.name)
	}
	return b
}

// parseTarget reads what a gateway is told. A receiver of this machine is told nothing.
func parseTarget(b []byte, gateway bool) (t target, err error) {
	text := strings.TrimRight(string(b[offsetTarget:]), "\x00")
	if !gateway {
		if strings.Trim(string(b[offsetRing:]), "\x00") != "" {
			return t, fmt.Errorf("%w: a hello to another machine", ErrProtocol)
		}
		return t, nil
	}
	if t.address, t.name, err = splitTarget(text); err != nil {
		return t, fmt.Errorf("%w: a hello to another machine: %w", ErrProtocol, err)
	}
	t.ring = binary.LittleEndian.Uint64(b[offsetRing:])
	t.inline = binary.LittleEndian.Uint64(b[offsetInline:])
	t.pool = binary.LittleEndian.Uint64(b[offsetPool:])
	cfg := t.config(false)
	if most := uint64(shm.BytesMax); t.ring > most || t.inline > most || t.pool > most {
		return t, fmt.Errorf("%w: a ring of %d bytes, messages of %d inside it, a pool of %d: at most %d", ErrProtocol,
			t.ring, t.inline, t.pool, most)
	}
	if err := cfg.validate(); err != nil {
		return t, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return t, nil
}

// config is that of a sender with the same limits.
func (t *target) config(pool bool) DialConfig {
	return DialConfig{RingBytes: int(t.ring), InlineMax: int(t.inline), PoolBytes: int(t.pool), NoPool: !pool}
}

// parseHello checks a hello against itself, the number of files that came with it
// and the receiver's limits.
func parseHello(b []byte, files int, cfg *ListenConfig) (hello, error) {
	if err := checkPacket(b); err != nil {
		return hello{}, err
	}
	h := hello{
		laneSize: binary.LittleEndian.Uint64(b[offsetLaneSize:]),
		poolSize: binary.LittleEndian.Uint64(b[offsetPoolSize:]),
		laneID:   binary.LittleEndian.Uint64(b[offsetLaneID:]),
		poolID:   binary.LittleEndian.Uint64(b[offsetPoolID:]),
	}
	var err error
	if h.target, err = parseTarget(b, cfg.gateway); err != nil {
		return hello{}, err
	}
	said := binary.LittleEndian.Uint32(b[offsetFiles:])
	h.files = 1
	if h.poolSize != 0 {
		h.files = 2
	}
	switch {
	case said != uint32(files) || files != h.files:
		return hello{}, fmt.Errorf("%w: %d files came, it names %d, want %d", ErrProtocol, files, said, h.files)
	case h.laneSize <= laneOffset || h.laneSize > uint64(cfg.LaneBytesMax):
		return hello{}, fmt.Errorf("%w: lane segment of %d bytes, at most %d are allowed here: a smaller RingBytes "+
			"or pool, or a larger LaneBytesMax", ErrRefused, h.laneSize, cfg.LaneBytesMax)
	case h.poolSize > uint64(cfg.PoolBytesMax):
		return hello{}, fmt.Errorf("%w: pool of %d bytes, at most %d are allowed here: a smaller PoolBytes or a "+
			"larger PoolBytesMax", ErrRefused, h.poolSize, cfg.PoolBytesMax)
	case h.laneID == 0 || h.poolSize != 0 && h.poolID == 0:
		return hello{}, fmt.Errorf("%w: a segment without a creation id", ErrProtocol)
	}
	return h, nil
}

// welcome is the receiver's answer.
type welcome struct {
	status    uint32
	reason    string // why, unless it is statusWelcome
	number    uint32
	boardSize uint64
	boardID   uint64
}

func (w *welcome) encode() []byte {
	b := newPacket()
	binary.LittleEndian.PutUint32(b[offsetStatus:], w.status)
	binary.LittleEndian.PutUint32(b[offsetNumber:], w.number)
	binary.LittleEndian.PutUint64(b[offsetBoardSize:], w.boardSize)
	binary.LittleEndian.PutUint64(b[offsetBoardID:], w.boardID)
	copy(b[offsetReason:], w.reason)
	return b
}

// parseWelcome checks a welcome. A refusal is an ErrRefused with its
// reason, and one for now an ErrBusy too.
func parseWelcome(b []byte, files int) (welcome, error) {
	if err := checkPacket(b); err != nil {
		return welcome{}, err
	}
	switch status := binary.LittleEndian.Uint32(b[offsetStatus:]); status {
	case statusWelcome:
	case statusBusy:
		return welcome{}, fmt.Errorf("%w: %w: %s", ErrRefused, ErrBusy, printable.ASCII(b[offsetReason:]))
	case statusAbsent:
		return welcome{}, fmt.Errorf("%w: %s", ErrNoReceiver, printable.ASCII(b[offsetReason:]))
	case statusSilent:
		return welcome{}, fmt.Errorf("%w: %s", ErrNoAnswer, printable.ASCII(b[offsetReason:]))
	default:
		return welcome{}, fmt.Errorf("%w: %s", ErrRefused, printable.ASCII(b[offsetReason:]))
	}
	w := welcome{
		number:    binary.LittleEndian.Uint32(b[offsetNumber:]),
		boardSize: binary.LittleEndian.Uint64(b[offsetBoardSize:]),
		boardID:   binary.LittleEndian.Uint64(b[offsetBoardID:]),
	}
	if files != 1 || w.boardSize != boardBytes || w.boardID == 0 {
		return welcome{}, fmt.Errorf("%w: %d files came, for a board of %d bytes with id %#x, want 1 of %d bytes",
			ErrProtocol, files, w.boardSize, w.boardID, boardBytes)
	}
	return w, nil
}

func newPacket() []byte {
	b := make([]byte, packetBytes)
	copy(b, packetMagic)
	binary.LittleEndian.PutUint32(b[offsetVersion:], packetVersion)
	return b
}

// checkPacket checks what both packets begin with.
func checkPacket(b []byte) error {
	if len(b) != packetBytes || string(b[:len(packetMagic)]) != packetMagic {
		return fmt.Errorf("%w: packet of %d bytes that starts with %q, want %d and %q", ErrProtocol, len(b),
			b[:min(len(b), len(packetMagic))], packetBytes, packetMagic)
	}
	if v := binary.LittleEndian.Uint32(b[offsetVersion:]); v != packetVersion {
		return fmt.Errorf("%w: the other side speaks version %d, this one %d: build both from the same disco",
			ErrRefused, v, packetVersion)
	}
	return nil
}
