// SPDX-License-Identifier: Apache-2.0

package group

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/app"
	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/internal/forward"
	"github.com/disco-sim/disco/internal/ipctest"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/dial"
	"github.com/disco-sim/disco/metastore/mem"
)

// programVariable makes the test's program the commands' own.
const programVariable = "DISCO_GROUP_PROGRAM"

func TestMain(m *testing.M) {
	ipctest.Child()
	if arguments := os.Getenv(launcherVariable); arguments != "" {
		fmt.Fprintln(os.Stderr, launch(arguments))
		os.Exit(1)
	}
	if os.Getenv(programVariable) != "" {
		armAim()
		armQuiet()
		app.MainWith(Commands(), launchtest.Moving())
	}
	leaktest.MainHalves(m, "^Test[A-O]")
}

// run is a command in this process: its exit status and what it wrote.
func run(stdin string, args ...string) (status int, stdout, stderr string) {
	var out, err bytes.Buffer
	status = app.RunWith(append([]string{"disco-run"}, args...), strings.NewReader(stdin), &out, &err, Commands())
	return status, out.String(), err.String()
}

// stores starts a server of each engine, and gives its URL. Those that can't be had are skipped, saying so.
func stores(t *testing.T, f func(t *testing.T, url string)) {
	start := func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.Background(), 2*time.Minute)
	}
	t.Run("etcd", func(t *testing.T) {
		ctx, cancel := start()
		defer cancel()
		f(t, etcd(ctx, t))
	})
	t.Run("zk", func(t *testing.T) {
		ctx, cancel := start()
		defer cancel()
		e, err := storeserver.StartEnsemble(ctx, t.TempDir(), 1, storeserver.ZKOptions{})
		storeserver.Need(t, err)
		t.Cleanup(e.Close)
		f(t, "zk://"+e.Addrs()[0]+"/chroot")
	})
}

