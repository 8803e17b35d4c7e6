// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"errors"
	"testing"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/aligned"
	"github.com/disco-sim/disco/internal/lane"
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
	out    *egress.Egress
	in     *Ingress
	sender *lane.Sender
	pool   *shm.Pool
	mem    []byte // the lane
	body   []byte // the pool
	view   *shm.PoolView
	bell   *shm.Doorbell
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
	size, err := lane.Size(s.lane)
	must(t, err)
	w.mem = aligned.Bytes(size, lane.Alignment)
	must(t, lane.Format(w.mem, s.lane))
	if s.blocks != nil {
		size, err := shm.PoolBytes(s.blocks)
		must(t, err)
		body := aligned.Bytes(size, 128)
		w.body = body
		must(t, shm.FormatPool(body, s.blocks))
		w.pool, err = shm.NewPool(body)
		must(t, err)
		w.view, err = shm.OpenPoolView(body)
		must(t, err)
	}
	if s.bell {
		w.bell, err = shm.OpenDoorbell(aligned.Bytes(shm.DoorbellBytes, shm.DoorbellBytes))
		must(t, err)
	}
	if s.wait == nil {
		s.wait = func() error { return errors.New("there is no room, and nobody who makes some") }
	}
	w.sender, err = lane.OpenSender(w.mem)
	must(t, err)
	if !s.noEgress {
		w.out, err = egress.New(egress.Config{Peer: 1, Lane: w.sender, Pool: w.pool, Bell: w.bell, InlineMax: s.inline, PublishRecords: s.publish, Wait: s.wait})
		must(t, err)
	}
	receiver, err := lane.OpenReceiver(w.mem)
	must(t, err)
	w.in, err = New(Config{Lanes: []Source{{Peer: 0, Receiver: receiver, View: w.view, Parts: s.parts, Bell: w.bell}}, RecordsMax: s.records})
	must(t, err)
	return w
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
