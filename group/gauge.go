// SPDX-License-Identifier: Apache-2.0

package group

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/disco-sim/disco/internal/bridge/offer"
	"github.com/disco-sim/disco/internal/session"
)

// What is measured between two machines (docs/bridge.md, section 5).
const (
	probes      = 10                     // round trips, of which the least counts
	probesLimit = 500 * time.Millisecond // for all of them
	rateBytes   = 4 << 20                // that are sent at most
	warmBytes   = 1 << 20                // that are sent before, which take new memory, and count where they take long
	rateTime    = 100 * time.Millisecond // for how long they are sent
	rateLimit   = time.Second            // until they have arrived
	gaugeBytes  = session.MessageBytes - session.HeaderBytes
)

// gaugeLane marks the frames that are sent to measure the rate. No lane and no file has it.
const gaugeLane = math.MaxUint32

// gauge measures what lies between this machine and one with a higher number.
type gauge struct {
	began time.Time
	pongs chan pong
	room  chan struct{} // a session may take frames again
	bytes atomic.Uint64 // a second, as bits of a float64; 0: not measured
}

// pong is the answer to a ping.
type pong struct {
	sent int64         // when the ping was, since began
	took time.Duration // without what it took on the other machine
}

func newGauge() *gauge {
	return &gauge{began: time.Now(), pongs: make(chan pong, probes), room: make(chan struct{}, 1)}
}

// rate is the bytes a second that the way carries; 0: not known.
func (g *gauge) rate() float64 { return math.Float64frombits(g.bytes.Load()) }

// take takes a frame if it is about measuring.
func (g *gauge) take(h session.Header, body []byte) bool {
	if h.Type != session.Pong {
		return h.Type == session.Blob && h.Lane == gaugeLane // it was there to be sent
	}
	var times [3]int64 // the session has looked at the length
	for i := range times {
		times[i] = int64(binary.LittleEndian.Uint64(body[8*i:]))
	}
	took := max(int64(time.Since(g.began))-times[0]-max(times[2]-times[1], 0), 1)
	select {
	case g.pongs <- pong{times[0], time.Duration(took)}:
	default: // nobody has asked for so many
	}
	return true
}

// acked is for room in a session's resend buffer.
func (g *gauge) acked() {
	select {
	case g.room <- struct{}{}:
	default:
	}
}

// ping asks for one answer.
func (g *gauge) ping(s *session.Session) (sent int64, err error) {
	body := s.State(session.Header{Type: session.Ping}, 8)
	sent = int64(time.Since(g.began))
	binary.LittleEndian.PutUint64(body, uint64(sent))
	return sent, s.Flush()
}

// pong waits for the answer to a ping. What is late of one before is passed over.
func (g *gauge) pong(sent int64, limit <-chan time.Time) (time.Duration, bool) {
	for {
		select {
		case p := <-g.pongs:
			if p.sent == sent {
				return p.took, true
			}
		case <-limit:
			return 0, false
		}
	}
}

// measure measures the way by both sessions, on which nobody sends anything else meanwhile.
func (g *gauge) measure(machine int, s [2]*session.Session) offer.Measure {
	m := offer.Measure{Machine: machine}
	limit := time.NewTimer(probesLimit)
	defer limit.Stop()
	for range probes {
		sent, err := g.ping(s[session.Express])
		if err != nil {
			return m
		}
		took, ok := g.pong(sent, limit.C)
		if !ok {
			break
		}
		if m.RoundTrip == 0 || took < m.RoundTrip {
			m.RoundTrip = took
		}
	}
	if m.RoundTrip > 0 {
		began := time.Now()
		m.SecondsPerByte = g.send(s[session.Bulk], m.RoundTrip, warmBytes)
		if time.Since(began) < rateTime {
			m.SecondsPerByte = g.send(s[session.Bulk], m.RoundTrip, rateBytes)
		}
	}
	if m.SecondsPerByte > 0 {
		g.bytes.Store(math.Float64bits(1 / m.SecondsPerByte))
	}
	return m
}

// send sends what takes a moment, and gives the seconds that a byte takes: at least, where not all has arrived in time.
// 0: nothing could be sent.
func (g *gauge) send(s *session.Session, roundTrip time.Duration, most int) float64 {
	limit := time.NewTimer(rateLimit)
	defer limit.Stop()
	noise := make([]byte, gaugeBytes) // so that compression makes it no shorter
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	began, bytes := time.Now(), 0
	for bytes < most && time.Since(began) < rateTime {
		body, ok := s.Frame(session.Header{Type: session.Blob, Lane: gaugeLane}, gaugeBytes)
		if ok {
			bytes += copy(body, noise)
		} else {
			select {
			case <-g.room:
			case <-limit.C:
				return time.Since(began).Seconds() / float64(max(bytes, 1))
			}
		}
		if s.Flush() != nil {
			return 0
		}
	}
	sent, err := g.ping(s)
	if err != nil {
		return 0
	}
	_, arrived := g.pong(sent, limit.C)
	took := time.Since(began)
	if arrived {
		took = max(took-roundTrip, took/10)
	}
	return took.Seconds() / float64(bytes)
}
