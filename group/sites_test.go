// SPDX-License-Identifier: Apache-2.0

package group

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/fleet"
	"github.com/disco-sim/disco/internal/certs"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/storeserver"
	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/dial"
)

var (
	sitesFor  = flag.Duration("sites-for", 0, "for how long TestSites cuts and kills at random, with 3 sites; 0: not")
	sitesSeed = flag.Uint64("sites-seed", 1, "what TestSites cuts and kills then")
)

// sitesEnv says which part of TestSites a process makes, in a network of its own.
const sitesEnv = "DISCO_TEST_SITES"

// TestSites has sites in network namespaces, each with a store and two agents, and a door in another one, between which
// cables are cut, while doors and stores are killed. Each part is in a process with a network of its own.
func TestSites(t *testing.T) {
	parts := map[string]func(w *world){"two": twoSites, "three": threeSites, "wiped": wipedSite,
		"random": randomSites}
	if name := os.Getenv(sitesEnv); name != "" {
		parts[name](newWorld(t, map[string]int{"two": 2, "three": 3, "wiped": 2, "random": 3}[name]))
		return
	}
	if _, err := storeserver.ServerProgram(); err != nil && !errors.Is(err, storeserver.ErrAbsent) {
		t.Fatal(err) // in the other network nothing can be downloaded
	}
	for _, name := range []string{"two", "three", "wiped", "random"} {
		if name == "random" && *sitesFor == 0 || name != "two" && testing.Short() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait most of their time
			cmd := exec.Command(selfProgram(t), "-test.run=^TestSites$", "-test.v", "-sites-for="+sitesFor.String(),
				fmt.Sprint("-sites-seed=", *sitesSeed), fmt.Sprint("-test.timeout=", *sitesFor+15*time.Minute))
			cmd.Env = append(os.Environ(), sitesEnv+"="+name)
			storeserver.Need(t, storeserver.OwnNetwork(cmd))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if strings.Contains(string(out), "--- SKIP") {
				t.Skipf("%s", out)
			}
			t.Logf("%s", out)
		})
	}
}

// world is a home, sites, and a door, each on a host of its own; people are on the switch between them.
type world struct {
	*testing.T
	ctx       context.Context
	hosts     *storeserver.Hosts
	dir, file string // of the sites
	certs     *storeserver.Certificates
	home      *siteAt
	sites     []*siteAt
	door      *exec.Cmd
	doorHost  int
	doorAt    string
	local     map[string]string // results of runs on this machine, by scenario and seed
}

// siteAt is a host with a store, and agents that use it.
type siteAt struct {
	*byHand
	w      *world
	name   string
	host   int
	server *storeserver.Etcd
	agents []*siteAgent
}

// siteAgent is an agent of a site.
type siteAgent struct {
	name, work string
	cmd        *exec.Cmd
	said       [2]*bytes.Buffer
	ended      chan struct{}
}

// scenarioText is what is simulated: a piece takes a second or two.
var scenarioText = launchtest.Scenario(6, 40, "{node: 2, at: 1, how: slow}")

