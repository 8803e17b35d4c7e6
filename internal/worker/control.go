// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"github.com/disco-sim/disco/scenario"
)

// The launcher and a worker talk over one stream (a socket pair between
// processes, a pipe in memory within one). Frames are a u32 length, little
// endian, and that many bytes of JSON of one Message. The way of a run:
//
//	launcher                       worker
//	Setup ──────────────────────▶  reads the scenario, attaches its segments
//	       ◀────────────────────── Ready
//	Prepare{replication} ───────▶  builds its nodes, resets its own lanes
//	       ◀────────────────────── Ready
//	Go ─────────────────────────▶  runs                       (once all are ready)
//	       ◀────────────────────── Done | Failed
//	Prepare … Go … Done, once per replication
//	Stop ───────────────────────▶  calls no handler any more        (stop.go says why)
//	       ◀────────────────────── Stopped{latest epoch}
//	Limit{epoch} ───────────────▶  handles what is before it; answers Done
//	Exit ───────────────────────▶  closes and returns
//
//	Ask ────────────────────────▶  while it runs, at any time
//	       ◀────────────────────── Status
//
// The stream's end means that the other side is gone: a worker that loses its
// launcher ends at once.

// MessageMax bounds one frame: 1 GiB, the results of a very large scenario.
const MessageMax = 1 << 30

// Message is one frame. Exactly one field besides Type is set, or none.
type Message struct {
	Type    string   `json:"type"`
	Setup   *Setup   `json:"setup,omitempty"`
	Prepare *Prepare `json:"prepare,omitempty"`
	Stopped *Stopped `json:"stopped,omitempty"`
	Limit   *Limit   `json:"limit,omitempty"`
	Done    *Done    `json:"done,omitempty"`
	Status  *Status  `json:"status,omitempty"`
	Failed  *Failed  `json:"failed,omitempty"`
}

// Types of messages.
const (
	TypeSetup   = "setup"
	TypePrepare = "prepare"
	TypeGo      = "go"
	TypeStop    = "stop"
	TypeStopped = "stopped"
	TypeLimit   = "limit"
	TypeAsk     = "ask"
	TypeStatus  = "status"
	TypeExit    = "exit"
	TypeReady   = "ready"
	TypeDone    = "done"
	TypeFailed  = "failed"
)

// Setup tells a worker everything that doesn't change from one replication to the
// next. Segments travel beside it: by file descriptor or by pointer.
type Setup struct {
	Worker    int                `json:"worker"` // 0 … Workers-1
	Workers   int                `json:"workers"`
	First     int                `json:"first"`         // workers of the same launcher before these, for Tuning.Pin
	File      string             `json:"file"`          // the scenario's name, for messages
	Text      []byte             `json:"text"`          // the scenario file itself
	Set       []scenario.Setting `json:"set,omitempty"` // what is put into it
	Horizon   float64            `json:"horizon"`       // 0: the file's
	Seed      uint64             `json:"seed"`
	Placement []int32            `json:"placement"` // worker of each node
	Tuning    Tuning             `json:"tuning"`
	Trace     string             `json:"trace"` // the trace that handled events are for, empty for none; what is written goes to a file that comes along

	// OneProcess: all workers are goroutines of the launcher. They wait by yielding to
	// other goroutines, and worker 0 reports the CPU time of all.
	OneProcess bool `json:"one_process"`
}

// Prepare starts one replication.
type Prepare struct {
	Replication int `json:"replication"`
}

// Stopped is the answer to Stop.
type Stopped struct {
	Handled bool    `json:"handled"` // it has called a handler at all
	Epoch   float64 `json:"epoch"`   // the latest at which it has, simulated seconds
}

// Limit ends a stopped run at a time that is the same for all workers.
type Limit struct {
	Epoch float64 `json:"epoch"` // nothing at it or later is handled; beyond the horizon: no limit
}

