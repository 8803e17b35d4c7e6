// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/cluster"
)

// gangOf is the machines of a piece's gang, in the order of its partitions.
func (b *bench) gangOf(id string) string {
	return strings.Join(membersOf(b.piece(id, 0).Gang), " ")
}

// TestNear has a gang over several machines be on those that are near each other, by what was measured from either end,
// and never on two that can't reach each other while others can.
func TestNear(t *testing.T) {
	far := func(pairs ...any) Vitals {
		v := Vitals{Far: map[string]float64{}, Rates: map[string]float64{}, Unreachable: map[string]string{}}
		for i := 0; i < len(pairs); i += 2 {
			switch name := pairs[i].(string); x := pairs[i+1].(type) {
			case float64:
				v.Far[name] = x
			case int:
				v.Rates[name] = float64(x)
			case string:
				v.Unreachable[name] = x
			}
		}
		return v
	}
	for _, c := range []struct {
		name    string
		workers int
		slots   int
		all     map[string]Vitals
		want    string
	}{
		{"nothing is measured: by name", 2, 1, map[string]Vitals{}, "m0 m1"},
		{"what is measured is nearer than what isn't", 2, 1, map[string]Vitals{"m2": far("m3", 0.5)}, "m2 m3"},
		{"from the other end", 2, 1, map[string]Vitals{"m3": far("m2", 0.5)}, "m2 m3"},
		{"the shortest way", 2, 1, map[string]Vitals{"m0": far("m1", 0.02, "m2", 0.03, "m3", 0.001),
			"m2": far("m3", 0.0002)}, "m2 m3"},
		{"a slow way is long", 2, 1, map[string]Vitals{"m0": far("m1", 0.0002, "m1", 100_000), "m2": far("m3", 0.001)},
			"m2 m3"},
		{"alike, but for noise: by name", 2, 1, map[string]Vitals{"m0": far("m1", 0.0011), "m2": far("m3", 0.0010)},
			"m0 m1"},
		{"three: all ways count", 3, 1, map[string]Vitals{"m0": far("m1", 0.0002, "m2", 0.3, "m3", 0.3),
			"m1": far("m2", 0.001, "m3", 0.001), "m2": far("m3", 0.001)}, "m2 m1 m3"},
		{"what isn't measured is as far as over a third", 3, 1, map[string]Vitals{"m0": far("m1", 0.3, "m2", 0.3, "m3",
			0.3), "m1": far("m2", 0.0001, "m3", 0.0001)}, "m1 m2 m3"},
		{"cut off", 2, 1, map[string]Vitals{"m0": far("m1", "no route")}, "m0 m2"},
		{"cut off, by what the other one says, and near by what the one says", 2, 1,
			map[string]Vitals{"m0": far("m1", 0.0001, "m2", 0.3), "m1": far("m0", "no route")}, "m0 m2"},
		{"the only two that aren't cut off", 3, 2, map[string]Vitals{"m0": far("m1", "no", "m2", "no", "m3", "no"),
			"m1": far("m2", "no")}, "m1 m3"},
		{"all are cut off: it is tried", 2, 1, map[string]Vitals{"m0": far("m1", "no", "m2", "no", "m3", "no"),
			"m1": far("m2", "no", "m3", "no"), "m2": far("m3", "no")}, "m0 m1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 4, c.slots, Rules{})
			b.vitals(c.all)
			b.submit("e", 1, c.workers)
			b.decide(0)
			if got := b.gangOf("e"); got != c.want {
				t.Errorf("found %s, want %s", got, c.want)
			}
		})
	}
}

// TestCutIsFewest has a gang be on three machines that reach each other rather than on two that don't.
func TestCutIsFewest(t *testing.T) {
	b := newBench(t, 4, 2, Rules{})
	b.be("m2-0", cluster.Broken, nil) // m2 and m3 have one server each
	b.be("m3-0", cluster.Broken, nil)
	b.vitals(map[string]Vitals{"m0": {Unreachable: map[string]string{"m1": "no route"}}})
	b.submit("e", 1, 4)
	b.decide(0)
	if got := b.gangOf("e"); got != "m0 m2 m3" {
		t.Errorf("found %s", got)
	}
}

// fails has a gang over several machines fail, by the fault of one, or of nobody knows which.
func (b *bench) fails(id string, where string) {
	p := *b.piece(id, 0)
	b.report(id, 0, Report{State: Held, Error: &Error{Where: where, Type: ErrorMachine, Message: "nothing comes"}})
	b.decide(0)
	for _, g := range p.Gang {
		b.be(g.Name, cluster.Available, nil)
	}
	for range 10 {
		if b.decide(time.Second); b.piece(id, 0).Attempt > p.Attempt {
			return
		}
	}
	b.Fatal("it isn't tried again")
}

