// SPDX-License-Identifier: Apache-2.0

package checkpoint_test

import (
	"os"
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) {
	if os.Getenv(childDir) != "" {
		child()
	}
	leaktest.Main(m)
}
