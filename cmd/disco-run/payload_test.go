// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// runPhold runs the benchmark with the given flags and returns its hash, and how many
// payloads went by a block and in parts.
func runPhold(t *testing.T, bin string, flags ...string) (hash string, blocks, parts uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute) // a watchdog: a run that stands still
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, append([]string{"phold", "--remote", "1", "--json", "-"}, flags...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, stderr.Bytes())
	}
	var got struct {
		outcome
		PerWorker []struct {
			InBlocks uint64 `json:"in_blocks"`
			InParts  uint64 `json:"in_parts"`
		} `json:"per_worker"`
	}
	if err := json.Unmarshal(text, &got); err != nil || got.Events == 0 {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, text)
	}
	for _, w := range got.PerWorker {
		blocks, parts = blocks+w.InBlocks, parts+w.InParts
	}
	return got.TraceHash, blocks, parts
}

// More payload is pending than all pools hold, payloads are larger than every block, rings
// and pools are the smallest there are: nothing stands still, and the answer is that of
// one worker. Which way payloads take depends on timing; that each way is taken by some
// run is checked.
func TestLargePayloads(t *testing.T) {
	bin := build(t, "")
	var blocks, parts uint64
	for _, c := range []struct{ model, spread string }{
		{"--lps 12 --events 4 --payload 1000000 --end 5", "--workers 2"},
		{"--lps 12 --events 4 --payload 1000000 --end 5", "--workers 2 --transport inproc --ingress goroutine"},
		{"--lps 60 --events 4 --payload 70000 --end 5", "--workers 2"},
		{"--lps 60 --events 4 --payload 70000 --end 5", "--workers 3 --ring-bytes 1K --pool-bytes 64K"},
		{"--lps 60 --events 4 --payload 100 --end 5", "--workers 5 --inline-max 1 --pool-bytes 64K"},
		{"--lps 60 --events 4 --payload 100 --end 5",
			"--workers 5 --inline-max 1 --pool-bytes 2K --ring-bytes 1K --batch 1"},
		{
			"--lps 6 --events 2 --payload 1048576 --end 2",
			"--workers 4 --partition block --pool-bytes 4K --inline-max 100",
		},
		{"--lps 9 --events 3 --payload 300000 --end 3", "--workers 3 --ingress goroutine --wait park --pool-bytes 1M"},
		{"--lps 9 --events 3 --payload 65537 --end 3", "--workers 3 --transport inproc --wait yield --ring-bytes 2K"},
	} {
		want, _, _ := runPhold(t, bin, append(strings.Fields(c.model), "--workers", "1")...)
		got, b, p := runPhold(t, bin, append(strings.Fields(c.model), strings.Fields(c.spread)...)...)
		if got != want {
			t.Errorf("%s %s: trace hash %s, with one worker %s", c.model, c.spread, got, want)
		}
		blocks, parts = blocks+b, parts+p
		if b+p == 0 {
			t.Errorf("%s %s: no payload went by a block or in parts: nothing was tested", c.model, c.spread)
		}
	}
	if blocks == 0 || parts == 0 {
		t.Errorf("%d payloads went by a block and %d in parts, want some of each", blocks, parts)
	}
}
