// SPDX-License-Identifier: Apache-2.0

package supply

import (
	"encoding/binary"
	"fmt"
	"math"
)

// What a point counts after the warm-up, in the order of its report.
const (
	demanded   = iota // units asked for
	filled            // given at once
	lostUnits         // never given
	given             // handed over, at once or later
	received          // units that arrived
	ordered           // units ordered
	orders            // times that something was
	thrown            // units
	cycles            // arrivals
	goodCycles        // before which all was met since the one before
	stockTime         // units on hand × time
	owedTime          // units owed × time
	orderTime         // units on order × time
	readyTime         // time with something on hand
	periods           // whole ones
	orders1           // units ordered in them
	orders2           // squares of that
	demand1           // units asked for in them
	demand2           // squares of that
	sumFields
)

// sums are those of one point.
type sums [sumFields]float64

// reportBytes is a point's part of the report of its location.
const reportBytes = 8 * sumFields

func (s *sums) append(b []byte) []byte {
	for _, x := range s {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}

// readSums reads the sums of point k of a report.
func readSums(report []byte, k int) (s sums, err error) {
	for f := range s {
		s[f] = math.Float64frombits(binary.LittleEndian.Uint64(report[reportBytes*k+8*f:]))
		if !(math.Abs(s[f]) <= math.MaxFloat64) {
			return s, fmt.Errorf("sum %d of point %d is %v, want a finite number", f, k, s[f])
		}
	}
	return s, nil
}
