// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"math"
	"runtime"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/ingress"
	"github.com/disco-sim/disco/shm"
)

// The names of the jobs that measure disco.
const (
	JobTrip       = "event-trip"        // an event there, one back
	JobTripNumber = "event-trip-number" // likewise, and of the answer only the number in the payload is read
	JobTripEcho   = "event-trip-echo"   // likewise, and the answer holds what came, copied from ring to ring
	JobStream     = "event-stream"      // events one way, read in full
	JobParts      = "event-parts"       // likewise, but no block is free: they are sent in parts
	JobStreamTip  = "event-tip"         // events one way, of which the reader reads the first and the last word
	JobLoan       = "loan-trip"         // a block there, one back; first and last word written and read
	JobLoanTouch  = "loan-touch-trip"   // a block there, written and read in full; a small event back
	JobIdle       = "engine-idle"       // nothing is sent
)

// blocksPerPool is the number of blocks in each side's pool.
const blocksPerPool = 8

// inlineMax is the largest payload that travels inside the ring: as in a run of
// disco-run, 64 KiB or an eighth of the ring.
func inlineMax(ring int) int { return min(64<<10, ring/8) }

func poolClasses(payloadMax int) []shm.BlockSize {
	return []shm.BlockSize{{BlockBytes: max(payloadMax, 64), Count: blocksPerPool}}
}

func engineJobs() []Job {
	return []Job{
		{Name: JobTrip, Format: formatEngine, Open: openTrip},
		{Name: JobTripNumber, Format: formatEngine, Open: openTrip},
		{Name: JobTripEcho, Format: formatEngine, Open: openTrip},
		{Name: JobStream, Format: formatEngine, Open: openStream},
		{Name: JobParts, Format: formatEngine, Open: openStream},
		{Name: JobStreamTip, Format: formatEngine, Open: openStream},
		{Name: JobLoan, Format: formatEngine, Open: openTrip},
		{Name: JobLoanTouch, Format: formatEngine, Open: openTrip},
		{Name: JobIdle, Format: formatEngine, Open: openIdle},
	}
}

// engineRooms cuts an arena into the lanes and the pools of the two sides, each
// starting at a multiple of 128 bytes.
func engineRooms(a *Arena, t Task) (lanes, pools [2][]byte, err error) {
	laneBytes, err := egress.LaneBytes(t.Ring, poolClasses(t.Payload))
	if err != nil {
		return lanes, pools, err
	}
	poolBytes, err := shm.PoolBytes(poolClasses(t.Payload))
	if err != nil {
		return lanes, pools, err
	}
	room := a.room()
	take := func(n int) []byte {
		b := room[:n:n]
		room = room[roundUp(n, 128):]
		return b
	}
	if need := 2*roundUp(laneBytes, 128) + 2*roundUp(poolBytes, 128); len(room) < need {
		return lanes, pools, fmt.Errorf("bench: arena of %d bytes, want %d", len(room), need)
	}
	for side := range 2 {
		lanes[side] = take(laneBytes)
	}
	for side := range 2 {
		pools[side] = take(poolBytes)
	}
	return lanes, pools, nil
}

func formatEngine(a *Arena, t Task) error {
	lanes, pools, err := engineRooms(a, t)
	if err != nil {
		return err
	}
	for side := range 2 {
		if err := egress.FormatLane(lanes[side], t.Ring, poolClasses(t.Payload)); err != nil {
			return err
		}
		if err := shm.FormatPool(pools[side], poolClasses(t.Payload)); err != nil {
			return err
		}
	}
	return nil
}

// engine is one side of a pair, built like a worker of disco-run: an egress and an ingress of one lane each, and a
// waiter.
type engine struct {
	*Side
	out   *egress.Egress
	in    *ingress.Ingress
	wait  *shm.Waiter
	other *shm.Doorbell // nil: the other side never sleeps
	sink  sink

	payload []byte
	event   envelope.Event
}

