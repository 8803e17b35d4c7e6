// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/seed"
	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/node"
	"github.com/disco-sim/disco/shm"
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

func unhindered() error { return nil }

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
	for workers := 1; workers <= worker.WorkersMax; workers++ {
		tuning := worker.DefaultTuning()
		sizes := ringSizes(evenTraffic(workers), &tuning)
		bytes, lanes := sum(sizes)
		if lanes != workers*(workers-1) || bytes > worker.AllRingBytesDefault {
			t.Fatalf("%d workers: %d lanes of %d bytes", workers, lanes, bytes)
		}
		if workers > 1 && bytes/lanes != sizes[0][1] || workers > 1 && workers < 5 && sizes[0][1] != 1<<20 ||
			workers == worker.WorkersMax && sizes[0][1] != tuning.RingBytesLeast() {
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

// What Needs counts is enough: giving up what only the workers need opens no file, and a post-mortem still finds
// the lanes.
func TestReleaseOpensNoFile(t *testing.T) {
	m, err := Make(ofOne(3), 0, Config{Proceed: unhindered})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	alone := worker.Setup{}
	if m.plan.List(&alone); alone.Machine != nil {
		t.Errorf("a worker is told the machines %v though there is one", alone.Machine)
	}
	var limit, few unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	few = limit
	few.Cur = uint64(m.lanes[2][1].File().Fd()) + 1 // of the segment that was made last
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	m.Release()
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
			if status, err := m.InspectLane(from, to); err != nil || status.Forward.Capacity != m.plan.Rings[from][to] {
				t.Errorf("the lane from %d to %d: %+v, %v", from, to, status, err)
			}
		}
	}
}

// Each of three machines makes what the plan says, its workers map what was made for them, each with the very
// segments that their peers have, and mirrors and the bridge's pools in place of what is elsewhere.
func TestThreeMachines(t *testing.T) {
	r := seed.Rand(t)
	for range 5 {
		p := threeMachines(randomTraffic(r, 6))
		in := worker.Input{File: "f"}
		input := inputSegment(t, &in)
		for self := range 7 { // 1, 3, 4 and 6 have no workers
			m, err := Make(p, self, Config{Input: input, Proceed: unhindered})
			if err != nil {
				t.Fatal(err)
			}
			_, segments, err := p.Needs(self, false)
			if err != nil || segments != len(m.all) {
				t.Errorf("machine %d has made %d segments, and needs %d (%v)", self, len(m.all), segments, err)
			}
			for w := range p.Machine {
				if p.here(self, w) {
					mapsItsOwn(t, m, w)
				} else if _, err := m.Start(w, Spec{}); err == nil {
					t.Errorf("machine %d starts worker %d", self, w)
				}
			}
			m.Release()
			for from, row := range m.lanes {
				for to, lane := range row {
					crosses := p.Machine[from] != p.Machine[to]
					if lane != nil && (lane.Body() != nil) != crosses {
						t.Errorf("machine %d has the lane from %d to %d mapped: %v", self, from, to, lane.Body() != nil)
					}
					if lane != nil && crosses && m.pools[from].Body() == nil {
						t.Errorf("machine %d has no pool for what %d sends to %d", self, from, to)
					}
				}
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := input.Close(); err != nil {
			t.Error(err)
		}
	}
}

// inputSegment is a segment with the input of a graph of six nodes.
func inputSegment(t *testing.T, in *worker.Input) *shm.Segment {
	t.Helper()
	g, err := node.Compile(&node.Graph{Simprocs: []string{"a"}, NodeCount: 6,
		NodeAt: func(n int) node.Node { return node.Node{Name: strconv.Itoa(n)} }}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if in.Placed, err = g.Place([]int32{0, 1, 2, 3, 4, 5}, 6); err != nil {
		t.Fatal(err)
	}
	s, err := shm.Create(in.Segment())
	if err == nil {
		err = in.Write(s.Body())
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mapsItsOwn lets this process map what worker self is handed.
func mapsItsOwn(t *testing.T, m *Memory, self int) {
	t.Helper()
	setup := &worker.Setup{Worker: self, Workers: m.plan.Workers(), Tuning: m.plan.Tuning}
	m.plan.List(setup)
	if !slices.Equal(setup.Machine, m.plan.Machine) {
		t.Errorf("worker %d is told the machines %v, want %v", self, setup.Machine, m.plan.Machine)
	}
	a := &attached{}
	defer a.close()
	for _, f := range m.files(self) {
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		a.files = append(a.files, os.NewFile(uintptr(fd), f.Name()))
	}
	s, _, err := a.attach(setup)
	if err != nil {
		t.Fatal(err)
	}
	same := func(what string, w int, got, want *shm.Segment) {
		if got == nil && want == nil {
			return
		}
		if got == nil || want == nil || got.ID() != want.ID() || got.Name() != want.Name() {
			t.Errorf("worker %d: %s %d is %v, want %v", self, what, w, got, want)
		}
	}
	home := int(m.plan.Machine[self])
	for w := range m.boards {
		same("board", w, s.Boards[w], m.boards[w])
		if mirror := strings.HasPrefix(s.Boards[w].Name(), mirrorPrefix); mirror == m.plan.here(home, w) {
			t.Errorf("worker %d has as board of worker %d: %s", self, w, s.Boards[w].Name())
		}
		same("lane to", w, s.Out[w], m.lanes[self][w])
		same("lane from", w, s.In[w], m.lanes[w][self])
		if s.In[w] != nil {
			same("pool of", w, s.Pools[w], m.pools[w])
			if !m.plan.here(home, w) && s.Pools[w].ID() != m.pools[m.plan.poolOf(home, w)].ID() {
				t.Errorf("worker %d has a pool of worker %d that isn't its machine's", self, w)
			}
		}
	}
}
