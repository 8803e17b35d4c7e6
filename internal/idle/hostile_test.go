// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/disco-sim/disco/internal/seed"
)

// Whatever a peer writes into a worker's slot, whenever, the worker posts and withdraws
// as if nothing had happened; Check and Look say what they found, and name the slot.
func TestOverwrittenSlot(t *testing.T) {
	for what, spoil := range map[string]func(w *words){
		"turn even":     func(w *words) { store(&w.turn, 0) },
		"turn odd":      func(w *words) { store(&w.turn, 0xFFFF) },
		"turn one more": func(w *words) { store(&w.turn, load(&w.turn)+1) },
		"turn two more": func(w *words) { store(&w.turn, load(&w.turn)+2) },
		"epoch":         func(w *words) { store(&w.epoch, load(&w.epoch)-1) },
		"epoch NaN":     func(w *words) { store(&w.epoch, 0x7FF8_0000_0000_0000) },
		"level":         func(w *words) { store(&w.level, 1<<40) },
		"sent":          func(w *words) { store(&w.sent, 5) },
		"received":      func(w *words) { store(&w.received, 5) },
		"round":         func(w *words) { store(&w.round, 5) },
		"all zero":      func(w *words) { *w = words{} },
	} {
		mem, slots := slotsOf(t, 2)
		w, _ := view(mem[1])
		watch := watchOf(t, mem)
		slots[0].Post(State{Epoch: 1})
		slots[1].Post(State{Epoch: 2})
		spoil(w)
		if err := slots[1].Check(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: Check of the slot's owner: %v", what, err)
		}
		_, _, ok, err := watch.Look()
		if even := load(&w.turn)&1 == 0; ok || !even &&
			(!errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "worker 1")) {
			t.Errorf("%s: Look says %v, %v", what, ok, err)
		}
		slots[1].Withdraw() // no panic: the owner knows what it has said
		slots[1].Post(State{Epoch: 3})
		if epoch, _, ok, err := watch.Look(); epoch != 1 || !ok || err != nil || slots[1].Check() != nil {
			t.Errorf("%s: after the next post %v, %v, %v", what, epoch, ok, err)
		}
	}
}

// A peer writes random words over all slots while their workers go on: nobody panics or
// hangs, and what was overwritten at rest is found.
func TestSlotsUnderFire(t *testing.T) {
	const workers = 3
	mem, slots := slotsOf(t, workers)
	from := seed.Of(t)
	var stop atomic.Bool
	var all sync.WaitGroup
	all.Go(func() {
		rng := rand.New(rand.NewPCG(from, 9))
		for !stop.Load() {
			w, _ := view(mem[rng.IntN(workers)])
			at := []*uint64{&w.turn, &w.epoch, &w.level, &w.sent, &w.received, &w.round, &w.sum}[rng.IntN(7)]
			store(at, rng.Uint64()>>rng.IntN(64))
			runtime.Gosched()
		}
	})
	var found atomic.Int64
	var going sync.WaitGroup
	for i := range workers {
		watch := watchOf(t, mem)
		going.Go(func() {
			for n := range 2000 {
				slots[i].Post(State{Epoch: float64(n)})
				for range 5 {
					if _, _, _, err := watch.Look(); errors.Is(err, ErrCorrupt) {
						found.Add(1)
					}
					if slots[i].Check() != nil {
						found.Add(1)
					}
					runtime.Gosched()
				}
				slots[i].Withdraw()
			}
		})
	}
	going.Wait()
	stop.Store(true)
	all.Wait()
	if found.Load() == 0 {
		t.Error("nothing was ever found: the test does nothing")
	}
}
