// SPDX-License-Identifier: Apache-2.0

package metastore

import (
	"context"
	"errors"
	"testing"
)

// TestPause: no wait that is over lets a call go on whose context has ended, however short the wait was.
func TestPause(t *testing.T) {
	why := errors.New("given up")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	for range 200_000 { // of which some wait for so short a time that it is over at once
		if err := pause(ctx, 0); !errors.Is(err, why) {
			t.Fatalf("found %v, want %v", err, why)
		}
	}
}
