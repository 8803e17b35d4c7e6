// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/external"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
	"github.com/disco-sim/disco/state"
)

// drift is what the nodes of the model "drift" use beside their input: a fault, which differs from run to run.
var drift struct {
	sent  float64 // from this epoch on node 1 sends other data; 0: never
	state float64 // from this epoch on node 2 counts otherwise, which nobody sees; 0: never
	more  float64 // at this epoch node 1 sends node 0 an event more; 0: never
	turns float64 // at this epoch node 1 sends other data in each second run; 0: never
	turn  uint64  // of node 1
	asks  float64 // from this epoch on node 2 asks the outside world about the last event that it got; 0: never
}

// driftScenario is three nodes that send each other an event each second.
type driftScenario struct{}

func drifting() scenario.Kind {
	return scenario.Kind{Name: "drift", Load: func(*scenario.Document, scenario.Options) (
		scenario.Scenario, error) {
		return driftScenario{}, nil
	}}
}

func (driftScenario) Name() string     { return "drift" }
func (driftScenario) Horizon() float64 { return 20 }
func (driftScenario) Graph() *node.Graph {
	g := &node.Graph{Simprocs: []string{"main"}}
	for i := range 3 {
		g.Nodes = append(g.Nodes, node.Node{Name: fmt.Sprintf("d%d", i)})
		g.Links = append(g.Links, node.Link{From: node.Endpoint{Node: i}, To: node.Endpoint{Node: (i + 1) % 3},
			Lookahead: 0.5})
	}
	g.Links = append(g.Links, node.Link{From: node.Endpoint{Node: 1}, To: node.Endpoint{}, Lookahead: 0.25})
	return g
}

func (driftScenario) Accumulate() scenario.Accumulator { return driftResults{} }

func (driftScenario) NewHandler(p *node.Simproc) (node.Handler, error) {
	h := &driftHandler{}
	var err error
	if h.next, err = p.LinkTo(node.Endpoint{Node: (p.NodeIndex() + 1) % 3}); err == nil && p.NodeIndex() == 1 {
		h.back, err = p.LinkTo(node.Endpoint{})
	}
	if err == nil && drift.asks > 0 {
		h.oracle, err = p.ExternalNamed("oracle")
	}
	return h, err
}

// Externals implements scenario.Asker.
func (driftScenario) Externals() []external.External {
	if drift.asks == 0 {
		return nil
	}
	return []external.External{{Name: "oracle", Ask: func(_ context.Context, call *external.Call) ([]byte, error) {
		return call.Request, nil
	}}}
}

type driftHandler struct {
	next, back node.LinkID
	oracle     node.ExternalID
	count      uint64
	last       []byte // that node 2 got
}

func (h *driftHandler) Handle(p *node.Simproc, events []node.Event) error {
	h.count += uint64(len(events))
	for i := range events {
		h.last = bytes.Clone(events[i].Data)
	}
	if drift.asks > 0 && p.Now() >= drift.asks && p.NodeIndex() == 2 {
		if _, err := p.External(h.oracle, h.last); err != nil {
			return err
		}
	}
	if drift.state > 0 && p.Now() >= drift.state && p.NodeIndex() == 2 {
		h.count += 1000
	}
	if !p.Woken() && p.Now() > 0 {
		return nil
	}
	value := uint64(p.Now())
	if drift.sent > 0 && p.Now() >= drift.sent && p.NodeIndex() == 1 {
		value++
	}
	if drift.turns > 0 && p.Now() == drift.turns && p.NodeIndex() == 1 {
		value += drift.turn % 2
		drift.turn++
	}
	if drift.more > 0 && p.Now() == drift.more && p.NodeIndex() == 1 {
		if err := p.Send(h.back, p.Now()+0.25, nil); err != nil {
			return err
		}
	}
	if err := p.Send(h.next, p.Now()+0.5, binary.LittleEndian.AppendUint64(nil, value)); err != nil {
		return err
	}
	return p.Wakeup(p.Now() + 1)
}

// Report implements node.Reporter.
func (h *driftHandler) Report(*node.Simproc) ([]byte, error) {
	return binary.LittleEndian.AppendUint64(nil, h.count), nil
}

