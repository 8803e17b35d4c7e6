// SPDX-License-Identifier: Apache-2.0

package child

import (
	"fmt"
	"math"
	"syscall"

	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/internal/machine"
	"github.com/disco-sim/disco/internal/wire"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/internal/workerproc"
	"github.com/disco-sim/disco/ring"
)

// Bounds of a packet (docs/format/child.md).
const (
	version     = 1
	headerBytes = 8
	packetMax   = 128 << 10 // the plan of 64 workers has 97 KiB
	outputMax   = 16 << 10  // bytes of a worker's output in one packet
	textMax     = 4 << 10   // bytes of a text for people
	linesMax    = 64        // lines that a worker has left behind
	lineMax     = 1 << 10   // bytes of each
	setsMax     = 64        // that there are at a time
	filesMax    = 1 + worker.WorkersMax
)

// kind is the type of a packet. The numbers are part of the format.
type kind uint8

const (
	kindHello kind = iota + 1
	kindPlan
	kindStart
	kindKill
	kindRelease
	kindClose
	kindMachines
	kindMade
	kindOutput
	kindExit
	kindLost
	kindNote
	kindFailed
)

// kinds says of each type who sends it, and how many descriptors come along.
var kinds = [...]struct {
	name        string
	byChild     bool
	least, most int // descriptors
	body        func() body
}{
	kindHello:    {"hello", false, 0, 0, func() body { return &Hello{} }},
	kindPlan:     {"plan", false, 2, filesMax, func() body { return &planBody{} }},
	kindStart:    {"start", false, 1, 3, func() body { return &startBody{} }},
	kindKill:     {"kill", false, 0, 0, func() body { return &workerBody{} }},
	kindRelease:  {"release", false, 0, 0, func() body { return &noBody{} }},
	kindClose:    {"close", false, 0, 0, func() body { return &noBody{} }},
	kindMachines: {"machines", true, 0, 0, func() body { return &Network{} }},
	kindMade:     {"made", true, 0, 0, func() body { return &textBody{} }},
	kindOutput:   {"output", true, 0, 0, func() body { return &outputBody{} }},
	kindExit:     {"exit", true, 0, 0, func() body { return &exitBody{} }},
	kindLost:     {"lost", true, 0, 0, func() body { return &lostBody{} }},
	kindNote:     {"note", true, 0, 0, func() body { return &textBody{} }},
	kindFailed:   {"failed", true, 0, 0, func() body { return &failedBody{} }},
}

// String is the type's name in messages for people.
func (k kind) String() string {
	if k == 0 || int(k) >= len(kinds) {
		return fmt.Sprintf("type %d", uint8(k))
	}
	return kinds[k].name
}

// body is what follows a packet's header.
type body interface{ fields(c *wire.Codec) }

type noBody struct{}

func (*noBody) fields(*wire.Codec) {}

type workerBody struct{ worker int }

func (b *workerBody) fields(c *wire.Codec) { workerField(c, &b.worker) }

func workerField(c *wire.Codec, w *int) {
	if c.Int(w); *w < 0 || *w >= worker.WorkersMax {
		c.Fail("found worker %d of a set, want 0 to %d", *w, worker.WorkersMax-1)
	}
}

type textBody struct{ text string }

func (b *textBody) fields(c *wire.Codec) { textField(c, &b.text) }

// textField is a text for people. The sender cuts what is too long.
func textField(c *wire.Codec, text *string) { shortField(c, text, textMax) }

func shortField(c *wire.Codec, text *string, most int) {
	if !c.Decoding() && len(*text) > most {
		cut := (*text)[:most]
		text = &cut
	}
	if c.String(text); len(*text) > most {
		c.Fail("found a text of %d bytes, want at most %d", len(*text), most)
	}
}

// Hello is the launcher's first packet.
type Hello struct {
	Workers int    // that are wanted; 0: as many as there are slots
	Run     string // its name, for people
}

func (h *Hello) fields(c *wire.Codec) {
	if c.Int(&h.Workers); h.Workers < 0 || h.Workers > worker.WorkersMax {
		c.Fail("found %d workers, want 0 to %d", h.Workers, worker.WorkersMax)
	}
	textField(c, &h.Run)
}

// Machine is one of the machines of a run.
type Machine struct {
	Name       string
	Slots      int // workers that it takes
	Processors int // threads that can run at once there
}

// Network is the machines, and what was measured between them.
type Network struct {
	Machines []Machine

	// RoundTrip (seconds) and SecondsPerByte are of each pair: [i*n+j] and [j*n+i] are the same, 0: not measured.
	RoundTrip, SecondsPerByte []float64
}

