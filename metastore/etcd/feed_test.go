// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"testing"
)

// TestFeedEndsOnce: a feed whose client has ended is closed when it tells of it for the last time, even where the end
// hasn't come to the feed yet: contexts that are made of another one end after it.
func TestFeedEndsOnce(t *testing.T) {
	b := &Backend{}
	b.identity.init(t.Context())
	b.ended, b.end = context.WithCancel(t.Context())
	b.end()
	f := &feed{backend: b, path: "/a", wake: make(chan struct{}, 1)}
	f.closed, f.close = context.WithCancel(t.Context())
	told, closed := false, false
	f.notify = func() { told, closed = true, f.closed.Err() != nil }
	f.run()
	if !told || !closed {
		t.Errorf("told: %v, and closed by then: %v", told, closed)
	}
}