func (h *driftHandler) StateVersion() uint32 { return 1 }
func (h *driftHandler) State(_ *node.Simproc, c *state.Codec) {
	c.Uint64(&h.count)
	if drift.asks > 0 {
		c.Bytes(&h.last)
	}
}

type driftResults struct{}

func (driftResults) Add(scenario.Replication) error     { return nil }
func (driftResults) Summary() (scenario.Summary, error) { return driftSummary{}, nil }

type driftSummary struct{}

func (driftSummary) WriteText(w io.Writer) error {
	_, err := io.WriteString(w, "done\n")
	return err
}

// recordDrift runs the model with a journal and these flags, and gives the place of its checkpoints.
func recordDrift(t *testing.T, kind scenario.Kind, flags ...string) (store string) {
	t.Helper()
	dir := t.TempDir()
	file, store := filepath.Join(dir, "drift.yml"), filepath.Join(dir, "store")
	if err := os.WriteFile(file, []byte("model: drift\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"disco-run", "run", file, "--transport", "inproc", "--checkpoint-to", store,
		"--replayable"}, flags...)
	if status := Run(args, strings.NewReader(""), &bytes.Buffer{}, os.Stderr, kind); status != ExitOK {
		t.Fatalf("the run ends with %d", status)
	}
	return store
}

// replayed runs `replay` and gives its exit status and what it has printed.
func replayed(kind scenario.Kind, args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = Run(append([]string{"disco-run", "replay"}, args...), strings.NewReader(""), &out, &errs, kind)
	return status, out.String(), errs.String()
}

// A run with a journal is replayed from its begin and from any of its checkpoints, over any number of workers, and all
// is equal; also one that was resumed over other workers, whose journal has each call once.
func TestReplayDir(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tiny.yml")
	if err := os.WriteFile(file, []byte(launchtest.Scenario(4, 20, "")), 0o666); err != nil {
		t.Fatal(err)
	}
	kind := launchtest.Kind()
	for i, spread := range []string{"nodes", "replications"} {
		store := filepath.Join(dir, fmt.Sprint("store", i))
		run := runSaved(t, kind, "run", file, "--replications", "2", "--workers", "2", "--spread", spread,
			"--checkpoint-to", store, "--checkpoint-at", "4", "--checkpoint-at", "8", "--checkpoint-at", "10=half",
			"--keep", "9", "--replayable")
		runSaved(t, kind, "resume", store, "--at", "half", "--workers", "3", "--checkpoint-every", "3")
		for _, c := range []struct {
			args string
			all  bool
		}{
			{"", true}, {"--workers 3", true}, {"--transport inproc --workers 2 --sync link --spread nodes", true},
			{"--at half --workers 2", false}, {"--at 8 --until 13.5 --workers 2 --spread replications", false},
			{"--at latest --ingress goroutine --workers 2 --spread nodes", false},
		} {
			status, out, errs := replayed(kind, append([]string{store}, strings.Fields(c.args)...)...)
			if status != ExitOK || !strings.Contains(out, "\nequal: ") || !strings.Contains(out, " in 2 replications") {
				t.Fatalf("spread %s, %q: exit status %d: %s%s", spread, c.args, status, out, errs)
			}
			if want := fmt.Sprintf("equal: %d calls of handlers and ", run.Activations); c.all !=
				strings.Contains(strings.ReplaceAll(out, ",", ""), want) {
				t.Errorf("spread %s, %q: %s, want all %d calls: %v", spread, c.args, out, run.Activations, c.all)
			}
		}
	}
}

