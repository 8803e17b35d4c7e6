// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/binary"
	"fmt"
)

// The names of the limits: what the machine does with nothing of disco in between.
const (
	LimitFlag   = "limit-flag"   // two flags, each side waits for the other's
	LimitCopy   = "limit-copy"   // a ring of fixed slots and two indices
	LimitMemcpy = "limit-memcpy" // one side copies into mapped memory
	LimitFutex  = "limit-futex"  // each side sleeps until the other wakes it
	LimitTouch  = "limit-touch"  // two flags, and a payload that is written and read in place
	LimitCore   = "limit-core"   // one core, busy all the time
)

// warmTrips is how many round trips are made before the clock starts. Large
// payloads need fewer.
func (t *Task) warmTrips() uint64 { return uint64(max(20, 1000*4096/max(t.Payload, 4096))) }

// clockEvery is how many events go by between two looks at the clock in streams.
const clockEvery = 1024

// noFlag is the value that ends a ping-pong of flags.
const noFlag = ^uint64(0)

// limitPauses are how often a limit's reader pauses between two looks: one that looks without a pause takes the line
// away from its writer, one that pauses long is late, and which is best depends on the machine.
func limitPauses() []int { return []int{0, 1, 2} }

func limitJobs() []Job {
	return []Job{
		{Name: LimitFlag, Open: func(s *Side) (*Run, error) { return openFlag(s, nil), nil }, Pauses: limitPauses()},
		{Name: LimitTouch, Open: openTouch, Pauses: limitPauses()},
		{Name: LimitCopy, Open: openCopy, Pauses: limitPauses()},
		{Name: LimitMemcpy, Open: openMemcpy},
		{Name: LimitFutex, Open: openFutex},
	}
}

// openFlag is the bare ping-pong. between, if not nil, is what each side does with the
// payload: the leading one before it raises its flag, the following one after.
func openFlag(s *Side, between func(number uint64)) *Run {
	if s.Lead() {
		return &Run{Do: func(m *Meter) error {
			m.Trips(s.warmTrips())
			for i := uint64(1); ; i++ {
				if between != nil {
					between(i)
				}
				mine, other := s.Arena.flag(0, i), s.Arena.flag(1, i)
				storeRelease(mine, i)
				if m.Lap() {
					m.End(m.Laps())
					// The other side waits for this trip, or has answered it and waits for the next one.
					mine.Store(noFlag)
					s.Arena.flag(0, i+1).Store(noFlag)
					return nil
				}
				for other.Load() != i {
					if s.Aborted() {
						return ErrAborted
					}
					s.pause()
				}
			}
		}}
	}
	return &Run{Do: func(m *Meter) error {
		m.Begin()
		mine, other := s.Arena.flag(1, 1), s.Arena.flag(0, 1)
		for last := uint64(0); ; {
			v := other.Load()
			if v <= last {
				if s.Aborted() {
					return ErrAborted
				}
				s.pause()
				continue
			}
			if v == noFlag {
				break
			}
			if between != nil {
				between(v)
			}
			storeRelease(mine, v)
			last = v
			mine, other = s.Arena.flag(1, v+1), s.Arena.flag(0, v+1)
		}
		m.End(0)
		return nil
	}}
}

// openTouch is the bare ping-pong with a payload: the leading side writes all of it in
// place, the following one reads all of it.
func openTouch(s *Side) (*Run, error) {
	payload := NewPayload(s.Payload)
	room := s.Arena.room()
	step := roundUp(s.Payload, 128)
	var read uint64
	if s.Lead() {
		return openFlag(s, func(i uint64) {
			b := room[int(i%blocksPerPool)*step:][:s.Payload]
			copy(b, payload)
			stamp(b, i)
		}), nil
	}
	check := NewCheck(payload)
	run := openFlag(s, func(i uint64) {
		read += sum(room[int(i%blocksPerPool)*step:][:s.Payload]) - check.at(i)
	})
	do := run.Do
	run.Do = func(m *Meter) error {
		if err := do(m); err != nil {
			return err
		}
		if read != 0 {
			return damaged(s.Job, read, 0, 0)
		}
		return nil
	}
	return run, nil
}

// copyRing is the bare ring: slots of a header and a payload, two indices.
type copyRing struct {
	*Side
	slots, step uint64
	data        []byte
}

