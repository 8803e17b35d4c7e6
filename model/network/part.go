// SPDX-License-Identifier: Apache-2.0

package network

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"

	"github.com/disco-sim/disco/model/measure"
)

// part is what one router has to say after a run, or after what there was of it.
// Routers may have come to different times when a run was interrupted: each closes its
// own accounts at End.
type part struct {
	End float64 `json:"end"` // simulated seconds
	books
	SentIn    []int64         `json:"sent_in"`   // by span of the detailed occurrences
	LostIn    [][causes]int64 `json:"lost_in"`   // by span
	Latencies []byte          `json:"latencies"` // by span, one behind the other
	Flows     blob            `json:"flows"`     // what Model.readFlows reads
	Channels  []channelPart   `json:"channels"`

	// Of node 0 only: what happened, the same for all.
	Detailed []occurrencePart `json:"detailed,omitempty"`
	History  []historyPart    `json:"history,omitempty"` // by event
}

// channelPart is what a router has to say about one of its channels.
type channelPart struct {
	channelBooks
	Busy      float64   `json:"busy"` // seconds
	Wait      float64   `json:"wait"` // packet seconds
	BusyIn    []float64 `json:"busy_in,omitempty"`
	WaitIn    []float64 `json:"wait_in,omitempty"`
	CarriedIn []int64   `json:"carried_in,omitempty"`
	LostIn    []int64   `json:"lost_in,omitempty"`
}

type occurrencePart struct {
	Event  int     `json:"event"`
	Target int     `json:"target"`
	From   float64 `json:"from"`
	To     float64 `json:"to"`
}

// historyPart is how often an event has happened, and how long in all, over all of its
// targets.
type historyPart struct {
	Count   int     `json:"count"`
	Seconds float64 `json:"seconds"`
}

// history adds up what has happened up to end.
func (p *schedule) history(s *Spec, end float64) []historyPart {
	h := make([]historyPart, len(s.Events))
	for _, o := range p.occurrences {
		if o.From < end {
			h[o.event].Count++
			h[o.event].Seconds += o.SecondsBefore(end)
		}
	}
	return h
}

func (p *part) encode() ([]byte, error) { return json.Marshal(p) }

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
