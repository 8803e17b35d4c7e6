// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/cluster"
)

// signs are those of a machine that is well, with a change.
func signs(n uint64, change func(g *Signs)) Signs {
	g := Signs{Present: true, Number: n, Vitals: &Vitals{Number: n, Memory: 0.5, Disk: 0.5}, Age: time.Second}
	if change != nil {
		change(&g)
	}
	return g
}

// TestSigns has each sign come to its state, at once or behind three vitals, and one good vital end it.
func TestSigns(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(g *Signs)
		want   Health
		vitals int // after which it counts
	}{
		{"well", nil, Good, 1},
		{"the most of memory that is good", func(g *Signs) { g.Vitals.Memory = useMost }, Good, 1},
		{"little memory", func(g *Signs) { g.Vitals.Memory = 0.86 }, Full, 3},
		{"little disk", func(g *Signs) { g.Vitals.Disk = 0.86 }, Full, 3},
		{"late", func(g *Signs) { g.Vitals.Lag = VitalsEvery + 1 }, Full, 3},
		{"old vitals", func(g *Signs) { g.Age = vitalsOld + 1 }, Full, 1},
		{"starts nothing", func(g *Signs) { g.Vitals.Refuses = "srun isn't there" }, Full, 1},
		{"an agent of an older build", func(g *Signs) { g.Vitals, g.Age = nil, time.Hour }, Good, 1},
		{"its pace isn't known", func(g *Signs) { g.Pace = 0 }, Good, 1},
		{"as fast as must be", func(g *Signs) { g.Pace = paceLeast }, Good, 1},
		{"slow", func(g *Signs) { g.Pace = 0.79 }, Slow, 3},
		{"stuck", func(g *Signs) { g.Stuck = true }, Stuck, 3},
		{"gone", func(g *Signs) { g.Present = false }, Gone, 1},
		{"gone, and stuck before", func(g *Signs) { g.Present, g.Stuck = false, true }, Gone, 1},
		{"full and slow", func(g *Signs) { g.Pace, g.Vitals.Memory = 0.5, 0.9 }, Full, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			var is Condition
			for n := uint64(1); n <= 10; n++ {
				g := signs(n, c.change)
				for range 3 { // the same vitals, looked at again, count once
					is = Judge(is, g)
				}
				want := c.want
				if int(n) < c.vitals {
					want = Good
				}
				if is.Health != want || (is.Health == Good) != (is.Reason == "") {
					t.Fatalf("behind %d vitals it is %v (%s), want %v", n, is.Health, is.Reason, want)
				}
			}
			if is = Judge(is, signs(11, nil)); is.Health != Good || is.Reason != "" {
				t.Errorf("behind good vitals it is %v: %s", is.Health, is.Reason)
			}
		})
	}
}

// TestFlicker has what is bad for two vitals at a time never count.
func TestFlicker(t *testing.T) {
	var is Condition
	for n := uint64(1); n <= 30; n++ {
		is = Judge(is, signs(n, func(g *Signs) {
			if n%3 != 0 {
				g.Vitals.Memory = 0.99
			}
		}))
		if is.Health != Good {
			t.Fatalf("behind %d vitals it is %v", n, is.Health)
		}
	}
}

// vitals has machines write their vitals, three times, 2 s apart.
func (b *bench) vitals(all map[string]Vitals) {
	for range 3 {
		b.version++
		now := map[string]Vitals{}
		for name, v := range all {
			v.Number = b.version
			now[name] = v
		}
		b.PutVitals(now)
		b.decide(VitalsEvery)
	}
}

// said is what was written about machines last.
func (b *bench) conditions() string {
	var all []string
	for _, name := range b.said.Names() {
		all = append(all, fmt.Sprintf("%s %v", name, b.said.Machines[name].Health))
	}
	return strings.Join(all, ", ")
}

