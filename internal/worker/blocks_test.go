// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"testing"
	"time"

	"github.com/disco-sim/disco/shm"
)

// readyBlocks waits until nothing is made ready any more, and returns how many blocks are.
func readyBlocks(m *blockMemory) int {
	m.helper.Wait()
	return int(m.readyBytes() / blockBytes)
}

// TestBlockMemory: blocks that were made ready are used first, no two users have the same memory, what is made ready
// ends when it is told to, and all is given back.
func TestBlockMemory(t *testing.T) {
	var m blockMemory
	defer m.free()
	m.makeReady(3)
	if n := readyBlocks(&m); n != 3 {
		t.Fatalf("%d blocks are ready, want 3", n)
	}
	m.makeReady(2) // there are more
	if n := readyBlocks(&m); n != 3 || len(m.mapped) != 3 {
		t.Errorf("%d blocks are ready, want the 3 that were", n)
	}
	var all [][]byte
	for range 5 {
		all = append(all, m.block())
	}
	if n := readyBlocks(&m); n != 0 || len(m.mapped) != 5 {
		t.Errorf("%d blocks are ready and %d mapped, want 0 and 5", n, len(m.mapped))
	}
	for range 2 * blockBytes / (1 << 20) {
		all = append(all, m.part(1<<20), m.part(64<<10))
	}
	for i, b := range all {
		for at := 0; at < len(b); at += 4096 {
			b[at] = byte(i + 1)
		}
	}
	for i, b := range all {
		for at := 0; at < len(b); at += 4096 {
			if b[at] != byte(i+1) {
				t.Fatalf("memory %d has what was written to %d", i, b[at]-1)
			}
		}
	}
	m.enough.Store(true)
	m.makeReady(1 << 20) // 16 TiB, which the end comes before
	m.rest()
	m.free()
	if len(m.mapped)+len(m.ready)+len(m.left)+m.blocks != 0 || m.refused {
		t.Errorf("behind the end there is memory: %+v", m.mapped)
	}
}

// TestRoomOf: what a worker may take is what the launcher says; where it is to find out itself, half of its share of
// what its machine has left behind what all workers there are expected to take.
func TestRoomOf(t *testing.T) {
	left := shm.AvailableBytes()
	for _, c := range []struct {
		setup Setup
		room  int64
		want  int64
	}{
		{Setup{Workers: 2}, 0, 0},
		{Setup{Workers: 2}, 1000, 1000},
		{Setup{Workers: 2}, OwnRoom, left / 4},
		{Setup{Workers: 4, Worker: 1, Machine: []int32{0, 0, 0, 1}}, OwnRoom, left / 6},
		{Setup{Workers: 4, Worker: 3, Machine: []int32{0, 0, 0, 1}}, OwnRoom, left / 2},
		{Setup{Workers: 4, Worker: 3, Machine: []int32{0, 0, 0, 1}, HeapBytes: left / 2}, OwnRoom, left / 4},
		{Setup{Workers: 4, Worker: 3, Machine: []int32{0, 0, 0, 1}, HeapBytes: 2 * left}, OwnRoom, 0},
	} {
		// What is left changes meanwhile.
		if got := c.setup.roomOf(&Prepare{Room: c.room}); got < c.want*9/10 || got > c.want*11/10 {
			t.Errorf("%+v, room %d: found %d, want about %d", c.setup, c.room, got, c.want)
		}
	}
}

// TestMadeReady: before the first checkpoint of a replication memory is made ready for it as far as there is room, and
// not where that would be given back, where it takes next to nothing, and behind it.
func TestMadeReady(t *testing.T) {
	e, plan := oneEngine(t, few(64), make([]int32, 64), 0, nil)
	k := newCommitter(t, 64)
	s := k.saver(plan, 300)
	now := time.Unix(0, 0)
	s.now = func() time.Time { return now }
	states := func(bytes int) { s.model.NodeBytes = bytes * 2 / len(s.nodes) }
	ready := func(what string, want int) {
		t.Helper()
		now = now.Add(2 * readyMost)
		s.ready(e)
		if n := readyBlocks(&s.memory); n != want {
			t.Errorf("%s: %d blocks are ready, want %d", what, n, want)
		}
	}
	runUntil(t, e, 5)
	states(5 * blockBytes / 2)
	ready("where nothing is known", 0)
	s.reset(3 * keptShare * blockBytes)
	s.ready(e)
	if n := readyBlocks(&s.memory); n != 0 {
		t.Errorf("%d blocks are ready before the first look", n)
	}
	states(100)
	ready("with a small state", 0)
	states(3 * blockBytes) // and what is pending
	ready("with a state that is too large", 0)
	states(5 * blockBytes / 2)
	ready("with a large state", 3)
	states(blockBytes)
	ready("with a smaller one", 3)
	save(t, s, e, &Save{Epoch: 5, Room: 1 << 40})
	k.commit(5)
	used := s.memory.blocks
	states(5 * blockBytes / 2)
	ready("behind a checkpoint", 3-used)
	if used == 0 || len(s.memory.mapped) != 3 {
		t.Errorf("of %d blocks a checkpoint has taken %d, want some of those that were ready", len(s.memory.mapped),
			used)
	}
}
