// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"os"
	"sync/atomic"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/shm"
)

const kindArena shm.Kind = 'b' | 'n'<<8 | 'c'<<16 | 'h'<<24

// The control area of an arena: each word on a pair of cache lines to itself.
const (
	offsetTotal = 0        // events that the leading side has sent in all + 1; 0: not known yet
	offsetDone  = 1 * 128  // the following side has received them all: 1
	offsetFutex = 4 * 128  // the two words of the bare futex ping-pong
	offsetHead  = 6 * 128  // bare copy loop: read so far
	offsetTail  = 7 * 128  // bare copy loop: written so far
	offsetBells = 8 * 128  // the doorbells of the two sides
	offsetTaken = 10 * 128 // how often the following side was taken off its core
	offsetFlags = 4096     // the flags of the bare ping-pong, two at each place
	arenaHead   = offsetFlags + flagPlaces*2*128
)

// The bare ping-pong goes from place to place in memory, as records go through a ring: how long a line takes from core
// to core depends on where in memory it lies (docs/bench.md, "Flags at many places").
const (
	flagPlaces = 1024
	flagStay   = 32 // trips at one place
)

// Arena is the memory between the two sides of a pair: words, doorbells, and room in
// which each job lays out what it needs. Its Format is called by the coordinator
// before the two sides open.
type Arena struct {
	segment *shm.Segment
	body    []byte
}

// ArenaBytes is the memory that a pair needs for payloads of up to payloadMax bytes and
// rings of ringBytes.
func ArenaBytes(payloadMax, ringBytes int) (int, error) {
	lanes, err := egress.LaneBytes(ringBytes, poolClasses(payloadMax))
	if err != nil {
		return 0, err
	}
	pool, err := shm.PoolBytes(poolClasses(payloadMax))
	if err != nil {
		return 0, err
	}
	bare := max(ringBytes, blocksPerPool*roundUp(payloadMax, 128))
	return arenaHead + max(2*roundUp(lanes, 128)+2*roundUp(pool, 128), bare), nil
}

func newArena(number, bytes int) (*Arena, error) {
	seg, err := shm.Create(shm.Config{Name: fmt.Sprintf("bench-%d", number), Kind: kindArena, Size: bytes})
	if err != nil {
		return nil, err
	}
	return &Arena{segment: seg, body: seg.Body()}, nil
}

func attachArena(f *os.File) (*Arena, error) {
	seg, err := shm.Attach(f, shm.Want{Kind: kindArena})
	if err != nil {
		return nil, err
	}
	return &Arena{segment: seg, body: seg.Body()}, nil
}

func (a *Arena) close() { _ = a.segment.Close() }

// clear makes the arena ready for the next job. No side may use the doorbells then.
func (a *Arena) clear() { clear(a.body[:arenaHead]) }

// room is the memory behind the control area.
func (a *Arena) room() []byte { return a.body[arenaHead:] }

func (a *Arena) total() *atomic.Uint64 { return word64(a.body, offsetTotal) }
func (a *Arena) done() *atomic.Uint64  { return word64(a.body, offsetDone) }
func (a *Arena) head() *atomic.Uint64  { return word64(a.body, offsetHead) }
func (a *Arena) tail() *atomic.Uint64  { return word64(a.body, offsetTail) }

func (a *Arena) taken() *atomic.Uint64 { return word64(a.body, offsetTaken) }

// flag is a side's flag for a trip.
func (a *Arena) flag(side int, trip uint64) *atomic.Uint64 {
	place := int(trip / flagStay % flagPlaces)
	return word64(a.body, offsetFlags+128*(2*place+side))
}

func (a *Arena) futex(side int) *atomic.Uint32 { return word32(a.body, offsetFutex+128*side) }

// bell opens the doorbell that a side sleeps on.
func (a *Arena) bell(side int) (*shm.Doorbell, error) {
	at := offsetBells + side*shm.DoorbellBytes
	return shm.OpenDoorbell(a.body[at : at+shm.DoorbellBytes])
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }
