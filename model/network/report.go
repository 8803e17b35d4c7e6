// SPDX-License-Identifier: Apache-2.0

package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/disco-sim/disco/internal/wire"
	"github.com/disco-sim/disco/model/measure"
)

// nodeReport is the report of one router about a run, or about the part of it that was simulated.
// Routers may have reached different times when a run was interrupted: each closes its
// own counts at End.
type nodeReport struct {
	End float64 // simulated seconds
	books
	Before    warmBooks
	SentIn    []int64         // by span of the detailed occurrences
	LostIn    [][causes]int64 // by span
	Latencies []byte          // by span, one behind the other
	Flows     blob            // what tally.decode reads
	Channels  []channelReport
	Windows   []byte // of measure.Windows; none: no time series are asked for

	// Of node 0 only: what happened, the same for all.
	Detailed []occurrenceReport
	History  []historyReport // by event
}

// channelReport is the report about one of a router's channels.
type channelReport struct {
	channelBooks
	Busy      float64 // seconds
	Wait      float64 // packet seconds
	Before    warmChannel
	BusyIn    []float64
	WaitIn    []float64
	CarriedIn []int64
	LostIn    []int64
}

type occurrenceReport struct {
	Event  int
	Target int
	From   float64
	To     float64
}

// historyReport is how often an event has happened, and how long in all, over all of its
// targets.
type historyReport struct {
	Count   int
	Seconds float64
}

// encode gives the report as it is sent: the fields in this order (docs/format/control.md).
func (p *nodeReport) encode() ([]byte, error) {
	b, err := wire.Append(nil, p.fields)
	if err != nil {
		return nil, fmt.Errorf("network: a report: %w", err)
	}
	return b, nil
}

func decodeReport(b []byte) (*nodeReport, error) {
	p := &nodeReport{}
	return p, wire.Decode(b, p.fields)
}

func (p *nodeReport) fields(c *wire.Codec) {
	c.Float(&p.End)
	p.books.fields(c)
	p.Before.fields(c)
	wire.Varints(c, &p.SentIn)
	wire.List(c, &p.LostIn, int(causes), func(lost *[causes]int64) { varints(c, lost) })
	c.Bytes(&p.Latencies)
	c.Bytes((*[]byte)(&p.Flows))
	wire.List(c, &p.Channels, channelBytesMin, func(ch *channelReport) { ch.fields(c) })
	c.Bytes(&p.Windows)
	wire.List(c, &p.Detailed, 2*8+2*8, func(o *occurrenceReport) {
		c.Int(&o.Event)
		c.Int(&o.Target)
		c.Float(&o.From)
		c.Float(&o.To)
	})
	wire.List(c, &p.History, 8+8, func(h *historyReport) {
		c.Int(&h.Count)
		c.Float(&h.Seconds)
	})
}

// varints are numbers by cause.
func varints(c *wire.Codec, n *[causes]int64) {
	for why := range n {
		c.Varint(&n[why])
	}
}

func (b *books) fields(c *wire.Codec) {
	c.Varint(&b.Born)
	wire.Varints(c, &b.Received)
	c.Varint(&b.Delivered)
	varints(c, &b.Refused)
	c.Varint(&b.Handed)
}

// channelBytesMin is what a channel has at least: numbers, floats, lists.
const channelBytesMin = 5 + 2*int(causes) + 3*8 + 4*4 + warmBytesMin

func (ch *channelReport) fields(c *wire.Codec) {
	for _, n := range []*int64{&ch.Handed, &ch.Sent, &ch.Carried, &ch.Bytes, &ch.WaitingMax} {
		c.Varint(n)
	}
	varints(c, &ch.Refused)
	varints(c, &ch.Lost)
	c.Float(&ch.WaitedMax)
	c.Float(&ch.Busy)
	c.Float(&ch.Wait)
	ch.Before.fields(c)
	wire.Floats(c, &ch.BusyIn)
	wire.Floats(c, &ch.WaitIn)
	wire.Varints(c, &ch.CarriedIn)
	wire.Varints(c, &ch.LostIn)
}

// history adds up what has happened up to end.
func (p *schedule) history(s *Spec, end float64) []historyReport {
	h := make([]historyReport, len(s.Events))
	for _, o := range p.occurrences {
		if o.From < end {
			h[o.event].Count++
			h[o.event].Seconds += o.SecondsBefore(end)
		}
	}
	return h
}

// blob is numbers one behind the other: whole ones as varints.
type blob []byte

func (b *blob) whole(x uint64) { *b = binary.AppendUvarint(*b, x) }

func (b *blob) moments(m *measure.Moments) {
	b.whole(uint64(m.Count))
	if m.Count > 0 {
		for _, x := range []float64{m.Mean, m.M2, m.Min, m.Max} {
			*b = le.AppendUint64(*b, math.Float64bits(x))
		}
	}
}

var errBlob = errors.New("its numbers are cut short or wrong")

// blobReader takes numbers off the front of a blob; after an error it gives zeros.
type blobReader struct {
	rest []byte
	err  error
}

func (r *blobReader) whole() int64 {
	x, n := binary.Uvarint(r.rest)
	if r.err != nil || n <= 0 || x > math.MaxInt64 {
		r.err = errBlob
		return 0
	}
	r.rest = r.rest[n:]
	return int64(x)
}

func (r *blobReader) moments() (m measure.Moments) {
	if m.Count = r.whole(); m.Count == 0 {
		return m
	}
	for _, x := range []*float64{&m.Mean, &m.M2, &m.Min, &m.Max} {
		if len(r.rest) < 8 {
			r.err = errBlob
			return m
		}
		*x = math.Float64frombits(le.Uint64(r.rest))
		r.rest = r.rest[8:]
	}
	return m
}

func (r *blobReader) latencies(l *measure.Latencies) {
	if r.err == nil {
		r.rest, r.err = l.Read(r.rest)
	}
}
