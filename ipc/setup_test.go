// SPDX-License-Identifier: Apache-2.0

package ipc_test

import (
	"os"
	"testing"

	"github.com/disco-sim/disco/internal/ipctest"
	"github.com/disco-sim/disco/internal/leaktest"
	"github.com/disco-sim/disco/ipc"
)

// What the suite has for its tests.
const watchdog = ipctest.Limit

var (
	within     = ipctest.Within
	eventually = ipctest.Eventually
	newDir     = ipctest.NewDir
	mustListen = ipctest.Listen
	mustDial   = ipctest.Dial
	small      = ipctest.Small
	receive    = ipctest.Receive
	receiveEnd = ipctest.ReceiveEnd
	mappings   = ipctest.Mappings
)

// pair is a receiver and one sender to it, with little memory.
func pair(t testing.TB) (*ipc.Receiver, *ipc.Sender) {
	t.Helper()
	dir := newDir(t)
	r := mustListen(t, "pair", ipc.ListenConfig{Dir: dir})
	return r, mustDial(t, "pair", small(dir))
}

// openFiles counts the open files of this process.
func openFiles(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(list)
}

func TestMain(m *testing.M) {
	ipctest.Child()
	leaktest.Main(m)
}
