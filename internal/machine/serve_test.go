// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/worker"
)

// A Setup whose lists don't rise, or name workers that there aren't, is refused before anything is mapped.
func TestListedSegments(t *testing.T) {
	lanes := func(peers ...int32) (l []worker.LaneSize) {
		for _, p := range peers {
			l = append(l, worker.LaneSize{Peer: p, RingBytes: 1 << 12})
		}
		return l
	}
	good := func() *worker.Setup {
		return &worker.Setup{Worker: 1, Workers: 4, Pools: []int32{0, 1, 3}, Out: lanes(0, 2), In: lanes(0, 3)}
	}
	if err := checkListed(good()); err != nil {
		t.Fatal(err)
	}
	if err := checkListed(&worker.Setup{Workers: 1}); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		spoil func(*worker.Setup)
		text  string
	}{
		"a pool twice":            {func(s *worker.Setup) { s.Pools = []int32{0, 0} }, "pools of workers [0 0]"},
		"pools that fall":         {func(s *worker.Setup) { s.Pools = []int32{3, 1} }, "rise"},
		"a pool of nobody":        {func(s *worker.Setup) { s.Pools[2] = 4 }, "0 to 3"},
		"a pool below all":        {func(s *worker.Setup) { s.Pools[0] = -1 }, "number 0"},
		"more pools than workers": {func(s *worker.Setup) { s.Pools = make([]int32, 300) }, "number 1"},
		"a lane twice":            {func(s *worker.Setup) { s.Out = lanes(2, 2) }, "of workers [2 2]"},
		"a lane to nobody":        {func(s *worker.Setup) { s.Out = lanes(4) }, "0 to 3"},
		"a lane to itself":        {func(s *worker.Setup) { s.Out = lanes(1) }, "lanes to peers"},
		"a lane from itself":      {func(s *worker.Setup) { s.In = lanes(0, 1) }, "lanes from peers"},
		"lanes from that fall":    {func(s *worker.Setup) { s.In = lanes(3, 0) }, "lanes from peers"},
		"a lane from below all":   {func(s *worker.Setup) { s.In = lanes(-1 << 31) }, "number 0"},
	} {
		setup := good()
		c.spoil(setup)
		if err := checkListed(setup); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want an error with %q", what, err, c.text)
		}
	}
}
