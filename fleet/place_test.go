// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/cluster"
)

func by(user string) func(s *Spec) { return func(s *Spec) { s.User = user } }
func (b *bench) priority(id string, p Priority) {
	b.PutWish(id, Wish{Number: 2, Want: WantRun, Priority: p})
}

// finish has one running piece of an experiment end, and its servers be free.
func (b *bench) finish(id string, n int) {
	b.report(id, n, Report{State: Finished, Kept: &Kept{}})
	for _, g := range b.piece(id, n).Gang {
		b.be(g.Name, cluster.Available, nil)
	}
	b.run()
}

// begun is how many pieces of each experiment have begun.
func (b *bench) begun() string {
	var all []string
	for _, e := range b.order {
		all = append(all, fmt.Sprintf("%s:%d", e.ID, len(e.pieces)))
	}
	return strings.Join(all, " ")
}

func (b *bench) wantBegun(want string) {
	b.Helper()
	if got := b.begun(); got != want {
		b.Errorf("begun are %s, want %s", got, want)
	}
}

// TestQueue has experiments come in turn.
func TestQueue(t *testing.T) {
	for _, c := range []struct {
		name string
		plan func(b *bench)
		want string
	}{
		{"in the order of submission", func(b *bench) {
			b.submit("e1", 3, 1)
			b.submit("e2", 3, 1)
		}, "e1:3 e2:1"},
		{"the better class", func(b *bench) {
			b.submit("e1", 9, 1)
			b.submit("e2", 9, 1)
			b.submit("e3", 3, 1)
			b.priority("e1", Low)
			b.priority("e3", High)
		}, "e1:0 e2:1 e3:3"},
		{"the user with fewer servers", func(b *bench) {
			b.submit("e1", 9, 1)
			b.submit("e2", 9, 1)
			b.submit("e3", 9, 1, by("bob"))
		}, "e1:2 e2:0 e3:2"},
		{"a gang counts by its servers", func(b *bench) {
			b.submit("e1", 9, 2)
			b.submit("e2", 9, 1, by("bob"))
		}, "e1:1 e2:2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 2, 2, Rules{})
			c.plan(b)
			b.decide(0)
			b.wantBegun(c.want)
		})
	}
}

// TestAge has what waits for long be lifted over what is of a better class.
func TestAge(t *testing.T) {
	b := newBench(t, 1, 1, Rules{Age: 10 * time.Minute})
	b.submit("high", 1000, 1)
	b.priority("high", High)
	b.submit("low", 2, 1)
	b.priority("low", Low)
	n := 0
	for b.begun() == fmt.Sprintf("high:%d low:0", n+1) || n == 0 {
		b.run()
		b.finish("high", n)
		if n++; b.at > time.Hour {
			t.Fatal("it starves")
		}
	}
	if b.at < 30*time.Minute || b.at > 31*time.Minute { // three lifts: over the one that has just been placed
		t.Errorf("it was placed after %v", b.at)
	}
	b.finish("low", 0)
	b.wantBegun(fmt.Sprintf("high:%d low:1", n+1))
}

