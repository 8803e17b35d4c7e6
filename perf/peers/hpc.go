// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/disco-sim/disco/perf/bench"
)

// ucx is ucx_perftest over UCX's own shared memory. It measures one way; the row
// doubles that.
func (f *foreign) ucx() program {
	const tool = "ucx_perftest"
	return program{
		name:   "ucx",
		absent: absentProgram(tool, "ucx-utils"),
		latency: func(ctx context.Context, payload int) (bench.Result, error) {
			trips, _ := counts(payload)
			fields, cpu, err := ucxPair(ctx, "tag_lat", payload, trips)
			if err != nil {
				return bench.Result{}, err
			}
			return tripResult(trips, bench.RTT{P50: int64(2000 * fields[1])}, cpu), nil
		},
		stream: func(ctx context.Context, payload int) (bench.Result, error) {
			_, events := counts(payload)
			fields, cpu, err := ucxPair(ctx, "tag_bw", payload, events)
			if err != nil {
				return bench.Result{}, err
			}
			return streamResult(events, fields[7], cpu), nil
		},
	}
}

// streamResult is the result of events one way of which only the rate is known.
func streamResult(events int, rate, cpu float64) bench.Result {
	if rate <= 0 {
		return bench.Result{}
	}
	return bench.Result{Events: uint64(events), Nanos: int64(float64(events) * 1e9 / rate), CPU: cpu}
}

// ucxPair runs a server and a client and returns the fields of the client's last line:
// iterations, latency (µs): median, average, overall; MB/s: average, overall; events a
// second: average, overall.
func ucxPair(ctx context.Context, test string, payload, count int) (fields []float64, cpu float64, err error) {
	port, err := freePort()
	if err != nil {
		return nil, 0, err
	}
	env := []string{"UCX_TLS=posix,self,tcp"} // tcp only to connect
	serving, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_, _, _ = run(serving, env, "ucx_perftest", "-p", port)
	}()
	out, cpu, err := "", 0.0, error(nil)
	for try := 0; try < 50; try++ { // until the server listens
		if out, cpu, err = run(ctx, env, "ucx_perftest", "127.0.0.1", "-p", port, "-t", test, "-s",
			strconv.Itoa(payload), "-n", strconv.Itoa(count), "-w", "100", "-f", "-v"); err == nil || ctx.Err() != nil {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	stop()
	<-served
	if err != nil {
		return nil, 0, err
	}
	for _, text := range strings.Split(lastLine(out), ",") {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			break
		}
		fields = append(fields, v)
	}
	if len(fields) < 8 {
		return nil, 0, fmt.Errorf("peers: ucx_perftest printed %q, want 8 numbers", lastLine(out))
	}
	return fields, 2 * cpu, nil // the server uses as much
}

// freePort finds a TCP port that is not in use.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("peers: %w", err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// openMPI is NetPIPE over Open MPI's shared memory. It measures the mean of one way;
// the row doubles that.
func (f *foreign) openMPI() program {
	p := program{name: "open-mpi", absent: absentProgram("NPopenmpi", "netpipe-openmpi")}
	if p.absent == "" {
		p.absent = absentProgram("mpirun", "openmpi-bin")
	}
	p.latency = func(ctx context.Context, payload int) (bench.Result, error) {
		trips, _ := counts(payload)
		micros, cpu, err := netpipe(ctx, payload, trips)
		if err != nil {
			return bench.Result{}, err
		}
		return tripResult(trips, bench.RTT{P50: int64(2000 * micros)}, cpu), nil
	}
	p.stream = func(ctx context.Context, payload int) (bench.Result, error) {
		_, events := counts(payload)
		micros, cpu, err := netpipe(ctx, payload, events, "-s")
		if err != nil {
			return bench.Result{}, err
		}
		return streamResult(events, 1e6/micros, cpu), nil
	}
	return p
}

// netpipe runs NetPIPE for one size and returns the µs that one payload takes one way.
func netpipe(ctx context.Context, payload, count int, more ...string) (micros, cpu float64, err error) {
	size := strconv.Itoa(payload)
	args := []string{"-np", "2", "--oversubscribe"}
	if os.Geteuid() == 0 {
		args = append(args, "--allow-run-as-root")
	}
	args = append(args, "NPopenmpi", "-l", size, "-u", size, "-p", "0", "-n", strconv.Itoa(count), "-o", os.DevNull)
	out, cpu, err := run(ctx, nil, "mpirun", append(args, more...)...)
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(out) {
		if _, rest, ok := strings.Cut(line, "Mbps in"); ok {
			if _, err := fmt.Sscan(rest, &micros); err == nil && micros > 0 {
				return micros, cpu, nil
			}
		}
	}
	return 0, 0, fmt.Errorf("peers: NPopenmpi printed %q, want a line with \"Mbps in … usec\"", lastLine(out))
}
