// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/disco-sim/disco/metastore"
)

// TestManyRestarts kills a server that is alone while it has much to apply again at its start, and to drop from its
// log then. It serves after each start, with everything that was written.
func TestManyRestarts(t *testing.T) {
	t.Parallel()
	z := start(t, 1)
	b, err := New(t.Context(), Options{Endpoints: z.Addrs()})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for round := range 15 {
		value := fmt.Append(nil, "j", round)
		for range 100 {
			ops := []metastore.Op{{Path: "/restarts", Do: metastore.Set, Value: value}}
			if err := b.Commit(t.Context(), nil, ops); err != nil {
				t.Fatal(err)
			}
		}
		z.Servers[0].Kill()
		if err := errors.Join(z.Servers[0].Start(), z.Servers[0].Ready(t.Context())); err != nil {
			t.Fatalf("start %d: %v", round+2, err)
		}
		if n, err := b.Get(t.Context(), "/restarts"); err != nil || !bytes.Equal(n.Value, value) {
			t.Fatalf("start %d: %q, %v; want %q", round+2, n.Value, err, value)
		}
	}
}
