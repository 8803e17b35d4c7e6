// SPDX-License-Identifier: Apache-2.0

package peers_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/perf/bench"
	"github.com/disco-sim/disco/perf/peers"
)

// The other sides of pairs are processes of this test binary.
func TestMain(m *testing.M) {
	if bench.IsWorker() {
		os.Exit(bench.ServeWorker(bench.Jobs(peers.Command())))
	}
	leaktest.Main(m)
}

// own are the peers that need nothing installed.
func own() bench.Command {
	c := peers.Command()
	list := c.Specs
	c.Specs = func(ctx context.Context, o bench.Options) (specs []bench.Spec, release func(), err error) {
		all, release, err := list(ctx, o)
		for _, s := range all {
			if s.Measure == nil {
				specs = append(specs, s)
			}
		}
		return specs, release, err
	}
	return c
}

func TestPeersInBothModes(t *testing.T) {
	for _, mode := range []string{"processes", "threads"} {
		t.Run(mode, func(t *testing.T) {
			args := []string{"disco-bench", "peers", "--time", "2ms", "--rounds", "1", "--json", "-"}
			if mode == "threads" {
				args = append(args, "--threads")
			}
			var out, errs bytes.Buffer
			if status := bench.Execute(args, &out, &errs, own()); status != bench.ExitOK {
				t.Fatalf("exit %d: %s", status, errs.String())
			}
			rows, err := bench.ReadJSON(&out)
			if err != nil || len(rows) != 16 {
				t.Fatalf("%d rows, want 16: %v", len(rows), err)
			}
			for _, r := range rows {
				if trips := strings.HasSuffix(r.Bench, " latency"); trips != (r.RTT != nil) || r.RatePerSecond <= 0 ||
					r.Note != "" || r.Disco == nil || trips != (r.Disco.RTT != nil) || r.Disco.Ratio.Min <= 0 {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}

// Whatever is installed here, each program has its rows, and one that isn't there says
// what to install.
func TestAbsentAlternativesAreReported(t *testing.T) {
	t.Setenv("PATH", "")
	specs, release, err := peers.Command().Specs(context.Background(),
		bench.Options{Payload: 64, Rounds: 1, Time: bench.TimeMin, Ring: bench.RingDefault})
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	absent := map[string]string{}
	for _, s := range specs {
		if s.Absent != "" {
			absent[s.Bench] = s.Absent
		}
	}
	for name, deb := range map[string]string{"aeron": "Aeron's source", "ucx": "ucx-utils",
		"open-mpi": "netpipe-openmpi", "zeromq": "libzmq3-dev", "nng": "libnng-dev"} {
		for _, what := range []string{" latency", " throughput"} {
			if !strings.Contains(absent[name+what], deb) {
				t.Errorf("%s%s: %q, want %s", name, what, absent[name+what], deb)
			}
		}
	}
}
