// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/disco-sim/disco/internal/bridge/stream"
	"github.com/disco-sim/disco/internal/wire"
)

// Version is that of the messages. Those of another one are refused before anything else of them is read.
const Version = 2

// Bounds of messages.
const (
	MessageBytesMax = 64 << 10 // of a whole message
	MachinesMax     = 64       // of a run, beside the launcher's
	SlotsMax        = 64       // of an agent
	NameBytesMax    = 255      // of a name, a version, an address
	TextBytesMax    = 4 << 10  // of a reason
	runsMax         = SlotsMax // at an agent at a time: each has a slot at least
	headBytes       = 8
	timeMax         = 24 * time.Hour
)

// Type is what a message is.
type Type uint32

// Types of messages; docs/format/offer.md has who sends which.
const (
	TypeOffer Type = 1 + iota
	TypeAccepted
	TypeRefused
	TypeBegin
	TypeGo
	TypeDone
	TypeQuit
	TypeContact
	TypeEnded
	TypeStatus
	TypeOrder
	TypeMeasure
	TypeMeasured
	TypeNote
	TypeKeep
	typeEnd
)

// String names the type as docs/format/offer.md does.
func (t Type) String() string {
	names := [...]string{"offer", "accepted", "refused", "begin", "go", "done", "quit", "contact", "ended", "status",
		"order", "measure", "measured", "note", "keep"}
	if t < TypeOffer || t >= typeEnd {
		return fmt.Sprintf("type %d", uint32(t))
	}
	return names[t-TypeOffer]
}

// Message is one of them: its type, and its fields, if the type has any.
type Message struct {
	Type     Type
	Offer    *Offer
	Accepted *Accepted
	Refused  *Refused
	Begin    *Begin
	Reason   *Reason // quit, ended
	Contact  *Contact
	Measure  *Measure // measure, and measured with what came of it
	Note     *Note
	Keep     *Keep
	Status   *Status
	Order    *Order
}

// Offer is a run that asks for slots.
type Offer struct {
	Disco   string // version of the launcher's program
	Cluster string
	Program [32]byte // digest
	Bridge  [32]byte // of the program that joins machines, beside the other one
	Run     [16]byte
	Token   [32]byte
	Name    string // of the run, which is shown
	Machine int    // what the agent's machine is called in the run: 0 to 63
	Slots   int    // wanted; 0: all that are free, at most Most
	Most    int    // slots that the run has use for
}

// Accepted is what an agent has reserved.
type Accepted struct {
	Name       string   // of the machine, as its agent says
	Instance   [16]byte // of the agent: another one whenever one starts
	Processors int
	Memory     int // bytes that are free for new processes
	Slots      int // reserved
	Free       int // left after that
}

// Code is why an agent has refused.
type Code uint32

// Reasons of refusals.
const (
	CodeVersion  Code = 1 + iota // another version of the messages, or of disco
	CodeCluster                  // another one
	CodeProgram                  // another build
	CodeSlots                    // not as many are free
	CodeName                     // a run with this name is here
	CodeTwice                    // this run is here already
	CodeEnding                   // the agent ends
	CodeFailed                   // the text says what has failed
	CodeMistaken                 // no message that may come here
	codeEnd
)

// Refused is why an agent takes a run not.
type Refused struct {
	Code     Code
	Text     string
	Instance [16]byte
}

// Reason is why a run ends here, or how it has ended.
type Reason struct {
	OK   bool // all was orderly
	Text string
}

// Peer is a machine of a run.
type Peer struct {
	Machine int
	Name    string
	Address string
}

// Begin lets the bridge open its sessions.
type Begin struct {
	Peers                               []Peer // by number, all machines of the run but the launcher's
	ConnectTimeout, PeerTimeout, Window time.Duration

	Compress int // the bulk and the express of all pairs: a stream.Compression
}

// Measure is what lies between a machine and one with a higher number, which it asks.
type Measure struct {
	Machine        int           // the other one
	RoundTrip      time.Duration // the least of some; 0: there was none in time
	SecondsPerByte float64       // 0: not enough came in time
}

// Note is a line of a bridge for people.
type Note struct{ Text string }

