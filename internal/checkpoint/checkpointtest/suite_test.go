// SPDX-License-Identifier: Apache-2.0

package checkpointtest

import (
	"testing"

	"github.com/disco-sim/disco/internal/checkpoint"
	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func TestMem(t *testing.T) { Run(t, func(*testing.T) checkpoint.Blobs { return NewMem() }) }

func TestDir(t *testing.T) {
	Run(t, func(t *testing.T) checkpoint.Blobs { return checkpoint.NewDir(t.TempDir()) })
}
