// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/ingress"
	"github.com/disco-sim/disco/internal/idle"
	"github.com/disco-sim/disco/internal/linktest"
	"github.com/disco-sim/disco/internal/session"
)

// hopper is a worker without promises: it handles nothing before a jump has allowed it. An event goes on to another
// worker, at a later epoch, as often as its number says.
type hopper struct {
	m       *mesh
	self    int
	out     []*egress.Egress
	in      *ingress.Ingress
	far     *idle.Far
	rng     *rand.Rand
	pending []hop // by epoch
	at      float64
	jumps   []float64
	state   idle.State // sent, received
	handled *atomic.Int64
}

type hop struct {
	epoch float64
	left  uint64
}

func (m *mesh) hopper(self int, handled *atomic.Int64) *hopper {
	h := &hopper{m: m, self: self, handled: handled, out: make([]*egress.Egress, m.o.Workers)}
	out, in := m.join(self, func() error { return errors.New("a lane is full") })
	for v, s := range out {
		if s != nil {
			h.out[v] = s.(sender).Egress
		}
	}
	h.in = in.(receiver).Ingress
	looks := m.bells[self][min(self, 1)^1] // of the pump for the first other machine
	if self > 0 {
		looks = m.bells[self][0]
	}
	var err error
	h.far, err = idle.NewFar(m.slot(self), m.jump(self), [][]byte{m.slot(self)}, looks.Ring)
	must(m.t, err)
	return h
}

func (h *hopper) add(e hop) {
	at, _ := slices.BinarySearchFunc(h.pending, e, func(a, b hop) int {
		if a.epoch < b.epoch {
			return -1
		}
		return 1
	})
	h.pending = slices.Insert(h.pending, at, e)
}

func (h *hopper) ReceiveEvent(peer int, ev *envelope.Event, lease uint64) error {
	if ev.Epoch < h.at {
		return fmt.Errorf("%v from worker %d behind the jump to %v", ev, peer, h.at)
	}
	h.state.Received++
	h.add(hop{ev.Epoch, ev.Number})
	return h.in.Release(lease)
}

func (h *hopper) ReceivePromise(int, *envelope.Promise) error { return nil }
func (h *hopper) ReceiveBound(int, float64, uint32) error     { return nil }

// due reports whether the last jump allows the next one.
func (h *hopper) due() bool { return len(h.pending) > 0 && h.pending[0].epoch <= h.at }

// handle handles what the last jump allows.
func (h *hopper) handle() error {
	for h.due() {
		e := h.pending[0]
		h.pending = h.pending[1:]
		h.handled.Add(1)
		if e.left == 0 {
			continue
		}
		to, epoch := h.rng.IntN(h.m.o.Workers), e.epoch+1+float64(h.rng.IntN(3))
		if to == h.self {
			h.add(hop{epoch, e.left - 1})
			continue
		}
		h.state.Sent++
		ev := envelope.Event{Epoch: epoch, Number: e.left - 1, Target: uint32(to)}
		if err := h.out[to].SendEvent(&ev); err != nil {
			return err
		}
	}
	for _, o := range h.out {
		if o != nil {
			if err := o.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// run is a replication.
func (h *hopper) run(seed uint64, hops uint64) error {
	h.rng = rand.New(rand.NewPCG(seed, uint64(h.self)))
	if seed > 0 { // it is posted since the end of the one before
		h.far.Withdraw()
	}
	h.pending, h.at, h.jumps, h.state = h.pending[:0], 0, h.jumps[:0], idle.State{}
	for i := range 3 {
		h.add(hop{float64(1 + i*h.self), hops})
	}
	for {
		if _, err := h.in.Poll(h); err != nil {
			return err
		}
		if err := h.handle(); err != nil {
			return err
		}
		epoch, ok, err := h.rest()
		if err != nil {
			return err
		}
		if ok {
			h.at = epoch
			h.jumps = append(h.jumps, epoch)
			if math.IsInf(epoch, 1) {
				return nil // and stays posted
			}
		}
	}
}

// rest waits until there is a jump, or something to take in.
func (h *hopper) rest() (epoch float64, ok bool, err error) {
	h.state.Epoch = math.Inf(1)
	if len(h.pending) > 0 {
		h.state.Epoch = h.pending[0].epoch
	}
	h.far.Post(h.state)
	bell := h.m.bells[h.self][h.self]
	for {
		token := bell.Arm()
		epoch, _, ok, err = h.far.Look()
		if h.m.stopped.Load() {
			err = errStopped
		}
		if ok || err != nil || h.in.Look() {
			bell.Disarm()
			if !math.IsInf(epoch, 1) {
				h.far.Withdraw()
			}
			return epoch, ok, err
		}
		if err := bell.Wait(token, sleep); err != nil {
			return 0, false, err
		}
		bell.Disarm()
	}
}

// All machines jump to the same epochs, no event comes behind a jump, and all are handled, in each replication. Nobody
// sleeps with a limit, and connections are cut meanwhile.
func TestJumps(t *testing.T) {
	hops := uint64(100)
	if testing.Short() {
		hops = 20
	}
	for machines := 2; machines <= 3; machines++ {
		for _, cuts := range []int{0, 20} {
			t.Run(fmt.Sprint(machines, " machines, ", cuts, " cuts"), func(t *testing.T) {
				s := &scissors{rng: rand.New(rand.NewPCG(uint64(machines), 3)), left: cuts}
				k := kind{window: 1 << 14, park: sleep, dialler: func(n *network) func(way) (session.Conn, error) {
					return n.pipes(func(c session.Conn) session.Conn { return &frail{c, s, true} })
				}}
				jump(t, k, linktest.Options{Workers: machines, RingBytes: 1 << 14, InlineMax: 64, Parts: true}, hops)
			})
		}
	}
}

// jump runs three replications.
func jump(t *testing.T, k kind, o linktest.Options, hops uint64) {
	m := newMesh(t, k, o)
	var handled atomic.Int64
	var all []*hopper
	for self := range o.Workers {
		all = append(all, m.hopper(self, &handled))
	}
	for seed := range uint64(3) {
		if seed > 0 {
			m.replicate(func() {
				for _, h := range all {
					for _, out := range h.out {
						if out != nil {
							out.Reset()
						}
					}
					must(t, h.in.Reset())
				}
			})
		}
		handled.Store(0)
		var running sync.WaitGroup
		for _, h := range all {
			running.Go(func() {
				if err := h.run(seed, hops); err != nil {
					t.Errorf("worker %d: %v", h.self, err)
				}
			})
		}
		done := make(chan struct{})
		go func() {
			running.Wait()
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(4 * time.Minute):
			t.Error("nothing happens any more")
		case <-broken(m.bridges):
			t.Error("a bridge has failed")
		}
		m.stopped.Store(t.Failed())
		for _, h := range all {
			m.bells[h.self][h.self].Ring()
		}
		<-done
		if want := int64(3*o.Workers) * int64(hops+1); handled.Load() != want {
			t.Errorf("%d events were handled, want %d", handled.Load(), want)
		}
		for _, h := range all {
			if !slices.Equal(h.jumps, all[0].jumps) || len(h.jumps) < 2 {
				t.Errorf("worker %d jumps to %v, worker 0 to %v", h.self, h.jumps, all[0].jumps)
			}
		}
		if t.Failed() {
			return
		}
	}
}
