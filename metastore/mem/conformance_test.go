// SPDX-License-Identifier: Apache-2.0

package mem

import (
	"testing"
	"time"

	"github.com/disco-sim/disco/metastore"
	"github.com/disco-sim/disco/metastore/storetest"
)

// engine is a server of its own.
func engine(testing.TB, bool) storetest.Engine {
	server := NewServer(100 * time.Millisecond)
	return storetest.Engine{
		New:        func(testing.TB) metastore.Backend { return server.NewClient() },
		Disconnect: func(_ testing.TB, c metastore.Backend) { c.(*Client).Disconnect() },
		Reconnect:  func(_ testing.TB, c metastore.Backend) { c.(*Client).Reconnect() },
		Expire:     func(_ testing.TB, c metastore.Backend) { c.(*Client).EndSession() },
		Servers:    1,
		Kill:       func(testing.TB, int) { server.Stop() },
		Restart:    func(testing.TB, int) { server.Start() },
		Pause:      func(testing.TB, int) { server.Stop() },
		Continue:   func(testing.TB, int) { server.Start() },
	}
}

func TestConformance(t *testing.T) { storetest.Run(t, engine) }
