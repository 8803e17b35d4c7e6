// SPDX-License-Identifier: Apache-2.0

// Package peers measures other ways between two processes of one machine, in the same
// rows as disco: a pipe, a Unix socket, TCP over the loopback, a gRPC stream, and, where
// they are installed, Aeron, UCX, Open MPI, ZeroMQ and nng.
//
// Guarantee: an alternative that isn't installed is a row that names what to install; no process is left running,
// and no file behind.
//
//	bench.Main(bench.Alternatives{Jobs: peers.Jobs(), Specs: peers.Specs})
package peers

import (
	"context"

	"github.com/disco-sim/disco/perf/bench"
)

// way is one of the alternatives that are written in Go: two byte streams, one each way.
type way struct {
	name   string
	listen func() (listener, error)
	dial   func(address string) (stream, error)
}

func ways() []way {
	return []way{
		{"pipe", listenPipe, dialPipe},
		{"unix-socket", listenUnix, dialUnix},
		{"tcp-loopback", listenTCP, dialTCP},
		{"grpc-stream", listenGRPC, dialGRPC},
	}
}

// Jobs are the jobs that both processes of a pair need: for each way a ping-pong and a stream.
func Jobs() (jobs []bench.Job) {
	for _, w := range ways() {
		jobs = append(jobs,
			bench.Job{Name: w.name + "-trip", Open: func(s *bench.Side) (*bench.Run, error) {
				return open(w, s, trip)
			}},
			bench.Job{Name: w.name + "-stream",
				Open: func(s *bench.Side) (*bench.Run, error) { return open(w, s, flow) }})
	}
	return jobs
}

// Specs are the rows of the command `peers`. The caller calls release when it has
// measured them.
func Specs(ctx context.Context, o bench.Options) (specs []bench.Spec, release func()) {
	payloads := []int{64, 1 << 10}
	if o.Payload >= 0 {
		payloads = []int{o.Payload}
	}
	batch := o.Batch
	if batch == 0 {
		batch = 256
	}
	foreign := newForeign(ctx)
	for _, payload := range payloads {
		for _, w := range ways() {
			specs = append(specs, latency(o, w.name, payload), throughput(o, w.name, payload, batch))
		}
		for _, p := range foreign.programs(o) {
			specs = append(specs, foreign.latency(o, p, payload), foreign.throughput(o, p, payload))
		}
	}
	return specs, foreign.release
}

// task is the part of a task that all rows share.
func task(o bench.Options, job string, payload, batch int, wait string) bench.Task {
	t := bench.Task{Job: job, Payload: payload, Batch: batch, Wait: wait, Ring: o.Ring, CPU: bench.AnyCPU, Time: o.Time}
	if o.Pin {
		t.CPU = bench.ApartCPUs
	}
	return t
}

func latency(o bench.Options, name string, payload int) bench.Spec {
	return bench.Spec{
		Bench: name + " latency", Row: task(o, name+"-trip", payload, 1, "block"),
		Limit: task(o, bench.LimitFlag, 8, 1, "spin"), LimitName: bench.LimitFlag, By: bench.ByTrip,
		Disco: task(o, bench.JobTrip, payload, 1, discoWait(o)),
	}
}

// discoWait is how disco waits beside a peer.
func discoWait(o bench.Options) string {
	if o.Wait == "" {
		return "spin"
	}
	return o.Wait
}

func throughput(o bench.Options, name string, payload, batch int) bench.Spec {
	limited := min(batch, max(1, o.Ring/8/(payload+48)))
	return bench.Spec{
		Bench: name + " throughput", Row: task(o, name+"-stream", payload, batch, "block"),
		Limit: task(o, bench.LimitCopy, payload, limited, "spin"), LimitName: bench.LimitCopy, By: bench.ByRate,
		Disco: task(o, bench.JobStream, payload, limited, discoWait(o)),
	}
}
