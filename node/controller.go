// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"

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
	index  int // of the node

	links map[linkName]LinkID // resolved targets
	buf   []byte              // what the Serializer wrote last
}

type linkName struct {
	rank   int
	target string
}

// Name is the node's name.
func (c *NodeController) Name() string { return c.engine.plan.NodeName(c.index) }

// SendEvent sends data from the simproc whose handler is being called to target,
// "<node>/<simproc>" or "self/<simproc>", for epoch. A model that is a Serializer turns
// data into bytes; without one they are []byte. A target without a declared link is an error that names both ends.
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
	switch s, given := c.engine.cfg.Model.(Serializer); {
	case given:
		if c.buf, err = s.Marshal(c.buf[:0], data); err != nil {
			return c.engine.fail(fmt.Errorf("node: %s to %s: serializing a %T: %w", p.Name(), target, data, err))
		}
		bytes = c.buf
	case !ok && data != nil:
		return c.engine.fail(fmt.Errorf("node: %s to %s: data is a %T, and the model is no Serializer: want []byte",
			p.Name(), target, data))
	}
	return p.SendHeaders(l, epoch, encoded, bytes)
}

// SendPromise promises that the simproc whose handler is being called will send nothing
// more to target before epoch: AdvancePromise by name. The Engine numbers and counts what
// it promises other workers itself, as often as it has more to say.
func (c *NodeController) SendPromise(target string, epoch float64) error {
	p, l, err := c.resolve(target)
	if err != nil {
		return c.engine.fail(err)
	}
	return p.AdvancePromise(l, epoch)
}

// ReceiveEvent files an event for one of the node's simprocs, as Engine.ReceiveEvent does.
func (c *NodeController) ReceiveEvent(peer int, ev *envelope.Event, lease uint64) error {
	if err := c.own(ev.Target); err != nil {
		return c.engine.fail(err)
	}
	return c.engine.ReceiveEvent(peer, ev, lease)
}

// ReceivePromise files a promise to one of the node's simprocs, as Engine.ReceivePromise
// does.
func (c *NodeController) ReceivePromise(peer int, p *envelope.Promise) error {
	if err := c.own(p.Target); err != nil {
		return c.engine.fail(err)
	}
	return c.engine.ReceivePromise(peer, p)
}

// Queue is the EventQueue of the simproc of the given rank, nil where workers don't
// promise link by link.
func (c *NodeController) Queue(rank int) *EventQueue {
	b, plan := c.engine.byLink, c.engine.plan
	if b == nil {
		return nil
	}
	return &b.queues[plan.indexOn(plan.self, plan.ID(Endpoint{c.index, rank}))]
}

func (c *NodeController) own(target uint32) error {
	g := c.engine.plan
	if int(target) >= g.NumSimprocs() || g.Endpoint(SimprocID(target)).Node != c.index {
		return fmt.Errorf("node: %s was handed something for %s", c.Name(), g.Name(SimprocID(target)))
	}
	return nil
}

// resolve finds the calling simproc and its link to target.
func (c *NodeController) resolve(target string) (*Simproc, LinkID, error) {
	p := c.engine.current
	if p == nil || p.NodeIndex() != c.index {
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

// ControllerOf is the controller of the node that the simproc with a dense id belongs to;
// nil when this worker doesn't host it.
func (e *Engine) ControllerOf(target uint32) *NodeController {
	if int64(target) >= int64(e.plan.NumSimprocs()) || e.plan.workerOf(SimprocID(target)) != e.plan.self {
		return nil
	}
	return e.controllerOf(e.plan.Node(SimprocID(target)))
}

// controllerOf is the controller of a node that this worker hosts. All of them are made
// when the first one is asked for.
func (e *Engine) controllerOf(n int) *NodeController {
	if e.nodes == nil {
		e.nodes = make([]NodeController, e.plan.numOn(e.plan.self))
		for i, n := range e.plan.nodesOn(e.plan.self) {
			e.nodes[i] = NodeController{engine: e, index: int(n)}
		}
	}
	return &e.nodes[e.plan.placeAt(n)]
}

// Controller is the controller of a node that this worker hosts.
func (e *Engine) Controller(name string) (*NodeController, error) {
	n, ok := e.nodeIndex(name)
	if !ok {
		return nil, fmt.Errorf("node: unknown node %q", name)
	}
	if w := e.plan.WorkerOf(n); w != e.plan.self {
		return nil, fmt.Errorf("node: %q is on worker %d, not on this one", name, w)
	}
	return e.controllerOf(n), nil
}

func (e *Engine) nodeIndex(name string) (int, bool) {
	if e.findNode == nil {
		e.findNode = e.plan.IndexNodes()
	}
	return e.findNode(name)
}
