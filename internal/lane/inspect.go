// SPDX-License-Identifier: Apache-2.0

package lane

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/disco-sim/disco/ring"
)

// Status is the state of a lane, as its words in memory show it.
type Status struct {
	Epoch   float64     // of the newest bound
	Level   uint32      // of the same, or of the one after it
	Forward ring.Status // envelopes, from the sender to the receiver
	Return  ring.Status // blocks that were read, from the receiver to the sender
}

// Inspect reads the status of a lane from outside, for display: of a live one, whose words move while they are
// read, or of one whose workers have died. It only loads, so read-only memory is enough, and checks what it finds.
// It fails with ErrFormat when body is not a lane.
func Inspect(body []byte) (Status, error) {
	ctl, cfg, err := attach(body)
	if err != nil {
		return Status{}, err
	}
	forward, back := rings(body, cfg)
	s := Status{
		Epoch: math.Float64frombits(atomic.LoadUint64(&ctl.promise.epochBits)),
		Level: uint32(atomic.LoadUint64(&ctl.promise.levelAt)),
	}
	if s.Forward, err = ring.Inspect(forward); err != nil {
		return Status{}, fmt.Errorf("%w: forward ring: %w", ErrFormat, err)
	}
	if s.Return, err = ring.Inspect(back); err != nil {
		return Status{}, fmt.Errorf("%w: return ring: %w", ErrFormat, err)
	}
	return s, nil
}
