// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"math"

	"github.com/disco-sim/disco/internal/counters"
	"github.com/disco-sim/disco/shm"
)

// Shown is what a worker shows its peers on its board while it runs: only when they take in or wait depends on it. In a
// run over machines a bridge carries it to the mirrors of that board, whenever it has changed and before it sleeps.
type Shown struct {
	State, Calls           uint64 // StateWork, …; of handlers
	Place, RoomAt, WaitsAt float64
}

// ShownFirst is what every worker shows when a replication begins: mirrors are set to it before workers get ready.
var ShownFirst = Shown{State: StateRest, RoomAt: math.Inf(1), WaitsAt: math.Inf(1)}

// Bells are the doorbells on a board: comes is rung when there is something to take in, room when room was given back,
// the run jumps, or its worker is to look at others' boards. On the mirror of a machine's first worker comes is the one
// of the bridge's pump for that machine (docs/format/board.md).
func Bells(board *shm.Segment, t Tuning) (comes, room *shm.Doorbell, err error) {
	if comes, err = shm.OpenDoorbell(bell(board)); err != nil {
		return nil, nil, fmt.Errorf("doorbell: %w", err)
	}
	if t.Ingress != IngressGoroutine {
		return comes, comes, nil
	}
	if room, err = shm.OpenDoorbell(spareBell(board)); err != nil {
		return nil, nil, fmt.Errorf("second doorbell: %w", err)
	}
	return comes, room, nil
}

// Slot is the memory of a board's idle slot; on the mirror of the first worker elsewhere it is that of the jump words.
func Slot(board *shm.Segment) []byte { return slot(board) }

// View reads the board of a worker on this machine.
type View struct{ board peerBoard }

// OpenView opens a board to look at.
func OpenView(board *shm.Segment) (*View, error) {
	p, err := openPeerBoard(board)
	return &View{p}, err
}

// Shown is what the worker shows now.
func (v *View) Shown() Shown {
	b := &v.board
	return Shown{State: b.state.Load(), Calls: b.calls.Load(), Place: b.place.LoadFloat(), RoomAt: b.roomAt.LoadFloat(),
		WaitsAt: b.waitsAt.LoadFloat()}
}

// Mirror is the board of a worker on another machine, which this machine's bridge writes. One goroutine at a time.
type Mirror struct {
	board *counters.Set
	shown Shown
}

// OpenMirror opens a board that Layout.FormatBoard has prepared.
func OpenMirror(board *shm.Segment) (*Mirror, error) {
	set, err := openCounters(board)
	if err != nil {
		return nil, err
	}
	m := &Mirror{board: set}
	m.Show(ShownFirst, nil, nil)
	return m, nil
}

// Show stores what the worker shows, and rings those of the workers here that are to see it: who waits for it to have
// come so far, and all when it waits for room, since one of them is to make some. Values that can't be are stored as
// well: they cost time at most (docs/sync.md).
func (m *Mirror) Show(s Shown, here []*View, ring func(worker int)) {
	before := m.shown
	m.shown = s
	m.board.At(showState).Set(s.State)
	m.board.At(showActivations).Set(s.Calls)
	m.board.At(showRoomAt).SetFloat(s.RoomAt)
	m.board.At(showWaitsAt).SetFloat(s.WaitsAt)
	// SYNC POINT place-shown: stored before the waits_at of workers here are read.
	m.board.At(showPlace).SetFloat(s.Place)
	wants := s.RoomAt != before.RoomAt && !math.IsInf(s.RoomAt, 1)
	for i, v := range here {
		if at := v.board.waitsAt.LoadFloat(); wants || before.Place < at && at <= s.Place {
			ring(i)
		}
	}
}
