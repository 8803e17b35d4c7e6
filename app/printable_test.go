// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/race"
	"github.com/disco-sim/disco/model/service"
)

// hostile are texts that would steer a terminal: colours, a title, a line drawn over, C1
// in UTF-8 and as a raw byte, and text that runs backwards.
var hostile = []string{"\x1b[31mred", "\x1b]0;title\x07", "over\rdrawn", "\u009b31m", "\x9b31m", "\u202egnp.exe",
	"\u2066x", "\x7f\x08", "\u2028line"}

// steers says which part of a text could do anything to a terminal.
func steers(text []byte) string {
	for rest := text; len(rest) > 0; {
		c, size := utf8.DecodeRune(rest)
		if c == utf8.RuneError && size == 1 || c != '\n' && c != '\t' &&
			(unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) || unicode.Is(unicode.Zl, c)) {
			return string(rest[:min(len(rest), 40)])
		}
		rest = rest[size:]
	}
	return ""
}

// TestNothingSteersTheTerminal puts hostile texts wherever a person's or a file's text
// can get: commands, flags, values, names of files, keys and ids in them.
func TestNothingSteersTheTerminal(t *testing.T) {
	if race.Enabled {
		t.Skip("it is about texts")
	}
	t.Chdir(t.TempDir())
	for _, h := range hostile {
		quoted, err := json.Marshal(h) // in a file it stands as an escape: YAML has no raw ones
		if err != nil {
			t.Fatal(err)
		}
		name := strings.ReplaceAll(h, "/", "") + ".yml"
		key := string(quoted)
		texts := map[string]string{
			"id.yml": "rqs_input: {id: " + key +
				", avg_active_users: {mean: 3}, avg_request_per_minute_per_user: {mean: 20}}\n" + key + ": 1\n",
			"value.yml":  "model: tiny\nhorizon: " + key + "\nnodes: " + key + "\n",
			"model.yml":  "model: " + key + "\n",
			"key.yml":    "model: tiny\nhorizon: 1\nnodes: 2\n" + key + ": 1\n",
			"raw.yml":    "model: tiny # " + h + "\n",
			"net.yml":    "model: network\ntopology: " + key + "\n",
			"list.place": key + ": 0\n",
			name:         "model: tiny\nhorizon: 1\nnodes: 2\n",
		}
		for file, text := range texts {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		lines := [][]string{
			{h}, {"run"}, {"run", h}, {"run", name, h}, {"validate", h}, {"top", h}, {"ps", h}, {"version", h},
			{"run", name, "--" + h}, {"run", name, "--json", h + "/x"},
			{"run", name, "--json", "-", "--transport", "inproc"},
			{"run", name, "--trace", h + "/x"}, {"run", name, "--cpuprofile", name + "/x"}, {"run", name, "--csv", h},
			{"run", name, "--placement", h}, {"run", name, "--placement", "list.place"}, {"validate", name},
			{"run", name, "--transport", "inproc"}, {"run", name, "--sweep", h}, {"run", name, "--sweep", "nodes=" + h},
			{"run", name, "--sweep", h + "=1"},
		}
		for _, flag := range []string{"workers", "seed", "replications", "horizon", "transport", "spread", "partition",
			"ring-bytes", "inline-max", "pool-bytes", "batch", "ingress", "sync", "wait"} {
			lines = append(lines, []string{"run", name, "--" + flag, h})
		}
		for file := range texts {
			lines = append(lines, []string{"run", file, "--transport", "inproc"}, []string{"validate", file})
		}
		for _, args := range lines {
			var stdout, stderr bytes.Buffer
			Run(append([]string{"disco-run"}, args...), strings.NewReader(""), &stdout, &stderr, launchtest.Kind(),
				service.Kind())
			for what, text := range map[string][]byte{"standard output": stdout.Bytes(),
				"standard error": stderr.Bytes()} {
				if part := steers(text); part != "" {
					t.Errorf("%q: %q on %s", args, part, what)
				}
			}
		}
		if err := os.Remove(filepath.Clean(name)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWorkersDontSteerTheTerminal: what workers print comes through the same writer.
func TestWorkersDontSteerTheTerminal(t *testing.T) {
	var stdout, stderr bytes.Buffer
	s := newScreen(newOutlet(&stderr), "disco-run")
	if _, err := s.Write([]byte("worker 0: \x1b[2J\u202e\x9b\n")); err != nil {
		t.Fatal(err)
	}
	if part := steers(stderr.Bytes()); part != "" || stdout.Len() > 0 {
		t.Errorf("%q", part)
	}
}
