// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// waits is what workers have exchanged to stay in step.
type waits struct {
	Events    uint64
	TraceHash string `json:"trace_hash"`
	PerWorker []struct {
		Promises  uint64
		IdleJumps uint64 `json:"idle_jumps"`
	} `json:"per_worker"`
}

// each is how many promises and idle jumps there were for each event.
func (w *waits) each() float64 {
	sum := uint64(0)
	for _, p := range w.PerWorker {
		sum += p.Promises + p.IdleJumps
	}
	return float64(sum) / float64(w.Events)
}

func waitsOf(t *testing.T, bin, model, spread string) *waits {
	t.Helper()
	args := append(strings.Fields(model), strings.Fields(spread)...)
	cmd := exec.Command(bin, append(args, "--transport", "inproc", "--processors", "2", "--json", "-")...)
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	var w waits
	if err := json.Unmarshal(text, &w); err != nil || w.Events == 0 {
		t.Fatalf("%v: %v: %s", cmd.Args, err, text)
	}
	return &w
}

// However many workers are asked for on two processors, those that get nodes don't take turns: there is less than one
// promise or idle jump for each event, all workers together, and the answer is that of one worker. Where somebody deals
// out the nodes by hand, there are many more; without that, nothing would be tested.
func TestManyWorkersTakeNoTurns(t *testing.T) {
	const most = 1.0
	bin := build(t, "")
	models := []string{
		"run " + filepath.Join("..", "..", "examples", "shop.yml") + " --horizon 20",
		"run " + filepath.Join("..", "..", "examples", "backbone.yml") + " --horizon 1",
	}
	for _, lps := range []string{"--lps 64 --events 64", "--lps 1024 --events 16"} {
		for _, remote := range []float64{0.1, 0.5} {
			for _, lookahead := range []float64{0.1, 0.001} {
				models = append(models, fmt.Sprintf("phold --end 8 %s --remote %v --lookahead %v", lps, remote,
					lookahead))
			}
		}
	}
	counts := []int{2, 3, 7, 21, 64}
	for _, model := range models {
		want := waitsOf(t, bin, model, "--workers 1").TraceHash
		for _, workers := range counts {
			w := waitsOf(t, bin, model, fmt.Sprintf("--workers %d", workers))
			if w.each() >= most || w.TraceHash != want {
				t.Errorf("%s, %d workers: %.3g promises and idle jumps for each event, trace hash %s; want less than "+
					"%v, %s", model, workers, w.each(), w.TraceHash, most, want)
			}
		}
	}
	model := "phold --end 2 --lps 64 --events 64 --remote 0.1 --lookahead 0.001"
	if w := waitsOf(t, bin, model, "--workers 8 --partition round-robin"); w.each() < most {
		t.Errorf("%s, 8 workers, round-robin: %.3g promises and idle jumps for each event, want more than %v",
			model, w.each(), most)
	}
}

// A run says that workers were left empty, and what a placement by hand is predicted to cost and has cost.
func TestReportOfWhatWorkersCost(t *testing.T) {
	bin := build(t, "")
	for flags, want := range map[string][]string{
		"": {"1 worker (in this process); 7 more without nodes, because with them it would take ",
			"take turns on 2 processors"},
		"--partition round-robin": {"(round-robin)", "predicted to take ",
			" rounds of promises for each event: fewer workers",
			"the workers waited for each other: ", " idle jumps for each event"},
	} {
		args := strings.Fields("phold --end 4 --lps 64 --events 64 --lookahead 0.001 --workers 8 --processors 2 " +
			"--transport inproc " + flags)
		text, err := exec.Command(bin, args...).Output()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		for _, w := range want {
			if !strings.Contains(string(text), w) {
				t.Errorf("%v: no %q in\n%s", args, w, text)
			}
		}
	}
}
