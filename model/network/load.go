// SPDX-License-Identifier: Apache-2.0

package network

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/disco-sim/disco/internal/gml"
	"github.com/disco-sim/disco/scenario"
)

// Defaults of the schema, for fields that a file leaves out.
const (
	defaultHorizonSeconds    = 60
	defaultRate              = 10e9 // bits per second
	defaultBufferPackets     = 1000
	defaultPacketBytes       = 1000
	defaultReconvergeSeconds = 0.2
)

// Limits of the schema.
const (
	// secondsMax bounds every time: some 31 years, at which a float64 still distinguishes
	// times a tenth of a microsecond apart, a hundredth of the least delay.
	secondsMax = 1e9

	linkRateMax      = 1e15
	bufferPacketsMax = 1 << 24
	bufferBytesMax   = 1 << 40
	trafficMax       = 1e9 // packets a second, all flows together
	flowRateMin      = 1e-9
	flowsMax         = 1 << 20
	addedSecondsMax  = 3600
	massMax          = 1e15
	idMax            = 100 // characters
	eventsMax        = 10_000
)

// loader reads one file into a Spec. What needs only the scenario file is read first; what
// needs the topology then works on what was read well, so that one mistake is one
// problem and yet all mistakes are found.
type loader struct {
	r           *scenario.Reader
	spec        *Spec
	names       map[string]int // nodes by name
	allNames    []string
	fileHorizon float64
}

// fields of the file's top level, `model` aside.
var fields = []string{"horizon", "warmup", "topology", "links", "traffic", "routing", "events"}

// references is the GML file that the topology names.
func references(doc *scenario.Document) []scenario.Reference {
	v := scenario.NewReader(doc).Root(fields...).Field("topology")
	if v.IsMapping() {
		return nil
	}
	name := v.Text()
	return []scenario.Reference{{Name: name, What: "a network in GML", BytesMax: gml.FileBytesMax}}
}

// Load reads a network scenario, and the GML file that is attached to it, and checks
// every rule of docs/scenario-network.md. The error is a scenario.Problems with all that is wrong,
// where a file is at fault.
//
// opt.Horizon replaces the file's horizon as the end of the run. What would happen at
// or after the end of the run does not happen.
func Load(doc *scenario.Document, opt scenario.Options) (*Spec, error) {
	if err := opt.AtMost(secondsMax); err != nil {
		return nil, err
	}
	base := filepath.Base(doc.File())
	l := &loader{r: scenario.NewReader(doc), spec: &Spec{Name: strings.TrimSuffix(base, filepath.Ext(base))}}
	root := l.r.Root(fields...)
	root.Field("model").Word(KindName)
	l.fileHorizon = root.Field("horizon").FloatOr(defaultHorizonSeconds, scenario.MoreThan(0).AtMost(secondsMax))
	rate := l.readLinks(root.Field("links").OrNull())
	l.spec.Reconverge = defaultReconvergeSeconds
	if v := root.Field("routing").OrNull(); v.Present() {
		l.spec.Reconverge = v.Section("reconverge_s").Field("reconverge_s").FloatOr(defaultReconvergeSeconds,
			scenario.AtLeast(0).AtMost(secondsMax))
	}
	faults := l.readTopology(root.Field("topology"), rate)
	l.readTraffic(root.Field("traffic"))
	l.readEvents(root.Field("events").OrNull())
	l.spec.Horizon, l.spec.Series = l.fileHorizon, opt.Series
	if opt.Horizon > 0 {
		l.spec.Horizon = opt.Horizon
	}
	l.spec.Warmup, l.spec.Settles = scenario.Warmup(root, doc, opt, l.fileHorizon, 0)
	l.checkEvents(root.Field("events"))
	if err := l.problems(faults); err != nil {
		return nil, err
	}
	l.noteUnreachable()
	l.spec.Notes = append(l.r.Notes(), l.spec.Notes...)
	return l.spec, nil
}

// problems joins what is wrong with the scenario and with its topology.
func (l *loader) problems(faults scenario.Problems) error {
	var all scenario.Problems
	if err := l.r.Err(); err != nil && !errors.As(err, &all) {
		return err
	}
	if all = append(all, faults...); len(all) > 0 {
		return all
	}
	return nil
}

