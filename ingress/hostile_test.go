// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/envelope"
	"github.com/disco-sim/disco/internal/lane"
	"github.com/disco-sim/disco/internal/seed"
	"github.com/disco-sim/disco/shm"
)

// underFire is a lane, its sender's pool and both doorbells in mapped memory: the race
// detector doesn't see it, and it is what a hostile process would write to.
type underFire struct {
	parts map[string][]byte
	out   *egress.Egress
	pool  *shm.Pool
	in    *Ingress
	bells [2]*shm.Doorbell // the receiver's, the sender's
}

func newUnderFire(t *testing.T, wait func() error) *underFire {
	t.Helper()
	classes := []shm.BlockSize{{BlockBytes: 400, Count: 4}, {BlockBytes: 2000, Count: 2}}
	cfg := lane.Config{RingBytes: 4096, ReturnBlocks: 6}
	laneBytes, err := lane.Size(cfg)
	must(t, err)
	poolBytes, err := shm.PoolBytes(classes)
	must(t, err)
	segment := func(kind shm.Kind, size int) []byte {
		s, err := shm.Create(shm.Config{Name: "under-fire", Kind: kind, Size: size})
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		return s.Body()
	}
	const kind = shm.Kind('t' | 'e'<<8 | 's'<<16 | 't'<<24)
	u := &underFire{parts: map[string][]byte{
		"lane": segment(kind, laneBytes), "pool": segment(shm.KindPool, poolBytes), "bells": segment(kind,
			2*shm.DoorbellBytes),
	}}
	must(t, lane.Format(u.parts["lane"], cfg))
	must(t, shm.FormatPool(u.parts["pool"], classes))
	for i := range u.bells {
		u.bells[i], err = shm.OpenDoorbell(u.parts["bells"][i*shm.DoorbellBytes:][:shm.DoorbellBytes])
		must(t, err)
	}
	u.pool, err = shm.NewPool(u.parts["pool"])
	must(t, err)
	u.out, err = egress.New(egress.Config{Peer: 1, Lane: u.parts["lane"], Pool: u.pool, Bell: u.bells[0],
		InlineMax: 100, Wait: wait})
	must(t, err)
	u.in, err = New(Config{Lanes: []Source{{Peer: 0, Lane: u.parts["lane"], Pool: u.parts["pool"], Bell: u.bells[1]}}})
	must(t, err)
	return u
}

// fire overwrites one random word of one part with something that hurts: zero, all ones,
// a small change, or noise.
func (u *underFire) fire(rng *rand.Rand, part string) {
	mem := u.parts[part]
	at := 8 * rng.IntN(len(mem)/8)
	if rng.IntN(2) == 0 {
		at %= 1024 // where the words are that count
	}
	word := binary.LittleEndian.Uint64(mem[at:])
	switch rng.IntN(4) {
	case 0:
		word = 0
	case 1:
		word = ^uint64(0) >> rng.IntN(64)
	case 2:
		word += uint64(rng.IntN(64)) - 32
	default:
		word = rng.Uint64()
	}
	binary.LittleEndian.PutUint64(mem[at:], word)
}

// A hostile process writes into a lane, its pool and both doorbells at random moments,
// while a sender sends and a receiver receives and both sleep now and then. Neither
// panics, reads outside the memory, or hangs; each ends as it likes or with a kind that
// says why and names its peer.
func TestLaneUnderFire(t *testing.T) {
	rounds := 150
	if testing.Short() {
		rounds = 30
	}
	from := seed.Of(t)
	ends := map[string]int{}
	for round := range rounds {
		for _, part := range []string{"lane", "pool", "bells"} {
			sent, received := fireOnce(t, rand.New(rand.NewPCG(from, uint64(round))), part)
			for _, err := range []error{sent, received} {
				var pe *lane.PeerError
				if err != nil && !errors.As(err, &pe) && !errors.Is(err, shm.ErrPool) && !errors.Is(err, errFireWait) {
					t.Errorf("%s: %v", part, err)
				}
			}
			if received != nil && !errors.Is(received, ErrClosed) || sent != nil && !errors.Is(sent, ErrClosed) &&
				!errors.Is(sent, errFireWait) {
				ends[part]++
			}
			if t.Failed() {
				t.Fatalf("round %d", round)
			}
		}
	}
	if ends["lane"] == 0 || ends["pool"] == 0 {
		t.Errorf("damage was noticed %v times: the test does nothing", ends)
	}
	t.Logf("damage noticed in %v of %d rounds each", ends, rounds)
}

var errFireWait = errors.New("the sender has waited long enough")

// fireOnce runs one sender and one receiver under fire on one part, and returns how each
// ended.
func fireOnce(t *testing.T, rng *rand.Rand, part string) (sent, received error) {
	t.Helper()
	var over atomic.Bool
	waits := 0
	var u *underFire
	u = newUnderFire(t, func() error {
		if waits++; waits > 2000 || over.Load() {
			return errFireWait // a peer that gives nothing back is somebody else's watch
		}
		runtime.Gosched()
		return errors.Join(u.out.Check(), u.pool.Check(), u.out.Flush())
	})
	sizes := rand.New(rand.NewPCG(rng.Uint64(), 0))
	var all sync.WaitGroup
	all.Go(func() { // the sender
		defer u.out.Close()
		data := make([]byte, 2000)
		for n := range 400 {
			ev := envelope.Event{Epoch: float64(n), Number: uint64(n), Data: data[:sizes.IntN(20)*sizes.IntN(100)]}
			if sent = u.out.SendEvent(&ev); sent != nil {
				return
			}
			if n%7 == 0 {
				if sent = u.out.Promise(float64(n), 0); sent != nil {
					return
				}
			}
		}
	})
	all.Go(func() { // the receiver
		waiter, err := shm.NewWaiter(shm.WaiterConfig{Bell: u.bells[0], Mode: shm.ModePark, ParkMax: time.Millisecond,
			Goroutines: true})
		if err != nil {
			t.Error(err)
			return
		}
		s := &sink{}
		s.onto = func(_ *envelope.Event, lease uint64) error { return u.in.Release(lease) }
		for !over.Load() {
			var n int
			if n, received = u.in.Poll(s); received != nil {
				return
			}
			if n == 0 {
				if received = errors.Join(u.in.Check(), u.in.CheckReturns()); received != nil {
					return
				}
			}
			waiter.Idle(n > 0)
		}
	})
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for shots := 1 + rng.IntN(40); shots > 0; shots-- {
		for range rng.IntN(200) {
			runtime.Gosched()
		}
		u.fire(rng, part)
	}
	select {
	case <-done:
		return sent, received
	case <-time.After(100 * time.Millisecond):
	}
	over.Store(true) // what was lost is waited for: nobody stands still by himself
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatalf("under fire on %s: hangs", part)
	}
	return sent, received
}
