// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/disco-sim/disco/internal/heap"
	"github.com/disco-sim/disco/node"
)

// packetBytesMax bounds a packet: longer draws count as this long.
const packetBytesMax = 1 << 20

// draw is the next packet size.
func (s *Sizes) draw(rnd *rand.Rand) uint32 {
	x := s.Mean
	switch s.Kind {
	case Exponential:
		x = rnd.ExpFloat64() * s.Mean
	case Uniform:
		x = s.Min + rnd.Float64()*(s.Max-s.Min)
	case Discrete:
		i, _ := slices.BinarySearch(s.Shares, rnd.Float64())
		x = s.Bytes[min(i, len(s.Bytes)-1)]
	}
	return uint32(min(max(1, math.Round(x)), packetBytesMax))
}

// never is later than every time of a run.
var never = math.Inf(1)

// source makes the packets of all flows that begin at one node. Every flow has a
// random stream of its own, so that one flow never shifts what another draws.
type source struct {
	flows []sourceFlow
	next  heap.Heap[int32] // indices in flows, by the time of their next packet
}

type sourceFlow struct {
	id     uint32 // index in Spec.Flows
	rnd    *rand.Rand
	gap    float64 // mean seconds between packets
	from   float64 // of a constant flow: its first packet
	sent   int64
	before int64       // of them before the end of the warm-up
	src    rand.Source // of rnd
}

// regular is when the next packet of a constant flow comes: not the last time plus the gap, because rounding would add
// up.
func (f *sourceFlow) regular() float64 { return f.from + float64(f.sent)*f.gap }

// newSource makes the source of the given flows. stream gives the node's streams.
func newSource(m *maker, flows []flowStart, stream func(name string) rand.Source) *source {
	src := &source{next: heap.New(func(a, b int32) bool { return a < b })}
	for i, start := range flows {
		end := m.spec.Topology.Nodes[m.endOf(start.id)].Name
		f := sourceFlow{id: start.id, gap: 1 / start.rate, src: stream(fmt.Sprintf("flow/%d/%s", start.id, end))}
		f.rnd = rand.New(f.src)
		if m.spec.Arrivals == Constant {
			f.from = f.rnd.Float64() * f.gap
		} else {
			f.from = f.rnd.ExpFloat64() * f.gap
		}
		src.flows = append(src.flows, f)
		src.next.Push(f.from, int32(i))
	}
	return src
}

// at is when the next packet comes, never where there are no flows.
func (s *source) at() float64 {
	if s.next.Len() == 0 {
		return never
	}
	return s.next.First().Key
}

// make makes the packet that is due.
func (s *source) make(spec *Spec) packet {
	b := s.next.First()
	f := &s.flows[b.Value]
	f.sent++
	pkt := packet{flow: f.id, bytes: spec.Sizes.draw(f.rnd)}
	if spec.Arrivals == Constant {
		s.next.Fix(0, f.regular())
	} else {
		s.next.Fix(0, b.Key+f.rnd.ExpFloat64()*f.gap)
	}
	return pkt
}

// packet is what travels from router to router.
type packet struct {
	delay float64 // seconds since its birth, in parts that add up without rounding
	flow  uint32  // index in Spec.Flows
	bytes uint32
	input uint32 // index in Topology.In of the router that gets it
	hops  uint32
}

// packetBytes is the size of an encoded packet: delay, flow, bytes, input and hops in
// this order, little endian.
const packetBytes = 24

func (p *packet) put(dst *[packetBytes]byte) {
	le.PutUint64(dst[0:], math.Float64bits(p.delay))
	le.PutUint32(dst[8:], p.flow)
	le.PutUint32(dst[12:], p.bytes)
	le.PutUint32(dst[16:], p.input)
	le.PutUint32(dst[20:], p.hops)
}

// get reads a packet that another router sent. Anything else is our own defect.
func (p *packet) get(ev *node.Event) {
	if len(ev.Data) != packetBytes {
		panic(fmt.Sprintf("network: an event of %d bytes from simproc %d at %v, want a packet of %d", len(ev.Data),
			ev.Sender, ev.Epoch, packetBytes))
	}
	p.delay = math.Float64frombits(le.Uint64(ev.Data[0:]))
	p.flow = le.Uint32(ev.Data[8:])
	p.bytes = le.Uint32(ev.Data[12:])
	p.input = le.Uint32(ev.Data[16:])
	p.hops = le.Uint32(ev.Data[20:])
}