// readLinks reads what holds for all links, and returns the default rate.
func (l *loader) readLinks(v scenario.Value) float64 {
	l.spec.BufferPackets = defaultBufferPackets
	if !v.Present() {
		return defaultRate
	}
	s := v.Section("rate_bps", "buffer_packets", "buffer_bytes")
	l.spec.BufferPackets = s.Field("buffer_packets").IntOr(defaultBufferPackets, scenario.Between(0, bufferPacketsMax))
	l.spec.BufferBytes = s.Field("buffer_bytes").OrNull().IntOr(0, scenario.Between(1, bufferBytesMax))
	return s.Field("rate_bps").FloatOr(defaultRate, scenario.MoreThan(0).AtMost(linkRateMax))
}

// readTopology reads the GML file and returns what is wrong inside of it, or a topology in the scenario itself.
func (l *loader) readTopology(v scenario.Value, rate float64) scenario.Problems {
	if v.IsMapping() {
		if g := l.readInline(v); g != nil {
			l.layOut(v, g, "the topology", rate)
		}
		return nil
	}
	path, text := v.File()
	if path == "" {
		return nil
	}
	g, err := gml.Parse(path, text)
	if err != nil {
		var found scenario.Problems
		if !errors.As(err, &found) {
			panic(fmt.Sprintf("network: gml.Parse gave %T", err)) // it promises Problems
		}
		return found
	}
	l.layOut(v, g, path, rate)
	return nil
}

// layOut makes the network of a graph; path stands for it in messages.
func (l *loader) layOut(v scenario.Value, g *gml.Graph, path string, rate float64) {
	t, loops, err := newTopology(g, rate)
	if err != nil {
		v.Refuse(fmt.Sprintf("%s with %v", path, err), "a smaller network", "")
		return
	}
	l.spec.Topology = t
	for _, name := range loops {
		l.spec.Notes = append(l.spec.Notes,
			fmt.Sprintf("%s: the edge from %s to itself carries nothing and is left out", path, name))
	}
	l.names = make(map[string]int)
	for i := range t.Nodes {
		l.names[t.Nodes[i].Name] = i
		l.allNames = append(l.allNames, t.Nodes[i].Name)
	}
}

// node reads the name of a node; -1 where it was refused, or where there is no topology
// to look it up in.
func (l *loader) node(v scenario.Value) int {
	name := v.Text()
	if name == "" || l.spec.Topology == nil {
		return -1
	}
	if n, ok := l.names[name]; ok {
		return n
	}
	todo := scenario.Suggest(name, l.allNames)
	for i := range l.spec.Topology.Nodes {
		if p := &l.spec.Topology.Nodes[i]; todo == "" && p.Label == name {
			todo = fmt.Sprintf("several nodes have this label, or it is no good name: did you mean %q?", p.Name)
		}
	}
	v.Refuse(fmt.Sprintf("the node %q, which the topology doesn't have", name), "the label of a node", todo)
	return -1
}

// noteUnreachable notes flows that have no route even when nothing is down.
func (l *loader) noteUnreachable() {
	t := l.spec.Topology
	component := t.components()
	lost, first := 0, ""
	for _, f := range l.spec.Flows {
		if component[f.From] != component[f.To] {
			if lost++; lost == 1 {
				first = fmt.Sprintf("%s to %s", t.Nodes[f.From].Name, t.Nodes[f.To].Name)
			}
		}
	}
	if lost > 0 {
		l.spec.Notes = append(l.spec.Notes,
			fmt.Sprintf("%d of %d flows lead from one part of the network to another that is not connected with it, "+
				"the first from %s: their packets are lost for want of a route", lost, len(l.spec.Flows), first))
	}
}

// components numbers the connected components of the network, by node. Directed edges
// count both ways here: a pair that only they join may still have no route.
func (t *Topology) components() []int {
	component := make([]int, len(t.Nodes))
	for i := range component {
		component[i] = -1
	}
	next := make([][]int, len(t.Nodes))
	for i := range t.Cables {
		c := &t.Cables[i]
		next[c.A], next[c.B] = append(next[c.A], c.B), append(next[c.B], c.A)
	}
	for root, todo := 0, []int(nil); root < len(component); root++ {
		if component[root] >= 0 {
			continue
		}
		component[root] = root
		for todo = append(todo, root); len(todo) > 0; {
			at := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			for _, n := range next[at] {
				if component[n] < 0 {
					component[n] = root
					todo = append(todo, n)
				}
			}
		}
	}
	return component
}
