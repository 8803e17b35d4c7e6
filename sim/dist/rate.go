// SPDX-License-Identifier: Apache-2.0

package dist

import (
	"fmt"
	"math"
	"sort"

	"github.com/disco-sim/disco/scenario"
)

// rateMax bounds rates, in arrivals a second, and epochMax the times at which they change.
const (
	rateMax  = 1e12
	epochMax = 1e12
)

// Rate is how many arrivals a second there are, as a function of simulated time: a Poisson process that need not be
// homogeneous. The zero Rate is none: IsSet is false, and all that needs one panics.
type Rate struct {
	law  rateLaw
	name *named
}

// Step is a rate in arrivals a second from a time on, in seconds.
type Step struct{ From, Rate float64 }

// rateLaw is one of the ways to give a rate.
type rateLaw interface {
	next(now float64, s *Stream) float64
	at(epoch float64) float64
	fmt.Stringer
}

// ConstantRate is a rate that never changes, > 0.
func ConstantRate(perSecond float64) Rate { return Rates(0, Step{0, perSecond}) }

// Rates is a rate that is constant between steps. The first is from 0, each from later than the one before. With a
// period > 0 they begin again after it; 0 is none, and the last rate stays. It panics with other steps.
func Rates(period float64, steps ...Step) Rate {
	r, wrong := rates(period, steps)
	if wrong != nil {
		panic(refused("dist: Rates: step %d: found %s, want %s", wrong.index, wrong.found, wrong.want))
	}
	return r
}

// RateFunc is a rate that a function of the time gives: from 0 to most, and no arrivals from end on (+Inf: it goes on).
// The function depends on nothing but the time. Arrivals come by thinning (Lewis and Shedler 1979): candidates at the
// rate most, each kept with probability at(t)/most, so that a most that is far above the function takes time.
func RateFunc(most, end float64, at func(epoch float64) float64) Rate {
	if !(most > 0 && most <= rateMax) || !(end > 0) || at == nil {
		panic(refused("dist: RateFunc(%v, %v, …): want a rate > 0 and <= %v, an end > 0 and a function", most, end,
			rateMax))
	}
	return Rate{law: &thinned{most, end, at}}
}

// IsSet reports whether there is a rate.
func (r Rate) IsSet() bool { return r.law != nil }

func (r Rate) must() rateLaw {
	if r.law == nil {
		panic(Error("dist: a rate that isn't set: want one from a constructor or ReadRate"))
	}
	return r.law
}

// Named is r with a name: see Dist.Named.
func (r Rate) Named(name string) Rate { return Rate{r.must(), intern(name)} }

// Name is the name; "" for none.
func (r Rate) Name() string { return r.name.name() }

// ID is the number of the name, as Dist.ID.
func (r Rate) ID() uint32 { return r.name.number() }

// String is the rate as text, such as 5/s; "none" where it isn't set.
func (r Rate) String() string {
	if r.law == nil {
		return "none"
	}
	return r.law.String()
}

// At is the rate at a time, in arrivals a second.
func (r Rate) At(epoch float64) float64 { return r.must().at(epoch) }

// Next is the epoch of the first arrival after now; +Inf where none comes any more.
func (r Rate) Next(now float64, s *Stream) float64 {
	t := r.must().next(now, s)
	if t <= now {
		return math.Nextafter(now, math.Inf(1))
	}
	return t
}

// steps is a rate that is constant between them.
type steps struct {
	period float64 // 0: none
	list   []Step
	sums   []float64 // expected arrivals up to each step; with a period, to its end too
}

// rates is Rates, or says what is wrong.
func rates(period float64, list []Step) (Rate, *listFault) {
	if len(list) == 0 {
		return Rate{}, &listFault{0, -1, "no rates", "one or more"}
	}
	if want := scenario.MoreThan(list[len(list)-1].From).AtMost(epochMax); period != 0 && !want.Holds(period) {
		return Rate{}, &listFault{1, -1, "the period " + number(period), want.String()}
	}
	r := &steps{period: period, list: append([]Step(nil), list...)}
	end, sum, most := 0.0, 0.0, 0.0
	for i, s := range list {
		switch want := scenario.MoreThan(end).AtMost(epochMax); {
		case i == 0 && s.From != 0:
			return Rate{}, &listFault{0, i, "from " + number(s.From), "from 0"}
		case i > 0 && !want.Holds(s.From):
			return Rate{}, &listFault{0, i, "from " + number(s.From), want.String()}
		case !scenario.Between(0, rateMax).Holds(s.Rate):
			return Rate{}, &listFault{0, i, "rate " + number(s.Rate), scenario.Between(0, rateMax).String()}
		}
		if i > 0 {
			sum += list[i-1].Rate * (s.From - end)
		}
		end, most = s.From, max(most, s.Rate)
		r.sums = append(r.sums, sum)
	}
	if period > 0 {
		r.sums = append(r.sums, sum+list[len(list)-1].Rate*(period-end))
		sum = r.sums[len(list)]
	}
	if most == 0 || period > 0 && sum == 0 {
		return Rate{}, &listFault{0, -1, "rates that are all 0", "one above 0"}
	}
	return Rate{law: r}, nil
}