// TestMachines has a gang's machines be chosen.
func TestMachines(t *testing.T) {
	for _, c := range []struct {
		name    string
		workers int
		set     func(b *bench)
		want    string
	}{
		{"by name", 1, func(*bench) {}, "m0-0"},
		{"of one machine", 2, func(b *bench) { b.be("m0-0", cluster.Broken, nil) }, "m1-0 m1-1"},
		{"of few machines", 3, func(*bench) {}, "m0-0 m0-1 m1-0"},
		{"none", 7, func(*bench) {}, ""},
		{"not a drained one", 1, func(b *bench) { b.PutMembers(b.members(), []string{"m0", "m1-0"}) }, "m1-1"},
		{"not one that leaves", 1, func(b *bench) {
			all := b.members()
			all[0].Status = cluster.Leaving
			b.PutMembers(all, nil)
		}, "m1-0"},
		{"of the program", 1, func(b *bench) {
			all := b.members()
			all[0].Version, all[1].Version = "v2", "v2"
			b.PutMembers(all, nil)
		}, "m2-0"},
		{"with an executor", 1, func(b *bench) {
			all := b.members()
			all[0].Roles = []string{"big"}
			b.PutMembers(all, nil)
		}, "m1-0"},
		{"with the labels", 1, func(b *bench) {
			all := b.members()
			all[1].Labels = map[string]string{"rack": "a", "gpu": "yes"}
			b.PutMembers(all, nil)
			e := b.experiments["e"]
			e.Labels = map[string]string{"rack": "a"}
			e.demand = b.demandOf(&e.Spec)
		}, "m1-0"},
		{"with less load", 1, func(b *bench) {
			b.submit("other", 1, 1)
			b.priority("other", High)
			b.be("m2-0", cluster.Broken, nil)
		}, "m1-0"},
		{"that has hosted it", 1, func(b *bench) { b.experiments["e"].warm[b.machines["m2"]] = true }, "m2-0"},
		{"not one at fault", 1, func(b *bench) { b.held("m2") }, "m0-0"},
		{"with the newest checkpoint", 1, func(b *bench) { b.held("m0") }, "m2-0"},
		{"at fault, where no other will do", 1, func(b *bench) { b.held("m0", "m1", "m2") }, "m2-0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 3, 2, Rules{})
			b.submit("e", 1, c.workers, func(s *Spec) { s.Version = "v1" })
			c.set(b)
			b.decide(0)
			var names []string
			for _, g := range b.piece("e", 0).Gang {
				names = append(names, g.Name)
			}
			if got := strings.Join(names, " "); got != c.want && b.piece("e", 0).State != Waiting {
				t.Errorf("found %s, want %s", got, c.want)
			}
			if c.want == "" != (b.piece("e", 0).State == Waiting) {
				t.Errorf("found %+v", b.piece("e", 0).Piece)
			}
		})
	}
}

func (b *bench) members() []cluster.Member {
	var all []cluster.Member
	for i := range len(b.machines) {
		all = append(all, b.machines[fmt.Sprint("m", i)].Member)
	}
	return all
}

// held has the piece wait for its second attempt, the first of which was made by m2.
func (b *bench) held(fault ...string) {
	b.PutPiece("e", PieceID{}, Piece{State: Waiting, Attempt: 1, Fault: fault, Gang: []Server{
		{Name: "m2-1", Member: "m2", Incarnation: "i"}}})
}

// TestManyMachines has gangs spread: over as few machines as possible that take runs over several, of one build, near
// each other where their labels say so.
func TestManyMachines(t *testing.T) {
	b := newBench(t, 6, 2, Rules{TooFew: time.Minute})
	all := b.members()
	for i := range all {
		all[i].Labels = map[string]string{"rack": []string{"a", "b", "c", "c", "d", "e"}[i]}
	}
	all[0].Roles = []string{Role} // doesn't take such runs
	all[1].Digest = "another"
	all[5].Address = ""
	b.PutMembers(all, nil)
	members := func() string {
		var text []string
		for _, g := range b.piece("e", 0).Gang {
			text = append(text, g.Member+" "+g.Address)
		}
		return strings.Join(text, ", ")
	}
	b.submit("e", 1, 4)
	b.decide(0)
	if got, want := members(), "m2 m2:1, m2 m2:1, m3 m3:1, m3 m3:1"; got != want {
		t.Errorf("found %s, want %s: both are in one rack", got, want)
	}
	b.submit("f", 1, 2)
	b.decide(0)
	if g := b.piece("f", 0).Gang; len(g) != 2 || g[0].Member != g[1].Member || g[0].Address != "" {
		t.Errorf("found %v, want what fits one machine on one", g)
	}
	b.submit("g", 1, 7) // 6 are of one build
	b.decide(0)
	b.decide(time.Minute)
	b.want("g", 0, Failed)
	if p := b.piece("g", 0); p.Error.Message != "a gang of step 0 wants 7 servers; such a machine has 2 at most, and "+
		"those whose agents take runs over several machines (--listen) have 6 together" {
		t.Errorf("found %s", p.Error.Message)
	}
}

