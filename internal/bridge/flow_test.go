// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/ingress"
	"github.com/disco-sim/disco/internal/linktest"
	"github.com/disco-sim/disco/shm"
)

// worker is one that sends to all others and takes in from them, and sleeps on its doorbell where it has to wait. No
// wake-up may be lost for it: nobody sleeps with a limit.
type worker struct {
	m       *mesh
	self    int
	out     []*egress.Egress
	in      *ingress.Ingress
	bell    *shm.Doorbell
	sizes   func(*rand.Rand) int
	events  uint64 // to each, and from each
	got     []uint64
	bounds  []float64
	buf     []byte
	waiting bool
	armed   uint32 // token of the doorbell, while waiting
}

// sleep is longer than any test.
const sleep = time.Hour

func (m *mesh) worker(self int, events uint64, sizes func(*rand.Rand) int) *worker {
	w := &worker{m: m, self: self, bell: m.bells[self][self], sizes: sizes, events: events,
		out: make([]*egress.Egress, m.o.Workers), got: make([]uint64, m.o.Workers),
		bounds: make([]float64, m.o.Workers)}
	out, in := m.join(self, w.wait)
	for v, s := range out {
		if s != nil {
			w.out[v] = s.(sender).Egress
		}
	}
	w.in = in.(receiver).Ingress
	return w
}

var errStopped = errors.New("the test has ended")

// poll takes in what there is.
func (w *worker) poll() (bool, error) {
	n, err := w.in.Poll(w)
	return n > 0, err
}

// wait is what a send does without room: it takes in, and sleeps.
func (w *worker) wait() error {
	if w.m.stopped.Load() {
		return errStopped
	}
	if w.waiting { // the look behind the arming of the doorbell was in vain
		w.waiting = false
		if work, err := w.poll(); work || err != nil {
			w.bell.Disarm()
			return err
		}
		err := w.bell.Wait(w.armed, sleep)
		w.bell.Disarm()
		return err
	}
	for _, o := range w.out {
		if o != nil {
			if err := o.Flush(); err != nil {
				return err
			}
		}
	}
	if work, err := w.poll(); work || err != nil {
		return err
	}
	w.waiting = true
	w.armed = w.bell.Arm()
	return nil
}

func (w *worker) ReceiveEvent(peer int, ev *envelope.Event, lease uint64) error {
	n := w.got[peer]
	if ev.Number != n || int(ev.Sender) != peer || int(ev.Target) != w.self || ev.Epoch < w.bounds[peer] {
		return fmt.Errorf("%v from worker %d behind %d events and bound %v", ev, peer, n, w.bounds[peer])
	}
	if cap(w.buf) < len(ev.Data) {
		w.buf = make([]byte, len(ev.Data))
	}
	if want := w.buf[:len(ev.Data)]; !w.m.k.blind {
		linktest.Payload(want, peer, w.self, n)
		if string(want) != string(ev.Data) {
			return fmt.Errorf("%v has other data", ev)
		}
	}
	w.got[peer]++
	return w.in.Release(lease)
}

func (w *worker) ReceivePromise(int, *envelope.Promise) error { return nil }

func (w *worker) ReceiveBound(peer int, epoch float64, _ uint32) error {
	if float64(w.got[peer]) < epoch {
		return fmt.Errorf("bound %v of worker %d behind %d events", epoch, peer, w.got[peer])
	}
	w.bounds[peer] = epoch
	return nil
}

