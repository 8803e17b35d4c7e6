// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"github.com/disco-sim/disco/internal/invariants"
)

const checked = invariants.Enabled

// The trace hash. Every simproc chains the epochs, senders, numbers, headers and
// data of all it handles, in order, into 64 bits; the run's hash is made of the
// simprocs' in the order of their ids, so it doesn't depend on who ran when.

const (
	mixA = 0x9E3779B97F4A7C15 // 2^64 / golden ratio: odd, bits well spread
	mixB = 0xD1B54A32D192ED03
)

// mix folds x into h: the two halves of a 128-bit product, as in wyhash.
func mix(h, x uint64) uint64 {
	hi, lo := bits.Mul64(h^x^mixA, mixB^bits.RotateLeft64(h, 32))
	return hi ^ lo ^ h
}

// record chains the activation at hand into its simproc's hash and passes it to the tracer.
func (e *Engine) record(class int, p *Simproc) {
	h := mix(p.hash, math.Float64bits(p.now))
	for i := range e.events {
		ev := &e.events[i]
		data := uint64(0)
		if len(ev.Data) != 0 {
			data = sum(ev.Data)
		}
		if len(ev.Headers) != 0 {
			data = mix(data, xxhash.Sum64(ev.Headers))
		}
		h = mix(mix(h, uint64(ev.Sender)<<32^ev.Number), data^uint64(len(ev.Data)))
		if e.cfg.Trace != nil {
			e.cfg.Trace.Event(class, p.level(), p.id, ev, data)
		}
	}
	if e.woken {
		h = mix(h, 1)
		if e.cfg.Trace != nil {
			e.cfg.Trace.Wakeup(class, p.level(), p.id, p.now)
		}
	}
	p.hash = h
	if e.cfg.Calls != nil {
		e.cfg.Calls.add(class, p, h)
	}
	if e.cfg.Fleeting {
		e.flee()
	}
}

// Of xxHash64.
const (
	prime1 = 11400714785074694791
	prime2 = 14029467366897019727
	prime3 = 1609587929392839161
	prime4 = 9650029242287828579
	prime5 = 2870177450012600261
)

// sum is xxhash.Sum64. Most events have a few words, for which a call of that takes longer than what it does.
func sum(b []byte) uint64 {
	if len(b) > 24 || len(b)%4 != 0 {
		return xxhash.Sum64(b)
	}
	h := uint64(len(b)) + prime5
	for ; len(b) >= 8; b = b[8:] {
		h ^= bits.RotateLeft64(binary.LittleEndian.Uint64(b)*prime2, 31) * prime1
		h = bits.RotateLeft64(h, 27)*prime1 + prime4
	}
	if len(b) == 4 {
		h ^= uint64(binary.LittleEndian.Uint32(b)) * prime1
		h = bits.RotateLeft64(h, 23)*prime2 + prime3
	}
	h = (h ^ h>>33) * prime2
	h = (h ^ h>>29) * prime3
	return h ^ h>>32
}

// Hashes calls yield with the trace hash of every local simproc, by rising id.
func (e *Engine) Hashes(yield func(id SimprocID, hash uint64)) {
	e.eachSimproc(func(p *Simproc) { yield(p.id, p.hash) })
}

// checkActivation holds what must be true of every activation, in the checked build.
func (e *Engine) checkActivation(i int, p *Simproc) {
	c, key := &e.classes[i], e.key(i)
	en := e.setIn(c, p).first()
	invariants.Assert(en != nil && en.key == e.heads[i].key && en.proc == p.local,
		"node: head of class %d is %s at %v, its set begins with %+v", i, p.Name(), key, en)
	invariants.Assert(!key.Before(c.last), "node: %s at %v after its class was at %v", p.Name(), key, c.last)
	invariants.Assert(!p.begun() || key.Epoch > p.now, "node: %s called at %v after %v", p.Name(), key, p.now)
	invariants.Assert(key.Before(c.safe), "node: %s at %v, but only work before %v is safe", p.Name(), key, c.safe)
	c.last = key
}
