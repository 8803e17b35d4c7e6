// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/disco-sim/disco/internal/seed"
	"github.com/disco-sim/disco/sim/dist"
)

// TestCalendar: work, next and between against a walk in steps of 1/64 s, in which all times are whole.
func TestCalendar(t *testing.T) {
	rnd := rand.New(rand.NewPCG(seed.Of(t), 1))
	for range 300 {
		c := &Calendar{Cycle: float64(8+rnd.IntN(30)) / 64}
		for at, end := 0, int(c.Cycle*64); ; {
			from := at + rnd.IntN(4)
			until := from + 1 + rnd.IntN(6)
			if until > end {
				break
			}
			c.Windows = append(c.Windows, Window{float64(from) / 64, float64(until) / 64})
			at = until + 1
		}
		if len(c.Windows) == 0 {
			continue
		}
		open := func(step int) bool { // whether the calendar is open from this step to the next
			at := math.Mod(float64(step), c.Cycle*64) / 64
			for _, w := range c.Windows {
				if at >= w.From && at < w.Until {
					return true
				}
			}
			return false
		}
		for range 20 {
			begin, work := rnd.IntN(200), rnd.IntN(100)
			first := begin
			for !open(first) {
				first++
			}
			if got := c.next(float64(begin) / 64); got != float64(first)/64 {
				t.Fatalf("%+v: next from %v is %v, want %v", c, float64(begin)/64, got, float64(first)/64)
			}
			end := first
			for left := work; left > 0; end++ {
				if open(end) {
					left--
				}
			}
			if got := c.work(float64(begin)/64, float64(work)/64); got != float64(end)/64 {
				t.Fatalf("%+v: %v s from %v on end at %v, want %v", c, float64(work)/64, float64(begin)/64, got,
					float64(end)/64)
			}
			if got := c.between(float64(begin)/64, float64(end)/64); got != float64(work)/64 {
				t.Fatalf("%+v: %v s from %v to %v, want %v", c, got, float64(begin)/64, float64(end)/64,
					float64(work)/64)
			}
		}
	}
	var always *Calendar
	if always.next(3) != 3 || always.work(3, 2) != 5 || always.between(3, 5) != 2 {
		t.Error("without a calendar time isn't all there is")
	}
}

// TestBreakdowns: work ends when what its breakdowns leave adds up to it.
func TestBreakdowns(t *testing.T) {
	l := &line{spec: &Line{Failure: dist.Constant(3), Repair: dist.Constant(1)}, downFrom: 3, downTo: 4}
	for _, c := range []struct{ begin, work, end float64 }{
		{0, 2, 2}, {2, 1, 3}, {3, 1, 5}, {5, 2.5, 8.5}, {8.5, 7, 17.5}, {40, 0.5, 40.5}, {43, 0, 44}, {44, 300, 443},
	} {
		if got := l.finish(c.begin, c.work, 1000); got != c.end {
			t.Errorf("%v s from %v on end at %v, want %v", c.work, c.begin, got, c.end)
		}
	}
	if got := l.finish(990, 1e9, 1000); got < 1000 {
		t.Errorf("work without end ends at %v", got)
	}
}

// TestQueue: first come, first served, and no more memory than the longest queue takes.
func TestQueue(t *testing.T) {
	rnd := rand.New(rand.NewPCG(seed.Of(t), 1))
	var q queue
	var plain []owing
	next := int32(0)
	for range 100_000 {
		if rnd.IntN(2) == 0 && len(plain) < 40 {
			w := owing{next % 5, 1 + rnd.Int64N(9)}
			next += 1 + rnd.Int32N(2)*4 // sometimes the same customer again
			q.push(w)
			if n := len(plain); n > 0 && plain[n-1].customer == w.customer {
				plain[n-1].quantity += w.quantity
			} else {
				plain = append(plain, w)
			}
		} else if len(plain) > 0 {
			if *q.first() != plain[0] {
				t.Fatalf("first is %+v, want %+v", *q.first(), plain[0])
			}
			q.pop()
			plain = plain[1:]
		}
		if q.len() != len(plain) || cap(q.all) > 256 {
			t.Fatalf("%d of %d, want %d", q.len(), cap(q.all), len(plain))
		}
	}
}