func newWorld(t *testing.T, sites int) *world {
	ctx, cancel := context.WithTimeout(context.Background(), *sitesFor+3*time.Minute)
	t.Cleanup(cancel)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	w := &world{T: t, ctx: ctx, dir: t.TempDir(), doorHost: sites + 1, local: map[string]string{}}
	w.file = filepath.Join(w.dir, "sites.yml")
	w.must(os.WriteFile(filepath.Join(w.dir, "tiny.yml"), []byte(scenarioText), 0o600))
	var err error
	w.hosts, err = storeserver.NewHosts(sites + 2)
	w.must(err)
	t.Cleanup(w.hosts.Close)
	var addrs []net.IP
	for i := range sites + 1 {
		addrs = append(addrs, w.hosts.Addr(i))
	}
	w.certs, err = storeserver.NewCertificates(w.dir, addrs...)
	w.must(err)
	w.doorAt = w.hosts.Addr(w.doorHost).String() + ":7443"
	authority := filepath.Join(w.dir, "authority")
	w.must(certs.Init(authority, certs.Period(2)))
	for name, addr := range map[string]string{"door": w.hosts.Addr(w.doorHost).String(), "me": storeserver.SwitchAddr} {
		w.must(certs.Issue(authority, filepath.Join(w.dir, name), []string{addr}, certs.Period(2)))
	}
	entry := fmt.Sprintf("group: %%s, store-ca: %q, store-cert: %q, store-key: %q}\n", w.certs.CA, w.certs.Cert,
		w.certs.Key)
	text := fmt.Sprintf("home: {store: %q, "+entry+"sites:\n", "etcd://"+w.hosts.Addr(sites).String()+":2379", "door")
	for i := range sites {
		s := w.site(i, string(rune('a'+i)), "disco")
		w.sites = append(w.sites, s)
		for n := range 2 {
			s.agents = append(s.agents, &siteAgent{name: fmt.Sprint(s.name, n+1),
				work: filepath.Join(w.dir, "work", fmt.Sprint(s.name, n+1))})
		}
		text += fmt.Sprintf("  - {name: %s, store: %q, "+entry, s.name, s.url, "disco")
	}
	w.home = w.site(sites, "home", "door")
	w.must(os.WriteFile(w.file, []byte(text), 0o600))
	for _, s := range w.sites {
		for _, a := range s.agents {
			s.start(a)
		}
	}
	w.startDoor()
	for _, s := range w.sites {
		w.must(s.view.Await(ctx, func() bool {
			ready := 0
			for _, sv := range s.view.Servers() {
				if sv.State == cluster.Available {
					ready++
				}
			}
			return ready == len(s.agents)
		}))
	}
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// site starts a store on a host, and opens it as the test.
func (w *world) site(host int, name, group string) *siteAt {
	w.Helper()
	s := &siteAt{w: w, name: name, host: host, byHand: &byHand{T: w.T, ctx: w.ctx,
		url: "etcd://" + w.hosts.Addr(host).String() + ":2379"}}
	var err error
	s.server, err = w.hosts.NewEtcd(host, filepath.Join(w.dir, "store", name), w.certs)
	storeserver.Need(w.T, err)
	w.Cleanup(func() { s.server.Kill() })
	w.must(s.server.Start())
	w.must(s.server.Ready(w.ctx))
	s.open(group)
	return s
}

// open opens the site's group.
func (s *siteAt) open(group string) {
	s.Helper()
	var err error
	s.store, err = dial.Open(s.ctx, dial.Options{URL: s.url, CA: s.w.certs.CA, Cert: s.w.certs.Cert, Key: s.w.certs.Key,
		Store: metastore.Options{Group: group, Base: append(cluster.Base(), fleet.Base()...)}})
	s.must(err)
	store := s.store
	s.Cleanup(func() { _ = store.Close() }) // the server may be gone
	s.client, err = fleet.New(s.ctx, s.store, fleet.Options{By: "test"})
	s.must(err)
	s.view, err = cluster.Open(s.ctx, s.store)
	s.must(err)
	s.Cleanup(s.view.Close)
}

// on is a command of this program on a host, with the flags for a store.
func (w *world) on(host int, args ...string) (cmd *exec.Cmd, said [2]*bytes.Buffer) {
	all := append(append(w.hosts.Enter(host), selfProgram(w.T)), args...)
	cmd = exec.Command(all[0], all[1:]...)
	cmd.Env = append(os.Environ(), programVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	said = [2]*bytes.Buffer{{}, {}}
	cmd.Stdout, cmd.Stderr = said[0], said[1]
	return cmd, said
}

// start starts an agent; the test ends it.
func (s *siteAt) start(a *siteAgent) {
	s.Helper()
	c := s.w.certs
	a.cmd, a.said = s.w.on(s.host, "agent", "--store", s.url, "--store-ca", c.CA, "--store-cert", c.Cert, "--store-key",
		c.Key, "--name", a.name, "--slots", "1", "--executor", "local", "--work", a.work, "--program",
		selfProgram(s.T), "--grace", "3s", "--store-timeout", "60s")
	s.must(a.cmd.Start())
	cmd, ended := a.cmd, make(chan struct{})
	a.ended = ended
	go func() {
		_ = cmd.Wait() // how it ended is in its output
		close(ended)
	}()
	s.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-ended:
		case <-time.After(30 * time.Second): // its store may be gone for good
			_ = cmd.Process.Kill()
			<-ended
		}
		if s.Failed() {
			s.Logf("%s: %s%s", a.name, a.said[0], a.said[1])
		}
	})
}

