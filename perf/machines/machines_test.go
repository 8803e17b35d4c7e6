// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/agents/agentstest"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/perf/bench"
	"github.com/disco-sim/disco/perf/peers"
)

// The other sides are processes of this test binary.
func TestMain(m *testing.M) {
	agentstest.Program()
	if bench.IsWorker() {
		os.Exit(bench.ServeWorker(bench.Jobs(peers.Command(), Command())))
	}
	leaktest.Main(m)
}

// measure runs the command for as short as can be.
func measure(t *testing.T, args ...string) []bench.Row {
	t.Helper()
	args = append([]string{"disco-bench", "bridge", "--time", "2ms", "--rounds", "1", "--json", "-"}, args...)
	var out, errs bytes.Buffer
	if status := bench.Execute(args, &out, &errs, peers.Command(), Command()); status != bench.ExitOK {
		t.Fatalf("exit %d: %s", status, errs.String())
	}
	rows, err := bench.ReadJSON(&out)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// Round trips and rates, plain and over TLS, beside both peers; events in rings, in blocks, and in batches that are
// larger than a ring.
func TestRows(t *testing.T) {
	for _, c := range []struct{ payload, batch int }{{64, 1}, {8, 20_000}, {100_000, 3}} {
		for _, threads := range []bool{false, true} {
			args := []string{"--payload", strconv.Itoa(c.payload), "--batch", strconv.Itoa(c.batch), "--ring", "65536"}
			if threads {
				args = append(args, "--threads")
			}
			t.Run(strings.Join(args, " "), func(t *testing.T) {
				rows := measure(t, args...)
				if len(rows) != 8 {
					t.Fatalf("%d rows, want 8", len(rows))
				}
				for _, r := range rows {
					trips := strings.HasPrefix(r.Bench, "bridge latency")
					secured := strings.HasSuffix(r.Bench, "-tls")
					if trips != (r.RTT != nil) || r.RatePerSecond <= 0 || r.Ratio == nil || r.Ratio.Min <= 0 ||
						secured != strings.HasSuffix(r.Limit, "-tls") || r.PayloadBytes != c.payload || r.Note != "" {
						t.Errorf("%+v", r)
					}
				}
			})
		}
	}
}