// run sends and takes in everything.
func (w *worker) run(rng *rand.Rand) error {
	var data []byte
	for n := range w.events {
		for to, o := range w.out {
			if o == nil {
				continue
			}
			size := w.sizes(rng)
			if cap(data) < size {
				data = make([]byte, size)
			}
			data = data[:size]
			if !w.m.k.blind {
				linktest.Payload(data, w.self, to, n)
			}
			ev := linktest.Event(w.self, to, n, data)
			if err := o.SendEvent(&ev); err != nil {
				return err
			}
			if rng.IntN(8) == 0 {
				if err := o.Promise(float64(n+1), 0); err != nil {
					return err
				}
			}
		}
	}
	for _, o := range w.out {
		if o != nil {
			if err := o.Promise(float64(w.events), 1); err != nil {
				return err
			}
		}
	}
	for !w.all() {
		if err := w.wait(); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) all() bool {
	for peer := range w.got {
		if peer != w.self && (w.got[peer] != w.events || w.bounds[peer] != float64(w.events)) {
			return false
		}
	}
	return true
}

// exchange runs all workers, which are woken by doorbells alone.
func exchange(t testing.TB, k kind, o linktest.Options, events uint64, sizes func(*rand.Rand) int) {
	t.Helper()
	k.park = sleep
	m := newMesh(t, k, o)
	var all sync.WaitGroup
	for self := range o.Workers {
		w := m.worker(self, events, sizes)
		rng := rand.New(rand.NewPCG(uint64(self), 1))
		all.Go(func() {
			if err := w.run(rng); err != nil {
				t.Errorf("worker %d: %v", self, err)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(4 * time.Minute):
		t.Error("nothing happens any more")
	case <-broken(m.bridges):
	}
	m.stopped.Store(true)
	for self := range o.Workers {
		m.bells[self][self].Ring()
	}
	<-done
}

// broken is closed when a bridge has failed, or ended.
func broken(all []*Bridge) chan struct{} {
	c := make(chan struct{})
	var once sync.Once
	for _, b := range all {
		go func() {
			select {
			case err := <-b.Err():
				b.errs <- err
				once.Do(func() { close(c) })
			case <-b.stop:
			}
		}()
	}
	return c
}

func small(*rand.Rand) int { return 40 }

// Pumps and workers that sleep until they are rung: with the smallest rings and windows, and in abundance.
func TestWakes(t *testing.T) {
	events := uint64(20_000)
	if testing.Short() {
		events = 1000
	}
	for name, c := range map[string]struct{ ring, window int }{
		"smallest":      {1 << 10, WindowMin},
		"small rings":   {1 << 10, 1 << 16},
		"small windows": {1 << 14, WindowMin},
		"wide":          {1 << 16, 1 << 18},
	} {
		t.Run(name, func(t *testing.T) {
			o := linktest.Options{Workers: 2, RingBytes: c.ring, InlineMax: 64, Parts: true}
			exchange(t, kind{window: c.window, dialler: pipes}, o, events, small)
		})
	}
	t.Run("sessions begun before", func(t *testing.T) {
		o := linktest.Options{Workers: 2, RingBytes: 1 << 12, InlineMax: 64, Parts: true}
		exchange(t, kind{window: WindowMin, dialler: pipes, before: true}, o, events/4, small)
	})
	t.Run("three machines", func(t *testing.T) {
		o := linktest.Options{Workers: 3, RingBytes: 1 << 12, InlineMax: 64, Parts: true}
		exchange(t, kind{window: WindowMin, dialler: pipes}, o, events/4, small)
	})
}

// Payloads of up to 1 MB: in blocks, of which there is one, in parts where there is none, and inside of long records.
func TestPayloads(t *testing.T) {
	events := uint64(40)
	if testing.Short() {
		events = 10
	}
	mixed := func(rng *rand.Rand) int {
		switch rng.IntN(4) {
		case 0:
			return rng.IntN(100)
		case 1:
			return 60_000 + rng.IntN(10_000)
		}
		return rng.IntN(1_100_000)
	}
	for name, c := range map[string]struct{ ring, window, inline, blocks, block int }{
		"smallest":          {1 << 10, WindowMin, 64, 1, 256},
		"one block":         {1 << 12, 1 << 14, 64, 1, 1 << 20},
		"no blocks":         {1 << 12, 1 << 14, 64, 0, 0},
		"wide":              {1 << 16, 1 << 20, 4096, 8, 1 << 21},
		"in long records":   {1 << 21, 1 << 16, 1_000_000, 2, 1 << 20},
		"and long parts":    {1 << 22, 1 << 16, 70_000, 0, 0},
		"and small windows": {1 << 22, WindowMin, 100_000, 1, 1 << 16},
	} {
		t.Run(name, func(t *testing.T) {
			o := linktest.Options{Workers: 2, RingBytes: c.ring, InlineMax: c.inline, Blocks: c.blocks,
				BlockBytes: c.block, Parts: true}
			sizes := mixed
			if c.ring == 1<<10 { // which would take long: each record is a part of 120 bytes
				sizes = func(rng *rand.Rand) int { return mixed(rng) / 8 }
			}
			exchange(t, kind{window: c.window, dialler: pipes}, o, events, sizes)
		})
	}
}