func etcd(ctx context.Context, t *testing.T) (url string) {
	e, err := storeserver.StartEtcds(ctx, t.TempDir(), 1)
	storeserver.Need(t, err)
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
			{"", "get a", 2, "", `no such group: "disco"; the store has none`},
			{"", "put x 1", 0, "", ""},
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
			{strings.Repeat("x", 1_100_000), "put big", 2, "", "found more than 1000000 bytes"},
			{strings.Repeat("x", 999_990), "put big", 2, "", "want at most 999986"},
			{"\xff", "put a", 2, "", "no UTF-8"},
			{"a\x00b", "put nul", 0, "", ""},
			{"", "get nul", 0, "\"a\\u0000b\"\n", ""},
			{"", "put exact 12345678901234567890123.0", 0, "", ""},
			{"", "get exact", 0, "12345678901234567890123.0\n", ""},
			{"", "get exact --json", 0, "{\n  \"key\": \"exact\",\n  \"value\": 12345678901234567890123.0\n}\n", ""},
			{"", "put zookeeper <&>", 0, "", ""},
			{"", "get zookeeper", 0, "\"<&>\"\n", ""},
			{"", "put / 1", 2, "", "the group itself"},
			{"", "rm -r /", 2, "", "the group itself"},
			{"", "queue / --push 1", 2, "", "the group itself"},
			{"", "put .disco 1", 2, "", "the store's own"},
			{"", "rm -r .disco", 2, "", "the store's own"},
			{"", "get .", 2, "", "out of its group"},
			{"", "get a\x00b", 2, "", "U+0000"},
			{"", "get /", 1, "", "`store list /`"},
			{"", "put -x 1", 2, "", "no flag -x"},
			{"", "put -- -x 1", 0, "", ""},
			{"", "get -- -x", 0, "1\n", ""},
			{"", "queue none --pop", 1, "", "no item that is free (waited 0s)"},
			{"", "list none", 1, "", "there is no key"},
			{"", "queue q --pop --wait 10ms", 1, "", "no item that is free (waited 10ms)"},
			{"", "queue q --pop --wait -1s", 2, "", "at least 0s"},
			{"", "queue q --pop --wait soon", 2, "", `--wait: found "soon", want a time such as`},
			{"", "queue q --pop --push 1", 2, "", "give --push VALUE, or --pop"},
			{"", "get a --group a/b", 2, "", "without a slash"},
			{"", "get a --group=", 2, "", "--group"},
			{"", "get " + strings.Repeat("x", 2000), 2, "", "at most 255"},
			{"", "get " + strings.Repeat("x/", 600) + "x", 2, "", "at most 1024"},
		} {
			for _, args := range [][]string{append([]string{"store", "--store", url}, strings.Fields(c.args)...),
				append([]string{"store", strings.SplitN(c.args+" ", " ", 2)[0], "--store", url}, rest(c.args)...)} {
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

// TestLooking: what only looks, or changes what is there, makes no group of a mistyped name, and says which there are.
func TestLooking(t *testing.T) {
	stores(t, func(t *testing.T, url string) {
		withGroup(t, url)
		for range 2 { // after the first time there is still none
			for _, args := range []string{"store get a", "store list", "store tree", "store watch a", "store rm a",
				"store queue q", "store queue q --pop", "cluster", "cluster --watch", "cluster drain h1",
				"cluster resume h1", "cluster dead-letters", "cluster resolve disco://dicso/a/b"} {
				status, stdout, stderr := run("", append(strings.Fields(args), "--group", "dicso", "--store", url)...)
				if status != 2 || stdout != "" || !strings.Contains(stderr,
					`no such group: "dicso"; the store has ["disco"]`) {
					t.Errorf("%s: %d, %q, %q", args, status, stdout, stderr)
				}
			}
		}
		if status, _, stderr := run("", "store", "queue", "q", "--pop", "--wait", "1ms", "--group", "new", "--store",
			url); status != 1 || !strings.Contains(stderr, "no item") {
			t.Errorf("who waits for an item makes the group: %d %s", status, stderr)
		}
	})
}

// withGroup makes the group disco.
func withGroup(t *testing.T, url string) {
	t.Helper()
	if status, _, stderr := run("", "store", "put", "x", "1", "--store", url); status != 0 {
		t.Fatal(stderr)
	}
}

// rest is the arguments behind the first one.
func rest(args string) []string {
	if all := strings.Fields(args); len(all) > 0 {
		return all[1:]
	}
	return nil
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
		{"cluster --store etcd://127.0.0.1:1 --store-timeout 1300ms", 1, " for 1."},
		{"cluster --store zk://127.0.0.1:1 --store-timeout 1300ms", 1, " for 1."},
		{"cluster fill h1 --store etcd://127.0.0.1:1", 2, "drain, resume"},
		{"cluster drain --store etcd://127.0.0.1:1", 2, "the NAME"},
		{"cluster drain a/b --store etcd://127.0.0.1:1", 2, "without a slash"},
		{"cluster resume .. --store etcd://127.0.0.1:1", 2, "out of its group"},
		{"cluster --group .. --store etcd://127.0.0.1:1", 2, "out of its group"},
		{"cluster --group .disco --store etcd://127.0.0.1:1", 2, "is the store's own"},
		{"cluster --store-timeout soon --store etcd://127.0.0.1:1", 2, `found "soon", want a time such as`},
		{"agent --slots x --store etcd://127.0.0.1:1", 2, `found "x", want a whole number`},
		{"agent --address nonsense --store etcd://127.0.0.1:1", 2, "want HOST:PORT"},
		{"store watch a --store etcd://127.0.0.1:1 --store-timeout 300ms", 1, "--store-timeout of 300ms is over"},
		{"cluster drain h1 --json --store etcd://127.0.0.1:1", 2, "for showing"},
		{"cluster drain h1 --watch --store etcd://127.0.0.1:1", 2, "has no meaning for drain"},
		{"cluster resolve --store etcd://127.0.0.1:1", 2, "want a reference"},
		{"cluster resolve disco://disco --store etcd://127.0.0.1:1", 2, "it has 1 parts"},
		{"cluster resolve http://a/b/c --store etcd://127.0.0.1:1", 2, "doesn't begin with disco://"},
		{"cluster resolve disco://disco/a/b?x=1 --store etcd://127.0.0.1:1", 2, "is no rep="},
		{"cluster resolve disco://disco/%zz --store etcd://127.0.0.1:1", 2, "invalid URL escape"},
		{"cluster resolve disco://shop/a/b --store etcd://127.0.0.1:1", 2, "--group names another one"},
		{"cluster dead-letters h1 --store etcd://127.0.0.1:1", 2, "want none"},
		{"agent --slots -1 --store etcd://127.0.0.1:1", 2, "0 to 1024"},
		{"agent --label x --store etcd://127.0.0.1:1", 2, "KEY=VALUE"},
		{"agent --name a/b --store etcd://127.0.0.1:1", 2, "without a slash"},
		{"agent --name --help", 2, "--name has no value"},
		{"agent --name --store etcd://127.0.0.1:1", 2, "--name has no value"},
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

// TestBrokenServer: a server that can't be read is shown with the reason, and nothing that was never written.
func TestBrokenServer(t *testing.T) {
	stores(t, func(t *testing.T, url string) {
		if status, _, stderr := run("", "store", "put", "cluster/servers/x/y", "1", "--store", url); status != 0 {
			t.Fatal(stderr)
		}
		status, stdout, stderr := run("", "cluster", "--store", url)
		want := "x       BROKEN  -           0  key \"cluster/servers/x\": holds no value; there is no cluster/info/x\n"
		if status != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%d %q %q", status, stdout, stderr)
		}
	})
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
	for end := time.Now().Add(2 * time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited 2 minutes until %s", what)
		}
	}
}

// TestAgent: a machine joins, shows itself, is drained, and leaves: in order, when its process is killed, and when
// its supervisor is. The session is long enough that its end can't be what removes the keys.
func TestAgent(t *testing.T) {
	stores(t, func(t *testing.T, url string) {
		withGroup(t, url)
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
		absent := []string{"--store", strings.SplitN(url, "/", 2)[0] + "//127.0.0.1:1", "--store-timeout", "1300ms"}
		if status, _, stderr := runAgentTwice(t, absent); status != 1 || !strings.Contains(stderr, " for 1.") {
			t.Errorf("an agent without a store: %d %s", status, stderr)
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

// expect reads lines until one contains a text, and returns them.
func (s *started) expect(t *testing.T, text string) []string {
	t.Helper()
	return s.expectAny(t, text)
}

// expectAny reads lines until one contains one of these texts, and returns them.
func (s *started) expectAny(t *testing.T, texts ...string) (seen []string) {
	t.Helper()
	for s.lines.Scan() {
		seen = append(seen, s.lines.Text())
		if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(s.lines.Text(), text) }) {
			return seen
		}
	}
	t.Fatalf("no line with one of %q in %q", texts, seen)
	return nil
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

// through is a store's URL by a proxy that can be cut off.
func through(t *testing.T, url string) (*forward.Forwarder, string) {
	t.Helper()
	engine, rest, _ := strings.Cut(url, "://")
	host, chroot, _ := strings.Cut(rest, "/")
	proxy, err := forward.New("", host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return proxy, engine + "://" + proxy.Addr() + "/" + chroot
}

// TestHowAnAgentEnds: an agent says that it has left the group only if it was still in it.
func TestHowAnAgentEnds(t *testing.T) {
	stores(t, func(t *testing.T, url string) {
		proxy, url := through(t, url)
		args := []string{"agent", "--store", url, "--name", "h1", "--slots", "1", "--session", "1s",
			"--store-timeout", "5s"}
		a := start(t, nil, args...)
		a.expect(t, "h1 is up")
		_ = a.Process.Signal(syscall.SIGTERM)
		a.expect(t, "h1 has left")
		_ = a.Wait()
		a = start(t, nil, args...)
		a.expect(t, "h1 is up")
		proxy.Isolate()
		a.expect(t, "has lost its session")
		proxy.Heal()
		a.expect(t, "h1 is registered again, after")
		proxy.Isolate()
		a.expect(t, "has lost its session")
		_ = a.Process.Signal(syscall.SIGTERM)
		a.expect(t, "h1 has ended without a session")
		_ = a.Wait()
	})
}

// TestWatch: watches show what is there and what comes, until a signal, whose status they end with.
func TestWatch(t *testing.T) {
	stores(t, func(t *testing.T, url string) {
		withGroup(t, url)
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

// TestUnread: what follows the store ends when nobody reads its output any more, although nothing changes, as a
// program does that SIGPIPE ends.
func TestUnread(t *testing.T) {
	url := etcd(t.Context(), t)
	withGroup(t, url)
	var all sync.WaitGroup
	defer all.Wait()
	for _, args := range []string{"store watch a", "cluster --watch"} {
		cmd := exec.Command("/proc/self/exe", append(strings.Fields(args), "--store", url)...)
		cmd.Env = append(os.Environ(), programVariable+"=1")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Errorf("%s: %v", args, err)
			}
			_ = out.Close()
			late := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
			defer late.Stop()
			_ = cmd.Wait()
			if status := cmd.ProcessState.ExitCode(); status != app.ExitPipe || stderr.Len() > 0 {
				t.Errorf("%s: %v %s, want status %d and no word", args, cmd.ProcessState, &stderr, app.ExitPipe)
			}
		})
	}
}

// TestInterrupted: a signal ends a command that waits, for its input too, with the signal's status.
func TestInterrupted(t *testing.T) {
	url := etcd(t.Context(), t)
	withGroup(t, url)
	for _, args := range []string{"store put a", "store queue q --pop --wait 1h", "store watch a", "cluster --watch"} {
		cmd := exec.Command("/proc/self/exe", append(strings.Fields(args), "--store", url)...)
		cmd.Env = append(os.Environ(), programVariable+"=1")
		in, err := cmd.StdinPipe() // stays open
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { defer close(done); _ = cmd.Wait() }()
		time.Sleep(300 * time.Millisecond)
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			t.Errorf("%s: didn't end", args)
			<-done
		}
		state, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if status := cmd.ProcessState.ExitCode(); status != 143 && state.Signal() != syscall.SIGTERM {
			t.Errorf("%s: %v, want it ended by SIGTERM", args, cmd.ProcessState)
		}
		_ = in.Close()
	}
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
	storeserver.Need(t, err)
	t.Cleanup(e.Close)
	named, nameless := "etcd://root@"+e.Addrs()[0], "etcd://"+e.Addrs()[0]
	t.Setenv("DISCO_STORE_PASSWORD", "wrong")
	for _, c := range []struct {
		url, flag string
		status    int
	}{{named, file, 0}, {named, "", 1}, {nameless, "", 1}, {nameless, file, 2}} {
		args := []string{"store", "put", "x", "1", "--store", c.url}
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

// TestOutage: a command that follows the store says that it is out of reach, for how long, and when it is back, and
// goes on. With --json each picture is one line.
func TestOutage(t *testing.T) {
	stores(t, func(t *testing.T, url string) {
		withGroup(t, url)
		proxy, cut := through(t, url)
		shown := start(t, nil, "cluster", "--watch", "--json", "--store", cut)
		value := start(t, nil, "store", "watch", "a", "--store", cut, "--store-timeout", "2s")
		shown.expect(t, `{"members":[],"servers":[],"drained":[]}`)
		value.expect(t, "a isn't there")
		proxy.Isolate()
		shown.expect(t, "has been out of reach for 3") // not only after --store-timeout
		value.expect(t, "has been out of reach for 2")
		if status, _, stderr := run("", "store", "put", "a", "1", "--store", url); status != 0 {
			t.Error(stderr)
		}
		if status, _, stderr := run("", "cluster", "drain", "h1", "--store", url); status != 0 {
			t.Error(stderr)
		}
		proxy.Heal()
		seen := append(shown.expect(t, "is back, after "), shown.expect(t, `"drained":["h1"]`)...)
		for _, line := range seen {
			if strings.HasPrefix(line, "{") && !json.Valid([]byte(line)) {
				t.Errorf("no object in one line: %q", line)
			}
		}
		if !slices.Contains(value.expect(t, "is back, after "), "a = 1") {
			value.expect(t, "a = 1")
		}
		for _, s := range []*started{shown, value} {
			if status := s.end(syscall.SIGINT); status != 130 {
				t.Errorf("status %d after SIGINT", status)
			}
		}
	})
}

// TestLeadingSlash: a key is shown in one form, however it was written.
func TestLeadingSlash(t *testing.T) {
	url := etcd(t.Context(), t)
	withGroup(t, url)
	for args, want := range map[string]string{"get /x --json": `"key":"x"`, "tree /x": "x = 1\n"} {
		all := append(append([]string{"store"}, strings.Fields(args)...), "--store", url)
		status, out, errs := run("", all...)
		if status != 0 || !strings.Contains(strings.ReplaceAll(out, ": ", ":"), want) {
			t.Errorf("%s: status %d, %q, %q, want %q", args, status, out, errs, want)
		}
	}
	w := start(t, nil, "store", "watch", "/x", "--store", url)
	if seen := w.expect(t, " = 1"); seen[0] != "x = 1" {
		t.Errorf("found %q", seen)
	}
	w.end(syscall.SIGINT)
}

// TestAgentOfAnotherStore: an agent whose store has lost its data ends, and says why.
func TestAgentOfAnotherStore(t *testing.T) {
	e, err := storeserver.StartEtcds(t.Context(), t.TempDir(), 1)
	storeserver.Need(t, err)
	t.Cleanup(e.Close)
	a := start(t, nil, "agent", "--name", "h1", "--slots", "1", "--store", "etcd://"+e.Addrs()[0])
	a.expect(t, "h1 is up")
	e.Servers[0].Kill()
	if err := errors.Join(e.Servers[0].Wipe(), e.Servers[0].Start(), e.Servers[0].Ready(t.Context())); err != nil {
		t.Fatal(err)
	}
	a.expect(t, "h1 has ended: this is another store than before")
	if _ = a.Wait(); a.ProcessState.ExitCode() != 1 {
		t.Errorf("status %d, want 1", a.ProcessState.ExitCode())
	}
}

// slow is an engine that takes its time.
type slow struct{ metastore.Backend }

func (b slow) Children(ctx context.Context, path string) ([]string, error) {
	time.Sleep(200 * time.Millisecond)
	return b.Backend.Children(ctx, path)
}

// TestPopOfASlowStore: that a store takes its time doesn't make its queue empty.
func TestPopOfASlowStore(t *testing.T) {
	pops := storeCommand()
	pops.Run = func(c *app.Call) error {
		ctx := context.Background()
		s, err := metastore.New(ctx, slow{mem.NewServer(time.Minute).NewClient()}, metastore.Options{})
		if err != nil {
			return err
		}
		defer s.Close()
		if _, err := s.Enqueue(ctx, "q", "found"); err != nil {
			return err
		}
		q, err := s.Queue("q")
		if err != nil {
			return err
		}
		return pop(ctx, c, q, 0)
	}
	var out, errs bytes.Buffer
	status := app.RunWith([]string{"disco-run", "store"}, strings.NewReader(""), &out, &errs, []app.Command{pops})
	if status != 0 || out.String() != "\"found\"\n" {
		t.Errorf("%d %q %q", status, &out, &errs)
	}
}

// TestPutCreate: put --create leaves a value that is there as it is, also one that can't be read.
func TestPutCreate(t *testing.T) {
	ctx := context.Background()
	backend := mem.NewServer(time.Minute).NewClient()
	s, err := metastore.New(ctx, backend, metastore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for key, raw := range map[string]string{"/there": `j"old"`, "/odd": "j{", "/directory/below": "j1"} {
		if err := backend.Commit(ctx, nil, []metastore.Op{{Path: key, Do: metastore.Create,
			Value: []byte(raw)}}); err != nil {
			t.Fatal(err)
		}
	}
	puts := storeCommand()
	puts.Run = func(c *app.Call) error { return put(ctx, c, s, c.Args().Slice()) }
	for key, want := range map[string]int{"there": 1, "odd": 1, "directory": 0, "new": 0} {
		var out, errs bytes.Buffer
		status := app.RunWith([]string{"disco-run", "store", "--create", key, "2"}, strings.NewReader(""), &out, &errs,
			[]app.Command{puts})
		v, err := s.Get(ctx, key)
		if status != want || err != nil || (string(v.Bytes()) == "2") != (want == 0) ||
			strings.Contains(errs.String(), "has a value already") != (want == 1) {
			t.Errorf("%s: status %d, %q, now %q, %v", key, status, &errs, v.Bytes(), err)
		}
	}
}

// host is a runner that hosts one node, and looks for another one that is nowhere.
type host struct {
	*cluster.Reporter
	view *cluster.View
}

func (h host) Initialize(_ context.Context, a cluster.Assignment) ([]string, error) {
	r := cluster.NewResolver[int](h.view, "disco", "h1-0", nil)
	h.Resolves(r)
	for range 3 {
		if _, err := r.Resolve(cluster.Ref{Cluster: "disco", Node: "lost", Simproc: "till"}); err == nil {
			return nil, errors.New("a node that is nowhere was found")
		}
	}
	return []string{"shop/1"}, nil
}
func (host) Activate(context.Context) error  { return nil }
func (host) Pause(context.Context) error     { return nil }
func (host) Terminate(context.Context) error { return nil }

// TestReferences: people find out which server hosts what a reference names, and which references servers couldn't
// resolve.
func TestReferences(t *testing.T) {
	stores(t, func(t *testing.T, url string) {
		withGroup(t, url)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if status, stdout, _ := run("", "cluster", "dead-letters", "--store", url); status != 0 ||
			!strings.Contains(stdout, "no dead letters") {
			t.Errorf("%d %q", status, stdout)
		}
		s, err := dial.Open(ctx, dial.Options{URL: url, Store: metastore.Options{Group: "disco", Base: cluster.Base()}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		v, err := cluster.Open(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		m, err := cluster.Join(ctx, s, cluster.Options{Name: "h1", Version: "v1", Slots: 1, Address: "h1:4711",
			Runner: func(_ int, r *cluster.Reporter) cluster.Runner { return host{r, v} }})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = m.Leave(ctx) }()
		a := &cluster.Assignment{Experiment: "e", Replication: "7", Partition: 2}
		await(t, "h1 is seen", func() bool { _, ok := v.Server("h1-0"); return ok })
		for _, state := range []cluster.State{cluster.Reserved, cluster.Ready} {
			if ack, err := v.Ask(ctx, "h1-0", state, a, "test"); err != nil || ack.Phase != cluster.Applied {
				t.Fatalf("%v: %+v, %v", state, ack, err)
			}
		}
		status, stdout, stderr := run("", "cluster", "resolve", "disco://disco/shop%2F1/till", "--store", url, "--json")
		var found resolved
		if err := json.Unmarshal([]byte(stdout), &found); err != nil || status != 0 || found.Server != "h1-0" ||
			found.Replication != "7" || found.Partition != 2 || found.Address != "h1:4711" || found.Member != "h1" ||
			found.State != cluster.Ready {
			t.Errorf("%d %q %q: %+v, %v", status, stdout, stderr, found, err)
		}
		status, stdout, stderr = run("", "cluster", "resolve", "disco://disco/shop%2F1?rep=7", "--store", url)
		if status != 0 || !strings.Contains(stdout, "h1-0    READY  e/7/2") {
			t.Errorf("%d %q %q", status, stdout, stderr)
		}
		status, stdout, stderr = run("", "cluster", "resolve", "disco://disco/shop%2F1?rep=8", "--store", url)
		if status != 1 || !strings.Contains(stderr, "no server hosts") || stdout != "" {
			t.Errorf("%d %q %q", status, stdout, stderr)
		}
		await(t, "its dead letters are seen", func() bool {
			status, stdout, stderr = run("", "cluster", "dead-letters", "--store", url)
			return status != 0 || strings.Contains(stdout, "h1-0: 3; the last 1 references:\n  3 times  "+
				"disco://disco/lost/till  no server hosts the node \"lost\"\n")
		})
		status, stdout, stderr = run("", "cluster", "dead-letters", "--json", "--store", url)
		var letters []lettersOf
		if err := json.Unmarshal([]byte(stdout), &letters); err != nil || status != 0 || len(letters) != 1 ||
			letters[0].Server != "h1-0" || letters[0].Times != 3 || len(letters[0].Last) != 1 {
			t.Errorf("%d %q %q: %v", status, stdout, stderr, err)
		}
	})
}
