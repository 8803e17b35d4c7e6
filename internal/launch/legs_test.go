// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/checkpoint/checkpointtest"
	"github.com/disco-sim/disco/internal/launch/launchtest"
	"github.com/disco-sim/disco/internal/worker"
)

// ends are legs that end anywhere, by a seed, and keep where they did.
type ends struct {
	mu  sync.Mutex
	rnd *rand.Rand
	at  map[int][]float64 // by replication
}

// legs are some that take such a time on average, and some of the least there is.
func (e *ends) legs(seed uint64, mean float64) *Legs {
	e.rnd, e.at = rand.New(rand.NewPCG(seed, 7)), map[int][]float64{}
	return &Legs{
		Next: func(_ int, epoch float64) float64 {
			e.mu.Lock()
			defer e.mu.Unlock()
			if e.rnd.IntN(8) == 0 {
				return math.Nextafter(epoch, math.Inf(1))
			}
			return epoch + mean*e.rnd.ExpFloat64() + mean/100
		},
		Ended: func(replication int, epoch float64) error {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.at[replication] = append(e.at[replication], epoch)
			return nil
		},
	}
}

// A run in legs gives what one without legs gives, trace included, wherever its workers are and however they promise
// and take in.
func TestLegs(t *testing.T) {
	want := ""
	for i, transport := range append(everywhere(), over3) {
		for j, spread := range []string{SpreadNodes, SpreadReplications} {
			for k, sync := range []string{worker.SyncLane, worker.SyncLink} {
				if testing.Short() && i > 1 && (j != 0 || k != i%2) {
					continue
				}
				cfg := config(transport, 3, launchtest.Scenario(6, 30, ""))
				cfg.Replications, cfg.Spread, cfg.Partition, cfg.Tuning.Sync = 4, spread, "", sync
				cfg.Trace = filepath.Join(t.TempDir(), "trace")
				if (i+j+k)%2 == 1 {
					cfg.Tuning.Ingress = worker.IngressGoroutine
				}
				var e ends
				cfg.Legs = e.legs(uint64(i), 1)
				if want == "" {
					cfg.Legs = nil
				}
				got := answer(t, cfg)
				trace, err := os.ReadFile(cfg.Trace)
				if err != nil {
					t.Fatal(err)
				}
				if got += string(trace); want == "" {
					want = got
					continue
				}
				if got != want {
					t.Errorf("%s, %s, %s: the answer is another one", transport, spread, sync)
				}
				for r := range cfg.Replications {
					if at := e.at[r]; len(at) < 10 || !slices.IsSorted(at) || at[len(at)-1] >= 30 {
						t.Errorf("%s, %s, %s: legs of replication %d have ended at %v", transport, spread, sync, r, at)
					}
				}
			}
		}
	}
	nothingLeft(t, t.TempDir())
}

// So do all kinds of models.
func TestLegsOfKinds(t *testing.T) {
	for i, c := range examples {
		cfg := example(t, c.file, c.horizon, c.set)
		want, err := run(t, cfg)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Workers = 3
		for j, transport := range transports() {
			for k, sync := range []string{worker.SyncLane, worker.SyncLink} {
				if testing.Short() && (i+j+k)%2 != 0 { // over two transports any two of the three still meet
					continue
				}
				cfg.Transport = transport
				cfg.Tuning = worker.Tuning{Sync: sync}
				if i%2 == 0 {
					cfg.Tuning = smallest
					cfg.Tuning.Sync = sync
				}
				var e ends
				cfg.Legs = e.legs(uint64(i), c.horizon/30)
				sameHash(t, cfg, want)
				if n := len(e.at[0]); n < 10 {
					t.Errorf("%s: %d ends of legs", c.file, n)
				}
			}
		}
	}
}

// Legs end where they are asked to, behind all that any worker has handled, and change nothing.
func TestEndNow(t *testing.T) {
	for _, transport := range append(transports(), over2) {
		for _, spread := range []string{SpreadNodes, SpreadReplications} {
			cfg := config(transport, 2, launchtest.Scenario(4, 20, trouble(1, 0, launchtest.Slow)))
			cfg.Replications, cfg.Spread, cfg.Partition = 2, spread, ""
			want := answer(t, cfg)
			var e ends
			cfg.Legs = e.legs(1, 0)
			cfg.Legs.Next = func(int, float64) float64 { return math.Inf(1) }
			over := make(chan struct{})
			var asking sync.WaitGroup
			asking.Go(func() {
				for {
					select {
					case <-over:
						return
					case <-time.After(time.Millisecond):
						cfg.Legs.EndNow()
					}
				}
			})
			got := answer(t, cfg)
			close(over)
			asking.Wait()
			if got != want {
				t.Errorf("%s, %s: the answer is another one", transport, spread)
			}
			for r, at := range e.at {
				if !slices.IsSorted(at) || len(slices.Compact(slices.Clone(at))) != len(at) || at[0] <= 0 {
					t.Errorf("%s, %s: legs of replication %d have ended at %v", transport, spread, r, at)
				}
			}
			if n := len(e.at[0]) + len(e.at[1]); n < 2 {
				t.Errorf("%s, %s: only %d legs were ended", transport, spread, n)
			}
		}
	}
}

