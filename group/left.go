// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/disco-sim/disco/internal/bridge/offer"
	"github.com/disco-sim/disco/internal/child"
)

// open offers the run to all machines. One that goes back goes on over those that are left: machines that have it still
// are asked again until they must have ended it, and those that don't take it are left out.
func (j *joiner) open(ctx context.Context, what *offer.Offer) error {
	patience := time.Now().Add(j.begin.PeerTimeout + j.begin.Window + j.begin.ConnectTimeout)
	for {
		_, _ = rand.Read(what.Run[:]) // never fails
		_, _ = rand.Read(what.Token[:])
		limited, cancel := j.limited(ctx)
		run, err := offer.Open(limited, j.targets, *what, j.security)
		cancel()
		if err == nil {
			j.run = run
			return nil
		}
		var failures offer.OpenError
		if !j.call.Bool(child.LeftFlag) || !errors.As(err, &failures) || ctx.Err() != nil {
			return err
		}
		if over := time.Now().After(patience); !j.leaveOut(failures, over) && over {
			return fmt.Errorf("no machine is left: %w", err)
		}
		select {
		case <-time.After(askAgain):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// askAgain is how long a machine that doesn't take the run yet isn't asked.
const askAgain = 200 * time.Millisecond

// leaveOut leaves out the machines that don't take the run, but for those that may have it still, unless that is over.
// It reports false, and leaves none out, where none would be left.
func (j *joiner) leaveOut(failures offer.OpenError, over bool) bool {
	var left []offer.Target
	var notes []string
	for i, err := range failures {
		var r *offer.RefusedError
		holds := errors.As(err, &r) && (r.Code == offer.CodeName || r.Code == offer.CodeSlots)
		if err == nil || holds && !over {
			left = append(left, j.targets[i])
		} else {
			notes = append(notes, fmt.Sprintf("%s is left out: %v", j.targets[i].Name, err))
		}
	}
	if len(left) == 0 {
		return false
	}
	for _, text := range notes {
		j.to.Note(text)
	}
	j.targets = left
	return true
}
