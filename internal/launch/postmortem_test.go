// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// crashFile is the one post-mortem in a folder, empty where there is none.
func crashFile(t *testing.T, dir string) (path, text string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(found) > 1 {
		t.Fatalf("%v, %v: want one file at most", found, err)
	}
	if len(found) == 0 {
		return "", ""
	}
	body, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return found[0], string(body)
}

// number is what a post-mortem says of one worker under a name.
func number(t *testing.T, text string, w int, name string) float64 {
	t.Helper()
	_, own, _ := strings.Cut(text, "\nworker "+strconv.Itoa(w)+": ")
	own, _, _ = strings.Cut(own, "\n\n")
	m := regexp.MustCompile(`(?m)^ +` + name + ` +(\S+)$`).FindStringSubmatch(own)
	if m == nil {
		t.Fatalf("worker %d has no %s:\n%s", w, name, text)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A run that a worker's death ends leaves a post-mortem: the error names it, it says
// how every worker ended, how far it was, and how its lanes stood; and nothing else of
// the run is left.
func TestPostMortem(t *testing.T) {
	for _, c := range []struct {
		how, ending, transport string
	}{
		{launchtest.Kill, "worker 1: killed by SIGKILL", TransportShm},
		{launchtest.Exit, "worker 1: exit status 3", TransportShm},
		{launchtest.Kill, "worker 1: killed by SIGKILL", away},
	} {
		t.Run(c.how+" "+c.transport, func(t *testing.T) {
			dir := t.TempDir()
			cfg := config(c.transport, 2, launchtest.Scenario(4, 50, trouble(2, 40, c.how)))
			cfg.CrashDir, cfg.Tuning.BatchMax = dir, 1 // 64 rounds are 64 calls of handlers
			_, err := run(t, cfg)
			var w *WorkerError
			if !errors.As(err, &w) || w.Worker != 1 {
				t.Fatalf("error is %v, want one of worker 1", err)
			}
			path, text := crashFile(t, dir)
			if path == "" || !strings.Contains(err.Error(), path) {
				t.Fatalf("the error doesn't name the file %q: %v", path, err)
			}
			for _, want := range []string{c.ending, "\nworker 0: ", "scenario tiny.yml, seed 1, horizon 50 s",
				"lane to worker 1: promised up to ", "lane to worker 0: promised up to "} {
				if !strings.Contains(text, want) {
					t.Errorf("it doesn't say %q:\n%s", want, text)
				}
			}
			for w := range 2 {
				if at := number(t, text, w, "epoch_now"); at < 1 || at > 41 {
					t.Errorf("worker %d was at %v, want 1 to 41", w, at)
				}
				for _, name := range []string{"events", "activations", "events_sent", "pending"} {
					if number(t, text, w, name) <= 0 {
						t.Errorf("worker %d: %s is not more than 0:\n%s", w, name, text)
					}
				}
				if n := number(t, text, w, "blocks_lent"); n != 0 {
					t.Errorf("worker %d lent %v blocks, but payloads are small", w, n)
				}
			}
			lanes := regexp.MustCompile(`sent up to position (\d+), read up to (\d+): (\d+) of (\d+) bytes`)
			for _, m := range lanes.FindAllStringSubmatch(text, -1) {
				var v [4]int
				for i := range v {
					v[i], _ = strconv.Atoi(m[i+1])
				}
				if v[0] == 0 || v[1] > v[0] || v[2] != v[0]-v[1] || v[2] > v[3] {
					t.Errorf("lane positions can't be: %s", m[0])
				}
			}
		})
	}
	nothingLeft(t, t.TempDir())
}

// Payloads that were not given back show as blocks.
func TestPostMortemCountsBlocks(t *testing.T) {
	dir := t.TempDir()
	cfg := config(TransportShm, 2, launchtest.Scenario(4, 50, trouble(2, 20, launchtest.Kill))+"payload: 100000\n")
	cfg.CrashDir, cfg.Tuning.BatchMax = dir, 1
	if _, err := run(t, cfg); err == nil {
		t.Fatal("no error")
	}
	_, text := crashFile(t, dir)
	if number(t, text, 0, "blocks_lent")+number(t, text, 1, "blocks_lent") == 0 {
		t.Errorf("no blocks are out, with 8 tokens of 100 kB under way:\n%s", text)
	}
}

// Runs that end as was asked for leave no post-mortem, nor does an error that a model
// has returned.
func TestNoPostMortem(t *testing.T) {
	dir := t.TempDir()
	stop := make(chan struct{})
	close(stop)
	for what, set := range map[string]func(*Config){
		"a good run": func(*Config) {},
		"a model's error": func(c *Config) {
			c.Text = []byte(launchtest.Scenario(4, 50,
				trouble(2, 3, launchtest.Fail)))
		},
		"a model's panic": func(c *Config) {
			c.Text = []byte(launchtest.Scenario(4, 50,
				trouble(2, 3, launchtest.Panic)))
		},
		"stopped": func(c *Config) { c.Stop = stop },
		"not wanted": func(c *Config) {
			c.Text, c.CrashDir = []byte(launchtest.Scenario(4, 50, trouble(2, 3, launchtest.Kill))), ""
		},
	} {
		cfg := config(TransportShm, 2, launchtest.Scenario(4, 5, ""))
		cfg.CrashDir = dir
		set(&cfg)
		_, err := run(t, cfg)
		if path, _ := crashFile(t, dir); path != "" || err != nil && strings.Contains(err.Error(), CrashName) {
			t.Errorf("%s left %s, error %v", what, path, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cfg := config(TransportShm, 2, launchtest.Scenario(4, 1e9, ""))
	cfg.CrashDir, cfg.Progress = dir, func(Progress) { cancel() }
	if _, err := Run(ctx, cfg); !errors.Is(err, ErrEnded) {
		t.Errorf("error is %v, want ErrEnded", err)
	}
	if path, _ := crashFile(t, dir); path != "" {
		t.Errorf("a run that was ended at once left %s", path)
	}
}

// A folder that can't be written to costs the post-mortem, not the error.
func TestPostMortemNowhere(t *testing.T) {
	cfg := config(TransportShm, 2, launchtest.Scenario(4, 50, trouble(2, 3, launchtest.Kill)))
	cfg.CrashDir = filepath.Join(t.TempDir(), "nowhere")
	_, err := run(t, cfg)
	var w *WorkerError
	if !errors.As(err, &w) || !w.Died || !strings.Contains(err.Error(), "can't be written down") {
		t.Errorf("error is %v", err)
	}
}
