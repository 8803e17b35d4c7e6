// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/disco-sim/disco/perf/phold"
)

// Times of the bare loop: it runs for a while before it is measured, because its heap and the caches have to settle.
const (
	bareWarm  = 300 * time.Millisecond
	bareTime  = 300 * time.Millisecond
	bareChunk = 20_000 // events between two looks at the clock
)

// bareRate is the rate of the bare heap loop of PHOLD, in a process of its own, which ends with its memory.
func (r *runner) bareRate(ctx context.Context, cfg phold.Config) (float64, error) {
	arg, err := json.Marshal(cfg)
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, r.self, string(arg))
	cmd.Env = append(os.Environ(), roleEnv+"="+roleBare)
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("the bare loop: %w", err)
	}
	var rate float64
	if err := json.Unmarshal(out, &rate); err != nil {
		return 0, fmt.Errorf("the bare loop: %w", err)
	}
	return rate, nil
}

// serveBare is the process of bareRate.
func serveBare(args []string, stdout io.Writer) int {
	var cfg phold.Config
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &cfg) != nil || cfg.LPs < 1 || cfg.Start < 1 {
		fmt.Fprintln(os.Stderr, "scale: the bare loop wants its configuration")
		return exitUsage
	}
	loop := phold.NewBare(cfg)
	runFor(loop, bareWarm)
	n, elapsed := runFor(loop, bareTime)
	fmt.Fprintln(stdout, float64(n)/elapsed.Seconds())
	return 0
}

func runFor(loop *phold.Bare, d time.Duration) (n int, elapsed time.Duration) {
	began := time.Now()
	for elapsed < d {
		loop.Run(bareChunk)
		n += bareChunk
		elapsed = time.Since(began)
	}
	return n, elapsed
}