func openEngine(s *Side) (*engine, error) {
	mode, err := shm.ParseMode(s.Wait)
	if err != nil {
		return nil, err
	}
	lanes, pools, err := engineRooms(s.Arena, s.Task)
	if err != nil {
		return nil, err
	}
	pool, err := shm.NewPool(pools[s.Side])
	if err != nil {
		return nil, err
	}
	e := &engine{Side: s, payload: NewPayload(s.Payload)}
	var own *shm.Doorbell
	if mode == shm.ModePark || mode == shm.ModeAdaptive {
		if own, err = s.Arena.bell(s.Side); err != nil {
			return nil, err
		}
		if e.other, err = s.Arena.bell(1 - s.Side); err != nil {
			return nil, err
		}
	}
	if e.wait, err = shm.NewWaiter(shm.WaiterConfig{Bell: own, Mode: mode}); err != nil {
		return nil, err
	}
	if s.Job == JobParts {
		pool = nil // as one that is exhausted all the time
	}
	e.out, err = egress.New(egress.Config{
		Peer: 1 - s.Side, Lane: lanes[s.Side], Pool: pool, Parts: s.Job == JobParts, Bell: e.other,
		InlineMax: inlineMax(s.Ring), Wait: e.room, PublishRecords: max(1, s.Batch),
	})
	if err != nil {
		return nil, err
	}
	e.in, err = ingress.New(ingress.Config{Lanes: []ingress.Source{{
		Peer: 1 - s.Side, Lane: lanes[1-s.Side], Pool: pools[1-s.Side], Parts: s.Job == JobParts, Bell: e.other,
	}}})
	if err != nil {
		return nil, err
	}
	e.sink = sink{in: e.in, check: NewCheck(e.payload), tips: s.Job == JobStreamTip || s.Job == JobLoan}
	if e.sink.tips {
		e.sink.check = newTipCheck(e.payload)
	}
	switch {
	case s.Job == JobTripEcho && !s.Lead():
		e.sink.answer = e.echo
	case (s.Job == JobTripNumber || s.Job == JobTripEcho) && s.Payload >= numberBytes:
		e.sink.number = s.Lead()
	}
	return e, nil
}

// room is called by the egress while the lane has no room.
func (e *engine) room() error {
	if e.Aborted() {
		return ErrAborted
	}
	if err := e.out.ReturnBlocks(); err != nil {
		return err
	}
	e.wait.Idle(false)
	return nil
}

// prepareAt is how many looks of a pass are left when the next event is prepared: that is some 150 ns after the send.
const prepareAt = 2

// poll looks once for events and waits a little when there were none.
func (e *engine) poll() error {
	for n := e.wait.Looks(); n > 0 && !e.in.Look(); n-- {
		if n == prepareAt {
			e.out.Prepare()
		}
		e.wait.Missed()
	}
	work, err := e.in.Poll(&e.sink)
	if err != nil {
		return err
	}
	if work == 0 && e.Aborted() {
		return ErrAborted
	}
	e.wait.Idle(work > 0)
	return nil
}

// send sends the payload with its number and makes it visible.
func (e *engine) send(number uint64) error {
	e.event.Number = number
	var err error
	switch e.Job {
	case JobLoan:
		err = e.sendLoan(number, stampTips)
	case JobLoanTouch:
		if e.Lead() {
			err = e.sendLoan(number, e.build)
		} else {
			e.event.Data = nil
			err = e.out.SendEvent(&e.event)
		}
	default:
		stamp(e.payload, number)
		e.event.Data = e.payload
		if e.out.TrySendNow(&e.event) == nil {
			return nil
		}
		err = e.out.SendEvent(&e.event)
	}
	if err != nil {
		return err
	}
	return e.out.Flush()
}

// echo sends back what came, from where it lies.
func (e *engine) echo(number uint64, payload []byte) error {
	e.event.Number, e.event.Data = number, payload
	if e.out.TrySendNow(&e.event) == nil {
		return nil
	}
	if err := e.out.SendEvent(&e.event); err != nil {
		return err
	}
	return e.out.Flush()
}

// build writes a whole payload where it will be read.
func (e *engine) build(block []byte, number uint64) {
	copy(block, e.payload)
	stamp(block, number)
}

func (e *engine) sendLoan(number uint64, fill func([]byte, uint64)) error {
	loan, err := e.out.Loan(e.Payload)
	for err == egress.ErrExhausted {
		if err := e.room(); err != nil {
			return err
		}
		loan, err = e.out.Loan(e.Payload)
	}
	if err != nil {
		return err
	}
	fill(loan.Data, number)
	return e.out.SendLoan(context.Background(), &e.event, &loan)
}