func (n *Network) fields(c *wire.Codec) {
	wire.List(c, &n.Machines, 20, func(m *Machine) {
		textField(c, &m.Name)
		c.Int(&m.Slots)
		c.Int(&m.Processors)
		if m.Name == "" || m.Slots < 1 || m.Slots > math.MaxInt32 || m.Processors < 1 || m.Processors > math.MaxInt32 {
			c.Fail("found a machine %q with %d slots and %d processors, want a name, and 1 or more of each", m.Name,
				m.Slots, m.Processors)
		}
	})
	count := len(n.Machines)
	if count < 1 || count > machine.MachinesMax {
		c.Fail("found %d machines, want 1 to %d", count, machine.MachinesMax)
	}
	for _, table := range []*[]float64{&n.RoundTrip, &n.SecondsPerByte} {
		wire.Floats(c, table)
		if len(*table) != count*count {
			c.Fail("found what was measured between %d pairs of machines, want %d", len(*table), count*count)
		}
		for _, v := range *table {
			if v < 0 {
				c.Fail("found %v s between two machines, want 0 or more", v)
			}
		}
	}
}

// planBody is a plan as package machine encodes it. The input and the boards come along.
type planBody struct{ plan []byte }

func (b *planBody) fields(c *wire.Codec) { c.Bytes(&b.plan) }

// startBody is about a worker whose end of the control stream comes along, then the files of trace and profile.
type startBody struct {
	worker, threads int
	trace, profile  bool
}

func (b *startBody) fields(c *wire.Codec) {
	workerField(c, &b.worker)
	if c.Int(&b.threads); b.threads < 0 || b.threads > math.MaxInt32 {
		c.Fail("found %d threads, want 0 (as many as processors) or more", b.threads)
	}
	c.Bool(&b.trace)
	c.Bool(&b.profile)
}

func (b *startBody) files() int {
	n := 1
	for _, more := range []bool{b.trace, b.profile} {
		if more {
			n++
		}
	}
	return n
}

type outputBody struct {
	worker int
	bytes  []byte
}

func (b *outputBody) fields(c *wire.Codec) {
	workerField(c, &b.worker)
	if c.Bytes(&b.bytes); len(b.bytes) > outputMax {
		c.Fail("found %d bytes of output, want at most %d", len(b.bytes), outputMax)
	}
}

type lostBody struct {
	machine int
	text    string
}

func (b *lostBody) fields(c *wire.Codec) {
	c.Int(&b.machine)
	textField(c, &b.text)
}

type failedBody struct {
	refused bool
	text    string
}

func (b *failedBody) fields(c *wire.Codec) {
	c.Bool(&b.refused)
	textField(c, &b.text)
}

// Lane is how the lane to a worker stood when its sender had ended.
type Lane struct {
	To     int
	Status lane.Status
}

type exitBody struct {
	worker int
	exit   workerproc.Exit
	lanes  []Lane
}

func (b *exitBody) fields(c *wire.Codec) {
	workerField(c, &b.worker)
	signal := int32(b.exit.Signal)
	c.Bool(&b.exit.OK)
	c.Int32(&signal)
	c.Bool(&b.exit.Lost)
	c.Bool(&b.exit.Ended)
	textField(c, &b.exit.Text)
	wire.List(c, &b.exit.Lines, 4, func(line *string) { shortField(c, line, lineMax) })
	wire.List(c, &b.lanes, 90, func(l *Lane) { l.fields(c) })
	b.exit.Signal = syscall.Signal(signal)
	if signal < 0 || signal > 64 || len(b.exit.Lines) > linesMax || len(b.lanes) > worker.WorkersMax {
		c.Fail("found an end by signal %d with %d lines and %d lanes, want signals 0 to 64, at most %d lines and %d "+
			"lanes", signal, len(b.exit.Lines), len(b.lanes), linesMax, worker.WorkersMax)
	}
}

func (l *Lane) fields(c *wire.Codec) {
	workerField(c, &l.To)
	epoch := math.Float64bits(l.Status.Epoch)
	c.Uint64(&epoch)
	l.Status.Epoch = math.Float64frombits(epoch)
	c.Uint32(&l.Status.Level)
	for _, r := range []*ring.Status{&l.Status.Forward, &l.Status.Return} {
		c.Int(&r.Capacity)
		c.Uint64(&r.Start)
		c.Uint64(&r.Tail)
		c.Uint64(&r.Head)
		for _, flag := range []*bool{&r.ProducerTaken, &r.ConsumerTaken, &r.ProducerClosed, &r.ConsumerClosed} {
			c.Bool(flag)
		}
	}
}