// Done is what a worker has to say after a replication.
type Done struct {
	Interrupted bool              `json:"interrupted"` // ended by a Limit before the horizon
	Reached     float64           `json:"reached"`     // simulated time up to which all is handled
	Events      uint64            `json:"events"`      // events handled
	Activations uint64            `json:"activations"` // calls of handlers
	Hashes      []SimprocHash     `json:"hashes"`      // of its own simprocs
	Parts       map[uint32][]byte `json:"parts"`       // reports, by simproc id
	Stats       Stats             `json:"stats"`
}

// SimprocHash is the trace hash of one simproc.
type SimprocHash struct {
	ID   uint32 `json:"id"`
	Hash uint64 `json:"hash"`
}

// Stats says where a worker's time and events went. Working, Blocked, Room and Report add
// up to Wall: a worker is always in exactly one of them.
type Stats struct {
	WallSeconds    float64 `json:"wall_s"`
	WorkingSeconds float64 `json:"working_s"` // takes in, handles, sends
	BlockedSeconds float64 `json:"blocked_s"` // nothing can be handled before a peer says more
	RoomSeconds    float64 `json:"room_s"`    // what there is to do waits for room in a lane
	ReportSeconds  float64 `json:"report_s"`  // gathers results, when the replication is over
	CPUSeconds     float64 `json:"cpu_s"`     // of the whole process; in one process, worker 0 has that of all
	Sent           uint64  `json:"sent"`      // events to other workers
	Received       uint64  `json:"received"`  // events from other workers
	Promises       uint64  `json:"promises"`  // promises published
	IdleJumps      uint64  `json:"idle_jumps"`
	FullWaits      uint64  `json:"full_waits"` // times a full lane made it wait
	InBlocks       uint64  `json:"in_blocks"`  // events to other workers whose data went by a pooled block
	InParts        uint64  `json:"in_parts"`   // … whose data went in parts, because no block was free or large enough
	Parks          uint64  `json:"parks"`
}

// Failed is the error that ended a worker's part.
type Failed struct {
	Error string `json:"error"`
	Peer  bool   `json:"peer,omitempty"` // a peer closed its lanes: look for the cause there
}

// Tuning holds the knobs that change speed and never results.
type Tuning struct {
	RingBytes int    `json:"ring_bytes"` // data bytes of one lane's ring, a power of two
	InlineMax int    `json:"inline_max"` // largest payload that travels inside the ring, bytes
	PoolBytes int    `json:"pool_bytes"` // bytes of one worker's pool for larger payloads
	BatchMax  int    `json:"batch_max"`  // activations between two looks at the lanes
	Ingress   string `json:"ingress"`    // "duty": in the worker's own cycle; "goroutine": beside it
	Wait      string `json:"wait"`       // "adaptive", "spin", "yield" or "park"
	Pin       bool   `json:"pin"`        // bind worker i to CPU i modulo their number
	HugePages bool   `json:"huge_pages"` // try 2 MiB pages for lanes and pools; shared memory only
}

// WriteMessage writes one frame.
func WriteMessage(w io.Writer, m *Message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("worker: message %q: %w", m.Type, err)
	}
	if len(body) > MessageMax {
		return fmt.Errorf("worker: message %q of %d bytes, at most %d are allowed", m.Type, len(body), MessageMax)
	}
	frame := binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body)))
	_, err = w.Write(append(frame, body...))
	return err
}

// frameStep is how much memory a frame gets before any of it has come.
const frameStep = 64 << 10

// ReadMessage reads one frame. io.EOF, unwrapped, means that the other side has
// closed the stream between two frames.
func ReadMessage(r io.Reader) (*Message, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n == 0 || n > MessageMax {
		return nil, fmt.Errorf("worker: frame of %d bytes, want 1 to %d", n, MessageMax)
	}
	// Memory is taken as the bytes come: four bytes that promise a gigabyte cost nothing.
	var body bytes.Buffer
	body.Grow(int(min(n, frameStep)))
	if _, err := io.CopyN(&body, r, int64(n)); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("worker: frame of %d bytes was cut short: %w", n, err)
	}
	m := &Message{}
	if err := json.Unmarshal(body.Bytes(), m); err != nil {
		return nil, fmt.Errorf("worker: frame of %d bytes: %w", n, err)
	}
	return m, nil
}
