// SPDX-License-Identifier: Apache-2.0

package group

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/storeserver"
)

// programVariable makes the test's program the commands' own.
const programVariable = "DISCO_GROUP_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		app.MainWith(Commands())
	}
	leaktest.Main(m)
}

// run is a command in this process: its exit status and what it wrote.
func run(stdin string, args ...string) (status int, stdout, stderr string) {
	var out, err bytes.Buffer
	status = app.RunWith(append([]string{"disco-run"}, args...), strings.NewReader(stdin), &out, &err, Commands())
	return status, out.String(), err.String()
}

// stores starts a server of each engine, and gives its URL. Those that can't be had are skipped, saying so.
func stores(t *testing.T, f func(t *testing.T, url string)) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	t.Run("etcd", func(t *testing.T) { f(t, etcd(ctx, t)) })
	t.Run("zk", func(t *testing.T) {
		e, err := storeserver.StartEnsemble(ctx, t.TempDir(), 1, storeserver.ZKOptions{})
		if err != nil {
			t.Skipf("SKIPPED: no ZooKeeper: %v", err)
		}
		t.Cleanup(e.Close)
		f(t, "zk://"+e.Addrs()[0]+"/chroot")
	})
}

func etcd(ctx context.Context, t *testing.T) (url string) {
	e, err := storeserver.StartEtcds(ctx, t.TempDir(), 1)
	if err != nil {
		t.Skipf("SKIPPED: no etcd: %v", err)
	}
	t.Cleanup(e.Close)
	return "etcd://" + e.Addrs()[0]
}

// TestStore types the store's commands one after the other, and holds what they answer.
func TestStore(t *testing.T) {
	stores(t, func(t *testing.T, url string) {
		for _, c := range []struct {
			stdin, args string
			status      int
			stdout      string
			stderr      string // a part
		}{
			{"", "get a", 1, "", `there is no key "a"`},
			{"", "put a/b {\"x\":[1,null]}", 0, "", ""},
			{"", "get a/b", 0, "{\"x\":[1,null]}\n", ""},
			{"", "get a", 1, "", "is a directory"},
			{"some text\n", "put a/c", 0, "", ""},
			{"-3.5", "put a/d -", 0, "", ""},
			{"", "list a", 0, "b\nc\nd\n", ""},
			{"", "tree a", 0, "a/b = {\"x\":[1,null]}\na/c = \"some text\"\na/d = -3.5\n", ""},
			{"", "put --create a/c new", 1, "", "has a value already"},
			{"", "put --create a/e new", 0, "", ""},
			{"", "get a/e --json", 0, "{\n  \"key\": \"a/e\",\n  \"value\": \"new\"\n}\n", ""},
			{"", "rm a", 1, "", "-r deletes that, too"},
			{"", "rm a/c", 0, "", ""},
			{"", "rm a/c", 1, "", "there is no key"},
			{"", "rm -r a", 0, "", ""},
			{"", "list a", 1, "", "there is no key"},
			{"", "list a --json", 1, "", "there is no key"},
			{"", "tree a", 1, "", "there is no key"},
			{"", "queue q", 0, "", ""},
			{"", "queue q --pop", 1, "", "no item"},
			{"", "queue q --json", 0, "[]\n", ""},
			{"", "put ../x 1", 2, "", "out of its group"},
			{"", "get a//b", 2, "", "is empty"},
			{"", "get", 2, "", "found 0 arguments"},
			{"", "fetch a", 2, "", "there is no verb"},
			{"", "get a --pop", 2, "", "no meaning for get"},
			{"", "", 2, "", "there is no verb"},
			{"", "get a --store-timeout 0s", 2, "", "more than 0"},
			{"", "get a --group ../b", 2, "", "--group"},
			{strings.Repeat("x", 1_100_000), "put big", 1, "", "found more than 1000000 bytes"},
		} {
			for _, args := range [][]string{append([]string{"store", "--store", url}, strings.Fields(c.args)...),
				append(append([]string{"store"}, strings.Fields(c.args)...), "--store", url)} {
				if c.status == 0 && strings.HasPrefix(c.args, "put --create") || strings.HasPrefix(c.args, "rm") &&
					c.status == 0 {
					args = append([]string{"store", "--store", url}, strings.Fields(c.args)...)
				}
				status, stdout, stderr := run(c.stdin, args...)
				if status != c.status || stdout != c.stdout || !strings.Contains(stderr, c.stderr) ||
					(stderr == "") != (c.stderr == "") {
					t.Errorf("%.60q: %d, %q, %.200q; want %d, %q, %q", args, status, stdout, stderr, c.status,
						c.stdout, c.stderr)
				}
				if c.status == 0 && (strings.Contains(c.args, "--create") || strings.HasPrefix(c.args, "rm")) {
					break // done twice it is another thing
				}
			}
		}
		queueInOrder(t, url)
	})
}

