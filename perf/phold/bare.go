// SPDX-License-Identifier: Apache-2.0

package phold

import "math/rand/v2"

// Config is the shape of a PHOLD run.
type Config struct {
	LPs       int
	Start     int     // events that every LP begins with
	Remote    float64 // probability that an event goes to a random LP
	Lookahead float64 // seconds; the mean step is 1
	Payload   int     // bytes; the bare loop has none
}

// Bare is PHOLD as a bare loop over a 4-ary heap of (epoch, target): no model interface, no payload, no order among
// equal epochs, no hash. It is the upper limit.
type Bare struct {
	cfg  Config
	lps  []generator
	heap []item
}

// generator is all that a process of the bare loop has, in half a cache line.
type generator struct {
	rnd rand.Rand // draws from pcg
	pcg rand.PCG
}

type item struct {
	epoch  float64
	target uint32
}

// NewBare makes all LPs and their first events.
func NewBare(cfg Config) *Bare {
	b := &Bare{cfg: cfg, lps: make([]generator, cfg.LPs), heap: make([]item, 0, cfg.LPs*cfg.Start)}
	for i := range b.lps {
		g := &b.lps[i]
		g.pcg.Seed(uint64(i), 1)
		g.rnd = *rand.New(&g.pcg)
		for range cfg.Start {
			b.push(item{cfg.Lookahead + g.rnd.ExpFloat64()*(1-cfg.Lookahead), uint32(i)})
		}
	}
	return b
}

func (b *Bare) push(it item) {
	b.heap = append(b.heap, it)
	h := b.heap
	i := len(h) - 1
	for i > 0 {
		p := (i - 1) >> 2
		if h[p].epoch <= it.epoch {
			break
		}
		h[i] = h[p]
		i = p
	}
	h[i] = it
}

// Run handles n events.
func (b *Bare) Run(n int) {
	h := b.heap
	for range n {
		it := h[0]
		r := &b.lps[it.target].rnd
		to := it.target
		if r.Float64() <= b.cfg.Remote {
			to = uint32(r.IntN(b.cfg.LPs))
		}
		sink(h, item{it.epoch + b.cfg.Lookahead + r.ExpFloat64()*(1-b.cfg.Lookahead), to})
	}
}

// sink puts a new item in the place of the first one, from where it goes down.
func sink(h []item, next item) {
	i, n := 0, len(h)
	for {
		c := i<<2 + 1
		if c >= n {
			break
		}
		least := c
		for j, end := c+1, min(c+4, n); j < end; j++ {
			if h[j].epoch < h[least].epoch {
				least = j
			}
		}
		if h[least].epoch >= next.epoch {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = next
}
