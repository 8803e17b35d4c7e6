// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"math"

	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/shm"
)

// boards reads what the workers of a set show on their boards, which it doesn't own.
type boards struct {
	segments  []*shm.Segment // by worker of the set
	structure *node.Structure
}

var _ boardReader = boards{}

// reached implements boardReader.
func (b boards) reached(index int) (epoch float64, ok bool) {
	values, err := worker.Numbers(b.segments[index])
	if err != nil {
		return 0, false
	}
	for _, v := range values {
		if v.Name == worker.NumberEpoch {
			return v.Gauge, v.Gauge > 0 && !math.IsInf(v.Gauge, 1)
		}
	}
	return 0, false
}

// lastCall implements boardReader.
func (b boards) lastCall(index int) (simproc string, epoch float64) {
	values, err := worker.Numbers(b.segments[index])
	if err != nil {
		return "", 0
	}
	var of uint64
	for _, v := range values {
		switch v.Name {
		case worker.NumberCallOf:
			of = v.Count
		case worker.NumberCallAt:
			epoch = v.Gauge
		}
	}
	if of == 0 || of > uint64(b.structure.NumSimprocs()) {
		return "", 0
	}
	return b.structure.Name(node.SimprocID(of - 1)), epoch
}

// worked is how many seconds of the replication each worker has worked, as far as boards can be read.
func (b boards) worked() []float64 {
	all := make([]float64, len(b.segments))
	for w, s := range b.segments {
		values, err := worker.Numbers(s)
		if err != nil {
			continue
		}
		for _, v := range values {
			if v.Name == worker.NumberWorked {
				all[w] = v.Gauge
			}
		}
	}
	return all
}

// waits implements boardReader.
func (b boards) waits() Waits {
	all := Waits{Workers: len(b.segments), On: -1}
	on := make([]int, len(b.segments)) // by worker: how many wait for it
	for _, s := range b.segments {
		values, err := worker.Numbers(s)
		if err != nil {
			continue
		}
		waits, peer := false, uint64(0)
		for _, v := range values {
			switch {
			case v.Name == worker.NumberPeer:
				peer = v.Count
			case v.Name != worker.NumberState:
			case v.Count == worker.StateBound || v.Count == worker.StateAhead:
				all.Peers++
				waits = true
			case v.Count == worker.StateRoom:
				all.Lanes++
				waits = true
			case v.Count == worker.StateOutside:
				all.Outside++
			}
		}
		if waits && peer > 0 && peer <= uint64(len(on)) {
			if on[peer-1]++; all.On < 0 || on[peer-1] > on[all.On] {
				all.On = int(peer - 1)
			}
		}
	}
	return all
}

// gathering implements boardReader.
func (b boards) gathering() bool {
	for _, s := range b.segments {
		values, err := worker.Numbers(s)
		if err != nil {
			return false
		}
		for _, v := range values {
			if v.Name == worker.NumberState && v.Count != worker.StateGather {
				return false
			}
		}
	}
	return true
}

// outside implements boardReader.
func (b boards) outside() bool {
	for _, s := range b.segments {
		values, err := worker.Numbers(s)
		if err != nil {
			continue
		}
		for _, v := range values {
			if v.Name == worker.NumberState && v.Count == worker.StateOutside {
				return true
			}
		}
	}
	return false
}

// load is what a worker's board says of memory.
type load struct {
	rests       bool   // it doesn't simulate
	pending     uint64 // events and wakeups
	taken, left int64  // bytes, of another machine; 0: it isn't known, or this one
}

// loads implements boardReader.
func (b boards) loads() []load {
	all := make([]load, len(b.segments))
	for w, s := range b.segments {
		values, err := worker.Numbers(s)
		if err != nil {
			continue
		}
		l := &all[w]
		for _, v := range values {
			switch v.Name {
			case worker.NumberState:
				l.rests = v.Count == worker.StateRest
			case worker.NumberPending:
				l.pending = v.Count
			case worker.NumberTaken:
				l.taken = int64(min(v.Count, math.MaxInt64/4))
			case worker.NumberLeft:
				l.left = int64(min(v.Count, math.MaxInt64/4))
			}
		}
	}
	return all
}

// progress implements boardReader. A board that can't be read counts as one of a worker that
// has just begun: progress is for people to look at.
func (b boards) progress() (epoch float64, events uint64) {
	epoch = math.Inf(1)
	for _, s := range b.segments {
		values, err := worker.Numbers(s)
		if err != nil {
			return 0, 0
		}
		for _, v := range values {
			switch v.Name {
			case worker.NumberEpoch:
				epoch = min(epoch, v.Gauge)
			case worker.NumberEvents:
				events += v.Count
			}
		}
	}
	if !(epoch > 0) || math.IsInf(epoch, 1) {
		return 0, events
	}
	return epoch, events
}