// TestFailedTogether has machines whose gang has failed, nobody knows by whose fault, not be tried together again where
// others will do; and where a way is known to be cut off that is at fault, and neither of the machines at its ends.
func TestFailedTogether(t *testing.T) {
	for _, c := range []struct {
		name, where string
		cut         map[string]Vitals
		want        string
		fault       int
	}{
		{"nobody knows whose fault it is", "", nil, "m0 m2", 0},
		{"one is at fault", "m1", nil, "m0 m2", 1},
		{"the way is", "m1", map[string]Vitals{"m0": {Unreachable: map[string]string{"m1": "no route"}}}, "m0 m2", 0},
		{"the way to another one is", "m1", map[string]Vitals{"m2": {Unreachable: map[string]string{"m1": "no route"}}},
			"m0 m2", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, 3, 1, Rules{})
			b.submit("e", 1, 2)
			b.run()
			if got := b.gangOf("e"); got != "m0 m1" {
				t.Fatalf("found %s at first", got)
			}
			if c.cut != nil {
				b.vitals(c.cut)
			}
			b.fails("e", c.where)
			if p := b.piece("e", 0); p.Attempt != 2 || b.gangOf("e") != c.want || len(p.Fault) != c.fault {
				t.Errorf("found %+v on %s", p.Piece, b.gangOf("e"))
			}
		})
	}
}

// TestWarm has the machine that led a gang count as one that has the scenario, and the others of it not; of gangs that
// are as far, the one that is led by such a machine is taken.
func TestWarm(t *testing.T) {
	b := newBench(t, 4, 1, Rules{})
	b.submit("e", 2, 2)
	b.be("m0-0", cluster.Broken, nil)
	b.be("m1-0", cluster.Broken, nil)
	b.run()
	for _, name := range []string{"m2", "m3"} {
		load, warm, checkpoint, _ := terms(b.machine(name), b.experiments["e"], &b.piece("e", 0).Piece)
		want := [3]int{100, 0, 0}
		if name == "m2" {
			want = [3]int{100, bonusWarm, bonusCheckpoint}
		}
		if got := [3]int{load, warm, checkpoint}; got != want {
			t.Errorf("%s: found the terms %v, want %v", name, got, want)
		}
	}
	b.be("m0-0", cluster.Available, nil)
	b.be("m1-0", cluster.Available, nil)
	b.experiments["e"].warm[b.machine("m1")] = true
	b.run()
	if got := membersOf(b.piece("e", 1).Gang); strings.Join(got, " ") != "m1 m0" {
		t.Errorf("found %v, want it to be led by m1, which has the scenario", got)
	}
}

// TestWhyGang has people told what lies between the machines of a gang.
func TestWhyGang(t *testing.T) {
	b := newBench(t, 4, 1, Rules{})
	b.vitals(map[string]Vitals{"m0": {Far: map[string]float64{"m1": 0.00021}, Rates: map[string]float64{"m1": 1.1e8},
		Unreachable: map[string]string{"m2": "no route"}},
		"m1": {Far: map[string]float64{"m2": 0.02}}})
	b.submit("e", 1, 2)
	want := "its gang would be on m0, m1: of those that are whole the one with the fewest pairs that can't reach " +
		"each other, then the fewest slow machines and machines, the shortest ways, the most labels in common\n" +
		"m0 - m1              0.21 ms, 110 MB/s; labels in common: 0\n"
	if got := b.Why("e", PieceID{}); !strings.HasSuffix(got, want) {
		t.Errorf("found:\n%swant at its end:\n%s", got, want)
	}
	b.run()
	b.submit("f", 1, 2)
	if got := b.Why("e", PieceID{}); !strings.HasSuffix(got, strings.Replace(want, "would be", "is", 1)) {
		t.Errorf("found:\n%s", got)
	}
	if got := b.Why("f", PieceID{}); !strings.Contains(got, "its gang would be on m2, m3") ||
		!strings.Contains(got, "m2 - m3              not measured; labels in common: 0\n") {
		t.Errorf("found:\n%s", got)
	}
	v := b.machine("m0").vitals
	if got := v.cutOff(); got != "can't reach m2 (no route)" {
		t.Errorf("found %q", got)
	}
}