// TestAilmentsSeldomWritten has other machines fall ill where people have been told of one: that is written once
// ailsEvery has gone by, though nothing else happens. That nothing is ill any more is written at once.
func TestAilmentsSeldomWritten(t *testing.T) {
	b := newBench(t, 3, 1, Rules{})
	all := map[string]Vitals{"m0": {Memory: 0.9}, "m1": {Memory: 0.1}, "m2": {Memory: 0.1}}
	b.vitals(all)
	b.submit("busy", 2, 1)
	b.submit("e", 1, 1)
	b.run()
	e := b.experiments["e"]
	fills := func(name string) { // and what it had ends
		all[name] = Vitals{Memory: 0.9}
		b.vitals(all)
		for n := range 2 {
			if p := b.piece("busy", n); p.State == Running && p.Gang[0].Member == name {
				b.report("busy", n, Report{State: Finished, Kept: &Kept{}})
				b.be(p.Gang[0].Name, cluster.Available, nil)
			}
		}
		b.decide(0)
	}
	want := func(reason, written string) {
		t.Helper()
		if rest := " of 3 machines that would do"; !strings.HasPrefix(e.reason, reason+rest) ||
			!strings.HasPrefix(e.standing.Reason, written+rest) {
			t.Fatalf("the reason is %q, and %q is written, want %s and %s", e.reason, e.standing.Reason, reason,
				written)
		}
	}
	want("1", "1")
	b.decide(ailsEvery)
	fills("m1")
	want("2", "2") // what was written before is long ago
	written := e.counted
	fills("m2")
	b.decide(written + ailsEvery - time.Millisecond - b.at)
	want("3", "2")
	b.decide(time.Millisecond)
	want("3", "3")
	all["m0"] = Vitals{}
	b.vitals(all)
	if p := b.piece("e", 0); p.State != Dispatched || e.standing.Reason != "" {
		t.Fatalf("found %v, and %q is written", p.State, e.standing.Reason)
	}
}

// TestAilmentsOfMany: where nothing can be placed only the experiment that is the next is looked at each time; the
// others are told why they wait once ailsEvery has gone by, though nothing else happens.
func TestAilmentsOfMany(t *testing.T) {
	b := newBench(t, 2, 1, Rules{})
	all := map[string]Vitals{"m0": {Memory: 0.9}, "m1": {Memory: 0.1}}
	b.vitals(all)
	b.submit("busy", 1, 1)
	b.run()
	b.want("busy", 0, Running)
	b.submit("e", 1, 1)
	b.submit("f", 1, 1)
	b.explained = b.at // a moment ago
	b.decide(0)
	told := func(id string) bool { return b.experiments[id].standing.Reason != "" }
	if !told("e") || told("f") {
		t.Fatalf("e is told: %v, and f: %v", told("e"), told("f"))
	}
	b.decide(ailsEvery - time.Millisecond)
	if told("f") {
		t.Fatal("f is told before its time")
	}
	if b.decide(time.Millisecond); !told("f") {
		t.Fatal("f isn't told")
	}
	all["m0"] = Vitals{}
	b.vitals(all)
	b.want("e", 0, Dispatched)
}

// TestFullMachines has nothing placed on full machines, and people told.
func TestFullMachines(t *testing.T) {
	b := newBench(t, 2, 1, Rules{})
	b.vitals(map[string]Vitals{"m0": {Memory: 0.9}, "m1": {Memory: 0.1}})
	if got := b.conditions(); got != "m0 full" {
		t.Errorf("found %q", got)
	}
	b.submit("e", 3, 1)
	b.decide(0)
	if got := b.piece("e", 0).Gang[0].Member; got != "m1" {
		t.Errorf("it is given to %s", got)
	}
	if why := b.Why("e", PieceID{0, 0, 1}); !strings.Contains(why, "m0                   no: is full: more than") {
		t.Errorf("found %s", why)
	}
	b.vitals(map[string]Vitals{"m0": {Memory: 0.9}, "m1": {Disk: 0.9}})
	b.run()
	b.finish("e", 0)
	want := "2 of 2 machines that would do are given nothing new: m0 is full: more than 85 % of its memory is in use"
	if got := b.experiments["e"].standing.Reason; got != want {
		t.Errorf("people are told %q, want %q", got, want)
	}
	b.PutVitals(map[string]Vitals{"m0": {Number: 1_000, Memory: 0.2}, "m1": {Number: 1_000, Disk: 0.9}})
	b.decide(time.Second)
	if p := b.piece("e", 1); p.State != Dispatched || p.Gang[0].Member != "m0" ||
		!strings.HasPrefix(b.experiments["e"].reason, "1 of 2 machines that would do are given nothing new: m1 is") {
		t.Errorf("found %+v, and the reason %q", p.Piece, b.experiments["e"].reason)
	}
	if s := b.capacity(b.experiments["e"].steps[0]); s != 2 {
		t.Errorf("%d servers count, want those of full machines, too: they may come back", s)
	}
}

