// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

// BlockSizeStats counts what happened to the blocks of one size since NewPool.
type BlockSizeStats struct {
	BlockSize
	Allocated   uint64 // loans
	Returned    uint64 // loans that Free and FreeFrom ended
	Reclaimed   uint64 // loans that ReclaimPeer and ReclaimAll ended
	InFlight    uint64 // loans now: Allocated - Returned - Reclaimed
	InFlightMax uint64 // most loans at a time
	Exhausted   uint64 // requests for this size that found no block
	Spilled     uint64 // requests for this size that were served by the next larger one
}

// PoolStats is a snapshot of a pool's counters: one entry a size, and the sums.
// The sum's BlockSize has the bytes of payload of all blocks together and their
// number; its InFlightMax is the sum of the sizes' own.
type PoolStats struct {
	BlockSizes []BlockSizeStats
	Total      BlockSizeStats
}

// Stats copies the counters. It allocates, so it belongs off the event path, to
// the goroutine that owns the pool.
func (p *Pool) Stats() PoolStats {
	s := PoolStats{BlockSizes: append([]BlockSizeStats(nil), p.stats...)}
	for _, c := range s.BlockSizes {
		s.Total.BlockBytes += c.BlockBytes * c.Count
		s.Total.Count += c.Count
		s.Total.Allocated += c.Allocated
		s.Total.Returned += c.Returned
		s.Total.Reclaimed += c.Reclaimed
		s.Total.InFlight += c.InFlight
		s.Total.InFlightMax += c.InFlightMax
		s.Total.Exhausted += c.Exhausted
		s.Total.Spilled += c.Spilled
	}
	return s
}

// InFlight is how many blocks are on loan now. It is cheap enough to be called now and
// then by the goroutine that owns the pool.
func (p *Pool) InFlight() (blocks uint64) {
	for i := range p.stats {
		blocks += p.stats[i].InFlight
	}
	return blocks
}
