// SPDX-License-Identifier: Apache-2.0

// Package linktest is the one conformance suite of all links: whatever carries
// envelopes between workers passes it, whether through heap memory, through shared
// memory, or over a network.
//
// Guarantee: a link that passes Run delivers what was sent, in order, whole and once;
// bounds never overtake events; full lanes, dead peers and damaged bytes stay the
// trouble of the one lane that has it. What a kind of link can't have (pooled blocks,
// raw access to its bytes) its Factory says, and the tests for it are skipped by name.
//
//	func TestMyLink(t *testing.T) {
//		linktest.Run(t, linktest.Factory{
//			Name:   "mine",
//			Errors: linktest.Errors{Closed: mylink.ErrClosed, …},
//			Open:   func(t testing.TB, o linktest.Options) *linktest.Ends { … },
//		})
//	}
package linktest

import (
	"errors"
	"testing"

	"github.com/disco-sim/disco/router"
)

// What links whose workers may outlive one another, or pause one another, can do besides:
// run does neither, because a worker's end is the end of its run.
type (
	// Survivor is a router.Sender for the tests of dead peers (Factory.OpenVictim).
	Survivor interface {
		// ReturnBlocks takes back the blocks that the peer has released, also when it has
		// closed the lane.
		ReturnBlocks() error

		// Reclaim takes back what a dead peer held, and returns the number of blocks.
		Reclaim() int
	}

	// Bereaved is a router.Receiver for the same tests.
	Bereaved interface {
		// PeerDead reports the end of a peer's process.
		PeerDead(peer int)
	}

	// Pausing is a router.Receiver that can stop taking in from one peer.
	Pausing interface {
		Pause(peer int, on bool)
	}
)

// ErrNoRoom is what Options.Wait returns where a test sends without waiting.
var ErrNoRoom = errors.New("linktest: no room")

// Options are what a test asks of the links between its workers.
type Options struct {
	Workers    int
	RingBytes  int    // room in one lane, or what comes next to it
	Start      uint64 // position at which the lanes start, where there are positions
	InlineMax  int    // larger payloads take blocks
	Blocks     int    // in each worker's pool; 0: none
	BlockBytes int

	Parts bool // sends that wait send what has no block in parts, and never wait for one

	PublishRecords int // records that become visible by themselves; 0: default
	RecordsMax     int // records that one poll takes from a lane; 0: default

	// Wait is what the sends of a worker call while there is no room. Required.
	Wait func(worker int) error
}

// Ends is some workers with a lane from each to each other.
type Ends struct {
	Out [][]router.Sender // [from][to]; nil at itself
	In  []router.Receiver // [to]

	// SendRaw puts bytes into a lane as one record, whatever they are. nil: this kind
	// of link has no such thing, and the tests of damage are skipped.
	SendRaw func(t testing.TB, from, to int, record []byte)

	// Lane is the memory of a lane as its sender sees it, to be damaged. nil: none.
	Lane func(from, to int) []byte

	// Pool is the memory of a worker's pool as its owner sees it. nil: none.
	Pool func(owner int) []byte
}

// Victim is a worker that is going to die. Each call is one step of its life and has
// happened when it returns; one that fails ends the test. Actor is one, for links whose
// workers are goroutines, and Remote is an Actor in another process.
type Victim interface {
	Send(to, count, size int)  // sends events and makes them visible
	Stage(to, count, size int) // sends events and leaves them invisible
	Claim(to, size int)        // takes room for a record and never fills it
	Lease(count int)           // receives until it holds so many leases, and keeps them
	Stream(to, size int)       // begins to send and to receive, and goes on until it dies
	Kill()                     // dies, as by kill -9; nothing more happens
}

// Errors are the sentinels of a kind of link: what errors.Is finds.
type Errors struct {
	TooLarge, Closed, PeerDead, Protocol, Refused error
}

// Factory makes links of one kind.
type Factory struct {
	Name   string
	Errors Errors

	// Open makes a mesh, and cleans up when the test ends. nil: only the tests of dead
	// peers are run.
	Open func(t testing.TB, o Options) *Ends

	// OpenVictim makes a mesh of which one worker is to die: its Out and In are nil.
	// nil: the tests of dead peers are skipped.
	OpenVictim func(t testing.TB, o Options, victim int) (*Ends, Victim)

	// What this kind of link can't have.
	NoBlocks     bool // payloads are always copied: no leases, no pool
	NoBackground bool // what was sent may become visible before it is flushed
	Allocates    bool // sending and receiving allocates
	Relays       bool // what receivers hold is in the link's own blocks: senders get theirs back before
}

// test is one entry of the suite.
type test struct {
	name string
	need func(f *Factory) (ok bool, why string)
	run  func(t *testing.T, f *Factory)
}

func always(*Factory) (bool, string)   { return true, "" }
func blocks(f *Factory) (bool, string) { return !f.NoBlocks, "this link has no pooled blocks" }
func borrows(f *Factory) (bool, string) {
	return !f.NoBlocks && !f.Relays, "receivers hold none of the sender's blocks"
}
func batching(f *Factory) (bool, string) { return !f.NoBackground, "this link flushes by itself" }

var suite = []test{
	{"order", always, testOrder},
	{"order near the wrap of positions", always, testOrderAtWrap},
	{"many lanes", always, testManyLanes},
	{"batches", batching, testBatches},
	{"long streams are seen without a flush", always, testNoStarvation},
	{"full ring blocks only its sender", always, testFullRing},
	{"two full lanes against one another", always, testMutuallyFull},
	{"pause", always, testPause},
	{"large payloads are not copied", blocks, testZeroCopy},
	{"exhausted pool", borrows, testExhausted},
	{"blocks of one pool over two lanes", borrows, testSharedPool},
	{"payload larger than the largest block", blocks, testTooLarge},
	{"payloads without a block go in parts", always, testParts},
	{"parts that were given up", always, testPartsGivenUp},
	{"promises come after their events", always, testPromises},
	{"promises over a lane that never empties", always, testPromisesUnderLoad},
	{"closing", always, testClosing},
	{"closed by the receiver", always, testClosedByReceiver},
	{"refused by the sink", always, testRefused},
	{"bad records", always, testBadRecords},
	{"damaged lane", always, testDamagedLane},
	{"no link", always, testNoLink},
	{"reset between replications", always, testReset},
	{"nothing allocates", lean, testAllocs},
}

var deadSuite = []test{
	{"dies while it claims", always, testDiesClaiming},
	{"dies before it publishes", batching, testDiesUnpublished},
	{"dies after it published", always, testDiesPublished},
	{"dies while its block is read", blocks, testDiesLending},
	{"dies while it holds blocks", blocks, testDiesHolding},
	{"dies while somebody waits for it", always, testDiesAwaited},
	{"dies while it streams", always, testDiesStreaming},
}

func lean(f *Factory) (bool, string) { return !f.Allocates, "this link allocates" }

// Run runs the suite, as subtests.
func Run(t *testing.T, f Factory) {
	if f.Open != nil {
		runAll(t, &f, suite)
	}
	if f.OpenVictim != nil {
		runAll(t, &f, deadSuite)
	}
}

func runAll(t *testing.T, f *Factory, tests []test) {
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			if ok, why := c.need(f); !ok {
				t.Skip(why)
			}
			c.run(t, f)
		})
	}
}
