// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/disco-sim/disco/internal/seed"
)

// sleeping reports whether the consumer of a bell sleeps, or is about to: it has
// armed the bell.
func sleeping(d *Doorbell) func() bool { return d.Armed }

func TestDoorbellRing(t *testing.T) {
	mem := mustHeap(t, DoorbellBytes).Body()
	d, peer := mustBell(t, mem), mustBell(t, mem)
	if d.Armed() {
		t.Fatal("new bell is armed")
	}
	d.Ring() // nobody there

	// Rung between Arm and Wait: no sleep.
	token := d.Arm()
	if !peer.Armed() {
		t.Fatal("the other side doesn't see the arming")
	}
	peer.Ring()
	if err := d.Wait(token, watchdog); err != nil {
		t.Fatal(err)
	}
	d.Disarm()
	if d.Armed() {
		t.Fatal("armed after a ring and Disarm")
	}

	// Nobody rings: the timeout, and not before it.
	token = d.Arm()
	start := time.Now()
	if err := d.Wait(token, 5*time.Millisecond); err != ErrTimeout {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 5*time.Millisecond {
		t.Fatalf("timed out after %v", took)
	}
	d.Disarm()
	if d.Armed() {
		t.Fatal("armed after a timeout and Disarm")
	}

	// No time to wait.
	token = d.Arm()
	if err := d.Wait(token, 0); err != ErrTimeout {
		t.Fatal(err)
	}
	peer.RingAfterFence()
	if err := d.Wait(token, -1); err != nil {
		t.Fatal(err)
	}
}

// A producer that saw one arming and was held up doesn't end the sleep of the
// next, nor does it lose its own wake-up.
func TestDoorbellLateRing(t *testing.T) {
	mem := mustHeap(t, DoorbellBytes).Body()
	d, late := mustBell(t, mem), mustBell(t, mem)
	d.word.Store(^uint32(0)) // next to the wrap-around
	d.token = ^uint32(0)
	for range 4 {
		seen := d.Arm()
		d.Disarm()
		token := d.Arm()
		if token == seen || token&stateArmed == 0 {
			t.Fatalf("tokens %#x and %#x", seen, token)
		}
		late.wake(seen)
		if !d.Armed() {
			t.Fatalf("arming %#x ended by a ring for %#x", token, seen)
		}
		late.wake(token)
		if d.Armed() {
			t.Fatalf("arming %#x not ended by its own ring", token)
		}
		if err := d.Wait(token, watchdog); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDoorbellRefused(t *testing.T) {
	mem := mustHeap(t, 4096).Body()
	for what, m := range map[string][]byte{"nil": nil, "short": mem[:DoorbellBytes-1], "misaligned": mem[8:]} {
		if d, err := OpenDoorbell(m); err == nil || d != nil {
			t.Errorf("%s: opened", what)
		}
	}
}

// Whatever stands in the word, whoever writes it and however often the kernel is
// asked to wake: a wait ends by a ring or by its timeout, with one of the two
// answers.
func TestDoorbellGarbage(t *testing.T) {
	rng := seed.Rand(t)
	d := mustBell(t, mustCreate(t, Config{Name: "garbage", Kind: testKind, Size: DoorbellBytes}).Body())
	stop := make(chan struct{})
	var vandals sync.WaitGroup
	vandals.Go(func() {
		word := rng.Uint32()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			word = word*1664525 + 1013904223
			switch i % 4 {
			case 0:
				d.word.Store(word)
			case 1:
				d.Ring()
			case 2:
				futexWake(d.word, wakeAll)
			case 3:
				Yield()
			}
		}
	})
	timeouts := 0
	for range 2000 {
		token := d.Arm()
		switch err := d.Wait(token, 200*time.Microsecond); {
		case err == ErrTimeout:
			timeouts++
		case err != nil:
			t.Error(err)
		}
		d.Disarm()
	}
	close(stop)
	vandals.Wait()
	t.Logf("%d of 2000 waits timed out", timeouts)
}

// Wake-ups of the kernel's without a ring, and the signals that the runtime sends
// for its collector, neither end a sleep nor make it longer.
func TestDoorbellSpuriousWakes(t *testing.T) {
	d := mustBell(t, mustHeap(t, DoorbellBytes).Body())
	done := make(chan error, 1)
	const limit = 30 * time.Millisecond
	start := time.Now()
	token := d.Arm()
	go func() { done <- d.Wait(token, limit) }()
	for {
		select {
		case err := <-done:
			if took := time.Since(start); err != ErrTimeout || took < limit {
				t.Errorf("got %v after %v", err, took)
			}
			return
		default:
			futexWake(d.word, wakeAll)
			runtime.Gosched()
		}
		if time.Since(start) > watchdog {
			t.Fatal("the wait doesn't end")
		}
	}
}

// A sleeper doesn't hold up the garbage collector, which waits for every thread
// that it doesn't know to be in a system call.
func TestDoorbellCollect(t *testing.T) {
	d := mustBell(t, mustHeap(t, DoorbellBytes).Body())
	done := make(chan error, 1)
	go func() { done <- d.Wait(d.Arm(), 2*watchdog) }()
	await(t, "the sleeper to arm", sleeping(d))
	collected := make(chan struct{})
	go func() {
		for range 3 {
			runtime.GC()
		}
		close(collected)
	}()
	select {
	case <-collected:
	case <-time.After(watchdog):
		t.Error("the collector waits for the sleeper")
	}
	d.Ring()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// plainCounter is a count that its producer stores with an ordinary MOV, as a
// ring does. The race detector doesn't see mapped memory, so it doesn't mind.
func plainCounters(t *testing.T, n int) (stores []*uint64, loads []*atomic.Uint64, bell []byte) {
	body := mustCreate(t, Config{Name: "handshake", Kind: testKind, Size: (n + 1) * DoorbellBytes}).Body()
	for i := range n {
		loads = append(loads, wordAt64(body, (i+1)*DoorbellBytes))
		stores = append(stores, plainWord(body, (i+1)*DoorbellBytes))
	}
	return stores, loads, body[:DoorbellBytes]
}

// The handshake on this machine's real cores: each producer publishes one item by
// a plain store, rings, and goes on when the consumer has seen it; the consumer
// goes to sleep whenever it has seen everything. A lost wake-up would be a
// timeout with something to see. (Without the fence in Ring this test fails on
// most runs, the model above always.)
func TestDoorbellHandshake(t *testing.T) {
	for producers := 1; producers <= 2; producers++ {
		const items, most = 150_000, 700 * time.Millisecond
		stores, loads, mem := plainCounters(t, producers)
		d := mustBell(t, mem)
		seen := make([]atomic.Uint64, producers)
		var finished atomic.Int64
		var wg sync.WaitGroup
		start := time.Now()
		for i := range producers {
			ring := mustBell(t, mem)
			wg.Go(func() {
				for n := uint64(1); n <= items && (n%256 != 0 || time.Since(start) < most); n++ {
					*stores[i] = n
					ring.Ring()
					for spins := 0; seen[i].Load() != n; spins++ {
						if spins > 100 {
							runtime.Gosched()
						}
					}
				}
				finished.Add(1)
				ring.RingAfterFence()
			})
		}
		look := func() (found, done bool) {
			done = finished.Load() == int64(producers) // before the counts, so that they are final
			for i, l := range loads {
				if n := l.Load(); n != seen[i].Load() {
					seen[i].Store(n)
					found = true
				}
			}
			return found, done
		}
		sleeps, looks := 0, 0
		for {
			if found, done := look(); found {
				continue
			} else if done {
				break
			}
			for k := looks % 61; k > 0; k-- { // so that the two sides drift past each other
				Pause()
			}
			looks++
			token := d.Arm()
			if found, done := look(); !found && !done {
				sleeps++
				if err := d.Wait(token, watchdog); err != nil {
					found, done := look()
					t.Fatalf("%d producers: %v after %d sleeps; something to see: %v", producers, err, sleeps, found ||
						done)
				}
			}
			d.Disarm()
		}
		wg.Wait()
		t.Logf("%d producers: %d sleeps for %d looks in %v", producers, sleeps, looks, time.Since(start))
	}
}

func TestDoorbellAllocates(t *testing.T) {
	d := mustBell(t, mustHeap(t, DoorbellBytes).Body())
	if n := testing.AllocsPerRun(50, func() {
		d.Ring()
		d.RingAfterFence()
		token := d.Arm()
		if d.Wait(token, time.Microsecond) != ErrTimeout {
			t.Error("woken by nobody")
		}
		d.Ring()
		if d.Wait(token, time.Hour) != nil {
			t.Error("not woken")
		}
		d.Disarm()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Two processes: the child writes and rings, then is killed while the parent
// lives on, and the parent's wait for it ends by its timeout.
func TestProcessDeath(t *testing.T) {
	s := mustCreate(t, Config{Name: "death", Kind: testKind, Size: 1 << 16})
	d := mustBell(t, s.Body())
	token := d.Arm()
	cmd := startChild(t, "attach-and-ring", s.File())
	if err := d.Wait(token, watchdog); err != nil {
		t.Fatalf("the child didn't ring: %v: %s", err, cmd.Stderr)
	}
	d.Disarm()
	await(t, "the child's pattern", func() bool {
		return wordAt64(s.Body(), DoorbellBytes).Load() == 1
	})
	for i := 2 * DoorbellBytes; i < s.Size(); i++ {
		if s.Body()[i] != byte(i*7) {
			t.Fatalf("byte %d is %#x", i, s.Body()[i])
		}
	}
	token = d.Arm() // before the child dies: its death rings nothing
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the child ended by itself")
	}
	if err := d.Wait(token, 20*time.Millisecond); err != ErrTimeout {
		t.Fatalf("waiting for a dead process: %v", err)
	}
	d.Disarm()
	s.Body()[s.Size()-1] ^= 0xFF // still ours, and still whole
	mustAttach(t, s.File(), Want{Kind: testKind})
}

func childAttachAndRing() error {
	s, err := attachFile(3, Want{Kind: testKind, Size: 1 << 16})
	if err != nil {
		return err
	}
	d, err := OpenDoorbell(s.Body())
	if err != nil {
		return err
	}
	for i := 2 * DoorbellBytes; i < s.Size(); i++ {
		s.Body()[i] = byte(i * 7)
	}
	wordAt64(s.Body(), DoorbellBytes).Store(1)
	for {
		d.Ring()
		time.Sleep(time.Hour) // until it is killed
	}
}

// echoRounds is how often the two processes below wake each other.
const echoRounds = 300

// Two processes that both sleep wake each other in turn.
func TestProcessEcho(t *testing.T) {
	s := mustCreate(t, Config{Name: "echo", Kind: testKind, Size: 4 * DoorbellBytes})
	cmd := startChild(t, "echo", s.File())
	if err := echo(s.Body(), 0, echoRounds); err != nil {
		t.Fatalf("%v; the child: %s", err, cmd.Stderr)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, cmd.Stderr)
	}
}

func childEcho() error {
	s, err := attachFile(3, Want{Kind: testKind})
	if err != nil {
		return err
	}
	return echo(s.Body(), 1, echoRounds)
}

// echo plays one side (0 serves, 1 answers) of a ping-pong in which both sides
// sleep until it is their turn: bells at 0 and 1, counts at 2 and 3.
func echo(body []byte, side, rounds int) error {
	own, err := OpenDoorbell(body[side*DoorbellBytes:])
	if err != nil {
		return err
	}
	other, err := OpenDoorbell(body[(1-side)*DoorbellBytes:])
	if err != nil {
		return err
	}
	mine := wordAt64(body, (2+side)*DoorbellBytes)
	theirs := wordAt64(body, (3-side)*DoorbellBytes)
	for n := uint64(1); n <= uint64(rounds); n++ {
		if side == 0 {
			mine.Store(n)
			other.RingAfterFence()
		}
		for theirs.Load() != n {
			token := own.Arm()
			if theirs.Load() != n {
				if err := own.Wait(token, watchdog); err != nil {
					return fmt.Errorf("side %d, round %d: %w", side, n, err)
				}
			}
			own.Disarm()
		}
		if side == 1 {
			mine.Store(n)
			other.RingAfterFence()
		}
	}
	return nil
}

// Memory attached for reading can't be written, not even by mistake: the process
// that tries dies, and the memory is as it was.
func TestProcessReadOnly(t *testing.T) {
	s := mustCreate(t, Config{Name: "read-only", Kind: testKind, Size: 4096})
	binary.LittleEndian.PutUint64(s.Body(), 42)
	cmd := startChild(t, "write-read-only", s.File())
	err := cmd.Wait()
	if err == nil || cmd.ProcessState.ExitCode() == 1 {
		t.Fatalf("the child lived to say: %v %s", err, cmd.Stderr)
	}
	if v := binary.LittleEndian.Uint64(s.Body()); v != 42 {
		t.Fatalf("the memory now says %d", v)
	}
}

func childWriteReadOnly() error {
	s, err := attachFile(3, Want{Kind: testKind, ReadOnly: true})
	if err != nil {
		return err
	}
	if v := binary.LittleEndian.Uint64(s.Body()); v != 42 {
		return fmt.Errorf("read %d", v)
	}
	s.Body()[0] = 1
	return errors.New("wrote into memory mapped for reading")
}

// With WritableBytes the first page can be written, and nothing behind it.
func TestProcessPartlyReadOnly(t *testing.T) {
	page := os.Getpagesize()
	s := mustCreate(t, Config{Name: "partly", Kind: testKind, Size: 2 * page})
	cmd := startChild(t, "write-partly", s.File())
	err := cmd.Wait()
	if err == nil || cmd.ProcessState.ExitCode() == 1 {
		t.Fatalf("the child lived to say: %v %s", err, cmd.Stderr)
	}
	if s.Body()[page-1] != 7 || s.Body()[page] != 0 {
		t.Fatalf("the memory says %d and %d, want 7 and 0", s.Body()[page-1], s.Body()[page])
	}
	for _, want := range []Want{{Kind: testKind, WritableBytes: 1}, {Kind: testKind, ReadOnly: true, WritableBytes: -1},
		{Kind: testKind, ReadOnly: true, WritableBytes: 2*page + 1}} {
		if a, err := Attach(s.File(), want); err == nil {
			a.Close()
			t.Errorf("%+v: attached", want)
		}
	}
}

func childWritePartly() error {
	s, err := attachFile(3, Want{Kind: testKind, ReadOnly: true, WritableBytes: 1})
	if err != nil {
		return err
	}
	page := os.Getpagesize()
	s.Body()[page-1] = 7
	s.Body()[page] = 7
	return errors.New("wrote into memory mapped for reading")
}