// locate gives the beginning of the period in which an epoch lies, the time within it and the number of the step.
func (r *steps) locate(epoch float64) (start, phase float64, i int) {
	if phase = max(epoch, 0); r.period > 0 {
		start = math.Floor(phase/r.period) * r.period
		phase = min(max(phase-start, 0), math.Nextafter(r.period, 0))
	}
	return start, phase, sort.Search(len(r.list), func(i int) bool { return r.list[i].From > phase }) - 1
}

func (r *steps) at(epoch float64) float64 {
	_, _, i := r.locate(epoch)
	return r.list[i].Rate
}

// next is where the expected number of arrivals since now is an exponential number: the inverse of what thinning
// approaches, with one draw an arrival.
func (r *steps) next(now float64, s *Stream) float64 {
	need := s.ExpFloat64()
	start, phase, i := r.locate(now)
	end := math.Inf(1)
	if i+1 < len(r.list) {
		end = r.list[i+1].From
	} else if r.period > 0 {
		end = r.period
	}
	rate := r.list[i].Rate
	if rate > 0 && phase+need/rate < end {
		return now + need/rate // apart, since it is exact for any time
	}
	need += r.sums[i] + rate*(phase-r.list[i].From)
	if r.period > 0 {
		total := r.sums[len(r.list)]
		cycles := math.Floor(need / total)
		start += cycles * r.period
		need = min(max(need-cycles*total, 0), math.Nextafter(total, 0))
	}
	i = sort.Search(len(r.list), func(i int) bool { return r.sums[i] > need }) - 1
	if r.list[i].Rate == 0 {
		return math.Inf(1)
	}
	return start + r.list[i].From + (need-r.sums[i])/r.list[i].Rate
}

// Expected is the expected number of arrivals from one time to another, for rates that are made of steps; NaN for a
// RateFunc.
func (r Rate) Expected(from, to float64) float64 {
	l, ok := r.must().(*steps)
	if !ok {
		return math.NaN()
	}
	return l.until(to) - l.until(from)
}

// until is the expected number of arrivals since 0.
func (r *steps) until(epoch float64) float64 {
	start, phase, i := r.locate(epoch)
	n := r.sums[i] + r.list[i].Rate*(phase-r.list[i].From)
	if r.period > 0 {
		n += start / r.period * r.sums[len(r.list)]
	}
	return n
}

func (r *steps) String() string {
	if len(r.list) == 1 {
		return number(r.list[0].Rate) + "/s"
	}
	text := fmt.Sprintf("rates(%d steps)", len(r.list))
	if r.period > 0 {
		text += " every " + number(r.period) + " s"
	}
	return text
}

// thinned is a rate that a function gives.
type thinned struct {
	most, end float64
	rate      func(epoch float64) float64
}

// candidatesMax bounds how many candidates in a row are refused: about a second of a processor's time.
const candidatesMax = 1 << 26

func (r *thinned) next(now float64, s *Stream) float64 {
	t := max(now, 0)
	for range candidatesMax {
		if t += s.ExpFloat64() / r.most; t >= r.end {
			return math.Inf(1)
		}
		if s.Float64()*r.most < r.at(t) {
			return t
		}
	}
	panic(refused("dist: RateFunc: none of %d candidates from %v s to %v s became an arrival: want an end where "+
		"the rate stays 0, and a most near what the function gives", candidatesMax, now, t))
}

func (r *thinned) at(epoch float64) float64 {
	if epoch >= r.end {
		return 0
	}
	x := r.rate(epoch)
	if !(x >= 0 && x <= r.most) {
		panic(refused("dist: RateFunc: found the rate %v at %v s, want one from 0 to %v", x, epoch, r.most))
	}
	return x
}

func (r *thinned) String() string {
	return fmt.Sprintf("rates of a function, at most %s/s", number(r.most))
}
