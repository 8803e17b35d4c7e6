// SPDX-License-Identifier: Apache-2.0

package memorygroup

import (
	"bufio"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
)

const hungry = "DISCO_TEST_HUNGRY" // has this program join a group, and take more than it allows

func TestMain(m *testing.M) {
	if dir := os.Getenv(hungry); dir != "" {
		if err := Join(dir); err != nil {
			panic(err)
		}
		os.Stdout.WriteString("in it\n")
		b := make([]byte, 256<<20)
		for i := range b {
			b[i] = 1
		}
		os.Exit(int(b[len(b)-1])) // not come to
	}
	leaktest.Main(m)
}

// What a program takes is counted, and the kernel ends one that takes more than there is.
func TestGroup(t *testing.T) {
	g := New(t)
	g.Limit(64 << 20)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), hungry+"="+g.Dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, errLine := bufio.NewReader(out).ReadString('\n')
	_ = cmd.Wait() // its status tells
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if errLine != nil || line != "in it\n" || !ok || status.Signal() != syscall.SIGKILL {
		t.Errorf("found %q, %v, %v; want its end by the kernel", line, errLine, cmd.ProcessState)
	}
	if peak := g.Peak(); peak < 32<<20 || peak > 64<<20 {
		t.Errorf("found a peak of %d bytes, want at most the limit of %d", peak, 64<<20)
	}
}
