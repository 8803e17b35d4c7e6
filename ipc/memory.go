// SPDX-License-Identifier: Apache-2.0

package ipc

import (
	"errors"
	"fmt"
	"os"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/shm"
)

// memory is what one sender and the receiver share, as one of the two has mapped it.
type memory struct {
	mem  *shm.Segment // the sender's doorbell and the lane
	pool *shm.Segment // nil: none
}

// createMemory makes and formats the memory of a sender.
func createMemory(name string, cfg *DialConfig) (m *memory, err error) {
	m = &memory{}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
			m = nil
		}
	}()
	var sizes []shm.BlockSize
	if !cfg.NoPool {
		if sizes, err = m.createPool(name, cfg); err != nil {
			return m, err
		}
	}
	size, err := egress.LaneBytes(cfg.RingBytes, sizes)
	if err != nil {
		return m, err
	}
	m.mem, err = shm.Create(shm.Config{Name: "ipc-lane-" + name, Kind: kindLane, Size: laneOffset + size,
		HugePages: cfg.HugePages})
	if err != nil {
		return m, err
	}
	return m, egress.FormatLane(m.lane(), cfg.RingBytes, sizes)
}

func (m *memory) createPool(name string, cfg *DialConfig) (sizes []shm.BlockSize, err error) {
	if sizes, err = shm.DefaultBlockSizes(cfg.PoolBytes, cfg.InlineMax+1); err != nil {
		return nil, err
	}
	size, err := shm.PoolBytes(sizes)
	if err != nil {
		return nil, err
	}
	m.pool, err = shm.Create(shm.Config{Name: "ipc-pool-" + name, Kind: shm.KindPool, Size: size,
		HugePages: cfg.HugePages})
	if err != nil {
		return nil, err
	}
	return sizes, shm.FormatPool(m.pool.Body(), sizes)
}

// hello describes the memory for the receiver.
func (m *memory) hello() (hello, []*os.File) {
	h := hello{files: 1, laneSize: uint64(m.mem.Size()), laneID: m.mem.ID()}
	files := []*os.File{m.mem.File()}
	if m.pool != nil {
		h.files, h.poolSize, h.poolID = 2, uint64(m.pool.Size()), m.pool.ID()
		files = append(files, m.pool.File())
	}
	return h, files
}

// attachMemory maps what a checked hello names.
func attachMemory(h *hello, files []*os.File) (*memory, error) {
	mem, err := shm.Attach(files[0], shm.Want{Kind: kindLane, Size: int(h.laneSize), ID: h.laneID})
	if err != nil {
		return nil, fmt.Errorf("%w: memory: %w", ErrRefused, err)
	}
	m := &memory{mem: mem}
	if h.poolSize != 0 {
		m.pool, err = shm.Attach(files[1], shm.Want{Kind: shm.KindPool, Size: int(h.poolSize), ID: h.poolID,
			ReadOnly: true})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%w: pool: %w", ErrRefused, err), m.close())
		}
	}
	return m, nil
}

// bell is the memory of the sender's doorbell.
func (m *memory) bell() []byte { return m.mem.Body()[:laneOffset:laneOffset] }

// lane is the memory of the lane.
func (m *memory) lane() []byte { return m.mem.Body()[laneOffset:] }

// poolBody is the memory of the pool, nil where there is none.
func (m *memory) poolBody() []byte {
	if m.pool == nil {
		return nil
	}
	return m.pool.Body()
}

func (m *memory) close() error {
	var errs []error
	for _, s := range []*shm.Segment{m.mem, m.pool} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}
