// SPDX-License-Identifier: Apache-2.0

package service

import (
	"bytes"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/model/modeltest"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/state"
)

// TestResumeExamples: each example goes on from what was saved anywhere in it, to the bit.
func TestResumeExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yml")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, file := range files {
		doc, err := scenario.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if text := string(doc.Text()); !strings.Contains(text, "rqs_input") {
			continue
		}
		s, err := Kind().Load(doc, scenario.Options{Horizon: float64(fewer(300))})
		if err != nil {
			t.Fatal(err)
		}
		modeltest.ResumeEverywhere(t, s, 1)
		tried++
	}
	if tried < 3 {
		t.Errorf("%d examples of this kind, want shop.yml, mini.yml and md1.yml at least", tried)
	}
}

// TestResume: of both kinds of balancers, with every distribution, several endpoints, memory that requests wait for,
// losses, outages and spikes; damaged states are refused, or are as good as others.
func TestResume(t *testing.T) {
	for k, algorithm := range []string{RoundRobin, LeastConnection} {
		s := metricsSpec(algorithm)
		modeltest.ResumeEverywhere(t, newModel(s), uint64(k))
		s = metricsSpec(algorithm)
		s.Settings.Horizon = 12
		modeltest.DamagedStates(t, newModel(s), uint64(k))
	}
}

