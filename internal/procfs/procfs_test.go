// SPDX-License-Identifier: Apache-2.0

package procfs

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
)

// What a child has used counts for it, and when it has ended for its parent.
func TestOfEnded(t *testing.T) {
	before, err := Stat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const work = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"
	if err := exec.Command("/bin/sh", "-c", work).Run(); err != nil {
		t.Fatal(err)
	}
	if after, err := Stat(os.Getpid()); err != nil || after.OfEnded <= before.OfEnded {
		t.Errorf("found %+v behind %+v, %v, want more time of children", after, before, err)
	}
}

// This process, a child of it, and one that isn't there.
func TestStat(t *testing.T) {
	own, err := Stat(os.Getpid())
	if err != nil || own.Parent != os.Getppid() || own.State != Running && own.State != Sleeping {
		t.Errorf("this process: %+v, %v", own, err)
	}
	// Its name, in parentheses, looks like fields.
	child := exec.Command("/bin/sh", "-c", "exec -a 'x) Z 1 1' sleep 3600")
	if path, err := exec.LookPath("bash"); err == nil {
		child.Path = path
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	stat, err := Stat(child.Process.Pid)
	if err != nil || stat.Parent != os.Getpid() || stat.State == Dead {
		t.Errorf("a child: %+v, %v", stat, err)
	}
	if pids, err := Processes(); err != nil || !slices.Contains(pids, child.Process.Pid) ||
		!slices.Contains(pids, os.Getpid()) {
		t.Errorf("%v, %v: want %d and %d among them", pids, err, os.Getpid(), child.Process.Pid)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // its status is the signal
	if _, err := Stat(child.Process.Pid); err == nil {
		t.Error("a child that has ended still has a status")
	}
	if State(1<<30) != "" || Command(1<<30) != nil {
		t.Error("a process that can't be has a state or a command")
	}
	if c := Command(os.Getpid()); !slices.Equal(c, os.Args) {
		t.Errorf("the command is %q, want %q", c, os.Args)
	}
}

// until polls a condition.
func until(t *testing.T, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within 60 s")
		}
	}
}

// A pipe shows how a process waits, and a signal how it stops.
func TestState(t *testing.T) {
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return State(child.Process.Pid) == Sleeping })
	if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return State(child.Process.Pid) == Stopped })
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool { return State(child.Process.Pid) == Dead })
	_ = child.Wait() // its status is the signal
}

// What a process takes shows, and that there is none.
func TestPrivateBytes(t *testing.T) {
	before, err := PrivateBytes(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	taken := make([]byte, 64<<20)
	for i := range taken {
		taken[i] = byte(i)
	}
	after, err := PrivateBytes(os.Getpid())
	if err != nil || after-before < 48<<20 {
		t.Errorf("found %d and %d bytes, %v; want some %d more", before, after, err, len(taken))
	}
	runtime.KeepAlive(taken)
	if n, err := PrivateBytes(1 << 30); err == nil {
		t.Errorf("a process that isn't there has %d bytes", n)
	}
}

// TestAge: this process is younger than the machine, and gets older.
func TestAge(t *testing.T) {
	first, err := Age(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	init, err := Age(1)
	if err != nil || first < 0 || first > init {
		t.Errorf("%v, and the first process %v, %v", first, init, err)
	}
	for second := first; second == first; { // a hundredth of a second later
		if second, err = Age(os.Getpid()); err != nil || second < first {
			t.Fatal(second, err)
		}
	}
	if _, err := Age(1 << 30); err == nil {
		t.Error("a process that isn't there has an age")
	}
}
