// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Begun reports whether a run has begun to write its checkpoints there.
func Begun(ctx context.Context, b Blobs) (bool, error) {
	blobs, err := b.List(ctx, "")
	return slices.ContainsFunc(blobs, func(blob Blob) bool { return blob.Name == runName }), err
}

// newWait is how long Create waits for the run.json of a run that has the lock.
const newWait = 5 * time.Second

// lockNew is Lock where no run was. Of two that begin at once one has the lock: which run that is its run.json says, as
// soon as it is there.
func (r *Repo) lockNew(ctx context.Context) error {
	const look = 10 * time.Millisecond
	for end := time.Now().Add(newWait); ; {
		err := r.Lock(ctx)
		if locked := (*LockedError)(nil); !errors.As(err, &locked) {
			return err
		}
		if other := CheckNew(ctx, r.blobs); other != nil {
			return other
		}
		if time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(look):
		}
	}
}
