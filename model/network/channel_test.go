// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/disco-sim/disco/model/measure"
	"github.com/disco-sim/disco/model/timeline"
	"github.com/disco-sim/disco/node"
)

// sendLog is a simproc that keeps what is sent.
type sendLog struct {
	arrivals []float64
	packets  []packet
}

func (l *sendLog) Recording() bool { return false }
func (l *sendLog) Record(node.Row) {}

func (l *sendLog) Send(_ node.LinkID, epoch float64, data []byte) error {
	var p packet
	p.get(&node.Event{Data: data})
	l.arrivals, l.packets = append(l.arrivals, epoch), append(l.packets, p)
	return nil
}

// refOutcome is what becomes of one packet.
type refOutcome struct {
	why     cause // causes: it arrives
	at      float64
	waited  float64
	carried bool
}

// refChannel simulates a channel in the obvious way: moment by moment, with a list
// of packets that wait, one that is being sent and some on the cable. Lossy spells
// have probability 1, so that it needs no random numbers.
func refChannel(arrivals []float64, bytes []uint32, down []timeline.Window, lossy, slow []timeline.Window, rate, delay,
	added float64, buffer int) []refOutcome {
	outcomes := make([]refOutcome, len(arrivals))
	var waiting []int
	sending, until := -1, never
	flying := map[int]float64{}
	in := func(ws []timeline.Window, t float64) bool {
		return slices.ContainsFunc(ws, func(w timeline.Window) bool { return w.From <= t && t < w.To })
	}
	begin := func(now float64) {
		if sending < 0 && len(waiting) > 0 {
			sending, waiting = waiting[0], waiting[1:]
			outcomes[sending].waited = now - arrivals[sending]
			until = now + sendingTime(bytes[sending], rate)
		}
	}
	next, cut := 0, 0
	for {
		now := until
		kind := "sent"
		land := -1
		for i, at := range flying {
			if at < now || at == now && (land < 0 || i < land) {
				now, kind, land = at, "lands", i
			}
		}
		if cut < len(down) && down[cut].From < now {
			now, kind = down[cut].From, "cut"
		}
		if next < len(arrivals) && arrivals[next] < now {
			now, kind = arrivals[next], "arrives"
		}
		if now == never {
			return outcomes
		}
		switch kind {
		case "arrives":
			i := next
			next++
			switch {
			case in(down, now):
				outcomes[i] = refOutcome{why: lostOutage, at: now}
			case sending >= 0 && len(waiting) >= buffer:
				outcomes[i] = refOutcome{why: lostFull, at: now}
			default:
				waiting = append(waiting, i)
				begin(now)
			}
		case "sent":
			i := sending
			sending, until = -1, never
			outcomes[i].carried = true
			if in(lossy, now) {
				outcomes[i].why, outcomes[i].at = lostRandom, now
			} else {
				d := delay
				if in(slow, now) {
					d += added
				}
				flying[i] = now + d
			}
			begin(now)
		case "lands":
			outcomes[land].why, outcomes[land].at = causes, now
			delete(flying, land)
		case "cut":
			cut++
			gone := append(slices.Clone(waiting), slices.Collect(keysOf(flying))...)
			if sending >= 0 {
				gone = append(gone, sending)
			}
			for _, i := range gone {
				outcomes[i].why, outcomes[i].at = lostOutage, now
			}
			waiting, sending, until = nil, -1, never
			clear(flying)
		}
	}
}

func sendingTime(bytes uint32, rate float64) float64 { return sending(float64(bytes), rate) }

