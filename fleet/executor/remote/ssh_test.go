// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/fleet/executor/remote"
	"github.com/disco-sim/disco/internal/forward"
)

// sshd is Debian's server on a port of the loopback, with keys of its own, behind a forwarder.
type sshd struct {
	*forward.Forwarder
	dir string
	pid int
}

// newSSHD starts one that the test ends.
func newSSHD(t *testing.T) *sshd {
	t.Helper()
	const program = "/usr/sbin/sshd"
	if _, err := os.Stat(program); err != nil {
		t.Skipf("SKIPPED: there is no %s (Debian: openssh-server)", program)
	}
	if _, err := exec.LookPath("ssh"); err != nil {
		t.Skipf("SKIPPED: there is no ssh (Debian: openssh-client): %v", err)
	}
	if os.Getuid() == 0 { // where it changes root to, before it knows who comes
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Skipf("SKIPPED: sshd can't run here: %v", err)
		}
	}
	s := &sshd{dir: t.TempDir()}
	for _, key := range []string{"machine", "user"} {
		output(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(s.dir, key))
	}
	public, err := os.ReadFile(filepath.Join(s.dir, "user.pub"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(s.dir, "authorized"), string(public))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().(*net.TCPAddr)
	l.Close()
	write(t, filepath.Join(s.dir, "sshd_config"), fmt.Sprintf("ListenAddress 127.0.0.1\nPort %d\nHostKey %s/machine\n"+
		"AuthorizedKeysFile %s/authorized\nPidFile none\nUsePAM no\nPasswordAuthentication no\nStrictModes no\n"+
		"PermitRootLogin prohibit-password\n", address.Port, s.dir, s.dir))
	cmd := exec.Command(program, "-D", "-e", "-f", filepath.Join(s.dir, "sshd_config"))
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.pid = cmd.Process.Pid
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("sshd: %s", log.Bytes())
		}
	})
	until(t, "sshd answers", func() bool {
		c, err := net.Dial("tcp", address.String())
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	if s.Forwarder, err = forward.New("", address.String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.configure(t)
	return s
}

// configure writes what a user writes into .ssh/config, and the key of the machine.
func (s *sshd) configure(t *testing.T) {
	t.Helper()
	_, port, err := net.SplitHostPort(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	self, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile(filepath.Join(s.dir, "machine.pub"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(s.dir, "known"), fmt.Sprintf("[127.0.0.1]:%s %s", port, public))
	write(t, filepath.Join(s.dir, "config"), fmt.Sprintf("Host h1 h2\n  HostName 127.0.0.1\n  Port %s\n  User %s\n"+
		"  IdentityFile %s/user\n  IdentitiesOnly yes\n  UserKnownHostsFile %s/known\n", port, self.Username, s.dir,
		s.dir))
}

// machine is one that is reached by it.
func (s *sshd) machine(name string, slots int, host []string) remote.Machine {
	return remote.SSH([]remote.Machine{{Name: name, Slots: slots}}, []string{"-F", filepath.Join(s.dir, "config")},
		host)[0]
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSSH: the suite, over a real sshd.
func TestSSH(t *testing.T) {
	s := newSSHD(t)
	suite(t, func(work string) []string { return s.machine("h1", 8, hostCommand(work)).Command })
}

// overSSH is an executor with one machine, and its folder.
func overSSH(t *testing.T, silent time.Duration) (s *sshd, e *remote.Remote, work string) {
	t.Helper()
	s, work = newSSHD(t), filepath.Join(t.TempDir(), "work")
	o := options(t)
	o.Machines, o.Silent = []remote.Machine{s.machine("h1", 4, hostCommand(work))}, silent
	return s, open(t, o), work
}

// TestSSHProcessesKilled: whichever of the processes between agent and attempt is killed, the attempt ends, the agent
// is told, and the machine takes the next one.
func TestSSHProcessesKilled(t *testing.T) {
	for name, pids := range map[string]func(t *testing.T, s *sshd, work string) []int{
		"host": func(t *testing.T, _ *sshd, work string) []int { return hosts(t, work) },
		"ssh": func(t *testing.T, s *sshd, _ string) []int {
			return processesOf(t, s.dir, func(c string) bool { return strings.HasPrefix(c, "ssh ") })
		},
		"sshd": func(t *testing.T, s *sshd, _ string) []int { return children(t, s.pid) },
	} {
		t.Run(name, func(t *testing.T) {
			s, e, work := overSSH(t, 0)
			defer closes(t, e)
			j := newJob(t, "x")
			r := runs(t, e, j)
			kill(t, pids(t, s, work), syscall.SIGKILL)
			ends(t, r, "h1: the connection has ended", "none of its processes is left")
			if all := left(t, work); len(all) > 0 {
				t.Errorf("this is left: %q", all)
			}
			again(t, e, j)
		})
	}
}

// children are those of a process.
func children(t *testing.T, pid int) []int {
	return processesOf(t, "", func(string) bool { return true }, pid)
}

// TestSSHHostStopped: a host that is stopped (SIGSTOP) on its machine answers nobody, and has attempts; the next one
// ends it.
func TestSSHHostStopped(t *testing.T) {
	_, e, work := overSSH(t, 5*time.Second)
	defer closes(t, e)
	j := newJob(t, "x")
	r := runs(t, e, j)
	stopped := hosts(t, work)
	kill(t, stopped, syscall.SIGSTOP)
	ends(t, r, "nothing has come from the other side for 5s", "none of its processes is left")
	if all := left(t, work); len(all) > 0 {
		t.Errorf("this is left: %q", all)
	}
	again(t, e, j)
	until(t, "the stopped host has ended", func() bool { return command(stopped[0]) == "" })
}

// TestSSHCut: nothing passes any more, and neither side hears of it. Both find out: the host stops its attempt before
// anybody can reach it, and the agent says that it doesn't know.
func TestSSHCut(t *testing.T) {
	s, e, work := overSSH(t, 5*time.Second)
	j := newJob(t, "x")
	r := runs(t, e, j)
	s.Isolate()
	until(t, "the attempt has ended", func() bool { return len(markedBy(t, work, j.Name())) == 0 })
	until(t, "the host has ended", func() bool { return len(hosts(t, work)) == 0 })
	select {
	case <-r.Done():
		t.Errorf("the agent can't know it: %+v", r.Outcome().Error)
	default:
	}
	until(t, "the machine isn't connected", func() bool {
		_, err := e.Sweep(t.Context())
		return err != nil && strings.Contains(err.Error(), "h1: it isn't connected: ")
	})
	if err := e.Prepare(t.Context(), newJob(t, "y")); err == nil || !strings.Contains(err.Error(), "isn't connected") {
		t.Errorf("found %v from another job, want that the machine isn't connected", err)
	}
	s.Heal()
	ends(t, r, "nothing has come from the other side for 5s", "none of its processes is left")
	again(t, e, j)
	closes(t, e)
	if all := left(t, work); len(all) > 0 {
		t.Errorf("this is left: %q", all)
	}
}

// TestSSHReset: both sides hear of the end.
func TestSSHReset(t *testing.T) {
	s, e, _ := overSSH(t, 0)
	defer closes(t, e)
	j := newJob(t, "x")
	r := runs(t, e, j)
	s.Reset()
	ends(t, r, "h1: the connection has ended", "exit status 255", "none of its processes is left")
	again(t, e, j)
}

// TestSSHHalfOpen: one side alone hears of it.
func TestSSHHalfOpen(t *testing.T) {
	for name, side := range map[string]forward.Side{"agent": forward.Client, "host": forward.Server} {
		t.Run(name, func(t *testing.T) {
			s, e, _ := overSSH(t, 5*time.Second)
			defer closes(t, e)
			j := newJob(t, "x")
			r := runs(t, e, j)
			s.HalfOpen(side)
			ends(t, r, "h1: the connection has ended", "none of its processes is left")
			again(t, e, j)
		})
	}
}

// TestSSHUnknownMachine: what ssh says is what people read.
func TestSSHUnknownMachine(t *testing.T) {
	s := newSSHD(t)
	o := options(t)
	good := s.machine("h1", 4, hostCommand(t.TempDir()))
	for want, change := range map[string]func(m *remote.Machine){
		"Could not resolve hostname": func(m *remote.Machine) { *m = s.machine("h3.invalid", 1, nil) },
		"Permission denied": func(m *remote.Machine) {
			m.Command = append([]string{"ssh", "-o", "PubkeyAuthentication=no"}, m.Command[1:]...)
		},
		"Host key verification failed": func(m *remote.Machine) {
			m.Command = append([]string{"ssh", "-o", "UserKnownHostsFile=" + s.dir + "/none"}, m.Command[1:]...)
		},
		"disco-nothing: ": func(m *remote.Machine) { *m = s.machine("h1", 1, []string{"disco-nothing", "host"}) },
	} {
		m := good
		change(&m)
		o.Machines = []remote.Machine{m}
		if e, err := remote.Open(t.Context(), o); err == nil {
			closes(t, e)
			t.Errorf("%s: it opens", want)
		} else if !strings.Contains(err.Error(), m.Name+": the command has ended (exit status ") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("found %v, want %q in it", err, want)
		}
	}
}
