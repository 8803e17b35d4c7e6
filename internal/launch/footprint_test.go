// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/scenario"
)

// vast is the tiny scenario with a graph that nobody can hold, and what it takes of memory.
type vast struct {
	scenario.Scenario
	nodes  int
	memory scenario.Memory
	asked  *int // how many nodes were asked for
}

func (v vast) Graph() *node.Graph {
	return &node.Graph{Simprocs: []string{"a", "b"}, NodeCount: v.nodes, NodeAt: func(int) node.Node {
		*v.asked++
		return node.Node{}
	}}
}

func (v vast) Memory() scenario.Memory { return v.memory }

// A run that needs more memory than there is ends before any of its nodes is made, with what needs most of it and what
// to change.
func TestRefusedBeforehand(t *testing.T) {
	for _, c := range []struct {
		name    string
		nodes   int
		memory  scenario.Memory
		allowed int64
		want    []string
	}{
		{"nodes", 1 << 40, scenario.Memory{}, 0, []string{"about ", "nodes 439804.7 GB",
			"are available: use a scenario with fewer than 1099511627776 nodes"}},
		{"pending events", 10, scenario.Memory{Pending: 1e15}, 0, []string{"pending events 36000000.0 GB",
			"use fewer than 1000000000000000 pending events"}},
		{"their data", 10, scenario.Memory{Pending: 1e6, EventBytes: 1e6}, 1 << 40, []string{"pending events 1500.0 GB",
			"1099.5 GB are allowed", "or --memory 1430"}},
		{"what the model keeps", 10, scenario.Memory{NodeBytes: 1 << 40}, 0, []string{"nodes 10995.1 GB"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			kind := launchtest.Kind()
			load := kind.Load
			kind.Load = func(doc *scenario.Document, opt scenario.Options) (scenario.Scenario, error) {
				s, err := load(doc, opt)
				return vast{s, c.nodes, c.memory, &asked}, err
			}
			registry, err := scenario.NewRegistry(kind)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Prepare(Config{File: "t.yml", Text: []byte(launchtest.Scenario(4, 1, "")), Registry: registry,
				Workers: 2, Replications: 1, Memory: c.allowed})
			if !errors.Is(err, ErrConfig) || asked > 0 {
				t.Fatalf("%v, after %d nodes were asked for", err, asked)
			}
			// What is allowed is so on all machines, what there is isn't.
			if scarce := (*ScarceError)(nil); errors.As(err, &scarce) != (c.allowed == 0) {
				t.Errorf("%T with %d bytes allowed", err, c.allowed)
			}
			for _, part := range append(c.want, "memory: the run takes about ") {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v, want %q in it", err, part)
				}
			}
		})
	}
}

// heavy is the tiny scenario with so many bytes on the heap that reading it has taken.
type heavy struct {
	scenario.Scenario
	memory  scenario.Memory
	ballast []byte
}

func (h heavy) Pack(buf []byte) ([]byte, error) { return append(buf, h.ballast[0]), nil }
func (h heavy) Memory() scenario.Memory         { return h.memory }

// What reading the scenario takes counts once for each worker where all of them read it, whether they are processes or
// goroutines, and not where they get it packed: then what the model says of that counts.
func TestPackedCountsOnce(t *testing.T) {
	const ballast, workers = 100 << 20, 8
	for _, c := range []struct {
		name      string
		transport string
		packs     bool
		memory    scenario.Memory
		want      string // of the refusal
	}{
		{"read", TransportShm, false, scenario.Memory{}, "processes and what each reads 8"},
		{"read by goroutines", TransportInproc, false, scenario.Memory{}, "processes and what each reads 8"},
		{"packed", TransportShm, true, scenario.Memory{}, ""},
		{"packed, much of it", TransportShm, true, scenario.Memory{PackedBytes: 500 << 20}, "structure 524 MB"},
		{"packed, too much of it", TransportShm, true, scenario.Memory{PackedBytes: packedMax + 1},
			"processes and what each reads 8"},
		{"packed, much in each", TransportShm, true, scenario.Memory{WorkerBytes: 100 << 20},
			"processes and what each reads 8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind := launchtest.Kind()
			load := kind.Load
			kind.Load = func(doc *scenario.Document, opt scenario.Options) (scenario.Scenario, error) {
				s, err := load(doc, opt)
				return heavy{s, c.memory, make([]byte, ballast)}, err
			}
			if c.packs {
				kind.Unpack = func([]byte) (scenario.Scenario, error) { panic("nothing is run") }
			}
			registry, err := scenario.NewRegistry(kind)
			if err != nil {
				t.Fatal(err)
			}
			cfg := config(c.transport, workers, launchtest.Scenario(workers, 1, ""))
			cfg.Registry, cfg.Memory = registry, 400<<20
			// Garbage of other tests that is collected while the scenario is read would be taken off what that takes.
			runtime.GC()
			_, err = Prepare(cfg)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (!errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestSizeText(t *testing.T) {
	for bytes, want := range map[float64]string{
		0: "0 bytes", 999: "999 bytes", 1024: "1 kB", 999_499: "999 kB", 999_500: "1.0 MB", 1 << 20: "1.0 MB",
		9_994_000: "10.0 MB", 9_995_000: "10 MB", 999_499_999: "999 MB", 999_500_000: "1.0 GB", 38.1e9: "38.1 GB",
	} {
		if got := sizeText(bytes); got != want {
			t.Errorf("%g: %q, want %q", bytes, got, want)
		}
	}
}

// Stop ends the preparation before its next step begins.
func TestStopWhilePreparing(t *testing.T) {
	for _, at := range []string{"reading", "checking", "placing"} {
		stop := make(chan struct{})
		var begun []string
		cfg := config(TransportShm, 2, launchtest.Scenario(4, 1, ""))
		cfg.Stop = stop
		cfg.Doing = func(what string) {
			if begun = append(begun, what); strings.HasPrefix(what, at) {
				close(stop)
			}
		}
		out, err := Run(t.Context(), cfg)
		if err != nil || !out.Interrupted || len(out.Replications) > 0 {
			t.Errorf("%s: %+v, %v", at, out, err)
		}
		if last := begun[len(begun)-1]; !strings.HasPrefix(last, at) {
			t.Errorf("stopped while %s, and %s came after it", at, last)
		}
	}
}
