// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/spans"
	"github.com/disco-sim/disco/internal/trace"
)

// The launcher and a worker exchange messages over one stream (a socket pair between
// processes, a pipe in memory within one). docs/format/control.md has the bytes, frame.go
// reads and writes them. The course of a run:
//
//	launcher                       worker
//	Setup ──────────────────────▶  attaches its segments, reads the scenario
//	       ◀────────────────────── Ready
//	Prepare{replication} ───────▶  builds its nodes, resets its own lanes
//	       ◀────────────────────── Ready
//	Go ─────────────────────────▶  runs                       (once all are ready)
//	       ◀────────────────────── Results …, of some simprocs each
//	       ◀────────────────────── Done | Failed
//	Prepare … Go … Done, once per replication
//
//	A replication in legs (legs.go), of which the last one ends with Done:
//	       ◀────────────────────── Saved{epoch}, and stands still
//	Leg{until} ─────────────────▶  takes its idle slot back, sets the next end
//	       ◀────────────────────── Ready
//	Go ─────────────────────────▶  runs                       (once all are ready)
//
//	Stop ───────────────────────▶  calls no handler any more        (stop.go says why)
//	       ◀────────────────────── Stopped{latest epoch}
//	Limit{epoch} ───────────────▶  handles what is before it; answers Done, or Saved
//	Exit ───────────────────────▶  closes and returns
//
//	Ask ────────────────────────▶  while it runs, at any time
//	       ◀────────────────────── Status
//
//	Save{epoch} ────────────────▶  between two legs: encodes its nodes   (save.go)
//	       ◀────────────────────── Ready
//	       ◀────────────────────── Stored …, during the next leg
//
//	       ◀────────────────────── Spans{what it was at}, before Saved and Done
//
//	       ◀────────────────────── External{look for this, or keep it}   (outside.go)
//	Recorded ───────────────────▶  while it runs, to each
//
//	Move{owners} ───────────────▶  between two legs: encodes the nodes that leave   (moves.go)
//	       ◀────────────────────── Moved … of the nodes for one worker each
//	       ◀────────────────────── Ready
//	Load{data} ─────────────────▶  keeps what comes from others, part by part
//	       ◀────────────────────── Ready
//	Leg{until, moved} ──────────▶  makes its Engine anew, for the nodes that are here now
//	       ◀────────────────────── Ready
//
//	Report ─────────────────────▶  between two legs: what there is so far
//	       ◀────────────────────── Results …, of some simprocs each
//	       ◀────────────────────── Reported{why not}
//
// The stream's end means that the other side is gone: a worker that loses its
// launcher ends at once.

// Message is one message. A type with a body has the field of its name set, and no other;
// ReadMessage returns none without it.
type Message struct {
	Type    MessageType
	Setup   *Setup
	Prepare *Prepare
	Leg     *Leg
	Saved   *Saved
	Stopped *Stopped
	Limit   *Limit
	Results *Results
	Done    *Done
	Save    *Save
	Stored  *Stored
	Move    *Move
	Moved   *Moved
	Load    *Load
	Status  *Status
	Failed  *Failed

	External *External
	Recorded *Recorded
	Reported *Reported
	Spans    *spans.Report
}

// MessageType says what a message is.
type MessageType uint8

// Types of messages. Their numbers are part of the format.
const (
	TypeSetup   MessageType = iota + 1 // has a body
	TypePrepare                        // has a body
	TypeGo
	TypeStop
	TypeStopped // has a body
	TypeLimit   // has a body
	TypeAsk
	TypeStatus // has a body
	TypeExit
	TypeReady
	TypeDone    // has a body
	TypeFailed  // has a body
	TypeResults // has a body
	TypeSave    // has a body
	TypeStored  // has a body
	TypeLeg     // has a body
	TypeSaved   // has a body

	TypeExternal // has a body
	TypeRecorded // has a body
	TypeMove     // has a body
	TypeMoved    // has a body
	TypeLoad     // has a body
	TypeReport
	TypeReported // has a body
	TypeSpans    // has a body
)

