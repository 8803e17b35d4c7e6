// SPDX-License-Identifier: Apache-2.0

package group

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/disco-sim/disco/internal/certs"
)

// listener is an agent as a process that takes runs.
type listener struct {
	*started
	address string
}

// startListener starts an agent on a free port of a loopback address.
func startListener(t *testing.T, ip string, args ...string) *listener {
	t.Helper()
	if !slices.Contains(args, "--program") {
		args = append(args, "--program", "/proc/self/exe")
	}
	l := &listener{started: start(t, nil, append([]string{"agent", "--listen", ip + ":0"}, args...)...)}
	seen := l.expect(t, "takes runs at ")
	_, rest, _ := strings.Cut(seen[len(seen)-1], "takes runs at ")
	l.address, _, _ = strings.Cut(rest, ",")
	return l
}

// machineFile is a file of machines.
func machineFile(t *testing.T, machines ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "machines.yaml")
	text := "machines:\n"
	for i, m := range machines {
		text += fmt.Sprintf("  - {name: m%d, address: %q}\n", i, m)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// unused is an address at which nothing listens.
func unused(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

type shownMachines struct {
	Machines []shownMachine `json:"machines"`
}

// TestMachines: each machine is shown as it is, with the reason where it takes no run; the status says whether all do.
func TestMachines(t *testing.T) {
	a := startListener(t, "127.0.0.1", "--insecure", "--name", "h1", "--slots", "3")
	other := startListener(t, "127.0.0.2", "--insecure", "--slots", "1", "--group", "other")
	file := machineFile(t, a.address)
	status, out, errs := run("", "machines", file, "--insecure", "--program", "/proc/self/exe")
	if lines := strings.Split(out, "\n"); status != 0 || errs != "" || len(lines) != 3 ||
		!strings.HasPrefix(lines[1], "m0       up     3      3 ") {
		t.Errorf("%d\n%s%s", status, out, errs)
	}
	dead := unused(t)
	file = machineFile(t, a.address, other.address, dead)
	status, out, errs = run("", "machines", "--machines", file, "--insecure")
	for _, want := range []string{
		`m1 is refused: it belongs to the group "other", and this is for "disco"`,
		"m2 is unreachable: machine " + dead + ": no agent listens there",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("found %q, want %q", out, want)
		}
	}
	if status != 1 || !strings.Contains(errs, "2 of 3 machines take no run of this program: m1, m2") {
		t.Errorf("%d %q", status, errs)
	}
	status, out, _ = run("", "machines", file, "--insecure", "--json", "--program", "/bin/sh")
	var shown shownMachines
	if err := json.Unmarshal([]byte(out), &shown); status != 1 || err != nil || len(shown.Machines) != 3 {
		t.Fatalf("%d %q %v", status, out, err)
	}
	if m := shown.Machines[0]; m.State != stateRefused || !strings.Contains(m.Reason, "its program has the digest ") ||
		m.Host != "h1" || m.Slots != 3 || m.Free != 3 || m.Name != "m0" || m.Address != a.address || m.Version == "" ||
		len(m.Digest) != 64 || m.Processors < 1 || m.Memory < 1 || m.Runs == nil {
		t.Errorf("%+v", m)
	}
	if m := shown.Machines[2]; m.State != stateUnreachable || m.Reason == "" {
		t.Errorf("%+v", m)
	}
	for _, l := range []*listener{a, other} {
		if status := l.end(syscall.SIGTERM); status != 0 {
			t.Errorf("status %d", status)
		}
	}
}

// TestMachinesOverTLS: certificates decide who is shown.
func TestMachinesOverTLS(t *testing.T) {
	dir := t.TempDir()
	authority, here, foreign := filepath.Join(dir, "a"), filepath.Join(dir, "h"), filepath.Join(dir, "f")
	for _, err := range []error{certs.Init(authority, certs.Period(1)),
		certs.Issue(authority, here, []string{"127.0.0.1"}, certs.Period(1)),
		certs.Init(authority+"2", certs.Period(1)),
		certs.Issue(authority+"2", foreign, []string{"127.0.0.1"}, certs.Period(1))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	a := startListener(t, "127.0.0.1", "--tls-dir", here, "--slots", "1")
	file := machineFile(t, a.address)
	if status, out, errs := run("", "machines", file, "--tls-dir", here); status != 0 || !strings.Contains(out,
		" up ") {
		t.Errorf("%d %q %q", status, out, errs)
	}
	for _, c := range []struct{ flags, want string }{
		{"--tls-dir " + foreign, "its certificate was signed by another authority"},
		{"--insecure", "it expects TLS, which is --tls-dir here"},
	} {
		status, out, _ := run("", append([]string{"machines", file}, strings.Fields(c.flags)...)...)
		if status != 1 || !strings.Contains(out, "m0 is refused: machine "+a.address) || !strings.Contains(out,
			c.want) {
			t.Errorf("%s: %d %q", c.flags, status, out)
		}
	}
	if status := a.end(syscall.SIGINT); status != 0 {
		t.Errorf("status %d", status)
	}
}

// TestMachinesWatched: what changes is shown, until a signal.
func TestMachinesWatched(t *testing.T) {
	a := startListener(t, "127.0.0.1", "--insecure", "--slots", "1")
	w := start(t, nil, "machines", machineFile(t, a.address), "--insecure", "--watch", "--json")
	w.expect(t, `"state":"up"`)
	a.end(syscall.SIGKILL)
	w.expect(t, `"state":"unreachable"`)
	if status := w.end(syscall.SIGINT); status != 130 {
		t.Errorf("status %d", status)
	}
}

// TestMachinesOfAStore: members that are up, with an address, and not drained are the machines.
func TestMachinesOfAStore(t *testing.T) {
	url := etcd(t.Context(), t)
	if status, _, errs := run("", "machines", "--store", url, "--insecure"); status != 2 ||
		!strings.Contains(errs, "no such group") {
		t.Errorf("%d %q", status, errs)
	}
	withGroup(t, url)
	if status, _, errs := run("", "machines", "--store", url, "--insecure"); status != 1 ||
		!strings.Contains(errs, "of 0 members of the group none is up, has an address and isn't drained") {
		t.Errorf("%d %q", status, errs)
	}
	a := startListener(t, "127.0.0.1", "--insecure", "--name", "h1", "--slots", "2", "--store", url)
	a.expect(t, "h1 is up")
	status, out, errs := run("", "machines", "--store", url, "--insecure", "--json")
	var shown shownMachines
	if err := json.Unmarshal([]byte(out), &shown); status != 0 || err != nil || len(shown.Machines) != 1 ||
		shown.Machines[0].Address != a.address || shown.Machines[0].Name != "h1" || shown.Machines[0].Slots != 2 {
		t.Errorf("%d %q %q %v", status, out, errs, err)
	}
	second := start(t, nil, "agent", "--listen", "127.0.0.1:0", "--insecure", "--program", "/proc/self/exe", "--name",
		"h1", "--store", url)
	said := strings.Join(second.expect(t, "name is taken"), "\n")
	if status := second.end(0); status != 1 || strings.Contains(said, "takes runs") {
		t.Errorf("another agent of that name: status %d, %q", status, said)
	}
	if status, _, errs := run("", "cluster", "drain", "h1", "--store", url); status != 0 {
		t.Error(errs)
	}
	if status, _, errs := run("", "machines", "--store", url, "--insecure"); status != 1 ||
		!strings.Contains(errs, "of 1 member of the group none is up") {
		t.Errorf("%d %q", status, errs)
	}
	if status := a.end(syscall.SIGTERM); status != 0 {
		t.Errorf("status %d", status)
	}
}

// TestMachinesMistakes: what is wrong with the arguments is said before anything is opened, with status 2.
func TestMachinesMistakes(t *testing.T) {
	t.Setenv("DISCO_STORE", "")
	good, far := machineFile(t, "127.0.0.1:1"), machineFile(t, "192.0.2.1:1")
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("machines:\n  - {address: nowhere, slots: 0}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"machines", 2, "which machines are meant?"},
		{"machines a b --insecure", 2, "want one file of machines"},
		{"machines a --machines b --insecure", 2, "want one file of machines"},
		{"machines a --store etcd://127.0.0.1:1 --insecure", 2, "want one list of machines"},
		{"machines " + good, 2, "found neither --tls-dir nor --insecure"},
		{"machines " + good + " --insecure --tls-dir x", 2, "want one of them"},
		{"machines " + good + " --tls-dir /nonexistent", 2, "certs issue"},
		{"machines " + far + " --insecure", 2, "--insecure twice means it"},
		{"machines " + good + " --insecure --connect-timeout 0s", 2, "found 0s, want 1ms to 24h0m0s"},
		{"machines " + good + " --insecure --connect-timeout 1ns", 2, "found 1ns, want 1ms to 24h0m0s"},
		{"machines " + good + " --insecure --connect-timeout 25h", 2, "found 25h0m0s, want 1ms to 24h0m0s"},
		{"machines " + good + " --insecure --program /nonexistent", 2, "--program"},
		{"machines " + good + " --insecure --program /", 2, "want a program"},
		{"machines /nonexistent --insecure", 2, "/nonexistent"},
		{"machines " + bad + " --insecure", 2, "bad.yaml:2"},
		{"agent --listen 127.0.0.1:0", 2, "found neither --tls-dir nor --insecure"},
		{"agent --listen 192.0.2.1:7400 --insecure", 2, "--insecure twice means it"},
		{"agent --listen :7400 --insecure", 2, "--insecure twice means it"},
		{"agent --listen nonsense --insecure", 2, "want HOST:PORT"},
		{"agent --listen 127.0.0.1:0 --insecure --slots 0", 2, "want 1 to 64"},
		{"agent --listen 127.0.0.1:0 --insecure --slots 65", 2, "want 1 to 64"},
		{"agent --listen 127.0.0.1:0 --insecure --program /nonexistent", 2, "--program"},
		{"agent --listen 127.0.0.1:0 --insecure --group a/b", 2, "without a slash"},
		{"agent --listen 0.0.0.0:0 --insecure --insecure --store etcd://127.0.0.1:1", 2, "want --address HOST:PORT"},
		{"agent --tls-dir x --store etcd://127.0.0.1:1", 2, "--tls-dir has no meaning without --listen"},
		{"agent --slots 1", 2, "there is neither --listen nor --store"},
		{"bridge", 2, "an agent starts this for each run"},
	} {
		status, out, errs := run("", strings.Fields(c.args)...)
		if status != c.status || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d %q %q; want %d and %q", c.args, status, out, errs, c.status, c.want)
		}
	}
}

// TestPortInUse: a port that somebody has is named.
func TestPortInUse(t *testing.T) {
	t.Setenv("DISCO_STORE", "")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	status, _, errs := run("", "agent", "--listen", l.Addr().String(), "--insecure", "--program", "/proc/self/exe")
	if status != 1 || !strings.Contains(errs, "--listen "+l.Addr().String()) ||
		!strings.Contains(errs, "address already in use") {
		t.Errorf("%d %q", status, errs)
	}
}