// A run in legs that is stopped, also between two of them, ends at one simulated time like any other, and has no more
// legs.
func TestStopInLegs(t *testing.T) {
	text := launchtest.Scenario(6, 1e6, "")
	for _, transport := range append(transports(), over2) {
		for _, between := range []bool{true, false} {
			stop := make(chan struct{})
			var once sync.Once
			cfg := config(transport, 3, text)
			cfg.Stop, cfg.Legs = stop, LegsEvery(0.25)
			ends, after := 0, 0
			cfg.Legs.Ended = func(_ int, epoch float64) error {
				if ends++; ends > 20 && between {
					after++
					once.Do(func() { close(stop) })
				}
				return nil
			}
			cfg.Progress = func(p Progress) {
				if p.Now > 0 && !between {
					once.Do(func() { close(stop) })
				}
			}
			out, err := runQuick(t, cfg)
			if err != nil {
				t.Fatal(err)
			}
			stopped := out.Replications[0]
			if !out.Interrupted || stopped.Reached <= 0 || after > 2 || between && stopped.Reached < 5 {
				t.Fatalf("%s: interrupted %v at %v, %d ends of legs behind it", transport, out.Interrupted,
					stopped.Reached, after)
			}
			alone := config(TransportInproc, 1, text)
			alone.Horizon = stopped.Reached
			want, err := run(t, alone)
			if err != nil {
				t.Fatal(err)
			}
			if want.TraceHash != stopped.TraceHash || want.Events != out.Events {
				t.Errorf("%s: stopped at %v: %d events, trace hash %s; one worker has %d events, %s", transport,
					stopped.Reached, out.Events, stopped.TraceHash, want.Events, want.TraceHash)
			}
		}
	}
	nothingLeft(t, t.TempDir())
}

// A call that takes long keeps a leg from being ended now, which is said and tried again later. The run goes on
// meanwhile, and a stop then ends it as it does without legs.
func TestEndNowWhileCalled(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		var said lockedBuffer
		cfg := config(TransportInproc, 2, launchtest.Scenario(4, 60, trouble(1, 3, launchtest.Hang)))
		var e ends
		cfg.Legs, cfg.Stderr, cfg.CrashDir = e.legs(1, 0), &said, ""
		cfg.Legs.Next = func(int, float64) float64 { return math.Inf(1) }
		cfg.Tuning.BatchMax = 1 // to look for the launcher behind each call
		stop := make(chan struct{})
		cfg.Stop = stop
		l, err := Prepare(cfg)
		if err != nil {
			t.Fatal(err)
		}
		l.timeouts.stop = 100 * time.Millisecond
		l.timeouts.killed = 300 * time.Millisecond // a goroutine that hangs can't be ended
		var out *Outcome
		done := make(chan struct{})
		go func() {
			defer close(done)
			out, err = l.Run(t.Context())
		}()
		t.Cleanup(func() { // a failure in the middle must not leave a run to the tests behind it
			for ended := false; !ended; {
				launchtest.Release()
				select {
				case <-done:
					ended = true
				case <-time.After(time.Millisecond):
				}
			}
		})
		// On a loaded machine the first attempts may also find worker 1 late, or both only behind the call.
		// Or the end was found in front of the call, and worker 1 waits there.
		givenUp := regexp.MustCompile(`(?:to one simulated time|others wait there).*longer than 100ms: worker 0\b`)
		until(t, "the end of the leg is given up", func() bool {
			cfg.Legs.EndNow()
			time.Sleep(time.Millisecond)
			select {
			case <-done:
				t.Fatalf("the run has ended: %+v, %v, legs at %v; it says %q", out, err, e.at, said.String())
			default:
			}
			return givenUp.MatchString(said.String())
		})
		if stopped {
			close(stop)
			<-done
		} else {
			until(t, "the run ends", func() bool {
				launchtest.Release() // each later call hangs, too
				select {
				case <-done:
					return true
				default:
					return false
				}
			})
		}
		switch {
		case stopped && !errors.Is(err, ErrUnresponsive):
			t.Errorf("error is %v, want %v", err, ErrUnresponsive)
		case !stopped && (err != nil || out.Interrupted || len(e.at[0]) == 0 || slices.Max(e.at[0]) <= 3):
			t.Errorf("%+v, %v, legs ended at %v:\n%s", out, err, e.at, said.String())
		}
		launchtest.Release()
	}
}

