// SPDX-License-Identifier: Apache-2.0

package group

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/fleet"
)

// TestHealthIsShown has the list of machines say which aren't well, and why.
func TestHealthIsShown(t *testing.T) {
	p := picture{Members: []cluster.Member{{Name: "h1"}, {Name: "h2"}, {Name: "h3"}}, Drained: []string{"h2"},
		Health: healths{"h2": {Health: fleet.Full, Reason: "its agent is late"}, "h3": {Health: fleet.Gone}}}
	var out strings.Builder
	p.members(&out)
	lines := strings.Split(out.String(), "\n")
	for i, want := range []string{"h1  ", "drained, full: its agent is late", "h3  "} {
		if line := lines[i+1]; !strings.Contains(line, want) || strings.Contains(line, ":") != (i == 1) {
			t.Errorf("found %q", line)
		}
	}
	text, err := json.Marshal(p.Health)
	if want := `{"h2":{"health":"full","reason":"its agent is late"},"h3":{"health":"gone"}}`; err != nil ||
		string(text) != want {
		t.Errorf("found %s, %v", text, err)
	}
}
