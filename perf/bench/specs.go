// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"time"

	"github.com/disco-sim/disco/ring"
	"github.com/disco-sim/disco/shm"
)

// Options are what a person may choose.
type Options struct {
	Payload int           // bytes; -1: each command's own
	Batch   int           // events; 0: each command's own
	Wait    string        // "": each command's own
	Pin     bool          // each side on a processor of its own
	Rounds  int           // limit and row, so many times
	Threads bool          // the sides are threads of one process
	Time    time.Duration // of one measurement
	Ring    int           // bytes of the rings
	Read    string        // what the asking side of `latency` reads of an answer: "" and ReadAll, ReadNumber, ReadEcho
}

// What a side reads of an event.
const (
	ReadAll    = "all"
	ReadNumber = "number" // the first word of the payload
	ReadEcho   = "echo"   // likewise, and the answering side sends back what came
)

// The limits of options.
const (
	PayloadMax  = 64 << 20
	BatchMax    = 1 << 16
	RoundsMax   = 1000
	TimeMin     = time.Millisecond
	TimeMax     = time.Minute
	RingMin     = 4 << 10
	RingMax     = 64 << 20
	RingDefault = 1 << 20 // as in a run of disco-run
	TimeDefault = 200 * time.Millisecond
	RoundsLeast = 5 // fewer say little; more say more
)

// Validate reports the first option that can't be.
func (o Options) Validate() error {
	switch {
	case o.Payload < -1 || o.Payload > PayloadMax:
		return fmt.Errorf("--payload: found %d, want 0 to %d bytes", o.Payload, PayloadMax)
	case o.Batch < 0 || o.Batch > BatchMax:
		return fmt.Errorf("--batch: found %d, want 1 to %d events", o.Batch, BatchMax)
	case o.Rounds < 1 || o.Rounds > RoundsMax:
		return fmt.Errorf("--rounds: found %d, want 1 to %d", o.Rounds, RoundsMax)
	case o.Time < TimeMin || o.Time > TimeMax:
		return fmt.Errorf("--time: found %v, want %v to %v", o.Time, TimeMin, TimeMax)
	case ring.CheckCapacity(o.Ring, RingMin, RingMax) != nil:
		return fmt.Errorf("--ring: found %d, want a power of two from %d to %d bytes", o.Ring, RingMin, RingMax)
	case o.Read != "" && o.Read != ReadAll && o.Read != ReadNumber && o.Read != ReadEcho:
		return fmt.Errorf("--read: found %q, want %s, %s or %s", o.Read, ReadAll, ReadNumber, ReadEcho)
	}
	if o.Wait != "" {
		if _, err := shm.ParseMode(o.Wait); err != nil {
			return fmt.Errorf("--wait: found %s, want spin, yield, park or adaptive", o.Wait)
		}
	}
	return nil
}

// task is the options' task for a job.
func (o Options) task(job string, payload, batch int, wait string) Task {
	t := Task{Job: job, Payload: payload, Batch: batch, Wait: wait, Ring: o.Ring, CPU: AnyCPU, Time: o.Time}
	if o.Pin {
		t.CPU = ApartCPUs
	}
	return t
}

// payloads are the user's choice, or the command's.
func (o Options) payloads(own ...int) []int {
	if o.Payload >= 0 {
		return []int{o.Payload}
	}
	return own
}

func (o Options) batches(own ...int) []int {
	if o.Batch > 0 {
		return []int{o.Batch}
	}
	return own
}

func (o Options) waits(own ...string) []string {
	if o.Wait != "" {
		return []string{o.Wait}
	}
	return own
}

