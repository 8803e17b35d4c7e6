// SPDX-License-Identifier: Apache-2.0

package devstone

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/state"
)

// Kind is the "devstone" kind of scenario, for a scenario.Registry.
func Kind() scenario.Kind {
	return scenario.Kind{Name: KindName, Load: scenario.Loader(Load, New), Unpack: unpack, About: about}
}

var (
	_ scenario.Packer = (*Model)(nil)
	_ scenario.Sizer  = (*Model)(nil)
)

// Model is DEVStone with its parameters: it implements scenario.Scenario. It is
// immutable.
type Model struct {
	params Params
	wiring *wiring
}

// New makes the model of parameters that Load would accept.
func New(p Params) *Model { return &Model{params: p, wiring: newWiring(p)} }

// Name is for people: type, width and depth.
func (m *Model) Name() string {
	return fmt.Sprintf("%s %s %d×%d", KindName, m.params.Type, m.params.Width, m.params.Depth)
}

// Horizon is one second after the last pulse.
func (m *Model) Horizon() float64 { return float64(m.params.Pulses) }

// Graph is one node a component, one an input that components hang on, and one for the
// generator.
func (m *Model) Graph() *node.Graph { return m.wiring.graph }

// Memory is what the components take. How many events are pending depends on the cascade and isn't counted.
func (m *Model) Memory() scenario.Memory {
	nodes, links := len(m.wiring.out), len(m.wiring.graph.Links)
	bytes := componentBytes + 4*links/nodes
	if n := m.windows(); n > 0 {
		bytes += measure.WindowBytes(n, fields)
	}
	return scenario.Memory{NodeBytes: bytes, EventBytes: stepBytes,
		PackedBytes: int64(nodes*(8+itemBytesMin) + 4*links)}
}

// componentBytes is what a component with few links takes, and the steps that it remembers.
const componentBytes = 200

// NewHandler makes the generator or a component.
func (m *Model) NewHandler(p *node.Simproc) (node.Handler, error) {
	return newHandler(p, m.wiring.input[p.NodeIndex()], m.wiring.out[p.NodeIndex()], m.windows())
}

// windows is how many of them a component has, for time series; 0: there are none.
func (m *Model) windows() int {
	if !m.params.Series {
		return 0
	}
	return measure.WindowCount(fields * len(m.wiring.out))
}

// newHandler makes the generator, an input or a component, whose output reaches targets.
func newHandler(p *node.Simproc, input bool, targets []int, windows int) (node.Handler, error) {
	links := make([]node.LinkID, len(targets))
	for i, to := range targets {
		l, err := p.LinkTo(node.Endpoint{Node: to})
		if err != nil {
			return nil, err
		}
		links[i] = l
	}
	if p.NodeIndex() == 0 {
		return &generator{links: links}, nil
	}
	a := &atomic{links: links, component: 1}
	if input {
		a.component = 0
	}
	if windows > 0 {
		return &watched{a, measure.NewWindows(p.Horizon(), windows, fields)}, nil
	}
	return a, nil
}

// stepBytes is the size of an event: the number of components that the cascade has
// come through on its way, which is the order of what happens at one epoch.
const stepBytes = 4

// generator sets off one cascade a second.
type generator struct {
	links []node.LinkID
	data  [stepBytes]byte // step 0
}

// Handle sends step 0 to everything that the outermost input reaches.
func (g *generator) Handle(p *node.Simproc, _ []node.Event) error {
	for _, l := range g.links {
		if err := p.Send(l, p.Now(), g.data[:]); err != nil {
			return err
		}
	}
	return p.Wakeup(p.Now() + 1)
}

// atomic is one component: it takes no time, and makes one output for every step at
// which there is input. An input of a coupled model does the same without taking a
// step.
type atomic struct {
	links       []node.LinkID
	component   uint32 // 1 for a component, 0 for an input: the steps to the output
	transitions uint64
	messages    uint64
	seen        []uint64 // by step: the call, counted from 1, that had it last
	calls       uint64
	steps       []uint32 // of the call at hand
	data        [stepBytes]byte
}

// Handle gets all input of one epoch, at whatever steps. The engine's order of work
// within an epoch guarantees that nothing is still to come.
func (a *atomic) Handle(p *node.Simproc, events []node.Event) error {
	if len(events) == 0 {
		return nil // the call at epoch 0
	}
	a.calls++
	a.messages += uint64(len(events))
	a.steps = a.steps[:0]
	for i := range events {
		step := binary.LittleEndian.Uint32(events[i].Data)
		for int(step) >= len(a.seen) {
			a.seen = append(a.seen, 0)
		}
		if a.seen[step] != a.calls {
			a.seen[step] = a.calls
			a.steps = append(a.steps, step)
		}
	}
	slices.Sort(a.steps)
	a.transitions += uint64(len(a.steps)) * uint64(a.component)
	for _, step := range a.steps {
		binary.LittleEndian.PutUint32(a.data[:], step+a.component)
		for _, l := range a.links {
			if err := p.Send(l, p.Now(), a.data[:]); err != nil {
				return err
			}
		}
	}
	return nil
}

// StateVersion is that of State.
func (a *atomic) StateVersion() uint32 { return 1 }

// State is what the component has counted, and when it last had which step.
func (a *atomic) State(_ *node.Simproc, c *state.Codec) {
	c.Uint64(&a.transitions)
	c.Uint64(&a.messages)
	state.Words(c, &a.seen)
	c.Uint64(&a.calls)
}

// StateVersion is that of State.
func (g *generator) StateVersion() uint32 { return 1 }

// State is nothing: a generator does the same each second.
func (g *generator) State(*node.Simproc, *state.Codec) {}

// reportBytes is the size of a component's report: transitions, messages.
const reportBytes = 16

// Report is what the component has counted.
func (a *atomic) Report(*node.Simproc) ([]byte, error) {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, reportBytes), a.transitions)
	return binary.LittleEndian.AppendUint64(b, a.messages), nil
}