var typeNames = [...]string{
	TypeSetup: "setup", TypePrepare: "prepare", TypeGo: "go", TypeStop: "stop",
	TypeStopped: "stopped", TypeLimit: "limit",
	TypeAsk: "ask", TypeStatus: "status", TypeExit: "exit", TypeReady: "ready", TypeDone: "done", TypeFailed: "failed",
	TypeResults: "results", TypeSave: "save", TypeStored: "stored", TypeLeg: "leg", TypeSaved: "saved",
	TypeExternal: "external", TypeRecorded: "recorded",
	TypeMove: "move", TypeMoved: "moved", TypeLoad: "load", TypeReport: "report", TypeReported: "reported",
	TypeSpans: "spans",
}

// String is the type's name in messages for people.
func (t MessageType) String() string {
	if t == 0 || int(t) >= len(typeNames) {
		return fmt.Sprintf("type %d", uint8(t))
	}
	return typeNames[t]
}

// LaneSize is a lane of a worker: the peer at its other end, and the capacity of its ring in bytes.
type LaneSize struct {
	Peer      int32
	RingBytes int
}

// Setup is everything that a worker needs and that doesn't change from one replication to the
// next. Segments travel beside it: by file descriptor or by pointer.
type Setup struct {
	Worker  int // 0 … Workers-1
	Workers int
	First   int     // workers of the same launcher before these, for Tuning.Pin
	Horizon float64 // 0: the file's
	Series  bool    // time series are recorded
	Records bool    // what handlers record is kept, in the same file as the trace
	Seed    uint64
	Tuning  Tuning

	// The segments that come along, beside the input and the boards of all workers: pools, by worker; lanes to
	// peers; lanes from peers. Each list rises. A worker in the launcher's own process gets them without being told.
	Pools   []int32
	Out, In []LaneSize

	// Trace names the trace that handled events are for; empty: none. What is written goes
	// to a file that comes along.
	Trace string

	// Journal says what the trace is to be where it isn't a plain one.
	Journal Journal

	// Calls has the worker keep a journal of activations, in the same file as the trace, or without one.
	Calls bool

	// Whole has the journal be of all of each call, to be compared with another.
	Whole bool

	// GroupNodes is how many nodes a chunk of a checkpoint has, at most; 0: there are no checkpoints. Else files for
	// them come along, behind that of the trace: the spool, and what a replication begins with.
	GroupNodes int

	// Run is the run for which handlers ask the outside world: 32 hexadecimal digits.
	Run string
	// Shards is the shard of each node, where nodes may move to other workers between two legs; empty: they don't.
	// Every worker has a lane to every other one then.
	Shards []uint32

	// ShardsHalf is after how many wall seconds what shards have cost counts half; 0: all of a leg counts alike.
	ShardsHalf float64

	// Spans has the worker record what it is at, and send it before each Saved and Done.
	Spans bool

	// OneProcess: all workers are goroutines of the launcher. They wait by yielding to
	// other goroutines, and worker 0 reports the CPU time of all.
	OneProcess bool

	// Machine is the machine of each worker in a run over several, never falling: workers are numbered machine by
	// machine. Empty: all are on one. Workers on others are reached over the bridge.
	Machine []int32

	// Delay is the longest round trip between two machines, seconds, as it was measured at the start.
	Delay float64

	// Crowded: more threads of the run wait for each other than there are processors, so that
	// one that spins would keep another from working.
	Crowded bool

	// HeapBytes is what this process is expected to take of its heap for nodes and what is pending for them; 0: it
	// isn't known, or another worker of this process has all of it.
	HeapBytes int64
}

// Journal is a trace that has the data of events and what activations did, for all that is selected.
type Journal struct {
	On       bool
	Fleeting bool // the memory of events is overwritten behind each call (node.Config)
	trace.Selection
}

