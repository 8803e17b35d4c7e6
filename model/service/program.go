// SPDX-License-Identifier: Apache-2.0

package service

import (
	"encoding/binary"
	"fmt"
	"math"
)

// program is what an endpoint does with a request: steps of one sort in a row are
// one burst, because nothing can happen between them.
type program struct {
	ram    int64 // ramUnits
	bursts []burst
}

// burst holds a core all the time (CPU) or none (I/O).
type burst struct {
	cpu   bool
	fixed float64   // seconds, the sum of the steps that are plain numbers
	draws []sampler // of the other steps
}

func (b *burst) length() float64 {
	d := b.fixed
	for i := range b.draws {
		d += b.draws[i].draw()
	}
	return d
}

// fill makes the bursts of an endpoint. Every step has its own random stream.
func (p *program) fill(e *Endpoint, index int, h host) {
	p.ram = inRAMUnits(e.RAM)
	for i, step := range e.Steps {
		if n := len(p.bursts); n == 0 || p.bursts[n-1].cpu != step.CPU {
			p.bursts = append(p.bursts, burst{cpu: step.CPU})
		}
		b := &p.bursts[len(p.bursts)-1]
		if step.Time.Kind == Constant {
			b.fixed += max(0, step.Time.Mean)
			continue
		}
		b.draws = append(b.draws, newSampler(step.Time, h.Source(fmt.Sprintf("endpoint/%d/step/%d", index, i))))
	}
}

// sharedPrograms are the programs that have nothing to draw, which nothing writes to:
// thousands of servers that are written alike have one list of them, in memory that is
// near for all. They are found by what they depend on (programKey).
type sharedPrograms map[string][]program

func newSharedPrograms(servers []Server) sharedPrograms {
	shared := make(sharedPrograms)
	var key []byte
	for i := range servers {
		var constant bool
		if key, constant = programKey(key[:0], servers[i].Endpoints); !constant {
			continue
		}
		if _, made := shared[string(key)]; !made {
			shared[string(key)] = makePrograms(servers[i].Endpoints, nil)
		}
	}
	return shared
}

// of returns the programs of a server's endpoints.
func (s sharedPrograms) of(endpoints []Endpoint, h host) []program {
	if key, constant := programKey(nil, endpoints); constant {
		return s[string(key)]
	}
	return makePrograms(endpoints, h)
}

// makePrograms needs no host where all times are constant.
func makePrograms(endpoints []Endpoint, h host) []program {
	programs := make([]program, len(endpoints))
	for i := range endpoints {
		programs[i].fill(&endpoints[i], i, h)
	}
	return programs
}

// programKey appends what the programs of endpoints depend on where all times are constant;
// where they aren't it says so.
func programKey(key []byte, endpoints []Endpoint) (_ []byte, constant bool) {
	for i := range endpoints {
		e := &endpoints[i]
		key = binary.AppendUvarint(key, uint64(len(e.Steps)))
		key = binary.LittleEndian.AppendUint64(key, math.Float64bits(e.RAM))
		for _, step := range e.Steps {
			if step.Time.Kind != Constant {
				return key, false
			}
			key = binary.LittleEndian.AppendUint64(key, math.Float64bits(step.Time.Mean))
			if step.CPU {
				key = append(key, 1)
			} else {
				key = append(key, 0)
			}
		}
	}
	return key, true
}