// A model that depends on more than its input is found at the very call that gets something else, over any number of
// workers; and one whose state alone differs at the next checkpoint.
func TestReplayFinds(t *testing.T) {
	defer func() { drift.sent, drift.state, drift.more = 0, 0, 0 }()
	kind := drifting()
	store := recordDrift(t, kind, "--checkpoint-at", "5", "--checkpoint-at", "10", "--checkpoint-at", "15")
	for _, c := range []struct {
		sent, state, more float64
		args              string
		want              []string
	}{
		{0, 0, 0, "", []string{"equal: 120 calls of handlers and 9 states of nodes compared, in 1 replication, " +
			"and the results of 1 replication that ended\n"}},
		{7, 0, 0, "", []string{"the first call that differs is of d2/main at 7.5 s, replication 0\n",
			"recorded   hash ",
			"in replay  hash ",
			"\nin two more replays from the checkpoint at 5 s, over ",
			"\n      got  event 7 of d1/main: 08 00 00 00 00 00 00 00\n",
			"\nstate of node d2 right behind it; A: over ",
			"\n    now                  7.5 s                                 7.5 s\n",
			"\nstate of node d2 at the next recorded checkpoint, 10 s; A: as recorded; B: in the replay over ",
			"\n  ≠ hash  ", "--print node=NAME,until=7.5`"}},
		{16, 0, 0, "", []string{"is of d2/main at 16.5 s", "\nin two more replays from the checkpoint at 15 s, over ",
			"\nnot known: the recorded state,"}},
		{1, 0, 0, "", []string{"is of d2/main at 1.5 s", "\nin two more replays from the begin, over "}},
		{7, 0, 0, "--at 5", []string{"is of d2/main at 7.5 s"}},
		{7, 0, 0, "--until 7.5", []string{"equal: "}},
		{0, 0, 12, "", []string{
			"DIFFERENT: this run has a call that the recorded one hasn't, of d0/main at 12.25 s, replication 0\n",
			"\nevent 12 of d1/main is sent, in the replay, by its call at 12 s", "got  event 12 of d1/main: no data\n",
			"≠ handler              8 B, from 0: [0f] 00"}},
		{0, 6.5, 0, "", []string{"DIFFERENT states at 10 s, replication 0", "1 node of 3 nodes",
			"node 2 (d2)", "≠ handler"}},
		{0, 16, 0, "", []string{"DIFFERENT results of replication 0, though all calls of it are equal: of 1 simproc " +
			"of 3, the first of them d2/main\nrecorded   8 B, from 0: [14] 00 ",
			"\nin replay  8 B, from 0: [54] 1f "}},
		{0, 16, 0, "--at 15", []string{"DIFFERENT results of replication 0"}},
		{0, 16, 0, "--until 19.5", []string{"equal: ", " in 1 replication\n"}},
	} {
		drift.sent, drift.state, drift.more = c.sent, c.state, c.more
		for _, workers := range []string{"1", "2", "3"} {
			args := append([]string{store, "--transport", "inproc", "--workers", workers}, strings.Fields(c.args)...)
			status, out, errs := replayed(kind, args...)
			equal := strings.HasPrefix(c.want[0], "equal")
			if (status == ExitOK) != equal || !equal && status != ExitFailed {
				t.Errorf("%v: exit status %d: %s%s", args, status, out, errs)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("%+v: %v: %q isn't in %s%s", drift, args, want, out, errs)
				}
			}
		}
	}
}

// A run that has no checkpoint, but its end, is compared in its calls and in its results.
func TestReplayFindsResults(t *testing.T) {
	defer func() { drift.state = 0 }()
	kind := drifting()
	store := recordDrift(t, kind, "--replications", "2")
	for _, spread := range []string{"nodes", "replications"} {
		for epoch, want := range map[float64]string{
			0:  "in 2 replications, and the results of 2 replications that ended\n",
			19: "DIFFERENT results of replication 0, though all calls of it are equal: of 1 simproc of 3, the first of",
		} {
			drift.state = epoch
			status, out, errs := replayed(kind, store, "--transport", "inproc", "--workers", "2", "--spread", spread)
			if status != map[bool]int{true: ExitOK, false: ExitFailed}[epoch == 0] || !strings.Contains(out, want) {
				t.Errorf("state %v, spread %s: exit status %d, want %q in %s%s", epoch, spread, status, want, out, errs)
			}
		}
	}
}

