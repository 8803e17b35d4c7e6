// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"

	"github.com/disco-sim/disco/model/service"
	"github.com/disco-sim/disco/scenario"
)

// TestWrite: what gen writes is a valid scenario of the size asked for.
func TestWrite(t *testing.T) {
	for _, c := range []struct {
		servers, balancers int
		groups             bool
	}{{1, 1, false}, {7, 3, false}, {2000, 20, false}, {1, 1, true}, {7, 3, true}, {2000, 20, true}} {
		var text bytes.Buffer
		write(&text, c.servers, c.balancers, c.groups, 200_000, 60)
		doc, err := scenario.Parse("big.yml", text.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		s, err := service.Load(doc, scenario.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Servers) != c.servers || len(s.Balancers) != c.balancers+1 || s.Settings.Horizon != 60 {
			t.Errorf("%d servers, %d balancers, horizon %v s; want %d, %d and one more, 60 s", len(s.Servers),
				len(s.Balancers), s.Settings.Horizon, c.servers, c.balancers)
		}
		if rate := s.Workload.Users.Mean * s.Workload.RequestsPerMinute / 60; rate != 200_000 {
			t.Errorf("%v requests a second, want 200,000", rate)
		}
		if len(s.Notes) != 0 {
			t.Errorf("notes: %v", s.Notes)
		}
	}
}
