// SPDX-License-Identifier: Apache-2.0

package child

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"syscall"
	"time"

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
	OutputMax   = 16 << 10  // bytes of a worker's output in one packet
	textMax     = 4 << 10   // bytes of a text for people
	linesMax    = 64        // lines that a worker has left behind
	lineMax     = 1 << 10   // bytes of each
	SetsMax     = 64        // that there are at a time
	filesMax    = 1 + worker.WorkersMax
)

// Kind is the type of a packet. The numbers are part of the format.
type Kind uint8

// The types that there are; docs/format/child.md.
const (
	KindHello Kind = iota + 1
	KindPlan
	KindStart
	KindKill
	KindRelease
	KindClose
	KindMachines
	KindMade
	KindOutput
	KindExit
	KindLost
	KindNote
	KindFailed
	KindKeep
	KindAway
)

// kinds says of each type who sends it, and how many descriptors come along.
var kinds = [...]struct {
	name        string
	byChild     bool
	least, most int // descriptors
	body        func() Body
}{
	KindHello:    {"hello", false, 0, 0, func() Body { return &Hello{} }},
	KindPlan:     {"plan", false, 2, filesMax, func() Body { return &PlanBody{} }},
	KindStart:    {"start", false, 1, 5, func() Body { return &StartBody{} }},
	KindKill:     {"kill", false, 0, 0, func() Body { return &WorkerBody{} }},
	KindRelease:  {"release", false, 0, 0, func() Body { return &NoBody{} }},
	KindClose:    {"close", false, 0, 0, func() Body { return &NoBody{} }},
	KindMachines: {"machines", true, 0, 0, func() Body { return &Network{} }},
	KindMade:     {"made", true, 0, 0, func() Body { return &TextBody{} }},
	KindOutput:   {"output", true, 0, 0, func() Body { return &OutputBody{} }},
	KindExit:     {"exit", true, 0, 0, func() Body { return &ExitBody{} }},
	KindLost:     {"lost", true, 0, 0, func() Body { return &LostBody{} }},
	KindNote:     {"note", true, 0, 0, func() Body { return &TextBody{} }},
	KindFailed:   {"failed", true, 0, 0, func() Body { return &FailedBody{} }},
	KindKeep:     {"keep", false, 0, 0, func() Body { return &KeepBody{} }},
	KindAway:     {"away", true, 0, 0, func() Body { return &AwayBody{} }},
}

// String is the type's name in messages for people.
func (k Kind) String() string {
	if k == 0 || int(k) >= len(kinds) {
		return fmt.Sprintf("type %d", uint8(k))
	}
	return kinds[k].name
}

// Body is what follows a packet's header: one of the types below, by pointer.
type Body interface{ fields(c *wire.Codec) }

// Packet is what a packet says, without the descriptors that come along.
type Packet struct {
	Kind Kind
	Set  int
	Body Body // parts of it may be those of the bytes that it was read from
}

// Append appends a packet, as it travels, to b.
func (p *Packet) Append(b []byte) ([]byte, error) {
	b = append(b, version, byte(p.Kind), 0, 0)
	b, err := wire.Append(binary.LittleEndian.AppendUint32(b, uint32(p.Set)), p.Body.fields)
	if err != nil {
		return nil, fmt.Errorf("child: %v: %w", p.Kind, err)
	}
	return b, nil
}

// Parse reads a packet that is the whole of b, and takes any bytes.
func (p *Packet) Parse(b []byte) error {
	if len(b) < headerBytes || b[0] != version || b[2] != 0 || b[3] != 0 {
		return fmt.Errorf("found the header %x, want %d bytes: version %d, type, 0, 0, set",
			b[:min(len(b), headerBytes)], headerBytes, version)
	}
	p.Kind, p.Set = Kind(b[1]), int(binary.LittleEndian.Uint32(b[4:]))
	if p.Kind == 0 || int(p.Kind) >= len(kinds) {
		return fmt.Errorf("found %v, want %d to %d", p.Kind, KindHello, len(kinds)-1)
	}
	p.Body = kinds[p.Kind].body()
	if err := wire.Decode(b[headerBytes:], p.Body.fields); err != nil {
		return fmt.Errorf("%v: %w", p.Kind, err)
	}
	return nil
}

// NoBody is that of a type without fields.
type NoBody struct{}

func (*NoBody) fields(*wire.Codec) {}

// WorkerBody names a worker of the set.
type WorkerBody struct{ Worker int }

func (b *WorkerBody) fields(c *wire.Codec) { workerField(c, &b.Worker) }

func workerField(c *wire.Codec, w *int) {
	if c.Int(w); *w < 0 || *w >= worker.WorkersMax {
		c.Fail("found worker %d of a set, want 0 to %d", *w, worker.WorkersMax-1)
	}
}

// TextBody is a text for people. One of more than 4 KiB is cut when it is sent.
type TextBody struct{ Text string }

func (b *TextBody) fields(c *wire.Codec) { textField(c, &b.Text) }

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

	// Silence is how long nothing may come from a machine until Away says so.
	Silence time.Duration
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
	if c.Int64((*int64)(&n.Silence)); n.Silence < 0 || n.Silence > silenceMax {
		c.Fail("found a silence of %v, want 0 to %v", n.Silence, silenceMax)
	}
}

