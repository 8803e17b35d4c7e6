// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/checkpointtest"
	"github.com/disco-sim/disco/internal/child/childtest"
	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// replayable is a place for a run whose calls are kept.
func replayable(t *testing.T, cfg Config) *checkpoint.Repo {
	t.Helper()
	of := *newRepo(t, cfg, checkpointtest.NewMem()).Run()
	of.ID, of.Replayable = checkpoint.ID{}, true
	repo, err := checkpoint.Create(t.Context(), checkpointtest.NewMem(), of)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { repo.Close() })
	return repo
}

// again replays what is in a Repo, from a checkpoint or ("") from the begin.
func again(t *testing.T, cfg Config, repo *checkpoint.Repo, at string) (Replayed, error) {
	t.Helper()
	all, err := ResumeAt(t.Context(), repo, "latest")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Checkpoint, cfg.Rebalance, cfg.Legs, cfg.Resume = nil, nil, nil, nil
	if at != "" {
		if cfg.Resume, err = ResumeAt(t.Context(), repo, at); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Replay = &Replay{Repo: repo, To: all.From}
	for r := range cfg.Replications {
		if m := cfg.Resume.from(r); m != nil {
			if cfg.Resume.From[r], err = cfg.Replay.BeginOf(t.Context(), r, m); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, err = run(t, cfg)
	return cfg.Replay.Replayed(), err
}

// Runs whose nodes move, leave memory, or ask the outside world are recorded and replayed; nobody is asked again.
func TestReplayOfRuns(t *testing.T) {
	for name, change := range map[string]func(cfg *Config){
		"plain":   func(*Config) {},
		"link":    func(cfg *Config) { cfg.Tuning.Sync = "link" },
		"trace":   func(cfg *Config) { cfg.Trace = t.TempDir() + "/trace" },
		"resides": func(cfg *Config) { cfg.Tuning.Resident = 1000 },
		"moves": func(cfg *Config) {
			cfg.Rebalance = &Rebalance{Shards: 6, Every: 1, Strategy: anywhere{rand.New(rand.NewPCG(1, 9))}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, asked := asking(t, TransportShm, 2, "random: true")
			change(&cfg)
			repo := replayable(t, cfg)
			cfg.Checkpoint = &Checkpoint{Repo: repo, Every: 2.5, Keep: 100, At: []LabelledEpoch{{4, "four"}}}
			out, err := run(t, cfg)
			if err != nil {
				t.Fatal(err)
			}
			before := len(asked())
			cfg.Trace = ""
			for i, at := range []string{"", "four"} {
				cfg.Workers = 1 + 2*i
				got, err := again(t, cfg, repo, at)
				if err != nil || got.First != nil || got.Done != 1 || (got.Calls == out.Activations) != (at == "") {
					t.Errorf("from %q: %+v, %v; want %d calls", at, got, err, out.Activations)
				}
			}
			if len(asked()) != before || before == 0 {
				t.Errorf("asked %d times, then %d", before, len(asked()))
			}
			cfg.Text = []byte(strings.Replace(string(cfg.Text), "random: true", "random: true, twice: 7", 1))
			if _, err := again(t, cfg, repo, ""); err == nil || !strings.Contains(err.Error(), "replay mismatch") {
				t.Errorf("other requests: %v, want a mismatch", err)
			}
			if len(asked()) != before {
				t.Error("something was asked again")
			}
		})
	}
}

// A journal that goes through a checkpoint without an end of a leg, because the run has gone back before it, is
// compared from the checkpoint before.
func TestReplayAcrossCheckpoint(t *testing.T) {
	cfg := config(TransportInproc, 2, launchtest.Scenario(6, 30, ""))
	repo := replayable(t, cfg)
	calls := uint64(0)
	for _, leg := range []struct {
		at   string
		next float64
	}{{"", 1.5}, {"1.5", 4}, {"4", 9}, {"9", 12}} {
		cfg.Checkpoint = &Checkpoint{Repo: repo, At: []LabelledEpoch{{leg.next, ""}}, Keep: 100}
		if leg.at != "" {
			var err error
			if cfg.Resume, err = ResumeAt(t.Context(), repo, leg.at); err != nil {
				t.Fatal(err)
			}
		}
		out, err := run(t, cfg)
		if err != nil {
			t.Fatal(err)
		}
		calls = out.Activations
	}
	behind := uint64(0)
	for _, at := range []string{"", "1.5", "4", "9", "12"} {
		got, err := again(t, cfg, repo, at)
		if err != nil || got.First != nil || got.Done != 1 || (got.Calls == calls) != (at == "") {
			t.Errorf("from %q: %+v, %v; want %d calls", at, got, err, calls)
		}
		switch at {
		case "":
		case "1.5":
			behind = got.Calls
		default: // the run with this checkpoint ended with the results that were there
			if got.Calls != behind || behind == 0 {
				t.Errorf("from %s: %d calls were compared, want %d, as from 1.5", at, got.Calls, behind)
			}
		}
	}
	cfg.Replay, cfg.Checkpoint = nil, nil
	all, err := ResumeAt(t.Context(), repo, "latest")
	if err == nil {
		cfg.Resume, err = ResumeAt(t.Context(), repo, "9")
	}
	if err != nil {
		t.Fatal(err)
	}
	cfg.Replay = &Replay{Repo: repo, To: all.From}
	if _, err := run(t, cfg); err == nil || !strings.Contains(err.Error(), "without an end of a leg") {
		t.Errorf("found %v, want that it can't begin there", err)
	}
}

// A run over machines that loses a worker, and one that loses all that join them, is recorded: each call once, also
// those that were made twice. It is replayed over other workers here, and over machines.
func TestReplayOverMachines(t *testing.T) {
	cfg := config(TransportShm, 3, launchtest.Scenario(6, 25, trouble(1, 0, launchtest.Slow)))
	cfg.Partition = ""
	for i, c := range machineFaults(t)[:3] {
		t.Run(c.what, func(t *testing.T) {
			repo, cfg := replayable(t, cfg), cfg
			cfg.Checkpoint = &Checkpoint{Repo: repo, Every: 2, Keep: 100, At: []LabelledEpoch{{4, ""}, {6, ""}}}
			var once sync.Once
			cfg.Progress = func(p Progress) {
				if p.Now > 10 {
					once.Do(c.fault)
				}
			}
			far, end, _ := joined(t, cfg, c.o)
			defer func() { end() }()
			l, err := Prepare(far)
			if err != nil {
				t.Fatal(err)
			}
			out, err := l.RunRecovering(t.Context(), 1, nil)
			if err != nil || len(out.Recoveries) != 1 {
				t.Fatal(out, err)
			}
			cfg.Progress, cfg.Workers = nil, 1+i
			for _, at := range []string{"", "6"} {
				got, err := again(t, cfg, repo, at)
				if err != nil || got.First != nil || got.Done != 1 || (got.Calls == out.Activations) != (at == "") {
					t.Errorf("from %q: %+v, %v; want %d calls", at, got, err, out.Activations)
				}
			}
			if cfg.Workers = 3; i > 0 {
				return
			}
			end()
			far, end, _ = joined(t, cfg, childtest.Options{Machines: 2})
			got, err := again(t, far, repo, "4")
			if err != nil || got.First != nil || got.Done != 1 || got.Calls == 0 {
				t.Errorf("over machines: %+v, %v", got, err)
			}
		})
	}
}

// A journal of an earlier format is refused, by a replay as by a run that goes on with it; so is one of which a layout
// is missing, and one whose chunk has a leg that can't be.
func TestReplayRefusesJournals(t *testing.T) {
	cfg := config(TransportInproc, 1, launchtest.Scenario(3, 20, ""))
	whole := replayable(t, cfg)
	cfg.Checkpoint = &Checkpoint{Repo: whole, At: []LabelledEpoch{{5, "five"}}, Keep: 100}
	if _, err := run(t, cfg); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what   string
		change func(c *checkpoint.Chunk, data []byte) (keep bool, changed []byte)
		want   string
	}{
		{"version 1", func(c *checkpoint.Chunk, data []byte) (bool, []byte) {
			return c.Kind != checkpoint.Layout, data
		}, "found a journal of activations of version 1, want version 2"},
		{"another layout", func(c *checkpoint.Chunk, data []byte) (bool, []byte) {
			if c.Kind == checkpoint.Layout {
				data = append(data, 0, 0, 0)
			}
			return true, data
		}, "found no layout"},
		{"another leg", func(c *checkpoint.Chunk, data []byte) (bool, []byte) {
			if c.Kind == checkpoint.Hashes {
				binary.LittleEndian.PutUint64(data[8:], math.Float64bits(c.From+1))
			}
			return true, data
		}, "found a leg that begins at"},
		{"a part that is missing", func(c *checkpoint.Chunk, data []byte) (bool, []byte) {
			if c.Kind == checkpoint.Hashes {
				data[16]++
			}
			return true, data
		}, "a part of the journal is missing"},
		{"an odd size", func(c *checkpoint.Chunk, data []byte) (bool, []byte) {
			if c.Kind == checkpoint.Hashes {
				data = data[:len(data)-1]
			}
			return true, data
		}, "which are no calls"},
		{"fewer calls", func(c *checkpoint.Chunk, data []byte) (bool, []byte) {
			if c.Kind == checkpoint.Hashes {
				data = data[:len(data)-2]
			}
			return true, data
		}, "sections of it are missing"},
	} {
		repo := changed(t, cfg, whole, c.change)
		if _, err := again(t, cfg, repo, ""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
		if c.what != "version 1" {
			continue
		}
		cfg := cfg
		cfg.Checkpoint = &Checkpoint{Repo: repo, At: []LabelledEpoch{{9, ""}}, Keep: 100}
		var err error
		if cfg.Resume, err = ResumeAt(t.Context(), repo, "five"); err == nil {
			_, err = run(t, cfg)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("a run that goes on: %v, want %q", err, c.want)
		}
	}
}

// changed is a Repo with the newest checkpoint that another one has, its chunks changed.
func changed(t *testing.T, cfg Config, whole *checkpoint.Repo, change func(c *checkpoint.Chunk, data []byte) (bool,
	[]byte)) *checkpoint.Repo {
	t.Helper()
	repo := replayable(t, cfg)
	m, err := whole.Find(t.Context(), "five", 0)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	spool := checkpoint.NewSpool(&file)
	var chunks []checkpoint.Chunk
	err = whole.Chunks(t.Context(), m, func(c checkpoint.Chunk) error {
		data, err := whole.Read(t.Context(), m, c, nil)
		if err != nil {
			return err
		}
		keep, data := change(&c, data)
		if !keep {
			return nil
		}
		c, err = spool.Add(checkpoint.Chunk{Kind: c.Kind, First: c.First, Nodes: c.Nodes, From: c.From}, data)
		chunks = append(chunks, c)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	draft := repo.Begin()
	if err := draft.Add(bytes.NewReader(file.Bytes()), int64(file.Len()), chunks); err != nil {
		t.Fatal(err)
	}
	own := &checkpoint.Manifest{Epoch: m.Epoch, Events: m.Events, Activations: m.Activations, TraceHash: m.TraceHash,
		Versions: m.Versions, Wall: m.Wall}
	if err := draft.Commit(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	if err := repo.Label(t.Context(), own, "five"); err != nil {
		t.Fatal(err)
	}
	return repo
}
