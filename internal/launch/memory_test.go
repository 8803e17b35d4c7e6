// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/worker"
	"golang.org/x/sys/unix"
)

// evenTraffic is workers that all send each other the same.
func evenTraffic(workers int) [][]float64 {
	traffic := make([][]float64, workers)
	for from := range traffic {
		traffic[from] = slices.Repeat([]float64{1}, workers)
		traffic[from][from] = 0
	}
	return traffic
}

// Rings have what they are expected to carry, and together no more than they may.
func TestRingSizes(t *testing.T) {
	sum := func(sizes [][]int) (bytes, lanes int) {
		for _, row := range sizes {
			for _, ring := range row {
				if bytes += ring; ring > 0 {
					lanes++
				}
			}
		}
		return bytes, lanes
	}
	for workers := 1; workers <= WorkersMax; workers++ {
		tuning := worker.DefaultTuning()
		sizes := ringSizes(evenTraffic(workers), &tuning)
		bytes, lanes := sum(sizes)
		if lanes != workers*(workers-1) || bytes > worker.AllRingBytesDefault {
			t.Fatalf("%d workers: %d lanes of %d bytes", workers, lanes, bytes)
		}
		if workers > 1 && bytes/lanes != sizes[0][1] || workers > 1 && workers < 5 && sizes[0][1] != 1<<20 ||
			workers == WorkersMax && sizes[0][1] != tuning.RingBytesLeast() {
			t.Fatalf("%d workers: %d bytes in each ring", workers, sizes[0][1])
		}
		for _, ring := range []int{1 << 10, 1 << 24} { // what the user says goes for every lane
			tuning := worker.Tuning{RingBytes: ring}
			if err := tuning.Validate(); err != nil {
				t.Fatal(err)
			}
			if bytes, lanes := sum(ringSizes(evenTraffic(workers), &tuning)); bytes != lanes*ring {
				t.Fatalf("%d workers with rings of %d bytes: %d bytes in %d lanes", workers, ring, bytes, lanes)
			}
		}
	}
	tuning := worker.DefaultTuning()
	traffic := [][]float64{{0, 1000, 1e-9, 0}, {1e300, 0, 10, 10}, {0, 0, 0, 0}, {0, 0, 1, 0}}
	tuning.AllRingBytes = 1 << 20
	want := [][]int{{0, 4096, 4096, 0}, {512 << 10, 0, 4096, 4096}, {0, 0, 0, 0}, {0, 0, 4096, 0}}
	if got := ringSizes(traffic, &tuning); !reflect.DeepEqual(got, want) {
		t.Errorf("rings %v, want %v", got, want)
	}
	tuning.AllRingBytes = 4 << 20 // the one that can't use its share leaves it to the next
	if got := ringSizes(traffic, &tuning); got[1][0] != 1<<20 || got[0][1] != 1<<20 || got[1][2] >= got[0][1] {
		t.Errorf("rings %v", got)
	}
	tuning.AllRingBytes = 1 // fewer than all need
	for _, row := range ringSizes(traffic, &tuning) {
		for _, ring := range row {
			if ring != 0 && ring != tuning.RingBytesLeast() {
				t.Errorf("ring of %d bytes", ring)
			}
		}
	}
}

// What checkFiles counts is enough: giving up what only the workers need opens no file, and a post-mortem still finds
// the lanes.
func TestReleaseOpensNoFile(t *testing.T) {
	m, err := planMemory(TransportShm, evenTraffic(3), worker.DefaultTuning())
	if err != nil {
		t.Fatal(err)
	}
	if m, err = m.create(0, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.close(); err != nil {
			t.Error(err)
		}
	}()
	var limit, few unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	few = limit
	few.Cur = uint64(m.lanes[2][1].File().Fd()) + 1 // of the segment that was made last
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	m.release()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	for from, row := range m.lanes {
		for to, s := range row {
			if s == nil {
				continue
			}
			if s.Body() != nil {
				t.Errorf("the lane from %d to %d is mapped", from, to)
			}
			if status, err := m.inspectLane(from, to); err != nil || status.Forward.Capacity != m.rings[from][to] {
				t.Errorf("the lane from %d to %d: %+v, %v", from, to, status, err)
			}
		}
	}
}

// A terabyte of pools on the heap is refused before anything is started, with what to do about it.
func TestLimits(t *testing.T) {
	tuning := worker.DefaultTuning()
	check := func(transport string, workers int) error {
		m, err := planMemory(transport, evenTraffic(workers), tuning)
		if err != nil {
			t.Fatal(err)
		}
		segments, _, err := m.needs()
		if err != nil {
			t.Fatal(err)
		}
		f := footprint{sets: 1, workers: workers, shared: m.shared}
		return errors.Join(new(Config).checkMemory(f.needs(false, 0, segments)), checkFiles(m, 1))
	}
	if err := check(TransportShm, 2); err != nil {
		t.Errorf("two workers: %v", err)
	}
	tuning.PoolBytes = worker.PoolBytesMax
	if err := check(TransportShm, WorkersMax); err != nil {
		t.Errorf("pools that take memory when it is needed: %v", err)
	}
	err := check(TransportInproc, WorkersMax)
	const advice = "are available: use fewer --workers, smaller --ring-bytes"
	if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), advice) {
		t.Errorf("%v, want a refusal that says what to do", err)
	}
}

// What can't be started leaves nothing behind, and no panic.
func TestTeamThatFails(t *testing.T) {
	l, err := Prepare(Config{File: "t.yml", Text: []byte("model: tiny\nhorizon: 1\nnodes: 2\n"), Registry: kinds(),
		Workers: 1, Replications: 1, Transport: TransportInproc})
	if err != nil {
		t.Fatal(err)
	}
	l.cfg.Trace = "/nowhere/at/all/trace" // gone since Prepare looked
	if _, err := l.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "/nowhere/at/all") {
		t.Errorf("%v, want an error about the trace's folder", err)
	}
}