// TestFewestMachines: machines that have less are taken only where those that have more don't suffice.
func TestFewestMachines(t *testing.T) {
	b := newBench(t, 3, 3, Rules{})
	b.submit("small", 3, 1)
	b.decide(0) // 2 servers of each are left
	b.submit("e", 1, 4)
	b.decide(0)
	used := map[string]int{}
	for _, g := range b.piece("e", 0).Gang {
		used[g.Member]++
	}
	if len(used) != 2 || b.piece("e", 0).State != Dispatched {
		t.Errorf("found %v, want 2 machines", used)
	}
}

// TestNeverFits has a gang be larger than all machines.
func TestNeverFits(t *testing.T) {
	b := newBench(t, 2, 2, Rules{})
	b.submit("e", 100_000, 5, func(s *Spec) { s.Labels, s.Version = map[string]string{"rack": "a"}, "v1" })
	b.decide(0)
	b.decide(time.Hour)
	if x := b.experiments["e"].standing; x.Ended || x.Reason != "a gang of step 0 wants 5 servers with the labels "+
		"rack=a and disco v1; such a machine has 0 at most, and those whose agents take runs over several "+
		"machines (--listen) have 0 together" {
		t.Errorf("found %+v", x) // nobody knows which machines will come
	}
	all := b.members()
	all[0].Labels = map[string]string{"rack": "a"}
	b.PutMembers(all, nil)
	b.decide(0)
	b.decide(4 * time.Minute)
	if b.experiments["e"].standing.Ended {
		t.Error("it has failed though machines may come yet")
	}
	b.decide(time.Minute)
	x := b.experiments["e"].standing
	if !x.Ended || x.Status != StatusFailed || x.Pieces[Failed] != 100_000 || len(x.Errors) != 1 ||
		!strings.HasSuffix(x.Errors[0].Error.Message, "have 2 together") || x.Errors[0].Error.Type != ErrorFit {
		t.Errorf("found %+v", x)
	}
	if len(b.experiments["e"].pieces) != 1 {
		t.Errorf("%d pieces were written", len(b.experiments["e"].pieces))
	}
}

// TestBare: while no machine has a server what waits says so, and not any more once one has, also where others get it.
func TestBare(t *testing.T) {
	b := newBench(t, 2, 0, Rules{})
	b.submit("a", 1, 1)
	b.submit("b", 1, 1)
	reasons := func(want string) {
		t.Helper()
		b.decide(countEvery)
		if x, y := b.experiments["a"].standing.Reason, b.experiments["b"].standing.Reason; x+"|"+y != want {
			t.Errorf("found the reasons %q and %q, want %s", x, y, want)
		}
	}
	reasons(isBare + "|" + isBare)
	b.PutServer(cluster.Server{Name: "m1-0", Status: cluster.Status{State: cluster.Available, Incarnation: "i"},
		Info: cluster.Info{Member: "m1"}})
	reasons("|")
	b.wantBegun("a:1 b:0")
	b.run()
	b.finish("a", 0)
	b.want("b", 0, Running)
	b.finish("b", 0)
	b.DropServer("m1-0")
	b.submit("c", 1, 1)
	b.decide(countEvery)
	if reason := b.experiments["c"].standing.Reason; reason != isBare {
		t.Errorf("found the reason %q", reason)
	}
}

// TestHead has a large gang wait for servers that small ones would take.
func TestHead(t *testing.T) {
	b := newBench(t, 2, 2, Rules{Head: time.Minute, Age: 10 * time.Minute})
	slow := func(s *Spec) { s.Limits.NoProgress = 24 * time.Hour }
	b.submit("small", 1000, 1, slow)
	b.run()
	b.submit("large", 2, 3, by("bob"), slow)
	b.priority("large", High)
	b.run()
	b.wantBegun("small:4 large:0")
	b.finish("small", 0)
	b.finish("small", 1)
	b.wantBegun("small:4 large:0") // what is free is reserved
	b.finish("small", 2)
	b.wantBegun("small:4 large:1")
	b.want("large", 0, Running)

	b.finish("small", 3)
	b.wantBegun("small:4 large:1")
	b.decide(time.Minute) // it is passed for as long
	b.wantBegun("small:5 large:1")
	b.run()
	b.decide(time.Minute)
	b.finish("small", 4)
	b.wantBegun("small:5 large:1")

	b.at += 20 * time.Minute // who has waited for so long keeps its reservation
	b.decide(0)
	for range 20 {
		b.decide(time.Minute)
	}
	b.wantBegun("small:5 large:1")
	b.finish("large", 0)
	b.want("large", 1, Running)
}