// resumeAt runs a scenario up to an end, and saves it.
func resumeAt(t testing.TB, m *Model, end float64) *node.Resume {
	t.Helper()
	e := newEngine(t, m, 1, 0, nil)
	e.SetUntil(end)
	if _, err := e.Run(math.MaxInt, math.Inf(1)); err != nil {
		t.Fatal(err)
	}
	nodes, pending := make([][]byte, m.Graph().Len()), make(map[int][]byte)
	for n := range nodes {
		var err error
		if nodes[n], err = e.AppendNode(nil, n); err != nil {
			t.Fatal(err)
		}
	}
	err := e.EachPending(func(n int, encoded []byte) error {
		pending[n] = bytes.Clone(encoded)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return &node.Resume{Epoch: end, Each: func(node, wait func(n int, encoded []byte) error) error {
		for n := range nodes {
			if err := node(n, nodes[n]); err != nil {
				return err
			}
			if p := pending[n]; p == nil {
				continue
			} else if err := wait(n, p); err != nil {
				return err
			}
		}
		return nil
	}}
}

// resumed begins with what another scenario has left.
func resumed(t testing.TB, m *Model, from *node.Resume) (*node.Engine, error) {
	t.Helper()
	plan, err := node.NewPlan(m.Graph(), make([]int32, m.Graph().Len()), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	return node.NewEngine(plan, node.Config{Model: m, Seed: 1, Horizon: m.Horizon(), Resume: from})
}

// crowded has one server that more requests come to than it can serve: cores, or memory for so many, are what it lacks.
func crowded(cores int, memory float64) *Model {
	return newModel(tandem(100, 60, oneEndpoint("a", cores, memory, 10, cpu(constant(0.2)), sleep(constant(0.3)))))
}

// TestOtherServer: a state goes on with more cores or memory, which those that wait take up, and isn't taken by a
// server that has less than is in use.
func TestOtherServer(t *testing.T) {
	few, little := resumeAt(t, crowded(4, 1e6), 20), resumeAt(t, crowded(100, 100), 20)
	for _, c := range []struct {
		from          *node.Resume
		cores, memory int
		want          string
		passed        int64 // at least, of 6,000 in all
	}{
		{few, 4, 1e6, "", 4*5*60 - 60},
		{few, 100, 1e6, "", 5700},
		{little, 100, 100, "", 10*2*60 - 60},
		{little, 100, 1e6, "", 5700},
		{few, 3, 1e6, "found 4 cores and ", 0},
		{little, 100, 90, "and 100 MB of memory in use, want at most 100 and 90: what the server has", 0},
	} {
		e, err := resumed(t, crowded(c.cores, float64(c.memory)), c.from)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%d cores, %d MB: %v, want %q", c.cores, c.memory, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Run(math.MaxInt, math.Inf(1)); err != nil {
			t.Fatal(err)
		}
		m := crowded(c.cores, float64(c.memory))
		s := summarize(t, m, []scenario.Replication{reportOf(t, m, e, 0, m.Horizon())}).Server("a")
		if s.Completed < c.passed {
			t.Errorf("%d cores, %d MB: %d requests are served, want at least %d", c.cores, c.memory, s.Completed,
				c.passed)
		}
	}
}

// keptModel notes the handlers that it makes, by name.
type keptModel struct {
	*Model
	boxes map[string]node.Saver
	procs map[string]*node.Simproc
}

func keep(m *Model) keptModel {
	return keptModel{m, make(map[string]node.Saver), make(map[string]*node.Simproc)}
}

func (k keptModel) NewHandler(p *node.Simproc) (node.Handler, error) {
	h, err := k.Model.NewHandler(p)
	k.boxes[p.Name()], k.procs[p.Name()] = h.(node.Saver), p
	return h, err
}

// taken is a slot of a server that isn't free.
func taken(b node.Saver) *slot {
	s := b.(*server)
	free := make(map[int32]bool)
	for i := s.free; i != 0; i = s.slots[i-1].next {
		free[i-1] = true
	}
	for i := range s.slots {
		if !free[int32(i)] {
			return &s.slots[i]
		}
	}
	panic("all slots are free")
}

// TestStateRefused: what can't be a state of a box is refused, and says what is wrong.
func TestStateRefused(t *testing.T) {
	spec := func() *Model {
		s := metricsSpec(RoundRobin)
		s.Edges[3].Latency = exponential(2) // of server a, so that several requests are on it
		return newModel(s)
	}
	for _, c := range []struct {
		name   string
		change func(b node.Saver) // in memory; nil: of the bytes
		bytes  func(b []byte)
		want   string
	}{
		{"a/request", func(b node.Saver) { b.(*server).passed = -1 }, nil, "found -1 requests, want at least 0"},
		{"a/request", func(b node.Saver) { b.(*server).gauges.ticks.next = 0 }, nil, "found tick 0, want 1 or one"},
		{"a/request", func(b node.Saver) { b.(*server).gauges.ticks.next = 1e9 }, nil, "forerunner is before 30"},
		{"a/request", func(b node.Saver) { b.(*server).free = 1e6 }, nil, "found slot 999999 in list 1, want one of"},
		{"a/request", func(b node.Saver) { s := b.(*server); s.ready.head = s.free }, nil, "that is in no list"},
		{"a/request", func(b node.Saver) { taken(b).endpoint = 3 }, nil, "want a burst of 3 endpoints"},
		{"a/request", func(b node.Saver) { taken(b).arrived = 29 }, nil, "found in slot "},
		{"a/request", func(b node.Saver) { q := taken(b); q.core = !q.core }, nil, "found in slot "},
		{"a/request", func(b node.Saver) { x := b.(*server).out.under(); x[0], x[1] = x[1], x[0] }, nil,
			"before one that arrives earlier"},
		{"a/request", func(b node.Saver) { b.(*server).out.under()[0].Key = math.NaN() }, nil,
			"found a request on edge 0 "},
		{"lb/request", func(b node.Saver) { b.(*balancer).out.under()[0].Value.edge = 3 }, nil, "want one of 3 edges"},
		{"lb/request", func(b node.Saver) { b.(*balancer).out.accounts[0].dropped = -2 }, nil, "found -2 requests"},
		{"lb/request", nil, func(b []byte) { b[len(b)-1] = 0x80 }, "found the live edges ["},
		{"lb/request", nil, func(b []byte) { copy(b[len(b)-4:], b[len(b)-8:]) }, "want different ones of 3"},
		{"gen/request", func(b node.Saver) { b.(*generator).due = 1 }, nil, "the next at 1, in window "},
		{"gen/request", func(b node.Saver) { b.(*generator).windows = 0 }, nil, "in window 0, which ends at 0"},
		{"gen/request", func(b node.Saver) { b.(*generator).active = math.NaN() }, nil, "found NaN users"},
		{"client/request", nil, func(b []byte) { b[4] ^= 1 }, "can't go on with what the other one has saved"},
		{"client/response", func(b node.Saver) { r := b.(*collector).recorder; r.encoded = r.encoded[1:] }, nil,
			"found latencies that can't be read: measure: "},
		{"client/response", func(b node.Saver) { r := b.(*collector).recorder; r.encoded = append(r.encoded, 0) }, nil,
			"found 1 bytes behind the latencies of "},
	} {
		one, other := keep(spec()), keep(spec())
		e := newEngine(t, one, 1, 0, nil)
		e.SetUntil(14)
		if _, err := e.Run(math.MaxInt, math.Inf(1)); err != nil {
			t.Fatal(err)
		}
		newEngine(t, other, 1, 0, nil)
		p, b := one.procs[c.name], one.boxes[c.name]
		fields := func(b node.Saver) func(*state.Codec) { return func(c *state.Codec) { b.State(p, c) } }
		encoded, err := state.Append(nil, b.StateVersion(), fields(b)) // settles the accounts
		if err == nil && c.change != nil {
			c.change(b)
			encoded, err = state.Append(nil, b.StateVersion(), fields(b))
		} else if err == nil {
			c.bytes(encoded)
		}
		if err == nil {
			err = state.Decode(encoded, b.StateVersion(), false, fields(other.boxes[c.name]))
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// TestVaries: which settings of a file may change under a state, each of which a run goes on with; the others are
// refused where they stand.
func TestVaries(t *testing.T) {
	before, err := scenario.ReadFile("../../examples/shop.yml")
	if err != nil {
		t.Fatal(err)
	}
	opt := scenario.Options{Horizon: 66}
	load := func(doc *scenario.Document) *Model {
		m, err := Kind().Load(doc, opt)
		if err != nil {
			t.Fatal(err)
		}
		return m.(*Model)
	}
	from := resumeAt(t, load(before), 63) // while a server is down
	const web = "topology_graph.nodes.servers.web-1."
	const step = web + "endpoints[0].steps[2].step_operation"
	for _, c := range []struct{ key, value, want string }{
		{"rqs_input.avg_active_users", "{ mean: 9000, distribution: normal, variance: 100 }", ""},
		{"rqs_input.avg_request_per_minute_per_user.mean", "10", ""},
		{web + "server_resources.cpu_cores", "8", ""},
		{web + "server_resources.ram_mb", "16384", ""},
		{web + "endpoints[0].steps[0].step_operation.necessary_ram", "32", ""},
		{web + "endpoints[0].steps[1].step_operation.cpu_time", "0.001", ""},
		{step + ".io_waiting_time", "{ mean: 0.1, distribution: log_normal }", ""},
		{"topology_graph.edges[0].latency", "{ mean: 0.1, distribution: normal, variance: 0.01 }", ""},
		{"topology_graph.edges[0].dropout_rate", "0.5", ""},
		{"topology_graph.edges[1].dropout_rate", "0", ""},
		{"events[1].start.spike_s", "0.2", ""},

		{step + ".io_waiting_time", "0.1", "servers[0].endpoints[0].steps[2].step_operation.io_waiting_time: found " +
			"0.1, want a mapping, as in the run that was saved"},
		{step, "{ io_waiting_time: 0.1 }", "step_operation.io_waiting_time: found 0.1"},
		{web + "endpoints[0].steps[2].kind", "io_db", `steps[2].kind: found the text "io_db", want the text "io_c`},
		{web + "endpoints[0].steps", "[]", "endpoints[0].steps: found a list of 0, want one of 4"},
		{web + "id", "web-0", `servers[0].id: found the text "web-0"`},
		{"topology_graph.nodes.load_balancers.front.algorithms", "least_connection", "balancers[0].algorithms: found"},
		{"topology_graph.edges[0].target", "front", "topology_graph.edges[0].target: found"},
		{"rqs_input.user_sampling_window", "30", "rqs_input.user_sampling_window: found 30, want 60"},
		{"sim_settings.total_simulation_time", "900", "sim_settings.total_simulation_time: found 900, want 600"},
		{"sim_settings.sample_period_s", "0.02", "sim_settings.sample_period_s: found 0.02"},
		{"events[0].end.t_end", "400", "events[0].end.t_end: found 400"},
		{"events", "[]", "events: found a list of 0, want one of"},
	} {
		after, err := before.With([]scenario.Setting{{Key: c.key, Value: c.value}})
		if err != nil {
			t.Fatal(err)
		}
		switch err := Kind().Varies(before, after); {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s=%s: %v, want %q", c.key, c.value, err, c.want)
		case c.want == "" && err != nil:
			t.Errorf("%s=%s: %v", c.key, c.value, err)
		case c.want == "":
			e, err := resumed(t, load(after), from)
			if err == nil {
				_, err = e.Run(math.MaxInt, math.Inf(1))
			}
			if err == nil {
				_, err = e.Report(opt.Horizon)
			}
			if err != nil {
				t.Errorf("%s=%s: %v", c.key, c.value, err)
			}
		}
	}
}
