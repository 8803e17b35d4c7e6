// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/etcd"
	"github.com/disco-sim/disco/metastore/zk"
)

const (
	// partedEnv is set in the process of TestPartedNetwork that has a network of its own.
	partedEnv = "DISCO_TEST_PARTED"
	// partyEnv has, for a process of TestMain that is a member on a host: engine, addresses, folder of certificates,
	// group and name.
	partyEnv = "DISCO_TEST_PARTY"
)

// partyTTL is long enough for another leader of the servers to be elected when the former one is cut off.
var partyTTL = map[string]time.Duration{"etcd": 8 * time.Second, "zk": 12 * time.Second}

// entry is what a leader writes, each into a key of its own, whose creation shows the order of all.
type entry struct {
	Member string
	Token  uint64
}

// dialParty makes a client of several servers.
func dialParty(engine, addrs, certificates string) (metastore.Backend, error) {
	servers := strings.Split(addrs, ",")
	if engine == "zk" {
		return zk.New(zk.Options{Servers: servers, TTL: partyTTL[engine]})
	}
	config, err := storeserver.CertificatesIn(certificates).Client()
	if err != nil {
		return nil, err
	}
	return etcd.New(context.Background(), etcd.Options{Endpoints: servers, TLS: config, TTL: partyTTL[engine]})
}

// beParty is a member, which leads when it can, and writes as the leader again and again. It prints what it reports,
// what its worker is asked, and what becomes of its leadership, until its input ends.
func beParty(args []string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	backend, err := dialParty(args[0], args[1], args[2])
	if err != nil {
		return err
	}
	report := func(err error) { fmt.Println("report:", err) }
	store, err := metastore.New(ctx, backend, metastore.Options{Group: args[3], Base: Base(), Report: report})
	if err != nil {
		return err
	}
	m, err := Join(ctx, store, Options{Name: args[4], Version: "v1", Slots: 1, Report: report,
		Runner: func(_ int, r *Reporter) Runner { return &loud{worker{Reporter: r}} }})
	if err != nil {
		return err
	}
	fmt.Println("joined")
	var leading sync.WaitGroup
	leading.Go(func() {
		for ctx.Err() == nil {
			if lead, err := m.Lead(ctx); err == nil {
				writeAsLeader(ctx, store, lead, args[4])
			}
		}
	})
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	leading.Wait()
	leaving, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	return errors.Join(m.Leave(leaving), store.Close())
}

// loud is a worker that prints what it is asked.
type loud struct{ worker }

func (l *loud) Terminate(ctx context.Context) error {
	fmt.Println("did terminate")
	return l.worker.Terminate(ctx)
}

// writeAsLeader writes until the leadership is lost.
func writeAsLeader(ctx context.Context, store *metastore.Store, lead *metastore.Lead, name string) {
	fmt.Println("leads", lead.Token())
	defer fmt.Println("led", lead.Token())
	value, err := store.Encode(entry{name, lead.Token()})
	for err == nil && ctx.Err() == nil {
		short, cancel := context.WithTimeout(ctx, time.Second)
		err = store.Commit(short, []metastore.Cond{lead.Guard()}, []metastore.Op{{Path: "log/" + rand.Text(),
			Do: metastore.Create, Value: value}})
		cancel()
		if errors.Is(err, metastore.ErrUnavailable) || errors.Is(err, metastore.ErrUnknown) {
			fmt.Println("unavailable:", err)
			err = nil // it goes on trying, lost or not: the guard is what keeps it from writing
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// party is such a process.
type party struct {
	*exec.Cmd
	name  string
	stdin io.Closer
	ended chan struct{}

	mu    sync.Mutex
	lines []string
	times []time.Time
}

// said tells when a line with all these texts was printed, behind the first lines.
func (p *party) said(from int, texts ...string) (when time.Time, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, line := range p.lines {
		lacks := func(text string) bool { return !strings.Contains(line, text) }
		if i >= from && !slices.ContainsFunc(texts, lacks) {
			return p.times[i], true
		}
	}
	return when, false
}

// count is how many lines were printed.
func (p *party) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.lines)
}

// network is a group on four hosts, the first three of which have a server each; the test is on the side of the first.
type network struct {
	*fixture
	hosts   *storeserver.Hosts
	engine  string
	addrs   string
	dir     string
	parties []*party
}

// TestPartedNetwork parts a network of four hosts with three servers: members on the smaller side are told that
// the store is out of reach, and run on; nobody is taken for dead before its session's end, and no two leaders write.
func TestPartedNetwork(t *testing.T) {
	t.Parallel()
	if engine := os.Getenv(partedEnv); engine != "" {
		partedNetwork(t, engine)
		return
	}
	if _, err := storeserver.ServerProgram(); err != nil && !errors.Is(err, storeserver.ErrAbsent) {
		t.Fatal(err) // in the other network nothing can be downloaded
	}
	for _, engine := range []string{"etcd", "zk"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestPartedNetwork$", "-test.v", "-test.timeout=5m",
				fmt.Sprint("-test.short=", testing.Short()))
			cmd.Env = append(os.Environ(), partedEnv+"="+engine)
			storeserver.Need(t, storeserver.OwnNetwork(cmd))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if strings.Contains(string(out), "--- SKIP") {
				t.Skipf("%s", out)
			}
			if testing.Verbose() {
				t.Logf("%s", out)
			}
		})
	}
}

