// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/spans"
	"github.com/disco-sim/disco/internal/wire"
	"github.com/disco-sim/disco/node"
)

// A frame is a header and a body: docs/format/control.md.
const (
	frameHeaderBytes = 8
	frameVersion     = 1

	// MessageMax bounds the body of one frame: 1 GiB, the results of a very large scenario.
	MessageMax = 1 << 30
)

// WriteMessage writes one frame.
func WriteMessage(w io.Writer, m *Message) error {
	_, err := writeMessage(w, m, nil)
	return err
}

// writeMessage writes one frame, made in memory, or in more than that: the memory for the next one.
func writeMessage(w io.Writer, m *Message, memory []byte) ([]byte, error) {
	var head [frameHeaderBytes]byte
	frame := append(slices.Grow(memory[:0], 256+m.Results.bytes()), head[:]...)
	frame, err := wire.Append(frame, m.body)
	if err != nil {
		return nil, fmt.Errorf("worker: message %v: %w", m.Type, err)
	}
	n := len(frame) - frameHeaderBytes
	if n > MessageMax {
		return nil, fmt.Errorf("worker: message %v of %d bytes, at most %d are allowed", m.Type, n, MessageMax)
	}
	binary.LittleEndian.PutUint32(frame, uint32(n))
	frame[4], frame[5] = frameVersion, byte(m.Type)
	_, err = w.Write(frame)
	return frame, err
}

// HeadBytes is what stands in front of a message's body, for who passes messages on without reading them.
const HeadBytes = frameHeaderBytes

// ParseHead reads it: the type, which may be none that there is, and the bytes of the body.
func ParseHead(head []byte) (t MessageType, size int, err error) {
	n := binary.LittleEndian.Uint32(head)
	if head[4] != frameVersion {
		return 0, 0, fmt.Errorf("worker: frame of version %d, want %d: launcher and workers must be the same program",
			head[4], frameVersion)
	}
	if n > MessageMax {
		return 0, 0, fmt.Errorf("worker: frame of %d bytes, want at most %d", n, MessageMax)
	}
	if zero := binary.LittleEndian.Uint16(head[6:]); zero != 0 {
		return 0, 0, fmt.Errorf("worker: frame with %d in its spare bytes, want 0", zero)
	}
	return MessageType(head[5]), int(n), nil
}

// frameStep is how much memory a frame gets before any of it has come: at least what Results take.
const frameStep = 2 * resultsBytes

// ReadMessage reads one frame. io.EOF, unwrapped, means that the other side has
// closed the stream between two frames.
func ReadMessage(r io.Reader) (*Message, error) {
	var head [frameHeaderBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	t, n, err := ParseHead(head[:])
	if err != nil {
		return nil, err
	}
	// Memory is taken as the bytes come: a header that promises a gigabyte costs nothing.
	m := &Message{Type: t}
	body := m.frameMemory(min(n, frameStep))
	for have := 0; ; {
		if _, err := io.ReadFull(r, body[have:]); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("worker: frame of %d bytes was cut short: %w", n, err)
		}
		if have = len(body); have == n {
			break
		}
		body = append(make([]byte, 0, min(n, 2*have)), body...)
		body = body[:cap(body):cap(body)]
	}
	if m.Results != nil {
		m.Results.frame = body
	}
	if err := wire.Decode(body, m.body); err != nil {
		return nil, fmt.Errorf("worker: frame of %d bytes, message %v: %w", n, m.Type, err)
	}
	return m, nil
}

// frameMemory is n bytes for the body of m, which has its type: those of Results that were released.
func (m *Message) frameMemory(n int) []byte {
	if m.Type != TypeResults {
		return make([]byte, n)
	}
	m.Results = unused.Get().(*Results)
	if cap(m.Results.frame) < n {
		return make([]byte, n, max(n, resultsBytes+resultsBytes/8))
	}
	return m.Results.frame[:n]
}

// body is the fields behind the header, by type.
func (m *Message) body(c *wire.Codec) {
	switch m.Type {
	case TypeSetup:
		part(c, &m.Setup, (*Setup).fields)
	case TypePrepare:
		part(c, &m.Prepare, (*Prepare).fields)
	case TypeLeg:
		part(c, &m.Leg, (*Leg).fields)
	case TypeSaved:
		part(c, &m.Saved, (*Saved).fields)
	case TypeStopped:
		part(c, &m.Stopped, (*Stopped).fields)
	case TypeLimit:
		part(c, &m.Limit, (*Limit).fields)
	case TypeResults:
		part(c, &m.Results, (*Results).fields)
	case TypeDone:
		part(c, &m.Done, (*Done).fields)
	case TypeStatus:
		part(c, &m.Status, (*Status).fields)
	case TypeFailed:
		part(c, &m.Failed, (*Failed).fields)
	case TypeSave:
		part(c, &m.Save, (*Save).fields)
	case TypeStored:
		part(c, &m.Stored, (*Stored).fields)
	case TypeExternal:
		part(c, &m.External, (*External).fields)
	case TypeRecorded:
		part(c, &m.Recorded, (*Recorded).fields)
	case TypeMove:
		part(c, &m.Move, (*Move).fields)
	case TypeMoved:
		part(c, &m.Moved, (*Moved).fields)
	case TypeLoad:
		part(c, &m.Load, (*Load).fields)
	case TypeReported:
		part(c, &m.Reported, (*Reported).fields)
	case TypeSpans:
		part(c, &m.Spans, (*spans.Report).Fields)
	case TypeGo, TypeStop, TypeAsk, TypeExit, TypeReady, TypeReport:
	default:
		c.Fail("found no such type, want %d to %d", TypeSetup, TypeSpans)
	}
}