// openCopy is the bare copy loop: no checks, no variable lengths, no wrap within a
// slot, no end but a count.
func openCopy(s *Side) (*Run, error) {
	step := uint64(8 + roundUp(s.Payload, 8))
	slots := uint64(1)
	for 2*slots*step <= uint64(s.Ring) {
		slots *= 2
	}
	if slots < 2 || uint64(s.Batch) > slots {
		return nil, fmt.Errorf("batches of %d payloads of %d bytes in a ring of %d bytes: use a larger ring", s.Batch,
			s.Payload, s.Ring)
	}
	r := &copyRing{Side: s, slots: slots, step: step, data: s.Arena.room()[:slots*step]}
	if s.Lead() {
		return &Run{Do: r.write}, nil
	}
	return &Run{Do: r.read}, nil
}

func (r *copyRing) write(m *Meter) error {
	tailWord, headWord := r.Arena.tail(), r.Arena.head()
	payload, data, mask, step := NewPayload(r.Payload), r.data, r.slots-1, r.step
	header, batch := uint64(r.Payload), uint64(r.Batch)
	tail, head := uint64(0), uint64(0)
	m.Stream(r.Arena.taken())
	for m.Tick(tail) {
		for stop := tail + clockEvery; tail < stop; {
			for n := tail + batch; tail < n; tail++ {
				for tail-head == r.slots {
					storeRelease(tailWord, tail)
					if head = headWord.Load(); tail-head < r.slots {
						break
					}
					if r.Aborted() {
						return ErrAborted
					}
					r.pause()
				}
				slot := data[tail&mask*step:][:step]
				binary.LittleEndian.PutUint64(slot, header)
				stamp(payload, tail)
				copy(slot[8:], payload)
			}
			storeRelease(tailWord, tail)
		}
	}
	return r.finish(m, tail)
}

// finish publishes the number of events and waits until the reader has read them.
func (s *Side) finish(m *Meter, events uint64) error {
	s.Arena.total().Store(events + 1)
	for s.Arena.done().Load() == 0 {
		if s.Aborted() {
			return ErrAborted
		}
	}
	m.End(events)
	return nil
}

// ended reports whether a reader that has got so many events has got all. The reader calls it when there is nothing
// to read.
func (s *Side) ended(got uint64) bool {
	if total := s.Arena.total().Load(); total != got+1 {
		return false
	}
	s.Arena.done().Store(1)
	return true
}

func (r *copyRing) read(m *Meter) error {
	tailWord, headWord := r.Arena.tail(), r.Arena.head()
	data, mask, step := r.data, r.slots-1, r.step
	head, read, watch := uint64(0), uint64(0), r.newWatch()
	m.Begin()
	for {
		tail := tailWord.Load()
		if tail == head {
			if r.ended(head) {
				break
			}
			if r.Aborted() {
				return ErrAborted
			}
			r.pause()
			continue
		}
		// At most a quarter of the ring, so that both sides work at the same time.
		for tail = min(tail, head+r.slots/4+1); head < tail; head++ {
			slot := data[head&mask*step:][:step]
			read += sum(slot[8 : 8+binary.LittleEndian.Uint64(slot)])
		}
		storeRelease(headWord, head)
		watch.look(head)
	}
	m.End(head)
	if want := NewCheck(NewPayload(r.Payload)).first(head); read != want {
		return damaged(r.Job, read, want, head)
	}
	return nil
}

// openMemcpy is one side that copies into mapped memory, as many places in turn as a
// pool has blocks. The other side sleeps.
func openMemcpy(s *Side) (*Run, error) {
	if !s.Lead() {
		return &Run{Do: func(*Meter) error { return nil }}, nil
	}
	payload, step := NewPayload(s.Payload), roundUp(s.Payload, 128)
	room := s.Arena.room()
	return &Run{Do: func(m *Meter) error {
		for i := range blocksPerPool {
			copy(room[i*step:][:s.Payload], payload)
		}
		events := uint64(0)
		m.Stream(nil)
		for m.Tick(events) {
			for stop := events + uint64(clockEvery/(1+s.Payload/64)) + 1; events < stop; events++ {
				stamp(payload, events)
				copy(room[int(events%blocksPerPool)*step:][:s.Payload], payload)
			}
			if s.Aborted() {
				return ErrAborted
			}
		}
		m.End(events)
		return nil
	}}, nil
}
