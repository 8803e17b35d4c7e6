// SPDX-License-Identifier: Apache-2.0

package group

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/fleet"
)

// some waits until some of an experiment is home.
func (w *world) some(id string) {
	w.Helper()
	w.home.awaits(id, "some of it is home", func(e *fleet.Experiment) bool {
		return e.Standing != nil && e.Standing.Pieces[fleet.Finished] > 0
	})
}

// others are the sites but for some.
func (w *world) others(not ...*siteAt) []*siteAt {
	return slices.DeleteFunc(slices.Clone(w.sites), func(s *siteAt) bool { return slices.Contains(not, s) })
}

// moved waits until an experiment is at another site, and holds that it says why.
func (w *world) moved(id string, from *siteAt) *siteAt {
	w.Helper()
	e := w.home.awaits(id, "another site has it", func(e *fleet.Experiment) bool { return e.Route.Epoch == 2 })
	tried := e.Route.Tried
	if len(tried) != 1 || tried[0].Site != from.name || tried[0].Epoch != 1 || tried[0].Failed ||
		!strings.Contains(tried[0].Why, "it hasn't answered for") || !strings.Contains(e.Route.Why, from.name+
		": UNHEALTHY: it doesn't answer: ") {
		w.Errorf("found %+v", e.Route)
	}
	return w.at(id)
}

// still waits until nothing of an experiment runs at a site that isn't told what the door does.
func (s *siteAt) still(id string) {
	s.Helper()
	s.awaits(id, "it stands still at "+s.name, func(e *fleet.Experiment) bool {
		return e.Standing != nil && e.Standing.Pieces[fleet.Running]+e.Standing.Pieces[fleet.Dispatched] == 0
	})
}

// fenced waits until a site has given up what it was given first, unless it was faster: it counts as little then.
func (s *siteAt) fenced(id string) {
	s.Helper()
	s.awaits(fleet.SiteID(id, 1), "it has ended at "+s.name, func(e *fleet.Experiment) bool {
		return e.Ended() && (e.Wish.Want == fleet.WantCancel || e.Standing.Status == fleet.StatusFinished)
	})
}

// forged writes ends of half of what a site hasn't begun, as of attempts that end while it is cut off.
func (s *siteAt) forged(id string, replications int) {
	s.Helper()
	old := fleet.SiteID(id, 1)
	there, _, err := s.client.Pieces(s.ctx, old)
	s.must(err)
	forged := 0
	for r := range replications {
		p := fleet.PieceID{Replication: r}
		if there[p].State == 0 && r%2 == 1 {
			s.must(s.store.Put(s.ctx, "fleet/pieces/"+old+"/"+p.String(), fleet.Piece{State: fleet.Finished, Attempt: 1,
				Kept: &fleet.Kept{Place: "nowhere", Hash: "forged"}}))
			forged++
		}
	}
	if forged == 0 {
		s.Error("everything had begun: nothing could be forged")
	}
}

// isHome is what is home of an experiment.
func (w *world) isHome(id string) map[fleet.PieceID]fleet.PieceAt {
	w.Helper()
	pieces, malformed, err := w.home.client.Pieces(w.ctx, id)
	if w.must(err); len(malformed) > 0 {
		w.Errorf("found %v", malformed)
	}
	return pieces
}

// refused holds that nothing was taken from a site since its decision was replaced, however much of it has finished
// there, and that what had finished before is as it was.
func (s *siteAt) refused(id string, before map[fleet.PieceID]fleet.PieceAt) {
	s.Helper()
	there, _, err := s.client.Pieces(s.ctx, fleet.SiteID(id, 1))
	s.must(err)
	refused := 0
	for p, is := range s.w.isHome(id) {
		was := before[p]
		switch {
		case was.State == fleet.Finished && !reflect.DeepEqual(was, is):
			s.Errorf("%s: piece %v was %+v, and is %+v", id, p, was, is)
		case was.State != fleet.Finished && (is.Kept == nil || is.Kept.Hash == "forged" || is.Site == s.name):
			s.Errorf("%s: piece %v: found %+v", id, p, is)
		case was.State != fleet.Finished && there[p].State == fleet.Finished:
			refused++
		}
	}
	s.Logf("%s: %d pieces were home when %s lost it, and %d ends there were refused", id, len(before), s.name, refused)
}

