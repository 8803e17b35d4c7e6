// SPDX-License-Identifier: Apache-2.0

package storeserver

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) {
	ParallelTests(8)
	leaktest.Main(m)
}

// TestEnsemble: three servers have one leader, another after that one is killed, and are three again after its
// restart; a stopped one serves again when it goes on.
func TestEnsemble(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	z, err := StartEnsemble(ctx, t.TempDir(), 3, ZKOptions{})
	Need(t, err)
	defer z.Close()
	first := z.Leader()
	if first == nil {
		t.Fatal("no leader among servers that serve")
	}
	first.Kill()
	if mode := first.Mode(); mode != "" {
		t.Errorf("the killed server is %q", mode)
	}
	for z.Leader() == nil && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	if err := errors.Join(first.Start(), z.Ready(ctx)); err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err == nil {
		t.Error("a server that runs was started")
	}
	last := z.Servers[2]
	last.Signal(syscall.SIGSTOP)
	for last.Mode() != "" { // its threads stop one by one
		if ctx.Err() != nil {
			t.Fatal("the stopped server answers")
		}
	}
	last.Signal(syscall.SIGCONT)
	if err := z.Ready(ctx); err != nil {
		t.Fatal(err)
	}
}
