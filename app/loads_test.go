// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/race"
	"github.com/disco-sim/disco/model/devstone"
	"github.com/disco-sim/disco/model/network"
	"github.com/disco-sim/disco/model/phold"
	"github.com/disco-sim/disco/model/queueing"
	"github.com/disco-sim/disco/model/service"
	"github.com/disco-sim/disco/model/supply"
	"github.com/disco-sim/disco/scenario"
)

// TestVerifyLoads: what a run of any kind has saved, also of what it has asked the outside world, can be loaded by any
// number of workers, and is by `verify --load`.
func TestVerifyLoads(t *testing.T) {
	asked := filepath.Join(t.TempDir(), "asked")
	tiny := filepath.Join(t.TempDir(), "tiny.yml")
	text := launchtest.Scenario(4, 5, "") + "asking: {file: " + asked + ", ms: 0}\n"
	if err := os.WriteFile(tiny, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kind          scenario.Kind
		file, horizon string
		at            string
	}{
		{devstone.Kind(), "../examples/devstone.yml", "3", "1.5"},
		{network.Kind(), "../examples/backbone.yml", "1", "0.5"},
		{phold.Kind(), "../examples/phold.yml", "3", "2"}, {queueing.Kind(), "../examples/jackson.yml", "60", "20"},
		{service.Kind(), "../examples/mini.yml", "60", "30"}, {supply.Kind(), "../examples/supply.yml", "40", "20"},
		{launchtest.Kind(), tiny, "5", "2"},
	} {
		if race.Enabled && c.file != tiny {
			continue // handlers are the same beside one that loads and one that doesn't
		}
		t.Run(c.kind.Name, func(t *testing.T) {
			store := filepath.Join(t.TempDir(), "store")
			runSaved(t, c.kind, "run", c.file, "--horizon", c.horizon, "--transport", "inproc", "--workers", "2",
				"--replications", "2", "--checkpoint-to", store, "--replayable", "--checkpoint-at", c.at)
			for workers, at := range map[string]string{"1": "", "3": c.at} {
				want, args := 4, []string{"checkpoints", "verify", store, "--load", "--transport", "inproc",
					"--workers", workers}
				if at != "" {
					want, args = 2, append(args, "--at", at)
				}
				verified := loads(t, c.kind, ExitOK, args...)
				if len(verified.Checkpoints) != want || !verified.Good {
					t.Errorf("%s workers: %+v, want %d", workers, verified, want)
				}
				for _, row := range verified.Checkpoints {
					if !row.Good || !row.Loaded {
						t.Errorf("%s workers: %+v", workers, row)
					}
				}
			}
		})
	}
	if _, err := os.Stat(asked); err != nil {
		t.Errorf("nothing was asked: %v", err)
	}
}

// loads verifies, and gives what it says.
func loads(t *testing.T, kind scenario.Kind, want int, args ...string) (v storeVerification) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status := Run(append([]string{"disco-run"}, append(args, "--json", "-")...), strings.NewReader(""), &stdout,
		&stderr, kind)
	if err := json.Unmarshal(stdout.Bytes(), &v); err != nil || status != want {
		t.Fatalf("%q: exit status %d, want %d: %s%s (%v)", args, status, want, stdout.String(), stderr.String(), err)
	}
	return v
}

// TestVerifyRefused: a checkpoint that is as it was written and whose state the model refuses is named with its node
// and simproc; those around it are loaded.
func TestVerifyRefused(t *testing.T) {
	kind, file, store := launchtest.Kind(), filepath.Join(t.TempDir(), "tiny.yml"), filepath.Join(t.TempDir(), "store")
	if err := os.WriteFile(file, []byte(launchtest.Scenario(4, 5, "")), 0o666); err != nil {
		t.Fatal(err)
	}
	runSaved(t, kind, "run", file, "--transport", "inproc", "--checkpoint-to", store, "--checkpoint-at", "1",
		"--checkpoint-at", "4")
	commitRefused(t, store)
	rows := loads(t, kind, ExitFailed, "checkpoints", "verify", store, "--load", "--transport", "inproc").Checkpoints
	if len(rows) != 4 {
		t.Fatalf("%+v, want the end, 1, 2 and 4", rows)
	}
	for i, row := range rows {
		if bad := i == 2; row.Good == bad || row.Loaded == bad || strings.Contains(row.Refused, "n2/token") != bad {
			t.Errorf("%+v", row)
		}
	}
	var stdout, stderr bytes.Buffer
	status := Run([]string{"disco-run", "checkpoints", "verify", store, "--load", "--at", "2", "--transport", "inproc"},
		strings.NewReader(""), &stdout, &stderr, kind)
	if said := stdout.String() + stderr.String(); status != ExitFailed || !strings.Contains(said,
		"1 of 1 checkpoint can't be loaded: take another one (resume --at)") || strings.Contains(said, "crash") {
		t.Errorf("exit status %d: %s", status, said)
	}
	if v := loads(t, kind, ExitOK, "checkpoints", "verify", store); !v.Good {
		t.Errorf("without --load: %+v", v)
	}
}

// commitRefused makes a checkpoint at 2 of that at 1, with a state of node 2 that its handler can't have written.
func commitRefused(t *testing.T, store string) {
	t.Helper()
	ctx := context.Background()
	r, err := checkpoint.Open(ctx, checkpoint.NewDir(store))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Lock(ctx); err != nil {
		t.Fatal(err)
	}
	m, err := r.Find(ctx, "1", 0)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	var chunks []checkpoint.Chunk
	spool := checkpoint.NewSpool(&file)
	err = r.Chunks(ctx, m, func(c checkpoint.Chunk) error {
		data, err := r.Read(ctx, m, c, nil)
		if err == nil && c.Kind == checkpoint.Nodes {
			var changed []byte
			err = checkpoint.EachNode(&c, data, func(n int, encoded []byte) error {
				if n == 2 {
					encoded, _ = storedNode(t, 2, 0.5, 3) // of a version that tiny hasn't
				}
				changed = checkpoint.AppendNode(changed, n, encoded)
				return nil
			})
			data = changed
		}
		if err == nil {
			c, err = spool.Add(checkpoint.Chunk{Kind: c.Kind, First: c.First, Nodes: c.Nodes, From: c.From}, data)
		}
		chunks = append(chunks, c)
		return err
	})
	d := r.Begin()
	if err == nil {
		err = d.Add(bytes.NewReader(file.Bytes()), spool.Size(), chunks)
	}
	if err == nil {
		err = d.Commit(ctx, &checkpoint.Manifest{Epoch: 2, Events: m.Events, Activations: m.Activations,
			TraceHash: m.TraceHash, Versions: m.Versions})
	}
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
}
