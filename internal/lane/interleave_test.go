// SPDX-License-Identifier: Apache-2.0

package lane

import (
	"fmt"
	"math"
	"testing"

	"github.com/disco-sim/disco/internal/aligned"
	"github.com/disco-sim/disco/internal/race"
)

// Every interleaving of a few publishes with a few looks, on the real slot and the
// real ring, one atomic step at a time. The writer sends event k at exactly the
// bound k-1, the earliest it may, and then publishes bound k. Whenever the reader
// holds a bound for good, every event of the whole script that is earlier must have
// been read; otherwise a worker would have run past an event that is still to come.
//
// One step is one atomic operation, and sync/atomic is sequentially consistent, so
// the interleavings of steps are all that two processors can do.

type bound struct {
	epoch float64
	level uint32
}

func (b bound) less(o bound) bool {
	return b.epoch < o.epoch || b.epoch == o.epoch && b.level < o.level
}

// op is one atomic step of either side.
type op uint8

const (
	sendEvent op = iota // publish a record
	storeLevel
	storeEpoch
	loadEpoch
	loadLevel
	readRing // one record at most, then the verdict
)

// variant says in which order the two sides do their steps. The zero value is what
// the package does; each other one leaves out something that the proof needs.
type variant struct {
	name           string
	writer, reader [3]op
	ignorePosition bool // the reader takes every bound as reached
	takeLower      bool // the reader takes a lower mixture for the newest bound
}

var (
	rightWriter = [3]op{sendEvent, storeLevel, storeEpoch}
	rightReader = [3]op{loadEpoch, loadLevel, readRing}
	right       = variant{writer: rightWriter, reader: rightReader}
)

// look is the reader's state in one run.
type look struct {
	epochBits uint64
	level, at uint32
	pending   *Promise
	held      bound
	read      int // events read
}

// explore runs every interleaving for one script of bounds and returns the first
// violation, or the number of runs.
func explore(v variant, bounds []bound, looks int) (runs int, err error) {
	writerSteps, readerSteps := 3*len(bounds), 3*looks
	order := make([]bool, 0, writerSteps+readerSteps) // true: the writer's turn
	body := aligned.Bytes(sizeOf(tiny), Alignment)
	var walk func(w, r int) error
	walk = func(w, r int) error {
		if w == 0 && r == 0 {
			runs++
			return replay(v, bounds, order, body)
		}
		if w > 0 {
			order = append(order, true)
			err := walk(w-1, r)
			order = order[:len(order)-1]
			if err != nil {
				return err
			}
		}
		if r > 0 {
			order = append(order, false)
			err := walk(w, r-1)
			order = order[:len(order)-1]
			if err != nil {
				return err
			}
		}
		return nil
	}
	return runs, walk(writerSteps, readerSteps)
}

// tiny holds all events of a script; its positions wrap in the middle of it.
var tiny = Config{RingBytes: 128, Start: 1<<64 - 32}

func replay(v variant, bounds []bound, order []bool, body []byte) error {
	if err := Format(body, tiny); err != nil {
		return err
	}
	s, err := OpenSender(body)
	if err != nil {
		return err
	}
	r, err := OpenReceiver(body)
	if err != nil {
		return err
	}
	// An event's time is the bound in force when it is sent.
	times := append([]bound{{}}, bounds[:len(bounds)-1]...)
	var l look
	w, rd := 0, 0
	for _, writer := range order {
		if writer {
			writeStep(s, bounds[w/3], v.writer[w%3])
			w++
			continue
		}
		if err := readStep(v, r, &l, v.reader[rd%3]); err != nil {
			return fmt.Errorf("%v, order %v: %w", bounds, order, err)
		}
		rd++
		for k, at := range times {
			if at.less(l.held) && k >= l.read {
				return fmt.Errorf("bounds %v, order %v: reader holds %v, but event %d at %v was not read", bounds,
					order, l.held, k, at)
			}
		}
	}
	return nil
}