// Where a call of the outside world isn't as recorded, the calls before it are compared first: what they differ in is
// the first difference, and else it is that call.
func TestReplayBeforeAsked(t *testing.T) {
	defer func() { drift.sent, drift.asks = 0, 0 }()
	kind := drifting()
	drift.asks = 12
	store := recordDrift(t, kind, "--replications", "2")
	for _, c := range []struct {
		sent, asks float64
		want       []string
	}{
		{0, 12, []string{"equal: "}},
		{7, 12, []string{"DIFFERENT: the first call that differs is of d2/main at 7.5 s, replication 0",
			"; behind that, ", "replay mismatch: replication 0, d2/main at epoch 12, call 0: found another request"}},
		{12, 12, []string{"replay mismatch: replication 0, d2/main at epoch 12.5, call 0: found another request",
			" calls of handlers before 12.5 s compared, and equal: the call itself is the first that isn't as"}},
		{0, 11, []string{"d2/main at epoch 11, call 0: found no recorded answer of external",
			" calls of handlers before 11 s compared, and equal: the call itself is the first that isn't as"}},
		{9, 11, []string{"DIFFERENT: the first call that differs is of d2/main at 9.5 s, replication 0",
			"; behind that, ", "found no recorded answer of external"}},
	} {
		drift.sent, drift.asks = c.sent, c.asks
		for _, workers := range []string{"1", "2"} {
			status, out, errs := replayed(kind, store, "--transport", "inproc", "--workers", workers,
				"--spread", "nodes")
			for _, want := range c.want {
				equal := c.want[0] == "equal: "
				if (status == ExitOK) != equal || !equal && status != ExitFailed || !strings.Contains(out+errs, want) {
					t.Errorf("%+v: %s workers: exit status %d, want %q in %s%s", c, workers, status, want, out, errs)
				}
			}
			if names, err := filepath.Glob("disco-crash-*"); err != nil || len(names) > 0 {
				t.Fatalf("%+v: %v, %v", c, names, err)
			}
		}
	}
}

// A variant of a run is replayed from the checkpoint that it began with, which is copied, and from its own ones, also
// when it was resumed; what differs is found there.
func TestReplayOfVariants(t *testing.T) {
	defer func() { drift.sent = 0 }()
	kind := drifting()
	was, store := recordDrift(t, kind, "--checkpoint-at", "5"), filepath.Join(t.TempDir(), "variants")
	runSaved(t, kind, "resume", was, "--at", "5", "--transport", "inproc", "--workers", "2", "--replications", "3",
		"--checkpoint-to", store, "--checkpoint-at", "10", "--replayable")
	if err := os.RemoveAll(was); err != nil { // it isn't needed any more
		t.Fatal(err)
	}
	runSaved(t, kind, "resume", store, "--at", "10", "--transport", "inproc", "--workers", "3", "--checkpoint-at", "15")
	for _, c := range []struct {
		sent float64
		args string
		want []string
	}{
		{0, "", []string{"equal: ", "and 18 states of nodes compared, in 3 replications, and the results of 3"}},
		{0, "--at 5 --workers 3", []string{"and 18 states of nodes compared, in 3 replications"}},
		{0, "--at 10 --workers 2", []string{"and 9 states of nodes compared, in 3 replications"}},
		{7, "", []string{"the first call that differs is of d2/main at 7.5 s, replication 0",
			"\nin two more replays from the checkpoint at 5 s, over "}},
		{12, "--workers 2", []string{"the first call that differs is of d2/main at 12.5 s, replication 0",
			"\nin two more replays from the checkpoint at 10 s, over "}},
	} {
		drift.sent = c.sent
		args := append([]string{store, "--transport", "inproc"}, strings.Fields(c.args)...)
		status, out, errs := replayed(kind, args...)
		for _, want := range c.want {
			if (status == ExitOK) != (c.sent == 0) || !strings.Contains(out, want) {
				t.Errorf("%+v: exit status %d, want %q in %s%s", c, status, want, out, errs)
			}
		}
	}
	verified := loads(t, kind, ExitOK, "checkpoints", "verify", store, "--load", "--transport", "inproc")
	if !verified.Good || len(verified.Checkpoints) != 10 {
		t.Errorf("%+v, want the begin, three ends, and two of each replication", verified)
	}
}

