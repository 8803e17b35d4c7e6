// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/model/service"
)

// TestVariants: a state goes on as often as is asked for, and with other settings. The first one without any is the run
// itself, all others differ from it, and each is the same with any number of workers. Nothing is written to the place
// of the checkpoints, and what would make the state meaningless is refused, field by field.
func TestVariants(t *testing.T) {
	dir := t.TempDir()
	store, file := filepath.Join(dir, "store"), filepath.Join("..", "examples", "mini.yml")
	kind := service.Kind()
	want := runSaved(t, kind, "run", file, "--horizon", "60", "--transport", "inproc",
		"--checkpoint-to", store, "--checkpoint-at", "20=warm")
	before := filesOf(t, store)
	alone := runSaved(t, kind, "resume", store, "--at", "warm", "--replications", "1", "--transport", "inproc")
	if !alone.same(&want) {
		t.Errorf("one replication with the same settings is %+v, want the run itself, %+v", alone, want)
	}
	seen := map[string]string{want.TraceHash: "the run"}
	for _, args := range [][]string{{"--replications", "3"}, {"--set", cores + "=2"}, {"--set", cores + "=3"},
		{"--set", cores + "=3", "--replications", "2"}} {
		text := strings.Join(args, " ")
		args = append([]string{"resume", store, "--at", "warm", "--transport", "inproc"}, args...)
		first := runSaved(t, kind, args...)
		if other, there := seen[first.TraceHash]; there {
			t.Errorf("%s gives what %s gives", text, other)
		}
		seen[first.TraceHash] = text
		for _, how := range []string{"--workers 3 --spread nodes", "--workers 2"} {
			again := runSaved(t, kind, append(slices.Clone(args), strings.Fields(how)...)...)
			if !again.same(&first) {
				t.Errorf("%s %s gives %+v, want %+v", text, how, again, first)
			}
		}
	}
	for _, c := range []struct{ args, want string }{
		{"--set sim_settings.total_simulation_time=90", "total_simulation_time: found 90"},
		{"--set topology_graph.nodes.servers.server.id=other", "found"},
		{"--set nothing.like.this=1", "nothing"},
		{"--set " + cores + "=0", "found 0"},
		{"--replications 0", "found 0"},
		{"--replications 2 --checkpoint 1m", "no part of the run"},
		{"--replications 2 --trace out", "begun without"},
		{"--replications 2 --at cold", "--at is given twice"},
	} {
		var stdout, stderr bytes.Buffer
		args := append([]string{"disco-run", "resume", store, "--at", "warm"}, strings.Fields(c.args)...)
		status := Run(args, strings.NewReader(""), &stdout, &stderr, kind)
		if status != ExitUsage || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%s: exit status %d, %s; want %d and %q", c.args, status, stderr.String(), ExitUsage, c.want)
		}
	}
	if after := filesOf(t, store); after != before {
		t.Errorf("the place of the checkpoints has\n%s, want\n%s", after, before)
	}
}

const cores = "topology_graph.nodes.servers.server.server_resources.cpu_cores"

// filesOf is what a folder has: names and bytes.
func filesOf(t *testing.T, dir string) string {
	t.Helper()
	all := map[string]int{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			b, errRead := os.ReadFile(path)
			all[path], err = len(b), errRead
		}
		return err
	})
	text, errText := json.MarshalIndent(all, "", " ")
	if err != nil || errText != nil {
		t.Fatal(err, errText)
	}
	return string(text)
}
