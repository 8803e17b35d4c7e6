// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"

	"github.com/disco-sim/disco/metastore/storetest"
)

func TestStore(t *testing.T) {
	t.Run("OneServer", func(t *testing.T) { storetest.RunStore(t, engine(t, 1, false)) })
	t.Run("ThreeServers", func(t *testing.T) {
		if testing.Short() {
			t.Skip("one server is enough for a short test")
		}
		storetest.RunStore(t, engine(t, 3, true))
	})
}

func TestHistories(t *testing.T) {
	t.Run("OneServer", func(t *testing.T) { storetest.RunHistories(t, engine(t, 1, false)) })
	t.Run("ThreeServers", func(t *testing.T) {
		if testing.Short() {
			t.Skip("one server is enough for a short test")
		}
		storetest.RunHistories(t, engine(t, 3, true))
	})
}
