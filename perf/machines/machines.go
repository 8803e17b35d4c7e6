// SPDX-License-Identifier: Apache-2.0

// Package machines measures what joins the machines of a run: worker, bridge, bridge, worker, beside a bare gRPC stream
// and a bare TCP connection that carry the same batches in the same rounds.
//
// Guarantee: every event is checked, whole and in order, on the other side. No process is left running, and no file
// behind.
//
//	bench.Main(machines.Command())
package machines

import (
	"context"
	"fmt"

	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/perf/bench"
	"github.com/disco-sim/disco/perf/peers"
	"github.com/disco-sim/disco/shm"
)

// The names of the jobs; with peers.Secured behind it over TLS. Each pair is a machine: its leading side is the worker,
// the following one the bridge.
const (
	jobTrip   = "bridge-trip"   // an event there, one back
	jobStream = "bridge-stream" // events one way
)

// Command is the command `bridge` of disco-bench. The jobs of package peers are to be there, too.
func Command() bench.Command {
	var jobs []bench.Job
	for _, name := range []string{jobTrip, jobStream, jobTrip + peers.Secured, jobStream + peers.Secured} {
		jobs = append(jobs, bench.Job{Name: name, Open: open, Sockets: true})
	}
	return bench.Command{Name: "bridge", Usage: "events between workers of two machines, beside bare gRPC and TCP",
		Jobs: jobs, Specs: specs, Flags: delayFlags(), Instead: delays,
		Examples: []string{"bridge --payload 64 --batch 128",
			"bridge --delays 0,1ms,10ms --program bin/disco-run --svg delays.svg"}}
}

// shape is what is sent: batches of so many events of so many bytes.
type shape struct{ payload, batch int }

// shapes are those of rates: small events in batches of 64 B to 1 MiB, and single ones of these sizes.
var shapes = []shape{{64, 1}, {64, 16}, {64, 128}, {64, 1 << 10}, {64, 1 << 14}, {1 << 10, 1}, {8 << 10, 1},
	{64 << 10, 1}, {1 << 20, 1}}

// specs are the rows: each of them beside gRPC, and once more beside TCP.
func specs(_ context.Context, o bench.Options) (list []bench.Spec, release func(), err error) {
	trip, rates := shape{64, 1}, shapes
	if o.Payload >= 0 || o.Batch > 0 {
		trip = shape{max(o.Payload, 0), 1}
		if o.Payload < 0 {
			trip.payload = 64
		}
		rates = []shape{{trip.payload, max(o.Batch, 1)}}
	}
	for _, secured := range []string{"", peers.Secured} {
		for _, peer := range []string{peers.GRPC, peers.TCP} {
			list = append(list, row(o, "latency", jobTrip+secured, peer+secured, peers.Trip, trip))
		}
		for _, s := range rates {
			for _, peer := range []string{peers.GRPC, peers.TCP} {
				list = append(list, row(o, "throughput", jobStream+secured, peer+secured, peers.Batches, s))
			}
		}
	}
	return list, func() {}, nil
}

// row is one of them. The limit carries as many bytes as an envelope has: with its header.
func row(o bench.Options, what, job, peer, body string, s shape) bench.Spec {
	t := bench.Task{Job: job, Payload: s.payload, Batch: s.batch, Wait: o.Wait, Ring: o.Ring, CPU: bench.AnyCPU,
		Time: o.Time}
	if t.Wait == "" {
		t.Wait = shm.ModeAdaptive.String()
	}
	limit := t
	limit.Job, limit.Payload = peer+body, s.payload+envelope.EventHeaderBytes
	name := "bridge " + what
	if job == jobTrip+peers.Secured || job == jobStream+peers.Secured {
		name += peers.Secured
	}
	spec := bench.Spec{Bench: name, Row: t, Pairs: 2, Processes: 4, Limit: limit, LimitName: peer, By: bench.ByRate}
	grpc := peer == peers.GRPC || peer == peers.GRPC+peers.Secured
	switch {
	case body == peers.Trip:
		spec.By = bench.ByTrip
		if grpc {
			spec.Goal.RatioMax = 1 / goal
		}
	case grpc:
		spec.Goal.RatioMin = goal
	}
	if n := processors(); n < threads {
		spec.Remark = fmt.Sprintf("oversubscribed: two workers and two bridges on %d processors take turns", n)
	}
	return spec
}

// goal is how much of a bare gRPC stream's speed there is to be.
const goal = 0.8

// threads are those that wait for work: a worker's and a pump's on each machine.
const threads = 4

func processors() int {
	cpus, err := shm.CPUs()
	if err != nil {
		return threads
	}
	return len(cpus)
}