// Prepare starts one replication.
type Prepare struct {
	Replication int
	Until       float64 // end of the first leg; 0: the horizon

	// Restore begins with a saved state of Epoch, which the launcher has written to the worker's file (Files.Restore).
	// Varied: another run has saved that, under other settings (node.Resume); all replications but the first draw other
	// numbers from there on. Variant: the run goes on from another one's replication 0, and so do all of its own.
	Restore, Varied, Variant bool
	Epoch                    float64

	// Look has the launcher asked for a record before the outside world is asked; Keep has it keep what that answers.
	Look, Keep bool

	// Room is how many bytes the worker may take for checkpoints; 0: it isn't known, or there are none; OwnRoom: the
	// worker finds out what its machine has.
	Room int64
}

// OwnRoom is the Room of workers on other machines.
const OwnRoom = -1

// Save has a worker make its part of a checkpoint, between two legs.
type Save struct {
	Epoch     float64 // the end of the leg
	Committed float64 // epoch of the last checkpoint of this replication that is safe; 0: none
	Direct    bool    // write before the next leg: there is no memory for all of it
	Room      int64   // bytes that it may take beside what the worker has, else it is direct; 0: any
}

// Stored is what a worker has in its spool after Save. It comes in parts: first hashes, then chunks.
type Stored struct {
	Epoch    float64
	Simprocs []uint32           // rising
	Hashes   []uint64           // trace hash of each
	Chunks   []checkpoint.Chunk // At -1: one that the last committed checkpoint has, too, with no Size then
	Error    string             // not "": no chunk counts
	Last     bool               // nothing follows
	Raw      int64              // bytes of all chunks, as the next two in each part
	Encode   float64            // seconds
	Write    float64            // seconds: hashes, compression, writing
}

// External is about a call of the outside world. The launcher answers each with Recorded.
type External struct {
	Look   bool   // whether there is a record of this call; else this one is to be kept
	Record []byte // answers.Record
}

// Recorded is the answer to External.
type Recorded struct {
	Record []byte // the one that was looked for; empty: there is none
	Error  string // not "": the run ends
}

// Leg goes on with a replication whose leg has ended on all workers.
type Leg struct {
	Until float64 // its end, later than the last one; 0: the horizon
	Moved bool    // it begins with the nodes where the last Move has put them
}

// Move gives shards other workers, between two legs.
type Move struct {
	Owners  []int32 // by shard: its worker
	Version uint64  // of this allocation
}

// Moved is a part of what a worker has encoded of the nodes that leave it. Parts for one worker are in order.
type Moved struct {
	To   int32 // the worker that gets it
	Data []byte
}

// Load is a part of what other workers have encoded for this one: Data of Moved, whole or in parts.
type Load struct {
	Data []byte
}

// Reported is the answer to TypeReport, behind Results.
type Reported struct {
	Error string // not "": there are no results before the end, and why; what was sent doesn't count
}

// Saved is the answer to Go where a leg has ended before the horizon.
type Saved struct {
	Epoch               float64 // everything earlier is handled, and nothing at it or later
	Events, Activations uint64  // of the replication so far, on this worker
	Work                []Work  // of the leg, by rising shard, where nodes may move
}

// Work is what a shard has cost in a leg.
type Work struct {
	Shard   uint32
	Seconds float64 // of the worker's working time, estimated from samples
}

// Stopped is the answer to Stop.
type Stopped struct {
	Handled bool    // it has called a handler at all
	Epoch   float64 // the latest at which it has, simulated seconds
}

// Limit ends a stopped run, or a leg of it, at a time that is the same for all workers.
type Limit struct {
	Epoch float64 // nothing at it or later is handled; beyond the horizon: no limit
	Leg   bool    // the end of this leg, not of the run
}

// Done is a worker's report after a replication.
type Done struct {
	Interrupted bool    // ended by a Limit before the horizon
	Reached     float64 // simulated time up to which all is handled
	Events      uint64  // events handled
	Activations uint64  // calls of handlers
	First       float64 // seconds from Go until an event and, about, all calls at epoch 0 were handled; 0: none was
	Stats       Stats

	// Where it was interrupted: for which simprocs most is pending, and how much; at most LargestMax, in falling order.
	Largest []uint32
	Pending []uint64
}

