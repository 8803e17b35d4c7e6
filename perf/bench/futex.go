// SPDX-License-Identifier: Apache-2.0

package bench

import "time"

// futexLimit is how long a sleep lasts at most, so that an abort is seen.
const futexLimit = 50 * time.Millisecond

// warmWakes are made before the clock starts.
const warmWakes = 20

// noFutex is the value that ends a futex ping-pong.
const noFutex = ^uint32(0)

// openFutex is the raw futex ping-pong: each side stores a number, wakes the other one
// and sleeps until that one has stored the same.
func openFutex(s *Side) (*Run, error) {
	if !s.Lead() {
		return &Run{Do: s.futexFollow}, nil
	}
	return &Run{Do: s.futexLead}, nil
}

func (s *Side) futexLead(m *Meter) error {
	mine, other := s.Arena.futex(0), s.Arena.futex(1)
	m.Trips(warmWakes)
	for i := uint32(1); ; i++ {
		mine.Store(i)
		futexWake(mine)
		for other.Load() != i {
			futexWait(other, i-1, futexLimit)
			if s.Aborted() {
				return ErrAborted
			}
		}
		if m.Lap() {
			break
		}
	}
	m.End(m.Laps())
	mine.Store(noFutex)
	futexWake(mine)
	return nil
}

func (s *Side) futexFollow(m *Meter) error {
	mine, other := s.Arena.futex(1), s.Arena.futex(0)
	m.Begin()
	for last := uint32(0); ; {
		v := other.Load()
		if v == last {
			futexWait(other, last, futexLimit)
			if s.Aborted() {
				return ErrAborted
			}
			continue
		}
		if v == noFutex {
			break
		}
		last = v
		mine.Store(v)
		futexWake(mine)
	}
	m.End(0)
	return nil
}
