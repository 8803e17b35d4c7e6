// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"os"
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
)

// The other sides of pairs are processes of this test binary.
func TestMain(m *testing.M) {
	if IsWorker() {
		os.Exit(ServeWorker(append(Jobs(), testJobs()...)))
	}
	leaktest.Main(m)
}