// LargestMax is how many simprocs Done.Largest has.
const LargestMax = 10

// Stats says where a worker's time and events went. Working, Blocked, Room, Report and
// Outside add up to Wall: a worker is always in exactly one of them.
type Stats struct {
	WallSeconds    float64 `json:"wall_s"`
	WorkingSeconds float64 `json:"working_s"`           // takes in, handles, sends
	BlockedSeconds float64 `json:"blocked_s"`           // nothing can be handled before a peer says more
	RoomSeconds    float64 `json:"room_s"`              // what there is to do waits for room in a lane
	ReportSeconds  float64 `json:"report_s"`            // gathers results, when the replication is over
	OutsideSeconds float64 `json:"outside_s,omitempty"` // a handler waits for the outside world
	CPUSeconds     float64 `json:"cpu_s"`               // of the process; in one process, worker 0 has that of all
	Sent           uint64  `json:"sent"`                // events to other workers
	Received       uint64  `json:"received"`            // events from other workers
	Promises       uint64  `json:"promises"`            // promises published
	IdleJumps      uint64  `json:"idle_jumps"`
	FullWaits      uint64  `json:"full_waits"` // times a full lane made it wait
	InBlocks       uint64  `json:"in_blocks"`  // events to other workers whose data went by a pooled block
	InParts        uint64  `json:"in_parts"`   // … whose data went in parts, because no block was free or large enough
	Parks          uint64  `json:"parks"`

	Externals         uint64 `json:"externals,omitempty"`          // calls of the outside world
	ExternalsRecorded uint64 `json:"externals_recorded,omitempty"` // of them answered by a record

	Passive // of nodes that leave memory (Tuning.Resident)
}

// Passive counts what became of nodes that may leave memory.
type Passive struct {
	Left         uint64 `json:"left,omitempty"` // nodes that left memory, and came back, each as often as it did
	Came         uint64 `json:"came,omitempty"`
	WrittenBytes uint64 `json:"written_bytes,omitempty"` // of their states
	ReadBytes    uint64 `json:"read_bytes,omitempty"`
	FileBytes    uint64 `json:"file_bytes,omitempty"` // that the file for them has grown to
	MostInMemory uint64 `json:"most_in_memory,omitempty"`
}

// Failed is the error that ended a worker's part.
type Failed struct {
	Error string
	Peer  bool // a peer closed its lanes: look for the cause there
	Wrong bool // what was asked for can't be done: a handler can't be saved, a saved state can't be loaded
	// a temporary file of the worker can't be written: nothing is wrong with what it simulates; with Wrong: it can't
	// even be made, since the folder for such files takes none
	File bool
}

// Tuning holds the knobs that change speed and never results.
type Tuning struct {
	RingBytes int `json:"ring_bytes"` // data bytes of one lane's ring, a power of two; the largest, with AllRingBytes
	// bytes of all rings together, shared out by what they are to carry; 0: RingBytes each
	AllRingBytes int    `json:"all_ring_bytes"`
	InlineMax    int    `json:"inline_max"` // largest payload that travels inside the ring, bytes
	PoolBytes    int    `json:"pool_bytes"` // bytes of one worker's pool for larger payloads
	BatchMax     int    `json:"batch_max"`  // activations between two looks at the lanes
	Ingress      string `json:"ingress"`    // "duty": in the worker's own cycle; "goroutine": beside it
	// "lane": one bound promises for a whole lane; "link": promises of single links
	Sync      string `json:"sync"`
	Wait      string `json:"wait"`       // "adaptive", "spin", "yield" or "park"
	Pin       bool   `json:"pin"`        // bind worker i to CPU i modulo their number
	HugePages bool   `json:"huge_pages"` // try 2 MiB pages for lanes and pools; shared memory only
	// bytes that nodes may take of memory, of all workers together: others leave it; 0: no bound
	Resident int64 `json:"resident_bytes,omitempty"`
}
