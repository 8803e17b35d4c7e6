// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/race"
	"github.com/disco-sim/disco/model/devstone"
	"github.com/disco-sim/disco/model/network"
	"github.com/disco-sim/disco/model/phold"
	"github.com/disco-sim/disco/model/queueing"
	"github.com/disco-sim/disco/model/service"
	"github.com/disco-sim/disco/model/supply"
)

// TestMistakesOfKinds: what only a kind knows to be wrong is still the flag's fault, with
// exit status 2 and what is allowed.
func TestMistakesOfKinds(t *testing.T) {
	if race.Enabled {
		t.Skip("one goroutine reads texts")
	}
	secret := filepath.Join(t.TempDir(), "net.yml")
	if err := os.WriteFile(secret, []byte("model: network\ntopology: /proc/self/environ\ntraffic: {}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(t.TempDir(), "large.yml")
	if err := os.WriteFile(large, []byte("model: network\ntopology: large.gml\ntraffic: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	gml := filepath.Join(filepath.Dir(large), "large.gml")
	if err := errors.Join(os.WriteFile(gml, nil, 0o600), os.Truncate(gml, 64<<20+1)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SECRET", "hunter2")
	for line, want := range map[string]string{
		"run ../examples/mini.yml --horizon 1e12": "disco-run: run: --horizon: found 1e+12, " +
			"want a number of simulated seconds > 0 and <= 1e+09",
		"run ../examples/jackson.yml --horizon 1e12": "disco-run: run: --horizon: found 1e+12, " +
			"want a number of simulated seconds > 0 and <= 1e+09",
		"run ../examples/backbone.yml --horizon 1e12": "disco-run: run: --horizon: found 1e+12, want",
		"run ../examples/phold.yml --horizon 1e300": "disco-run: run: --horizon: found 1e+300, " +
			"want",
		"run ../examples/mini.yml --horizon 1e12 --sweep rqs_input.id=a": "disco-run: run: --horizon: found 1e+12, " +
			"want",
		"phold --payload 2M": "disco-run: phold: --payload: found 2097152, want a whole number from 0 to " +
			"1048576",
		"phold --payload 1T":          `disco-run: phold: --payload: found the text "1T", want a whole number`,
		"phold --lps 0":               "disco-run: phold: --lps: found 0, want a whole number from",
		"phold --lps x":               `disco-run: phold: --lps: found the text "x", want a whole number`,
		"phold --lps 1e300":           "disco-run: phold: --lps: found 1e300, want a whole number",
		"phold --lps NaN":             `disco-run: phold: --lps: found the text "NaN", want a whole number`,
		"phold --remote 2":            "disco-run: phold: --remote: found 2, want a number from 0 to 1",
		"phold --remote -1":           "disco-run: phold: --remote: found -1, want a number from 0 to 1",
		"phold --lookahead -1":        "disco-run: phold: --lookahead: found -1, want a number",
		"phold --lookahead .inf":      "disco-run: phold: --lookahead: found .inf, which is not finite, want a number",
		"phold --end 0":               "disco-run: phold: --end: found 0, want a number",
		"phold --events -1":           "disco-run: phold: --events: found -1, want a whole number",
		"phold --payload 99999999999": "disco-run: phold: --payload: found 99999999999, want a whole number",
		"phold --rng dice":            `disco-run: phold: --rng: found the text "dice", want one of`,
		"phold --rng ''":              "disco-run: phold: --rng: found",
		"phold --lps 0 --end 0":       "disco-run: phold: --lps: found 0",
		"phold --lps 4 --lps 5":       "disco-run: phold: --lps is given twice",
		"phold --set lps=0":           "command line (lps=0):2:6: lps: found 0",
		"phold --set lp=4":            "command line (lp=4):",
		"phold --set lps":             "disco-run: phold: --set: found \"lps\", want KEY=VALUE",
		"phold --sweep lps=1,0":       "command line (lps=0):2:6: lps: found 0",
		"phold file.yml":              "disco-run: phold: found 1 argument (\"file.yml\"), want flags only",
		"phold --horizon 3":           "disco-run: phold: there is no flag --horizon",
		"run " + large: "large.yml:2:11: topology: found a file of 67108865 bytes (" + gml +
			"), want the path of a network in GML of at most 67108864 bytes, from the folder of this file",
		"run " + secret: "/proc/self/environ",
		"validate ../examples/mini.yml --set topology_graph.nodes.servers.serverr.id=x": "disco-run: validate: " +
			"--set: topology_graph.nodes.servers.serverr.id: ../examples/mini.yml:18: found no serverr in " +
			"topology_graph.nodes.servers, want an item that stands there (server); did you mean server?",
	} {
		var stdout, stderr bytes.Buffer
		status := Run(append([]string{"disco-run"}, strings.Fields(line)...), strings.NewReader(""), &stdout, &stderr,
			service.Kind(), network.Kind(), queueing.Kind(), supply.Kind(), phold.Kind(), devstone.Kind())
		if status != ExitUsage || !strings.Contains(stderr.String(), want) ||
			strings.Contains(stderr.String(), "hunter2") || stdout.Len() > 0 {
			t.Errorf("%s: exit status %d, want %q:\n%s%s", line, status, want, stdout.String(), stderr.String())
		}
	}
}
