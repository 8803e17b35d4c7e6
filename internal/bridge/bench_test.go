// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/disco-sim/disco/internal/linktest"
	"github.com/disco-sim/disco/internal/session"
)

// Two machines in one process send each other events of some bytes, as fast as they can: the rate is that of both
// directions.
func BenchmarkEvents(b *testing.B) {
	for _, over := range []string{"pipes", "gRPC", "TLS"} {
		for _, size := range []int{40, 1000} {
			b.Run(fmt.Sprint(over, "/", size, " bytes"), func(b *testing.B) {
				k := kind{window: 1 << 20, dialler: pipes, blind: true}
				if over != "pipes" {
					k.dialler = func(n *network) func(way) (session.Conn, error) {
						dir := ""
						if over == "TLS" {
							dir = certificates(b)
						}
						join, _ := overGRPC(b, 2, dir, false)
						return join(n)
					}
				}
				o := linktest.Options{Workers: 2, RingBytes: 1 << 18, InlineMax: 4096, Parts: true}
				b.ReportAllocs()
				exchange(b, k, o, uint64(b.N), func(*rand.Rand) int { return size })
				b.ReportMetric(2*float64(b.N)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}
