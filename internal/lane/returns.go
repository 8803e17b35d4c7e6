// SPDX-License-Identifier: Apache-2.0

package lane

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/disco-sim/disco/ring"
)

// Return hands one block back to the sender's pool: its number and the loan number
// that came with it. It is visible to the sender at once.
//
// The return ring has room for every block of the pool, so it can be full only when the peer has lent a block twice
// without getting it back: ErrProtocol. If the sender has closed its side, Return fails with ErrClosed.
func (r *Receiver) Return(number uint32, seq uint64) error {
	rec, err := r.returns.Claim(returnBytes)
	switch {
	case err == nil:
	case errors.Is(err, ring.ErrFull):
		return fmt.Errorf("%w: the return ring for %d blocks is full: blocks were lent more often than returned",
			ErrProtocol, r.cfg.ReturnBlocks)
	case errors.Is(err, ring.ErrCorrupt):
		return fmt.Errorf("%w: return ring: %w", ErrProtocol, err)
	default:
		return err
	}
	binary.LittleEndian.PutUint64(rec, uint64(number))
	binary.LittleEndian.PutUint64(rec[8:], seq)
	r.returns.Commit()
	r.returns.Publish()
	return nil
}

// Returned gives the next block that came back, ok false when there is none. The values come from the peer: the
// pool checks number, holder and seq. After a run of calls ReleaseReturned gives the ring's room back.
func (s *Sender) Returned() (number uint32, seq uint64, ok bool, err error) {
	rec, err := s.returns.Next()
	if rec == nil {
		if errors.Is(err, ring.ErrCorrupt) {
			err = fmt.Errorf("%w: return ring: %w", ErrProtocol, err)
		}
		return 0, 0, false, err
	}
	if len(rec) != returnBytes {
		return 0, 0, false, fmt.Errorf("%w: returned block in a record of %d bytes, want %d", ErrProtocol, len(rec),
			returnBytes)
	}
	word := binary.LittleEndian.Uint64(rec)
	if word >= uint64(s.cfg.ReturnBlocks) {
		return 0, 0, false, fmt.Errorf("%w: block %d returned, but the pool has %d", ErrProtocol, word,
			s.cfg.ReturnBlocks)
	}
	return uint32(word), binary.LittleEndian.Uint64(rec[8:]), true, nil
}

// ReleaseReturned gives the room of all blocks seen by Returned back to the peer.
// It must be called before one of them is lent again.
func (s *Sender) ReleaseReturned() { s.returns.Release() }

// ReturnsPending reports whether Returned would return a block or an error.
func (s *Sender) ReturnsPending() bool { return s.returns.Pending() }
