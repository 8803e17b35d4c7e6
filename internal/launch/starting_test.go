// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// A worker that dies while others are only being started, or another team's memory is made,
// ends the start, and is named.
func TestDeathWhileStarting(t *testing.T) {
	for _, spread := range []string{SpreadNodes, SpreadReplications} {
		cfg := config(TransportShm, 16, launchtest.Scenario(16, 1e9, ""))
		cfg.Partition, cfg.Spread, cfg.Replications = "", spread, 16
		cfg.Tuning.RingBytes, cfg.Tuning.PoolBytes = 4<<10, 64<<10
		killed := make(chan int, 1)
		ctx, cancel := context.WithTimeout(context.Background(), watchdog)
		go func() {
			for ctx.Err() == nil {
				if pids := children(t, os.Getpid()); len(pids) > 0 {
					_ = syscall.Kill(pids[0], syscall.SIGKILL)
					killed <- pids[0]
					return
				}
			}
		}()
		_, err := Run(ctx, cfg)
		cancel()
		var w *WorkerError
		if !errors.As(err, &w) || !w.Died || !strings.Contains(w.Status, "SIGKILL") {
			t.Errorf("%s: error is %v, want the death of a worker by SIGKILL", spread, err)
		}
		<-killed
	}
	nothingLeft(t, t.TempDir())
}

// A run that is to stop while its memory is made, or its workers are started, has simulated
// nothing; one whose context has ended fails.
func TestStopWhileStarting(t *testing.T) {
	for _, transport := range transports() {
		stop := make(chan struct{})
		close(stop)
		cfg := config(transport, 4, launchtest.Scenario(4, 1e9, ""))
		cfg.Stop = stop
		out, err := run(t, cfg)
		if err != nil || !out.Interrupted || len(out.Replications) != 0 || out.Summary != nil {
			t.Errorf("%s: %+v, %v", transport, out, err)
		}
		cfg.Stop = nil
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := Run(ctx, cfg); !errors.Is(err, ErrEnded) {
			t.Errorf("%s: error is %v, want ErrEnded", transport, err)
		}
	}
	nothingLeft(t, t.TempDir())
}

// Workers that are goroutines can't be told apart in CPU time: the first has that of all.
func TestCPUOfGoroutines(t *testing.T) {
	out, err := run(t, config(TransportInproc, 3, launchtest.Scenario(6, 500, "")))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range out.Workers {
		if (w.CPUSeconds > 0) != (w.Worker == 0) {
			t.Errorf("worker %d used %v s of CPU", w.Worker, w.CPUSeconds)
		}
	}
}

// A named pipe is written when somebody reads it; one without a reader is an error and not
// a wait.
func TestOutputIntoPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := CreateOutput(path); err == nil || !strings.Contains(err.Error(), "named pipe that nobody reads") {
		t.Errorf("without a reader: %v", err)
	}
	read := make(chan string)
	go func() {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		read <- string(text)
	}()
	var out *Output
	for deadline := time.Now().Add(watchdog); ; {
		var err error
		if out, err = CreateOutput(path); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	want := strings.Repeat("x", 1<<20) // more than the pipe holds
	if _, err := out.Write([]byte(want)); err != nil {
		t.Error(err)
	}
	if err := out.Commit(); err != nil {
		t.Error(err)
	}
	if got := <-read; got != want {
		t.Errorf("%d bytes came, want %d", len(got), len(want))
	}
}
