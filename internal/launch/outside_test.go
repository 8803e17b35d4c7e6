// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/answers"
	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/checkpoint/checkpointtest"
	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// asking is a run whose nodes ask the outside; asked counts by key how often that was asked.
func asking(t *testing.T, transport string, workers int, more string) (cfg Config, asked func() map[string]int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "asked")
	cfg = config(transport, workers, launchtest.Scenario(6, 12, "")+
		fmt.Sprintf("asking: {file: %q, %s}\n", file, more))
	return cfg, func() map[string]int {
		text, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		count := map[string]int{}
		for line := range strings.Lines(string(text)) {
			count[line]++
		}
		return count
	}
}

// total is how often was asked, and least how often more than once.
func total(asked map[string]int) (all, again int) {
	for _, n := range asked {
		all += n
		if n > 1 {
			again++
		}
	}
	return all, again
}

// The results of a run that asks don't depend on workers, transport and spread, and each call has a key of its own.
func TestAsking(t *testing.T) {
	want := ""
	transports := append(everywhere(), over3)
	if testing.Short() {
		transports = []string{TransportShm, TransportInproc}
	}
	for i, transport := range transports {
		cfg, asked := asking(t, transport, 1+i, "random: false")
		cfg.Replications = 2
		out, err := run(t, cfg)
		if err != nil {
			t.Fatal(err)
		}
		all, again := total(asked())
		if all != 2*12*9 || again > 0 {
			t.Fatalf("asked %d times, %d times again; want %d times", all, again, 2*12*9)
		}
		externals := uint64(0)
		for _, w := range out.Workers {
			externals += w.Externals
		}
		if externals != uint64(all) {
			t.Errorf("workers count %d calls, want %d", externals, all)
		}
		if got := text(t, out); want == "" {
			want = got
		} else if got != want {
			t.Fatalf("%s: %s", transport, differing(got, want))
		}
	}
}

// A run that goes on from any checkpoint of another one asks nothing again, and gets the same answers, although the
// outside would give others now.
func TestAskingIsResumed(t *testing.T) {
	transports := append(everywhere(), over3)
	if testing.Short() {
		transports = []string{TransportInproc, over2}
	}
	for i, transport := range transports {
		for j, spread := range []string{SpreadNodes, SpreadReplications} {
			t.Run(transport+" "+spread, func(t *testing.T) {
				cfg, asked := asking(t, transport, 2, "random: true")
				cfg.Replications, cfg.Spread, cfg.Partition = 3, spread, ""
				var blobs checkpoint.Blobs = checkpointtest.NewMem()
				if (i+j)%2 == 1 {
					blobs = checkpoint.NewDir(t.TempDir())
				}
				cfg.Checkpoint = &Checkpoint{Repo: newRepo(t, cfg, blobs), Every: 2.5, Keep: 100,
					At: []LabelledEpoch{{1.5, "early"}, {4, ""}, {7, ""}, {10, "late"}}}
				out, err := run(t, cfg)
				if err != nil {
					t.Fatal(err)
				}
				if list, err := blobs.List(context.Background(), "io/"); err != nil || len(list) > 0 {
					t.Errorf("behind its end the run has journals %v, %v", list, err)
				}
				want, before := text(t, out), len(asked())
				for n, at := range []string{"latest", "early", "late", "4", "7"} {
					if cfg.Resume, err = ResumeAt(context.Background(), cfg.Checkpoint.Repo, at); err != nil {
						t.Fatal(err)
					}
					cfg.Workers, cfg.Spread = 1+n, []string{SpreadNodes, SpreadReplications}[n%2]
					if out, err = run(t, cfg); err != nil {
						t.Fatalf("from %s: %v", at, err)
					}
					if got := text(t, out); got != want {
						t.Fatalf("from %s with %d workers: %s", at, cfg.Workers, differing(got, want))
					}
				}
				if all, again := total(asked()); all != before || again > 0 || all != 3*12*9 {
					t.Fatalf("asked %d times, then %d times; want %d", before, all, 3*12*9)
				}
			})
		}
	}
}

// A call that asks something else than what its record has ends the run, and shows both.
func TestAskingSomethingElse(t *testing.T) {
	for _, transport := range everywhere() {
		cfg, asked := asking(t, transport, 2, "random: true")
		cfg.Checkpoint = &Checkpoint{Repo: newRepo(t, cfg, checkpointtest.NewMem()), Every: 4, Keep: 100}
		if _, err := run(t, cfg); err != nil {
			t.Fatal(err)
		}
		before := len(asked())
		var err error
		if cfg.Resume, err = ResumeAt(t.Context(), cfg.Checkpoint.Repo, "4"); err != nil {
			t.Fatal(err)
		}
		cfg.Text = []byte(strings.Replace(string(cfg.Text), "random: true", "random: true, twice: 7", 1))
		_, err = run(t, cfg)
		var typed *MismatchError
		if !errors.As(err, &typed) || typed.Mismatch.Simproc == "" {
			t.Fatalf("%v, want a *MismatchError", err)
		}
		for _, text := range []string{"replay mismatch", "recorded: oracle", ": 0\n", "found:    oracle", ": 7\n",
			"the first difference is at byte"} {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%v\nwithout %q", err, text)
			}
		}
		if len(asked()) != before {
			t.Error("something was asked again")
		}
	}
}

// A run that only repeats asks nothing; a call without a record ends it.
func TestRepeating(t *testing.T) {
	cfg, asked := asking(t, TransportShm, 2, "random: true")
	cfg.Checkpoint = &Checkpoint{Repo: newRepo(t, cfg, checkpointtest.NewMem()), Every: 4, Keep: 1}
	out, err := run(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	want, before, repo := text(t, out), len(asked()), cfg.Checkpoint.Repo
	cfg.Checkpoint = nil
	if cfg.Answers, err = answers.New(repo.Run().ID, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	defer cfg.Answers.Close()
	cfg.Answers.Strict = true
	if err := LoadAnswers(t.Context(), cfg.Answers, repo, func(int) float64 { return 0 }); err != nil {
		t.Fatal(err)
	}
	if out, err = run(t, cfg); err != nil || text(t, out) != want || len(asked()) != before {
		t.Fatalf("%v; asked %d times, then %d", err, before, len(asked()))
	}
	cfg.Replications = 2
	_, err = run(t, cfg)
	if err == nil || !strings.Contains(err.Error(), "found no recorded answer of external \"oracle\"") {
		t.Fatal(err)
	}
}

// Nodes that ask may move, and go on with asking where they are then.
func TestAskingMoves(t *testing.T) {
	cfg, asked := asking(t, TransportShm, 3, "random: false")
	out, err := run(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := text(t, out)
	once, _ := total(asked())
	cfg.Checkpoint = &Checkpoint{Repo: newRepo(t, cfg, checkpointtest.NewMem()), Every: 3, Keep: 2}
	cfg.Rebalance = &Rebalance{Shards: 6, Every: 1, Strategy: anywhere{rand.New(rand.NewPCG(1, 9))}}
	if out, err = run(t, cfg); err != nil {
		t.Fatal(err)
	}
	checkMoved(t, out, 2)
	if got := text(t, out); got != want {
		t.Error(differing(got, want))
	}
	if both, again := total(asked()); both != 2*once || again > 0 {
		t.Errorf("%d questions by both runs, %d of them again, want %d, and none", both, again, 2*once)
	}
}
