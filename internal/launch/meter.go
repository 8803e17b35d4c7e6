// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"sync"
	"time"

	"github.com/disco-sim/disco/shard"
)

// due is a strategy that sees by itself that something is to move.
type due interface {
	Due(time float64, events uint64) bool
}

// shown is what it reads of boards.
type shown interface {
	progress() (epoch float64, events uint64)
	worked() []float64
}

// meter measures how fast a run is whose nodes may move, and what it costs to look whether they should. It reads
// boards, so that it takes nothing of the workers' time. Its time stands still while the workers do, and from one
// replication to the next.
type meter struct {
	mu      sync.Mutex // guards all, and calls of the strategy
	at      time.Time  // of the last look
	stopped bool       // between two legs
	onBoard uint64     // events that boards showed then
	time    float64    // wall seconds
	events  uint64
	recent  [5]moment // the last looks, the oldest at next
	next    int
	speed   float64 // over these

	asked  time.Time // when the leg under way was told to end for a look; zero: it wasn't
	worked []float64 // by worker: its seconds then
}

// moment is how far a run had come.
type moment struct {
	time   float64
	events uint64
}

// read takes in what boards show.
func (m *meter) read(b shown, now time.Time) {
	_, events := b.progress()
	if m.stopped || m.at.IsZero() || events < m.onBoard { // another replication has begun
		m.at, m.onBoard = now, events
		return
	}
	m.time, m.events = m.time+now.Sub(m.at).Seconds(), m.events+events-m.onBoard
	m.at, m.onBoard = now, events
}

// look is called now and then while the run goes on; true: the strategy is due.
func (m *meter) look(b shown, s shard.Strategy, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped {
		return false
	}
	m.read(b, now)
	oldest := &m.recent[m.next]
	if d := m.time - oldest.time; d > 0 && oldest.time > 0 {
		m.speed = float64(m.events-oldest.events) / d
	}
	*oldest = moment{m.time, m.events}
	m.next = (m.next + 1) % len(m.recent)
	d, ok := s.(due)
	return ok && d.Due(m.time, m.events)
}

// asks notes that a leg is about to be told to end, with how long each worker has worked.
func (m *meter) asks(worked []float64, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked, m.worked = now, worked
}

// stop is called when all workers stand still, and tells for how long even the busiest of them had nothing to do since
// the leg was told to end, in seconds.
func (m *meter) stop(b shown, now time.Time) (lost float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read(b, now)
	m.stopped = true
	if m.asked.IsZero() {
		return 0
	}
	lost = now.Sub(m.asked).Seconds()
	for w, seconds := range b.worked() {
		lost = min(lost, now.Sub(m.asked).Seconds()-max(0, seconds-m.worked[w]))
	}
	m.asked = time.Time{}
	return max(0, lost)
}

// goOn is called when the next leg is about to begin.
func (m *meter) goOn(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped, m.at = false, now
}

// ask asks the strategy.
func (m *meter) ask(s shard.Strategy, trend *shard.Trend, state *shard.State) ([]shard.Move, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	state.Time, state.Events, state.Speed = m.time, m.events, m.speed
	return trend.Ask(s, state)
}