// Where the recorded run has a trace, the call that differs is shown as it was, event by event beside the replay's, and
// one that only that run has by its name.
func TestReplayShowsTrace(t *testing.T) {
	defer func() { drift.sent, drift.more = 0, 0 }()
	kind := drifting()
	drift.more = 12
	store := recordDrift(t, kind, "--workers", "2", "--checkpoint-at", "10", "--checkpoint-at", "15", "--trace",
		filepath.Join(t.TempDir(), "trace"))
	for _, c := range []struct {
		sent, more float64
		want       []string
	}{
		{7, 12, []string{"the first call that differs is of d2/main at 7.5 s",
			"\nas recorded, in the trace of that run\n      got  event 7 of d1/main: 8 bytes, hash ",
			", other data than in the replay\n",
			"\nevent 7 of d1/main is sent, in the replay, by its call at 7 s: that is the one to look at"}},
		{0, 0, []string{"DIFFERENT: the recorded run has a call that this one hasn't",
			"\nthe trace of that run has a call there that this one hasn't, of d0/main at 12.25 s\n",
			"      there is no such call\n",
			"\n      got  event 12 of d1/main: 0 bytes, hash ", ", which the replay hasn't\n",
			"\nevent 12 of d1/main is sent, in the replay, by its call at 12 s"}},
		{0, 13, []string{"\nthe trace of that run has a call there that this one hasn't, of d0/main at 12.25 s\n"}},
	} {
		drift.sent, drift.more = c.sent, c.more
		for _, workers := range []string{"1", "2"} {
			status, out, errs := replayed(kind, store, "--transport", "inproc", "--workers", workers)
			for _, want := range c.want {
				if status != ExitFailed || !strings.Contains(out, want) {
					t.Errorf("%s workers: exit status %d, want %q in %s%s", workers, status, want, out, errs)
				}
			}
		}
	}
}

// A call that only the recorded run has is named by the calls around it, and by what its simproc does next.
func TestReplayFindsMissing(t *testing.T) {
	defer func() { drift.more = 0 }()
	kind := drifting()
	drift.more = 12
	store := recordDrift(t, kind, "--workers", "1", "--checkpoint-at", "10", "--checkpoint-at", "15")
	drift.more = 0
	for _, workers := range []string{"1", "2"} {
		status, out, errs := replayed(kind, store, "--transport", "inproc", "--workers", workers)
		for _, want := range []string{"DIFFERENT: the recorded run has a call that this one hasn't, behind that of " +
			"d2/main at 12 s, before that of d0/main at 12.5 s, replication 0\n",
			"the next call there that differs is d0/main at 12.5 s: its simproc may be the one that lacks a call\n",
			"\nin two more replays from the checkpoint at 10 s, over ",
			"\n      got  event 12 of d2/main: 0c 00", "≠ handler              8 B, from 0: [10] 00"} {
			if status != ExitFailed || !strings.Contains(out, want) {
				t.Errorf("%s workers: exit status %d, want %q in %s%s", workers, status, want, out, errs)
			}
		}
	}
}

// A replay that is to begin with a checkpoint over which the journal wasn't made begins with the one before.
func TestReplayBeginsBefore(t *testing.T) {
	dir := t.TempDir()
	file, store := filepath.Join(dir, "tiny.yml"), filepath.Join(dir, "store")
	if err := os.WriteFile(file, []byte(launchtest.Scenario(4, 20, "")), 0o666); err != nil {
		t.Fatal(err)
	}
	kind := launchtest.Kind()
	runSaved(t, kind, "run", file, "--checkpoint-to", store, "--checkpoint-at", "4", "--replayable")
	runSaved(t, kind, "resume", store, "--at", "4", "--checkpoint-at", "6", "--keep", "9")
	for at, want := range map[string]string{"4": "", "6": "\nreplication 0 begins at 4 s: the journal that is " +
		"compared wasn't made over the checkpoint at 6 s"} {
		status, out, errs := replayed(kind, store, "--at", at)
		if status != ExitOK || !strings.Contains(out, "\nequal: ") || !strings.Contains(out, want) ||
			want == "" && strings.Contains(out, "begins") {
			t.Errorf("--at %s: exit status %d, want %q in %s%s", at, status, want, out, errs)
		}
	}
}

