// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"

	"github.com/disco-sim/disco/internal/wire"
)

// boxReport is the report of one box about a run, or about the part of it that was simulated.
// Boxes may have reached different times when a run was interrupted: each closes
// its own account at End.
type boxReport struct {
	End       float64 // simulated seconds
	Received  int64   // requests that came in; at the generator: that were made
	Passed    int64   // requests that went on, or ended here
	Present   int64   // requests in the box
	Held      int64   // of them at the end of the warm-up
	Generator *generatorReport
	Server    *serverReport
	Latencies []byte       // of the client: by span, one set behind the other
	Edges     []edgeReport // in the order of the file
	Audit     *audit       // checked build only
	Windows   []byte       // of measure.Windows; none: no time series are asked for
}

type generatorReport struct {
	Made    int64
	Windows int64
	UserSum float64 // of the active users over the windows
}

// serverReport has one number a level, in the order of the level constants.
type serverReport struct {
	Area       [levelCount]float64
	Peak       [levelCount]int64
	Samples    int64
	Sum        [levelCount]float64
	Top        [levelCount]int64
	Residence  float64
	ByEndpoint []int64
}

type edgeReport struct {
	Sent      int64
	Dropped   int64
	Transit   int64
	Area      float64
	Peak      int64
	Samples   int64
	TickSum   int64
	TickPeak  int64
	Carried   int64     // under way at the end of the warm-up
	SentIn    []int64   // by span
	PassedIn  []int64   // by span
	TransitIn []float64 // by span, seconds
}

// appendTo appends the report as it is sent: the fields in this order (docs/format/control.md).
func (p *boxReport) appendTo(b []byte) ([]byte, error) {
	b, err := wire.Append(b, p.fields)
	if err != nil {
		return nil, fmt.Errorf("service: a report: %w", err)
	}
	return b, nil
}

// decode reads what encode gives. p may be one that was read before: its memory is used again.
func (p *boxReport) decode(b []byte) error { return wire.Decode(b, p.fields) }

func (p *boxReport) fields(c *wire.Codec) {
	c.Float(&p.End)
	c.EachVarint(&p.Received, &p.Passed, &p.Present, &p.Held)
	wire.Optional(c, &p.Generator, (*generatorReport).fields)
	wire.Optional(c, &p.Server, (*serverReport).fields)
	c.Bytes(&p.Latencies)
	wire.List(c, &p.Edges, edgeBytesMin, func(e *edgeReport) { e.fields(c) })
	wire.Optional(c, &p.Audit, (*audit).fields)
	c.Bytes(&p.Windows)
}

// add adds the report after another replication.
func (g *generatorReport) add(o *generatorReport) {
	g.Made += o.Made
	g.Windows += o.Windows
	g.UserSum += o.UserSum
}

func (g *generatorReport) fields(c *wire.Codec) {
	c.Varint(&g.Made)
	c.Varint(&g.Windows)
	c.Float(&g.UserSum)
}

func (s *serverReport) fields(c *wire.Codec) {
	c.FloatArray(s.Area[:])
	c.FloatArray(s.Sum[:])
	c.VarintArray(s.Peak[:])
	c.VarintArray(s.Top[:])
	c.Varint(&s.Samples)
	c.Float(&s.Residence)
	wire.Varints(c, &s.ByEndpoint)
}

// edgeBytesMin is what an edge has at least: eight numbers, one float, three lists.
const edgeBytesMin = 8 + 8 + 3*4

func (e *edgeReport) fields(c *wire.Codec) {
	c.EachVarint(&e.Sent, &e.Dropped, &e.Transit, &e.Peak, &e.Samples, &e.TickSum, &e.TickPeak, &e.Carried)
	c.Float(&e.Area)
	wire.Varints(c, &e.SentIn)
	wire.Varints(c, &e.PassedIn)
	wire.Floats(c, &e.TransitIn)
}