// Keep is how many of a run's slots it keeps; the others are free again.
type Keep struct{ Slots int }

// ContactState is what a bridge knows about another machine of its run.
type ContactState uint32

// States of a contact: both of its sessions are up, one has no connection now, one has come to its end; both are up,
// and on both nothing comes.
const (
	ContactUp ContactState = 1 + iota
	ContactInterrupted
	ContactLost
	ContactUnreachable
	contactEnd
)

// String names the state.
func (s ContactState) String() string {
	return [...]string{"", "connected", "interrupted", "lost", "unreachable"}[s%contactEnd]
}

// Connected reports whether both sessions are up.
func (s ContactState) Connected() bool { return s == ContactUp || s == ContactUnreachable }

// Contact is a report of a bridge about another machine of its run; -1 is the launcher's.
type Contact struct {
	Machine int
	State   ContactState
	For     time.Duration // unreachable: since something came
	Phi     float64       // unreachable: session.Silence.Phi
	Text    string        // why it is lost
}

// RunStatus is a run that an agent has.
type RunStatus struct {
	Name  string
	Run   [16]byte
	Slots int
	From  string        // where its offer came from
	For   time.Duration // since then

	Unreachable string // machines from which nothing comes now, each with how long; "": none
}

// Status is how an agent is.
type Status struct {
	Disco      string
	Cluster    string
	Name       string
	Instance   [16]byte
	Program    [32]byte
	Bridge     [32]byte
	Slots      int
	Free       int
	Processors int
	Memory     int
	Load       float64 // processes that run or want to, of the last minute
	Runs       []RunStatus
	Came, Went int64 // the agent's clock when the question came and when the answer went: ns since 1970
}

// Order is what an agent tells the process of a bridge.
type Order struct {
	Offer    Offer
	Name     string // of the machine
	TLSDir   string
	Insecure int // how often --insecure was given
}

// Append appends an encoded message.
func Append(b []byte, m *Message) ([]byte, error) {
	b = binary.LittleEndian.AppendUint32(b, Version)
	b = binary.LittleEndian.AppendUint32(b, uint32(m.Type))
	start := len(b)
	b, err := wire.Append(b, m.body)
	if err == nil && len(b)-start > MessageBytesMax-headBytes {
		err = fmt.Errorf("found %d bytes, want at most %d", len(b)-start+headBytes, MessageBytesMax)
	}
	if err != nil {
		return nil, fmt.Errorf("offer: message %v: %w", m.Type, err)
	}
	return b, nil
}

// VersionError is about a message of another version of disco.
type VersionError struct{ Found uint32 }

// Error says what to do.
func (e *VersionError) Error() string {
	return fmt.Sprintf("offer: found version %d of the messages, want %d: use one build of disco on all machines",
		e.Found, Version)
}

// Parse reads a whole message.
func Parse(b []byte) (*Message, error) {
	switch {
	case len(b) < headBytes:
		return nil, fmt.Errorf("offer: found a message of %d bytes, want at least %d", len(b), headBytes)
	case binary.LittleEndian.Uint32(b) != Version:
		return nil, &VersionError{binary.LittleEndian.Uint32(b)}
	case len(b) > MessageBytesMax:
		return nil, fmt.Errorf("offer: found a message of %d bytes, want at most %d", len(b), MessageBytesMax)
	}
	m := &Message{Type: Type(binary.LittleEndian.Uint32(b[4:]))}
	if err := wire.Decode(b[headBytes:], m.body); err != nil {
		return nil, fmt.Errorf("offer: message %v: behind its head: %w", m.Type, err)
	}
	return m, nil
}

func (m *Message) body(c *wire.Codec) {
	switch m.Type {
	case TypeOffer:
		part(c, &m.Offer, (*Offer).fields)
	case TypeAccepted:
		part(c, &m.Accepted, (*Accepted).fields)
	case TypeRefused:
		part(c, &m.Refused, (*Refused).fields)
	case TypeBegin:
		part(c, &m.Begin, (*Begin).fields)
	case TypeQuit, TypeEnded:
		part(c, &m.Reason, (*Reason).fields)
	case TypeContact:
		part(c, &m.Contact, (*Contact).fields)
	case TypeStatus:
		part(c, &m.Status, (*Status).fields)
	case TypeOrder:
		part(c, &m.Order, (*Order).fields)
	case TypeMeasure, TypeMeasured:
		part(c, &m.Measure, (*Measure).fields)
	case TypeNote:
		part(c, &m.Note, (*Note).fields)
	case TypeKeep:
		part(c, &m.Keep, (*Keep).fields)
	case TypeGo, TypeDone:
	default:
		c.Fail("found no such type, want %d to %d", TypeOffer, typeEnd-1)
	}
}

