// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/perf/bench"
	"github.com/disco-sim/disco/shm"
)

const kindMachine shm.Kind = 'b' | 'n'<<8 | 'c'<<16 | 'm'<<24

// What stands in front of the lanes: doorbells.
const (
	bellWorker = iota // that the worker sleeps on
	bellPump          // that the bridge's pump sleeps on
	bellOver          // rung by the worker when it has ended
	bells
)

// memory is what the worker and the bridge of a machine share. The bridge makes it.
type memory struct {
	words *shm.Segment // doorbells, and the lanes from and to the worker
	lanes [2][]byte
	pools [2]*shm.Segment // the worker's, and the bridge's for what comes from the other machine; nil: none
}

// share says where the other side finds a segment.
type share struct {
	FD   uintptr
	Size int
	ID   uint64
}

// place is where it finds all of them.
type place struct {
	PID  int
	List []share
}

// inlineMax is the largest payload that travels inside the ring, as in a run of disco-run.
func inlineMax(ring int) int { return min(64<<10, ring/8) }

// blocks are the sizes of a pool; nil: none is needed.
func blocks(t *bench.Task) []shm.BlockSize {
	if t.Payload <= inlineMax(t.Ring) {
		return nil
	}
	return []shm.BlockSize{{BlockBytes: t.Payload, Count: 8}}
}

// laneBytes is what a lane takes, in multiples of what it has to start at.
func laneBytes(t *bench.Task) (int, error) {
	n, err := egress.LaneBytes(t.Ring, blocks(t))
	return (n + shm.DoorbellBytes - 1) / shm.DoorbellBytes * shm.DoorbellBytes, err
}

// makeMemory makes it.
func makeMemory(t *bench.Task) (m *memory, err error) {
	m = &memory{}
	defer func() {
		if err != nil {
			m.close()
		}
	}()
	size, err := laneBytes(t)
	if err != nil {
		return nil, err
	}
	m.words, err = shm.Create(shm.Config{Name: fmt.Sprintf("bench-machine-%d", t.Pair), Kind: kindMachine,
		Size: bells*shm.DoorbellBytes + 2*size})
	if err != nil {
		return nil, err
	}
	m.cut(size)
	for _, l := range m.lanes {
		if err = egress.FormatLane(l, t.Ring, blocks(t)); err != nil {
			return nil, err
		}
	}
	sizes := blocks(t)
	if sizes == nil {
		return m, nil
	}
	poolSize, err := shm.PoolBytes(sizes)
	if err != nil {
		return nil, err
	}
	for i := range m.pools {
		m.pools[i], err = shm.Create(shm.Config{Name: fmt.Sprintf("bench-pool-%d-%d", t.Pair, i), Kind: shm.KindPool,
			Size: poolSize})
		if err == nil {
			err = shm.FormatPool(m.pools[i].Body(), sizes)
		}
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *memory) cut(laneBytes int) {
	rest := m.words.Body()[bells*shm.DoorbellBytes:]
	m.lanes = [2][]byte{rest[:laneBytes:laneBytes], rest[laneBytes : 2*laneBytes]}
}

// address is that of the bridge's side in the worker's task.
func (m *memory) address() (string, error) {
	p := place{PID: os.Getpid()}
	for _, s := range []*shm.Segment{m.words, m.pools[0], m.pools[1]} {
		if s != nil {
			p.List = append(p.List, share{s.File().Fd(), s.Size(), s.ID()})
		}
	}
	text, err := json.Marshal(p)
	return string(text), err
}

// attachMemory maps what the bridge has made.
func attachMemory(t *bench.Task) (m *memory, err error) {
	var p place
	if err := json.Unmarshal([]byte(t.Address), &p); err != nil {
		return nil, fmt.Errorf("machines: the address %q of a bridge's memory: %w", t.Address, err)
	}
	m = &memory{}
	kinds := []shm.Kind{kindMachine, shm.KindPool, shm.KindPool}
	for i, to := range []**shm.Segment{&m.words, &m.pools[0], &m.pools[1]} {
		if i < len(p.List) {
			if *to, err = attach(p.PID, p.List[i], kinds[i]); err != nil {
				m.close()
				return nil, err
			}
		}
	}
	size, err := laneBytes(t)
	if err != nil || m.words == nil || m.words.Size() < bells*shm.DoorbellBytes+2*size {
		m.close()
		return nil, errors.Join(errors.New("machines: found too little memory for two lanes"), err)
	}
	m.cut(size)
	return m, nil
}

func attach(pid int, s share, kind shm.Kind) (*shm.Segment, error) {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/%d", pid, s.FD), os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("machines: memory of a bridge: %w", err)
	}
	defer f.Close()
	return shm.Attach(f, shm.Want{Kind: kind, Size: s.Size, ID: s.ID})
}

// bell opens one of the doorbells.
func (m *memory) bell(which int) (*shm.Doorbell, error) {
	return shm.OpenDoorbell(m.words.Body()[which*shm.DoorbellBytes : (which+1)*shm.DoorbellBytes])
}

// body is the memory of a pool.
func body(s *shm.Segment) []byte {
	if s == nil {
		return nil
	}
	return s.Body()
}

func (m *memory) close() {
	for _, s := range []*shm.Segment{m.words, m.pools[0], m.pools[1]} {
		if s != nil {
			_ = s.Close()
		}
	}
}
