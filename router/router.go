// SPDX-License-Identifier: Apache-2.0

// Package router tells which link leads to a simproc: to this worker itself, to
// another worker on the same machine, or to another machine. It is a table that is
// made when the run is wired and never changes.
//
// Guarantee: Route takes no lock, looks up no string and allocates nothing; any
// goroutine may call it. What is unknown is an error that names it, never a silent
// drop.
//
//	r, err := router.New(router.Config{Nodes: names, Simprocs: layers, Placement: worker, Links: links})
//	id, err := r.Resolve("srv-1/request") // at wiring time
//	link, err := r.Route(id)              // for each event
//	err = link.SendEvent(&ev)
package router

import (
	"errors"
	"fmt"
	"strings"

	"github.com/disco-sim/disco/envelope"
)

// Link is a one-way path to a peer. Egress is one, a bridge is one, and a worker's
// way to itself is one. It belongs to the goroutine that sends.
type Link interface {
	// SendEvent sends one event; it waits while there is no room. The event and its
	// data may be used again when it returns.
	SendEvent(ev *envelope.Event) error

	// SendPromise sends a promise in order with the events.
	SendPromise(p *envelope.Promise) error

	// Flush makes everything sent visible to the peer.
	Flush() error
}

// ErrUnknown is what every failed Route and Resolve unwraps to. The text names what
// was asked for and, where one is close, the name that may have been meant.
var ErrUnknown = errors.New("router: unknown target")

// Config is the wiring. New copies what it keeps.
type Config struct {
	// Nodes are the names of the scenario's nodes; the index is the dense node id.
	Nodes []string

	// Simprocs are the names of the layers that every node has; the index is the rank.
	Simprocs []string

	// Placement says which link leads to each node: index in Links, by node id.
	Placement []int32

	// Links are the ways. One that leads to no node may be nil.
	Links []Link
}

// idsMax keeps every dense id in 32 bits with room to spare.
const idsMax = 1 << 28

// validate reports the first field that can't be.
func (cfg *Config) validate() error {
	if len(cfg.Nodes) == 0 || len(cfg.Simprocs) == 0 || len(cfg.Nodes) > idsMax/len(cfg.Simprocs) {
		return fmt.Errorf("router: %d nodes of %d simprocs, want at least one of each and at most %d in all", len(cfg.Nodes), len(cfg.Simprocs), idsMax)
	}
	if len(cfg.Placement) != len(cfg.Nodes) {
		return fmt.Errorf("router: placement of %d nodes, but there are %d", len(cfg.Placement), len(cfg.Nodes))
	}
	for node, link := range cfg.Placement {
		if link < 0 || int(link) >= len(cfg.Links) || cfg.Links[link] == nil {
			return fmt.Errorf("router: node %q (%d) is placed on link %d, and there is no such link", cfg.Nodes[node], node, link)
		}
	}
	return nil
}

// Router is the table. It never changes; any goroutine may use it, but a Link that it
// returns belongs to the one that sends.
type Router struct {
	layers    uint32
	placement []int32
	links     []Link
	names     *names
}

// New makes the table.
func New(cfg Config) (*Router, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	n, err := newNames(cfg.Nodes, cfg.Simprocs)
	if err != nil {
		return nil, err
	}
	return &Router{
		layers:    uint32(len(cfg.Simprocs)),
		placement: append([]int32(nil), cfg.Placement...),
		links:     append([]Link(nil), cfg.Links...),
		names:     n,
	}, nil
}

// Route gives the link that leads to the simproc with a dense id (node × layers +
// rank).
func (r *Router) Route(target uint32) (Link, error) {
	node := target / r.layers
	if int(node) >= len(r.placement) {
		return nil, r.noTarget(target)
	}
	return r.links[r.placement[node]], nil
}

// RouteNode gives the link that leads to the node with a dense id.
func (r *Router) RouteNode(node uint32) (Link, error) {
	if int64(node) >= int64(len(r.placement)) {
		return nil, fmt.Errorf("%w: node %d, the scenario has %d", ErrUnknown, node, len(r.placement))
	}
	return r.links[r.placement[node]], nil
}

func (r *Router) noTarget(target uint32) error {
	return fmt.Errorf("%w: simproc %d, the scenario has %d (%d nodes of %d)", ErrUnknown, target, len(r.placement)*int(r.layers), len(r.placement), r.layers)
}

// Resolve gives the dense id of the simproc that target names: "<node>/<simproc>".
//
// Use: at wiring time.
func (r *Router) Resolve(target string) (uint32, error) {
	node, simproc, ok := strings.Cut(target, "/")
	if !ok {
		return 0, fmt.Errorf("%w: %q, want \"<node>/<simproc>\"", ErrUnknown, target)
	}
	id, ok := r.names.nodes[node]
	if !ok {
		return 0, fmt.Errorf("%w: %q: no node is named %q%s", ErrUnknown, target, node, meant(node, r.names.nodeList))
	}
	for rank, name := range r.names.simprocs {
		if name == simproc {
			return id*r.layers + uint32(rank), nil
		}
	}
	return 0, fmt.Errorf("%w: %q: no simproc is named %q%s", ErrUnknown, target, simproc, meant(simproc, r.names.simprocs))
}

// Name is the inverse of Resolve, for messages. An unknown id is named as such.
func (r *Router) Name(target uint32) string {
	node := target / r.layers
	if int(node) >= len(r.placement) {
		return fmt.Sprintf("simproc %d (unknown)", target)
	}
	return r.names.nodeList[node] + "/" + r.names.simprocs[target%r.layers]
}

// Flush flushes every link that leads to a node, and returns the first error.
func (r *Router) Flush() error {
	var first error
	for _, l := range r.links {
		if l == nil {
			continue
		}
		if err := l.Flush(); err != nil && first == nil {
			first = err
		}
	}
	return first
}
