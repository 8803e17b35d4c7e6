// SPDX-License-Identifier: Apache-2.0

// Package seed gives tests random seeds that can be replayed.
//
// Guarantee: every test that fails prints its seed, and with DISCO_SEED in the environment each of them takes that one.
//
//	rng := seed.Rand(t)
package seed

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Of is the seed of a test: the environment's, or a new one.
func Of(t testing.TB) uint64 {
	seed := rand.Uint64()
	if s, err := strconv.ParseUint(os.Getenv("DISCO_SEED"), 0, 64); err == nil {
		seed = s
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("replay with DISCO_SEED=%#x", seed)
		}
	})
	return seed
}

// Rand is a generator with the seed of a test.
func Rand(t testing.TB) *rand.Rand { return rand.New(rand.NewPCG(Of(t), 1)) }