// SpecsOf lists the rows of a command.
func SpecsOf(command string, o Options) ([]Spec, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	lists := map[string]func(Options) []Spec{
		"limit": specsLimits, "latency": specsLatency, "throughput": specsThroughput, "wake": specsWake,
		"idle": specsIdle, "overcommit": specsOvercommit, "payload": specsPayload,
		"ipc": specsByName,
	}
	if command != "all" {
		return lists[command](o), nil
	}
	var all []Spec
	for _, name := range []string{"limit", "latency", "throughput", "wake", "idle", "overcommit", "payload", "ipc"} {
		all = append(all, lists[name](o)...)
	}
	return all, nil
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

func specsLimits(o Options) (specs []Spec) {
	add := func(t Task) {
		specs = append(specs, Spec{Bench: t.Job, Row: t, LimitName: t.Job})
	}
	add(o.task(LimitFlag, 8, 0, "spin"))
	for _, payload := range o.payloads(64, kib) {
		for _, batch := range o.batches(1, 256) {
			add(o.task(LimitCopy, payload, fitBatch(batch, payload, o.Ring), "spin"))
		}
	}
	for _, payload := range o.payloads(64, mib) {
		add(o.task(LimitMemcpy, payload, 0, ""))
	}
	for _, place := range places() {
		t := o.task(LimitFutex, 4, 0, "park")
		t.CPU = place.cpu
		specs = append(specs, Spec{Bench: LimitFutex + place.suffix, Row: t, LimitName: LimitFutex + place.suffix})
	}
	return specs
}

// fitBatch keeps a batch within an eighth of the ring, where two sides can still work
// at the same time.
func fitBatch(batch, payload, ring int) int {
	return max(1, min(batch, ring/8/(payload+48)))
}

func specsLatency(o Options) (specs []Spec) {
	for _, wait := range o.waits("spin", "adaptive") {
		for _, payload := range o.payloads(64, kib) {
			s := Spec{
				Bench: "latency", Row: o.task(JobTrip, payload, 1, wait),
				Limit: o.task(LimitFlag, 8, 1, "spin"), LimitName: LimitFlag, By: ByTrip,
			}
			switch {
			case o.Read == ReadNumber:
				s.Bench, s.Row.Job = "latency-number", JobTripNumber
				s.Remark = "the asking side reads only the number of an answer"
			case o.Read == ReadEcho:
				s.Bench, s.Row.Job = "latency-echo", JobTripEcho
				s.Remark = "the answer is a copy of what came, and the asking side reads only its number"
			case payload == 64 && wait == "spin":
				s.Goal.RatioMax = 1.5
			}
			specs = append(specs, s)
		}
	}
	return specs
}

func specsThroughput(o Options) (specs []Spec) {
	for _, wait := range o.waits("spin") {
		for _, payload := range o.payloads(64, kib) {
			for _, batch := range o.batches(1, 256) {
				specs = append(specs, o.throughput(payload, batch, wait))
			}
		}
	}
	return specs
}

func (o Options) throughput(payload, batch int, wait string) Spec {
	batch = fitBatch(batch, payload, o.Ring)
	s := Spec{
		Bench: "throughput", Row: o.task(JobStream, payload, batch, wait),
		Limit: o.task(LimitCopy, payload, batch, "spin"), LimitName: LimitCopy, By: ByRate,
	}
	switch {
	case payload == 64 && batch == 1 && wait == "spin":
		s.Goal.RateMin = 45e6
	case payload == 64 && batch >= 64 && wait == "spin":
		s.Goal.RateMin, s.Goal.RatioMin = 120e6, 0.6
	case payload == kib && batch >= 64 && wait == "spin":
		s.Goal.BytesMin = 14e9
	}
	return s
}

type place struct {
	suffix string
	cpu    int
}

// places are where the two sides of a wake-up can be.
func places() []place {
	all := []place{{"-same-core", SameCPU}}
	if cpus, err := shm.CPUs(); err == nil && len(cpus) > 1 {
		all = append(all, place{"-other-core", ApartCPUs})
	}
	return all
}

func specsWake(o Options) (specs []Spec) {
	for _, place := range places() {
		for _, payload := range o.payloads(64) {
			for _, wait := range o.waits("park") {
				s := Spec{
					Bench: "wake" + place.suffix, Row: o.task(JobTrip, payload, 1, wait),
					Limit: o.task(LimitFutex, 4, 1, "park"), LimitName: LimitFutex, By: ByTrip,
				}
				s.Row.CPU, s.Limit.CPU = place.cpu, place.cpu
				if payload == 64 && wait == "park" {
					s.Goal.RatioMax = 1.15
				}
				specs = append(specs, s)
			}
		}
	}
	return specs
}

// idleFactor makes the idle row long enough for the clock of CPU seconds.
const idleFactor = 5

func specsIdle(o Options) (specs []Spec) {
	for _, wait := range o.waits("adaptive") {
		s := Spec{Bench: "idle", Row: o.task(JobIdle, 64, 0, wait), LimitName: LimitCore, By: ByCore}
		s.Row.Time *= idleFactor
		if wait == "adaptive" {
			s.Goal.RatioMax = 0.005
		}
		specs = append(specs, s)
	}
	return specs
}

func specsOvercommit(o Options) (specs []Spec) {
	cpus, _ := shm.CPUs()
	for _, wait := range o.waits("spin", "yield", "adaptive") {
		for _, payload := range o.payloads(64) {
			t := o.task(JobTrip, payload, 1, wait)
			s := Spec{
				Bench: "overcommit", Row: t, Pairs: max(2, len(cpus)),
				Limit: t, Limits: max(1, len(cpus)/2), LimitName: "one worker per core", By: ByTrip,
			}
			s.Goal.RatioMax = 3
			specs = append(specs, s)
		}
	}
	return specs
}

func specsPayload(o Options) (specs []Spec) {
	wait := o.waits("spin")[0]
	for _, payload := range o.payloads(64, kib, 16*kib, 64*kib, 256*kib, mib) {
		s := Spec{
			Bench: "payload-loan", Row: o.task(JobLoan, payload, 1, wait),
			Limit: o.task(JobTrip, 64, 1, wait), LimitName: "latency of 64 bytes", By: ByTrip,
		}
		if payload == mib {
			s.Goal.RatioMax = 2
		}
		specs = append(specs, s)
	}
	for _, payload := range o.payloads(mib) {
		specs = append(specs, Spec{
			Bench: "payload-loan-touched", Row: o.task(JobLoanTouch, payload, 1, wait),
			Limit: o.task(LimitTouch, payload, 1, "spin"), LimitName: LimitTouch, By: ByTrip,
		})
	}
	for _, payload := range o.payloads(64, 256, kib, 4*kib, 16*kib, 64*kib, 256*kib, mib) {
		specs = append(specs, o.copied("payload-copied", JobStreamTip, payload, wait),
			o.copied("payload-copied-read", JobStream, payload, wait))
	}
	for _, payload := range o.payloads(256*kib, mib) {
		specs = append(specs, Spec{
			Bench: "payload-parts", Row: o.task(JobParts, payload, 1, wait),
			Limit: o.task(JobStream, payload, 1, wait), LimitName: "payload-copied-read", By: ByRate,
		})
	}
	return specs
}

// specsByName are round trips between two names, and Senders of one name.
func specsByName(o Options) (specs []Spec) {
	for _, wait := range o.waits("spin", "adaptive") {
		for _, payload := range o.payloads(64, kib) {
			specs = append(specs, Spec{
				Bench: "ipc-latency", Row: o.task(JobByNameTrip, payload, 1, wait),
				Limit: o.task(LimitFlag, 8, 1, "spin"), LimitName: LimitFlag, By: ByTrip,
			})
		}
	}
	cpus, _ := shm.CPUs()
	for _, wait := range o.waits("spin") {
		for _, senders := range []int{1, 2, 4} {
			for _, payload := range o.payloads(64) {
				for _, batch := range o.batches(1) {
					specs = append(specs, o.senders(senders, payload, batch, wait, len(cpus)))
				}
			}
		}
	}
	return specs
}

// senders is a stream of several Senders to one Receiver.
func (o Options) senders(count, payload, batch int, wait string, cpus int) Spec {
	batch = fitBatch(batch, payload, o.Ring)
	s := Spec{
		Bench: fmt.Sprintf("ipc-%d-senders", count), Row: o.task(JobByNameStream, payload, batch, wait),
		Pairs: count, Processes: count + 1,
		Limit: o.task(LimitCopy, payload, batch, "spin"), LimitName: LimitCopy, By: ByRate,
	}
	s.Row.Senders = count
	if o.Pin {
		s.Row.CPU = GatherCPUs
	}
	if count == 1 {
		s.Bench = "ipc-throughput"
	}
	if count+1 > cpus {
		s.Remark = fmt.Sprintf("oversubscribed: %d sides on %d processors take turns", count+1, cpus)
	}
	return s
}

// copied is a stream of payloads that are copied in once, against a memcpy.
func (o Options) copied(name, job string, payload int, wait string) Spec {
	batch := fitBatch(o.batches(256)[0], payload, o.Ring)
	s := Spec{
		Bench: name, Row: o.task(job, payload, batch, wait),
		Limit: o.task(LimitMemcpy, payload, batch, ""), LimitName: LimitMemcpy, By: ByRate,
	}
	if payload == mib && job == JobStreamTip {
		s.Goal.RatioMin = 0.9
	}
	return s
}

// Needs gives the size of the fleet for all of the rows.
func Needs(specs []Spec, o Options) (pairs, arenaBytes int, err error) {
	pairs = 1
	payload := 64
	for _, s := range specs {
		pairs = max(pairs, s.Pairs, s.Limits)
		payload = max(payload, s.Row.Payload, s.Limit.Payload, s.Disco.Payload)
	}
	arenaBytes, err = ArenaBytes(payload, o.Ring)
	return pairs, arenaBytes, err
}
