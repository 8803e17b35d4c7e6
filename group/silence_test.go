// SPDX-License-Identifier: Apache-2.0

package group

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/forward"
)

// TestSilentMachine: a machine from which nothing comes is noted as unreachable where the run was called, and shown by
// `machines`; nothing ends by it. When something comes again, that is noted, and the trace hash is that of one machine.
func TestSilentMachine(t *testing.T) {
	m := startMachines(t, 2)
	way, err := forward.New("", m.targets[1].Address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(way.Close)
	// Each tenth of a simulated second takes a message from one machine to the other: without the time of silence the
	// run lasts 20 s at least.
	way.Set(forward.Traffic{Delay: 20 * time.Millisecond})
	file, out := scenarioFile(t, 100, ""), filepath.Join(t.TempDir(), "results.json")
	want := results(t, file)
	p := start(t, nil, "run", file, "--json", out, "--name", "long", "--machines",
		machineFile(t, m.targets[0].Address, way.Addr()), "--insecure", "--connect-timeout", "1m",
		"--peer-timeout", "6s", "--reconnect-window", "10m")
	underWay(t, m)
	const silent, cut = "nothing has come from m1 to ", " m1 have no connection"
	for noted := false; !noted; {
		way.Isolate()
		seen := p.expectAny(t, silent, cut)
		line := seen[len(seen)-1]
		if noted = strings.Contains(line, silent); noted {
			if !strings.Contains(line, "m1 is still part of the run, and counts as cut off after 6s (--peer-timeout)") {
				t.Error(line)
			}
			await(t, "the agent of m0 shows it", func() bool {
				return strings.HasPrefix(m.status(t, 0).Runs[0].Unreachable, "m1 for ")
			})
			status, shown, errs := run("", "machines", m.file(t, 1), "--insecure")
			if status != 0 || !strings.Contains(shown, "long (2; unreachable: m1 for ") {
				t.Errorf("%d\n%s%s", status, shown, errs)
			}
		}
		way.Heal()
		p.expectAny(t, "m1 is reachable again", " m1 are connected again")
		await(t, "the agent of m0 shows that it is back", func() bool {
			return m.status(t, 0).Runs[0].Unreachable == ""
		})
	}
	way.Set(forward.Traffic{})
	for p.lines.Scan() {
		continue
	}
	if err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	var got shownResults
	text, err := os.ReadFile(out)
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	if err != nil || got.Hash != want.Hash || got.Workers != 4 {
		t.Errorf("%+v, %v; want the hash %s", got, err, want.Hash)
	}
	m.free(t, 0, 1)
	m.stop(t)
}