func queueInOrder(t *testing.T, url string) {
	for i := range 3 {
		if status, _, stderr := run("", "store", "queue", "q", "--store", url, "--push", fmt.Sprint(i)); status != 0 {
			t.Fatalf("push: %s", stderr)
		}
	}
	status, stdout, stderr := run("", "store", "queue", "q", "--store", url)
	if status != 0 || strings.Count(stdout, "\n") != 3 || strings.Contains(stdout, "held") {
		t.Errorf("the items: %d %q %q", status, stdout, stderr)
	}
	for i := range 3 {
		status, stdout, stderr := run("", "store", "queue", "q", "--store", url, "--pop", "--wait", "5s")
		if status != 0 || stdout != fmt.Sprintf("%d\n", i) {
			t.Errorf("pop %d: %d %q %q", i, status, stdout, stderr)
		}
	}
}

// TestNoStore: what is missing or out of reach is said, and for how long it was tried.
func TestNoStore(t *testing.T) {
	t.Setenv("DISCO_STORE", "")
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"cluster", 2, "DISCO_STORE"},
		{"cluster --store etcd://u:secret@127.0.0.1:1", 2, "--store-password-file"},
		{"cluster --store etcd://192.0.2.7:1", 2, "--store-ca"},
		{"cluster --store etcd://127.0.0.1:1 --store-timeout 300ms", 1, " for 3"},
		{"cluster --store zk://127.0.0.1:1 --store-timeout 300ms", 1, " for 3"},
		{"cluster fill h1 --store etcd://127.0.0.1:1", 2, "drain or resume"},
		{"cluster drain --store etcd://127.0.0.1:1", 2, "the NAME"},
		{"cluster drain a/b --store etcd://127.0.0.1:1", 2, "can't be the name"},
		{"cluster drain h1 --json --store etcd://127.0.0.1:1", 2, "for showing"},
		{"agent --slots -1 --store etcd://127.0.0.1:1", 2, "0 to 1024"},
		{"agent --label x --store etcd://127.0.0.1:1", 2, "KEY=VALUE"},
		{"agent --name a/b --store etcd://127.0.0.1:1", 2, "without a slash"},
		{"agent --session 1ms --store etcd://127.0.0.1:1", 2, "--session"},
		{"agent now --store etcd://127.0.0.1:1", 2, "found the argument"},
	} {
		status, stdout, stderr := run("", strings.Fields(c.args)...)
		if status != c.status || stdout != "" || !strings.Contains(stderr, c.want) || strings.Contains(stderr,
			"secret") ||
			strings.Contains(stderr, "goroutine") {
			t.Errorf("%s: %d %q %q; want %d and %q", c.args, status, stdout, stderr, c.status, c.want)
		}
	}
}

// process is an agent with its supervisor.
type process struct {
	*exec.Cmd
	out  *bytes.Buffer
	done chan error
}