// TestReservedElsewhere has machines that are of no use for the head be used.
func TestReservedElsewhere(t *testing.T) {
	b := newBench(t, 2, 2, Rules{})
	all := b.members()
	all[1].Labels = map[string]string{"rack": "a"}
	b.PutMembers(all, nil)
	b.submit("one", 3, 1)
	b.run()
	b.submit("large", 1, 2, by("bob"), func(s *Spec) { s.Labels = map[string]string{"rack": "a"} })
	b.priority("large", High)
	b.submit("small", 9, 1, by("eve"))
	b.run()
	if b.head == nil {
		t.Fatal("nothing is reserved")
	}
	for n := range 3 {
		if b.piece("one", n).Gang[0].Member == "m0" {
			b.finish("one", n)
		}
	}
	if small := b.experiments["small"]; len(small.pieces) != 2 {
		t.Errorf("begun are %s", b.begun())
	}
	b.want("large", 0, Waiting)
}

func TestWhy(t *testing.T) {
	b := newBench(t, 4, 2, Rules{})
	all := b.members()
	all[3].Version, all[1].Roles = "v2", []string{Role, "big"}
	b.PutMembers(all, []string{"m2"})
	b.submit("other", 1, 1)
	b.run()
	b.submit("e", 3, 1, func(s *Spec) { s.Version = "v1" })
	b.PutPiece("e", PieceID{0, 0, 1}, Piece{State: Waiting, Attempt: 1, Fault: []string{"m1"},
		Gang: []Server{{Name: "m0-1", Member: "m0", Incarnation: "i"}}, Wait: time.Hour})
	want := `it is WAITING, attempt 1
piece 0.0.1 of e wants 1 server; the least score is taken: load - warm - checkpoint + slow
m0                   1 of 2 servers free, score 0 = 50 - 20 - 30 + 0
m1                   2 of 2 servers free, score 0 = 0 - 0 - 0 + 0; at fault: taken where no other will do
m2                   no: is drained
m3                   no: has disco "v2"
`
	if got := b.Why("e", PieceID{0, 0, 1}); got != want {
		t.Errorf("found:\n%swant:\n%s", got, want)
	}
	if got := b.Why("x", PieceID{}); got != "there is no piece 0.0.0 of an experiment \"x\"\n" {
		t.Error(got)
	}
}

// TestSame has two states that were told the same decide the same.
func TestSame(t *testing.T) {
	var before []string
	for range 5 {
		b := newBench(t, 7, 3, Rules{})
		var all []string
		note := func() {
			for _, a := range b.last {
				all = append(all, fmt.Sprintf("%+v", a))
			}
		}
		for i := range 6 {
			b.submit(fmt.Sprint("e", i), 5, 1+i%3, by(fmt.Sprint("user", i%2)))
		}
		b.decide(0)
		note()
		for i := range 6 {
			b.PutWish(fmt.Sprint("e", i), Wish{Number: 2, Want: WantCancel})
		}
		b.PutServers(nil)
		b.decide(0)
		note()
		for i := range 6 {
			b.PutWish(fmt.Sprint("e", i), Wish{Number: 3, Want: WantRun, Retry: 1})
		}
		b.decide(time.Minute)
		note()
		for i, text := range all {
			if before != nil && before[i] != stripped(text) {
				t.Fatalf("action %d:\n%s\n%s", i, before[i], text)
			}
			all[i] = stripped(text)
		}
		if before != nil && !slices.Equal(before, all) {
			t.Fatal("they aren't as many")
		}
		before = all
	}
}

// stripped is a text without addresses.
func stripped(text string) string {
	var all []string
	for _, word := range strings.Fields(text) {
		if !strings.Contains(word, "0x") {
			all = append(all, word)
		}
	}
	return strings.Join(all, " ")
}
