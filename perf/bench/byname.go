// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/disco-sim/disco/ipc"
	"github.com/disco-sim/disco/shm"
)

// The names of the jobs that measure package ipc, as a program uses it: by name, a Sender and a Receiver.
const (
	JobByNameTrip   = "ipc-trip"   // a message there, one back; each side has a Receiver
	JobByNameStream = "ipc-stream" // messages of all pairs' following sides to one Receiver, which leads
)

func byNameJobs() []Job {
	return []Job{
		{Name: JobByNameTrip, Open: openByNameTrip, Sockets: true},
		{Name: JobByNameStream, Open: openByNameStream, Sockets: true},
	}
}

// byName is one side: a Receiver, a Sender, or both.
type byName struct {
	*Side
	mode    shm.Mode
	in      *ipc.Receiver // nil: it doesn't receive
	out     *ipc.Sender   // nil: it doesn't send, or not yet
	ctx     context.Context
	cancel  context.CancelFunc
	payload []byte
	check   Check
	events  uint64               // received
	wrong   uint64               // sum of all differences
	visit   func(m *ipc.Message) // take
}

func newByName(s *Side) (*byName, error) {
	mode, err := shm.ParseMode(s.Wait)
	if err != nil {
		return nil, err
	}
	b := &byName{Side: s, mode: mode, payload: NewPayload(s.Payload)}
	b.check, b.visit = NewCheck(b.payload), b.take
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b, nil
}

// inlineDefault is the largest message that travels inside the ring, as ipc has it by default.
func inlineDefault(ring int) int { return min(4<<10, ring/8) }

func (b *byName) listen(name string) (err error) {
	const laneMax, poolMax = 64 << 20, 1 << 30 // ipc's own
	b.in, err = ipc.Listen(name, ipc.ListenConfig{
		Dir: b.Dir, Wait: b.mode, LaneBytesMax: max(laneMax, 2*b.Ring), PoolBytesMax: max(poolMax, 64*b.Payload),
	})
	return err
}

func (b *byName) dial(name string) (err error) {
	const poolDefault = 16 << 20
	inline := inlineDefault(b.Ring)
	b.out, err = ipc.Dial(b.ctx, name, ipc.DialConfig{
		Dir: b.Dir, Wait: b.mode, RingBytes: b.Ring, InlineMax: inline, NoPool: b.Payload <= inline,
		PoolBytes: max(poolDefault, 32*b.Payload),
	})
	return err
}

// close ends both connections.
func (b *byName) close() {
	b.cancel()
	if b.out != nil {
		_ = b.out.Close()
	}
	if b.in != nil {
		_ = b.in.Close()
	}
}

// run makes a run of do, which ends when the other side has closed, or the run is aborted.
func (b *byName) run(do func(m *Meter) error) *Run {
	return &Run{Close: b.close, Do: func(m *Meter) error {
		defer b.WhenAborted(b.cancel)() // wakes a side that waits
		err := do(m)
		if errors.Is(err, ipc.ErrPeerDead) || errors.Is(err, ipc.ErrNoReceiver) { // both listen before a run
			// The fleet knows how that process has ended, and is about to stop this side.
			for range 1000 {
				if b.Aborted() {
					break
				}
				time.Sleep(time.Millisecond)
			}
		}
		switch {
		case err != nil && b.Aborted():
			return ErrAborted
		case err == nil && b.wrong != 0:
			return damaged(b.Job, b.wrong, 0, b.events)
		}
		return err
	}}
}

// openByNameTrip is a ping-pong between two names.
func openByNameTrip(s *Side) (*Run, error) {
	b, err := newByName(s)
	if err != nil {
		return nil, err
	}
	if err := b.listen(fmt.Sprintf("side-%d", s.Side)); err != nil {
		b.close()
		return nil, err
	}
	if s.Lead() {
		return b.run(b.leadTrip), nil
	}
	return b.run(b.followTrip), nil
}

// receive takes one message in.
func (b *byName) receive() error {
	m, err := b.in.Receive(b.ctx)
	if err != nil {
		return err
	}
	b.take(&m)
	b.in.Release(&m)
	return nil
}

func (b *byName) take(m *ipc.Message) {
	b.events++
	b.wrong += sum(m.Data) - b.check.at(m.Number)
}

func (b *byName) send(number uint64) error {
	stamp(b.payload, number)
	return b.out.Send(b.ctx, b.payload)
}

func (b *byName) leadTrip(m *Meter) error {
	if err := b.dial("side-1"); err != nil {
		return err
	}
	m.Trips(b.warmTrips())
	for i := uint64(0); ; i++ {
		if err := b.send(i); err != nil {
			return err
		}
		if m.Lap() {
			break
		}
		if err := b.receive(); err != nil {
			return err
		}
	}
	m.End(m.Laps())
	return b.out.Close() // which ends the other side
}

func (b *byName) followTrip(m *Meter) error {
	if err := b.dial("side-0"); err != nil {
		return err
	}
	m.Begin()
	for i := uint64(0); ; i++ {
		err := b.receive()
		if err == nil {
			err = b.send(i)
		}
		if errors.Is(err, ipc.ErrClosed) {
			m.End(0)
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// openByNameStream is a Receiver that leads the first pair, and a Sender that follows in every pair.
func openByNameStream(s *Side) (*Run, error) {
	const name = "receiver"
	if s.Lead() && s.Pair > 0 {
		return &Run{Do: func(*Meter) error { return nil }}, nil
	}
	b, err := newByName(s)
	if err != nil {
		return nil, err
	}
	if !s.Lead() {
		return b.run(func(m *Meter) error { return b.sendAll(m, name) }), nil
	}
	if err := b.listen(name); err != nil {
		b.close()
		return nil, err
	}
	return b.run(b.receiveAll), nil
}

// receiveAll measures at the Receiver, where the messages of all Senders meet: Senders that share a core would each
// measure only the time in which they have it.
func (b *byName) receiveAll(m *Meter) error {
	for b.in.Stats().Joined < uint64(b.Senders) {
		if err := b.receiveSome(1); err != nil {
			return err
		}
	}
	before := b.events
	m.Stream(nil)
	for m.Tick(b.events - before) {
		if err := b.receiveSome(clockEvery); err != nil {
			return err
		}
	}
	m.End(b.events - before)
	return b.in.Close() // which ends the Senders
}

// receiveSome takes in at least n messages.
func (b *byName) receiveSome(n uint64) error {
	for stop := b.events + n; b.events < stop; {
		got, err := b.in.Poll(b.visit)
		if err == nil && got == 0 {
			err = b.in.Wait(b.ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sendAll sends until the Receiver closes.
func (b *byName) sendAll(m *Meter, name string) error {
	if err := b.dial(name); err != nil {
		return err
	}
	batch := make([][]byte, max(1, b.Batch))
	for i := range batch {
		batch[i] = NewPayload(b.Payload)
	}
	m.Begin()
	for number := uint64(0); ; {
		for _, p := range batch {
			stamp(p, number)
			number++
		}
		var err error
		if len(batch) == 1 {
			err = b.out.Send(b.ctx, batch[0])
		} else {
			_, err = b.out.SendBatch(b.ctx, batch)
		}
		if errors.Is(err, ipc.ErrClosed) {
			m.End(0)
			return nil
		}
		if err != nil {
			return err
		}
	}
}
