// SPDX-License-Identifier: Apache-2.0

package service

import (
	"github.com/disco-sim/disco/internal/invariants"
	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/node"
)

// forwarder is the client's request side: it passes new requests on.
type forwarder struct {
	out      outbox
	received int64
}

// Handle is called by the engine only.
func (f *forwarder) Handle(p *node.Simproc, events []node.Event) error { return f.handle(p, events) }

// Report is called by the engine only, once, after the last Handle.
func (f *forwarder) Report(p *node.Simproc) ([]byte, error) { return reportOn(f, p, f.out.reporter) }

func (f *forwarder) handle(p simproc, events []node.Event) error {
	now := p.Now()
	if now >= f.out.warm {
		f.forget(f.out.warm)
	}
	for i := range events {
		r, err := getRequest(events[i].Data)
		if err != nil {
			return err
		}
		f.received++
		if err := f.out.send(p, 0, now, r); err != nil {
			return err
		}
	}
	return nil
}

func (f *forwarder) report(end float64, r *reporter) {
	if at, begins := closing(f.out.warm, end); begins {
		f.forget(at)
	}
	r.boxReport = boxReport{End: end, Received: f.received, Passed: f.received, Edges: f.out.report(end, r),
		Audit: f.out.audit, Windows: closed(f.out.windows, end)}
}

// collector is the client's response side: it takes in finished requests. A
// request's latency runs from its birth to its return.
type collector struct {
	recorder *recorder
	received int64
	warm     float64           // when the accounts begin; +Inf: they have
	seen     map[uint64]uint64 // checked build: by number / 64, one bit a request
	audit    *audit            // checked build only
	windows  *measure.Windows  // nil: no time series are asked for
}

// Handle is called by the engine only.
func (c *collector) Handle(p *node.Simproc, events []node.Event) error { return c.handle(p, events) }

// Report is called by the engine only, once, after the last Handle.
func (c *collector) Report(p *node.Simproc) ([]byte, error) { return reportOn(c, p, &reporter{}) }

func (c *collector) handle(p simproc, events []node.Event) error {
	now := p.Now()
	if now >= c.warm {
		c.forget(c.warm)
	}
	for i := range events {
		r, err := getRequest(events[i].Data)
		if err != nil {
			return err
		}
		c.received++
		record(p, recordBack, r.number, 0)
		if invariants.Enabled {
			c.once(r)
			c.audit.Left.add(1, now)
		}
		if err := c.recorder.record(now, now-r.born); err != nil {
			return err
		}
		if c.windows != nil {
			c.windows.At(now, completed, 1)
			c.windows.At(now, latencySum, now-r.born)
			c.windows.Value(now, now-r.born)
		}
	}
	return nil
}

// once asserts that no request comes back twice.
func (c *collector) once(r request) {
	word, bit := r.number/64, uint64(1)<<(r.number%64)
	if c.seen == nil {
		c.seen = make(map[uint64]uint64)
	}
	invariants.Assert(c.seen[word]&bit == 0, "service: request %d, born at %v, came back twice", r.number, r.born)
	c.seen[word] |= bit
}

func (c *collector) report(end float64, r *reporter) {
	if at, begins := closing(c.warm, end); begins {
		c.forget(at)
	}
	r.boxReport = boxReport{End: end, Received: c.received, Passed: c.received, Latencies: c.recorder.report(),
		Audit: c.audit, Windows: closed(c.windows, end)}
}
