// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"testing"
)

// rossEvents are the counts of ROSS, by the probability of a remote event, for the
// parameters of TestPholdCounts.
var rossEvents = map[float64]uint64{0: 3275560, 0.10: 3276717, 0.25: 3275598, 0.5: 3277883, 1: 3276988}

// With ROSS's generator PHOLD handles exactly as many events as ROSS does; for one of the probabilities on however many
// workers, as processes and as goroutines: a run has 3 million events.
func TestPholdCounts(t *testing.T) {
	bin := build(t, "")
	for remote, want := range rossEvents {
		hash := ""
		for _, transport := range []string{"shm", "inproc"} {
			for _, workers := range []int{1, 2, 4} {
				if remote != 0.5 && (transport != "shm" || workers != 2) {
					continue
				}
				cmd := exec.Command(bin, "phold", "--rng", "clcg4", "--lps", "1024", "--events", "16", "--lookahead",
					"0.1", "--end", "200",
					"--remote", fmt.Sprint(remote), "--workers", fmt.Sprint(
						workers), "--transport", transport, "--json", "-")
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				text, err := cmd.Output()
				if err != nil {
					t.Fatalf("%v: %v\n%s", cmd.Args, err, stderr.Bytes())
				}
				var got struct {
					outcome
					Remote    float64 `json:"remote"`
					Lookahead float64 `json:"lookahead_s"`
				}
				if err := json.Unmarshal(text, &got); err != nil {
					t.Fatalf("%v: %v\n%s", cmd.Args, err, text)
				}
				if hash == "" {
					hash = got.TraceHash
				}
				if got.Events != want || got.TraceHash != hash || got.Remote != remote || got.Lookahead != 0.1 {
					t.Errorf("remote %v over %d workers (%s): %d events with hash %s, want %d with %s; headline says "+
						"remote %v, lookahead %v",
						remote, workers, transport, got.Events, got.TraceHash, want, hash, got.Remote, got.Lookahead)
				}
			}
		}
	}
}