// workAt has gangs that run get on, each at its machine's pace.
func (b *bench) workAt(id string, pace map[string]float64, seconds int) {
	for range seconds {
		for n := range b.experiments[id].pieces {
			if p := b.piece(id, n.Replication); p.State == Running {
				at := b.at.Seconds() * pace[p.Gang[0].Member]
				b.report(id, n.Replication, Report{State: Running, Progress: Progress{Now: at, Events: uint64(at)}})
			}
		}
		b.decide(time.Second)
	}
}

// TestSlowMachines has machines whose gangs get on slower be the last that are taken, and stuck ones not at all.
func TestSlowMachines(t *testing.T) {
	b := newBench(t, 4, 2, Rules{})
	b.submit("e", 100, 1)
	b.run()
	b.workAt("e", map[string]float64{"m0": 0.5, "m1": 1, "m2": 1.1, "m3": 0.9}, 40)
	if got := b.conditions(); got != "m0 slow" {
		t.Fatalf("found %q", got)
	}
	b.PutWish("e", Wish{Number: 2, Want: WantCancel, Priority: Normal})
	b.run() // m0 is free again, and has a better score than others but for its pace
	b.submit("f", 1, 1)
	b.decide(time.Second)
	if p := b.piece("f", 0); p.State != Dispatched || p.Gang[0].Member == "m0" {
		t.Errorf("found %+v", p.Piece)
	}
	if why := b.Why("f", PieceID{0, 0, 0}); !strings.Contains(why, "score 200 = 0 - 0 - 0 + 200; its gangs get on at") {
		t.Errorf("found %s", why)
	}
}

func TestStuckMachines(t *testing.T) {
	b := newBench(t, 4, 1, Rules{})
	b.submit("e", 4, 1)
	b.run()
	b.workAt("e", map[string]float64{"m0": 0, "m1": 1, "m2": 1.1, "m3": 0.9}, 45)
	if got := b.conditions(); got != "m0 stuck" {
		t.Errorf("found %q", got)
	}
	b.workAt("e", map[string]float64{"m0": 0, "m1": 0, "m2": 0, "m3": 0}, 45)
	if got := b.conditions(); got != "" {
		t.Errorf("all stand still, which is nobody's fault alone: found %q", got)
	}
}

// TestManyAreLost has evictions wait where most machines are lost at a time, once.
func TestManyAreLost(t *testing.T) {
	b := newBench(t, 4, 1, Rules{})
	b.submit("e", 4, 1)
	b.run()
	members := b.members()
	lose := func(lost ...int) {
		var left []cluster.Member
		for i, m := range members {
			gone := false
			for _, x := range lost {
				gone = gone || i == x
			}
			if gone {
				b.DropServer(m.Name + "-0")
			} else {
				left = append(left, m)
			}
		}
		b.PutMembers(left, nil)
	}
	lose(0, 1)
	b.decide(time.Second)
	b.decide(5 * time.Second)
	b.want("e", 0, Waiting) // half of them is no more than half

	c := newBench(t, 4, 1, Rules{})
	c.submit("e", 4, 1)
	c.run()
	b = c
	lose(0, 1, 2)
	b.decide(time.Second)
	b.decide(6 * time.Second)
	b.want("e", 0, Running)
	const want = "3 of 4 machines were lost at a time: what they had is tried elsewhere where they aren't back in 30s"
	if got := b.experiments["e"].standing.Reason; got != want {
		t.Errorf("people are told %q, want %q", got, want)
	}
	b.PutMembers(members, nil) // one is back, with another incarnation
	b.PutServer(cluster.Server{Name: "m1-0", Status: cluster.Status{State: cluster.Active, Incarnation: "i2"},
		Info: cluster.Info{Member: "m1", Assignment: new(cluster.Assignment)}})
	a := b.piece("e", 1).assignment(0)
	b.be("m1-0", cluster.Active, &a)
	b.decide(23 * time.Second)
	b.decide(time.Second)
	b.decide(time.Second)
	b.want("e", 0, Waiting)
	b.want("e", 1, Running)
	b.want("e", 2, Waiting)
	lose(0, 1, 2, 3) // again, soon: it isn't waited for
	b.decide(time.Second)
	b.decide(6 * time.Second)
	b.want("e", 3, Waiting)
}

