// SPDX-License-Identifier: Apache-2.0

package ring_test

import (
	"testing"

	"github.com/disco-sim/disco/ring"
)

// A ring of CapacityFor is never full of so many records, however many its consumer has waited for before: those that
// are published alone may take a line each.
func TestCapacityFor(t *testing.T) {
	for _, records := range []int{0, 1, 2, 29, 84, 85, 117, 256, 257, 258, 700} {
		for _, length := range []int{0, 8, 16, 100, 248, 300, 1000, 4080, 4100} {
			capacity := ring.CapacityFor(records, length)
			for before := 0; before < 600; before += 1 + before/7 {
				p, c := open(t, capacity, uint64(before)*8)
				publish := func() error {
					_, err := p.Claim(length)
					if err == nil {
						p.Commit()
						p.Publish()
					}
					return err
				}
				for i := range min(before, 1000*records) { // the consumer waits for each
					if err := publish(); err != nil {
						t.Fatal(err)
					}
					if _, err := c.Next(); err != nil {
						t.Fatal(err)
					}
					if i%2 == 0 || i > before/2 || records == 1 {
						c.Release()
					}
				}
				c.Release()
				for i := range records {
					if err := publish(); err != nil {
						t.Fatalf("record %d of %d of %d bytes, after %d, in a ring of %d bytes: %v", i, records, length,
							before, capacity, err)
					}
				}
			}
		}
	}
}