// again starts those agents that have ended, since their store was another one.
func (s *siteAt) again() {
	for _, a := range s.agents {
		select {
		case <-a.ended:
			s.Logf("%s is started again; it said: %s%s", a.name, a.said[0], a.said[1])
			s.start(a)
		default:
		}
	}
}

// startDoor starts the door, and waits until it answers.
func (w *world) startDoor() {
	w.Helper()
	cmd, said := w.on(w.doorHost, "door", "--sites", w.file, "--listen", w.doorAt, "--door-tls",
		filepath.Join(w.dir, "door"), "--away", "10s")
	w.must(cmd.Start())
	w.door = cmd
	w.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be dead
		_ = cmd.Wait()
		if w.Failed() {
			w.Logf("the door: %s%s", said[0], said[1])
		}
	})
	w.succeeds("list", "--store-timeout", "60s")
}

// killDoor kills it.
func (w *world) killDoor() {
	_ = w.door.Process.Kill() // it may have ended
	_ = w.door.Wait()
}

// asks runs a command that asks the door, as people do.
func (w *world) asks(args ...string) ran {
	w.Helper()
	return runs(w.T, append(args, "--door", w.doorAt, "--door-tls", filepath.Join(w.dir, "me"))...)
}

// succeeds is asks for what must go well.
func (w *world) succeeds(args ...string) (stdout string) {
	w.Helper()
	r := w.asks(args...)
	if r.status != 0 {
		w.Fatalf("%s: %+v", strings.Join(args, " "), r)
	}
	return r.stdout
}

// submit submits an experiment.
func (w *world) submit(name string, seed, replications int, more ...string) (id string) {
	w.Helper()
	words := strings.Fields(w.succeeds(append([]string{"submit", filepath.Join(w.dir, "tiny.yml"), "--program",
		selfProgram(w.T), "--replications", strconv.Itoa(replications), "--seed", strconv.Itoa(seed), "--name", name},
		more...)...))
	return words[len(words)-1]
}

// finished holds that an experiment has ended well, each piece once, and with the results of a run on this machine.
func (w *world) finished(id string, seed, replications int) {
	w.Helper()
	w.home.awaits(id, "it is FINISHED", func(e *fleet.Experiment) bool {
		if e.Ended() && e.Standing.Status != fleet.StatusFinished {
			w.Fatalf("found %+v %+v", e.Standing, e.Route)
		}
		return e.Ended()
	})
	pieces, malformed, err := w.home.client.Pieces(w.ctx, id)
	if w.must(err); len(malformed) > 0 || len(pieces) != replications {
		w.Fatalf("%s: found %d pieces, %v, want %d", id, len(pieces), malformed, replications)
	}
	key := fmt.Sprint(seed, " ", replications)
	local := w.local[key]
	if local == "" {
		local = filepath.Join(w.dir, fmt.Sprintf("local%d-%d.json", seed, replications))
		w.local[key] = local
		if r := runs(w.T, "run", filepath.Join(w.dir, "tiny.yml"), "--seed", strconv.Itoa(seed), "--replications",
			strconv.Itoa(replications), "--json", local); r.status != 0 {
			w.Fatalf("%+v", r)
		}
	}
	merged := filepath.Join(w.dir, "merged.json")
	w.succeeds("results", id, "--json", merged, "--program", selfProgram(w.T))
	same(w.T, local, merged)
}

// at is the site that has an experiment now.
func (w *world) at(id string) *siteAt {
	w.Helper()
	e := w.home.awaits(id, "a site has it", func(e *fleet.Experiment) bool { return e.Route != nil })
	for _, s := range w.sites {
		if s.name == e.Route.Site {
			return s
		}
	}
	w.Fatalf("found the route %+v", e.Route)
	return nil
}