// TestApart has a gang of several machines be on those that are near each other by what was measured, and not on slow
// ones.
func TestApart(t *testing.T) {
	b := newBench(t, 4, 1, Rules{})
	b.vitals(map[string]Vitals{"m0": {Far: map[string]float64{"m1": 0.02, "m2": 0.03, "m3": 0.001}}, "m1": {}, "m2": {
		Far: map[string]float64{"m3": 0.0002}}, "m3": {}})
	b.submit("e", 1, 2)
	b.decide(0)
	gang := func(id string) (text string) {
		for _, g := range b.piece(id, 0).Gang {
			text += g.Member + " "
		}
		return text
	}
	if got := gang("e"); got != "m2 m3 " {
		t.Errorf("found %s", got)
	}
	c := newBench(t, 4, 1, Rules{})
	c.PutHealth(HealthReport{Machines: map[string]Condition{"m2": {Health: Slow}}})
	for _, m := range c.machines {
		m.pace, m.paceAt = 1, time.Second
	}
	c.machine("m2").pace = 0.5
	b = c
	b.vitals(map[string]Vitals{"m0": {Far: map[string]float64{"m1": 0.02, "m3": 0.001}}, "m1": {}, "m2": {
		Far: map[string]float64{"m3": 0.0002}}, "m3": {}})
	b.submit("e", 1, 2)
	b.decide(0)
	if got := gang("e"); got != "m0 m3 " {
		t.Errorf("found %s", got)
	}
}

// TestOtherBuilds reads records of an older build, without what has come since, and of a newer one, with what isn't
// known here.
func TestOtherBuilds(t *testing.T) {
	for _, c := range []struct {
		name string
		text string
		into interface{ check() error }
	}{
		{"vitals of a newer build", `{"number":1,"memory":0.5,"heat":{"cpu":70}}`, new(Vitals)},
		{"health of a newer build", `{"leader":"m0","machines":{"m1":{"health":"full","since":3}},"x":1}`,
			new(HealthReport)},
		{"a load of an older build", `{"waiting":3,"ends":0.5}`, new(Load)},
		{"a load of a newer build", `{"waiting":3,"ends":0.5,"queue":10,"bytes":7}`, new(Load)},
		{"a report of an older build", `{"attempt":1,"state":"RUNNING","number":1,"progress":{"now":1},` +
			`"began":"2026-11-28T12:00:00Z"}`, new(Report)},
		{"a piece of an older build", `{"state":"DISPATCHED","attempt":1,"token":1,"gang":[{"server":"m0-0",` +
			`"member":"m0","incarnation":"i"}]}`, new(Piece)},
	} {
		if err := json.Unmarshal([]byte(c.text), c.into); err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if err := c.into.check(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	var r HealthReport
	if err := json.Unmarshal([]byte(`{"machines":{"m1":{"health":"hot"}}}`), &r); err == nil {
		t.Error("a state that isn't known here is taken for another one")
	}
}

// TestVitalsAreChecked refuses what is out of bounds.
func TestVitalsAreChecked(t *testing.T) {
	many := map[string]float64{}
	for i := range maxFar + 1 {
		many[fmt.Sprint("m", i)] = 0.1
	}
	for _, text := range []string{`{"memory":1.1}`, `{"disk":-0.1}`, `{"lag_ns":-1}`, `{"far":{"a":-1}}`,
		`{"refuses":"two\nlines"}`, `{"rates":{"a":0}}`, `{"rates":{"":1}}`, `{"unreachable":{"a":"two\nlines"}}`,
		`{"unreachable":{"":"no route"}}`, `{"unreachable":{"a":"` + strings.Repeat("x", maxCut+1) + `"}}`} {
		var v Vitals
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if v.check() == nil {
			t.Errorf("%s is taken", text)
		}
	}
	cut := map[string]string{}
	for name := range many {
		cut[name] = "no route"
	}
	for _, v := range []Vitals{{Far: many}, {Rates: many}, {Unreachable: cut}} {
		if v.check() == nil {
			t.Error("too many distances are taken")
		}
		delete(many, "m0")
		delete(cut, "m0")
		if err := v.check(); err != nil {
			t.Error(err)
		}
		many["m0"], cut["m0"] = 0.1, "no route"
	}
	var h Health
	if err := h.UnmarshalText([]byte("ill")); err == nil {
		t.Errorf("an unknown health is %v", h)
	}
}