// A call that hangs behind the end that was found for a leg keeps the others waiting there, which is said. A stop that
// wants a last checkpoint there gives that up, and ends.
func TestHangBeforeEndOfLeg(t *testing.T) {
	for _, saves := range []bool{false, true} {
		var said lockedBuffer
		cfg := config(TransportInproc, 2, launchtest.Scenario(4, 60, trouble(1, 3, launchtest.Hang)))
		cfg.Stderr, cfg.CrashDir, cfg.Tuning.BatchMax = &said, "", 1
		if saves {
			cfg.Checkpoint = &Checkpoint{Repo: newRepo(t, cfg, checkpointtest.NewMem()), Keep: 1}
		}
		stop := make(chan struct{})
		cfg.Stop = stop
		var e ends
		cfg.Legs = e.legs(1, 0)
		cfg.Legs.Next = func(int, float64) float64 { return math.Inf(1) }
		l, err := Prepare(cfg)
		if err != nil {
			t.Fatal(err)
		}
		l.timeouts.stop, l.timeouts.killed = 100*time.Millisecond, 300*time.Millisecond
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err = l.Run(t.Context())
		}()
		// Worker 1 is in front of worker 0, which hangs again in its next call once it has said how far it is.
		until(t, "worker 0 hangs in front of the end", func() bool {
			l.cfg.Legs.EndNow()
			time.Sleep(30 * time.Millisecond)
			launchtest.Release()
			time.Sleep(150 * time.Millisecond)
			return strings.Contains(said.String(), "others wait there")
		})
		close(stop)
		ended := false
		for deadline := time.Now().Add(testTimeout); !ended && time.Now().Before(deadline); {
			select {
			case <-done:
				ended = true
			case <-time.After(time.Millisecond):
			}
		}
		for !ended {
			launchtest.Release()
			select {
			case <-done:
				t.Fatalf("it hadn't ended after %v: %s", testTimeout, said.String())
			case <-time.After(time.Millisecond):
			}
		}
		if !errors.Is(err, ErrUnresponsive) || strings.Contains(said.String(), "without a last checkpoint") != saves {
			t.Errorf("error is %v, want %v; it says %s", err, ErrUnresponsive, said.String())
		}
		launchtest.Release()
	}
}

// What gives the end of a leg is checked.
func TestBadLegs(t *testing.T) {
	cfg := config(TransportInproc, 2, launchtest.Scenario(4, 20, ""))
	cfg.Legs = &Legs{Next: func(_ int, epoch float64) float64 { return min(3, epoch+2) }}
	want := "a leg that begins at 3 is to end at 3, want a later end"
	if _, err := run(t, cfg); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error is %v, want %q", err, want)
	}
	broken := errors.New("the store is full")
	cfg.Legs = LegsEvery(2)
	cfg.Legs.Ended = func(int, float64) error { return broken }
	if _, err := run(t, cfg); !errors.Is(err, broken) {
		t.Errorf("error is %v, want %v", err, broken)
	}
}

// Ends of legs are products, each later than the one before, also where these are no longer apart.
func TestLegsEvery(t *testing.T) {
	third := 0.1
	third *= 3 // not 0.3
	for _, c := range []struct{ every, epoch, want float64 }{
		{0.1, 0, 0.1}, {0.1, 0.1, 0.2}, {0.1, 0.2, third}, {0.1, third, 0.4}, {0.1, 0.3, third}, {2, 5, 6},
		{1e-20, 1, math.Nextafter(1, 2)}, {5e-324, 0, 5e-324},
	} {
		if got := LegsEvery(c.every).Next(0, c.epoch); got != c.want {
			t.Errorf("every %v, behind %v: %v, want %v", c.every, c.epoch, got, c.want)
		}
	}
	next, at := LegsEvery(0.1).Next, 0.0
	for k := 1; k < 10_000; k++ {
		if at = next(0, at); at != float64(k)*0.1 {
			t.Fatalf("end %d is %v, want %v", k, at, float64(k)*0.1)
		}
	}
}

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