// part is the body of a type that has one.
func part[T any](c *wire.Codec, p **T, fields func(*T, *wire.Codec)) {
	if c.Decoding() {
		*p = new(T)
	}
	if *p == nil {
		c.Fail("it has no body")
		return
	}
	fields(*p, c)
}

// text is a text that can be shown, of so many bytes. It may have several lines, unless it is a name.
func text(c *wire.Codec, what string, v *string, least, most int) {
	c.String(v)
	unprintable := func(r rune) bool { return (r != '\n' || most == NameBytesMax) && !unicode.IsPrint(r) }
	switch bad := strings.IndexFunc(*v, unprintable); {
	case len(*v) < least || len(*v) > most:
		c.Fail("%s: found %d bytes, want %d to %d", what, len(*v), least, most)
	case !utf8.ValidString(*v) || bad >= 0:
		c.Fail("%s: found %.100q, want text without control characters", what, *v)
	}
}

// Text makes of any text one that a message may have: what is too long is cut, what can't be shown is replaced.
func Text(s string) string { return limited(s, TextBytesMax) }

func limited(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return '\ufffd'
		}
		return r
	}, s)
	const more = " …"
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most-len(more)], "") + more
	}
	return s
}

func name(c *wire.Codec, what string, v *string) { text(c, what, v, 1, NameBytesMax) }

// number is an integer within bounds.
func number(c *wire.Codec, what string, v *int, least, most int) {
	c.Int(v)
	if *v < least || *v > most {
		c.Fail("%s: found %d, want %d to %d", what, *v, least, most)
	}
}

// word is a number that has a type of its own.
func word[T ~uint32 | ~int64](c *wire.Codec, what string, v *T, least, most T) {
	n := int(*v)
	number(c, what, &n, int(least), int(most))
	if c.Decoding() { // what is encoded may be shared
		*v = T(n)
	}
}

// array is bytes of a fixed number.
func array(c *wire.Codec, b []byte) {
	for i := 0; i < len(b); i += 8 {
		u := binary.LittleEndian.Uint64(b[i:])
		if c.Uint64(&u); c.Decoding() {
			binary.LittleEndian.PutUint64(b[i:], u)
		}
	}
}

func (o *Offer) fields(c *wire.Codec) {
	name(c, "version of disco", &o.Disco)
	name(c, "cluster", &o.Cluster)
	array(c, o.Program[:])
	array(c, o.Bridge[:])
	array(c, o.Run[:])
	array(c, o.Token[:])
	name(c, "name of the run", &o.Name)
	number(c, "machine", &o.Machine, 0, MachinesMax-1)
	number(c, "slots", &o.Slots, 0, SlotsMax)
	number(c, "slots at most", &o.Most, 1, SlotsMax)
}

func (a *Accepted) fields(c *wire.Codec) {
	name(c, "name of the machine", &a.Name)
	array(c, a.Instance[:])
	number(c, "processors", &a.Processors, 1, 1<<20)
	number(c, "memory", &a.Memory, 0, 1<<60)
	number(c, "slots", &a.Slots, 1, SlotsMax)
	number(c, "free slots", &a.Free, 0, SlotsMax)
}

func (r *Refused) fields(c *wire.Codec) {
	word(c, "reason", &r.Code, CodeVersion, codeEnd-1)
	text(c, "text", &r.Text, 1, TextBytesMax)
	array(c, r.Instance[:])
}

func (r *Reason) fields(c *wire.Codec) {
	c.Bool(&r.OK)
	text(c, "text", &r.Text, 0, TextBytesMax)
}

