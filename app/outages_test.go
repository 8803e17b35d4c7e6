// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// beside is a program in a process of its own, with what it has said so far.
type beside struct {
	t   *testing.T
	cmd *exec.Cmd
	log string
}

// startBeside starts the program.
func startBeside(t *testing.T, args ...string) *beside {
	t.Helper()
	b := &beside{t, exec.Command(os.Args[0], append(args, "--crash-dir", "none")...), filepath.Join(t.TempDir(), "log")}
	log, err := os.Create(b.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	b.cmd.Env, b.cmd.Stderr = append(os.Environ(), programEnv+"=1"), log
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if b.cmd.ProcessState == nil {
			_, _ = b.cmd.Process.Kill(), b.cmd.Wait()
		}
	})
	return b
}

// said is its standard error.
func (b *beside) said() string {
	text, err := os.ReadFile(b.log)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// until waits for something.
func (b *beside) until(what string, is func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(watchdog); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("%s: not within %v: %s", what, watchdog, b.said())
		}
	}
}

// interrupt sends Ctrl-C, and gives the exit status and how long the end took.
func (b *beside) interrupt() (status int, took time.Duration) {
	b.t.Helper()
	began := time.Now()
	if err := b.cmd.Process.Signal(syscall.SIGINT); err != nil {
		b.t.Fatal(err)
	}
	late := time.AfterFunc(watchdog, func() { b.cmd.Process.Signal(syscall.SIGQUIT) })
	defer late.Stop()
	_ = b.cmd.Wait() // its status is what is asked for
	return b.cmd.ProcessState.ExitCode(), time.Since(began)
}

// resumeFails has what resume says of a place that it can't use.
func resumeFails(t *testing.T, address, want string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(os.Args[0], "resume", address)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), programEnv+"=1"), &stdout, &stderr
	_ = cmd.Run()
	if status := cmd.ProcessState.ExitCode(); status != ExitUsage || !strings.Contains(stderr.String(), want) ||
		strings.Contains(stderr.String(), "goroutine") {
		t.Errorf("exit status %d, %s; want %d and %q", status, stderr.String(), ExitUsage, want)
	}
}

// endless is a run that goes on until it is ended, and leaves processors to others: one of its nodes takes its time.
func endless(nodes int) string {
	return launchtest.Scenario(nodes, 1e9, "") + "trouble: {node: 1, at: 0, how: slow}\n"
}

// TestServerOutage: the server of an object store is killed in mid-run: the run goes on, and says so, once; when the
// server is back, checkpoints are written again, which is said, too. Ctrl-C while it hangs ends the run soon, and what
// was committed before is good. A resume from a server that is gone says so.
func TestServerOutage(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute: a server that is gone is tried for a third of that")
	}
	server := startServer(t)
	file := filepath.Join(t.TempDir(), "tiny.yml")
	if err := os.WriteFile(file, []byte(endless(4)), 0o666); err != nil {
		t.Fatal(err)
	}
	address := serverAddress + "outage"
	b := startBeside(t, "run", file, "--workers", "2", "--checkpoint-to", address, "--checkpoint", "200ms")
	newest := func() (epoch float64) { // 0: there is none, or they can't be read
		var out bytes.Buffer
		cmd := exec.Command(os.Args[0], "checkpoints", "list", address, "--json", "-")
		cmd.Env, cmd.Stdout = append(os.Environ(), programEnv+"=1"), &out
		var list struct {
			Checkpoints []struct {
				Epoch float64 `json:"epoch_s"`
			}
		}
		if err := cmd.Run(); err != nil || json.Unmarshal(out.Bytes(), &list) != nil {
			return 0
		}
		for _, c := range list.Checkpoints {
			epoch = max(epoch, c.Epoch)
		}
		return epoch
	}
	b.until("a checkpoint", func() bool { return newest() > 0 })
	server.Signal(syscall.SIGSTOP)
	time.Sleep(3 * time.Second) // several come due, and one hangs
	server.Signal(syscall.SIGCONT)
	before := newest()
	b.until("a checkpoint behind a server that stood still", func() bool { return newest() > before })
	if said := b.said(); said != "" {
		t.Errorf("behind a server that stood still it says %s, want nothing", said)
	}
	server.Kill()
	const lost, back = "couldn't be written", "checkpoints are written again"
	b.until("that the server is gone", func() bool { return b.said() != "" }) // behind 10 s; it may be of a label
	b.until("that a checkpoint is lost", func() bool { return strings.Contains(b.said(), lost) })
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	b.until("that they are written again", func() bool { return strings.Contains(b.said(), back) })
	if said := b.said(); strings.Count(said, lost) != 1 || strings.Count(said, back) != 1 {
		t.Errorf("found %s, want each of %q and %q once", said, lost, back)
	}
	server.Signal(syscall.SIGSTOP)
	time.Sleep(500 * time.Millisecond) // two of them come due
	status, took := b.interrupt()
	server.Signal(syscall.SIGCONT)
	t.Logf("Ctrl-C took %v", took)
	const ends = "the run ends without its checkpoint at"
	if strings.Count(b.said(), ends) != 1 {
		t.Errorf("found %s, want %q once", b.said(), ends)
	}
	if status != ExitSignal+int(syscall.SIGINT) || took > 30*time.Second {
		t.Errorf("exit status %d behind %v, want 130: %s", status, took, b.said())
	}
	if newest() == 0 {
		t.Error("found no checkpoint, want those from before")
	}
	server.Kill()
	resumeFails(t, address, "connection refused")
}

