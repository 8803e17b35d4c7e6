// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

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
	frame, err := wire.Append(make([]byte, frameHeaderBytes, 256+m.Done.listBytes()), m.body)
	if err != nil {
		return fmt.Errorf("worker: message %v: %w", m.Type, err)
	}
	n := len(frame) - frameHeaderBytes
	if n > MessageMax {
		return fmt.Errorf("worker: message %v of %d bytes, at most %d are allowed", m.Type, n, MessageMax)
	}
	binary.LittleEndian.PutUint32(frame, uint32(n))
	frame[4], frame[5] = frameVersion, byte(m.Type)
	_, err = w.Write(frame)
	return err
}

// frameStep is how much memory a frame gets before any of it has come.
const frameStep = 64 << 10

// ReadMessage reads one frame. io.EOF, unwrapped, means that the other side has
// closed the stream between two frames.
func ReadMessage(r io.Reader) (*Message, error) {
	var head [frameHeaderBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if head[4] != frameVersion {
		return nil, fmt.Errorf("worker: frame of version %d, want %d: launcher and workers must be the same program",
			head[4], frameVersion)
	}
	if n > MessageMax {
		return nil, fmt.Errorf("worker: frame of %d bytes, want at most %d", n, MessageMax)
	}
	if zero := binary.LittleEndian.Uint16(head[6:]); zero != 0 {
		return nil, fmt.Errorf("worker: frame with %d in its spare bytes, want 0", zero)
	}
	// Memory is taken as the bytes come: a header that promises a gigabyte costs nothing.
	var body bytes.Buffer
	body.Grow(int(min(n, frameStep)))
	if _, err := io.CopyN(&body, r, int64(n)); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("worker: frame of %d bytes was cut short: %w", n, err)
	}
	m := &Message{Type: MessageType(head[5])}
	if err := wire.Decode(body.Bytes(), m.body); err != nil {
		return nil, fmt.Errorf("worker: frame of %d bytes, message %v: %w", n, m.Type, err)
	}
	return m, nil
}

// body is the fields behind the header, by type.
func (m *Message) body(c *wire.Codec) {
	switch m.Type {
	case TypeSetup:
		part(c, &m.Setup, (*Setup).fields)
	case TypePrepare:
		part(c, &m.Prepare, (*Prepare).fields)
	case TypeStopped:
		part(c, &m.Stopped, (*Stopped).fields)
	case TypeLimit:
		part(c, &m.Limit, (*Limit).fields)
	case TypeDone:
		part(c, &m.Done, (*Done).fields)
	case TypeStatus:
		part(c, &m.Status, (*Status).fields)
	case TypeFailed:
		part(c, &m.Failed, (*Failed).fields)
	case TypeGo, TypeStop, TypeAsk, TypeExit, TypeReady:
	default:
		c.Fail("found no such type, want %d to %d", TypeSetup, TypeFailed)
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

func (s *Setup) fields(c *wire.Codec) {
	c.Int(&s.Worker)
	c.Int(&s.Workers)
	c.Int(&s.First)
	c.Float(&s.Horizon)
	c.Uint64(&s.Seed)
	s.Tuning.fields(c)
	wire.List(c, &s.Pools, 4, c.Int32)
	for _, lanes := range []*[]LaneSize{&s.Out, &s.In} {
		wire.List(c, lanes, 12, func(l *LaneSize) {
			c.Int32(&l.Peer)
			c.Int(&l.RingBytes)
		})
	}
	c.String(&s.Trace)
	c.Bool(&s.OneProcess)
	c.Bool(&s.Crowded)
}

func (t *Tuning) fields(c *wire.Codec) {
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
}

func (p *Prepare) fields(c *wire.Codec) { c.Int(&p.Replication) }

func (s *Stopped) fields(c *wire.Codec) {
	c.Bool(&s.Handled)
	c.Float(&s.Epoch)
}

func (l *Limit) fields(c *wire.Codec) { c.Float(&l.Epoch) }

func (d *Done) fields(c *wire.Codec) {
	c.Bool(&d.Interrupted)
	c.Float(&d.Reached)
	c.Uint64(&d.Events)
	c.Uint64(&d.Activations)
	c.Float(&d.First)
	wire.List(c, &d.Hashes, 12, func(h *SimprocHash) {
		c.Uint32(&h.ID)
		c.Uint64(&h.Hash)
	})
	d.parts(c)
	d.Stats.fields(c)
}

// listBytes is how many bytes the lists of d take, of which there may be gigabytes: a frame that grows while they are
// written would leave several times as many behind. d may be nil.
func (d *Done) listBytes() int {
	if d == nil {
		return 0
	}
	n := 12 * len(d.Hashes)
	for i := range d.Reports {
		n += 8 + len(d.Reports[i].Data)
	}
	return min(n, MessageMax)
}

// parts are the reports in the order of their ids. A simproc without one isn't listed.
func (d *Done) parts(c *wire.Codec) {
	list := d.Reports
	if missing := func(p node.Report) bool { return p.Data == nil }; slices.ContainsFunc(list, missing) {
		list = slices.DeleteFunc(slices.Clone(list), missing)
	}
	next := uint64(0) // least id that may follow
	wire.List(c, &list, 8, func(p *node.Report) {
		id := uint32(p.Simproc)
		if c.Uint32(&id); uint64(id) < next {
			c.Fail("found a report of simproc %d, want one of %d or a later one", id, next)
		}
		next = uint64(id) + 1
		c.Bytes(&p.Data)
		if c.Decoding() {
			p.Simproc = node.SimprocID(id)
		}
	})
	if c.Decoding() {
		d.Reports = list
	}
}

func (s *Stats) fields(c *wire.Codec) {
	c.Float(&s.WallSeconds)
	c.Float(&s.WorkingSeconds)
	c.Float(&s.BlockedSeconds)
	c.Float(&s.RoomSeconds)
	c.Float(&s.ReportSeconds)
	c.Float(&s.CPUSeconds)
	c.Uint64(&s.Sent)
	c.Uint64(&s.Received)
	c.Uint64(&s.Promises)
	c.Uint64(&s.IdleJumps)
	c.Uint64(&s.FullWaits)
	c.Uint64(&s.InBlocks)
	c.Uint64(&s.InParts)
	c.Uint64(&s.Parks)
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
}