// twoSites: each command is given to the door while an experiment is at a site, while that is cut off from everything,
// when another one has it, and behind its end. The door is killed meanwhile. The experiment stands still while people
// look at it, however slow the machine is.
func twoSites(w *world) {
	first := w.submit("first", 3, 8)
	x := w.at(first)
	y := w.others(x)[0]
	second, third := w.submit("second", 4, 10), w.submit("third", 5, 2)
	w.at(third)
	w.succeeds("pause", third)
	if w.at(second) != y || w.at(third) != x {
		w.Fatalf("found the second one at %s and the third one at %s, want %s and %s", w.at(second).name,
			w.at(third).name, y.name, x.name)
	}
	w.some(first)
	watch, logs := w.begins("watch", first, "--json"), w.begins("logs", first, "7", "-f")
	w.succeeds("pause", first)
	w.home.awaits(first, "it stands still", func(e *fleet.Experiment) bool {
		return e.Standing.Wish == 2 && e.Standing.Pieces[fleet.Running]+e.Standing.Pieces[fleet.Dispatched] == 0
	})
	w.shows(first, "it is at site "+x.name)
	w.wishes(first)

	w.must(w.hosts.Unplug(x.host, true))
	w.succeeds("cancel", "third")
	w.killDoor()
	w.startDoor()
	w.home.awaits(first, "it is told that its site doesn't answer", func(e *fleet.Experiment) bool {
		return strings.Contains(e.Standing.Reason, "site "+x.name+" doesn't answer") || e.Route.Epoch > 1
	})
	w.shows(first, "doesn't answer")
	w.wishes(first)
	if got := w.moved(first, x); got != y {
		w.Fatalf("found it at %s", got.name)
	}
	before := w.isHome(first)
	w.shows(first, "before, it was at site "+x.name)
	w.wishes(first)
	w.home.awaits(third, "it is cancelled, though its site can't be told", func(e *fleet.Experiment) bool {
		return e.Ended() && e.Standing.Status == fleet.StatusCanceled
	})
	w.must(w.hosts.Unplug(x.host, false))
	x.fenced(first)
	x.fenced(third)
	w.succeeds("retry", third)
	w.succeeds("continue", first)
	w.finished(third, 5, 2)
	w.finished(first, 3, 8)
	w.finished(second, 4, 10)
	x.refused(first, before)
	w.over(first, watch, logs)
	w.logged(first, w.isHome(first)) // those that other sites had before, too
}

// wishes gives an experiment that is to stand still wishes, and holds that they are home at once; it is to stand still
// then, too.
func (w *world) wishes(id string) {
	w.Helper()
	e, err := w.home.client.Show(w.ctx, id)
	w.must(err)
	number, class := e.Wish.Number, fleet.High
	if e.Wish.Priority == class {
		class = fleet.Low
	}
	for _, args := range [][]string{{"continue", id}, {"priority", id, string(class)}, {"pause", id, "--why",
		"enough of it"}} {
		w.succeeds(args...)
	}
	e, err = w.home.client.Show(w.ctx, id)
	if w.must(err); e.Wish.Number != number+3 || e.Wish.Want != fleet.WantPause || e.Wish.Priority != class ||
		e.Wish.Why != "enough of it" {
		w.Errorf("found %+v", e.Wish)
	}
	if r := w.asks("retry", id); r.status != 1 || !strings.Contains(r.stderr, "retry isn't possible") {
		w.Errorf("retry: %+v", r)
	}
}

// shows looks at an experiment that hasn't ended, and holds that it is told so.
func (w *world) shows(id, want string) {
	w.Helper()
	if out := w.succeeds("list"); !strings.Contains(out, id) {
		w.Errorf("list: %s", out)
	}
	if out := w.succeeds("show", id); !strings.Contains(out, want) {
		w.Errorf("show: %s\nwant %s", out, want)
	}
	file := filepath.Join(w.dir, "early.json")
	r := w.asks("results", id, "--json", file, "--program", selfProgram(w.T))
	if _, err := os.Stat(file); r.status != 1 || err == nil || !strings.Contains(r.stderr, "pieces have ended well") {
		w.Errorf("results: %+v, %v", r, err)
	}
	if r := w.asks("logs", id, "0"); r.status != 0 {
		w.Errorf("logs: %+v", r)
	}
}

