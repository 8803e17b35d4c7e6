// SPDX-License-Identifier: Apache-2.0

package ipc

import (
	"errors"
	"fmt"
	"os"

	"github.com/disco-sim/disco/egress"
	"github.com/disco-sim/disco/shm"
)

// link is the memory between one sender and the receiver, as one of the two has
// mapped it.
type link struct {
	mem  *shm.Segment // the sender's doorbell and the lane
	pool *shm.Segment // nil: none
}

// createLink makes and formats the memory that a sender brings along.
func createLink(name string, cfg *DialConfig) (l *link, err error) {
	l = &link{}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
			l = nil
		}
	}()
	var classes []shm.BlockSize
	if !cfg.NoPool {
		if classes, err = l.createPool(name, cfg); err != nil {
			return l, err
		}
	}
	size, err := egress.LaneBytes(cfg.RingBytes, classes)
	if err != nil {
		return l, err
	}
	l.mem, err = shm.Create(shm.Config{Name: "ipc-link-" + name, Kind: kindLink, Size: laneOffset + size, HugePages: cfg.HugePages})
	if err != nil {
		return l, err
	}
	return l, egress.FormatLane(l.lane(), cfg.RingBytes, classes)
}

func (l *link) createPool(name string, cfg *DialConfig) (classes []shm.BlockSize, err error) {
	if classes, err = shm.DefaultBlockSizes(cfg.PoolBytes, cfg.InlineMax+1); err != nil {
		return nil, err
	}
	size, err := shm.PoolBytes(classes)
	if err != nil {
		return nil, err
	}
	l.pool, err = shm.Create(shm.Config{Name: "ipc-pool-" + name, Kind: shm.KindPool, Size: size, HugePages: cfg.HugePages})
	if err != nil {
		return nil, err
	}
	return classes, shm.FormatPool(l.pool.Body(), classes)
}

// hello says what the link consists of.
func (l *link) hello() (hello, []*os.File) {
	h := hello{files: 1, linkSize: uint64(l.mem.Size()), linkID: l.mem.ID()}
	files := []*os.File{l.mem.File()}
	if l.pool != nil {
		h.files, h.poolSize, h.poolID = 2, uint64(l.pool.Size()), l.pool.ID()
		files = append(files, l.pool.File())
	}
	return h, files
}

// attachLink maps what a checked hello names.
func attachLink(h *hello, files []*os.File) (*link, error) {
	mem, err := shm.Attach(files[0], shm.Want{Kind: kindLink, Size: int(h.linkSize), ID: h.linkID})
	if err != nil {
		return nil, fmt.Errorf("%w: link: %w", ErrRefused, err)
	}
	l := &link{mem: mem}
	if h.poolSize != 0 {
		l.pool, err = shm.Attach(files[1], shm.Want{Kind: shm.KindPool, Size: int(h.poolSize), ID: h.poolID, ReadOnly: true})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%w: pool: %w", ErrRefused, err), l.close())
		}
	}
	return l, nil
}

// bell is the memory of the sender's doorbell.
func (l *link) bell() []byte { return l.mem.Body()[:laneOffset:laneOffset] }

// lane is the memory of the lane.
func (l *link) lane() []byte { return l.mem.Body()[laneOffset:] }

// poolBody is the memory of the pool, nil where there is none.
func (l *link) poolBody() []byte {
	if l.pool == nil {
		return nil
	}
	return l.pool.Body()
}

func (l *link) close() error {
	var errs []error
	for _, s := range []*shm.Segment{l.mem, l.pool} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}
