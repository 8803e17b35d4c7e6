// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"fmt"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/worker"
	"github.com/disco-sim/disco/node"
)

type numbered int

func (n numbered) NumSimprocs() int            { return int(n) }
func (numbered) Name(id node.SimprocID) string { return fmt.Sprintf("box %d", id) }

func resultsOf(ids ...uint32) *worker.Results {
	r := &worker.Results{Simprocs: ids}
	for _, id := range ids {
		r.Hashes, r.Sizes, r.Data = append(r.Hashes, uint64(7*id)), append(r.Sizes, 3), append(r.Data, byte(id), 1)
	}
	return r
}

// Whatever workers say, every simproc is there exactly once, and in which order they say it changes nothing.
func TestCollection(t *testing.T) {
	const n = numbered(4)
	var hashes []string
	for _, order := range [][]*worker.Results{
		{resultsOf(0, 1, 2, 3)}, {resultsOf(1, 3), resultsOf(), resultsOf(0), resultsOf(2)},
	} {
		c := newCollection(n)
		for _, r := range order {
			if err := c.add(r); err != nil {
				t.Fatal(err)
			}
		}
		h, err := c.traceHash()
		if err != nil || string(c.reports[2]) != "\x02\x01" {
			t.Fatalf("%v, reports %q", err, c.reports)
		}
		hashes = append(hashes, string(h))
	}
	if hashes[0] != hashes[1] {
		t.Error("the trace hash depends on the order of the results")
	}
	for want, then := range map[string]*worker.Results{
		"simproc 4, but there are 4":                         resultsOf(2, 4),
		"the trace hash of box 1, which was reported before": resultsOf(1, 2),
	} {
		c := newCollection(n)
		if err := c.add(resultsOf(0, 1)); err != nil {
			t.Fatal(err)
		}
		if err := c.add(then); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	c := newCollection(n)
	const want = "no worker reports the trace hash of box 0"
	if _, err := c.traceHash(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("nothing reported: %v, want %q", err, want)
	}
}