// partedNetwork is the test, in a network of its own.
func partedNetwork(t *testing.T, engine string) {
	n := newNetwork(t, engine)
	// h4 leads and is on the smaller side with the third server: two members here, two there, and the store decides.
	n.part([]int{0, 0, 1, 1}, []string{"h3", "h4"})
	if testing.Short() || engine == "zk" { // whose elections take longer than its sessions, if one follows another
		return
	}
	n.part([]int{0, 1, 2, 3}, []string{"h1", "h2", "h3", "h4"}) // nobody has a majority
}

func newNetwork(t *testing.T, engine string) *network {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	t.Cleanup(cancel)
	hosts, err := storeserver.NewHosts(4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hosts.Close)
	n := &network{hosts: hosts, engine: engine, dir: t.TempDir(), fixture: &fixture{T: t, ctx: ctx, group: "test"}}
	if engine == "etcd" {
		var z *storeserver.Etcds
		if z, err = hosts.StartEtcds(ctx, n.dir, 3); err == nil {
			t.Cleanup(z.Close)
			n.addrs = strings.Join(z.Addrs(), ",")
		}
	} else {
		var z *storeserver.Ensemble
		if z, err = storeserver.StartEnsemble(ctx, n.dir, 3, storeserver.ZKOptions{On: hosts}); err == nil {
			t.Cleanup(z.Close)
			n.addrs = z.Servers[0].Addr() + "," + z.Servers[1].Addr() + "," + z.Servers[2].Addr()
		}
	}
	storeserver.Need(t, err)
	backend, err := dialParty(engine, n.addrs, n.dir)
	if err == nil {
		n.store, err = metastore.New(ctx, backend, metastore.Options{Group: n.group, Base: append(Base(), "log"),
			Report: func(err error) { t.Logf("store: %v", err) }})
	}
	if err == nil {
		t.Cleanup(func() { _ = n.store.Close() })
		n.view, err = Open(ctx, n.store)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.view.Close)
	for host := range 4 {
		n.start(3 - host) // h4 leads
	}
	return n
}

// start starts a member on a host.
func (n *network) start(host int) {
	n.Helper()
	p := &party{name: "h" + strconv.Itoa(host+1), ended: make(chan struct{})}
	args := append(n.hosts.Enter(host), os.Args[0])
	p.Cmd = exec.Command(args[0], args[1:]...)
	p.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s %s %s", partyEnv, n.engine, n.addrs, n.dir, n.group, p.name))
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.Stderr = os.Stderr
	out, err := p.StdoutPipe()
	if err == nil {
		p.stdin, err = p.StdinPipe()
	}
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		n.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.mu.Lock()
			p.lines, p.times = append(p.lines, s.Text()), append(p.times, time.Now())
			p.mu.Unlock()
		}
	}()
	n.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.ended
		_ = p.Wait()
		if n.Failed() {
			n.Logf("%s:\n%s", p.name, strings.Join(p.lines, "\n"))
		}
	})
	n.parties = append(n.parties, p)
	slices.SortFunc(n.parties, func(a, b *party) int { return strings.Compare(a.name, b.name) })
	n.wait(p.name+" has joined", func() bool { _, ok := p.said(0, "joined"); return ok })
	n.await(p.name+" is up", func() bool {
		s, ok := n.view.Server(p.name + "-0")
		return ok && s.State == Available && n.incarnation(p.name) == s.Incarnation
	})
	n.activate(p.name+"-0", &Assignment{"e", p.name, 0})
}

// wait waits for what a view can't see.
func (n *network) wait(what string, done func() bool) {
	n.Helper()
	began := time.Now()
	for ; !done(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 40*time.Second {
			n.Fatalf("waiting until %s", what)
		}
	}
	n.Logf("%s after %v", what, time.Since(began).Round(time.Millisecond))
}

