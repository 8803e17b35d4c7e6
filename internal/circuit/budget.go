// SPDX-License-Identifier: Apache-2.0

package circuit

import "time"

// Budget bounds second tries by what is tried for the first time, so that a fault of all can't multiply the load: each
// first try adds a part of a token, and so does time; a second try takes a whole one (Site Reliability Engineering,
// O'Reilly 2016, chapter 21, "per-client retry budget"). It is full at first. One goroutine uses it.
type Budget struct {
	Share float64       // tokens for a first try
	Each  time.Duration // in which time adds a token; more than 0
	Most  float64       // tokens at most; 1 or more

	begun  bool
	tokens float64
	at     time.Duration
}

// First notes a first try. now is by any clock that never goes back.
func (b *Budget) First(now time.Duration) {
	b.fill(now)
	b.tokens = min(b.tokens+b.Share, max(b.Most, 1))
}

// Take takes a token for a second try, if there is one.
func (b *Budget) Take(now time.Duration) bool {
	if b.Wait(now) > 0 {
		return false
	}
	b.Owe(now)
	return true
}

// Owe takes a token whether there is one or not: the next ones wait for longer.
func (b *Budget) Owe(now time.Duration) {
	b.fill(now)
	b.tokens--
}

// Wait is how long it takes until there is a token, if nobody takes one meanwhile; 0: there is.
func (b *Budget) Wait(now time.Duration) time.Duration {
	b.fill(now)
	if b.tokens >= 1 {
		return 0
	}
	return time.Duration((1-b.tokens)*float64(b.Each)) + 1 // behind it there is one, however it was rounded
}

// fill adds what time does.
func (b *Budget) fill(now time.Duration) {
	if !b.begun {
		b.begun, b.tokens, b.at = true, max(b.Most, 1), now
	}
	if now > b.at {
		b.tokens += float64(now-b.at) / float64(b.Each)
		b.at = now
	}
	b.tokens = min(b.tokens, max(b.Most, 1))
}
