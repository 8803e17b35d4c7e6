// SPDX-License-Identifier: Apache-2.0

package group

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/certs"
	"github.com/disco-sim/disco/internal/launch/launchtest"
)

// generous are flags of runs that go well on a machine on which others have the processors.
var generous = []string{"--insecure", "--connect-timeout", "1m", "--peer-timeout", "1m", "--reconnect-window", "1m"}

// ran is what came of a command in a process of its own.
type ran struct {
	status         int
	stdout, stderr string
}

// command is such a process, before it is started.
func command(args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	cmd = exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), programVariable+"=1")
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd, stdout, stderr
}

// runs runs a command to its end.
func runs(t *testing.T, args ...string) ran {
	t.Helper()
	cmd, stdout, stderr := command(args...)
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return ran{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// refused holds that a command was refused in these words.
func (r *ran) refused(t *testing.T, args string, wants []string) {
	t.Helper()
	missing := func(want string) bool { return !strings.Contains(r.stderr, want) }
	if r.status != 2 || slices.ContainsFunc(wants, missing) {
		t.Errorf("%s: %+v; want status 2 and %q", args, *r, wants)
	}
}

// scenarioFile is a scenario of the tiny model.
func scenarioFile(t *testing.T, horizon float64, trouble string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tiny.yml")
	if err := os.WriteFile(file, []byte(launchtest.Scenario(6, horizon, trouble)), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// file is one that lists the first n machines.
func (m *machines) file(t *testing.T, n int) string {
	t.Helper()
	var addresses []string
	for _, target := range m.targets[:n] {
		addresses = append(addresses, target.Address)
	}
	return machineFile(t, addresses...)
}

// shownResults is what is looked at of a run's JSON.
type shownResults struct {
	Hash     string `json:"trace_hash"`
	Workers  int    `json:"workers"`
	Machines []struct {
		Name    string `json:"name"`
		Slots   int    `json:"slots"`
		Workers []int  `json:"workers"`
	} `json:"machines"`
}

// results runs a scenario, which goes well, and gives its JSON.
func results(t *testing.T, args ...string) (s shownResults) {
	t.Helper()
	got := runs(t, append([]string{"run", "--json", "-"}, args...)...)
	if err := json.Unmarshal([]byte(got.stdout), &s); got.status != 0 || err != nil || s.Hash == "" {
		t.Fatalf("%q: %+v %v", args, got, err)
	}
	return s
}

// TestRunsOverMachines: a scenario gives the same trace hash on one machine, and over one, two and three by their
// agents; without --workers every slot has a worker; and the agents are free again when the command has ended.
func TestRunsOverMachines(t *testing.T) {
	m := startMachines(t, 3)
	file := scenarioFile(t, 5, "")
	want := results(t, file)
	if len(want.Machines) > 0 {
		t.Errorf("a run on this machine has the machines %+v", want.Machines)
	}
	for n := 1; n <= 3; n++ {
		got := results(t, append([]string{file, "--machines", m.file(t, n)}, generous...)...)
		if got.Hash != want.Hash || got.Workers != 2*n || len(got.Machines) != n {
			t.Errorf("%d machines: %+v, want the hash %s of %d workers", n, got, want.Hash, 2*n)
		}
		for i, machine := range got.Machines {
			if machine.Name != fmt.Sprint("m", i) || machine.Slots != 2 || len(machine.Workers) != 2 {
				t.Errorf("%d machines: %+v", n, machine)
			}
		}
		for i := range n {
			if s := m.status(t, i); s.Free != 2 {
				t.Errorf("machine %d has %d free slots behind the end of the command", i, s.Free)
			}
		}
	}
	m.free(t, 0, 1, 2)
	m.stop(t)
}

// TestCompressionNotChosen: a run that ends before a compression is chosen says so once, where it was asked to choose.
func TestCompressionNotChosen(t *testing.T) {
	m := startMachines(t, 2)
	file := scenarioFile(t, 5, "")
	for compress, times := range map[string]int{"auto": 1, "s2": 0, "": 0} {
		args := append([]string{"run", file, "--machines", m.file(t, 2)}, generous...)
		if compress != "" {
			args = append(args, "--compress", compress)
		}
		const want = "disco: --compress auto: nothing was compressed, as the run has ended before that was decided"
		got := runs(t, args...)
		if got.status != 0 || strings.Count(got.stderr, want) != times {
			t.Errorf("--compress %q: %+v, want status 0 and %d times %q", compress, got, times, want)
		}
	}
	m.stop(t)
}

// TestWhatRunsHaveOverMachines: traces, profiles, journals, replications that are spread, sweeps and comparisons are
// there as on one machine.
func TestWhatRunsHaveOverMachines(t *testing.T) {
	m := startMachines(t, 2)
	file, dir := scenarioFile(t, 5, ""), t.TempDir()
	over := append([]string{"--machines", m.file(t, 2)}, generous...)
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || len(text) == 0 {
			t.Fatalf("%s: %d bytes, %v", name, len(text), err)
		}
		return string(text)
	}
	good := func(args ...string) ran {
		t.Helper()
		got := runs(t, args...)
		if got.status != 0 {
			t.Fatalf("%q: %+v", args, got)
		}
		return got
	}
	good("run", file, "--trace", filepath.Join(dir, "here"))
	good(append([]string{"run", file, "--trace", filepath.Join(dir, "there"), "--cpuprofile", dir}, over...)...)
	if read("here") != read("there") {
		t.Error("the traces differ")
	}
	for w := range 4 {
		read(fmt.Sprintf("worker-%d.pprof", w))
	}
	journal := []string{"run", file, "--print", "node=n1,until=2,file=" + filepath.Join(dir, "journal")}
	good(journal...)
	want := read("journal")
	if good(append(journal, over...)...); read("journal") != want {
		t.Error("the journals differ")
	}
	many := []string{file, "--replications", "6"}
	if a, b := results(t, many...), results(t, append(many, over...)...); a.Hash != b.Hash || b.Workers != 4 {
		t.Errorf("replications: %+v and %+v", a, b)
	}
	sweep := []string{"run", file, "--sweep", "tokens=1,2,3", "--csv", "-", "--columns", "trace_hash,handled"}
	if a, b := good(sweep...), good(append(sweep, over...)...); a.stdout != b.stdout || strings.Count(a.stdout,
		"\n") != 4 {
		t.Errorf("sweeps:\n%s\n%s", a.stdout, b.stdout)
	}
	good(append([]string{"run", file, "--compare"}, over...)...)
	saved := filepath.Join(dir, "saved")
	good(append([]string{"run", file, "--checkpoint-to", saved, "--checkpoint-at", "2=warm"}, over...)...)
	variants := []string{"resume", saved, "--at", "warm", "--replications", "3", "--json", "-"}
	hash := func(args ...string) (s shownResults) {
		t.Helper()
		if err := json.Unmarshal([]byte(good(args...).stdout), &s); err != nil || s.Hash == "" {
			t.Fatal(s, err)
		}
		return s
	}
	a, own := hash(variants...), filepath.Join(dir, "own")
	variants = append(variants, over...)
	if b := hash(append(variants, "--spread", "nodes", "--checkpoint-to", own, "--checkpoint-at", "3")...); a.Hash !=
		b.Hash || b.Workers != 4 {
		t.Errorf("variants: %+v and %+v", a, b)
	}
	if b := hash("resume", own, "--at", "3", "--json", "-"); a.Hash != b.Hash {
		t.Errorf("variants that go on here: %+v and %+v", a, b)
	}
	m.free(t, 0, 1)
	m.stop(t)
}

// runUnderWay starts a run without end over machines, and returns when its workers simulate.
func runUnderWay(t *testing.T, m *machines, args ...string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	file := scenarioFile(t, 1e9, "")
	cmd, _, stderr = command(append([]string{"run", file, "--machines", m.file(t, len(m.targets)), "--name", "endless",
		"--crash-dir", "none", "--insecure", "--connect-timeout", "1m", "--peer-timeout", "30s"}, args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // where the test has failed before its end
	underWay(t, m)
	return cmd, stderr
}

// underWay returns when two workers are on each machine.
func underWay(t *testing.T, m *machines) {
	t.Helper()
	for i, l := range m.listeners {
		await(t, fmt.Sprint("workers on machine ", i), func() bool {
			bridges := bridgesOf(t, l.Process.Pid)
			return len(bridges) == 1 && len(bridgesOf(t, bridges[0])) == 2
		})
	}
}

// TestUnusedMachines: once a run is placed, what it doesn't use is free: a slot of a machine, and a whole machine, on
// which nothing of it is left; it goes on, and another run gets both. A sweep keeps all until its last point.
func TestUnusedMachines(t *testing.T) {
	m := startMachines(t, 3)
	pins := filepath.Join(t.TempDir(), "pins") // with which machines are filled in their order
	if err := os.WriteFile(pins, []byte("n0: 0\nn1: 1\nn2: 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	over := append([]string{"--workers", "3", "--placement", pins, "--crash-dir", "none"}, generous...)
	under := func(name string, args ...string) (*exec.Cmd, *bytes.Buffer) {
		cmd, _, stderr := command(slices.Concat([]string{"run", scenarioFile(t, 1e9, ""), "--machines", m.file(t, 3),
			"--name", name}, over, args)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd, stderr
	}
	simulates := func(want ...int) { // with so many slots and workers of each machine
		t.Helper()
		for i, l := range m.listeners {
			await(t, fmt.Sprint("slots and workers of machine ", i), func() bool {
				workers, bridges := 0, bridgesOf(t, l.Process.Pid)
				for _, pid := range bridges {
					workers += len(bridgesOf(t, pid))
				}
				return m.status(t, i).Free == 2-want[i] && (len(bridges) > 0) == (want[i] > 0) &&
					workers == min(want[i], 2-i)
			})
		}
	}
	end := func(cmd *exec.Cmd, stderr *bytes.Buffer) {
		t.Helper()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 143 || strings.Contains(stderr.String(), "lost") {
			t.Errorf("%v: %s", cmd.ProcessState, stderr)
		}
		m.free(t, 0, 1, 2)
	}
	first, said := under("first")
	simulates(2, 1, 0)
	others := machineFile(t, m.targets[2].Address, m.targets[1].Address)
	got := results(t, append([]string{scenarioFile(t, 5, ""), "--machines", others}, over...)...)
	if want := results(t, scenarioFile(t, 5, "")); got.Hash != want.Hash || got.Workers != 3 {
		t.Errorf("%+v, want the hash %s of 3 workers", got, want.Hash)
	}
	simulates(2, 1, 0)
	end(first, said)
	sweep, said := under("sweep", "--sweep", "tokens=1,2")
	simulates(2, 2, 2)
	end(sweep, said)
	m.stop(t)
}

// TestEndsOverMachines: whichever part of a run is killed, all of it ends on all machines; where there is somebody left
// to say why, that is said with the machine's name.
func TestEndsOverMachines(t *testing.T) {
	for _, c := range []struct {
		who    string
		signal syscall.Signal
		status int
		want   string
	}{
		{"launcher", syscall.SIGTERM, 143, "terminated"},
		{"launcher", syscall.SIGKILL, -1, ""},
		{"child", syscall.SIGKILL, 1, "the process that joins the machines (child) ended too early: killed by SIGKILL"},
		{"worker", syscall.SIGKILL, 1, "on m1 died: killed by SIGKILL"},
		{"bridge", syscall.SIGKILL, 1, "machine m1: the process of its bridge has ended: killed by SIGKILL"},
		{"agent", syscall.SIGTERM, 1, "a machine was lost: on machine h1: the agent of its machine was ended"},
		{"agent", syscall.SIGKILL, 1, "m1: no connection for "},
	} {
		t.Run(fmt.Sprint(c.who, " ", c.signal), func(t *testing.T) {
			m := startMachines(t, 2)
			window := "2s"
			if c.who == "launcher" { // whose child ends the run at once, without waiting for anybody
				window = "10m"
			}
			cmd, stderr := runUnderWay(t, m, "--reconnect-window", window)
			bridge := bridgesOf(t, m.listeners[1].Process.Pid)[0]
			all := append(bridgesOf(t, bridge), bridge)
			pid := map[string]int{"launcher": cmd.Process.Pid, "bridge": bridge, "worker": all[0],
				"agent": m.listeners[1].Process.Pid}[c.who]
			if c.who == "child" {
				pid = bridgesOf(t, cmd.Process.Pid)[0]
			}
			if err := syscall.Kill(pid, c.signal); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if status := cmd.ProcessState.ExitCode(); status != c.status || !strings.Contains(stderr.String(), c.want) {
				t.Errorf("status %d, want %d; it says\n%s\nwant %q", status, c.status, stderr, c.want)
			}
			for _, pid := range all {
				gone(t, pid)
			}
			left := []int{0, 1}
			if c.who == "agent" {
				left = left[:1]
				<-m.done[1]
			}
			m.free(t, left...)
			m.stop(t)
		})
	}
}

// TestEndsWhileJoining: a run whose child is killed before all machines are joined is refused, and one that is ended
// then ends at once; either way nothing is left of it.
func TestEndsWhileJoining(t *testing.T) {
	m := startMachines(t, 1)
	silent, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	file := machineFile(t, m.targets[0].Address, silent.Addr().String())
	for _, c := range []struct {
		who    string
		signal syscall.Signal
		status int
		wants  []string
	}{
		{"child", syscall.SIGKILL, 2, []string{"the machines aren't joined, and keep nothing of the run: ",
			"ended too early: killed by SIGKILL"}},
		{"launcher", syscall.SIGTERM, 143, []string{"before anything was simulated"}},
	} {
		cmd, _, stderr := command("run", scenarioFile(t, 5, ""), "--machines", file, "--insecure", "--connect-timeout",
			"10m")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		await(t, "one machine has the run", func() bool { return m.status(t, 0).Free == 0 })
		child := bridgesOf(t, cmd.Process.Pid)[0]
		pid := map[string]int{"child": child, "launcher": cmd.Process.Pid}[c.who]
		if err := syscall.Kill(pid, c.signal); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		missing := func(want string) bool { return !strings.Contains(stderr.String(), want) }
		if status := cmd.ProcessState.ExitCode(); status != c.status || slices.ContainsFunc(c.wants, missing) {
			t.Errorf("%s: status %d, want %d; it says\n%s\nwant %q", c.who, status, c.status, stderr, c.wants)
		}
		gone(t, child)
		m.free(t, 0)
	}
	m.stop(t)
}

// TestEndsWhenLeft: a run that is ended while it joins its machines says that it leaves them, if that takes longer, and
// ends when it has: who runs it again at once finds them free.
func TestEndsWhenLeft(t *testing.T) {
	m := startMachines(t, 1)
	silent, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	p := start(t, nil, "run", scenarioFile(t, 5, ""), "--machines", machineFile(t, m.targets[0].Address,
		silent.Addr().String()), "--insecure", "--connect-timeout", "10m")
	await(t, "one machine has the run", func() bool { return m.status(t, 0).Free == 0 })
	child := bridgesOf(t, p.Process.Pid)[0]
	signal := func(pid int, s syscall.Signal) {
		if err := syscall.Kill(pid, s); err != nil {
			t.Fatal(err)
		}
	}
	signal(child, syscall.SIGSTOP)
	signal(p.Process.Pid, syscall.SIGINT)
	p.expect(t, "still leaving the machines")
	signal(child, syscall.SIGCONT)
	p.expect(t, "interrupted before anything was simulated")
	if err := p.Wait(); p.ProcessState.ExitCode() != 130 {
		t.Errorf("found %v, want status 130", err)
	}
	if err := syscall.Kill(child, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("its child is still there: %v", err)
	}
	m.free(t, 0)
	m.stop(t)
}

// TestRefusedOverMachines: what can't be run over machines is refused with the machine's name and status 2, before a
// worker starts, and nothing is left on any machine.
func TestRefusedOverMachines(t *testing.T) {
	m := startMachines(t, 2)
	other := startListener(t, "127.0.0.3", "--insecure", "--slots", "1", "--group", "other")
	shell := startListener(t, "127.0.0.3", "--insecure", "--slots", "1", "--program", "/bin/sh")
	a, b := m.targets[0].Address, m.targets[1].Address
	_, port, _ := strings.Cut(a, ":")
	dead := unused(t)
	file, good := scenarioFile(t, 5, ""), m.file(t, 2)
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("machines:\n  - {adress: \"h1:7400\", slots: 0}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	few := filepath.Join(t.TempDir(), "few.yaml")
	text := fmt.Sprintf("machines:\n  - {address: %q, slots: 3, labels: {rack: a}}\n", a)
	if err := os.WriteFile(few, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args  string
		wants []string
	}{
		{"--machines /nonexistent/m.yaml", []string{"--machines: /nonexistent/m.yaml: found no file of that name"}},
		{"--machines " + bad + " --insecure", []string{bad + ":2:6: machines[0].adress: found an unknown field"}},
		{"--machines " + machineFile(t, a, dead) + " --insecure", []string{"m1: machine " + dead + ": no agent"}},
		{"--machines " + machineFile(t, dead, a, other.address) + " --insecure", []string{"m0: machine " + dead,
			"m2: machine " + other.address + ` refuses: found the group "disco", and the agent belongs to "other"`}},
		{"--machines " + machineFile(t, b, shell.address) + " --insecure", []string{"m1: machine " + shell.address +
			" refuses: found a program with the digest"}},
		{"--machines " + machineFile(t, a, "localhost:"+port) + " --insecure", []string{"both addresses lead to"}},
		{"--machines " + good + " --insecure --workers 5", []string{
			"--workers: found 5, want at most 4, the slots of the machines (m0 2, m1 2)"}},
		{"--machines " + few + " --insecure", []string{a + " refuses: slots wanted: 3, free: 2 of 2"}},
		{"--machines " + few + " --insecure --labels rack=b", []string{"no machine has all of the labels rack=b",
			`"rack=a"`}},
		{"--machines " + few + " --insecure --labels rack", []string{"--labels", "want KEY=VALUE"}},
		{"--machines " + good, []string{"found neither --tls-dir nor --insecure"}},
		{"--machines " + good + " --insecure --tls-dir x", []string{"want one of them"}},
		{"--machines " + good + " --tls-dir /nonexistent", []string{"/nonexistent", "certs issue"}},
		{"--machines " + machineFile(t, "192.0.2.1:7400") + " --insecure", []string{"--insecure twice means it"}},
		{"--machines " + good + " --insecure --transport inproc", []string{"--transport: found inproc", "want shm"}},
		{"--machines " + good + " --store etcd://127.0.0.1:1 --insecure", []string{"want one list of machines"}},
		{"--machines " + good + " --insecure --peer-timeout 10ms", []string{
			"--peer-timeout: found 10ms, want 500ms to"}},
		{"--machines " + good + " --insecure --reconnect-window 0s", []string{"--reconnect-window: found 0s"}},
		{"--machines " + good + " --insecure --connect-timeout soon", []string{`--connect-timeout: found "soon"`}},
		{"--machines " + good + " --insecure --compress lzma", []string{`--compress: found "lzma", want none, s2`}},
		{"--machines " + good + " --insecure --bridge-bytes 1", []string{"--bridge-bytes: found 1, want"}},
		{"--store nonsense --insecure", []string{"nonsense"}},
		{"--insecure", []string{"--insecure has no meaning without --machines FILE, or --store URL"}},
		{"--labels a=b", []string{"--labels has no meaning without --machines"}},
	} {
		if strings.HasPrefix(c.args, "--machines") && !strings.Contains(c.args, "-timeout") {
			c.args += " --connect-timeout 1m"
		}
		got := runs(t, append([]string{"run", file}, strings.Fields(c.args)...)...)
		got.refused(t, c.args, c.wants)
		if strings.Contains(got.stderr, "goroutine ") || strings.Count(got.stderr, "disco-run") > 1 {
			t.Errorf("%s: it says more than is wrong: %s", c.args, got.stderr)
		}
	}
	m.free(t, 0, 1)
	for _, l := range []*listener{other, shell} {
		l.end(syscall.SIGTERM)
	}
	m.stop(t)
}

// TestSlotsInUse: a second run with the name of the first is refused, and one that has too few slots is told who has
// them; the first one goes on.
func TestSlotsInUse(t *testing.T) {
	m := startMachines(t, 1)
	cmd, stderr := runUnderWay(t, m)
	file, over := scenarioFile(t, 5, ""), append([]string{"--machines", m.file(t, 1)}, generous...)
	for name, want := range map[string]string{
		"endless": `a run "endless" is here already, from 127.0.0.1:`,
		"another": `slots wanted: 1, free: 0 of 2: wait for it, or run without this machine, by a file without it ` +
			`or by --labels: the run "endless" from 127.0.0.1:`,
	} {
		got := runs(t, append([]string{"run", file, "--name", name}, over...)...)
		if got.status != 2 || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %+v, want %q", name, got, want)
		}
	}
	if s := m.status(t, 0); len(s.Runs) != 1 || s.Runs[0].Name != "endless" || s.Runs[0].Slots != 2 {
		t.Errorf("%+v", s.Status)
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("%v: %s", cmd.ProcessState, stderr)
	}
	m.free(t, 0)
	m.stop(t)
}

// TestRunsOverTLS: with certificates of one authority a run goes; with those of another one, of another machine, or
// such as have expired it is refused with what is wrong with them, on which machine.
func TestRunsOverTLS(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(certs.Init(in("a"), certs.Period(10)), certs.Init(in("b"), certs.Period(10)),
		certs.Issue(in("a"), in("h1"), []string{"127.0.0.1"}, certs.Period(1)),
		certs.Issue(in("a"), in("laptop"), []string{"laptop"}, certs.Period(1)),
		certs.Issue(in("b"), in("foreign"), []string{"127.0.0.1"}, certs.Period(1)),
		certs.Issue(in("a"), in("old"), []string{"127.0.0.1"}, certs.Validity{From: time.Now().Add(-48 * time.Hour),
			Until: time.Now().Add(-24 * time.Hour)})); err != nil {
		t.Fatal(err)
	}
	m := &machines{}
	m.add(startListener(t, "127.0.0.1", "--tls-dir", in("h1"), "--slots", "1"))
	m.add(startListener(t, "127.0.0.2", "--tls-dir", in("h1"), "--slots", "1"))
	file := scenarioFile(t, 5, "")
	long := []string{"--connect-timeout", "1m", "--peer-timeout", "1m", "--reconnect-window", "1m"}
	want := results(t, file)
	got := results(t, append(long, file, "--machines", m.file(t, 1), "--tls-dir", in("laptop"))...)
	if got.Hash != want.Hash {
		t.Errorf("%+v, want %+v", got, want)
	}
	for args, wants := range map[string][]string{
		m.file(t, 1) + " --tls-dir " + in("foreign"): {"m0: machine " + m.targets[0].Address, "another authority"},
		m.file(t, 1) + " --tls-dir " + in("old"):     {in("old") + "/cert.pem is valid from", "until"},
		m.file(t, 2) + " --tls-dir " + in("laptop"):  {"m1: machine " + m.targets[1].Address, "127.0.0.2"},
	} {
		got := runs(t, append([]string{"run", file, "--connect-timeout", "1m", "--machines"},
			strings.Fields(args)...)...)
		got.refused(t, args, wants)
	}
	for _, l := range m.listeners {
		_ = l.Process.Signal(syscall.SIGTERM)
	}
	for _, done := range m.done {
		<-done
	}
}

// TestDoneWithoutAgents: the bridges of a run end with it also where their agents can't pass anything on.
func TestDoneWithoutAgents(t *testing.T) {
	m := startMachines(t, 2)
	cmd, stderr := runUnderWay(t, m, "--reconnect-window", "10m")
	agent := m.listeners[1].Process
	bridge := bridgesOf(t, agent.Pid)[0]
	if err := agent.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 143 {
		t.Errorf("%v: %s", cmd.ProcessState, stderr)
	}
	await(t, "the bridge has ended", func() bool { // nobody takes its exit status before the agent goes on
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", bridge))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
	if err := agent.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	m.free(t, 0, 1)
	m.stop(t)
}
