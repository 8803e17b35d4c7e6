// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/leaktest"
)

const testKind Kind = 't' | 'e'<<8 | 's'<<16 | 't'<<24

// watchdog is how long a test waits for what must happen. Only a failure takes
// that long.
const watchdog = 20 * time.Second

// childVariable names the function that a process started by startChild runs.
const childVariable = "DISCO_SHM_TEST_CHILD"

// children are the other processes of the tests below: this same binary, started
// again.
var children = map[string]func() error{
	"attach-and-ring": childAttachAndRing,
	"echo":            childEcho,
	"write-read-only": childWriteReadOnly,
	"write-partly":    childWritePartly,
	"limit-files":     childLimitFiles,
	"limit-memory":    childLimitMemory,
	"limit-locked":    childLimitLocked,
}

func TestMain(m *testing.M) {
	if name := os.Getenv(childVariable); name != "" {
		if err := children[name](); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leaktest.Main(m)
}

// startChild runs one of the children with the files as its descriptors 3, 4, ….
func startChild(t testing.TB, name string, files ...*os.File) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+name)
	cmd.Stderr = &strings.Builder{}
	cmd.ExtraFiles = files
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	return cmd
}

// attachFile attaches the file that startChild passed as the descriptor.
func attachFile(fd int, want Want) (*Segment, error) {
	f := os.NewFile(uintptr(fd), "segment-"+strconv.Itoa(fd))
	defer f.Close()
	return Attach(f, want)
}

func mustCreate(t testing.TB, cfg Config) *Segment {
	t.Helper()
	s, err := Create(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func mustHeap(t testing.TB, size int) *Segment {
	t.Helper()
	s, err := Heap(Config{Name: "test", Kind: testKind, Size: size})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustAttach(t testing.TB, f *os.File, want Want) *Segment {
	t.Helper()
	s, err := Attach(f, want)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func mustBell(t testing.TB, mem []byte) *Doorbell {
	t.Helper()
	d, err := OpenDoorbell(mem)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// await polls a condition under the watchdog.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(watchdog); !ok(); Yield() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for: %s", watchdog, what)
		}
	}
}