func startAgent(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command("/proc/self/exe", append([]string{"agent"}, args...)...), out: &bytes.Buffer{},
		done: make(chan error, 1)}
	file, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	p.Stdout, p.Stderr = file, file
	p.Env = append(os.Environ(), programVariable+"=1")
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.done <- p.Wait() }()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		text, _ := os.ReadFile(file.Name())
		t.Logf("the agent wrote:\n%s", text)
		file.Close()
	})
	return p
}

// shownCluster is what `cluster --json` shows.
func shownCluster(t *testing.T, url string) picture {
	t.Helper()
	status, stdout, stderr := run("", "cluster", "--json", "--store", url)
	var p picture
	if err := json.Unmarshal([]byte(stdout), &p); status != 0 || err != nil {
		t.Fatalf("cluster --json: %d %q %q %v", status, stdout, stderr, err)
	}
	return p
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited 30 s until %s", what)
		}
	}
}

// TestAgent: a machine joins, shows itself, is drained, and leaves: in order, when its process is killed, and when
// its supervisor is. The session is long enough that its end can't be what removes the keys.
func TestAgent(t *testing.T) {
	stores(t, func(t *testing.T, url string) {
		flags := []string{"--store", url, "--name", "h1", "--slots", "2", "--roles", "front,db", "--label",
			"rack=a", "--session", "5m"}
		up := func() bool {
			p := shownCluster(t, url)
			return len(p.Members) == 1 && p.Members[0].Status == cluster.Up && len(p.Servers) == 2
		}
		gone := func() bool { p := shownCluster(t, url); return len(p.Members)+len(p.Servers) == 0 }

		agent := startAgent(t, flags...)
		await(t, "h1 is up", up)
		p := shownCluster(t, url)
		if m := p.Members[0]; m.Name != "h1" || m.Labels["rack"] != "a" || len(m.Roles) != 2 || m.Slots != 2 ||
			m.Digest == "" {
			t.Errorf("%+v", m)
		}
		if status, stdout, _ := run("", "cluster", "--store", url); status != 0 || !strings.Contains(stdout,
			"AVAILABLE") {
			t.Errorf("cluster: %d %s", status, stdout)
		}
		if status, _, stderr := run("", "cluster", "drain", "h1-1", "--store", url); status != 0 || stderr != "" {
			t.Errorf("drain: %d %s", status, stderr)
		}
		if p := shownCluster(t, url); len(p.Drained) != 1 || p.Drained[0] != "h1-1" {
			t.Errorf("%+v", p.Drained)
		}
		if status, _, stderr := run("", "cluster", "resume", "h1-1", "--store", url); status != 0 {
			t.Errorf("resume: %d %s", status, stderr)
		}
		if status, _, stderr := runAgentTwice(t, flags); status != 1 || !strings.Contains(stderr,
			"is taken by process") {
			t.Errorf("a second h1: %d %s", status, stderr)
		}
		_ = agent.Process.Signal(syscall.SIGTERM)
		if err := <-agent.done; err != nil {
			t.Errorf("ended by SIGTERM: %v", err)
		}
		await(t, "h1 has left", gone)

		agent = startAgent(t, flags...)
		await(t, "h1 is up again", up)
		if err := syscall.Kill(shownCluster(t, url).Members[0].Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := <-agent.done; err == nil {
			t.Error("the supervisor ended with 0")
		}
		if !gone() {
			t.Errorf("the supervisor has ended, and its agent's keys are there: %+v", shownCluster(t, url))
		}

		agent = startAgent(t, flags...)
		await(t, "h1 is up for the third time", up)
		_ = agent.Process.Kill()
		<-agent.done
		await(t, "h1 has left after its supervisor", gone)
	})
}

// runAgentTwice runs an agent to its end.
func runAgentTwice(t *testing.T, flags []string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", append([]string{"agent"}, flags...)...)
	cmd.Env = append(os.Environ(), programVariable+"=1")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// started is a command in a process of its own, whose output is read line by line.
type started struct {
	*exec.Cmd
	lines *bufio.Scanner
}

func start(t *testing.T, env []string, args ...string) *started {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(append(os.Environ(), programVariable+"=1"), env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // where the test has failed before its end
	return &started{cmd, bufio.NewScanner(out)}
}

// expect reads lines until one contains a text.
func (s *started) expect(t *testing.T, text string) {
	t.Helper()
	var seen []string
	for s.lines.Scan() {
		if strings.Contains(s.lines.Text(), text) {
			return
		}
		seen = append(seen, s.lines.Text())
	}
	t.Fatalf("no line with %q in %q", text, seen)
}

// end sends a signal, and returns the exit status.
func (s *started) end(signal syscall.Signal) int {
	_ = s.Process.Signal(signal)
	for s.lines.Scan() {
		continue // what is left
	}
	_ = s.Wait()
	return s.ProcessState.ExitCode()
}

// TestWatch: watches show what is there and what comes, until a signal, whose status they end with.
func TestWatch(t *testing.T) {
	stores(t, func(t *testing.T, url string) {
		put := func(value string) {
			t.Helper()
			if status, _, stderr := run("", "store", "put", "a", value, "--store", url); status != 0 {
				t.Fatal(stderr)
			}
		}
		w := start(t, nil, "store", "watch", "a", "--store", url)
		w.expect(t, "a isn't there")
		put("1")
		w.expect(t, "a = 1")
		put("two")
		w.expect(t, `a = "two"`)
		if status, _, stderr := run("", "store", "rm", "a", "--store", url); status != 0 {
			t.Fatal(stderr)
		}
		w.expect(t, "a isn't there")
		if status := w.end(syscall.SIGINT); status != 130 {
			t.Errorf("status %d after SIGINT", status)
		}
		w = start(t, nil, "cluster", "--watch", "--store", url)
		w.expect(t, "no machine")
		agent := startAgent(t, "--store", url, "--name", "h7", "--slots", "1")
		w.expect(t, "h7-0    AVAILABLE")
		_ = agent.Process.Signal(syscall.SIGTERM)
		<-agent.done
		w.expect(t, "no machine")
		if status := w.end(syscall.SIGTERM); status != 143 {
			t.Errorf("status %d after SIGTERM", status)
		}
	})
}

// TestPasswords: a store that asks for one takes it from the environment or a file, and from nobody else; it
// appears in no message and no list of processes.
func TestPasswords(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	const secret = "correct-horse"
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := storeserver.StartEtcds(ctx, t.TempDir(), 1, "--password-file", file)
	if err != nil {
		t.Skipf("SKIPPED: no etcd: %v", err)
	}
	t.Cleanup(e.Close)
	named, nameless := "etcd://root@"+e.Addrs()[0], "etcd://"+e.Addrs()[0]
	t.Setenv("DISCO_STORE_PASSWORD", "wrong")
	for _, c := range []struct {
		url, flag string
		status    int
	}{{named, file, 0}, {named, "", 1}, {nameless, "", 1}, {nameless, file, 2}} {
		args := []string{"store", "list", "--store", c.url}
		if c.flag != "" {
			args = append(args, "--store-password-file", c.flag)
		}
		status, stdout, stderr := run("", args...)
		if status != c.status || strings.Contains(stdout+stderr, secret) || (stderr == "") != (status == 0) {
			t.Errorf("%v: %d %q %q, want %d", args, status, stdout, stderr, c.status)
		}
	}
	a := start(t, []string{"DISCO_STORE_PASSWORD=" + secret}, "agent", "--store", named, "--name", "h1", "--slots",
		"1")
	a.expect(t, "h1 is up")
	processes, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		if line, err := os.ReadFile(filepath.Join("/proc", p.Name(), "cmdline")); err == nil &&
			bytes.Contains(line, []byte(secret)) {
			t.Errorf("process %s has the password among its arguments: %q", p.Name(), line)
		}
	}
	if status := a.end(syscall.SIGTERM); status != 0 {
		t.Errorf("status %d", status)
	}
}
