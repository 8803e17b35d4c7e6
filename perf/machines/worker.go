// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/ingress"
	"github.com/disco-sim/disco/perf/bench"
	"github.com/disco-sim/disco/perf/peers"
	"github.com/disco-sim/disco/shm"
)

// worker is one side, with the ends that a worker of a run has: it knows of no bridge.
type worker struct {
	*bench.Side
	mem     *memory
	out     *egress.Egress
	in      *ingress.Ingress
	wait    *shm.Waiter
	over    *shm.Doorbell
	payload []byte
	event   envelope.Event
	check   bench.Check
	events  uint64 // received
	ended   bool   // the other worker has closed its lane
}

func open(s *bench.Side) (*bench.Run, error) {
	if !s.Lead() {
		return openBridge(s)
	}
	w := &worker{Side: s, payload: bench.NewPayload(max(8, s.Payload))}
	w.check = bench.NewCheck(w.payload)
	var err error
	if w.mem, err = attachMemory(&s.Task); err != nil {
		return nil, err
	}
	if err := w.open(); err != nil {
		w.mem.close()
		return nil, err
	}
	do := w.follow
	switch trips := s.Job == jobTrip || s.Job == jobTrip+peers.Secured; {
	case s.Pair == 0 && trips:
		do = w.trips
	case s.Pair == 0:
		do = w.stream
	case trips:
		do = w.answer
	}
	return &bench.Run{Close: w.mem.close, Do: func(m *bench.Meter) error {
		err := do(m)
		w.over.Ring()
		return err
	}}, nil
}

// open makes its ends.
func (w *worker) open() error {
	mode, err := shm.ParseMode(w.Wait)
	if err != nil {
		return err
	}
	if mode == shm.ModeAdaptive && processors() < threads { // as in a run over machines (internal/worker)
		mode = shm.ModePark
	}
	own, err := w.mem.bell(bellWorker)
	if err != nil {
		return err
	}
	pump, err := w.mem.bell(bellPump)
	if err != nil {
		return err
	}
	if w.over, err = w.mem.bell(bellOver); err != nil {
		return err
	}
	w.wait, err = shm.NewWaiter(shm.WaiterConfig{Bell: own, Mode: mode, Crowded: processors() < threads})
	if err != nil {
		return err
	}
	var pool *shm.Pool
	if w.mem.pools[0] != nil {
		if pool, err = shm.NewPool(w.mem.pools[0].Body()); err != nil {
			return err
		}
	}
	w.out, err = egress.New(egress.Config{Peer: 1 - w.Pair, Lane: w.mem.lanes[0], Pool: pool, Parts: true, Bell: pump,
		InlineMax: inlineMax(w.Ring), Wait: w.room, PublishRecords: w.Batch})
	if err != nil {
		return err
	}
	w.in, err = ingress.New(ingress.Config{Lanes: []ingress.Source{{Peer: 1 - w.Pair, Lane: w.mem.lanes[1],
		Pool: body(w.mem.pools[1]), Parts: true, Bell: pump}}})
	return err
}

// room is what a send does that finds none.
func (w *worker) room() error {
	if err := w.out.ReturnBlocks(); err != nil {
		return err
	}
	return w.poll()
}

// poll takes in what there is, or waits a little.
func (w *worker) poll() error {
	n, err := w.in.Poll(w)
	if errors.Is(err, ingress.ErrClosed) {
		w.ended, err = true, nil
	}
	if err == nil && n == 0 && w.Aborted() {
		err = bench.ErrAborted
	}
	w.wait.Idle(n > 0)
	return err
}

// ReceiveEvent checks one that has come.
func (w *worker) ReceiveEvent(_ int, ev *envelope.Event, lease uint64) error {
	if ev.Number != w.events {
		return fmt.Errorf("machines: event %d in the place of %d", ev.Number, w.events)
	}
	w.events++
	if err := w.check.Verify(w.Job, ev.Data, ev.Number); err != nil || lease == 0 {
		return err
	}
	return w.in.Release(lease)
}

// ReceivePromise is for promises in records, which are not sent here.
func (w *worker) ReceivePromise(int, *envelope.Promise) error { return nil }

// ReceiveBound is for bounds, which are not raised here.
func (w *worker) ReceiveBound(int, float64, uint32) error { return nil }

// send sends the event of a number.
func (w *worker) send(number uint64) error {
	binary.LittleEndian.PutUint64(w.payload, number)
	w.event.Number, w.event.Data = number, w.payload
	return w.out.SendEvent(&w.event)
}

// finish closes the lane, and returns when the other worker has done so.
func (w *worker) finish() error {
	w.out.Close()
	for !w.ended {
		if err := w.poll(); err != nil {
			return err
		}
	}
	return nil
}

// warm is how many round trips are made before the clock starts.
const warm = 200

func (w *worker) trips(m *bench.Meter) error {
	m.Trips(warm)
	for n := uint64(0); ; n++ {
		if err := w.send(n); err != nil {
			return err
		}
		if err := w.out.Flush(); err != nil {
			return err
		}
		for w.events <= n {
			if err := w.poll(); err != nil {
				return err
			}
		}
		// Behind the last answer: the other side ends when it sees the end of this lane, and its bridge with it, which
		// a payload that is still on its way does not survive.
		if m.Lap() {
			break
		}
	}
	m.End(m.Laps())
	return w.finish()
}

// answer sends one event for each that has come.
func (w *worker) answer(m *bench.Meter) error {
	m.Begin()
	for sent := uint64(0); !w.ended; {
		if err := w.poll(); err != nil {
			return err
		}
		for ; sent < w.events; sent++ {
			if err := w.send(sent); err != nil {
				return err
			}
		}
		if err := w.out.Flush(); err != nil {
			return err
		}
	}
	m.End(0)
	return w.finish()
}

func (w *worker) stream(m *bench.Meter) error {
	number := uint64(0)
	m.Begin()
	for end := m.Now() + int64(w.Time); m.Now() < end; {
		for range max(w.Batch, 1) {
			if err := w.send(number); err != nil {
				return err
			}
			number++
		}
		if err := w.out.Flush(); err != nil {
			return err
		}
	}
	err := w.finish() // the other worker has all then
	m.End(number)
	return err
}

// follow takes in what comes, until the other worker closes.
func (w *worker) follow(m *bench.Meter) error {
	m.Begin()
	for !w.ended {
		if err := w.poll(); err != nil {
			return err
		}
	}
	m.End(0)
	return w.finish()
}