func writeStep(s *Sender, b bound, step op) {
	switch step {
	case sendEvent:
		if _, err := s.forward.Claim(0); err != nil {
			panic(err)
		}
		s.forward.Commit()
		s.forward.Publish()
	case storeLevel:
		s.slot.storeLevelAt(b.level, positionUnits(s.forward.Position()))
	case storeEpoch:
		s.slot.storeEpoch(math.Float64bits(b.epoch))
	}
}

func readStep(v variant, r *Receiver, l *look, step op) error {
	switch step {
	case loadEpoch:
		l.epochBits = r.slot.loadEpoch()
	case loadLevel:
		l.level, l.at = r.slot.loadLevelAt()
	case readRing:
		return l.finish(v, r)
	}
	return nil
}

// finish does what ingress does after the two loads: it takes a fresh bound unless
// it still keeps one, reads the ring, and holds the bound once it is reached.
func (l *look) finish(v variant, r *Receiver) error {
	if l.pending == nil {
		fresh := l.epochBits != r.slot.epochBits || l.level > r.slot.level
		if fresh || v.takeLower {
			p, _, err := r.slot.accept(l.epochBits, l.level, l.at, positionUnits(r.forward.Position()))
			if err != nil {
				return err
			}
			l.pending = &p
		}
	}
	if rec, err := r.forward.Next(); err != nil {
		return err
	} else if rec != nil {
		l.read++
	}
	if l.pending != nil && (v.ignorePosition || r.Reached(*l.pending)) {
		b := bound{l.pending.Epoch, l.pending.Level}
		if b.less(l.held) {
			return fmt.Errorf("bound %v after %v", b, l.held)
		}
		l.held, l.pending = b, nil
	}
	return nil
}

// scripts gives every rising sequence of n bounds over the given epochs and levels.
func scripts(n int, epochs []float64, levels []uint32) [][]bound {
	var all []bound
	for _, e := range epochs {
		for _, l := range levels {
			all = append(all, bound{e, l})
		}
	}
	var out [][]bound
	var pick func(from int, chosen []bound)
	pick = func(from int, chosen []bound) {
		if len(chosen) == n {
			out = append(out, append([]bound(nil), chosen...))
			return
		}
		for i := from; i < len(all); i++ {
			pick(i+1, append(chosen, all[i]))
		}
	}
	pick(1, nil) // (0, 0) is what the slot starts with
	return out
}

func TestEveryInterleavingOfPromises(t *testing.T) {
	publishes, looks := 3, 3
	if race.Enabled || testing.Short() {
		publishes = 2
	}
	runs := 0
	for _, s := range scripts(publishes, []float64{0, 1, 2}, []uint32{0, 3}) {
		n, err := explore(right, s, looks)
		if err != nil {
			t.Fatal(err)
		}
		runs += n
	}
	if publishes == 3 {
		looks++
	}
	for _, s := range scripts(2, []float64{0, 1, 2}, []uint32{0, 1, 2}) {
		n, err := explore(right, s, looks)
		if err != nil {
			t.Fatal(err)
		}
		runs += n
	}
	t.Logf("%d runs", runs)
}

// The canaries: each of these breaks the proof, and the enumeration must find it.
func TestTheEnumerationFindsBrokenVariants(t *testing.T) {
	for _, v := range []variant{
		{name: "writer stores the epoch first", writer: [3]op{sendEvent, storeEpoch, storeLevel}, reader: rightReader},
		{name: "reader loads the level first", writer: rightWriter, reader: [3]op{loadLevel, loadEpoch, readRing}},
		{name: "event published after its bound", writer: [3]op{storeLevel, storeEpoch, sendEvent},
			reader: rightReader},
		{name: "reader ignores the position", writer: rightWriter, reader: rightReader, ignorePosition: true},
		{name: "reader takes a lower mixture", writer: rightWriter, reader: rightReader, takeLower: true},
	} {
		found := false
		for _, s := range scripts(3, []float64{0, 1, 2}, []uint32{0, 3}) {
			if _, err := explore(v, s, 2); err != nil {
				found = true
				break
			}
		}
		if !found {
			t.Errorf("%s: no violation found", v.name)
		}
	}
}
