// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"example.org/mymodel/gossip"
	"github.com/disco-sim/disco/app"
)

// TestMain lets this test's executable be the worker processes of the runs that it
// starts: app.Main does nothing else for a worker.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		app.Main(gossip.Kind())
	}
	os.Exit(m.Run())
}

// The rumour reaches everybody, and the trace is the same over one worker and over
// three.
func TestGossip(t *testing.T) {
	hashes := map[string]bool{}
	for _, workers := range []string{"1", "3"} {
		var stdout, stderr bytes.Buffer
		args := []string{"mymodel", "run", "office.yml", "--workers", workers, "--json", "-"}
		if status := app.Run(args, strings.NewReader(""), &stdout, &stderr, gossip.Kind()); status != app.ExitOK {
			t.Fatalf("exit status %d: %s", status, stderr.String())
		}
		var d struct {
			TraceHash string         `json:"trace_hash"`
			Results   gossip.Summary `json:"results"`
		}
		if err := json.Unmarshal(stdout.Bytes(), &d); err != nil {
			t.Fatal(err)
		}
		if d.Results.Knew != 1000 || d.Results.All == nil {
			t.Errorf("%v of 1000 people knew it", d.Results.Knew)
		}
		hashes[d.TraceHash] = true
	}
	if len(hashes) != 1 {
		t.Errorf("different traces: %v", hashes)
	}
}