// silenceMax is the longest that Network.Silence may be.
const silenceMax = 24 * time.Hour

// AwayBody says whether machines that take part are cut off from others, or silent.
type AwayBody struct{ Away bool }

func (b *AwayBody) fields(c *wire.Codec) { c.Bool(&b.Away) }

// KeepBody is how many slots of each machine are used from the next plan on.
type KeepBody struct{ Slots []int }

func (b *KeepBody) fields(c *wire.Codec) {
	wire.List(c, &b.Slots, 8, func(n *int) {
		if c.Int(n); *n < 0 || *n > worker.WorkersMax {
			c.Fail("found %d slots, want 0 to %d", *n, worker.WorkersMax)
		}
	})
	if len(b.Slots) > machine.MachinesMax {
		c.Fail("found the slots of %d machines, want at most %d", len(b.Slots), machine.MachinesMax)
	}
}

// PlanBody is a plan as package machine encodes it. The input and the boards come along.
type PlanBody struct{ Plan []byte }

func (b *PlanBody) fields(c *wire.Codec) { c.Bytes(&b.Plan) }

// StartBody is about a worker whose end of the control stream comes along, then the files of trace and profile, and the
// two of checkpoints (worker.Files).
type StartBody struct {
	Worker, Threads       int
	Trace, Profile, Saves bool
}

func (b *StartBody) fields(c *wire.Codec) {
	workerField(c, &b.Worker)
	if c.Int(&b.Threads); b.Threads < 0 || b.Threads > math.MaxInt32 {
		c.Fail("found %d threads, want 0 (as many as processors) or more", b.Threads)
	}
	c.Bool(&b.Trace)
	c.Bool(&b.Profile)
	c.Bool(&b.Saves)
}

func (b *StartBody) files() int {
	n := 1
	for _, more := range []bool{b.Trace, b.Profile, b.Saves, b.Saves} {
		if more {
			n++
		}
	}
	return n
}

// OutputBody is what a worker has written to its standard output and error: at most OutputMax bytes.
type OutputBody struct {
	Worker int
	Bytes  []byte
}

func (b *OutputBody) fields(c *wire.Codec) {
	workerField(c, &b.Worker)
	if c.Bytes(&b.Bytes); len(b.Bytes) > OutputMax {
		c.Fail("found %d bytes of output, want at most %d", len(b.Bytes), OutputMax)
	}
}

// LostBody is about a machine that can't be reached any more.
type LostBody struct {
	Machine int
	Text    string
}

func (b *LostBody) fields(c *wire.Codec) {
	c.Int(&b.Machine)
	textField(c, &b.Text)
}

// FailedBody is the end of the run. Refused: the caller can avoid it.
type FailedBody struct {
	Refused bool
	Text    string
}

// NewFailed is that for an error, which Refuse may have marked.
func NewFailed(err error) *FailedBody {
	refused := (*refusal)(nil)
	if errors.As(err, &refused) {
		err = refused
	}
	return &FailedBody{refused != nil, err.Error()}
}

// Err is the error, marked as it was.
func (b *FailedBody) Err() error {
	err := errors.New(b.Text)
	if b.Refused {
		return Refuse(err)
	}
	return err
}

func (b *FailedBody) fields(c *wire.Codec) {
	c.Bool(&b.Refused)
	textField(c, &b.Text)
}

// Lane is how the lane to a worker stood when its sender had ended.
type Lane struct {
	To     int
	Status lane.Status
}

// ExitBody is the end of a worker, with the lanes from it to its peers as they stood then, if it has ended badly.
type ExitBody struct {
	Worker int
	Exit   workerproc.Exit
	Lanes  []Lane
}

// NewExit is that of a worker, with as many lines as a packet may have.
func NewExit(worker int, exit workerproc.Exit, lanes []Lane) *ExitBody {
	exit.Lines = exit.Lines[:min(len(exit.Lines), linesMax)]
	return &ExitBody{worker, exit, lanes}
}

func (b *ExitBody) fields(c *wire.Codec) {
	workerField(c, &b.Worker)
	signal := int32(b.Exit.Signal)
	c.Bool(&b.Exit.OK)
	c.Int32(&signal)
	c.Bool(&b.Exit.Lost)
	c.Bool(&b.Exit.Ended)
	textField(c, &b.Exit.Text)
	wire.List(c, &b.Exit.Lines, 4, func(line *string) { shortField(c, line, lineMax) })
	wire.List(c, &b.Lanes, 90, func(l *Lane) { l.fields(c) })
	b.Exit.Signal = syscall.Signal(signal)
	if signal < 0 || signal > 64 || len(b.Exit.Lines) > linesMax || len(b.Lanes) > worker.WorkersMax {
		c.Fail("found an end by signal %d with %d lines and %d lanes, want signals 0 to 64, at most %d lines and %d "+
			"lanes", signal, len(b.Exit.Lines), len(b.Lanes), linesMax, worker.WorkersMax)
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
