// SPDX-License-Identifier: Apache-2.0

package group

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/disco-sim/disco/internal/certs"
	"github.com/disco-sim/disco/internal/ipctest"
	"github.com/disco-sim/disco/ipc"
)

// startNamed starts an agent that joins the names of a directory.
func startNamed(t *testing.T, ip, dir string, args ...string) *listener {
	t.Helper()
	return startListener(t, ip, append([]string{"--slots", "1", "--ipc", "--ipc-dir", dir}, args...)...)
}

// TestNames: what holds of a sender and a receiver on one machine holds over two agents, which have nothing left then.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	authority, tls := filepath.Join(dir, "a"), filepath.Join(dir, "h")
	err := certs.Init(authority, certs.Period(1))
	if err == nil {
		err = certs.Issue(authority, tls, []string{"127.0.0.1", "127.0.0.2"}, certs.Period(1))
	}
	if err != nil {
		t.Fatal(err)
	}
	here, there := ipctest.NewDir(t), ipctest.NewDir(t)
	a, b := startNamed(t, "127.0.0.1", here, "--tls-dir", tls), startNamed(t, "127.0.0.2", there, "--tls-dir", tls)
	ipctest.Run(t, func(testing.TB) ipctest.Way {
		return ipctest.Way{Senders: here, Receivers: there, Prefix: b.address + "/", Far: true}
	})
	for _, l := range []*listener{a, b} {
		if status := l.end(syscall.SIGTERM); status != 0 {
			t.Errorf("status %d", status)
		}
	}
	for _, d := range []string{here, there} {
		if list, err := os.ReadDir(d); err != nil || len(list) > 0 {
			t.Errorf("left in %s: %v, %v", d, list, err)
		}
	}
}

// TestNamesEnd: an agent that is killed is the death of who is behind it, for both sides, and a second agent doesn't
// get the names of the first.
func TestNamesEnd(t *testing.T) {
	here, there := ipctest.NewDir(t), ipctest.NewDir(t)
	a, b := startNamed(t, "127.0.0.1", here, "--insecure"), startNamed(t, "127.0.0.2", there, "--insecure")
	second := start(t, nil, "agent", "--listen", "127.0.0.1:0", "--insecure", "--program", "/proc/self/exe", "--ipc",
		"--ipc-dir", here)
	said := strings.Join(second.expect(t, "--ipc-dir FOLDER"), "\n")
	if status := second.end(0); status != 2 || !strings.Contains(said, "name is taken") {
		t.Errorf("a second agent: %d %q", status, said)
	}
	r := ipctest.Listen(t, "end", ipc.ListenConfig{Dir: there})
	s := ipctest.Dial(t, b.address+"/end", ipctest.Small(here))
	if err := s.Send(ipctest.Within(t), []byte("on")); err != nil {
		t.Fatal(err)
	}
	ipctest.Receive(t, r, "on")
	a.end(syscall.SIGKILL)
	ipctest.Eventually(t, "the sender hears of it", func() bool { return s.Err() != nil })
	if err := s.Err(); !errors.Is(err, ipc.ErrPeerDead) {
		t.Errorf("%v, want ErrPeerDead", err)
	}
	ipctest.ReceiveEnd(t, r, ipc.ErrPeerDead)
	if status := b.end(syscall.SIGTERM); status != 0 {
		t.Errorf("status %d", status)
	}
}