// TestBlobsKilled: the process that reaches an object store is killed in mid-run. The run goes on and says so, once;
// another process writes checkpoints again when the lock of the dead one is too old to count.
func TestBlobsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("a lock is too old behind 12 s")
	}
	startServer(t)
	file := filepath.Join(t.TempDir(), "tiny.yml")
	if err := os.WriteFile(file, []byte(endless(4)), 0o666); err != nil {
		t.Fatal(err)
	}
	b := startBeside(t, "run", file, "--workers", "2", "--checkpoint-to", serverAddress+"killed",
		"--checkpoint", "200ms")
	var victim int
	b.until("the process that reaches the store", func() bool {
		children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", b.cmd.Process.Pid))
		for _, list := range children {
			text, _ := os.ReadFile(list) // gone: with its thread
			for _, pid := range strings.Fields(string(text)) {
				cmdline, _ := os.ReadFile("/proc/" + pid + "/cmdline")
				if bytes.Contains(cmdline, []byte("\x00blobs")) {
					victim, _ = strconv.Atoi(pid)
				}
			}
		}
		return victim > 0
	})
	time.Sleep(time.Second) // checkpoints are written
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	const lost, back = "couldn't be written", "checkpoints are written again"
	b.until("that the server is gone", func() bool { return b.said() != "" }) // behind 10 s; it may be of a label
	b.until("that a checkpoint is lost", func() bool { return strings.Contains(b.said(), lost) })
	deadline := time.Now().Add(2 * time.Minute)
	for !strings.Contains(b.said(), back) {
		if time.Sleep(100 * time.Millisecond); time.Now().After(deadline) {
			t.Fatalf("no checkpoint is written again: %s", b.said())
		}
	}
	if said := b.said(); strings.Count(said, lost) != 1 || strings.Count(said, back) != 1 {
		t.Errorf("found %s, want each of %q and %q once", said, lost, back)
	}
	if status, took := b.interrupt(); status != ExitSignal+int(syscall.SIGINT) || took > 20*time.Second {
		t.Errorf("exit status %d behind %v, want 130: %s", status, took, b.said())
	}
}

// TestInterruptWhileAsking: Ctrl-C ends a run of which a handler waits for the outside, which doesn't answer; the run
// goes on from its last checkpoint.
func TestInterruptWhileAsking(t *testing.T) {
	dir := t.TempDir()
	file, asked, store := filepath.Join(dir, "tiny.yml"), filepath.Join(dir, "asked"), filepath.Join(dir, "store")
	text := launchtest.Scenario(3, 10, "") + fmt.Sprintf("asking: {file: %q, ms: 3600000}\n", asked)
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	b := startBeside(t, "run", file, "--workers", "2", "--checkpoint-to", store, "--checkpoint-every", "1")
	b.until("somebody who asks", func() bool { _, err := os.Stat(asked); return err == nil })
	status, took := b.interrupt()
	if status != ExitSignal+int(syscall.SIGINT) || took > 15*time.Second {
		t.Errorf("exit status %d behind %v, want 130 soon: %s", status, took, b.said())
	}
	t.Logf("Ctrl-C took %v", took)
	var stdout, stderr bytes.Buffer
	if status := Run([]string{"disco-run", "checkpoints", "verify", store}, strings.NewReader(""), &stdout, &stderr,
		launchtest.Kind()); status != ExitOK && !strings.Contains(stderr.String(), "found no checkpoint yet") {
		t.Errorf("verify ends with %d: %s%s", status, stdout.String(), stderr.String())
	}
}