// part parts the network until all who lose their sessions know it, heals it, and checks what became of everybody.
func (n *network) part(switches []int, cut []string) {
	n.Helper()
	before, from := map[string]string{}, map[string]int{}
	for _, p := range n.parties {
		before[p.name], from[p.name] = n.incarnation(p.name), p.count()
	}
	events := n.view.Subscribe()
	defer events.Close()
	for range n.view.Members() { // it begins with joined and up of each
		for range 2 {
			if _, err := events.Next(n.ctx); err != nil {
				n.Fatal(err)
			}
		}
	}
	if err := n.hosts.Split(switches...); err != nil {
		n.Fatal(err)
	}
	lost := map[string]time.Time{}
	for _, name := range cut {
		p := n.parties[slices.IndexFunc(n.parties, func(p *party) bool { return p.name == name })]
		n.wait(name+" has lost its session", func() bool {
			when, ok := p.said(from[name], "has lost its session")
			lost[name] = when
			return ok
		})
	}
	if len(cut) < len(n.parties) {
		n.deaths(events, lost)
		n.wait("one who isn't cut off leads", func() bool {
			r, ok, err := n.view.Leader(n.ctx)
			return err == nil && ok && !slices.Contains(cut, r.Member)
		})
	}
	n.wait("those that are cut off report that the store can't be reached", func() bool {
		for _, p := range n.parties {
			_, told := p.said(from[p.name], "has had no session for", metastore.ErrUnavailable.Error())
			if slices.Contains(cut, p.name) && !told {
				return false
			}
		}
		return true
	})
	if err := n.hosts.Split(); err != nil {
		n.Fatal(err)
	}
	n.healed(cut, before, from)
}

// deaths checks that exactly those that are cut off are taken for dead, and none before it knows so itself.
func (n *network) deaths(events *Subscription, lost map[string]time.Time) {
	n.Helper()
	for dead := map[string]bool{}; len(dead) < len(lost); {
		ctx, cancel := context.WithTimeout(n.ctx, 40*time.Second)
		e, err := events.Next(ctx)
		cancel()
		if err != nil {
			n.Fatalf("dead are %v, of %v: %v", dead, lost, err)
		}
		when, cut := lost[e.Member.Name]
		switch {
		case e.Kind != MemberDown || !cut:
			n.Errorf("while the network is parted: %+v", e)
		case time.Now().Before(when):
			n.Errorf("%s was taken for dead %v before it knew so", e.Member.Name, time.Until(when))
		}
		dead[e.Member.Name] = true
		n.Logf("%s is dead", e.Member.Name)
	}
}

// healed checks that all come back as they were: those that were cut off in another life, the others in the same.
func (n *network) healed(cut []string, before map[string]string, from map[string]int) {
	n.Helper()
	n.wait("all are back", func() bool {
		for _, p := range n.parties {
			s, _ := n.view.Server(p.name + "-0")
			now := n.incarnation(p.name)
			if now == "none" || s.Incarnation != now || s.State != Active ||
				slices.Contains(cut, p.name) == (now == before[p.name]) {
				return false
			}
		}
		return true
	})
	n.wait("somebody leads", func() bool { _, ok, err := n.view.Leader(n.ctx); return ok && err == nil })
	n.equalsStore()
	for _, p := range n.parties {
		if _, ok := p.said(from[p.name], "terminate"); ok {
			n.Errorf("%s gave its partition up", p.name)
		}
	}
	n.oneAfterTheOther()
}

// oneAfterTheOther checks that no leader has written after its successor.
func (n *network) oneAfterTheOther() {
	n.Helper()
	names, err := n.store.Members(n.ctx, "log")
	if err != nil {
		n.Fatal(err)
	}
	type line struct {
		entry
		at uint64
	}
	var lines []line
	for _, name := range names {
		v, err := n.store.Get(n.ctx, "log/"+name)
		l := line{at: v.Version.Created}
		if err = errors.Join(err, v.Decode(&l.entry)); err != nil {
			n.Fatal(err)
		}
		lines = append(lines, l)
	}
	slices.SortFunc(lines, func(a, b line) int { return int(int64(a.at) - int64(b.at)) })
	for i := range lines {
		if i > 0 && lines[i].Token < lines[i-1].Token {
			n.Errorf("%+v has written after %+v", lines[i], lines[i-1])
		}
	}
	n.Logf("%d entries, the last by %+v", len(lines), lines[len(lines)-1].entry)
}