// over marks the end of the events for the other side, and wakes it if it sleeps.
func (e *engine) over(events uint64) {
	e.Arena.total().Store(events + 1)
	if e.other != nil {
		e.other.Ring()
	}
}

// verdict is the error of a run whose payloads were damaged.
func (e *engine) verdict() error {
	if e.sink.wrong != 0 {
		return damaged(e.Job, e.sink.wrong, 0, e.sink.events)
	}
	return nil
}

// openTrip is a ping-pong of events.
func openTrip(s *Side) (*Run, error) {
	e, err := openEngine(s)
	if err != nil {
		return nil, err
	}
	if s.Lead() {
		return &Run{Do: e.leadTrip}, nil
	}
	return &Run{Do: e.followTrip}, nil
}

func (e *engine) leadTrip(m *Meter) error {
	m.Trips(e.warmTrips())
	for i := uint64(1); ; i++ {
		if err := e.send(i); err != nil {
			return err
		}
		if m.Lap() {
			break
		}
		for e.sink.events != i {
			if err := e.poll(); err != nil {
				return err
			}
		}
	}
	m.End(m.Laps())
	e.over(m.Laps())
	return e.verdict()
}

func (e *engine) followTrip(m *Meter) error {
	m.Begin()
	for answered := uint64(0); ; {
		if err := e.poll(); err != nil {
			return err
		}
		if e.sink.events == answered {
			if e.Arena.total().Load() != 0 {
				break
			}
			continue
		}
		answered = e.sink.events
		if e.sink.answer != nil {
			continue // it was sent from the sink
		}
		if err := e.send(answered); err != nil {
			return err
		}
	}
	m.End(0)
	return e.verdict()
}

// openStream is events one way.
func openStream(s *Side) (*Run, error) {
	e, err := openEngine(s)
	if err != nil {
		return nil, err
	}
	if s.Lead() {
		return &Run{Do: e.leadStream}, nil
	}
	return &Run{Do: e.followStream}, nil
}

func (e *engine) leadStream(m *Meter) error {
	every := uint64(clockEvery/(1+e.Payload/256) + 1)
	e.event.Data = e.payload
	number := uint64(0)
	m.Stream(e.Arena.taken())
	for m.Tick(number) {
		for stop := number + every; number < stop; number++ {
			e.event.Number = number
			stamp(e.payload, number)
			if e.sink.tips {
				stampTips(e.payload, number)
			}
			if err := e.out.TrySend(&e.event); err != nil {
				if err = e.out.SendEvent(&e.event); err != nil {
					return err
				}
			}
		}
		e.wait.Idle(true)
	}
	if err := e.out.Flush(); err != nil {
		return err
	}
	e.over(number)
	for e.Arena.done().Load() == 0 {
		if e.Aborted() {
			return ErrAborted
		}
	}
	m.End(number)
	return nil
}

func (e *engine) followStream(m *Meter) error {
	watch := e.newWatch()
	m.Begin()
	for !e.ended(e.sink.events) {
		for {
			work, err := e.in.Poll(&e.sink)
			if err != nil {
				return err
			}
			watch.look(e.sink.events)
			e.wait.Idle(work > 0)
			if work == 0 {
				break
			}
		}
		if e.Aborted() {
			return ErrAborted
		}
	}
	m.End(e.sink.events)
	return e.verdict()
}

// openIdle is the duty cycle of two workers that send nothing.
func openIdle(s *Side) (*Run, error) {
	e, err := openEngine(s)
	if err != nil {
		return nil, err
	}
	// The garbage of earlier rows must not be collected during this one.
	runtime.GC()
	return &Run{Do: func(m *Meter) error {
		idle := func(end int64) error {
			for e.Arena.total().Load() == 0 && m.Now() < end {
				if err := e.poll(); err != nil {
					return err
				}
			}
			return nil
		}
		if err := idle(m.Now() + int64(e.Time)/5); err != nil {
			return err
		}
		m.Begin()
		end := m.Now() + int64(e.Time)
		if !e.Lead() {
			end = math.MaxInt64 // until the leading side sets it
		}
		if err := idle(end); err != nil {
			return err
		}
		m.End(0)
		if e.Lead() {
			e.over(0)
		}
		return nil
	}}, nil
}
