// SPDX-License-Identifier: Apache-2.0

package view

import (
	"testing"

	"github.com/disco-sim/disco/internal/helptest"
	"github.com/disco-sim/disco/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// TestExamples: the help of the command ends with command lines that are right.
func TestExamples(t *testing.T) { helptest.Check(t, Commands()) }
