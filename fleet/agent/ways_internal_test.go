// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/disco-sim/disco/cluster"
	"github.com/disco-sim/disco/fleet"
)

func peers(n int) (all []cluster.Member) {
	for i := range n {
		all = append(all, cluster.Member{Name: fmt.Sprintf("m%03d", i), Incarnation: "i",
			Labels: map[string]string{"rack": fmt.Sprint(i % 10)}})
	}
	return all
}

// TestWaysAreBounded keeps 64 of many machines: those with the same labels, and of the others always the same.
func TestWaysAreBounded(t *testing.T) {
	a, b := newWaysTable("a"), newWaysTable("a")
	a.follow(peers(300), map[string]string{"rack": "3"})
	b.follow(peers(300), map[string]string{"rack": "3"})
	if len(a.known) != peersMax || len(b.known) != peersMax {
		t.Fatalf("found %d and %d machines, want %d", len(a.known), len(b.known), peersMax)
	}
	same := 0
	for name, w := range a.known {
		if b.known[name] == nil {
			t.Errorf("%s is kept once, and not the other time", name)
		}
		if w.Labels["rack"] == "3" {
			same++
		}
	}
	if same != 30 {
		t.Errorf("found %d of the 30 machines of the same rack", same)
	}
	now := time.Now()
	for _, m := range peers(300) {
		w := &wayTo{Member: m}
		a.took(w, now, time.Millisecond, 1e8, nil)
	}
	for i := range peersMax {
		if i%2 == 0 {
			a.took(a.next(now), now, 0, 0, errors.New(strings.Repeat("no way\n", 100)))
		}
	}
	var v fleet.Vitals
	a.fill(&v)
	if len(v.Far)+len(v.Unreachable) != peersMax || len(v.Unreachable) == 0 || len(v.Rates) != len(v.Far) {
		t.Errorf("found %d distances, %d rates and %d cuts", len(v.Far), len(v.Rates), len(v.Unreachable))
	}
	for name, why := range v.Unreachable {
		if len(why) > cutMax || strings.Contains(why, "\n") || v.Far[name] != 0 {
			t.Errorf("found %q, and %v seconds", why, v.Far[name])
		}
	}
	a.follow(nil, nil)
	if v = (fleet.Vitals{}); len(a.known) > 0 || a.next(now) != nil {
		t.Error("machines that are gone are kept")
	}
	if a.fill(&v); v.Far != nil || v.Unreachable != nil {
		t.Errorf("found %+v", v)
	}
}

// TestNextWay measures each machine in turn: first those in doubt, and those that can't be reached more often.
func TestNextWay(t *testing.T) {
	a := newWaysTable("a")
	a.follow(peers(6), nil)
	now := time.Now()
	seen := map[string]int{}
	round := func(n int) {
		for range n {
			now = now.Add(5 * time.Second)
			w := a.next(now)
			seen[w.Name]++
			var err error
			if w.Name == "m002" {
				err = errors.New("no route")
			}
			a.took(w, now, time.Millisecond, 0, err)
		}
	}
	if round(6); len(seen) != 6 {
		t.Errorf("found %v behind 6 measurements, want each machine once", seen)
	}
	clear(seen)
	if round(20); len(seen) != 6 || seen["m002"] < 4 {
		t.Errorf("found %v behind 20 more, want each, and m002, which can't be reached, more often", seen)
	}
	clear(seen)
	a.forget([]string{"m004", "m005", "x"}, false)
	if got := len(a.doubts()); got != 2 {
		t.Errorf("found %d in doubt", got)
	}
	var v fleet.Vitals
	if a.fill(&v); v.Far["m004"] != 0 || v.Far["m003"] == 0 {
		t.Errorf("found %v, want no distance of what is in doubt", v.Far)
	}
	if round(2); seen["m004"] != 1 || seen["m005"] != 1 || len(a.doubts()) > 0 {
		t.Errorf("found %v, want what is in doubt to be measured first, once", seen)
	}
	a.forget([]string{"m003"}, true)
	if v = (fleet.Vitals{}); a.doubts() == nil {
		t.Error("it isn't measured soon")
	}
	if a.fill(&v); v.Far["m003"] == 0 {
		t.Error("what ended well is forgotten")
	}
	all := peers(6)
	all[1].Incarnation = "j" // its agent has begun anew: what comes late isn't about it
	late := a.known["m001"]
	a.follow(all, nil)
	a.took(late, now, time.Second, 0, nil)
	if a.known["m001"].roundTrip != 0 {
		t.Error("a measurement of an earlier life is kept")
	}
}

// TestSteady has what measurements differ by not be written anew.
func TestSteady(t *testing.T) {
	for _, c := range [][3]float64{{0, 3, 3}, {3, 3.5, 3}, {3, 2.5, 3}, {3, 4, 4}, {3, 2, 2}} {
		if got := steady(c[0], c[1]); got != c[2] {
			t.Errorf("%v, then %v: found %v, want %v", c[0], c[1], got, c[2])
		}
	}
	if got := digits(0.000213999); got != 0.00021 {
		t.Errorf("found %v", got)
	}
}

// cutWays are ways to two machines, one of which can't be reached.
type cutWays struct{ there bool }

func (c *cutWays) Peers() []cluster.Member {
	if !c.there {
		return nil
	}
	return peers(2)
}

func (c *cutWays) Measure(_ context.Context, address string, _ bool) (time.Duration, float64, error) {
	return 0, 0, errors.New("no route to " + address)
}

// TestRecheck measures the machines of a gang that has failed, and has that written before it returns, also where they
// are gone.
func TestRecheck(t *testing.T) {
	for _, there := range []bool{true, false} {
		a := &Agent{o: Options{Ways: &cutWays{there}}, ways: newWaysTable("a"), vitalsNow: make(chan chan struct{})}
		a.closed, a.cancel = context.WithCancel(context.Background())
		a.ways.follow(peers(2), nil)
		a.ways.took(&wayTo{Member: peers(2)[0]}, time.Now(), time.Millisecond, 0, nil)
		var v fleet.Vitals
		written := make(chan struct{})
		go func() {
			told := <-a.vitalsNow
			a.ways.fill(&v)
			close(told)
			close(written)
		}()
		a.recheck([]string{"m000", "m001", "x"})
		<-written
		if want := 2; there && (len(v.Unreachable) != want || len(v.Far) > 0) || !there && len(v.Unreachable) > 0 {
			t.Errorf("there: %v: found %+v", there, v)
		}
		a.cancel()
	}
}