// part is the body of a type that has one.
func part[T any](c *wire.Codec, p **T, fields func(*T, *wire.Codec)) {
	if c.Decoding() && *p == nil {
		*p = new(T)
	}
	if *p == nil {
		c.Fail("it has no body")
		return
	}
	fields(*p, c)
}

func (s *Setup) fields(c *wire.Codec) {
	c.Int(&s.Worker)
	c.Int(&s.Workers)
	c.Int(&s.First)
	c.Float(&s.Horizon)
	c.Bool(&s.Series)
	c.Bool(&s.Records)
	c.Uint64(&s.Seed)
	s.Tuning.Fields(c)
	wire.List(c, &s.Pools, 4, c.Int32)
	for _, lanes := range []*[]LaneSize{&s.Out, &s.In} {
		wire.List(c, lanes, 12, func(l *LaneSize) {
			c.Int32(&l.Peer)
			c.Int(&l.RingBytes)
		})
	}
	c.String(&s.Trace)
	s.Journal.fields(c)
	c.Bool(&s.Calls)
	c.Bool(&s.Whole)
	c.Int(&s.GroupNodes)
	c.String(&s.Run)
	c.Bool(&s.Spans)
	c.Bool(&s.OneProcess)
	c.Bool(&s.Crowded)
	wire.List(c, &s.Machine, 4, c.Int32)
	c.Float(&s.Delay)
	wire.Uint32s(c, &s.Shards)
	c.Float(&s.ShardsHalf)
	c.Int64(&s.HeapBytes)
}

func (j *Journal) fields(c *wire.Codec) {
	c.Bool(&j.On)
	c.Bool(&j.Fleeting)
	c.Bool(&j.Eager)
	c.Bool(&j.Sends)
	for _, id := range []*node.SimprocID{&j.First, &j.End} {
		n := uint32(*id)
		c.Uint32(&n)
		if c.Decoding() { // what is encoded may be shared by several connections
			*id = node.SimprocID(n)
		}
	}
	c.Float(&j.From)
	c.Float(&j.Until)
}

// Fields are the fields of t, in the order of docs/format/control.md.
func (t *Tuning) Fields(c *wire.Codec) {
	c.Int(&t.RingBytes)
	c.Int(&t.AllRingBytes)
	c.Int(&t.InlineMax)
	c.Int(&t.PoolBytes)
	c.Int(&t.BatchMax)
	c.String(&t.Ingress)
	c.String(&t.Sync)
	c.String(&t.Wait)
	c.Bool(&t.Pin)
	c.Bool(&t.HugePages)
	c.Int64(&t.Resident)
}

// Restores reports whether the body of a TypePrepare, of which b is the first bytes, has Restore: for who passes
// messages on.
func Restores(b []byte) bool {
	const at = 16
	return len(b) > at && b[at] == 1
}

// BeginsAnew reports whether a worker begins its lanes anew with a message of type t, of whose body b is the first
// bytes: with a TypePrepare, and with a TypeLeg that has Moved. Who joins lanes has to do so before.
func BeginsAnew(t MessageType, b []byte) bool {
	const at = 8
	return t == TypePrepare || t == TypeLeg && len(b) > at && b[at] == 1
}

func (p *Prepare) fields(c *wire.Codec) {
	c.Int(&p.Replication)
	c.Float(&p.Until)
	c.Bool(&p.Restore)
	c.Bool(&p.Varied)
	c.Bool(&p.Variant)
	c.Float(&p.Epoch)
	c.Bool(&p.Look)
	c.Bool(&p.Keep)
	c.Int64(&p.Room)
}

func (r *Reported) fields(c *wire.Codec) { c.String(&r.Error) }

func (x *External) fields(c *wire.Codec) {
	c.Bool(&x.Look)
	c.Bytes(&x.Record)
}

func (r *Recorded) fields(c *wire.Codec) {
	c.Bytes(&r.Record)
	c.String(&r.Error)
}

func (m *Save) fields(c *wire.Codec) {
	c.Float(&m.Epoch)
	c.Float(&m.Committed)
	c.Bool(&m.Direct)
	c.Int64(&m.Room)
}

