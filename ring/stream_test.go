// SPDX-License-Identifier: Apache-2.0

package ring_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/disco-sim/disco/internal/race"
	"github.com/disco-sim/disco/ring"
)

// Two goroutines and a million records of seeded lengths and contents, through a
// ring that holds a few dozen, batches and polls of random size. Nothing is lost,
// doubled, torn or out of order.
func TestTwoGoroutinesHandOverEveryRecord(t *testing.T) {
	records := 1_000_000
	if race.Enabled {
		records = 30_000
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, capacity := range []int{256, 4096} {
		p, c := open(t, capacity, ^uint64(0)-uint64(4*capacity)+1)
		producer := producing{p: p, draw: newSeeded(seed)}
		failed := make(chan error, 1)
		go func() { failed <- producer.run(seed, records/2) }()
		if err := consumeSeeded(c, seed, records/2); err != nil {
			t.Fatalf("seed %d, capacity %d: %v", seed, capacity, err)
		}
		if err := <-failed; err != nil {
			t.Fatalf("seed %d, capacity %d: producer: %v", seed, capacity, err)
		}
		if small := capacity < 4096; (producer.alone != 0) == small {
			t.Errorf("capacity %d: %d records were published alone", capacity, producer.alone)
		}
	}
}

// seeded draws the length of the next record, and its words from another source.
type seeded struct{ lengths, words *rand.PCG }

func newSeeded(seed uint64) seeded {
	return seeded{rand.NewPCG(seed, 1), rand.NewPCG(seed, 2)}
}

func (s seeded) length(limit int) int {
	v := s.lengths.Uint64()
	if v%64 == 0 {
		return int(v >> 32 % uint64(limit+1))
	}
	return int(v >> 32 % uint64(min(limit, 96)+1))
}

// producing is the producer's side of seeded records.
type producing struct {
	p     *ring.Producer
	draw  seeded
	body  []byte
	alone int // records that PublishAlone took
}

// run sends the records. Half of them it sends one by one, as to a peer that answers each.
func (x *producing) run(seed uint64, records int) error {
	rng := rand.New(rand.NewPCG(seed, 3))
	for sent := range records {
		n, how := x.draw.length(x.p.MaxRecord()), rng.IntN(8)
		if sent%1024 < 512 {
			how = 6
			for !x.p.Drained() {
				runtime.Gosched()
				if err := x.p.Check(); err != nil {
					return err
				}
			}
		}
		x.body = x.body[:0]
		for ; n >= 8; n -= 8 {
			x.body = binary.LittleEndian.AppendUint64(x.body, x.draw.words.Uint64())
		}
		for ; n > 0; n-- {
			x.body = append(x.body, byte(x.draw.words.Uint64()))
		}
		if how >= 6 && x.publishAlone() {
			continue
		}
		if err := x.claim(); err != nil {
			return err
		}
		if how == 2 || how >= 6 {
			x.p.PublishClaimed()
			continue
		}
		x.p.Commit()
		switch how {
		case 0:
			x.p.Publish()
		case 1:
			x.p.PublishFenced()
		}
	}
	x.p.Close()
	return nil
}

func (x *producing) publishAlone() bool {
	if len(x.body) < 32 {
		return false
	}
	word := func(at int) uint64 { return binary.LittleEndian.Uint64(x.body[at:]) }
	if !x.p.PublishAlone(word(0), word(8), word(16), word(24), x.body[32:]) {
		return false
	}
	x.alone++
	return true
}

// claim puts the body into the ring.
func (x *producing) claim() error {
	buf, err := x.p.Claim(len(x.body))
	for err == ring.ErrFull {
		x.p.Publish()
		runtime.Gosched()
		if err := x.p.Check(); err != nil {
			return err
		}
		buf, err = x.p.Claim(len(x.body))
	}
	copy(buf, x.body)
	return err
}

func consumeSeeded(c *ring.Consumer, seed uint64, records int) error {
	draw, rng := newSeeded(seed), rand.New(rand.NewPCG(seed, 4))
	limit := -1
	for got := 0; ; {
		rec, err := c.Next()
		if err == ring.ErrClosed && got == records {
			return nil
		}
		if err != nil {
			return fmt.Errorf("after %d records: %w", got, err)
		}
		if rec == nil {
			c.Release()
			runtime.Gosched()
			if err := c.Check(); err != nil {
				return err
			}
			continue
		}
		if limit < 0 {
			limit = c.MaxRecord()
		}
		if want := draw.length(limit); len(rec) != want {
			return fmt.Errorf("record %d has %d bytes, want %d", got, len(rec), want)
		}
		for ; len(rec) >= 8; rec = rec[8:] {
			if v, want := binary.LittleEndian.Uint64(rec), draw.words.Uint64(); v != want {
				return fmt.Errorf("record %d is torn: word %#x, want %#x", got, v, want)
			}
		}
		for _, b := range rec {
			if want := byte(draw.words.Uint64()); b != want {
				return fmt.Errorf("record %d is torn: byte %#x, want %#x", got, b, want)
			}
		}
		got++
		if rng.IntN(4) == 0 {
			c.Release()
		}
	}
}

// The race detector sees a ring on the heap, which is what makes the test above
// worth running with -race: two misuses that only their timing could betray are
// reported. Each runs in a process of its own, because a report fails the process.
func TestRaceDetectorSeesRingsOnTheHeap(t *testing.T) {
	const child = "DISCO_RING_TEST_CHILD"
	misuses := map[string]func(testing.TB){
		"record read after its release":    readAfterRelease,
		"record written after its publish": writeAfterPublish,
	}
	if name := os.Getenv(child); name != "" {
		misuses[name](t)
		return
	}
	if !race.Enabled {
		t.Skip("built without -race")
	}
	for name := range misuses {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), child+"="+name)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "DATA RACE") {
			t.Errorf("%s: no report, %v:\n%s", name, err, out)
		}
	}
}

// handOver runs both sides; nothing but the ring orders them until both are done. The
// ring is small, so that memory is soon used again, but two records of 16 bytes and the
// padding between them fit wherever they lie: a consumer that waits for the second one
// before it releases the first must not wait for ever.
func handOver(t testing.TB, produce func(*ring.Producer), consume func(*ring.Consumer)) {
	p, c := open(t, 128, 0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		produce(p)
	}()
	consume(c)
	<-done
}

func claimWait(p *ring.Producer, n int) []byte {
	for {
		buf, err := p.Claim(n)
		if err == nil {
			return buf
		}
		runtime.Gosched()
	}
}

func nextWait(c *ring.Consumer) []byte {
	for {
		rec, err := c.Next()
		if err != nil {
			panic(err)
		}
		if rec != nil {
			return rec
		}
		runtime.Gosched()
	}
}

func readAfterRelease(t testing.TB) {
	handOver(t, func(p *ring.Producer) {
		for i := range 100 {
			claimWait(p, 16)[0] = byte(i)
			p.Commit()
			p.Publish()
		}
	}, func(c *ring.Consumer) {
		sum := byte(0)
		for range 50 {
			rec := nextWait(c)
			nextWait(c)
			c.Release()
			runtime.Gosched()
			sum += rec[0]
		}
		t.Log(sum)
	})
}

func writeAfterPublish(t testing.TB) {
	handOver(t, func(p *ring.Producer) {
		for i := range 100 {
			buf := claimWait(p, 16)
			p.Commit()
			p.Publish()
			buf[0] = byte(i)
		}
	}, func(c *ring.Consumer) {
		sum := byte(0)
		for range 100 {
			sum += nextWait(c)[0]
			c.Release()
		}
		t.Log(sum)
	})
}
