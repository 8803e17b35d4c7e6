// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"errors"
	"testing"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/aligned"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/ring"
	"github.com/disco-sim/disco/shm"
)

// setup is one lane from worker 0 on heap memory: its two ends, the pool, and the
// bytes.
type setup struct {
	lane     lane.Config
	blocks   []shm.BlockSize // of the pool; none: no pool
	bell     bool
	inline   int
	records  int // Config.RecordsMax
	publish  int // egress.Config.PublishRecords
	wait     func() error
	parts    bool
	noEgress bool // sender stays free for the test
}

type way struct {
	out  *egress.Egress // nil: the test has the lane's sending end
	in   *Ingress
	ring *ring.Producer // of the lane, by which records go that no egress sends
	pool *shm.Pool
	mem  []byte // the lane
	body []byte // the pool
	bell *shm.Doorbell
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s setup) open(t testing.TB) *way {
	t.Helper()
	w := &way{}
	for _, c := range s.blocks {
		s.lane.ReturnBlocks += c.Count
	}
	var err error
	w.mem = empty(t, s.lane)
	if s.blocks != nil {
		size, err := shm.PoolBytes(s.blocks)
		must(t, err)
		body := aligned.Bytes(size, 128)
		w.body = body
		must(t, shm.FormatPool(body, s.blocks))
		w.pool, err = shm.NewPool(body)
		must(t, err)
	}
	if s.bell {
		w.bell, err = shm.OpenDoorbell(aligned.Bytes(shm.DoorbellBytes, shm.DoorbellBytes))
		must(t, err)
	}
	if s.wait == nil {
		s.wait = func() error { return errors.New("there is no room, and nobody who makes some") }
	}
	if s.noEgress {
		w.ring = producer(t, w.mem)
	} else {
		w.out, err = egress.New(egress.Config{
			Peer: 1, Lane: w.mem, Pool: w.pool, Bell: w.bell,
			InlineMax: s.inline, PublishRecords: s.publish, Wait: s.wait,
		})
		must(t, err)
		w.ring = w.out.Ring()
	}
	from := Source{Peer: 0, Lane: w.mem, Pool: w.body, Parts: s.parts, Bell: w.bell}
	w.in, err = New(Config{Lanes: []Source{from}, RecordsMax: s.records})
	must(t, err)
	return w
}

// producer takes the sending end of a lane, of which a test needs the ring only.
func producer(t testing.TB, mem []byte) *ring.Producer {
	t.Helper()
	s, err := lane.OpenSender(mem)
	must(t, err)
	return s.Forward()
}

// sink counts what comes and keeps the last of each.
type sink struct {
	events, promises, bounds int
	event                    envelope.Event
	data                     []byte // a copy of the last event's
	lease                    uint64
	promise                  envelope.Promise
	epoch                    float64
	level                    uint32

	err  error // returned for everything
	onto func(ev *envelope.Event, lease uint64) error
}

func (s *sink) ReceiveEvent(peer int, ev *envelope.Event, lease uint64) error {
	s.events++
	s.event, s.lease = *ev, lease
	s.data = append(s.data[:0], ev.Data...)
	if s.onto != nil {
		return s.onto(ev, lease)
	}
	return s.err
}

func (s *sink) ReceivePromise(peer int, p *envelope.Promise) error {
	s.promises++
	s.promise = *p
	return s.err
}

func (s *sink) ReceiveBound(peer int, epoch float64, level uint32) error {
	s.bounds++
	s.epoch, s.level = epoch, level
	return s.err
}