// TestKilledWhileAsking: a run that is killed between what the outside does and its answer's record asks again, with
// the same key and request, and ends as one that wasn't.
func TestKilledWhileAsking(t *testing.T) {
	dir := t.TempDir()
	file, asked, store := filepath.Join(dir, "tiny.yml"), filepath.Join(dir, "asked"), filepath.Join(dir, "store")
	text := launchtest.Scenario(3, 3, "") + fmt.Sprintf("asking: {file: %q, ms: 200}\n", asked)
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	want := runSaved(t, launchtest.Kind(), "run", file, "--transport", "inproc", "--workers", "3")
	if err := os.Remove(asked); err != nil {
		t.Fatal(err)
	}
	b := startBeside(t, "run", file, "--workers", "2", "--checkpoint-to", store, "--checkpoint-at", "1")
	lines := func() []string {
		text, _ := os.ReadFile(asked) // none: nobody has asked
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	b.until("the third question", func() bool { return len(lines()) >= 3 })
	if err := b.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = b.cmd.Wait() // it was killed
	before := lines()
	got := runSaved(t, launchtest.Kind(), "resume", store, "--workers", "1", "--other-build")
	if !got.same(&want) {
		t.Errorf("found %+v, want %+v", got, want)
	}
	again := 0
	for _, line := range lines()[len(before):] {
		for _, old := range before {
			if line == old {
				again++
			}
		}
	}
	if again == 0 || again > 2 { // what each of both workers was waiting for
		t.Errorf("%d questions were put again, with the same key, want what was under way: 1 or 2", again)
	}
}

// TestProposedCheckpoint: where a chunk of a checkpoint is damaged, resume names the one before it, which hasn't that
// chunk; where what the outside has answered is damaged, it names none, since each needs that.
func TestProposedCheckpoint(t *testing.T) {
	dir := t.TempDir()
	file, store := filepath.Join(dir, "tiny.yml"), filepath.Join(dir, "store")
	text := launchtest.Scenario(3, 5, "") + fmt.Sprintf("asking: {file: %q, ms: 1}\n", filepath.Join(dir, "asked"))
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	runSaved(t, launchtest.Kind(), "run", file, "--transport", "inproc", "--checkpoint-to", store,
		"--checkpoint-at", "1", "--checkpoint-at", "3")
	read := func(name string) []byte {
		t.Helper()
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	points, err := filepath.Glob(filepath.Join(store, "points", "*"))
	if err != nil || len(points) != 2 {
		t.Fatal(points, err)
	}
	packs, err := filepath.Glob(filepath.Join(store, "packs", "*"))
	if err == nil {
		err = os.RemoveAll(filepath.Join(store, "done")) // as if it had been killed
	}
	if err != nil {
		t.Fatal(err)
	}
	resumed := func(want string, proposes bool) {
		t.Helper()
		var stdout, stderr bytes.Buffer
		status := Run([]string{"disco-run", "resume", store, "--other-build"}, strings.NewReader(""), &stdout, &stderr,
			launchtest.Kind())
		if said := stderr.String(); status != ExitFailed || !strings.Contains(said, want) ||
			strings.Contains(said, "--at 1 begins with the checkpoint before it") != proposes {
			t.Errorf("%d %s, want %q, and a proposal: %v", status, said, want, proposes)
		}
	}
	for _, pack := range packs {
		name := []byte(strings.TrimSuffix(filepath.Base(pack), ".pack"))
		if bytes.Contains(read(points[0]), name) || !bytes.Contains(read(points[1]), name) {
			continue
		}
		good := read(pack)
		bad := bytes.Clone(good)
		for i := range bad {
			bad[i] ^= 1
		}
		if err := os.WriteFile(pack, bad, 0o666); err != nil {
			t.Fatal(err)
		}
		resumed(string(name), true)
		if err := os.WriteFile(pack, good, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	err = os.WriteFile(filepath.Join(store, "io", "00000007.journal"), bytes.Repeat([]byte("no record"), 100), 0o666)
	if err != nil {
		t.Fatal(err)
	}
	resumed("00000007.journal: byte 0: found no head of a record", false)
}
