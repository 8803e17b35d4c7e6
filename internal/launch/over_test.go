// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/child/childtest"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/race"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/scenario"
)

// examples are scenarios of all kinds, cut short; with few links where promises of links are tried, too.
var examples = []struct {
	file    string
	horizon float64
	set     string
}{
	{"shop.yml", 2, ""}, {"backbone.yml", 0.01, ""}, {"jackson.yml", 200, ""}, {"phold.yml", 2, "lps=24"},
	{"devstone.yml", 3, ""}, {"supply.yml", 20, ""},
}

func init() {
	if race.Enabled { // with the smallest rings it takes ten times as long
		for i := range examples {
			examples[i].horizon /= 4
		}
	}
}

// example is a run of one of them, on one worker.
func example(t testing.TB, name string, horizon float64, set string) Config {
	t.Helper()
	file := filepath.Join("..", "..", "examples", name)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(TransportShm, 1, string(text))
	cfg.File, cfg.Horizon = file, horizon
	if set != "" {
		s, err := scenario.ParseSetting(set)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Set = append(cfg.Set, s)
	}
	return cfg
}

// sameHash runs, and compares what has come of it.
func sameHash(t *testing.T, cfg Config, want *Outcome) {
	t.Helper()
	got, err := run(t, cfg)
	if err != nil {
		t.Errorf("%s, %d workers, %+v: %v", cfg.Transport, cfg.Workers, cfg.Tuning, err)
		return
	}
	if got.TraceHash != want.TraceHash || want.TraceHash == "" || got.Events != want.Events {
		t.Errorf("%s, %d workers, %+v: hash %q of %d events, want %q of %d", cfg.Transport, cfg.Workers, cfg.Tuning,
			got.TraceHash, got.Events, want.TraceHash, want.Events)
	}
}

// smallest are the smallest rings, pools and batches.
var smallest = worker.Tuning{RingBytes: 1 << 10, PoolBytes: 1 << 20, BatchMax: 1}

// Every kind of model gives the same trace hash over any number of machines, with promises of lanes and of links, with
// large rings and windows and with the smallest.
func TestSameHashOverMachines(t *testing.T) {
	for i, c := range examples {
		t.Run(c.file, func(t *testing.T) {
			cfg := example(t, c.file, c.horizon, c.set)
			want, err := run(t, cfg)
			if err != nil {
				t.Fatal(err)
			}
			cfg.Workers = 3
			for j, transport := range []string{away, over2, over3} {
				cfg.Transport = transport
				for _, small := range []bool{false, true} {
					if testing.Short() && small != (cfg.Transport == over3) {
						continue
					}
					cfg.Tuning, cfg.BridgeBytes = worker.Tuning{}, 0
					if small {
						cfg.Tuning, cfg.BridgeBytes = smallest, 1
					}
					for k, sync := range []string{worker.SyncLane, worker.SyncLink} {
						if testing.Short() && (i+j+k)%2 != 0 { // any two of the three still meet
							continue
						}
						cfg.Tuning.Sync = sync
						sameHash(t, cfg, want)
					}
				}
			}
		})
	}
	nothingLeft(t, t.TempDir())
}

// Any number of workers, on any machines, gives the same hash, with nodes and with replications spread, with payloads
// in blocks and in parts.
func TestWorkersOverMachines(t *testing.T) {
	for _, c := range []struct {
		payload int // bytes
		horizon float64
		small   worker.Tuning // with the smallest windows
	}{
		{16, 10, smallest},
		{20_000, 0.5, worker.Tuning{RingBytes: 1 << 12, PoolBytes: 1 << 20}},
		{1_000_000, 0.5, worker.Tuning{}},
	} {
		t.Run(fmt.Sprintf("payloads of %d bytes", c.payload), func(t *testing.T) {
			text := launchtest.Scenario(9, c.horizon, "") + fmt.Sprintf("payload: %d\n", c.payload)
			cfg := config(TransportShm, 1, text)
			cfg.Replications = 2
			want, err := run(t, cfg)
			if err != nil {
				t.Fatal(err)
			}
			for workers := 1; workers <= 8; workers++ {
				if testing.Short() && workers%3 != 2 {
					continue
				}
				cfg := cfg
				cfg.Workers, cfg.Transport = workers, over2
				if workers%2 == 1 {
					cfg.Transport = over3
				}
				if workers%4 == 1 && c.payload < 1_000_000 {
					cfg.Tuning, cfg.BridgeBytes = c.small, 1
				}
				sameHash(t, cfg, want)
			}
			cfg.Workers, cfg.Transport, cfg.Spread, cfg.Partition = 3, over3, SpreadReplications, ""
			sameHash(t, cfg, want)
		})
	}
	nothingLeft(t, t.TempDir())
}

// A machine that has too little memory for its part of a run refuses it, by its name, before a worker starts: for the
// lanes, and for what the model is expected to take. With Config.Memory the latter is tried.
func TestMemoryOfMachine(t *testing.T) {
	for _, c := range []struct {
		name    string
		memory  int
		model   scenario.Memory
		allowed int64
		refused bool
	}{
		{"lanes", 5 << 20, scenario.Memory{}, 0, true},
		{"pending events", 1 << 30, scenario.Memory{Pending: 1e8}, 0, true},
		{"pending events, tried", 1 << 30, scenario.Memory{Pending: 1e8}, 1 << 40, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := config(TransportShm, 3, launchtest.Scenario(6, 10, ""))
			kind := launchtest.Kind()
			load := kind.Load
			kind.Load = func(doc *scenario.Document, opt scenario.Options) (scenario.Scenario, error) {
				s, err := load(doc, opt)
				return sized{s, c.model}, err
			}
			var err error
			if cfg.Registry, err = scenario.NewRegistry(kind); err != nil {
				t.Fatal(err)
			}
			p := startChild(t, cfg, childtest.Options{Machines: 2, Memory: c.memory})
			defer p.Close()
			cfg.Machines, cfg.Memory = p, c.allowed
			_, err = run(t, cfg)
			if !c.refused && err != nil || c.refused && (!errors.Is(err, ErrConfig) ||
				!strings.Contains(err.Error(), "not enough memory: ") ||
				!strings.HasPrefix(err.Error(), "h1: ") && !strings.HasPrefix(err.Error(), "h2: ")) {
				t.Errorf("error is %v, refused by a machine: %v", err, c.refused)
			}
		})
	}
	nothingLeft(t, t.TempDir())
}

// sized is the tiny scenario that says what it takes.
type sized struct {
	scenario.Scenario
	memory scenario.Memory
}

func (s sized) Memory() scenario.Memory { return s.memory }
