// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/agents"
	"github.com/disco-sim/disco/internal/agents/agentstest"
	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) {
	agentstest.Program()
	leaktest.Main(m)
}

// All of it, in little, on loopback addresses.
func TestDemo(t *testing.T) {
	scenario := filepath.Join(t.TempDir(), "phold.yml")
	if err := os.WriteFile(scenario, []byte("model: phold\nlps: 64\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	d := &demo{program: agentstest.Install(t), scenario: scenario, horizon: "10", out: agents.Locked(&out),
		delay: 50 * time.Microsecond,
		pull:  pull{3 * time.Second, 300 * time.Millisecond, 700 * time.Millisecond, 500 * time.Millisecond}}
	err := d.show(t.Context(), agents.Config{Hosts: []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"},
		Front: "127.0.0.1"})
	for _, want := range []string{"on 3 machines: ", "the cable is in", "the run went on, with the same trace hash",
		"nothing is left"} {
		if err != nil || !strings.Contains(out.String(), want) {
			t.Fatalf("%v: no %q in\n%s", err, want, out.String())
		}
	}
}