// over holds what is left to be done with an experiment that has ended well, and how those who watch it end.
func (w *world) over(id string, watching ...*exec.Cmd) {
	w.Helper()
	for _, cmd := range watching {
		if err := cmd.Wait(); err != nil {
			w.Errorf("%q: %v: %s%s", cmd.Args, err, cmd.Stdout, cmd.Stderr)
		}
	}
	if out := watching[0].Stdout.(*bytes.Buffer).String(); !strings.Contains(out, `"FINISHED"`) ||
		strings.Count(strings.TrimSpace(out), "\n") < 3 {
		w.Errorf("watch: %s", out)
	}
	for _, args := range [][]string{{"pause", id}, {"continue", id}, {"cancel", id}, {"retry", id},
		{"priority", id, "low"}} {
		if r := w.asks(args...); r.status != 1 || !strings.Contains(r.stderr, "isn't possible") {
			w.Errorf("%q: %+v", args, r)
		}
	}
	for _, args := range [][]string{{"list"}, {"show", id}, {"watch", id}} {
		if out := w.succeeds(args...); !strings.Contains(out, "FINISHED") {
			w.Errorf("%q: %s", args, out)
		}
	}
}

// logged holds that some pieces of an experiment have logs.
func (w *world) logged(id string, some map[fleet.PieceID]fleet.PieceAt) {
	w.Helper()
	for p, is := range some {
		if out := w.succeeds("logs", id, fmt.Sprint(p.Replication)); strings.TrimSpace(out) == "" {
			w.Errorf("piece %v, which ended at %s, has no log", p, is.Site)
		}
	}
}

// begins starts a command that asks the door, and goes on.
func (w *world) begins(args ...string) *exec.Cmd {
	w.Helper()
	cmd, _, _ := command(append(args, "--door", w.doorAt, "--door-tls", filepath.Join(w.dir, "me"))...)
	w.must(cmd.Start())
	w.Cleanup(func() { _ = cmd.Process.Kill() }) // where the test has failed before its end
	return cmd
}

// threeSites: one site is cut off from the door alone, the store of another one is killed, and so is the door: the
// third site gets what both had. When they are back nothing of what they have done meanwhile counts.
func threeSites(w *world) {
	first, second := w.submit("first", 3, 12), w.submit("second", 4, 12)
	x, y := w.at(first), w.at(second)
	if x == y {
		w.Fatalf("both are at %s", x.name)
	}
	z := w.others(x, y)[0]
	w.some(first)
	w.some(second)
	w.must(w.hosts.Apart(x.host, w.doorHost))
	y.server.Kill()
	w.killDoor()
	x.forged(first, 12)
	w.startDoor()
	if a, b := w.moved(first, x), w.moved(second, y); a != z || b != z {
		w.Errorf("found them at %s and %s, want %s", a.name, b.name, z.name)
	}
	before := [2]map[fleet.PieceID]fleet.PieceAt{w.isHome(first), w.isHome(second)}
	x.still(fleet.SiteID(first, 1))
	w.must(w.hosts.Apart())
	w.must(y.server.Start())
	w.must(y.server.Ready(w.ctx))
	x.fenced(first)
	y.fenced(second)
	w.finished(first, 3, 12)
	w.finished(second, 4, 12)
	x.refused(first, before[0])
	y.refused(second, before[1])
	bySite := map[string]int{}
	for _, id := range []string{first, second} {
		pieces, _, err := w.home.client.Pieces(w.ctx, id)
		w.must(err)
		for _, p := range pieces {
			bySite[p.Site]++
		}
	}
	if bySite[x.name] == 0 || bySite[y.name] == 0 || bySite[z.name] == 0 || len(bySite) != 3 {
		w.Errorf("found pieces of %v, want some of each", bySite)
	}
}

// chaos is what is wrong at a moment of randomSites.
type chaos struct {
	*world
	random      *rand.Rand
	back        map[string]func() // by what is wrong: how it is mended
	until       map[string]time.Time
	did         map[string]int
	all         []submittedTo // that haven't ended
	done, moves int
}

// submittedTo is an experiment of randomSites.
type submittedTo struct {
	id                 string
	seed, replications int
}