func (m *Stored) fields(c *wire.Codec) {
	c.Float(&m.Epoch)
	wire.Uint32s(c, &m.Simprocs)
	wire.Uint64s(c, &m.Hashes)
	wire.List(c, &m.Chunks, chunkFieldsBytes, func(chunk *checkpoint.Chunk) { chunkFields(c, chunk) })
	c.String(&m.Error)
	c.Bool(&m.Last)
	c.Int64(&m.Raw)
	c.Float(&m.Encode)
	c.Float(&m.Write)
	if c.Decoding() && len(m.Simprocs) != len(m.Hashes) {
		c.Fail("found %d simprocs with %d hashes, want as many", len(m.Simprocs), len(m.Hashes))
	}
}

// chunkFieldsBytes is what chunkFields take.
const chunkFieldsBytes = 1 + 4 + 4 + 32 + 8 + 8 + 8

// chunkFields are those of a chunk in a spool. The launcher checks them (checkpoint.Draft.Add).
func chunkFields(c *wire.Codec, chunk *checkpoint.Chunk) {
	c.Byte((*uint8)(&chunk.Kind))
	c.Uint32(&chunk.First)
	c.Uint32(&chunk.Nodes)
	for i := 0; i < len(chunk.Digest); i += 8 {
		word := binary.LittleEndian.Uint64(chunk.Digest[i:])
		c.Uint64(&word)
		if c.Decoding() {
			binary.LittleEndian.PutUint64(chunk.Digest[i:], word)
		}
	}
	c.Int64(&chunk.Raw)
	c.Int64(&chunk.Size)
	c.Int64(&chunk.At)
}

func (l *Leg) fields(c *wire.Codec) {
	c.Float(&l.Until)
	c.Bool(&l.Moved)
}

func (m *Move) fields(c *wire.Codec) {
	wire.Uint32s(c, &m.Owners)
	c.Uint64(&m.Version)
}

func (m *Moved) fields(c *wire.Codec) {
	c.Int32(&m.To)
	c.Bytes(&m.Data)
}

func (l *Load) fields(c *wire.Codec) { c.Bytes(&l.Data) }

func (s *Saved) fields(c *wire.Codec) {
	c.Float(&s.Epoch)
	c.Uint64(&s.Events)
	c.Uint64(&s.Activations)
	wire.List(c, &s.Work, 12, func(w *Work) {
		c.Uint32(&w.Shard)
		c.Float(&w.Seconds)
	})
}

func (s *Stopped) fields(c *wire.Codec) {
	c.Bool(&s.Handled)
	c.Float(&s.Epoch)
}

func (l *Limit) fields(c *wire.Codec) {
	c.Float(&l.Epoch)
	c.Bool(&l.Leg)
}

func (d *Done) fields(c *wire.Codec) {
	c.Bool(&d.Interrupted)
	c.Float(&d.Reached)
	c.Uint64(&d.Events)
	c.Uint64(&d.Activations)
	c.Float(&d.First)
	d.Stats.fields(c)
	wire.Uint32s(c, &d.Largest)
	wire.Uint64s(c, &d.Pending)
	if n := len(d.Largest); c.Decoding() && (n != len(d.Pending) || n > LargestMax) {
		c.Fail("found %d simprocs with %d numbers of what is pending, want as many, at most %d", n, len(d.Pending),
			LargestMax)
	}
}

func (s *Stats) fields(c *wire.Codec) {
	c.Float(&s.WallSeconds)
	c.Float(&s.WorkingSeconds)
	c.Float(&s.BlockedSeconds)
	c.Float(&s.RoomSeconds)
	c.Float(&s.ReportSeconds)
	c.Float(&s.OutsideSeconds)
	c.Float(&s.CPUSeconds)
	c.Uint64(&s.Sent)
	c.Uint64(&s.Received)
	c.Uint64(&s.Promises)
	c.Uint64(&s.IdleJumps)
	c.Uint64(&s.FullWaits)
	c.Uint64(&s.InBlocks)
	c.Uint64(&s.InParts)
	c.Uint64(&s.Parks)
	c.Uint64(&s.Externals)
	c.Uint64(&s.ExternalsRecorded)
	for _, n := range s.Passive.numbers() {
		c.Uint64(n)
	}
}

func (p *Passive) numbers() []*uint64 {
	return []*uint64{&p.Left, &p.Came, &p.WrittenBytes, &p.ReadBytes, &p.FileBytes, &p.MostInMemory}
}

func (s *Status) fields(c *wire.Codec) {
	c.Int(&s.State)
	c.Int(&s.Peer)
	c.Uint64(&s.Activations)
	c.String(&s.Handler)
	c.Float(&s.Epoch)
	c.String(&s.Text)
}

func (f *Failed) fields(c *wire.Codec) {
	c.String(&f.Error)
	c.Bool(&f.Peer)
	c.Bool(&f.Wrong)
	c.Bool(&f.File)
}
