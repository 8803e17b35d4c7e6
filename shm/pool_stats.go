// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package shm

// ClassStats counts what happened to the blocks of one class since NewPool.
type ClassStats struct {
	Class
	Allocated   uint64 // loans
	Returned    uint64 // loans that Free and FreeFrom ended
	Reclaimed   uint64 // loans that ReclaimPeer and ReclaimAll ended
	InFlight    uint64 // loans now: Allocated - Returned - Reclaimed
	InFlightMax uint64 // most loans at a time
	Exhausted   uint64 // requests of this class's size that found no block
	Spilled     uint64 // requests of this class's size that the next class served
}

// PoolStats is a snapshot of a pool's counters: one entry a class, and the sums.
// The sum's Class has the bytes of payload of all blocks together and their
// number; its InFlightMax is the sum of the classes' own.
type PoolStats struct {
	Classes []ClassStats
	Total   ClassStats
}

// Stats copies the counters. It allocates, so it belongs off the event path, to
// the goroutine that owns the pool.
func (p *Pool) Stats() PoolStats {
	s := PoolStats{Classes: append([]ClassStats(nil), p.stats...)}
	for _, c := range s.Classes {
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

// InFlight is how many blocks are on loan now. It is cheap enough for a look every now
// and then by the goroutine that owns the pool.
func (p *Pool) InFlight() (blocks uint64) {
	for i := range p.stats {
		blocks += p.stats[i].InFlight
	}
	return blocks
}
