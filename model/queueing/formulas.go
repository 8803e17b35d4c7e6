// SPDX-License-Identifier: Apache-2.0

package queueing

import "math"

// steady is what holds in the long run at one station.
type steady struct {
	wait    float64 // probability that a customer who is taken in has to wait
	blocked float64 // probability that a customer finds no place
	present float64 // customers in the mean
	queued  float64 // of them waiting
	stay    float64 // seconds that a customer is there
	delay   float64 // of them waiting
}

// erlangB is the probability that all of c servers are busy when no customer can wait and
// work arrives at a rate of a service times per service time (Erlang 1917).
func erlangB(a float64, c int) float64 {
	b := 1.0
	for k := 1; k <= c; k++ {
		b = a * b / (float64(k) + a*b)
	}
	return b
}

// erlangC is the probability of having to wait for one of c servers, a < c.
func erlangC(a float64, c int) float64 {
	b := erlangB(a, c)
	rho := a / float64(c)
	return b / (1 - rho*(1-b))
}

// markovian is M/M/c: Poisson arrivals at a rate, exponential service.
func markovian(rate, service float64, c int) steady {
	a := rate * service
	s := steady{wait: erlangC(a, c)}
	s.delay = s.wait * service / (float64(c) - a)
	return s.complete(rate, service)
}

// complete fills in what follows from the mean wait, by Little's law.
func (s steady) complete(rate, service float64) steady {
	s.stay = s.delay + service
	s.queued, s.present = rate*s.delay, rate*s.stay
	return s
}

// pollaczek is M/G/1: one server, service times of any distribution with the given
// squared coefficient of variation (Pollaczek 1930, Khinchine 1932).
func pollaczek(rate, service, scv float64) steady {
	rho := rate * service
	s := steady{wait: rho, delay: rho * service * (1 + scv) / (2 * (1 - rho))}
	return s.complete(rate, service)
}

// lossy is M/G/c/c: no customer waits, and the distribution of the service time doesn't
// matter (Sevastyanov 1957).
func lossy(rate, service float64, c int) steady {
	b := erlangB(rate*service, c)
	return steady{blocked: b, stay: service, present: rate * (1 - b) * service}
}

// bounded is M/M/c/K with K = c + buffer: a birth-and-death process, whose states are
// weighed relative to the first; the weights are scaled down before they overflow.
func bounded(rate, service float64, c, buffer int) steady {
	const huge = 1e200
	weight, total, present, queued, waits := 1.0, 1.0, 0.0, 0.0, 0.0
	if c == 0 {
		waits = 1
	}
	last := c + buffer
	for n := 1; n <= last; n++ {
		weight *= rate * service / float64(min(n, c))
		if weight > huge {
			weight, total, present, queued, waits = weight/huge, total/huge, present/huge, queued/huge, waits/huge
		}
		total += weight
		present += weight * float64(n)
		queued += weight * float64(max(0, n-c))
		if n >= c && n < last {
			waits += weight
		}
	}
	s := steady{blocked: weight / total, present: present / total, queued: queued / total}
	taken := rate * (1 - s.blocked)
	s.wait = waits / total / (1 - s.blocked)
	s.stay, s.delay = s.present/taken, s.queued/taken
	return s
}

// closedStation is one station of a closed network: its customers' visits relative to
// those of others, and its servers; math.MaxInt for a delay without a queue.
type closedStation struct {
	visits, service float64
	servers         int
}

// closedStates are the probabilities of 0, 1, … n customers at each station of a
// closed network of n customers and exponential service times (Gordon and Newell
// 1967), and the rate at which customers pass the place that relative visits count
// from. It convolves the stations' weights, once leaving each out (Buzen 1973): about
// stations² × n² steps.
func closedStates(stations []closedStation, n int) (states [][]float64, rate float64) {
	weights := make([][]float64, len(stations))
	for i, s := range stations {
		w := make([]float64, n+1)
		w[0] = 1
		for k := 1; k <= n; k++ {
			w[k] = w[k-1] * s.visits * s.service / float64(min(k, s.servers))
		}
		weights[i] = w
	}
	all := convolve(weights, -1, n)
	for i := range stations {
		others := convolve(weights, i, n)
		p := make([]float64, n+1)
		for k := range p {
			p[k] = weights[i][k] * others[n-k] / all[n]
		}
		states = append(states, p)
	}
	return states, all[n-1] / all[n]
}

// convolve combines the weights of all stations but one.
func convolve(weights [][]float64, but, n int) []float64 {
	sum := make([]float64, n+1)
	sum[0] = 1
	next := make([]float64, n+1)
	for i, w := range weights {
		if i == but {
			continue
		}
		for k := range next {
			next[k] = 0
			for j := 0; j <= k; j++ {
				next[k] += w[j] * sum[k-j]
			}
		}
		sum, next = next, sum
	}
	return sum
}

// finite reports whether all of a station's values are numbers.
func (s steady) finite() bool {
	sum := s.wait + s.blocked + s.present + s.queued + s.stay + s.delay
	return !math.IsNaN(sum) && !math.IsInf(sum, 0)
}
