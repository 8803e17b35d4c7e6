// SPDX-License-Identifier: Apache-2.0

package app

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// slowly is a way to a server on which each part of an answer takes a time.
type slowly struct {
	listener net.Listener
	delay    atomic.Int64
	answers  atomic.Int64 // parts of answers that were late
}

// startSlowly has a test's programs reach the server of an object store by it.
func startSlowly(t *testing.T, server string) *slowly {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s := &slowly{listener: l}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.pass(c, server)
		}
	}()
	t.Setenv("AWS_ENDPOINT_URL", "http://"+l.Addr().String())
	return s
}

// pass passes on what two sides say until one of them ends.
func (s *slowly) pass(client net.Conn, server string) {
	defer client.Close()
	other, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer other.Close()
	go func() {
		defer other.Close()
		_, _ = io.Copy(other, client) // one of them has ended
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := other.Read(buf)
		if err != nil {
			return
		}
		if d := s.delay.Load(); d > 0 {
			s.answers.Add(1)
			time.Sleep(time.Duration(d)) // what the server has said is late
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// TestSlowStore: where each answer of an object store takes 0.3 s, a run goes on while its checkpoints are written,
// says nothing of them and makes fewer; resume and Ctrl-C take longer, and give what they give.
func TestSlowStore(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	server := startServer(t)
	dir := t.TempDir()
	file, address := filepath.Join(dir, "tiny.yml"), serverAddress+"slow"
	if err := os.WriteFile(file, []byte(launchtest.Scenario(6, 2000, "")), 0o666); err != nil {
		t.Fatal(err)
	}
	want := runSaved(t, launchtest.Kind(), "run", file, "--transport", "inproc")
	s := startSlowly(t, server.Addr())
	s.delay.Store(int64(300 * time.Millisecond))
	out := filepath.Join(dir, "out.json")
	b := startBeside(t, "run", file, "--workers", "2", "--checkpoint-to", address, "--checkpoint-every", "20", "--json",
		out)
	got := b.ends(t, out)
	if c := got.Checkpoints; !got.same(&want) || c == nil || c.Made < 1 || c.LeftOut < 1 || s.answers.Load() == 0 ||
		b.said() != "" {
		t.Errorf("found %+v, checkpoints %+v, it says %q; want %+v, some made, some left out", got, c, b.said(), want)
	}
	t.Logf("%+v, %d late answers", got.Checkpoints, s.answers.Load())
	b = startBeside(t, "resume", address, "--at", "20", "--workers", "3", "--json", out)
	if got := b.ends(t, out); !got.same(&want) {
		t.Errorf("resumed: found %+v, want %+v", got, want)
	}
	if err := os.WriteFile(file, []byte(endless(6)), 0o666); err != nil {
		t.Fatal(err)
	}
	b = startBeside(t, "run", file, "--workers", "2", "--checkpoint-to", address+"2", "--checkpoint", "100ms")
	late := s.answers.Load()
	b.until("answers", func() bool { return s.answers.Load() > late+20 })
	status, took := b.interrupt()
	if status != ExitSignal+int(syscall.SIGINT) || took > 30*time.Second {
		t.Errorf("exit status %d behind %v, want 130: %s", status, took, b.said())
	}
	t.Logf("Ctrl-C took %v: %s", took, b.said())
	s.delay.Store(0)
	cmd := exec.Command(os.Args[0], "checkpoints", "verify", address+"2")
	cmd.Env = append(os.Environ(), programEnv+"=1")
	if text, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(text), "all as they were written") {
		t.Errorf("verify: %v: %s", err, text)
	}
}

// ends waits for the program's end, and reads its results.
func (b *beside) ends(t *testing.T, out string) (r savedResults) {
	t.Helper()
	late := time.AfterFunc(watchdog, func() { b.cmd.Process.Signal(syscall.SIGQUIT) })
	defer late.Stop()
	err := b.cmd.Wait()
	if err == nil {
		var text []byte
		if text, err = os.ReadFile(out); err == nil {
			err = json.Unmarshal(text, &r)
		}
	}
	if err != nil {
		t.Fatalf("%v: %v: %s", b.cmd.Args[1:], err, b.said())
	}
	return r
}
