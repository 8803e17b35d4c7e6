// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"math"

	"github.com/disco-sim/disco/envelope"
)

// NodeController stands for one node: events and promises go in and out of it by
// the names of their targets. Handlers on the event path use their Simproc, which
// has resolved its links once; a NodeController does the same for callers who have
// names, at the price of a look-up.
//
// Same goroutine as the Engine.
type NodeController struct {
	engine *Engine
	index  int // in Graph.Nodes

	links map[linkName]LinkID // resolved targets
	buf   []byte              // what the Serializer wrote last
}

type linkName struct {
	rank   int
	target string
}

// Name is the node's name.
func (c *NodeController) Name() string { return c.engine.plan.graph.Nodes[c.index].Name }

// SendEvent sends data from the simproc whose handler is being called to target,
// "<node>/<simproc>" or "self/<simproc>", for epoch. The Serializer turns data into
// bytes. A target without a declared link is an error that names both ends.
func (c *NodeController) SendEvent(target string, epoch float64, data any, headers map[string]string) error {
	p, l, err := c.resolve(target)
	if err != nil {
		return c.engine.fail(err)
	}
	encoded, err := envelope.EncodeHeaders(headers)
	if err != nil {
		return c.engine.fail(fmt.Errorf("node: %s to %s: %w", p.Name(), target, err))
	}
	bytes, ok := data.([]byte)
	switch s := c.engine.cfg.Serializer; {
	case s != nil:
		if c.buf, err = s.Marshal(c.buf[:0], data); err != nil {
			return c.engine.fail(fmt.Errorf("node: %s to %s: serializing a %T: %w", p.Name(), target, data, err))
		}
		bytes = c.buf
	case !ok && data != nil:
		return c.engine.fail(fmt.Errorf("node: %s to %s: data is a %T, and there is no Serializer: want []byte", p.Name(), target, data))
	}
	return p.SendHeaders(l, epoch, encoded, bytes)
}

// SendPromise promises that the simproc whose handler is being called has sent
// numEvents events to target in total and will send nothing more to it before
// epoch. seqnr is one more than in the promise before; the first is 1. It raises the
// link's floor, like AdvancePromise; a NodeController that stands alone also sends
// it.
func (c *NodeController) SendPromise(target string, seqnr uint64, epoch float64, numEvents uint64) error {
	p, l, err := c.resolve(target)
	if err != nil {
		return c.engine.fail(err)
	}
	k := &p.links[l]
	if seqnr != k.seqnr+1 || numEvents != k.sent || !(epoch >= k.floor) {
		return c.engine.fail(fmt.Errorf("node: %s promised %s seqnr %d, epoch %v and %d events; want seqnr %d, an epoch from %v and the %d events sent",
			p.Name(), target, seqnr, epoch, numEvents, k.seqnr+1, k.floor, k.sent))
	}
	k.seqnr = seqnr
	if err := p.AdvancePromise(l, epoch); err != nil {
		return err
	}
	if !c.engine.cfg.ByPromise || k.proc >= 0 {
		return nil
	}
	out := envelope.Promise{Epoch: epoch, Seqnr: seqnr, NumEvents: numEvents, Target: uint32(k.to), Sender: uint32(p.id)}
	if err := c.engine.cfg.Port.SendPromise(&out); err != nil {
		return c.engine.fail(fmt.Errorf("node: %s to %s: %w", p.Name(), target, err))
	}
	return nil
}

// ReceiveEvent files an event for one of the node's simprocs, from peer.
func (c *NodeController) ReceiveEvent(peer int, ev *envelope.Event) error {
	if err := c.own(ev.Target); err != nil {
		return c.engine.fail(err)
	}
	return c.engine.ReceiveEvent(peer, ev, 0)
}

// ReceivePromise files a promise to one of the node's simprocs, from peer.
func (c *NodeController) ReceivePromise(peer int, p *envelope.Promise) error {
	if err := c.own(p.Target); err != nil {
		return c.engine.fail(err)
	}
	return c.engine.ReceivePromise(peer, p)
}

// WaitingFor says which predecessor on another worker holds back the simproc of the
// given rank, and what is missing; ok is false when nobody does (ByPromise).
func (c *NodeController) WaitingFor(rank int) (w Waiting, ok bool) {
	id := c.engine.plan.graph.ID(Endpoint{c.index, rank})
	ps := c.engine.procs[c.engine.localOf[id]].preds
	if ps == nil || math.IsInf(ps.bound(), 1) {
		return Waiting{}, false
	}
	return ps.waiting(), true
}

func (c *NodeController) own(target uint32) error {
	g := c.engine.plan.graph
	if int(target) >= g.NumSimprocs() || g.Endpoint(SimprocID(target)).Node != c.index {
		return fmt.Errorf("node: %s was handed something for %s", c.Name(), g.Name(SimprocID(target)))
	}
	return nil
}

// resolve finds the calling simproc and its link to target.
func (c *NodeController) resolve(target string) (*Simproc, LinkID, error) {
	p := c.engine.current
	if p == nil || p.node != c {
		return nil, 0, fmt.Errorf("node: %s was asked to send to %q outside a handler of its own", c.Name(), target)
	}
	key := linkName{p.Rank(), target}
	if l, ok := c.links[key]; ok {
		return p, l, nil
	}
	l, err := p.Link(target)
	if err != nil {
		return nil, 0, err
	}
	if c.links == nil {
		c.links = make(map[linkName]LinkID)
	}
	c.links[key] = l
	return p, l, nil
}

// Controller is the controller of a node that this worker hosts.
func (e *Engine) Controller(name string) (*NodeController, error) {
	n, ok := e.nodeIndex(name)
	if !ok {
		return nil, fmt.Errorf("node: unknown node %q", name)
	}
	id := e.plan.graph.ID(Endpoint{n, 0})
	if e.localOf[id] < 0 {
		return nil, fmt.Errorf("node: %q is on worker %d, not on this one", name, e.plan.placement[n])
	}
	return e.procs[e.localOf[id]].node, nil
}

func (e *Engine) nodeIndex(name string) (int, bool) {
	if e.names == nil {
		e.names = make(map[string]int, len(e.plan.graph.Nodes))
		for i, n := range e.plan.graph.Nodes {
			e.names[n.Name] = i
		}
	}
	i, ok := e.names[name]
	return i, ok
}
