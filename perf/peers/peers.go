// SPDX-License-Identifier: Apache-2.0

// Package peers measures other ways between two processes of one machine, in the same
// rows as disco: a pipe, a Unix socket, TCP over the loopback, a gRPC stream, and, where
// they are installed, Aeron, UCX, Open MPI, ZeroMQ and nng.
//
// Guarantee: an alternative that isn't installed is a row that names what to install; no process is left running,
// and no file behind.
//
//	bench.Main(peers.Command())
package peers

import (
	"context"

	"github.com/disco-sim/disco/perf/bench"
)

// way is one of the alternatives that are written in Go: two byte streams, one each way.
type way struct {
	name   string
	listen func(tlsDir string) (listener, error)
	dial   func(address, tlsDir string) (stream, error)
	secure bool // over TLS: tlsDir has certificates
}

func ways() []way {
	return []way{
		{"pipe", listenPipe, dialPipe, false},
		{"unix-socket", listenUnix, dialUnix, false},
		{TCP, listenTCP, dialTCP, false},
		{GRPC, listenGRPC, dialGRPC, false},
	}
}

// The ways that join machines, too. With Secured behind it a name is that of the same way over TLS.
const (
	TCP     = "tcp-loopback"
	GRPC    = "grpc-stream"
	Secured = "-tls"
)

// What is behind a way's name in that of a job.
const (
	Trip  = "-trip"   // a ping-pong
	flows = "-stream" // payloads one way
	// Batches are payloads one way as well, a batch of them in one piece: with gRPC a message.
	Batches = "-batches"
)

// Jobs are the jobs that both processes of a pair need.
func Jobs() (jobs []bench.Job) {
	add := func(w way, what string, do body) {
		jobs = append(jobs, bench.Job{Name: w.name + what, Sockets: w.secure,
			Open: func(s *bench.Side) (*bench.Run, error) { return open(w, s, do) }})
	}
	for _, w := range ways() {
		add(w, Trip, trip)
		add(w, flows, flow)
	}
	for _, w := range []way{{TCP, listenTCP, dialTCP, false}, {GRPC, listenGRPC, dialGRPC, false}} {
		add(w, Batches, batches)
		w.name, w.secure = w.name+Secured, true
		add(w, Trip, trip)
		add(w, Batches, batches)
	}
	return jobs
}

// Command is the command `peers` of disco-bench.
func Command() bench.Command {
	return bench.Command{Name: "peers", Usage: "round trips and rates of other ways between processes", Jobs: Jobs(),
		Specs: specsOf, Examples: []string{"peers --payload 1K --json peers.json"}}
}

// specsOf are its rows.
func specsOf(ctx context.Context, o bench.Options) (specs []bench.Spec, release func(), err error) {
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
	return specs, foreign.release, nil
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
		Bench: name + " latency", Row: task(o, name+Trip, payload, 1, "block"),
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
		Bench: name + " throughput", Row: task(o, name+flows, payload, batch, "block"),
		Limit: task(o, bench.LimitCopy, payload, limited, "spin"), LimitName: bench.LimitCopy, By: bench.ByRate,
		Disco: task(o, bench.JobStream, payload, limited, discoWait(o)),
	}
}