func (b *Begin) fields(c *wire.Codec) {
	wire.List(c, &b.Peers, 16, func(p *Peer) {
		number(c, "machine", &p.Machine, 0, MachinesMax-1)
		name(c, "name of a machine", &p.Name)
		name(c, "address", &p.Address)
	})
	if len(b.Peers) > MachinesMax || len(b.Peers) == 0 {
		c.Fail("found %d machines, want 1 to %d", len(b.Peers), MachinesMax)
		return
	}
	for i := 1; i < len(b.Peers); i++ {
		if b.Peers[i].Machine <= b.Peers[i-1].Machine {
			c.Fail("found machine %d behind machine %d, want numbers that rise", b.Peers[i].Machine,
				b.Peers[i-1].Machine)
		}
	}
	word(c, "connect timeout", &b.ConnectTimeout, time.Millisecond, timeMax)
	word(c, "peer timeout", &b.PeerTimeout, peerTimeoutLeast, timeMax)
	word(c, "reconnect window", &b.Window, time.Millisecond, timeMax)
	number(c, "compression", &b.Compress, 0, compressMax)
}

// compressMax is the last of stream's compressions.
const compressMax = int(stream.Auto)

func (m *Measure) fields(c *wire.Codec) {
	number(c, "machine", &m.Machine, 0, MachinesMax-1)
	word(c, "round trip", &m.RoundTrip, 0, timeMax)
	if c.Float(&m.SecondsPerByte); !(m.SecondsPerByte >= 0 && m.SecondsPerByte <= 1) {
		c.Fail("seconds per byte: found %v, want 0 to 1", m.SecondsPerByte)
	}
}

func (n *Note) fields(c *wire.Codec) { text(c, "note", &n.Text, 1, TextBytesMax) }

func (k *Keep) fields(c *wire.Codec) { number(c, "slots", &k.Slots, 1, SlotsMax) }

// phiMax is far beyond what a session counts before it is cut.
const phiMax = 1e6

// peerTimeoutLeast is what a session allows.
const peerTimeoutLeast = 12 * time.Millisecond

func (l *Contact) fields(c *wire.Codec) {
	number(c, "machine", &l.Machine, -1, MachinesMax-1)
	word(c, "state", &l.State, ContactUp, contactEnd-1)
	word(c, "silence", &l.For, 0, timeMax)
	if c.Float(&l.Phi); !(l.Phi >= 0 && l.Phi <= phiMax) {
		c.Fail("phi: found %v, want 0 to %v", l.Phi, phiMax)
	}
	text(c, "text", &l.Text, 0, TextBytesMax)
}

func (s *Status) fields(c *wire.Codec) {
	name(c, "version of disco", &s.Disco)
	name(c, "cluster", &s.Cluster)
	name(c, "name of the machine", &s.Name)
	array(c, s.Instance[:])
	array(c, s.Program[:])
	array(c, s.Bridge[:])
	number(c, "slots", &s.Slots, 1, SlotsMax)
	number(c, "free slots", &s.Free, 0, SlotsMax)
	number(c, "processors", &s.Processors, 1, 1<<20)
	number(c, "memory", &s.Memory, 0, 1<<60)
	c.Float(&s.Load)
	wire.List(c, &s.Runs, 56, func(r *RunStatus) {
		name(c, "name of a run", &r.Name)
		array(c, r.Run[:])
		number(c, "slots of a run", &r.Slots, 1, SlotsMax)
		name(c, "origin of a run", &r.From)
		word(c, "time of a run", &r.For, 0, math.MaxInt64)
		text(c, "unreachable machines", &r.Unreachable, 0, NameBytesMax)
	})
	if len(s.Runs) > runsMax {
		c.Fail("found %d runs, want at most %d", len(s.Runs), runsMax)
	}
	word(c, "time of the question", &s.Came, 0, math.MaxInt64)
	word(c, "time of the answer", &s.Went, 0, math.MaxInt64)
}

func (o *Order) fields(c *wire.Codec) {
	o.Offer.fields(c)
	name(c, "name of the machine", &o.Name)
	text(c, "TLS folder", &o.TLSDir, 0, TextBytesMax)
	number(c, "insecure", &o.Insecure, 0, 2)
}
