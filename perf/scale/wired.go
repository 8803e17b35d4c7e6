// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"

	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// wiredName is the kind of scenario for the curve of links: PHOLD in which every node may send only over links of its
// own, which are declared one by one. Who they lead to is drawn by chance, so that no placement cuts few of them.
const wiredName = "wired"

// wiredParams are the parameters of a file.
type wiredParams struct {
	nodes, degree int // degree: links from every node
	end           float64
}

func (p wiredParams) yaml() []byte {
	return fmt.Appendf(nil, "model: %s\nnodes: %d\ndegree: %d\nend: %g\n", wiredName, p.nodes, p.degree, p.end)
}

func wiredKind() scenario.Kind {
	return scenario.Kind{Name: wiredName, Load: scenario.Loader(loadWired, newWired)}
}

func loadWired(doc *scenario.Document, opt scenario.Options) (wiredParams, error) {
	r := scenario.NewReader(doc)
	root := r.Root("model", "nodes", "degree", "end")
	root.Field("model").Word(wiredName)
	p := wiredParams{
		nodes:  root.Field("nodes").Int(scenario.Between(2, 1e7)),
		degree: root.Field("degree").Int(scenario.Between(1, 1e4)),
		end:    root.Field("end").Float(scenario.MoreThan(0)),
	}
	if p.degree >= p.nodes || p.nodes*p.degree > 1e8 {
		root.Field("degree").Refuse(fmt.Sprintf("%d links from each of %d nodes", p.degree, p.nodes),
			"fewer than there are nodes, and at most 100000000 in all", "")
	}
	if opt.Horizon > 0 {
		p.end = opt.Horizon
	}
	return p, r.Err()
}

// wired is a scenario of the kind. It keeps neither its nodes nor its links: they are computed when they are asked for.
type wired struct{ wiredParams }

func newWired(p wiredParams) *wired { return &wired{p} }

// target is where link k of node i leads: one node in each of as many equal parts of the others, so that no two are the
// same.
func (w *wired) target(i, k int) node.Endpoint {
	from, to := k*(w.nodes-1)/w.degree, (k+1)*(w.nodes-1)/w.degree
	x := (uint64(i*w.degree+k) + 1) * 0x9e3779b97f4a7c15 // SplitMix64
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return node.Endpoint{Node: (i + 1 + from + int((x^x>>31)%uint64(to-from))) % w.nodes}
}

// Name is for people.
func (w *wired) Name() string { return wiredName }

// Horizon is the end, in simulated seconds.
func (w *wired) Horizon() float64 { return w.end }

// Graph is the nodes and their links.
func (w *wired) Graph() *node.Graph {
	return &node.Graph{Simprocs: []string{"lp"}, NodeCount: w.nodes,
		NodeAt:   func(n int) node.Node { return node.Node{Name: "n" + strconv.Itoa(n), Work: 1} },
		EachLink: w.eachLink}
}

func (w *wired) eachLink(yield func(node.Link) bool) {
	for i := range w.nodes {
		for k := range w.degree {
			if !yield(node.Link{From: node.Endpoint{Node: i}, To: w.target(i, k), Lookahead: lookahead,
				Rate: remote / float64(w.degree)}) {
				return
			}
		}
	}
}

// NewHandler makes one node.
func (w *wired) NewHandler(p *node.Simproc) (node.Handler, error) {
	h := &wiredNode{rnd: rand.New(p.Source("wired")), links: make([]node.LinkID, w.degree)}
	for k := range h.links {
		var err error
		if h.links[k], err = p.LinkTo(w.target(p.NodeIndex(), k)); err != nil {
			return nil, err
		}
	}
	return h, nil
}

type wiredNode struct {
	rnd     *rand.Rand
	links   []node.LinkID
	handled uint64
}

// Handle starts with one event, and answers every event with one.
func (h *wiredNode) Handle(p *node.Simproc, events []node.Event) error {
	h.handled += uint64(len(events))
	if p.Now() == 0 {
		if err := p.Schedule(h.next(0), nil); err != nil {
			return err
		}
	}
	for range events {
		var err error
		if at := h.next(p.Now()); h.rnd.Float64() <= remote {
			err = p.Send(h.links[h.rnd.IntN(len(h.links))], at, nil)
		} else {
			err = p.Schedule(at, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (h *wiredNode) next(now float64) float64 {
	return now + lookahead + h.rnd.ExpFloat64()*(1-lookahead)
}

// Report is what the node has counted.
func (h *wiredNode) Report(*node.Simproc) ([]byte, error) {
	return binary.LittleEndian.AppendUint64(nil, h.handled), nil
}

// Accumulate adds up what the nodes have counted.
func (w *wired) Accumulate() scenario.Accumulator { return &wiredTotal{} }

type wiredTotal struct {
	Handled uint64 `json:"events_handled"`
}

// Add reads the reports of one replication.
func (t *wiredTotal) Add(rep scenario.Replication) error {
	for i, r := range rep.Reports {
		if len(r) != 8 {
			return fmt.Errorf("wired: the report of node %d has %d bytes, want 8", i, len(r))
		}
		t.Handled += binary.LittleEndian.Uint64(r)
	}
	return nil
}

// Summary is the sum.
func (t *wiredTotal) Summary() (scenario.Summary, error) {
	if t.Handled == 0 {
		return nil, errors.New("wired: no event was handled: take a later end")
	}
	return t, nil
}

// WriteText writes the sum.
func (t *wiredTotal) WriteText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "events handled: %d\n", t.Handled)
	return err
}
