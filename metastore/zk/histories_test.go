// SPDX-License-Identifier: Apache-2.0

package zk

import (
	"testing"

	"github.com/disco-sim/disco/metastore/storetest"
)

func TestHistories(t *testing.T) {
	t.Run("OneServer", func(t *testing.T) { storetest.RunHistories(t, engine(start(t, 1))) })
	t.Run("ThreeServers", func(t *testing.T) {
		if testing.Short() {
			t.Skip("one server is enough for a short test")
		}
		storetest.RunHistories(t, engine(start(t, 3)))
	})
}
