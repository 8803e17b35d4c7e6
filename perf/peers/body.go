// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"encoding/binary"

	"github.com/disco-sim/disco/perf/bench"
)

// warmTrips are made before the clock starts.
const warmTrips = 200

// lastNumber in a payload of a ping-pong, and in the answer to a stream, ends it.
const lastNumber = ^uint64(0)

// size is the payload with room for its number.
func size(s *bench.Side) int { return max(8, s.Payload) }

// trip is a ping-pong of payloads, each written and read in full.
func trip(s *bench.Side, m *bench.Meter, conn stream) error {
	out, in := bench.NewPayload(size(s)), make([]byte, size(s))
	check := bench.NewCheck(out)
	send := func(number uint64) error {
		binary.LittleEndian.PutUint64(out, number)
		if err := conn.Send(out); err != nil {
			return err
		}
		return conn.Flush()
	}
	if !s.Lead() {
		m.Begin()
		for {
			if err := conn.Receive(in); err != nil {
				return err
			}
			number := binary.LittleEndian.Uint64(in)
			if number == lastNumber {
				m.End(0)
				return lastAnswer(conn, in)
			}
			if err := check.Verify(s.Job, in, number); err != nil {
				return err
			}
			if err := send(number); err != nil {
				return err
			}
		}
	}
	m.Trips(warmTrips)
	for i := uint64(1); ; i++ {
		if err := send(i); err != nil {
			return err
		}
		if err := conn.Receive(in); err != nil {
			return err
		}
		if err := check.Verify(s.Job, in, i); err != nil {
			return err
		}
		if m.Lap() {
			break
		}
	}
	m.End(m.Laps())
	if err := send(lastNumber); err != nil {
		return err
	}
	return conn.Receive(in)
}

// lastAnswer answers the last payload and waits until the leading side has received it and closed: a stream may
// drop what is still on its way when it is closed.
func lastAnswer(conn stream, last []byte) error {
	if err := conn.Send(last); err != nil {
		return err
	}
	if err := conn.Flush(); err != nil {
		return err
	}
	_ = conn.Receive(last) // it ends with an error, as it should
	return nil
}

// flow is payloads one way, flushed after each batch; the other side answers once it
// has got the last one.
func flow(s *bench.Side, m *bench.Meter, conn stream) error {
	payload := bench.NewPayload(size(s))
	if !s.Lead() {
		return follow(s, m, conn, payload)
	}
	number := uint64(0)
	m.Stream(nil)
	for m.Tick(number) {
		for range max(1, s.Batch) {
			binary.LittleEndian.PutUint64(payload, number)
			if err := conn.Send(payload); err != nil {
				return err
			}
			number++
		}
		if err := conn.Flush(); err != nil {
			return err
		}
	}
	binary.LittleEndian.PutUint64(payload, lastNumber)
	if err := conn.Send(payload); err != nil {
		return err
	}
	if err := conn.Flush(); err != nil {
		return err
	}
	if err := conn.Receive(payload); err != nil {
		return err
	}
	m.End(number)
	return nil
}

func follow(s *bench.Side, m *bench.Meter, conn stream, payload []byte) error {
	in, check := make([]byte, len(payload)), bench.NewCheck(payload)
	m.Begin()
	for got := uint64(0); ; got++ {
		if err := conn.Receive(in); err != nil {
			return err
		}
		if binary.LittleEndian.Uint64(in) == lastNumber {
			m.End(got)
			return lastAnswer(conn, in)
		}
		if err := check.Verify(s.Job, in, got); err != nil {
			return err
		}
	}
}

// pieceBytes is how much of what was sent waits at least before batches are flushed: as much as one system call writes.
const pieceBytes = bufferBytes

// batches is batches of Batch payloads one way, each sent as one, and each payload of it numbered and checked; the
// other side answers once it has got the last one.
func batches(s *bench.Side, m *bench.Meter, conn stream) error {
	one := size(s)
	batch := make([]byte, 0, one*s.Batch)
	for range s.Batch {
		batch = append(batch, bench.NewPayload(one)...)
	}
	if !s.Lead() {
		return followBatches(s, m, conn, batch, one)
	}
	number, waits := uint64(0), 0
	m.Begin()
	for end := m.Now() + int64(s.Time); m.Now() < end; {
		for at := 0; at < len(batch); at += one {
			binary.LittleEndian.PutUint64(batch[at:], number)
			number++
		}
		if err := conn.Send(batch); err != nil {
			return err
		}
		if waits += len(batch); waits >= pieceBytes {
			waits = 0
			if err := conn.Flush(); err != nil {
				return err
			}
		}
	}
	binary.LittleEndian.PutUint64(batch, lastNumber)
	if err := conn.Send(batch); err != nil {
		return err
	}
	if err := conn.Flush(); err != nil {
		return err
	}
	if err := conn.Receive(batch); err != nil {
		return err
	}
	m.End(number)
	return nil
}

func followBatches(s *bench.Side, m *bench.Meter, conn stream, batch []byte, one int) error {
	check := bench.NewCheck(batch[:one])
	m.Begin()
	for got := uint64(0); ; {
		if err := conn.Receive(batch); err != nil {
			return err
		}
		if binary.LittleEndian.Uint64(batch) == lastNumber {
			m.End(got)
			return lastAnswer(conn, batch)
		}
		for at := 0; at < len(batch); at += one {
			if err := check.Verify(s.Job, batch[at:at+one], got); err != nil {
				return err
			}
			got++
		}
	}
}