// A model that isn't the same each time is shown as each of the replays has it; one that does again what is recorded is
// named.
func TestReplayFindsChance(t *testing.T) {
	defer func() { drift.turns, drift.turn = 0, 0 }()
	kind := drifting()
	drift.turns = 7
	store := recordDrift(t, kind, "--checkpoint-at", "5")
	args := []string{store, "--transport", "inproc", "--workers", "2"}
	status, out, errs := replayed(kind, args...)
	for _, want := range []string{"the first call that differs is of d2/main at 7.5 s",
		"\nin one more replay from the checkpoint at 5 s, over 2 workers\n      got  event 7 of d1/main: 07 00",
		"\nin one more replay from the checkpoint at 5 s, over 1 worker\n      got  event 7 of d1/main: 08 00",
		"\nover 2 workers the call is as recorded: it isn't the same each time\n"} {
		if status != ExitFailed || !strings.Contains(out, want) {
			t.Fatalf("exit status %d, want %q in %s%s", status, want, out, errs)
		}
	}
}

// What can't be replayed is refused before anything is run, and what is damaged is named.
func TestReplayDirRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tiny.yml")
	if err := os.WriteFile(file, []byte(launchtest.Scenario(4, 20, "")), 0o666); err != nil {
		t.Fatal(err)
	}
	kind := launchtest.Kind()
	plain, store := filepath.Join(dir, "plain"), filepath.Join(dir, "store")
	runSaved(t, kind, "run", file, "--checkpoint-to", plain, "--checkpoint-at", "9")
	runSaved(t, kind, "run", file, "--checkpoint-to", store, "--checkpoint-at", "9", "--replayable")
	early := filepath.Join(dir, "early") // killed before its first checkpoint
	err := os.CopyFS(early, os.DirFS(store))
	if err = errors.Join(err, os.RemoveAll(filepath.Join(early, "points")),
		os.RemoveAll(filepath.Join(early, "done"))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{early, early + ": found no checkpoint, want one"},
		{plain, "without a journal of activations"},
		{filepath.Join(dir, "none"), "none"},
		{store + " --at 3", `found no checkpoint "3"`},
		{store + " --at 9 --until 8", "--until: found 8, want later than 9"},
		{store + " --seed 3", "--seed: found it with DIR"},
		{store + " --set a=b", "--set: found it with DIR"},
		{store + " --until -1", "--until"},
		{"", "found 0 arguments"},
	} {
		status, out, errs := replayed(kind, strings.Fields(c.args)...)
		if status != ExitUsage || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%q: exit status %d, want 2 and %q: %s%s", c.args, status, c.want, out, errs)
		}
	}
	packs, err := filepath.Glob(filepath.Join(store, "packs", "*.pack"))
	if err != nil || len(packs) == 0 {
		t.Fatal(packs, err)
	}
	for _, pack := range packs { // one has the first part of the journal
		b, err := os.ReadFile(pack)
		if err == nil {
			b[len(b)/2] ^= 1
			err = os.WriteFile(pack, b, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(t.TempDir()) // where a post-mortem would be written
	status, out, errs := replayed(kind, store)
	if status == ExitOK || !strings.Contains(errs, "packs/") || strings.Contains(errs, "goroutine") ||
		strings.Contains(errs, "what the workers were at") {
		t.Errorf("damaged packs: exit status %d: %s%s", status, out, errs)
	}
}

// The journal of a run may be in an object store, too.
func TestReplayFromServer(t *testing.T) {
	startServer(t)
	file := filepath.Join(t.TempDir(), "tiny.yml")
	if err := os.WriteFile(file, []byte(launchtest.Scenario(4, 200, "")), 0o666); err != nil {
		t.Fatal(err)
	}
	address := serverAddress + "recorded"
	for _, args := range [][]string{
		{"run", file, "--workers", "2", "--checkpoint-to", address, "--checkpoint-at", "100", "--replayable"},
		{"replay", address, "--workers", "3"}, {"replay", address, "--at", "100"},
	} {
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), programEnv+"=1")
		out, err := cmd.CombinedOutput()
		if err != nil || args[0] == "replay" && !strings.Contains(string(out), "\nequal: ") {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
}
