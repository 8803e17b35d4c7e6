// SPDX-License-Identifier: Apache-2.0

package setting

import (
	"testing"

	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
