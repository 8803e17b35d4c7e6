// SPDX-License-Identifier: Apache-2.0

package service

import "fmt"

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
		b.draws = append(b.draws, newSampler(step.Time, streamOf(h, fmt.Sprintf("endpoint/%d/step/%d", index, i))))
	}
}

// endpointLists finds the different lists of endpoints that servers have, as far as programs depend on them, and which
// one each server has.
func endpointLists(servers []Server) (of []int32, lists [][]Endpoint) {
	of = make([]int32, len(servers))
	seen := make(map[string]int32)
	var key []byte
	for i := range servers {
		endpoints := servers[i].Endpoints
		if i > 0 && len(endpoints) == len(servers[i-1].Endpoints) && &endpoints[0] == &servers[i-1].Endpoints[0] {
			of[i] = of[i-1] // members of a group
			continue
		}
		key = appendLists(key[:0], &[][]Endpoint{endpoints})
		list, ok := seen[string(key)]
		if !ok {
			list = int32(len(lists))
			seen[string(key)], lists = list, append(lists, endpoints)
		}
		of[i] = list
	}
	return of, lists
}

// makePrograms needs no host where all times are constant.
func makePrograms(endpoints []Endpoint, h host) []program {
	programs := make([]program, len(endpoints))
	for i := range endpoints {
		programs[i].fill(&endpoints[i], i, h)
	}
	return programs
}

// allConstant tells whether nothing is drawn in any endpoint.
func allConstant(endpoints []Endpoint) bool {
	for i := range endpoints {
		for _, step := range endpoints[i].Steps {
			if step.Time.Kind != Constant {
				return false
			}
		}
	}
	return true
}