func keysOf(m map[int]float64) func(func(int) bool) {
	return func(yield func(int) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// TestChannelAgainstReference holds a channel, which decides a packet's outcome when it enters,
// against one that goes moment by moment: outcomes, arrivals and sums are the same.
func TestChannelAgainstReference(t *testing.T) {
	var outcomes [causes + 1]int
	for seed := range uint64(400) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		const horizon = 1e6
		var arrivals []float64
		var bytes []uint32
		for now, n := 0.0, rnd.IntN(300); n > 0; n-- {
			now += rnd.ExpFloat64() * []float64{0.3, 1, 3}[rnd.IntN(3)]
			arrivals, bytes = append(arrivals, now), append(bytes, uint32(1+rnd.IntN(2000)))
		}
		spells := func(n int, length float64) []timeline.Window {
			var ws []timeline.Window
			for range rnd.IntN(n) {
				from := rnd.Float64() * 300
				ws = append(ws, timeline.Window{From: from, To: from + rnd.ExpFloat64()*length})
			}
			return timeline.Merge(ws)
		}
		down, lossy, slow := spells(6, 10), spells(4, 10), spells(4, 20)
		const rate, delay, added = 8000.0, 2.5, 4.0
		buffer := rnd.IntN(6)
		want := refChannel(arrivals, bytes, down, lossy, slow, rate, delay, added, buffer)

		r := &router{schedule: &schedule{spans: timeline.NewSpans([]timeline.Window{{From: 50, To: 90}}, horizon)},
			lossOf: make(map[uint32]*flowLosses), lostIn: make([][causes]int64, 5)}
		n := r.schedule.spans.Count()
		c := &channel{rate: rate, delay: delay, horizon: horizon, packetsMax: uint64(buffer), down: down, chance: rnd,
			added: courseOf(slow, added).Reader(), loss: courseOf(lossy, 1).Reader(),
			busyIn: make([]float64, n), waitIn: make([]float64, n), carriedIn: make([]int64, n),
			lossIn: make([]int64, n)}
		var log sendLog
		for i, at := range arrivals {
			if rnd.IntN(4) == 0 { // somebody looks in between
				c.advance(r, at-(at-max(0, at-0.5))*rnd.Float64())
			}
			if err := c.accept(r, &log, at, &packet{flow: uint32(i), bytes: bytes[i]}); err != nil {
				t.Fatal(err)
			}
		}
		part := c.close(r, horizon)
		if err := agree(want, arrivals, r, &log, &part); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, f := range want {
			outcomes[f.why]++
		}
	}
	for why, n := range outcomes {
		if n < 1000 && cause(why) != lostRoute {
			t.Errorf("only %d packets of outcome %d: too few to show anything", n, why)
		}
	}
}

func courseOf(ws []timeline.Window, value float64) timeline.Steps {
	var spells []timeline.Piece
	for _, w := range ws {
		spells = append(spells, timeline.Piece{Window: w, Value: value})
	}
	return timeline.NewSteps(spells, func(sum, x float64) float64 { return sum + x })
}

func agree(want []refOutcome, arrivals []float64, r *router, log *sendLog, part *channelReport) error {
	at := make(map[uint32]int)
	for k, p := range log.packets {
		at[p.flow] = k
	}
	var wait float64
	var carried int64
	for i, f := range want {
		if f.carried {
			carried++
		}
		k, arrived := at[uint32(i)]
		if arrived != (f.why == causes) || arrived && !near(log.arrivals[k], f.at, 1e-12) {
			return fmt.Errorf("packet %d of %v: want %+v, arrived %v", i, arrivals[i], f, arrived)
		}
		if arrived {
			wait += f.waited
			if !near(log.packets[k].delay, f.at-arrivals[i], 1e-9) {
				return fmt.Errorf("packet %d took %v, want %v", i, log.packets[k].delay, f.at-arrivals[i])
			}
			continue
		}
		if l := r.lossOf[uint32(i)]; l == nil || l[f.why] != 1 {
			return fmt.Errorf("packet %d of %v: want %+v, lost %v", i, arrivals[i], f, l)
		}
	}
	if part.Carried != carried || part.Handed+sum(part.Refused[:]) != int64(len(want)) ||
		part.Sent != int64(len(log.arrivals)) {
		return fmt.Errorf("%+v, want %d carried of %d", part.channelBooks, carried, len(want))
	}
	if total(part.BusyIn)-part.Busy > 1e-9 || math.Abs(total(part.WaitIn)-part.Wait) > 1e-9 || part.Wait < wait-1e-9 ||
		sum(part.LostIn) != sum(part.Refused[:])+sum(part.Lost[:]) || sum(part.CarriedIn) != carried {
		return fmt.Errorf("spans don't add up: %+v, waited at least %v", part, wait)
	}
	return nil
}

func sum(x []int64) (s int64) {
	for _, v := range x {
		s += v
	}
	return s
}

func total(x []float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}

// TestChannelAllocates: a packet costs no allocation on its way.
func TestChannelAllocates(t *testing.T) {
	r := &router{schedule: &schedule{}, lossOf: make(map[uint32]*flowLosses), lostIn: make([][causes]int64, 1)}
	c := &channel{rate: 8e6, delay: 0.01, horizon: 1e9, packetsMax: 100}
	var p nowhere
	now := 0.0
	pass := func() {
		for range 200 { // some are lost to the full buffer
			if err := c.accept(r, &p, now, &packet{bytes: 1000}); err != nil {
				t.Fatal(err)
			}
		}
		now += 0.15
	}
	pass()
	if n := testing.AllocsPerRun(100, pass); n != 0 {
		t.Errorf("%v allocations for 200 packets", n)
	}
	var l measure.Latencies
	if err := l.Add(0.001); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { _ = l.Add(0.001) }); n != 0 {
		t.Errorf("%v allocations for a latency", n)
	}
}

type nowhere struct{ n int }

// Send counts.
func (p *nowhere) Send(node.LinkID, float64, []byte) error { p.n++; return nil }

func (p *nowhere) Recording() bool { return false }
func (p *nowhere) Record(node.Row) {}

func BenchmarkChannel(b *testing.B) {
	r := &router{schedule: &schedule{}, lossOf: make(map[uint32]*flowLosses), lostIn: make([][causes]int64, 1)}
	c := &channel{rate: 8e9, delay: 0.01, horizon: 1e12, packetsMax: 1000}
	rnd := rand.New(rand.NewPCG(1, 2))
	var p nowhere
	now := 0.0
	for b.Loop() {
		if err := c.accept(r, &p, now, &packet{bytes: 1000}); err != nil {
			b.Fatal(err)
		}
		now += rnd.ExpFloat64() * 1.25e-6
	}
}
