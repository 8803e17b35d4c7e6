// SPDX-License-Identifier: Apache-2.0

package spans

import (
	"math"

	"github.com/disco-sim/disco/internal/wire"
)

// Report is what a worker has recorded since it told that the last time, as it goes to the launcher.
type Report struct {
	States, Sleeps, Runs []Span
	Samples              []Sample
}

// What a span and a sample take.
const (
	spanBytes   = 8 + 8 + 1 + 4 + 8 + int(Sorts)*8
	sampleBytes = 4 * 8
)

// Fields encodes or decodes it, and checks what a reader relies on: spans and samples in order, none too many.
func (p *Report) Fields(c *wire.Codec) {
	for _, t := range []struct {
		spans *[]Span
		most  int
	}{{&p.States, statesMax}, {&p.Sleeps, sleepsMax}, {&p.Runs, runsMax}} {
		wire.List(c, t.spans, spanBytes, func(s *Span) {
			c.Int64(&s.Begin)
			c.Int64(&s.End)
			c.Byte((*uint8)(&s.Kind))
			c.Uint32(&s.Count)
			c.Int64(&s.Arg)
			for i := range s.Nanos {
				c.Int64(&s.Nanos[i])
			}
		})
		checkSpans(c, *t.spans, t.most)
	}
	wire.List(c, &p.Samples, sampleBytes, func(s *Sample) {
		c.Int64(&s.At)
		c.Bits(&s.Epoch)
		c.Uint64(&s.Events)
		c.Uint64(&s.Pending)
	})
	checkSamples(c, p.Samples)
}

func checkSpans(c *wire.Codec, all []Span, most int) {
	if !c.Decoding() || c.Failed() {
		return
	}
	if len(all) > most {
		c.Fail("found %d spans, want at most %d", len(all), most)
	}
	last := int64(0)
	for _, s := range all {
		if s.Begin < last || s.End < s.Begin || s.Kind >= Kinds || s.Count == 0 || s.Arg < 0 {
			c.Fail("found the span %+v, want it to begin at %d or later and to end after that, kind 0 to %d, count 1 "+
				"or more, and 0 or more for whom it waits", s, last, Kinds-1)
			return
		}
		last = s.End
	}
}

func checkSamples(c *wire.Codec, all []Sample) {
	if !c.Decoding() || c.Failed() {
		return
	}
	if len(all) > samplesMax {
		c.Fail("found %d samples, want at most %d", len(all), samplesMax)
	}
	last := int64(0)
	for _, s := range all {
		if s.At < last || math.IsNaN(s.Epoch) {
			c.Fail("found the sample %+v, want it at %d or later", s, last)
			return
		}
		last = s.At
	}
}
