// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func mustWaiter(t testing.TB, cfg WaiterConfig) *Waiter {
	t.Helper()
	w, err := NewWaiter(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// The way from busy to asleep goes through the phases in order, and there is
// always one pass between Arm and the sleep.
func TestWaiterPhases(t *testing.T) {
	for _, c := range []struct {
		mode    Mode
		crowded bool
		want    []phase
	}{
		{ModeAdaptive, false,
			[]phase{phaseBusy, phaseSpin, phaseYield, phaseArmed, phaseSlept, phaseArmed, phaseSlept}},
		{ModeAdaptive, true, []phase{phaseBusy, phaseYield, phaseArmed, phaseSlept, phaseArmed, phaseSlept}},
		{ModeSpin, false, []phase{phaseBusy, phaseSpin}},
		{ModeSpin, true, []phase{phaseBusy, phaseSpin}}, // as asked for
		{ModeYield, false, []phase{phaseBusy, phaseYield}},
		{ModePark, false, []phase{phaseBusy, phaseArmed, phaseSlept, phaseArmed, phaseSlept}},
	} {
		mode, want := c.mode, c.want
		bell := mustBell(t, mustHeap(t, DoorbellBytes).Body())
		w := mustWaiter(t, WaiterConfig{Bell: bell, Mode: mode, Crowded: c.crowded, SpinMax: 20 * time.Microsecond,
			ParkMax: 100 * time.Microsecond})
		way, timeouts := []phase{w.phase}, uint64(0)
		for range 100_000 {
			armed := w.phase == phaseArmed
			if armed != bell.Armed() || armed != w.Armed() {
				t.Fatalf("%v: phase %d, bell armed %v, waiter %v", mode, w.phase, bell.Armed(), w.Armed())
			}
			if w.Idle(false) {
				timeouts++
				if !armed || w.phase != phaseSlept {
					t.Fatalf("%v: timed out on the way from armed %v to %d", mode, armed, w.phase)
				}
			}
			if last := way[len(way)-1]; w.phase != last {
				way = append(way, w.phase)
			}
			if len(way) == len(want) && len(want) > 2 {
				break
			}
		}
		if len(way) != len(want) {
			t.Fatalf("%v: went %v, want %v", mode, way, want)
		}
		for i := range want {
			if way[i] != want[i] {
				t.Fatalf("%v: went %v, want %v", mode, way, want)
			}
		}
		if s := w.Stats(); s.Timeouts != timeouts || s.Sleeps != timeouts {
			t.Errorf("%v: %+v after %d timeouts", mode, s, timeouts)
		}
		w.Idle(true)
		if w.phase != phaseBusy || bell.Armed() {
			t.Errorf("%v: work leaves phase %d and the bell armed %v", mode, w.phase, bell.Armed())
		}
	}
}

// Sleeps that end by their timeout become longer, up to a limit, and short again when somebody rings, when there is
// work, and after Reset.
func TestWaiterSleepsLonger(t *testing.T) {
	bell := mustBell(t, mustHeap(t, DoorbellBytes).Body())
	const park = time.Millisecond
	w := mustWaiter(t, WaiterConfig{Bell: bell, Mode: ModePark, ParkMax: park})
	sleepLong := func() {
		t.Helper()
		for n := range 6 {
			if want := park << min(n, parkDoublings); w.park() != want {
				t.Fatalf("sleep %d may last %v, want %v", n, w.park(), want)
			}
			start := time.Now()
			limit := w.park()
			for !w.Idle(false) {
			}
			if took := time.Since(start); took < limit {
				t.Fatalf("sleep %d lasted %v of %v", n, took, limit)
			}
		}
	}
	for what, end := range map[string]func(){
		"work":  func() { w.Idle(true) },
		"reset": w.Reset,
		"ring": func() {
			w.Idle(false)
			bell.Ring()
			w.Idle(false)
		},
	} {
		sleepLong()
		if end(); w.park() != park {
			t.Errorf("%s: the next sleep may last %v, want %v", what, w.park(), park)
		}
	}
}

// Work that is found at the second look takes the arming back; so does Reset.
func TestWaiterSecondLook(t *testing.T) {
	bell := mustBell(t, mustHeap(t, DoorbellBytes).Body())
	w := mustWaiter(t, WaiterConfig{Bell: bell, Mode: ModePark})
	w.Idle(false)
	if !bell.Armed() {
		t.Fatal("not armed")
	}
	w.Idle(true)
	if bell.Armed() || w.Stats().Sleeps != 0 || w.Stats().Parked != 1 {
		t.Fatalf("armed %v, %+v", bell.Armed(), w.Stats())
	}
	w.Idle(false)
	w.Reset()
	if bell.Armed() {
		t.Fatal("armed after Reset")
	}
	// Rung between the two: the sleep is over at once.
	w.Idle(false)
	bell.Ring()
	if w.Idle(false) || w.Stats().Sleeps != 1 || w.Stats().Timeouts != 0 {
		t.Fatalf("%+v", w.Stats())
	}
}

// The budget goes up where spinning pays or would have, down where it doesn't,
// and stays between its limits.
func TestWaiterAdapts(t *testing.T) {
	bell := mustBell(t, mustHeap(t, DoorbellBytes).Body())
	const most = 64 * time.Microsecond
	w := mustWaiter(t, WaiterConfig{Bell: bell, SpinMax: most})
	pause := func(p phase, took time.Duration) {
		w.phase, w.passes = p, 4
		w.learn(took)
	}
	if w.Stats().Budget != most {
		t.Fatalf("starts with %v", w.Stats().Budget)
	}
	falls := map[string]func(){
		"long sleep":       func() { pause(phaseSlept, most) },
		"long second look": func() { pause(phaseArmed, time.Second) },
		"contended yield":  func() { pause(phaseYield, 4*yieldContended+1) },
	}
	rises := map[string]func(){
		"spin":        func() { pause(phaseSpin, 0) },
		"short sleep": func() { pause(phaseSlept, most-1) },
		"quick yield": func() { pause(phaseYield, 4*yieldContended) },
	}
	for down, fall := range falls {
		for up, rise := range rises {
			for range 100 {
				before := w.budget
				fall()
				if w.budget > before || w.budget < spinMin {
					t.Fatalf("%s: %v after %v", down, w.budget, before)
				}
			}
			if w.budget > 2*spinMin {
				t.Errorf("%s leaves %v", down, w.budget)
			}
			for range 100 {
				before := w.budget
				rise()
				if w.budget < before || w.budget > most {
					t.Fatalf("%s: %v after %v", up, w.budget, before)
				}
			}
			if w.budget < most*9/10 {
				t.Errorf("%s brings %v", up, w.budget)
			}
		}
	}
}

// Two goroutines pass a turn to and fro, in every mode: nothing hangs, whether
// they yield to threads or to goroutines.
func TestWaiterPingPong(t *testing.T) {
	for mode := range modes {
		for _, goroutines := range []bool{false, true} {
			mem := mustHeap(t, 2*DoorbellBytes).Body()
			var turn atomic.Uint64
			rounds := 200
			if mode == ModeSpin {
				rounds = 20 // with no core for each side, a turn takes a whole time slice
			}
			side := func(me uint64) bool {
				own, other := mustBell(t, mem[me*DoorbellBytes:]), mustBell(t, mem[(1-me)*DoorbellBytes:])
				w := mustWaiter(t, WaiterConfig{Bell: own, Mode: mode, Goroutines: goroutines, ParkMax: watchdog})
				ready := func() bool { return turn.Load()%2 == me }
				for range rounds {
					if !w.Await(ready, watchdog) {
						return false
					}
					turn.Add(1)
					other.RingAfterFence()
				}
				return true
			}
			done := make(chan bool)
			go func() { done <- side(1) }()
			if a, b := side(0), <-done; !a || !b || turn.Load() != 2*uint64(rounds) {
				t.Errorf("%v, goroutines %v: stuck at turn %d", mode, goroutines, turn.Load())
			}
		}
	}
}

func TestWaiterAwaitLimit(t *testing.T) {
	for mode := range modes {
		bell := mustBell(t, mustHeap(t, DoorbellBytes).Body())
		w := mustWaiter(t, WaiterConfig{Bell: bell, Mode: mode})
		const limit = 3 * time.Millisecond
		start := time.Now()
		if w.Await(func() bool { return false }, limit) {
			t.Errorf("%v: saw nothing happen", mode)
		}
		if took := time.Since(start); took < limit {
			t.Errorf("%v: gave up after %v", mode, took)
		}
		if bell.Armed() || w.phase != phaseBusy {
			t.Errorf("%v: left the bell armed %v in phase %d", mode, bell.Armed(), w.phase)
		}
		if !w.Await(func() bool { return true }, 0) {
			t.Errorf("%v: doesn't look before it gives up", mode)
		}
	}
}

func TestWaiterRefused(t *testing.T) {
	bell := mustBell(t, mustHeap(t, DoorbellBytes).Body())
	for what, cfg := range map[string]WaiterConfig{
		"no bell to park on":  {Mode: ModePark},
		"no bell to adapt to": {},
		"no such mode":        {Bell: bell, Mode: modes},
		"hardly any spinning": {Bell: bell, SpinMax: 1},
		"endless spinning":    {Bell: bell, SpinMax: time.Minute},
		"negative sleep":      {Bell: bell, ParkMax: -1},
		"endless sleep":       {Bell: bell, ParkMax: 2 * time.Hour},
	} {
		if w, err := NewWaiter(cfg); err == nil || w != nil {
			t.Errorf("%s: accepted", what)
		}
	}
	for mode := range modes {
		if m, err := ParseMode(mode.String()); err != nil || m != mode {
			t.Errorf("%v: %v, %v", mode, m, err)
		}
	}
	if _, err := ParseMode("busy"); err == nil {
		t.Error("mode busy")
	}
}

func TestWaiterAllocates(t *testing.T) {
	for mode := range modes {
		bell := mustBell(t, mustHeap(t, DoorbellBytes).Body())
		w := mustWaiter(t, WaiterConfig{Bell: bell, Mode: mode, SpinMax: 2 * time.Microsecond,
			ParkMax: time.Microsecond})
		ready := func() bool { return false }
		if n := testing.AllocsPerRun(20, func() {
			for range 100 {
				w.Idle(false)
			}
			w.Idle(true)
			w.Await(ready, 10*time.Microsecond)
		}); n != 0 {
			t.Errorf("%v: %v allocations", mode, n)
		}
	}
}

// An idle worker costs next to nothing: the processor time of a thread that
// waits for nothing.
func TestWaiterIdleLoad(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	bell := mustBell(t, mustHeap(t, DoorbellBytes).Body())
	w := mustWaiter(t, WaiterConfig{Bell: bell})
	for !w.Idle(false) { // through spinning and the first sleep
	}
	start, used := time.Now(), threadTime(t)
	for time.Since(start) < 300*time.Millisecond {
		w.Idle(false)
	}
	took, used := time.Since(start), threadTime(t)-used
	t.Logf("%v of %v: %.3f %% of a core", used, took, 100*float64(used)/float64(took))
	if used > took/50 { // the goal is 0.5 %; the rest is for a noisy machine
		t.Errorf("an idle waiter takes %v of %v", used, took)
	}
}

// watch is the loop of Looks: the look number found, counted from 1, finds work; 0: none does.
func watch(w *Waiter, found int) (looks int) {
	for n := w.Looks(); n > 0; n-- {
		if looks++; looks == found {
			break
		}
		w.Missed()
	}
	return looks
}

// There are looks only while the waiter spins, and in passes after it has, as long as they have to be waited for.
func TestLooks(t *testing.T) {
	bell := mustBell(t, mustHeap(t, DoorbellBytes).Body())
	for _, mode := range []Mode{ModeAdaptive, ModeSpin, ModeYield, ModePark} {
		w := mustWaiter(t, WaiterConfig{Mode: mode, Bell: bell, ParkMax: time.Microsecond})
		spins := mode == ModeAdaptive || mode == ModeSpin
		want := func(when string, got, want int) {
			if !spins {
				want = 0
			}
			if got != want {
				t.Errorf("%v: %d looks %s, want %d", mode, got, when, want)
			}
		}
		want("of a busy waiter", watch(w, 0), 0)
		w.Idle(true)
		want("after work without a pause", watch(w, 0), 0)
		w.Idle(false)
		want("while it spins", watch(w, 3), 3)
		w.Idle(true)
		for range 5 {
			want("after a pause", watch(w, 2), 2)
			w.Idle(true)
		}
		want("that find nothing", watch(w, 0), watchLooks)
		w.Idle(false)
		want("when it spins again", watch(w, 1), 1)
		w.Idle(true)
		want("of which the first finds work", watch(w, 1), 1)
		w.Idle(true)
		want("when the last one had no pause", watch(w, 0), 0)
		if got := w.Stats().Spun; spins && got != 7 {
			t.Errorf("%v: %d pauses were spun, want 7", mode, got)
		}
		w.Reset()
	}
}

// Looks neither keep an adaptive waiter from sleeping nor make it look at the clock more rarely.
func TestLooksEndInSleep(t *testing.T) {
	bell := mustBell(t, mustHeap(t, DoorbellBytes).Body())
	w := mustWaiter(t, WaiterConfig{Bell: bell, ParkMax: time.Millisecond})
	for n := 0; !w.Idle(false); n++ {
		watch(w, n%(watchLooks+1)) // what a look has found may be of no use to the pass
	}
	if st := w.Stats(); st.Sleeps != 1 || st.Timeouts != 1 {
		t.Errorf("%+v", st)
	}
}