// randomSites: sites and a door at random, one thing after the other, while experiments come: each ends once, with the
// results of a run on this machine, and nothing of any runs at the end.
func randomSites(w *world) {
	c := &chaos{world: w, random: rand.New(rand.NewPCG(*sitesSeed, 3)), back: map[string]func(){},
		until: map[string]time.Time{}, did: map[string]int{}}
	for end := time.Now().Add(*sitesFor); ; {
		switch over := time.Now().After(end); {
		case over:
			c.mend(true)
			for _, o := range c.all {
				_ = c.asks("continue", o.id) // it may have ended
			}
		case len(c.all) < 3 && c.door != nil:
			o := submittedTo{seed: 1 + c.random.IntN(3), replications: 12}
			o.id = w.submit("e", o.seed, o.replications, "--attempts", "100")
			c.all = append(c.all, o)
		default:
			c.breaks()
		}
		c.mend(false)
		c.ended()
		if time.Now().After(end) && len(c.all) == 0 {
			break
		}
		time.Sleep(time.Duration(c.random.IntN(1_500)) * time.Millisecond)
	}
	w.Logf("%d experiments, given to another site %d times, %v", c.done, c.moves, c.did)
	if *sitesFor >= 5*time.Minute && c.moves == 0 {
		w.Error("nothing was given to another site")
	}
	for _, s := range w.sites {
		w.must(s.view.Await(w.ctx, func() bool {
			return !slices.ContainsFunc(s.view.Servers(), func(sv cluster.Server) bool {
				return sv.State != cluster.Available
			}) && len(s.view.Servers()) == len(s.agents)
		}))
	}
}

// ended looks at what has ended, and starts agents again that have.
func (c *chaos) ended() {
	c.Helper()
	c.all = slices.DeleteFunc(c.all, func(o submittedTo) bool {
		e, err := c.home.client.Show(c.ctx, o.id)
		c.must(err)
		if !e.Ended() || c.door == nil {
			return false
		}
		c.finished(o.id, o.seed, o.replications)
		c.done, c.moves = c.done+1, c.moves+int(e.Route.Epoch)-1
		return true
	})
	for _, s := range c.sites {
		s.again()
	}
}

// breaks does one thing to the sites, or to the door.
func (c *chaos) breaks() {
	c.Helper()
	s := c.sites[c.random.IntN(len(c.sites))]
	what := []string{"unplugged", "apart", "deaf", "store", "door", "agent", "wish"}[c.random.IntN(7)]
	key := "site" // one that can't be reached at a time, so that there is another one
	if what == "door" || what == "wish" || what == "agent" {
		key = what
	}
	if c.back[key] != nil || what == "wish" && (c.door == nil || len(c.all) == 0) {
		return
	}
	must := func(err error) { c.Helper(); c.must(err) }
	undo := func() {}
	switch what {
	case "unplugged":
		must(c.hosts.Unplug(s.host, true))
		undo = func() { must(c.hosts.Unplug(s.host, false)) }
	case "apart":
		must(c.hosts.Apart(s.host, c.doorHost))
		undo = func() { must(c.hosts.Apart()) }
	case "deaf":
		must(c.hosts.Deaf(c.doorHost, s.host, true))
		undo = func() { must(c.hosts.Deaf(c.doorHost, s.host, false)) }
	case "store":
		s.server.Kill()
		undo = func() { must(s.server.Start()); must(s.server.Ready(c.ctx)) }
	case "door":
		c.killDoor()
		c.door = nil
		undo = c.startDoor
	case "agent":
		_ = s.agents[0].cmd.Process.Kill() // it is started again when it is gone; the next one is killed later
	case "wish":
		id := c.all[c.random.IntN(len(c.all))].id
		_ = c.asks("pause", id) // it may have ended
		undo = func() { _ = c.asks("continue", id) }
	}
	c.did[what]++
	c.back[key], c.until[key] = undo, time.Now().Add(time.Duration(2_000+c.random.IntN(25_000))*time.Millisecond)
}

// mend mends what was broken for long, or all.
func (c *chaos) mend(all bool) {
	for key, undo := range c.back {
		if all || time.Now().After(c.until[key]) && (c.door != nil || key != "wish") {
			delete(c.back, key)
			undo()
		}
	}
}
